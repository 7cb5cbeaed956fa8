# SPDX-License-Identifier: Apache-2.0
"""
The model and the player for one robot: ``ros2 launch physis_ros bringup.launch.py``.

The robot's driver or simulator is started by its own launch file. The topics are named in
``params_file`` and by the arguments here.
"""

from launch.actions import DeclareLaunchArgument, GroupAction, SetEnvironmentVariable
from launch.conditions import IfCondition
from launch.substitutions import EnvironmentVariable, LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node, PushROSNamespace
from launch_ros.substitutions import FindPackageShare

from launch import LaunchDescription


def generate_launch_description():
    """Declare the arguments, then start both nodes in the namespace."""
    config = PathJoinSubstitution([FindPackageShare('physis_ros'), 'config'])
    common = [
        LaunchConfiguration('params_file'),
        {'use_sim_time': LaunchConfiguration('use_sim_time')},
        {'autostart': LaunchConfiguration('autostart')},
    ]
    logging = ['--ros-args', '--log-level', LaunchConfiguration('log_level')]
    # Fast DDS 2 reads the first name, Fast DDS 3 the second.
    profiles = ('FASTRTPS_DEFAULT_PROFILES_FILE', 'FASTDDS_DEFAULT_PROFILES_FILE')
    return LaunchDescription([
        DeclareLaunchArgument(
            'params_file',
            default_value=PathJoinSubstitution([config, 'robot.yaml']),
            description='YAML file with the parameters of wam_node and servo_node.',
        ),
        DeclareLaunchArgument(
            'use_sim_time',
            default_value='false',
            choices=['true', 'false'],
            description='Take time from /clock: simulators and rosbag playback. Goes before '
            'what params_file says.',
        ),
        DeclareLaunchArgument(
            'namespace', default_value='', description='Namespace of both nodes; empty for none.'
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
            description='Configure and activate wam_node and servo_node at once; false leaves it '
            'to an operator or a lifecycle manager (whose bond_timeout must be 0: nodes in Python '
            'have no bond). Goes before what params_file says.',
        ),
        DeclareLaunchArgument(
            'command_topic',
            default_value='servo_node/command',
            description='Topic of the commands, such as that of a controller: '
            'joint_trajectory_controller/joint_trajectory.',
        ),
        DeclareLaunchArgument(
            'servo',
            default_value='true',
            choices=['true', 'false'],
            description='Start the servo_node of the only stream; false where each of several '
            'streams has its own (robots.launch.py).',
        ),
        # A profile of the user's own wins; the stock settings lose large images in silence.
        *(
            SetEnvironmentVariable(
                name,
                EnvironmentVariable(
                    name,
                    default_value=EnvironmentVariable(
                        other, default_value=PathJoinSubstitution([config, 'fastdds.xml'])
                    ),
                ),
            )
            for name, other in (profiles, profiles[::-1])
        ),
        GroupAction([
            PushROSNamespace(LaunchConfiguration('namespace')),
            Node(
                package='physis_ros',
                executable='wam_node',
                name='wam_node',
                parameters=common,
                arguments=logging,
                output='screen',
            ),
            Node(
                package='physis_ros',
                executable='servo_node',
                name='servo_node',
                condition=IfCondition(LaunchConfiguration('servo')),
                parameters=common,
                remappings=[
                    ('action_chunk', 'wam_node/action_chunk'),
                    ('~/command', LaunchConfiguration('command_topic')),
                ],
                arguments=logging,
                output='screen',
            ),
        ]),
    ])
