# SPDX-License-Identifier: Apache-2.0
"""Simulated robots: the MuJoCo arm that ships with the package, its target, expert and data."""
