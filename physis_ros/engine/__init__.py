# SPDX-License-Identifier: Apache-2.0
"""Where and when the stages of a model run; what they compute is the backbone's business."""
