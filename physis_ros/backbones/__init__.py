# SPDX-License-Identifier: Apache-2.0
"""The models: what one stage computes."""
