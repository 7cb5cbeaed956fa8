# SPDX-License-Identifier: Apache-2.0
"""From raw messages to one observation: decode, resize, align by time. No ROS, no torch."""
