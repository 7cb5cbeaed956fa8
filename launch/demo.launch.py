# SPDX-License-Identifier: Apache-2.0
"""
The simulated arm under the embedded model: ``ros2 launch physis_ros demo.launch.py``.

Runs until stopped and writes nothing; ``./run demo`` is the one that counts episodes and reports.
"""

from launch.actions import DeclareLaunchArgument, GroupAction, IncludeLaunchDescription
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node, PushROSNamespace
from launch_ros.substitutions import FindPackageShare

from launch import LaunchDescription


def generate_launch_description():
    """Include the bring-up with other defaults, then start the arm."""
    share = FindPackageShare('physis_ros')
    return LaunchDescription([
        DeclareLaunchArgument(
            'params_file',
            default_value=PathJoinSubstitution([share, 'config', 'arm.yaml']),
            description='YAML file with the parameters of all three nodes.',
        ),
        DeclareLaunchArgument(
            'command_topic', default_value='command', description='Topic of the commands.'
        ),
        # First: it declares the other arguments, and chooses the transports of all that follow.
        IncludeLaunchDescription(PathJoinSubstitution([share, 'launch', 'bringup.launch.py'])),
        GroupAction([
            PushROSNamespace(LaunchConfiguration('namespace')),
            # The arm makes the time, so it never takes it from /clock.
            Node(
                package='physis_ros',
                executable='arm_node',
                name='arm_node',
                parameters=[LaunchConfiguration('params_file'), {'use_sim_time': False}],
                arguments=['--ros-args', '--log-level', LaunchConfiguration('log_level')],
                output='screen',
            ),
        ]),
    ])
