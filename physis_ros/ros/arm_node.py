#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The simulated arm, see :class:`physis_ros.ros.arm.ArmNode`: ``ros2 run physis_ros arm_node``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from physis_ros.ros.signals import Stop


def main(args: Sequence[str] | None = None) -> int:
    """Run the node until a signal and return the exit code."""
    # Before the imports, which take a second: Ctrl-C is clean from here on.
    stop = Stop.installed()
    from physis_ros.ros.arm import ArmNode
    from physis_ros.ros.process import run

    return run('arm', ArmNode, stop, args)


if __name__ == '__main__':
    sys.exit(main())
