# SPDX-License-Identifier: Apache-2.0
"""
Model and player on a recording: ``ros2 launch physis_ros bag.launch.py bag:=FOLDER``.

Plays what a robot's sensors said, with its time as /clock, and ends with the recording. Nothing
answers the commands; what they would have been, and how old, is the point. Needs the package
ros2bag. Topics keep their recorded names, so ``namespace`` must be the one they were recorded in.
"""

from launch.actions import (
    DeclareLaunchArgument,
    ExecuteProcess,
    IncludeLaunchDescription,
    Shutdown,
)
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.substitutions import FindPackageShare

from launch import LaunchDescription


def generate_launch_description():
    """Include the bring-up with other defaults, then play."""
    share = FindPackageShare('physis_ros')
    play = ['ros2', 'bag', 'play', LaunchConfiguration('bag'), '--disable-keyboard-controls']
    return LaunchDescription([
        DeclareLaunchArgument('bag', description='Recording to play: what ros2 bag record made.'),
        DeclareLaunchArgument(
            'params_file',
            default_value=PathJoinSubstitution([share, 'config', 'bag.yaml']),
            description='YAML file with the parameters of wam_node and servo_node.',
        ),
        DeclareLaunchArgument(
            'use_sim_time',
            default_value='true',
            choices=['true', 'false'],
            description='Take time from /clock, which the playback makes. Goes before what '
            'params_file says.',
        ),
        DeclareLaunchArgument(
            'rate', default_value='1.0', description='Speed of the playback [1].'
        ),
        DeclareLaunchArgument(
            'delay',
            default_value='10.0',
            description='Time until the playback begins, for the model to load [s].',
        ),
        DeclareLaunchArgument(
            'topics',
            default_value='.*/(image_raw|image_raw/compressed(Depth)?|joint_states)$',
            description='Regular expression of the topics to play: inputs, and neither /clock nor '
            'what these nodes publish themselves.',
        ),
        IncludeLaunchDescription(PathJoinSubstitution([share, 'launch', 'bringup.launch.py'])),
        ExecuteProcess(
            cmd=[
                *play,
                *('--clock', '200'),
                *('--rate', LaunchConfiguration('rate')),
                *('--delay', LaunchConfiguration('delay')),
                *('--regex', LaunchConfiguration('topics')),
            ],
            name='player',
            output='screen',
            on_exit=Shutdown(reason='the playback has ended'),
        ),
    ])
