# SPDX-License-Identifier: Apache-2.0
"""
Who may import whom, read from the sources.

Ground floor <- data-path rooms <- session and training <- (ros | serving | evaluation | commands |
cli).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / 'physis_ros'
GROUND = {'types', 'clock', 'errors'}
DATA_PATH = {'observation', 'backbones', 'engine', 'output', 'simulation'}
MIDDLE = {'session', 'training'}
TOP = {'ros', 'serving', 'evaluation', 'commands', 'cli'}
# Single modules that a data-path room may take from a neighbour.
EXCEPTIONS = {('engine', 'physis_ros.backbones.base')}
# What the servo machine runs: it has no torch.
WITHOUT_TORCH = ('output/', 'session/player')
ROS_PACKAGES = {
    'rclpy',
    'launch',
    'launch_ros',
    'rcl_interfaces',
    'builtin_interfaces',
    'std_srvs',
}


def modules() -> list[Path]:
    """Return every source file of the package."""
    return sorted(PACKAGE.rglob('*.py'))


def imports(path: Path) -> Iterator[str]:
    """Yield the full name of everything a file imports, type-only and nested imports included."""
    package = ('physis_ros', *path.relative_to(PACKAGE).parts[:-1])
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = '.'.join([*above, *([node.module] if node.module else [])])
            yield from (f'{base}.{alias.name}' for alias in node.names)


def room(path: Path) -> str:
    """Return the room or ground-floor module that a file belongs to; empty for the root."""
    first = path.relative_to(PACKAGE).parts[0].removesuffix('.py')
    return '' if first == '__init__' else first


def allowed(importer: str, target: str, name: str) -> bool:
    """Whether files of room ``importer`` may import ``name``, which is in room ``target``."""
    if target == '__version__' or target == importer:
        return True
    if target in GROUND:
        return importer not in GROUND or target == 'errors'
    if target in ('msg', 'srv'):
        return importer == 'ros'
    if importer in DATA_PATH:
        return any(
            importer == who and (name == what or name.startswith(f'{what}.'))
            for who, what in EXCEPTIONS
        )
    if importer in MIDDLE:
        return target in DATA_PATH
    return importer in TOP and target in DATA_PATH | MIDDLE | TOP


@pytest.mark.parametrize('path', modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_down(path: Path) -> None:
    importer = room(path)
    assert importer in GROUND | DATA_PATH | MIDDLE | TOP | {''}
    ours = [name for name in imports(path) if name.startswith('physis_ros.')]
    wrong = [name for name in ours if not allowed(importer, name.split('.')[1], name)]
    assert wrong == []


def test_only_the_ros_room_knows_ros() -> None:
    for path in modules():
        if room(path) == 'ros':
            continue
        roots = {name.split('.')[0] for name in imports(path)}
        assert not roots & ROS_PACKAGES, path
        assert not {root for root in roots if root.endswith('_msgs')}, path


def test_the_servo_side_needs_no_torch() -> None:
    """Followed through everything of ours that the player imports, so no detour hides one."""
    waiting = [
        path for path in modules() if str(path.relative_to(PACKAGE)).startswith(WITHOUT_TORCH)
    ]
    assert waiting
    seen: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        names = list(imports(path))
        assert 'torch' not in {name.split('.')[0] for name in names}, path
        waiting += [found for name in names for found in files_of(name)]


def files_of(name: str) -> list[Path]:
    """Return the files that importing ``name`` runs: the module and the packages above it."""
    parts = name.split('.')
    if parts[0] != 'physis_ros':
        return []
    found = [
        PACKAGE.joinpath(*parts[1:depth], '__init__.py') for depth in range(1, len(parts) + 1)
    ]
    found.append(PACKAGE.joinpath(*parts[1:]).with_suffix('.py') if len(parts) > 1 else PACKAGE)
    found.append(PACKAGE.joinpath(*parts[1:-1]).with_suffix('.py') if len(parts) > 2 else PACKAGE)
    return [path for path in found if path.is_file()]


def test_the_rule_sees_a_breach() -> None:
    assert not allowed('output', 'engine', 'physis_ros.engine.pool')
    assert not allowed('engine', 'backbones', 'physis_ros.backbones.reach')
    assert not allowed('session', 'ros', 'physis_ros.ros.qos')
    assert not allowed('evaluation', 'msg', 'physis_ros.msg.ActionChunk')
    assert not allowed('types', 'session', 'physis_ros.session.player')
    assert allowed('engine', 'backbones', 'physis_ros.backbones.base.ModelSpec')
    assert allowed('session', 'engine', 'physis_ros.engine.pool')
