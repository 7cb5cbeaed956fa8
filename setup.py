# SPDX-License-Identifier: Apache-2.0
"""
``pip install .``: the ROS-free part (engine, models, evaluation, command line) on any machine.

Not read by colcon, which builds by package.xml and CMakeLists.txt; messages come from there alone,
so the nodes in ``physis_ros.ros`` are no commands here. test/test_package.py keeps the parts that
both name equal.
"""

from pathlib import Path

from setuptools import find_packages, setup

NAME = 'physis_ros'
MESSAGES = sorted(str(path) for path in Path('msg').glob('*.msg'))
setup(
    name=NAME,
    version='0.1.0',
    description='Serves world action models to robots, with every age accounted for',
    license='Apache-2.0',
    python_requires='>=3.10',
    packages=find_packages(include=[NAME, f'{NAME}.*']),
    package_data={NAME: ['py.typed', '**/*.safetensors', '**/*.xml']},
    # Recordings are read by these texts (evaluation/definitions.py), with or without ROS.
    data_files=[(f'share/{NAME}/msg', MESSAGES)],
    install_requires=[
        'ddsketch',
        'matplotlib',
        'numpy>=1.26',
        'opencv-python-headless<5',
        'pillow',
        'pyyaml',
        'rich',
        'rosbags',
        'ruckig',
        'safetensors',
        'scipy',
        'setproctitle',
        'torch>=2.4',
        'tqdm',
    ],
    extras_require={
        'simulation': ['mujoco==3.8.1'],
        'serving': ['grpcio', 'protobuf'],
        'onnx': ['onnx'],
        'metrics': ['prometheus-client'],
    },
    entry_points={'console_scripts': [f'physis = {NAME}.cli:main']},
)
