# SPDX-License-Identifier: Apache-2.0
"""The reach network: its codec, its stages, and that rows of a batch do not know each other."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from physis_ros.backbones.base import KvRead, KvRule
from physis_ros.backbones.reach.codec import Codec, to_image, to_patches
from physis_ros.backbones.reach.network import ReachNetwork, initialise
from physis_ros.backbones.reach.spec import ReachSizes, model_spec
from physis_ros.errors import ParameterError

SMALL = ReachSizes(width=32, heads=2, blocks=2, components=24, keypoints=4, features=32, window=2)


class GivenKv:
    """Own key and value after predecessors that the test made up."""

    def __init__(self, past: Tensor, valid: list[list[bool]]) -> None:
        self._past, self._valid = past, torch.tensor(valid)

    def extend(self, key: Tensor, value: Tensor) -> KvRead:
        keys = torch.cat([self._past, key[:, None]], 1)
        values = torch.cat([self._past.flip(-1), value[:, None]], 1)
        age = torch.arange(keys.shape[1] - 1, -1, -1).expand(len(key), -1)
        return KvRead(keys, values, age, self._valid)


def network(kv_rule: KvRule = KvRule.SAME_STEP, sizes: ReachSizes = SMALL) -> ReachNetwork:
    """Return a network in which every weight matters: nothing is left at zero."""
    torch.manual_seed(1)
    net = ReachNetwork(sizes, kv_rule).requires_grad_(False)
    initialise(net)
    for parameter in net.parameters():
        parameter.add_(0.1 * torch.randn_like(parameter))
    net.codec.basis.copy_(torch.linalg.qr(torch.randn_like(net.codec.basis)).Q)
    net.codec.scale.fill_(20.0)
    return net


def inputs(rows: int, seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        'frames': torch.randint(
            0, 256, (rows, 3, 64, 64, 3), dtype=torch.uint8, generator=generator
        ),
        'joints': torch.randn(rows, 4, generator=generator),
        'delay': torch.rand(rows, 1, generator=generator) * 0.5,
    }


def run_step(
    net: ReachNetwork, given: dict[str, Tensor], noise: Tensor, step: Tensor, kv: GivenKv
) -> Tensor:
    """Take rows through one pass; every block reads the same made-up past."""
    hidden = net.enter(noise * 0.5, net.encode(given), noise, step)
    for index in range(net.sizes.blocks):
        hidden = net.block(index, hidden, step, kv)
    return net.leave(hidden, step)


@pytest.mark.parametrize(
    'wrong', [{'heads': 5}, {'action_steps': 3}, {'noise': ()}, {'noise': (0.5, 0.2)}]
)
def test_sizes_that_do_not_fit_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        ReachSizes(**wrong)  # type: ignore[arg-type]


def test_default_sizes_make_the_model_that_ships() -> None:
    spec = model_spec(ReachSizes(), KvRule.SAME_STEP)
    assert (spec.blocks, spec.steps, spec.window, spec.passes) == (6, 4, 3, 4)
    assert spec.tokens == 32 + 8 + 4 + 1 + 1
    assert spec.latent_shape == (32 * 128 + 16 * 2,)
    assert spec.frames.history_ns == (-100_000_000, -50_000_000, 0)
    needed = [one.name for one in spec.inputs if not one.optional]
    assert needed == ['frames', 'joints', 'delay']
    assert spec.takes_prefix
    assert model_spec(ReachSizes(), KvRule.CLEAN).passes == 5


def test_patches_and_image_are_each_others_inverse() -> None:
    image = torch.arange(2 * 64 * 64 * 3).reshape(2, 64, 64, 3)
    patches = to_patches(image)
    assert patches.shape == (2, 16, 768)
    assert torch.equal(patches[1, 5].reshape(16, 16, 3), image[1, 16:32, 16:32])
    assert torch.equal(to_image(patches), image)


def test_zero_latent_is_the_copied_frame_and_the_mean_action() -> None:
    codec = Codec(SMALL)
    codec.action_mean.copy_(torch.tensor([0.5, 1.5]))
    last = torch.randint(0, 256, (2, 64, 64, 3), dtype=torch.uint8)
    zero = torch.zeros(2, SMALL.latent_numbers)
    frames = codec.frames(zero, last)
    assert torch.equal(frames, last[:, None].expand(-1, 2, -1, -1, -1))
    assert torch.equal(codec.actions(zero), torch.tensor([0.5, 1.5]).expand(2, 16, 2))


def test_codec_keeps_actions_and_what_its_basis_can_express() -> None:
    codec = Codec(SMALL)
    codec.basis.copy_(torch.linalg.qr(torch.randn_like(codec.basis)).Q)
    codec.scale.fill_(30.0)
    codec.action_spread.copy_(torch.tensor([0.8, 0.3]))
    last = torch.full((3, 64, 64, 3), 128, dtype=torch.uint8)
    wanted = torch.randn(3, SMALL.latent_numbers)
    frames, actions = codec.frames(wanted, last), codec.actions(wanted)
    again = codec.write(last, frames, actions)
    cut = SMALL.video_numbers
    torch.testing.assert_close(again[:, cut:], wanted[:, cut:])
    # Pixels are whole numbers: half a level of error each, in units of the scale.
    torch.testing.assert_close(again[:, :cut], wanted[:, :cut], atol=0.1, rtol=0)


def test_first_step_takes_nothing_from_the_latent() -> None:
    net, given = network(), inputs(2)
    conditioning = net.encode(given)
    noise = torch.randn(2, SMALL.latent_numbers)
    garbage = torch.full_like(noise, torch.nan)
    first, later = torch.zeros(2, dtype=torch.int64), torch.ones(2, dtype=torch.int64)
    none = net.enter(None, conditioning, noise, first)
    assert torch.equal(net.enter(garbage, conditioning, noise, first), none)
    assert not torch.equal(net.enter(noise * 2, conditioning, noise, later), none)


def test_clean_pass_takes_the_latent_without_noise() -> None:
    net, given = network(KvRule.CLEAN), inputs(1)
    latent = torch.randn(1, SMALL.latent_numbers)
    last = torch.tensor([net.spec.passes - 1])
    entered = [
        net.enter(latent, net.encode(given), torch.randn_like(latent), last) for _ in range(2)
    ]
    assert torch.equal(*entered)


def test_rows_of_a_batch_are_independent() -> None:
    net, given = network(), inputs(3)
    noise = torch.randn(3, SMALL.latent_numbers)
    step = torch.tensor([0, 3, 1])
    past = torch.randn(3, 2, SMALL.tokens, 2, 16)
    valid = [[False, False, True], [True, True, True], [False, True, True]]
    together = run_step(net, given, noise, step, GivenKv(past, valid))
    for row in range(3):
        one = slice(row, row + 1)
        alone = run_step(
            net,
            {name: value[one] for name, value in given.items()},
            noise[one],
            step[one],
            GivenKv(past[one], valid[one]),
        )
        torch.testing.assert_close(together[one], alone, atol=1e-5, rtol=1e-5)


def test_invalid_slots_are_not_read_and_valid_ones_are() -> None:
    net, given = network(), inputs(1)
    noise, step = torch.randn(1, SMALL.latent_numbers), torch.tensor([1])
    past = torch.randn(1, 2, SMALL.tokens, 2, 16)
    other = past.clone()
    other[:, 0] = 1e3
    hidden_slot, seen_slot = [[False, True, True]], [[True, True, True]]
    unread = [run_step(net, given, noise, step, GivenKv(p, hidden_slot)) for p in (past, other)]
    read = [run_step(net, given, noise, step, GivenKv(p, seen_slot)) for p in (past, other)]
    assert torch.equal(*unread)
    assert not torch.allclose(*read, atol=1e-3)


def test_age_of_a_slot_matters() -> None:
    net, given = network(), inputs(1)
    noise, step = torch.randn(1, SMALL.latent_numbers), torch.tensor([1])
    past = torch.randn(1, 2, SMALL.tokens, 2, 16)
    valid = [[True, True, True]]
    swapped = [run_step(net, given, noise, step, GivenKv(p, valid)) for p in (past, past.flip(1))]
    assert not torch.allclose(*swapped, atol=1e-4)


def test_delay_and_every_frame_matter() -> None:
    net, given = network(), inputs(1)
    plain = net.encode(given)
    assert not torch.equal(net.encode({**given, 'delay': given['delay'] + 0.1}), plain)
    for index in range(3):
        frames = given['frames'].clone()
        frames[:, index, 20:30, 20:30] = 255
        assert not torch.equal(net.encode({**given, 'frames': frames}), plain)


def test_a_share_of_blocks_computes_as_the_whole_does() -> None:
    whole = network()
    part = ReachNetwork(SMALL, KvRule.SAME_STEP, frozenset({1})).requires_grad_(False)
    part.load_state_dict({n: v for n, v in whole.state_dict().items() if 'blocks.0' not in n})
    hidden, step = torch.randn(1, SMALL.tokens, SMALL.width), torch.tensor([2])
    kv = GivenKv(torch.randn(1, 2, SMALL.tokens, 2, 16), [[True, True, True]])
    assert torch.equal(part.block(1, hidden, step, kv), whole.block(1, hidden, step, kv))
    assert list(part.blocks) == ['1']


def test_decode_gives_frames_only_when_asked() -> None:
    net, given = network(), inputs(2)
    latent = torch.randn(2, SMALL.latent_numbers)
    assert net.decode(latent, given, frames=False).frames is None
    decoded = net.decode(latent, given, frames=True)
    assert decoded.actions.shape == (2, 16, 2)
    assert decoded.frames is not None
    assert decoded.frames.shape == (2, 2, 64, 64, 3)
    assert decoded.frames.dtype == torch.uint8
