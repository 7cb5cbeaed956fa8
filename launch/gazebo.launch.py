# SPDX-License-Identifier: Apache-2.0
"""
A robot in Gazebo: ``ros2 launch physis_ros gazebo.launch.py``, beside a running ``gz sim``.

Needs the package ros_gz_bridge. Under gz_ros2_control the joints do not pass the bridge: then take
the joints out of ``bridge_config`` and name the controller's topic with ``command_topic``.
"""

from launch.actions import DeclareLaunchArgument, GroupAction, IncludeLaunchDescription
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node, PushROSNamespace
from launch_ros.substitutions import FindPackageShare

from launch import LaunchDescription


def generate_launch_description():
    """Include the bring-up with other defaults, then start the bridges."""
    share = FindPackageShare('physis_ros')
    logging = ['--ros-args', '--log-level', LaunchConfiguration('log_level')]
    return LaunchDescription([
        DeclareLaunchArgument(
            'params_file',
            default_value=PathJoinSubstitution([share, 'config', 'gazebo.yaml']),
            description='YAML file with the parameters of wam_node and servo_node.',
        ),
        DeclareLaunchArgument(
            'use_sim_time',
            default_value='true',
            choices=['true', 'false'],
            description='Take time from /clock, which Gazebo makes. Goes before what '
            'params_file says.',
        ),
        DeclareLaunchArgument(
            'command_topic',
            default_value='joint_trajectory',
            description='Topic of the commands; the default one is bridged.',
        ),
        DeclareLaunchArgument(
            'bridge_config',
            default_value=PathJoinSubstitution([share, 'config', 'gz_bridge.yaml']),
            description='YAML file of ros_gz_bridge with all topics but /clock.',
        ),
        IncludeLaunchDescription(PathJoinSubstitution([share, 'launch', 'bringup.launch.py'])),
        # Time does not wait behind pictures: /clock has a bridge of its own.
        Node(
            package='ros_gz_bridge',
            executable='parameter_bridge',
            name='clock_bridge',
            parameters=[
                {'config_file': PathJoinSubstitution([share, 'config', 'gz_clock_bridge.yaml'])}
            ],
            arguments=logging,
            output='screen',
        ),
        GroupAction([
            PushROSNamespace(LaunchConfiguration('namespace')),
            Node(
                package='ros_gz_bridge',
                executable='parameter_bridge',
                name='bridge',
                parameters=[{'config_file': LaunchConfiguration('bridge_config')}],
                arguments=logging,
                output='screen',
            ),
        ]),
    ])
