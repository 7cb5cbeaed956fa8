# SPDX-License-Identifier: Apache-2.0
"""Training the embedded reach model: needs the simulator and the model, so it sits above both."""
