# SPDX-License-Identifier: Apache-2.0
"""A scrape of a metrics endpoint, as Prometheus does it."""

from __future__ import annotations

import socket
import urllib.request

from prometheus_client.parser import text_string_to_metric_families


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as found:
        found.bind(('127.0.0.1', 0))
        return int(found.getsockname()[1])


def scrape(port: int) -> dict[tuple[str, ...], float]:
    """Return all values by name and label values, in the order of the label names."""
    with urllib.request.urlopen(f'http://127.0.0.1:{port}/metrics', timeout=10) as answer:
        text = answer.read().decode()
    return {
        (sample.name, *(sample.labels[key] for key in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
