# SPDX-License-Identifier: Apache-2.0
"""``physis mend``: a torn recording made whole."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from physis_ros.errors import BagError


def add_mend_parser(commands: Any) -> None:
    """Add ``mend``."""
    command = commands.add_parser('mend', help='make a recording readable whose recorder died')
    command.add_argument('file', type=Path, metavar='FILE', help='an .mcap file; changed in place')
    command.set_defaults(run=mend)


def mend(args: argparse.Namespace) -> int:
    """Mend a torn file in place."""
    from physis_ros.evaluation.mend import mend as cut_off

    if not args.file.is_file():
        raise BagError(f'recording must exist, got {args.file}')
    cut = cut_off(args.file)
    print(f'{args.file}: {f"cut {cut} torn bytes off" if cut else "is whole"}')
    return 0
