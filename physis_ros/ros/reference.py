# SPDX-License-Identifier: Apache-2.0
"""All parameters of the nodes as a text: made from the classes that declare them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, fields
from typing import Any, get_type_hints

from physis_ros.ros.arm_config import ArmNodeConfig
from physis_ros.ros.parameters import Rule, type_name
from physis_ros.ros.servo_config import ServoConfig
from physis_ros.ros.stream_config import StreamConfig
from physis_ros.ros.wam_config import WamConfig

HEAD = """# Parameters

Made by `physis parameters`; do not edit. Whole numbers may stand for doubles. Dynamic ones may be
set while the node runs too; all that one call sets is taken together, or nothing of it. The others
of servo_node, but for `autostart`, may be set while it is not configured. A name that no node
declares is refused at start.

Beside them every node has what ROS gives to all: `use_sim_time` (fixed for servo_node while it
runs), and for each topic `qos_overrides.<full name of the topic>.publisher.<policy>` or
`.subscription.<policy>`, fixed once it is made: `reliability`, `durability`, `history`, `depth`,
`deadline`, `lifespan`, `liveliness`, `liveliness_lease_duration`, times in nanoseconds. Where a
deadline or a lease is set, what is missed of it is on /diagnostics (task `qos`).
"""
SECTIONS: tuple[tuple[str, str, tuple[type, ...]], ...] = (
    (
        'wam_node, of the node',
        'The model: which streams there are, and the engine that carries them.',
        (WamConfig,),
    ),
    (
        'wam_node, of each stream',
        'Each is for all streams of the node, and as `<stream>.<name>` for one of `streams`.',
        (StreamConfig,),
    ),
    ('servo_node', 'The player.', (ServoConfig,)),
    ('arm_node', 'The simulated arm.', (ArmNodeConfig,)),
)
COLUMNS = '| name | type | default | range | dynamic | what |\n|---|---|---|---|---|---|\n'


def reference() -> str:
    """Return it as Markdown."""
    return HEAD + ''.join(_section(*section) for section in SECTIONS)


def _section(title: str, text: str, kinds: tuple[type, ...]) -> str:
    """Return the table of one node."""
    rows = [row for kind in kinds for row in _rows(kind)]
    return f'\n## {title}\n\n{text}\n\n{COLUMNS}{"".join(rows)}'


def _rows(kind: Any) -> Iterator[str]:
    """Yield one line for each parameter."""
    hints = get_type_hints(kind)
    for item in fields(kind):
        rule: Rule = item.metadata['rule']
        default = '' if item.default is MISSING else _value(item.default)
        dynamic = 'yes' if rule.dynamic else ''
        what = rule.description.replace('|', r'\|').replace('<', r'\<')
        cells = (f'`{item.name}`', type_name(hints[item.name]), default, _range(rule), dynamic)
        yield f'| {" | ".join(cells)} | {what} |\n'


def _value(value: object) -> str:
    """Return a value as YAML has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f'[{", ".join(str(item) for item in value)}]'
    return f'`{value}`' if isinstance(value, str) and value else f'{value!r}'


def _range(rule: Rule) -> str:
    """Return which values there are; empty for any."""
    if rule.choices:
        return ', '.join(rule.choices)
    if rule.low is None and rule.high is None:
        return ''
    if rule.high is None:
        return f'>= {rule.low:g}'
    return f'<= {rule.high:g}' if rule.low is None else f'{rule.low:g} .. {rule.high:g}'
