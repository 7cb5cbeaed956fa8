# SPDX-License-Identifier: Apache-2.0
"""
The message types of this package for tools without ROS.

The ``.msg`` texts are the single source: they are found beside the source tree or in the share
folder of an installation, and registered in a ``rosbags`` type store that knows Jazzy's own types.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from rosbags.typesys import Stores, TypesysError, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

from physis_ros.errors import BagError

PACKAGE = 'physis_ros'


def message_folder() -> Path:
    """
    Return the folder that holds the ``.msg`` texts.

    :raises BagError: when there is none, naming the places looked at.
    """
    return shared_file('msg/ActionChunk.msg').parent


def shared_file(name: str) -> Path:
    """
    Return a file that comes with the package, such as ``config/arm.yaml``.

    :raises BagError: when it is nowhere, naming the places looked at.
    """
    places = list(_places())
    for place in places:
        if (place / name).is_file():
            return place / name
    raise BagError(
        f'{name} of {PACKAGE} not found, looked in {[str(p) for p in places]}; run from the '
        f'source tree or install the package'
    )


def typestore(folder: Path | None = None) -> Typestore:
    """
    Return a type store with Jazzy's types and ours.

    :param folder: where the ``.msg`` texts are; found by itself when not given.
    :raises BagError: when a definition is missing or does not parse.
    """
    store = get_typestore(Stores.ROS2_JAZZY)
    types = {}
    for path in sorted((folder or message_folder()).glob('*.msg')):
        try:
            types.update(get_types_from_msg(path.read_text(), f'{PACKAGE}/msg/{path.stem}'))
        except TypesysError as error:
            raise BagError(f'message definition {path} does not parse: {error}') from error
    store.register(types)
    return store


def _places() -> Iterator[Path]:
    """Yield where shared files may be, the source tree first."""
    yield Path(__file__).resolve().parents[2]
    for prefix in os.environ.get('AMENT_PREFIX_PATH', '').split(os.pathsep):
        if prefix:
            yield Path(prefix) / 'share' / PACKAGE
    yield Path(sys.prefix) / 'share' / PACKAGE
