# SPDX-License-Identifier: Apache-2.0
"""Malformed and hostile messages for every topic, and the real nodes that they are shown to."""
