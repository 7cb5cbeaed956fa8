# SPDX-License-Identifier: Apache-2.0
"""
What ``soak.py`` and ``stop.py`` are made of.

A simulated day, a real run, when a figure counts as level; a room in which nodes are ended,
and callbacks served while something is waited for.
"""
