# SPDX-License-Identifier: Apache-2.0
"""Recordings: reading, scores, report. Knows no ROS installation and no torch."""
