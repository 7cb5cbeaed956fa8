# SPDX-License-Identifier: Apache-2.0
"""The streams of a model node: those of its parameters, and those that come and go."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from functools import partial

from physis_ros.errors import EngineError, ParameterError, PhysisError
from physis_ros.ros.diagnostics import Diagnostics
from physis_ros.ros.engine_host import EngineHost
from physis_ros.ros.live import LiveParameters
from physis_ros.ros.parameters import declare_part
from physis_ros.ros.stream_config import StreamConfig, StreamNames, check_name
from physis_ros.ros.wam_diagnosis import stream_report
from physis_ros.ros.wam_stream import Home, WamStream


class WamStreams:
    """
    Streams by name, in the order of their opening. Belongs to the executor's thread.

    :param home: shared by all of them.
    :param names: those of the parameters; with one only, its topics bear no name.
    :param diagnostics: reports each.
    :raises ParameterError: as :func:`declare_part`.
    """

    def __init__(self, home: Home, names: tuple[str, ...], diagnostics: Diagnostics) -> None:
        self._home, self._names, self._diagnostics = home, names, diagnostics
        self.defaults = declare_part(home.node, StreamConfig)
        self._configs = {
            name: declare_part(home.node, StreamConfig, f'{name}.', self.defaults)
            for name in names
        }
        self._epochs: dict[str, int] = {}
        self._streams: dict[str, WamStream] = {}
        self._admission = False

    def follow(self, live: LiveParameters, admission: bool) -> None:
        """
        Have the streams follow their parameters while they run.

        What a service opened them with they keep until just that is set.

        :param admission: it was decided on the period, which then stays.
        """
        self._admission = admission
        live.follow(self.defaults, self._on_defaults)
        for name, config in self._configs.items():
            live.follow(config, partial(self._on_config, name), prefix=f'{name}.', heir=True)
            changed, check = partial(self._on_running, name), partial(self._check, name)
            present = partial(self._present, name)
            live.follow(config, changed, check, f'{name}.', present=present)

    def _check(self, name: str, config: StreamConfig) -> None:
        """
        Refuse what cannot be set while a stream runs.

        :raises ParameterError: saying what.
        """
        stream, present_ms = self._streams.get(name), self._present(name).period_ms
        if stream is None:
            return
        if self._admission and config.period_ms != present_ms:
            rule = f'{present_ms}, which admission was asked to hold'
            hint = 'close the stream and open it anew'
            raise ParameterError(f'{name}.period_ms', rule, config.period_ms, hint)
        stream.check(config)

    def _on_defaults(self, config: StreamConfig) -> None:
        """Take what was set for streams that are opened later."""
        self.defaults = config

    def _on_config(self, name: str, config: StreamConfig) -> None:
        """Take what was set for a stream, for when it is opened again."""
        self._configs[name] = config

    def _present(self, name: str) -> StreamConfig:
        """Return what a stream runs with, or would be opened with."""
        stream = self._streams.get(name)
        return self._configs[name] if stream is None else stream.config

    def _on_running(self, name: str, config: StreamConfig) -> None:
        """Have a stream that runs go on with what was set."""
        stream = self._streams.get(name)
        if stream is not None:
            stream.reconfigure(config)

    def __iter__(self) -> Iterator[WamStream]:
        """Go through all of them."""
        return iter(tuple(self._streams.values()))

    @property
    def names(self) -> tuple[str, ...]:
        """Of all streams, refused ones included."""
        return tuple(self._streams)

    def named(self, name: str) -> WamStream | None:
        """Return a stream; None when there is none of that name."""
        return self._streams.get(name)

    def config(self, name: str) -> StreamConfig:
        """Return what the parameters say of a stream, whether they name it or not."""
        return self._configs.get(name, self.defaults)

    def restore(self) -> None:
        """Have the streams that the parameters name, and no other."""
        for name in self._names:
            if name not in self._streams:
                self._add(name, self._configs[name])
        for stream in self:
            if stream.name not in self._configs:
                self._withdraw(stream)

    def open(self, name: str, config: StreamConfig, host: EngineHost | None) -> WamStream:
        """
        Begin to open a stream beside the others; one that was refused may be tried again.

        :raises PhysisError: when it cannot be one.
        """
        check_name(name)
        before = self._streams.get(name)
        if host is None:
            raise EngineError('no stream can be opened: the node is not configured')
        if before is not None and not before.refusal:
            raise ParameterError('stream', f'none of {list(self.names)}, which are open', name)
        if before is not None:
            self.close(before)
        stream = self._add(name, config)
        try:
            stream.configure(host.pool.spec)
        except PhysisError:
            self._withdraw(stream)
            raise
        stream.activate()
        stream.enter(host)
        return stream

    def close(self, stream: WamStream) -> Future[None] | None:
        """Take a stream away; its room is free when the future is done. None: it has none."""
        stream.stop()
        left = stream.room.leave() if stream.room is not None else None
        self._withdraw(stream)
        return left

    def _add(self, name: str, config: StreamConfig) -> WamStream:
        """Make a stream, with its status and its services."""
        names = StreamNames(name, plain=self._names == (name,))
        stream = WamStream(self._home, names, config, self._epochs.get(name, 0))
        self._streams[name] = stream
        self._diagnostics.add(names.task('inputs'), lambda: stream_report(stream.snapshot()))
        return stream

    def _withdraw(self, stream: WamStream) -> None:
        """Take a stream's topics and services away."""
        del self._streams[stream.name]
        self._diagnostics.remove(stream.names.task('inputs'))
        stream.close()
        self._epochs[stream.name] = stream.next_epoch
