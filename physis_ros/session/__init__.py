# SPDX-License-Identifier: Apache-2.0
"""
The only wiring of the rooms.

The producer makes chunks of observations, the player makes commands of chunks.
"""
