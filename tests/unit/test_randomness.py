"""The keyed stream: ChaCha20 as the standard has it, one stream per block, and no seed by default."""

from __future__ import annotations

import struct
from fractions import Fraction

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hdpview.privacy.exact import Exact
from hdpview.privacy.mechanism import Mechanism
from hdpview.privacy.randomness import (
    Randomness,
    chacha20_block,
    child_keys,
    draw,
    draw_many,
    new_stream,
)

keys = st.binary(min_size=32, max_size=32)


def words(data: bytes) -> NDArray[np.uint32]:
    return np.frombuffer(data, dtype="<u4").astype(np.uint32)


def our_block(key: bytes, counter: int, nonce: bytes) -> bytes:
    out = np.empty(16, np.uint32)
    chacha20_block(words(key), counter, words(nonce), out)
    return out.astype("<u4").tobytes()


def their_stream(key: bytes, counter: int, nonce: bytes, length: int) -> bytes:
    return (
        Cipher(ChaCha20(key, struct.pack("<I", counter) + nonce), mode=None).encryptor().update(bytes(length))
    )


def children(key: NDArray[np.uint32]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    out = np.empty(16, np.uint32)
    child_keys(key, out)
    return out[:8], out[8:]


def test_chacha20_gives_the_standards_vector() -> None:
    """The block function gives the test vector of RFC 8439, section 2.3.2."""
    nonce = bytes.fromhex("000000090000004a00000000")
    expected = (
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
    )
    assert our_block(bytes(range(32)), 1, nonce).hex() == expected


@settings(max_examples=100, deadline=None)
@given(keys, st.integers(0, 2**32 - 1), st.binary(min_size=12, max_size=12))
def test_chacha20_agrees_with_another_implementation(key: bytes, counter: int, nonce: bytes) -> None:
    """For any key, counter and nonce the block is that of the `cryptography` package."""
    assert our_block(key, counter, nonce) == their_stream(key, counter, nonce, 64)


@settings(max_examples=50, deadline=None)
@given(keys, st.integers(0, 2**20))
def test_draws_are_the_top_bits_of_the_stream(key: bytes, block: int) -> None:
    """Draws are 53 bits of the stream with nonce 1, as multiples of 2⁻⁵³ in [0, 1)."""
    out = np.empty(8)
    draw_many(words(key), block, out)
    stream = words(their_stream(key, block, struct.pack("<III", 1, 0, 0), 64)).tolist()
    bits = [(high << 32 | low) >> 11 for high, low in zip(stream[0::2], stream[1::2], strict=True)]
    assert out.tolist() == [number * 2.0**-53 for number in bits]
    assert (out >= 0).all()
    assert (out < 1).all()


@settings(max_examples=50, deadline=None)
@given(keys)
def test_draws_in_order_read_on_through_the_stream(key: bytes) -> None:
    """Draw i is number i mod 8 of block i div 8, for as long as one asks in order."""
    stream, out = new_stream(), np.empty(8)
    for i in range(25):
        found = draw(words(key), i, stream)
        draw_many(words(key), i // 8, out)
        assert found == out[i % 8]


@settings(max_examples=50, deadline=None)
@given(keys)
def test_child_keys_are_the_stream_of_another_nonce(key: bytes) -> None:
    """The halves' keys are the 64 bytes of the stream with nonce 0: unrelated to the draws."""
    left, right = children(words(key))
    assert left.astype("<u4").tobytes() + right.astype("<u4").tobytes() == their_stream(key, 0, bytes(12), 64)


def test_no_two_blocks_share_a_key() -> None:
    """All keys of a full tree of 12 levels, and of a path 200 levels deep on either side, are different."""
    level = [Randomness.from_test_key(b"tree").root_key("partition")]
    seen = {level[0].tobytes()}
    for _ in range(12):
        level = [child.copy() for key in level for child in children(key)]
        seen |= {key.tobytes() for key in level}
    left = right = level[0]
    for _ in range(200):
        left, right = children(left)[0].copy(), children(right)[1].copy()
        seen |= {left.tobytes(), right.tobytes()}
    assert len(seen) == 2**13 - 1 + 400


def test_keys_differ_by_purpose_and_test_key() -> None:
    """Different purposes and different test keys lead to different root keys; the same ones to the same."""
    one, two = Randomness.from_test_key(b"one"), Randomness.from_test_key(b"two")
    roots = [one.root_key("partition"), one.root_key("noise"), two.root_key("partition")]
    assert len({root.tobytes() for root in roots}) == 3
    assert (Randomness.from_test_key(b"one").root_key("partition") == roots[0]).all()


def test_fresh_keys_are_never_the_same() -> None:
    """A hundred fresh keys are a hundred different keys, and none is marked as a test's."""
    fresh = [Randomness.fresh() for _ in range(100)]
    assert len({randomness.root_key("partition").tobytes() for randomness in fresh}) == 100
    assert not any(randomness.is_test for randomness in fresh)
    assert Randomness.from_test_key(b"x").is_test


def test_the_key_does_not_show() -> None:
    """Neither repr nor str nor a format of a Randomness holds its key or anything of its length."""
    for randomness in (Randomness.fresh(), Randomness.from_test_key(b"hunter2")):
        shown = f"{randomness!r} {randomness} {[randomness]}"
        assert randomness._key.hex() not in shown
        assert repr(randomness._key) not in shown
        assert "hunter2" not in shown
        assert len(repr(randomness)) < 30


def test_fresh_noise_does_not_come_from_the_key() -> None:
    """Noise of a private build is OpenDP's: the same key and purpose give other noise each time."""
    zeros, randomness = Exact(np.zeros(64, np.int64)), Randomness.fresh()
    first, second = (
        Mechanism(Fraction(1, 100), randomness).noisy("zeros", zeros, Fraction(1, 100)) for _ in range(2)
    )
    assert first.tolist() != second.tolist()
