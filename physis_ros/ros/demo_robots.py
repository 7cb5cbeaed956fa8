# SPDX-License-Identifier: Apache-2.0
"""The robots of a demo: what each is called, where its topics lie, and which seed it has."""

from __future__ import annotations

from dataclasses import dataclass

# So far apart that no two robots have an episode in common.
SEEDS_APART = 1000
OF_ROBOT = (
    'camera/image_raw',
    'joint_states',
    'command',
    'arm_node/tip',
    'arm_node/target',
    'arm_node/episode',
    'servo_node/playback',
    'servo_node/playback_status',
)
OF_ENGINE = ('action_chunk', 'predicted_image', 'stream_status')


@dataclass(frozen=True)
class Robot:
    """
    One arm with its servo, and its stream.

    :param stream: its name in the engine.
    :param index: from 1; 0 when it is the only one, whose topics bear no name.
    :param seed: episode k uses seed + k.
    """

    stream: str
    index: int
    seed: int

    @property
    def namespace(self) -> str:
        """Of its own nodes."""
        return f'/{self.stream}' if self.index else ''

    @property
    def own(self) -> str:
        """Where its topics lie in the model node."""
        return f'/wam_node/{self.stream}' if self.index else '/wam_node'

    def child(self, kind: str) -> str:
        """Return what one of its nodes is called among all of them."""
        return f'{kind}_{self.index}' if self.index else kind

    @property
    def recorded(self) -> tuple[str, ...]:
        """Topics that tell everything about its run."""
        return (
            *(f'{self.namespace}/{name}' for name in OF_ROBOT),
            *(f'{self.own}/{name}' for name in OF_ENGINE),
        )


def robots(count: int, seed: int) -> tuple[Robot, ...]:
    """Return the robots of a demo."""
    if count == 1:
        return (Robot('robot', 0, seed),)
    return tuple(
        Robot(f'arm_{index}', index, seed + SEEDS_APART * (index - 1))
        for index in range(1, count + 1)
    )
