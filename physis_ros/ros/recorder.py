#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The recorder, see :class:`physis_ros.ros.recording.Recorder`, as a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from physis_ros.ros.signals import Stop


def main(args: Sequence[str] | None = None) -> int:
    """Record until a signal, finish the file, return the exit code."""
    stop = Stop.installed()
    import rclpy
    from rclpy.signals import SignalHandlerOptions
    from setproctitle import setproctitle

    from physis_ros.errors import PhysisError
    from physis_ros.ros.recording import Recorder

    setproctitle('physis: recorder')
    full = None if args is None else [sys.argv[0], *args]
    rclpy.init(args=full, signal_handler_options=SignalHandlerOptions.NO)
    try:
        recorder = Recorder()
        stop.arm()
        recorder.record(stop)
    except PhysisError as error:
        sys.stderr.write(f'recorder: {error}\n')
        return 2
    finally:
        stop.finish()
        rclpy.try_shutdown()
    return 0


if __name__ == '__main__':
    sys.exit(main())
