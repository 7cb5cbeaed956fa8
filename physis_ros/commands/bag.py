# SPDX-License-Identifier: Apache-2.0
"""The recording that commands read."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_bag(command: argparse.ArgumentParser) -> None:
    """Add the recording to read."""
    command.add_argument(
        'bag', type=Path, metavar='BAG', help='rosbag2 folder, .mcap or .db3, or a demo output'
    )
