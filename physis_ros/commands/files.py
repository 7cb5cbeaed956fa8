# SPDX-License-Identifier: Apache-2.0
"""Files that commands write: looked at before any work is done for them."""

from __future__ import annotations

from pathlib import Path

from physis_ros.errors import ParameterError


def check_writable(option: str, path: Path) -> None:
    """
    Refuse a file that cannot be written; what is there already stays as it is.

    :param option: what the user calls it.
    :raises ParameterError: with the reason.
    """
    if not path.absolute().parent.is_dir():
        raise ParameterError(option, 'in a folder that exists', str(path))
    if path.is_dir():
        raise ParameterError(option, 'a file', str(path), 'this is a folder')
    known = path.exists()
    try:
        # Rights alone do not tell: folders may be read-only for everybody, as those of the kernel.
        with path.open('ab'):
            pass
    except OSError as error:
        rule = f'a file that can be written ({error.strerror})'
        raise ParameterError(option, rule, str(path)) from error
    if not known:
        path.unlink()
