# SPDX-License-Identifier: Apache-2.0
"""
A robot in Isaac Sim: ``ros2 launch physis_ros isaac.launch.py``, beside a playing simulation.

The simulation's own ROS 2 graph publishes camera, ``joint_states`` and ``/clock``, and subscribes
``joint_command``. It finds joints by name, so its breadth-first order does not matter.
"""

from launch.actions import DeclareLaunchArgument, GroupAction, IncludeLaunchDescription
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import SetRemap
from launch_ros.substitutions import FindPackageShare

from launch import LaunchDescription


def generate_launch_description():
    """Include the bring-up with other defaults, and the camera under its name here."""
    share = FindPackageShare('physis_ros')
    return LaunchDescription([
        DeclareLaunchArgument(
            'params_file',
            default_value=PathJoinSubstitution([share, 'config', 'isaac.yaml']),
            description='YAML file with the parameters of wam_node and servo_node.',
        ),
        DeclareLaunchArgument(
            'use_sim_time',
            default_value='true',
            choices=['true', 'false'],
            description='Take time from /clock, which the simulation publishes while it plays. '
            'Goes before what params_file says.',
        ),
        DeclareLaunchArgument(
            'command_topic',
            default_value='joint_command',
            description="Topic of the commands: of the articulation controller's subscriber.",
        ),
        DeclareLaunchArgument(
            'image_topic',
            default_value='rgb',
            description='Topic of the camera; camera in params_file must stay "camera".',
        ),
        GroupAction([
            SetRemap('camera/image_raw', LaunchConfiguration('image_topic')),
            # A rule is for one name: what lies below it has its own.
            SetRemap(
                'camera/image_raw/compressed', [LaunchConfiguration('image_topic'), '/compressed']
            ),
            IncludeLaunchDescription(PathJoinSubstitution([share, 'launch', 'bringup.launch.py'])),
        ]),
    ])
