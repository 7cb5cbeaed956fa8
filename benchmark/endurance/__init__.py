# SPDX-License-Identifier: Apache-2.0
"""What ``soak.py`` is made of: a simulated day, a real run, and when memory counts as level."""
