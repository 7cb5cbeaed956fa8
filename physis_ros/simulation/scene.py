# SPDX-License-Identifier: Apache-2.0
"""
The arm as MuJoCo sees it: one model description, made from numbers.

Only text is made here; loading and stepping it is the business of ``arm.py``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from physis_ros.errors import ParameterError


@dataclass(frozen=True)
class ArmConfig:
    """
    A planar arm with two links, and the camera above it. Pairs are (shoulder, elbow).

    :param link_m: length of upper arm and forearm.
    :param link_kg: their masses.
    :param lower_rad: joint limits.
    :param upper_rad: joint limits.
    :param damping_nm_s: viscous friction of each joint [N m s / rad].
    :param armature_kg_m2: inertia of each motor, seen at its joint.
    :param stiffness_nm_rad: gain from position error to torque.
    :param drive_damping_nm_s: gain from velocity to opposing torque.
    :param torque_nm: greatest torque of each actuator.
    :param image_px: width and height of the camera image.
    :param view_m: width of the square that the camera sees, the shoulder in its middle.
    """

    link_m: tuple[float, float] = (0.25, 0.20)
    link_kg: tuple[float, float] = (0.5, 0.3)
    lower_rad: tuple[float, float] = (-3.1, 0.1)
    upper_rad: tuple[float, float] = (2.6, 2.8)
    damping_nm_s: tuple[float, float] = (0.1, 0.03)
    armature_kg_m2: tuple[float, float] = (0.01, 0.003)
    stiffness_nm_rad: tuple[float, float] = (60.0, 12.0)
    drive_damping_nm_s: tuple[float, float] = (2.2, 0.5)
    torque_nm: tuple[float, float] = (2.5, 0.8)
    image_px: int = 128
    view_m: float = 0.96

    def __post_init__(self) -> None:
        """Refuse what is not an arm."""
        positive = ('link_m', 'link_kg', 'armature_kg_m2', 'stiffness_nm_rad', 'torque_nm')
        for name in positive:
            _check(name, getattr(self, name), above=0.0)
        for name in ('damping_nm_s', 'drive_damping_nm_s'):
            _check(name, getattr(self, name), least=0.0)
        for lower, upper in zip(self.lower_rad, self.upper_rad, strict=True):
            if not (-math.pi <= lower < upper <= math.pi):
                raise ParameterError(
                    'lower_rad', 'below upper_rad, both within pi', (lower, upper)
                )
        if self.lower_rad[1] < 0:
            raise ParameterError('lower_rad', 'at least 0 at the elbow', self.lower_rad)
        if not (16 <= self.image_px <= 1024 and self.image_px % 2 == 0):
            raise ParameterError('image_px', 'even, from 16 to 1024', self.image_px)
        _check('view_m', (self.view_m,), above=0.0)


def _check(
    name: str, values: tuple[float, ...], above: float = -math.inf, least: float = -math.inf
) -> None:
    """Raise unless all values are finite and in range."""
    if not all(math.isfinite(v) and v > above and v >= least for v in values):
        bound = f'greater than {above:g}' if above > -math.inf else f'{least:g} or greater'
        raise ParameterError(name, f'finite and {bound}', values)


# Flat light: nothing but ambient, so a colour in the image is the colour written here.
_SCENE = """
<mujoco model="reach_arm">
  <compiler angle="radian"/>
  <option timestep="0.001" integrator="implicitfast" gravity="0 0 0">
    <flag contact="disable"/>
  </option>
  <visual>
    <headlight ambient="1 1 1" diffuse="0 0 0" specular="0 0 0"/>
    <quality shadowsize="0" offsamples="0"/>
    <global offwidth="{px}" offheight="{px}"/>
    <map znear="0.1" zfar="4"/>
  </visual>
  <worldbody>
    <camera name="top" pos="0 0 1" {projection}/>
    <geom name="table" type="plane" size="2 2 1" pos="0 0 -0.05" rgba="0.13 0.14 0.17 1"/>
    <geom name="post" type="cylinder" size="0.030 0.01" rgba="0.55 0.55 0.58 1"/>
    <body name="upper_arm">
      <joint name="shoulder" axis="0 0 1" limited="true" range="{lower[0]} {upper[0]}"
             damping="{damping[0]}" armature="{armature[0]}"/>
      <geom type="capsule" size="0.018" fromto="0 0 0 {link[0]} 0 0" mass="{mass[0]}"
            rgba="0.15 0.45 0.95 1"/>
      <body name="forearm" pos="{link[0]} 0 0.01">
        <joint name="elbow" axis="0 0 1" limited="true" range="{lower[1]} {upper[1]}"
               damping="{damping[1]}" armature="{armature[1]}"/>
        <geom type="capsule" size="0.014" fromto="0 0 0 {link[1]} 0 0" mass="{mass[1]}"
              rgba="0.20 0.80 0.35 1"/>
        <geom name="tip" type="cylinder" size="0.014 0.004" pos="{link[1]} 0 0.06" mass="0"
              rgba="1 1 1 1"/>
        <site name="tip" pos="{link[1]} 0 0"/>
      </body>
    </body>
    <body name="target" mocap="true" pos="0.3 0 0.045">
      <geom type="cylinder" size="0.035 0.004" rgba="0.95 0.25 0.15 1"/>
    </body>
  </worldbody>
  <actuator>
    <position name="shoulder" joint="shoulder" kp="{stiffness[0]}" kv="{drive[0]}"
              forcelimited="true" forcerange="-{torque[0]} {torque[0]}"/>
    <position name="elbow" joint="elbow" kp="{stiffness[1]}" kv="{drive[1]}"
              forcelimited="true" forcerange="-{torque[1]} {torque[1]}"/>
  </actuator>
</mujoco>
"""

TARGET_HEIGHT_M = 0.045


def scene_xml(config: ArmConfig) -> str:
    """Return the MJCF of the arm, its camera and the target disc."""
    return _SCENE.format(
        px=config.image_px,
        projection=f'projection="orthographic" fovy="{config.view_m}"',
        link=config.link_m,
        mass=config.link_kg,
        lower=config.lower_rad,
        upper=config.upper_rad,
        damping=config.damping_nm_s,
        armature=config.armature_kg_m2,
        stiffness=config.stiffness_nm_rad,
        drive=config.drive_damping_nm_s,
        torque=config.torque_nm,
    )
