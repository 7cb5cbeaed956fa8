# SPDX-License-Identifier: Apache-2.0
"""The ROS 2 face: nodes, parameters, quality of service. The only place that imports rclpy."""
