# SPDX-License-Identifier: Apache-2.0
"""
Pools nobody here owns, in virtual time: the engine's own plan, placement, admission and batching.

It lives on the session floor because it runs that code; the simulation room may not import it.
"""
