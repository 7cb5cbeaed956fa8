# SPDX-License-Identifier: Apache-2.0
"""
A Prometheus endpoint on the loopback interface: the figures of the status topics, to be scraped.

Every scrape renders the last status in a thread of its own, so topics and metrics are one account
and the thread that ticks does nothing for it. Times are in seconds, as Prometheus wants them.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from socketserver import ThreadingMixIn
from typing import Any, NamedTuple
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from physis_ros.errors import ParameterError
from physis_ros.output.sketch import Quantiles

ADDRESS = '127.0.0.1'
QUANTILES = {'0.5': 'p50', '0.9': 'p90', '0.99': 'p99', '0.999': 'p999', '1': 'max'}
# A scrape may keep the interpreter from the tick for so long at a time; usual are 5 ms.
SWITCH_S = 0.0005
# Longest wait for what a client has to say, and for the server to end.
CLIENT_S = 5.0
END_S = 0.05


class Row(NamedTuple):
    """
    One line.

    :param kind: ``gauge``, ``counter`` or ``summary``.
    :param text: what the metric is.
    :param suffix: what comes after the name in this line.
    """

    name: str
    kind: str
    text: str
    labels: Mapping[str, str]
    value: float
    suffix: str = ''


@dataclass
class Page:
    """
    Collects the rows of one scrape.

    :param labels: go with every row.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)

    def of(self, **labels: str) -> Page:
        """Return a view of the page whose rows have more labels."""
        return Page({**self.labels, **labels}, self.rows)

    def gauge(self, name: str, text: str, value: float | None, **labels: str) -> None:
        """Add a value that goes up and down; nothing when there is none."""
        if value is not None:
            self.rows.append(Row(name, 'gauge', text, {**self.labels, **labels}, value))

    def counter(self, name: str, text: str, value: float, **labels: str) -> None:
        """Add a count since the start; its name ends in ``_total``."""
        row = Row(name, 'counter', text, {**self.labels, **labels}, value, '_total')
        self.rows.append(row)

    def counts(self, name: str, text: str, label: str, counted: Mapping[str, int]) -> None:
        """Add counts by name, such as by reason."""
        for key, value in counted.items():
            self.counter(name, text, value, **{label: key})

    def state(self, name: str, text: str, states: Mapping[Any, str], state: object) -> None:
        """Add one row for each state: 1 for the present one, else 0."""
        for key, word in states.items():
            self.gauge(name, text, float(key == state), state=word)

    def summary(
        self, name: str, text: str, figures: Quantiles, factor: float, **labels: str
    ) -> None:
        """
        Add a distribution; quantile 1 is the greatest sample.

        :param factor: from the unit of the figures to that of the name.
        """
        own = {**self.labels, **labels}
        for quantile, attribute in QUANTILES.items():
            value = getattr(figures, attribute)
            if value is not None:
                labelled = {**own, 'quantile': quantile}
                self.rows.append(Row(name, 'summary', text, labelled, value * factor))
        total = (figures.mean or 0.0) * figures.n * factor
        self.rows.append(Row(name, 'summary', text, own, figures.n, '_count'))
        self.rows.append(Row(name, 'summary', text, own, total, '_sum'))


class MetricsServer:
    """
    Serves a page until closed.

    :param port: of 127.0.0.1.
    :param fill: fills a page; called in the server's threads.
    :raises ParameterError: when the library is missing or the port is taken.
    """

    def __init__(self, port: int, fill: Callable[[Page], None]) -> None:
        library = _library(port)
        registry = library.CollectorRegistry(auto_describe=False)
        registry.register(_Collector(library.Metric, fill))
        app = library.make_wsgi_app(registry)
        try:
            self._server = make_server(ADDRESS, port, app, _Server, _Handler)
        except OSError as error:
            rule = f'a free port of {ADDRESS}'
            raise ParameterError('metrics_port', rule, port, error.strerror or '') from error
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_S))
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(END_S,), name='metrics', daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Free the port; a client that is being served is not waited for."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def serve(port: int, fill: Callable[[Page], None]) -> MetricsServer | None:
    """Serve a page on a port; nothing when it is 0."""
    return MetricsServer(port, fill) if port else None


class _Server(ThreadingMixIn, WSGIServer):
    """Serves each client in a thread; none of them holds up the end."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that went away or said nothing."""


class _Handler(WSGIRequestHandler):
    """One request, without a line in the log; who connects and says nothing is let go."""

    timeout = CLIENT_S

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class _Collector:
    """Turns a page into what the library renders."""

    def __init__(self, family: Any, fill: Callable[[Page], None]) -> None:
        self._family, self._fill = family, fill

    def collect(self) -> Iterator[Any]:
        """Yield each metric with all its rows."""
        page = Page()
        self._fill(page)
        families: dict[str, Any] = {}
        for row in page.rows:
            if row.name not in families:
                families[row.name] = self._family(row.name, row.text, row.kind)
            families[row.name].add_sample(row.name + row.suffix, dict(row.labels), row.value)
        yield from families.values()


def _library(port: int) -> Any:
    """Return the library, which a robot need not have."""
    try:
        import prometheus_client
    except ImportError as error:
        hint = 'pip install prometheus-client'
        raise ParameterError('metrics_port', '0 without prometheus_client', port, hint) from error
    return prometheus_client
