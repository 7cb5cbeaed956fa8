#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The player, see :class:`physis_ros.ros.servo.ServoNode`: ``ros2 run physis_ros servo_node``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from physis_ros.ros.signals import Stop


def main(args: Sequence[str] | None = None) -> int:
    """Run the node until a signal and return the exit code."""
    # Before the imports, which take a second: Ctrl-C is clean from here on.
    stop = Stop.installed()
    from physis_ros.ros.process import run
    from physis_ros.ros.servo import ServoNode

    return run('servo', ServoNode, stop, args)


if __name__ == '__main__':
    sys.exit(main())
