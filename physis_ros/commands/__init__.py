# SPDX-License-Identifier: Apache-2.0
"""What the command line does: one command a module. Heavy imports only where a command runs."""
