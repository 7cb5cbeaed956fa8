# SPDX-License-Identifier: Apache-2.0
"""Raw, depth and compressed images against bytes made by hand, and against cv_bridge."""

from __future__ import annotations

import array
import math
import struct
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from physis_ros.errors import ObservationError
from physis_ros.observation.compressed import CompressedFormat, decode_compressed, parse_format
from physis_ros.observation.compressed_depth import decode_compressed_depth
from physis_ros.observation.depth import decode_depth
from physis_ros.observation.encodings import ENCODINGS, encoding_of
from physis_ros.observation.image import decode_image

RED, GREEN = [250, 10, 20], [5, 240, 15]


@pytest.mark.parametrize(
    ('encoding', 'pixels'),
    [
        ('rgb8', [[250, 10, 20], [5, 240, 15]]),
        ('8UC3', [[250, 10, 20], [5, 240, 15]]),
        ('bgr8', [[20, 10, 250], [15, 240, 5]]),
        ('rgba8', [[250, 10, 20, 77], [5, 240, 15, 0]]),
        ('bgra8', [[20, 10, 250, 77], [15, 240, 5, 255]]),
    ],
)
@pytest.mark.parametrize('padding', [0, 1, 5])
def test_I2_I7_colour_is_rgb_whatever_the_order_and_the_padding(
    encoding: str, pixels: list[list[int]], padding: int
) -> None:
    row = bytes(value for pixel in pixels for value in pixel)
    other = bytes(value for pixel in reversed(pixels) for value in pixel)
    data = row + b'\xee' * padding + other + b'\xee' * padding
    image = decode_image(2, 2, encoding, False, len(row) + padding, data)
    assert image.tolist() == [[RED, GREEN], [GREEN, RED]]
    assert image.dtype == np.uint8
    assert image.flags.c_contiguous


@pytest.mark.parametrize('encoding', ['mono8', '8UC1'])
def test_grey_is_spread_over_three_channels(encoding: str) -> None:
    image = decode_image(2, 2, encoding, False, 3, bytes([1, 2, 99, 3, 4]))
    assert image.tolist() == [[[1] * 3, [2] * 3], [[3] * 3, [4] * 3]]


@pytest.mark.parametrize('big', [False, True])
def test_I1_16_bit_honours_endianness_and_scales(big: bool) -> None:
    """The flag decides, not this machine."""
    order = '>' if big else '<'
    values = [0, 128, 129, 257, 0x1234, 65535]
    data = struct.pack(f'{order}3HH3H', *values[:3], 0xDEAD, *values[3:])
    image = decode_image(2, 3, 'mono16', big, 8, data)
    # v / 257 rounded: 128 is below the middle of 0 and 257, 129 above.
    assert image[..., 0].tolist() == [[0, 0, 1], [1, 18, 255]]
    assert (image == image[..., :1]).all()
    ramp = np.arange(65536).astype(f'{order}u2')
    narrow = decode_image(1, 65536, 'mono16', big, 131072, ramp.tobytes())
    np.testing.assert_array_equal(narrow[0, :, 0], (np.arange(65536) + 128) // 257)
    colour = struct.pack(f'{order}3H', 20 * 257, 10 * 257, 250 * 257)
    assert decode_image(1, 1, 'bgr16', big, 6, colour).tolist() == [[RED]]


@pytest.mark.parametrize(
    ('pattern', 'layout'), [('rggb', 'RGGB'), ('bggr', 'BGGR'), ('gbrg', 'GBRG'), ('grbg', 'GRBG')]
)
@pytest.mark.parametrize('bits', [8, 16])
def test_bayer_of_one_colour_gives_that_colour(pattern: str, layout: str, bits: int) -> None:
    level = dict(zip('RGB', [200, 90, 30], strict=True))
    scale = 1 if bits == 8 else 257
    tile = [[level[layout[0]], level[layout[1]]], [level[layout[2]], level[layout[3]]]]
    mosaic = (np.tile(np.array(tile), (4, 4)) * scale).astype('u1' if bits == 8 else '>u2')
    padded = np.concatenate([mosaic, np.zeros((8, 3), mosaic.dtype)], axis=1)
    step = padded.shape[1] * bits // 8
    image = decode_image(8, 8, f'bayer_{pattern}{bits}', True, step, padded.tobytes())
    assert (image == [200, 90, 30]).all()


@pytest.mark.parametrize('kind', ['bytes', 'bytearray', 'memoryview', 'numpy', 'array'])
def test_any_byte_buffer(kind: str) -> None:
    raw = bytearray([*RED, *GREEN])
    data: Any = {
        'bytes': bytes(raw),
        'bytearray': raw,
        'memoryview': memoryview(raw),
        'numpy': np.frombuffer(raw, np.uint8),
        'array': array.array('B', raw),
    }[kind]
    assert decode_image(1, 2, 'rgb8', False, 6, data).tolist() == [[RED, GREEN]]


def test_rgb_is_not_copied_and_all_else_shares_nothing() -> None:
    data = np.frombuffer(bytes([*RED, *GREEN] * 2), np.uint8)
    image = decode_image(2, 2, 'rgb8', False, 6, data)
    assert np.shares_memory(image, data)
    assert not image.flags.writeable
    for encoding, width, step in (
        ('bgr8', 2, 6),
        ('rgb8', 1, 6),
        ('rgba8', 1, 6),
        ('mono8', 3, 6),
    ):
        assert not np.shares_memory(decode_image(2, width, encoding, False, step, data), data)


@pytest.mark.parametrize(
    ('fields', 'message'),
    [
        ((1, 2, 'yuv999', False, 6, b'123456'), "encoding must be one of .* got 'yuv999'"),
        ((1, 2, '32FC1', False, 8, b'12345678'), "got '32FC1', which is depth"),
        ((1, 2, '16UC1', False, 4, b'1234'), "got '16UC1', which is depth"),
        ((1, 2, 'rgb8', False, 5, b'123456'), 'step must be >= 6 for 2 pixels of rgb8, got 5'),
        ((2, 2, 'rgb8', False, 7, b'x' * 12), 'data must be >= 13 bytes .* got 12'),
        ((0, 2, 'rgb8', False, 6, b''), 'size must be >= 1x1, got 0x2'),
    ],
)
def test_I2_contradictions_are_refused(fields: tuple[Any, ...], message: str) -> None:
    """Never a sheared image, never a read past the end."""
    with pytest.raises(ObservationError, match=message):
        decode_image(*fields)


def test_yuv_from_webcams() -> None:
    """The same red as OpenCV makes of it, in both byte orders of the pixel pair."""
    luma, blue, red = 82, 90, 240
    uyvy = bytes([blue, luma, red, luma] * 2)
    yuyv = bytes([luma, blue, luma, red] * 2)
    image = decode_image(1, 4, 'yuv422', False, 8, uyvy)
    np.testing.assert_array_equal(image, decode_image(1, 4, 'yuv422_yuy2', False, 8, yuyv))
    assert (abs(image.astype(int) - [255, 0, 0]) <= 2).all()


@given(
    st.integers(-1, 9), st.integers(-1, 9), st.sampled_from([*ENCODINGS, 'h264', '']),
    st.booleans(), st.integers(-2, 80), st.binary(max_size=400),
)  # fmt: skip
@settings(max_examples=400, deadline=None)
def test_hostile_fields_give_an_image_or_an_error(
    height: int, width: int, encoding: str, big: bool, step: int, data: bytes
) -> None:
    try:
        image = decode_image(height, width, encoding, big, step, data)
    except ObservationError:
        return
    assert (image.shape, image.dtype.name) == ((height, width, 3), 'uint8')
    assert len(data) >= step * (height - 1) + width * ENCODINGS[encoding].pixel_bytes


@pytest.mark.parametrize('encoding', ['mono16', 'rgb16', 'bgr16', 'bayer_rggb16'])
@pytest.mark.parametrize('big', [False, True])
@pytest.mark.parametrize('size', [(1, 1), (4, 1), (4, 2), (6, 8)])
@pytest.mark.parametrize('padding', [1, 3, 4])
def test_I2_rows_need_not_begin_at_whole_values(
    encoding: str, big: bool, size: tuple[int, int], padding: int
) -> None:
    height, width = size
    row = width * encoding_of(encoding).pixel_bytes
    rows = np.random.default_rng(1).integers(0, 256, (height, row), np.uint8)
    padded = np.pad(rows, ((0, 0), (0, padding)))

    def decoded(step: int, data: bytes) -> Any:
        try:
            return decode_image(height, width, encoding, big, step, data)
        except ObservationError as error:
            return str(error)

    plain = decoded(row, rows.tobytes())
    assert np.array_equal(decoded(row + padding, padded.tobytes()), plain)


def test_I2_last_row_may_lack_its_padding() -> None:
    assert decode_image(2, 1, 'rgb8', False, 4, bytes([*RED, 0, *GREEN])).tolist() == [
        [RED],
        [GREEN],
    ]


@pytest.mark.parametrize('big', [False, True])
def test_I1_depth_in_metres(big: bool) -> None:
    order = '>' if big else '<'
    millimetres = struct.pack(f'{order}2H', 1500, 0)
    for encoding in ('16UC1', 'mono16'):
        depth = decode_depth(1, 2, encoding, big, 4, millimetres)
        assert depth.dtype == np.float32
        np.testing.assert_array_equal(depth, np.array([[1.5, np.nan]], np.float32))
    metres = struct.pack(f'{order}ff4sff', 0.25, np.inf, b'pad!', 0.0, np.nan)
    depth = decode_depth(2, 2, '32FC1', big, 12, metres)
    np.testing.assert_array_equal(depth, [[0.25, np.inf], [np.nan, np.nan]])


def test_colour_is_no_depth() -> None:
    with pytest.raises(ObservationError, match=r"depth encoding must be one of .* got 'rgb8'"):
        decode_depth(1, 1, 'rgb8', False, 3, b'123')


@pytest.mark.parametrize(
    ('text', 'parsed'),
    [
        ('jpeg', ('jpeg', '', False)),
        ('jpg', ('jpeg', '', False)),
        ('png', ('png', '', False)),
        ('rgb8; jpeg compressed bgr8', ('jpeg', 'rgb8', False)),
        ('bgr8; png compressed bgr8', ('png', 'bgr8', False)),
        ('rgb8; jpeg compressed rgb8', ('jpeg', 'rgb8', True)),
        ('mono8; jpeg compressed ', ('jpeg', 'mono8', False)),
    ],
)
def test_I6_format_strings(text: str, parsed: tuple[str, str, bool]) -> None:
    """What drivers and compressed_image_transport write."""
    assert parse_format(text) == CompressedFormat(*parsed)


@pytest.mark.parametrize('text', ['', 'theora', '16UC1; compressedDepth png', '32FC1; png'])
def test_other_formats_are_refused(text: str) -> None:
    with pytest.raises(ObservationError, match='compressed format must be'):
        parse_format(text)


def test_I6_I7_compressed_gives_rgb() -> None:
    """Red stays red."""
    bgr = np.full((16, 16, 3), [20, 10, 250], np.uint8)
    png = cv2.imencode('.png', bgr)[1].tobytes()
    assert (decode_compressed('rgb8; png compressed bgr8', png) == RED).all()
    assert (decode_compressed('png', png) == RED).all()
    assert (decode_compressed('rgb8; png compressed rgb8', png) == RED[::-1]).all()
    jpeg = cv2.imencode('.jpg', bgr)[1].tobytes()
    difference = decode_compressed('jpeg', jpeg).astype(int) - np.array(RED)
    assert abs(difference).max() <= 3
    grey = cv2.imencode('.png', np.full((2, 2), 9, np.uint8))[1].tobytes()
    assert decode_compressed('mono8; png compressed ', grey).tolist() == [[[9] * 3] * 2] * 2


def compressed_depth(values: Any, scale: float = 0.0, offset: float = 0.0) -> bytes:
    """Return what compressed_depth_image_transport writes: its header and a png."""
    _, png = cv2.imencode('.png', np.array(values, np.uint16))
    return struct.pack('<iff', 0, scale, offset) + png.tobytes()


@pytest.mark.parametrize('text', ['16UC1; compressedDepth png', '16UC1; compressedDepth', '16UC1'])
def test_I6_compressed_depth_of_millimetres(text: str) -> None:
    found = decode_compressed_depth(text, compressed_depth([[0, 1500], [65535, 1]]))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.array([[np.nan, 1.5], [65.535, 0.001]], np.float32))


def test_I6_compressed_depth_of_metres_is_stored_as_its_inverse() -> None:
    # As the transport computes it with its defaults: quantization 100, at most 10 m.
    depth = np.array([[0.5, 2.0], [9.0, 12.0]], np.float32)
    scale = 100.0 * 101.0
    offset = 1.0 - scale / 10.0
    stored = np.where(depth < 10.0, scale / depth + offset, 0)
    found = decode_compressed_depth(
        '32FC1; compressedDepth png', compressed_depth(stored, scale, offset)
    )
    np.testing.assert_allclose(found[:, 0], depth[:, 0], rtol=1e-3)
    assert found[0, 1] == pytest.approx(2.0, rel=1e-3)
    assert np.isnan(found[1, 1])


@pytest.mark.parametrize(
    ('text', 'data', 'words'),
    [
        ('16UC1; compressedDepth rvl', b'', 'codec must be png'),
        ('rgb8; jpeg compressed bgr8', b'', 'format must be one of'),
        ('16UC1; png', b'', 'format must be one of'),
        ('16UC1; compressedDepth png', b'', 'got 0 bytes'),
        ('16UC1; compressedDepth png', bytes(12), 'got 12 bytes'),
        ('16UC1; compressedDepth png', bytes(40), 'got 40 bytes'),
        ('32FC1; compressedDepth png', compressed_depth([[7]]), 'finite A > 0'),
        ('32FC1; compressedDepth png', compressed_depth([[7]], math.nan), 'finite A > 0'),
    ],
)
def test_I6_other_compressed_depth_is_refused(text: str, data: bytes, words: str) -> None:
    with pytest.raises(ObservationError, match=words):
        decode_compressed_depth(text, data)


@given(st.sampled_from(['16UC1', '32FC1; compressedDepth png']), st.binary(max_size=64))
def test_hostile_compressed_depth_gives_depth_or_an_error(text: str, data: bytes) -> None:
    with suppress(ObservationError):
        assert decode_compressed_depth(text, data).dtype == np.float32


@pytest.mark.parametrize('data', [b'', b'no picture', b'\xff\xd8\xff'])
def test_damaged_files_are_refused(data: bytes) -> None:
    with pytest.raises(ObservationError, match='must be a whole jpeg'):
        decode_compressed('jpeg', data)


@pytest.mark.parametrize(
    'encoding', ['rgb8', 'bgr8', 'rgba8', 'bgra8', 'mono8', 'mono16', 'bayer_rggb8', 'bayer_grbg8']
)
def test_equals_cv_bridge_where_that_is_right(encoding: str) -> None:
    """Padding is left out: the bridge from PyPI honours it, but not on every version."""
    bridge = pytest.importorskip('cv_bridge')
    random = np.random.default_rng(3)
    channels = {'rgb8': 3, 'bgr8': 3, 'rgba8': 4, 'bgra8': 4}.get(encoding, 1)
    wide = encoding == 'mono16'
    data = random.integers(0, 256, (6, 8 * channels * (2 if wide else 1)), np.uint8)
    message = SimpleNamespace(
        height=6,
        width=8,
        encoding=encoding,
        is_bigendian=0,
        step=data.shape[1],
        data=data.tobytes(),
    )
    ours = decode_image(6, 8, encoding, False, data.shape[1], message.data)
    theirs = _their_rgb(bridge.CvBridge(), message, encoding)
    np.testing.assert_array_equal(ours, theirs)


def _their_rgb(bridge: Any, message: Any, encoding: str) -> Any:
    """Take the bridge's matrix, then OpenCV's conversion: its compiled part is not on PyPI."""
    stored = bridge.imgmsg_to_cv2(message)
    names = {
        'rgb8': None,
        'bgr8': cv2.COLOR_BGR2RGB,
        'rgba8': cv2.COLOR_RGBA2RGB,
        'bgra8': cv2.COLOR_BGRA2RGB,
        'mono8': cv2.COLOR_GRAY2RGB,
        'mono16': cv2.COLOR_GRAY2RGB,
        'bayer_rggb8': cv2.COLOR_BayerBG2RGB,
        'bayer_grbg8': cv2.COLOR_BayerGB2RGB,
    }
    if encoding == 'mono16':
        stored = cv2.convertScaleAbs(stored, alpha=255.0 / 65535.0)
    code = names[encoding]
    return stored if code is None else cv2.cvtColor(stored, code)
