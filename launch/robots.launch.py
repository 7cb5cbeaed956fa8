# SPDX-License-Identifier: Apache-2.0
"""
Several robots on one model: ``ros2 launch physis_ros robots.launch.py``.

One wam_node with a stream for each robot, and for each a servo_node in a namespace of its name,
where its driver or simulator is expected too. An example: copy it with ``config/robots.yaml``.
"""

from launch.actions import DeclareLaunchArgument, GroupAction, IncludeLaunchDescription
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node, PushROSNamespace
from launch_ros.substitutions import FindPackageShare

from launch import LaunchDescription


def generate_launch_description():
    """Include the bring-up without its servo, then start the servo of each robot."""
    share = FindPackageShare('physis_ros')
    namespace = LaunchConfiguration('namespace')
    # The streams of the parameter file.
    streams = ('left', 'right')
    return LaunchDescription([
        DeclareLaunchArgument(
            'params_file',
            default_value=PathJoinSubstitution([share, 'config', 'robots.yaml']),
            description='YAML file with the parameters of wam_node and of every servo_node.',
        ),
        # First: it declares the other arguments, and chooses the transports of all that follow.
        IncludeLaunchDescription(
            PathJoinSubstitution([share, 'launch', 'bringup.launch.py']),
            launch_arguments={'servo': 'false'}.items(),
        ),
        *(
            GroupAction([
                PushROSNamespace(namespace),
                PushROSNamespace(stream),
                Node(
                    package='physis_ros',
                    executable='servo_node',
                    name='servo_node',
                    parameters=[
                        LaunchConfiguration('params_file'),
                        {'use_sim_time': LaunchConfiguration('use_sim_time')},
                        {'autostart': LaunchConfiguration('autostart')},
                    ],
                    remappings=[
                        (
                            'action_chunk',
                            # From the root: the namespace may be empty.
                            PathJoinSubstitution(
                                ['/', namespace, 'wam_node', stream, 'action_chunk']
                            ),
                        ),
                        ('~/command', LaunchConfiguration('command_topic')),
                    ],
                    arguments=['--ros-args', '--log-level', LaunchConfiguration('log_level')],
                    output='screen',
                ),
            ])
            for stream in streams
        ),
    ])
