#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
``./run demo``: the arm under the model in closed loop; figures, report and recording at the end.

Exit code 0 when all episodes ran, every node ended well and everything was written, and after
Ctrl-C; 2 when it was refused before anything started; 1 when something broke.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from physis_ros.ros.signals import Stop


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; imports wait for the handlers, so that Ctrl-C is always clean."""
    stop = Stop.installed()
    from setproctitle import setproctitle

    from physis_ros.errors import PhysisError
    from physis_ros.ros import demo_options

    setproctitle('physis: demo')
    try:
        options = demo_options.parse(arguments)
        from physis_ros.ros import demo_preflight

        ready = demo_preflight.check(options)
    except PhysisError as error:
        print(f'demo: {error}', file=sys.stderr)
        return 2
    from physis_ros.ros import demo_result

    return demo_result.run(options, ready, stop)


if __name__ == '__main__':
    sys.exit(main())
