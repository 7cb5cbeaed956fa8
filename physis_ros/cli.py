#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
``physis``: the command line. Starts fast: each command imports what it needs when it runs.

Errors of this package are one line and exit code 2.
"""

from __future__ import annotations

import os
import sys

if __name__ == '__main__' and sys.path[0] == os.path.dirname(os.path.realpath(__file__)):
    # Run as a file, to which an installed program may be a link: without this, modules beside it
    # come before those of Python that have the same name, as types.py does.
    del sys.path[0]

import argparse
from collections.abc import Sequence

from physis_ros import __version__
from physis_ros.commands.account import add_account_parser
from physis_ros.commands.mend import add_mend_parser
from physis_ros.commands.parameters import add_parameters_parser
from physis_ros.commands.plan import add_plan_parser
from physis_ros.commands.profile import add_profile_parser
from physis_ros.commands.report import add_report_parser
from physis_ros.commands.top import add_top_parser
from physis_ros.errors import PhysisError
from physis_ros.evaluation.pool.command import add_simulate_parser

REFUSED = 2
TRAIN = 'train-reach'
# Where the package to install is not called as its module.
PACKAGES = {'cv2': 'opencv-python-headless', 'PIL': 'pillow', 'yaml': 'pyyaml'}
COMMANDS = (
    add_report_parser,
    add_account_parser,
    add_mend_parser,
    add_profile_parser,
    add_plan_parser,
    add_simulate_parser,
    add_top_parser,
    add_parameters_parser,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        args = parser(training=TRAIN in given).parse_args(given)
        return int(args.run(args))
    except PhysisError as error:
        print(f'physis: {error}', file=sys.stderr)
        return REFUSED
    except ModuleNotFoundError as error:
        if (error.name or 'physis_ros').startswith('physis_ros'):
            raise
        module = str(error.name).partition('.')[0]
        package = PACKAGES.get(module, module)
        print(f'physis: this needs {package}, which is not installed', file=sys.stderr)
        return REFUSED
    except BrokenPipeError:
        # Whoever read our output has had enough.
        sys.stderr.close()
        return 0
    except OSError as error:
        if error.filename is None:
            raise
        # A full disk, a file without rights: the user's to mend.
        print(f'physis: {error.strerror}: {error.filename}', file=sys.stderr)
        return REFUSED


def parser(training: bool = False) -> argparse.ArgumentParser:
    """
    Return the parser.

    :param training: with the full training command, which needs torch; else with its name alone.
    """
    top = argparse.ArgumentParser(prog='physis', description='World-action models on a robot.')
    top.add_argument('--version', action='version', version=f'physis_ros {__version__}')
    commands = top.add_subparsers(title='commands', required=True, metavar='COMMAND')
    for add in COMMANDS:
        add(commands)
    if training:
        from physis_ros.training.cli import add_train_parser

        add_train_parser(commands)
    else:
        commands.add_parser(TRAIN, help='train the embedded reach model, from nothing to weights')
    return top


if __name__ == '__main__':
    sys.exit(main())
