# SPDX-License-Identifier: Apache-2.0
"""
Camera frames and joint states to one observation, joined by time.

The newest frame of the first camera sets the instant, or an older one where another camera is
late; everything else is taken as of it. Nothing is
thrown away because one publisher is late; every message not used and every observation not made
is counted with its reason. Single-threaded: the owner holds one lock around all calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from physis_ros.errors import ObservationError
from physis_ros.observation.config import AlignConfig, Timeline
from physis_ros.observation.depth import check_depth
from physis_ros.observation.frames import Frame, FrameRing
from physis_ros.observation.joints import JointReading, JointTrack, JointValue, Sample, usable
from physis_ros.observation.resize import check_image
from physis_ros.observation.skew import SkewEstimate
from physis_ros.types import Observation, View


class Intake(Enum):
    """What became of a message."""

    TAKEN = 'taken'
    DUPLICATE = 'duplicate_stamp'
    OUT_OF_ORDER = 'out_of_order'
    REGRESSED = 'stamp_regressed'  # time itself went back: not taken, the owner resets
    UNSTAMPED = 'stamp_zero'
    OTHER_JOINTS = 'other_joints'
    MALFORMED = 'malformed_joints'
    NON_FINITE = 'non_finite_joints'


class Lack(Enum):
    """Why there is no observation."""

    NO_FRAME = 'no_frame'
    NO_JOINTS = 'no_joints'
    STALE_FRAME = 'stale_frame'
    STALE_JOINTS = 'stale_joints'
    SKEW = 'clock_skew'

    @property
    def of_frames(self) -> bool:
        """Whether a camera is to blame."""
        return self in (Lack.NO_FRAME, Lack.STALE_FRAME)


MAX_HEARD = 256  # joint names kept for the error message
FUTURE_STAMP = 'future_stamp'
HISTORY_INCOMPLETE = 'history_incomplete'
# An observation whose joints are of another instant than its frame, within the tolerance.
JOINTS_OFFSET = 'joints_offset'


class Aligner:
    """
    Bounded memory of what came, and the observation as of now.

    :param config: sizes, names, tolerances.
    """

    def __init__(self, config: AlignConfig) -> None:
        self.config = config
        self.counts: Counter[str] = Counter()
        sizes = config.history_ns, config.frame_tolerance_ns, config.max_frames, self._keep_ns
        self._rings = {name: FrameRing(*sizes) for name in config.cameras}
        self._anchor: Frame | None = None
        self._tracks = {name: JointTrack(config.max_joint_samples) for name in config.joint_names}
        self._skew: dict[str, SkewEstimate] = {}
        self._heard: set[str] = set()
        self._counted_lack: tuple[Lack, int] | None = None

    @property
    def newest(self) -> Frame | None:
        """
        The newest frame, of one camera.

        Of several: the newest of the first that all others have one near enough to; the newest of
        the first as long as there is none.
        """
        return self._anchor or self._rings[self.config.cameras[0]].newest

    @property
    def skew_ns(self) -> dict[str, int]:
        """The least ``receive - header stamp`` lately, for each publisher."""
        least = {name: skew.least_ns for name, skew in self._skew.items()}
        return {name: value for name, value in least.items() if value is not None}

    @property
    def missing_joints(self) -> tuple[str, ...]:
        """Model joints of which no state has come since the last clear."""
        return tuple(name for name, track in self._tracks.items() if track.newest_ns is None)

    @property
    def heard_joints(self) -> tuple[str, ...]:
        """Joint names that publishers gave while some of ours were missing, sorted."""
        return tuple(sorted(self._heard))

    def reconfigure(self, config: AlignConfig) -> None:
        """Join by other tolerances from now on; sizes, cameras and joints stay."""
        self.config = config
        for ring in self._rings.values():
            ring.reconfigure(config.frame_tolerance_ns, self._keep_ns)
        self._anchor = self._agreed()

    @property
    def _keep_ns(self) -> int:
        """An older frame of the first camera may be the newest that all of them agree with."""
        return self.config.max_age_ns if len(self.config.cameras) > 1 else 0

    def clear(self) -> None:
        """Forget all frames and joints (clock jump); counters stay."""
        for ring in self._rings.values():
            ring.clear()
        self._anchor = None
        self._skew.clear()
        for track in self._tracks.values():
            track.clear()

    def frame(
        self, stamp_ns: int, receive_ns: int, image: npt.NDArray[Any], camera: str = ''
    ) -> Intake:
        """
        Take a camera frame.

        :param stamp_ns: header stamp.
        :param receive_ns: when it came, stream clock.
        :param image: uint8 [height, width, 3] RGB, or float32 [height, width] depth, of the
            model's size; not written later.
        :param camera: whose; the first one's when not given.
        :raises ObservationError: on another size.
        """
        camera = camera or self.config.cameras[0]
        self._check_size(image, camera)
        ring = self._rings[camera]
        when_ns = self._time_of(camera, stamp_ns, receive_ns)
        verdict = self._order(when_ns, ring.newest and ring.newest.stamp_ns)
        if when_ns is not None and verdict is Intake.TAKEN:
            ring.append(Frame(when_ns, receive_ns, image))
            self._anchor = self._agreed()
        return self._counted('frame', verdict, camera)

    def _agreed(self) -> Frame | None:
        """Return the newest frame of the first camera that all others have one near enough to."""
        first, *others = self._rings.values()
        tolerance_ns = self.config.camera_tolerance_ns
        for frame in first.newest_first():
            if all(ring.near(frame.stamp_ns, tolerance_ns) for ring in others):
                return frame
        return None

    def joints(self, reading: JointReading) -> Intake:
        """Take a joint state; refused whole when one of our joints has no usable position."""
        if not reading.well_formed:
            return self._counted('joints', Intake.MALFORMED)
        if self.missing_joints and len(self._heard) < MAX_HEARD:
            self._heard.update(reading.names)
        when_ns = self._time_of(reading.source, reading.stamp_ns, reading.receive_ns)
        if when_ns is None:
            return self._counted('joints', Intake.UNSTAMPED)
        ours = [
            (index, self._tracks[joint])
            for index, name in enumerate(reading.names)
            if (joint := self.config.aliases.get(name, name)) in self._tracks
        ]
        # Whole or not at all: the joints of a message are of one instant.
        if not all(usable(reading.position[index]) for index, _ in ours):
            return self._counted('joints', Intake.NON_FINITE)
        verdicts = [
            self._joint(
                when_ns,
                reading.receive_ns,
                track,
                reading.position[index],
                reading.velocity[index] if len(reading.velocity) else None,
            )
            for index, track in ours
        ]
        return self._counted('joints', _worst(verdicts))

    def as_of(self, now_ns: int) -> Observation | Lack:
        """
        Join what there is into the newest possible observation, or say why not.

        A reason is counted once for each newest frame, however often it is asked.

        :param now_ns: stream clock.
        """
        found = self._inputs(now_ns)
        if isinstance(found, Lack):
            self._count_lack(found)
            return found
        return self._joined(*found)

    def lack(self, now_ns: int) -> Lack | None:
        """Return why there would be no observation now; counts nothing."""
        found = self._inputs(now_ns)
        return found if isinstance(found, Lack) else None

    def _count_lack(self, lack: Lack) -> None:
        newest = self.newest
        key = (lack, -1 if newest is None else newest.stamp_ns)
        if key != self._counted_lack:
            self.counts[lack.value] += 1
            if lack.of_frames and len(self._rings) > 1 and (camera := self.lagging()):
                self.counts[f'{lack.value}.{camera}'] += 1
        self._counted_lack = key

    def lagging(self) -> str:
        """Return the camera that keeps the others waiting; empty when none does."""
        for name, ring in self._rings.items():
            if ring.newest is None:
                return name
        if self._anchor is not None:
            return ''
        last = {name: ring.newest for name, ring in self._rings.items()}
        stamps_ns = {name: frame.stamp_ns for name, frame in last.items() if frame is not None}
        return min(stamps_ns, key=stamps_ns.__getitem__)

    def _inputs(self, now_ns: int) -> tuple[Frame, list[JointValue]] | Lack:
        newest = self.newest
        if newest is None or any(ring.newest is None for ring in self._rings.values()):
            return Lack.NO_FRAME
        if self._anchor is None:
            return Lack.STALE_FRAME
        if now_ns - newest.stamp_ns > self.config.max_age_ns:
            return Lack.STALE_FRAME
        if newest.stamp_ns - now_ns > self.config.max_future_ns:
            return Lack.SKEW
        if self.missing_joints:
            return Lack.NO_JOINTS
        how = self.config.joint_tolerance_ns, self.config.joint_match
        values = [track.at(newest.stamp_ns, *how) for track in self._tracks.values()]
        present = [value for value in values if value is not None]
        if len(present) < len(values):
            return Lack.STALE_JOINTS
        return newest, present

    def _joined(self, newest: Frame, joints: list[JointValue]) -> Observation:
        offset = any(value.stamp_ns != newest.stamp_ns for value in joints)
        self.counts[JOINTS_OFFSET] += offset
        histories = {name: ring.history(newest.stamp_ns) for name, ring in self._rings.items()}
        self.counts[HISTORY_INCOMPLETE] += any(item.missing for item in histories.values())
        camera, *others = histories
        history = histories[camera]
        receipts_ns = [item.receive_ns for item in histories.values()]
        receipts_ns += [value.receive_ns for value in joints]
        return Observation(
            stamp_ns=newest.stamp_ns,
            receive_ns=max(receipts_ns),
            frames=history.images,
            frame_stamps_ns=history.stamps_ns,
            joint_position=np.array([value.position for value in joints]),
            joint_velocity=np.array([value.velocity for value in joints]),
            joint_stamp_ns=min((value.stamp_ns for value in joints), default=newest.stamp_ns),
            camera=camera,
            others={
                name: View(histories[name].images, histories[name].stamps_ns) for name in others
            },
        )

    def _time_of(self, source: str, stamp_ns: int, receive_ns: int) -> int | None:
        """Place a message on the chosen timeline; None for an unset stamp."""
        if stamp_ns > 0:
            skew = self._skew.setdefault(source, SkewEstimate(self.config.skew_window_ns))
            skew.add(stamp_ns, receive_ns)
            ahead_ns = stamp_ns - receive_ns
            self.counts[FUTURE_STAMP] += ahead_ns > self.config.future_tolerance_ns
        if self.config.timeline is Timeline.RECEIVE:
            return receive_ns
        return stamp_ns if stamp_ns > 0 else None

    def _order(self, when_ns: int | None, newest_ns: int | None) -> Intake:
        if when_ns is None:
            return Intake.UNSTAMPED
        if newest_ns is None or when_ns > newest_ns:
            return Intake.TAKEN
        if when_ns == newest_ns:
            return Intake.DUPLICATE
        regressed = newest_ns - when_ns >= self.config.regress_ns
        return Intake.REGRESSED if regressed else Intake.OUT_OF_ORDER

    def _joint(
        self,
        when_ns: int,
        receive_ns: int,
        track: JointTrack,
        position: float,
        velocity: float | None,
    ) -> Intake:
        verdict = self._order(when_ns, track.newest_ns)
        if verdict is Intake.TAKEN:
            known = velocity if velocity is not None and usable(velocity) else None
            track.append(Sample(when_ns, receive_ns, float(position), known))
        return verdict

    def _check_size(self, image: npt.NDArray[Any], camera: str) -> None:
        if self.config.is_depth(camera):
            check_depth(image)
        else:
            check_image(image)
        if image.shape[:2] != (self.config.height, self.config.width):
            raise ObservationError(
                f'image must be {self.config.width}x{self.config.height}, '
                f'got {image.shape[1]}x{image.shape[0]}'
            )

    def _counted(self, kind: str, verdict: Intake, camera: str = '') -> Intake:
        # One by one only where there are several.
        suffix = f'.{camera}' if camera and len(self._rings) > 1 else ''
        self.counts[kind + suffix] += 1
        if verdict is not Intake.TAKEN:
            self.counts[verdict.value + suffix] += 1
        return verdict


SEVERITY = (
    Intake.REGRESSED,
    Intake.OUT_OF_ORDER,
    Intake.DUPLICATE,
    Intake.TAKEN,
)


def _worst(verdicts: Sequence[Intake]) -> Intake:
    """Tell what became of a message that carries several joints."""
    return min(verdicts, key=SEVERITY.index, default=Intake.OTHER_JOINTS)


def names_after(aliases: Mapping[str, str], joint_names: Sequence[str]) -> tuple[str, ...]:
    """Return what the robot calls the model's joints (aliases map robot name to model name)."""
    back = {model: robot for robot, model in aliases.items()}
    return tuple(back.get(name, name) for name in joint_names)
