# SPDX-License-Identifier: Apache-2.0
"""
From chunks to commands: the timeline, its limits, the underrun ladder and the account.

Pure policy: time is an argument, nothing here waits, prints, or knows ROS or torch.
"""
