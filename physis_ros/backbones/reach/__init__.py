# SPDX-License-Identifier: Apache-2.0
"""The embedded reach model: a small world-action model for a two-joint arm seen by a camera."""
