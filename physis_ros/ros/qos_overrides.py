# SPDX-License-Identifier: Apache-2.0
"""
The standard ``qos_overrides`` parameters of a topic: every policy, and only values that it has.

rclpy offers three of the policies unless asked for more; a peer that wants another one, such as a
deadline, could not be matched. It answers a value that no policy has with the end of the node.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from rclpy.node import Node
from rclpy.qos import (
    DurabilityPolicy,
    HistoryPolicy,
    LivelinessPolicy,
    QoSPolicyKind,
    ReliabilityPolicy,
)
from rclpy.qos_overriding_options import QoSOverridingOptions

from physis_ros.errors import ParameterError
from physis_ros.ros.parameters import QOS_PREFIX, full_name, given

PUBLISHER, SUBSCRIPTION = 'publisher', 'subscription'
DEADLINE, LIVELINESS = 'deadline', 'liveliness_lease_duration'

_KINDS: dict[QoSPolicyKind, type[Enum]] = {
    QoSPolicyKind.HISTORY: HistoryPolicy,
    QoSPolicyKind.RELIABILITY: ReliabilityPolicy,
    QoSPolicyKind.DURABILITY: DurabilityPolicy,
    QoSPolicyKind.LIVELINESS: LivelinessPolicy,
}
_COUNTS = (QoSPolicyKind.DEPTH,)
_TIMES = (
    QoSPolicyKind.DEADLINE,
    QoSPolicyKind.LIFESPAN,
    QoSPolicyKind.LIVELINESS_LEASE_DURATION,
)
POLICIES = (*_KINDS, *_COUNTS, *_TIMES)


def options() -> QoSOverridingOptions:
    """Return what tells rclpy to take an override of every policy."""
    return QoSOverridingOptions(POLICIES)


def overrides(node: Node, topic: str, end: str) -> dict[str, Any]:
    """
    Return what is overridden of a topic, by the names of the policies.

    :param topic: its full name.
    :param end: ``publisher`` or ``subscription``.
    :raises ParameterError: naming a parameter whose value its policy does not have.
    """
    values = given(node)
    found = {}
    for policy in POLICIES:
        word = policy.name.lower()
        name = f'{QOS_PREFIX}{topic}.{end}.{word}'
        if name in values:
            found[word] = values[name]
            if rule := _refusal(policy, values[name]):
                raise ParameterError(full_name(node, name), rule, values[name])
    return found


def _refusal(policy: QoSPolicyKind, value: object) -> str:
    """Return what the value of a policy must be; empty when it is."""
    if policy in _KINDS:
        names = [item.name.lower() for item in _KINDS[policy] if item.name != 'UNKNOWN']
        fits = isinstance(value, str) and value.lower() in names
        return '' if fits else f'one of {names}'
    if type(value) is int and value >= 0:
        return ''
    return 'a whole number of messages' if policy in _COUNTS else 'a whole number of nanoseconds'
