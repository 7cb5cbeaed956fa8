# SPDX-License-Identifier: Apache-2.0
"""
A two-joint arm in MuJoCo with a camera above it and a moving target.

Time stands still until :meth:`Arm.advance` is called, in steps of exactly 1 ms. The same seed and
the same commands give the same joints and the same frames, bit for bit. MuJoCo is imported with
the first arm and OpenGL with the first frame, so physics alone needs no graphics.
"""

from __future__ import annotations

import importlib
import os
import weakref
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from physis_ros.errors import ParameterError
from physis_ros.simulation.kinematics import tip_position
from physis_ros.simulation.randomness import FIRST_POSE, generator
from physis_ros.simulation.scene import TARGET_HEIGHT_M, ArmConfig, scene_xml
from physis_ros.simulation.target import Target, TargetConfig

Floats = NDArray[np.float64]

STEP_NS = 1_000_000
JOINT_NAMES = ('shoulder', 'elbow')


class Arm(AbstractContextManager['Arm']):
    """
    The simulated robot.

    :param config: body, drives and camera.
    :param seed: decides the target's path and the first pose.
    :param target_config: region and pace of the target.
    """

    def __init__(
        self,
        config: ArmConfig | None = None,
        seed: int = 0,
        target_config: TargetConfig | None = None,
    ) -> None:
        # Must be chosen before mujoco is imported, which decides for good; EGL needs no display.
        os.environ.setdefault('MUJOCO_GL', 'egl')
        # Software OpenGL: handing so small a picture to threads costs more than drawing it.
        os.environ.setdefault('LP_NUM_THREADS', '0')
        # Its cache on disk has a thread of the lowest priority, which an ending process waits for.
        os.environ.setdefault('MESA_SHADER_CACHE_DISABLE', 'true')
        mujoco: Any = importlib.import_module('mujoco')

        self.config = config or ArmConfig()
        self._target_config = target_config or TargetConfig()
        self._mujoco = mujoco
        self._model = mujoco.MjModel.from_xml_string(scene_xml(self.config))
        self._data = mujoco.MjData(self._model)
        self._renderer: Any = None
        self._steps = 0
        self.reset(seed)

    def reset(self, seed: int, joint_rad: Floats | None = None) -> None:
        """
        Go back to time 0 with another target path; the renderer is kept.

        :param seed: decides the target's path and the first pose.
        :param joint_rad: first pose, [2]; drawn from the seed when not given.
        """
        self.target = Target(seed, self._target_config)
        if joint_rad is None:
            joint_rad = self._first_pose(seed)
        self._mujoco.mj_resetData(self._model, self._data)
        self._steps = 0
        self._data.qpos[:] = self._checked(joint_rad)
        self.command(joint_rad)
        self._mujoco.mj_forward(self._model, self._data)

    def command(self, position_rad: Floats) -> None:
        """
        Set the wanted joint positions; they hold until the next command.

        :param position_rad: shoulder and elbow, [2]; beyond a joint limit means the limit.
        """
        self._data.ctrl[:] = self._checked(position_rad)

    def advance(self, steps: int = 1) -> None:
        """Let time pass, ``steps`` times 1 ms."""
        if steps < 0:
            raise ParameterError('steps', '0 or greater', steps)
        if steps:
            self._mujoco.mj_step(self._model, self._data, nstep=steps)
            self._steps += steps

    @property
    def time_ns(self) -> int:
        """Simulated time since the reset, a multiple of 1 ms."""
        return self._steps * STEP_NS

    @property
    def joint_position_rad(self) -> Floats:
        """Measured joint positions, [2]."""
        return np.array(self._data.qpos, dtype=np.float64)

    @property
    def joint_velocity_rad_s(self) -> Floats:
        """Measured joint velocities, [2]."""
        return np.array(self._data.qvel, dtype=np.float64)

    @property
    def tip_position_m(self) -> Floats:
        """Where the tip is, [2]."""
        return tip_position(self.joint_position_rad, self.config.link_m)

    @property
    def target_position_m(self) -> Floats:
        """Where the target is, [2]: the truth, for scores only."""
        return self.target.position_m(self.time_ns)

    def render(self) -> NDArray[np.uint8]:
        """Return what the camera sees now, rgb, [image_px, image_px, 3]."""
        if self._renderer is None:
            px = self.config.image_px
            self._renderer = self._mujoco.Renderer(self._model, px, px)
            # A context left open at interpreter exit is freed after EGL itself, with a traceback.
            self._release = weakref.finalize(self, self._renderer.close)
        self._data.mocap_pos[0, :2] = self.target_position_m
        self._data.mocap_pos[0, 2] = TARGET_HEIGHT_M
        # Stepping leaves body poses one step behind the joints; the picture must show the joints.
        self._mujoco.mj_kinematics(self._model, self._data)
        self._renderer.update_scene(self._data, camera='top')
        frame: NDArray[np.uint8] = self._renderer.render()
        return frame

    def close(self) -> None:
        """Give the graphics context back; physics goes on working."""
        if self._renderer is not None:
            self._release()
            self._renderer = None

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def _first_pose(self, seed: int) -> Floats:
        """Return a pose in the middle part of the joint ranges, [2]."""
        lower, upper = np.array(self.config.lower_rad), np.array(self.config.upper_rad)
        part = generator(seed, FIRST_POSE).uniform(0.2, 0.8, 2)
        return np.asarray(lower + part * (upper - lower))

    def _checked(self, joint_rad: Floats) -> Floats:
        """Return the pose within the joint limits."""
        joint = np.asarray(joint_rad, dtype=np.float64)
        if joint.shape != (2,) or not np.isfinite(joint).all():
            raise ParameterError('position_rad', 'two finite numbers', joint_rad)
        return np.clip(joint, self.config.lower_rad, self.config.upper_rad)
