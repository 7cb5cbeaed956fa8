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
    """Declare the arguments, then start the arm and include the bring-up."""
    share = FindPackageShare('physis_ros')
    passed = ('params_file', 'use_sim_time', 'namespace', 'log_level', 'autostart')
    return LaunchDescription([
        DeclareLaunchArgument(
            'params_file',
            default_value=PathJoinSubstitution([share, 'config', 'arm.yaml']),
            description='YAML file with the parameters of all three nodes.',
        ),
        DeclareLaunchArgument(
            'use_sim_time',
            default_value='false',
            choices=['true', 'false'],
            description='Take time from /clock; needed when speed in params_file is not 1.',
        ),
        DeclareLaunchArgument(
            'namespace', default_value='', description='Namespace of all nodes; empty for none.'
        ),
        DeclareLaunchArgument(
            'log_level',
            default_value='info',
            choices=['debug', 'info', 'warn', 'error', 'fatal'],
            description='Least severity of log messages that are shown.',
        ),
        DeclareLaunchArgument(
            'autostart',
            default_value='true',
            choices=['true', 'false'],
            description='Configure and activate wam_node at once.',
        ),
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
        IncludeLaunchDescription(
            PathJoinSubstitution([share, 'launch', 'bringup.launch.py']),
            launch_arguments={
                **{name: LaunchConfiguration(name) for name in passed},
                'command_topic': 'command',
            }.items(),
        ),
    ])
