# SPDX-License-Identifier: Apache-2.0
"""
What ``physis top`` hears of a running system, and what it cannot hear and why.

Subscriptions are drained when the screen wants to know; no executor, no thread, nothing published.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.context import Context
from rclpy.exceptions import InvalidNamespaceException
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions

from physis_ros.errors import ParameterError
from physis_ros.msg import PlaybackStatus, StreamStatus
from physis_ros.ros import qos
from physis_ros.ros.draining import drained, subscribe
from physis_ros.ros.top_fleet import PATIENCE_S, Pair, TopFleet

DIAGNOSTICS = QoSProfile(depth=100, reliability=ReliabilityPolicy.RELIABLE)
GRAPH = ('ROS_DOMAIN_ID', 'ROS_AUTOMATIC_DISCOVERY_RANGE', 'RMW_IMPLEMENTATION')
OK = 0


@dataclass
class Source:
    """
    One status topic.

    :param node: who publishes it.
    :param topic: the full name.
    :param newest: the last message; None before the first.
    :param heard_s: when that came, steady; at first when listening began.
    """

    node: str
    topic: str
    kind: type
    subscription: Any
    heard_s: float
    newest: Any | None = None


@dataclass
class Seen:
    """
    The newest of everything.

    :param stream: status of the engine, None before the first.
    :param playback: status of the servo, None before the first.
    :param fleet: where the model node has several streams, each of them by name; else empty.
    :param trouble: what the nodes say is not well, name and message, by name.
    :param missing: what is not heard, each a sentence.
    """

    stream: Any | None = None
    playback: Any | None = None
    fleet: dict[str, Pair] = field(default_factory=dict)
    trouble: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


class TopMonitor:
    """
    A node that only listens. Single-threaded.

    :param namespace: of the nodes to watch; empty for none.
    :param context: an initialised one; its own when not given.
    :param environment: where the settings of the graph are read from, to be told.
    :raises ParameterError: for a namespace that is none.
    """

    def __init__(
        self,
        namespace: str = '',
        context: Context | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._owned = context is None
        self._context = context or Context()
        if self._owned:
            rclpy.init(
                args=[], context=self._context, signal_handler_options=SignalHandlerOptions.NO
            )
        self._environment = environment
        self._node = self._new_node(namespace)
        self._stream = self._source('wam_node', 'stream_status', StreamStatus)
        self._playback = self._source('servo_node', 'playback_status', PlaybackStatus)
        self._fleet = TopFleet(self._node)
        self._diagnostics = subscribe(self._node, DiagnosticArray, '/diagnostics', DIAGNOSTICS)
        self._trouble: dict[str, str] = {}

    def _new_node(self, namespace: str) -> Node:
        """
        Join the graph.

        :raises ParameterError: for a namespace that is none.
        """
        name = f'physis_top_{os.getpid()}'
        options: dict[str, Any] = {'context': self._context, 'start_parameter_services': False}
        try:
            return Node(name, namespace=namespace, **options)
        except InvalidNamespaceException as error:
            rule = 'a namespace of ROS, such as robot_1 or fleet/robot_1'
            raise ParameterError('namespace', rule, namespace) from error

    def _source(self, node: str, name: str, kind: type) -> Source:
        """Subscribe to a status."""
        topic = f'{node}/{name}'
        subscription = subscribe(self._node, kind, topic, qos.LATCHED)
        resolved = self._node.resolve_topic_name(topic)
        return Source(node, resolved, kind, subscription, time.monotonic())

    def look(self, now_s: float) -> Seen:
        """
        Take everything that has come since the last look.

        :param now_s: steady time.
        """
        for source in (self._stream, self._playback):
            for message, _ in drained(source.subscription):
                source.newest, source.heard_s = message, now_s
        for message, _ in drained(self._diagnostics):
            for status in message.status:
                self._note(status)
        fleet = self._all(self._fleet.look(now_s))
        return Seen(
            stream=self._stream.newest,
            playback=self._playback.newest,
            fleet=fleet,
            trouble=dict(self._trouble),
            missing=self._fleet.silent(now_s) if fleet else self._missing(now_s),
        )

    def close(self) -> None:
        """Leave the graph."""
        self._node.destroy_node()
        if self._owned:
            rclpy.try_shutdown(context=self._context)

    def _all(self, named: dict[str, Pair]) -> dict[str, Pair]:
        """Return all streams: beside those named in their topics there may be a plain one."""
        plain = self._stream.newest
        if not named or plain is None:
            return named
        return {plain.stream: Pair(plain, self._playback.newest), **named}

    def _note(self, status: Any) -> None:
        """Remember what one task of a node in our namespace says, while it is not well."""
        prefix = self._node.get_namespace().rstrip('/') + '/'
        node, _, _ = status.name.partition(':')
        if not node.startswith(prefix):
            return
        # The level is one byte, as bytes.
        if int.from_bytes(status.level, 'little') == OK:
            self._trouble.pop(status.name, None)
        else:
            self._trouble[status.name] = status.message

    def _missing(self, now_s: float) -> list[str]:
        """Say what is not heard."""
        quiet = [
            source
            for source in (self._stream, self._playback)
            if now_s - source.heard_s > PATIENCE_S
        ]
        found = [_silence(source, now_s, self._elsewhere) for source in quiet]
        if any(source.newest is None for source in quiet):
            found.append(self._settings())
        return found

    def _elsewhere(self, kind: type) -> list[str]:
        """Return where else in the graph such a status is published."""
        wanted = f'physis_ros/msg/{kind.__name__}'
        return [
            name
            for name, kinds in self._node.get_topic_names_and_types()
            if wanted in kinds and self._node.get_publishers_info_by_topic(name)
        ]

    def _settings(self) -> str:
        """Say in which graph this looks."""
        given = ', '.join(f'{name}={self._environment.get(name, "(unset)")}' for name in GRAPH)
        return f'looking in namespace {self._node.get_namespace()} with {given}'


def _silence(source: Source, now_s: float, elsewhere: Callable[[type], list[str]]) -> str:
    """Say of a status that is not heard what may be the matter."""
    if source.newest is not None:
        quiet_s = now_s - source.heard_s
        return f'{source.topic} silent for {quiet_s:.0f} s: {source.node} has ended or hangs'
    text = f'no {source.topic} within {PATIENCE_S:g} s: is {source.node} running?'
    others = [name for name in elsewhere(source.kind) if name != source.topic]
    if others:
        namespaces = sorted(name.rsplit('/', 2)[0] or '/' for name in others)
        text += f' Found in namespace {", ".join(namespaces)}: give --namespace.'
    return text
