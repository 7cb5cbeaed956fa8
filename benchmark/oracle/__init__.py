# SPDX-License-Identifier: Apache-2.0
"""What benchmarks are measured against; no script of its own."""
