"""The keyed stream: ChaCha20 as the standard has it, one stream per block, and no seed by default."""

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
from hdpview.privacy.randomness import Randomness, chacha20_block, child_keys, draw, draw_many, new_stream

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


@settings(max_examples=100, deadline=None)
@given(keys, st.integers(0, 2**32 - 1), st.binary(min_size=12, max_size=12))
def test_chacha20_agrees_with_another_implementation(key, counter, nonce):
    assert our_block(key, counter, nonce) == their_stream(key, counter, nonce, 64)


@settings(max_examples=50, deadline=None)
@given(keys, st.integers(0, 2**20))
def test_draws_are_the_top_bits_of_the_stream(key, block):
    out = np.empty(8)
    draw_many(words(key), block, out)
    stream = words(their_stream(key, block, struct.pack("<III", 1, 0, 0), 64)).tolist()
    bits = [(high << 32 | low) >> 11 for high, low in zip(stream[0::2], stream[1::2], strict=True)]
    assert out.tolist() == [number * 2.0**-53 for number in bits]
    assert (out >= 0).all()
    assert (out < 1).all()


@settings(max_examples=50, deadline=None)
@given(keys)
def test_draws_in_order_read_on_through_the_stream(key):
    stream, out = new_stream(), np.empty(8)
    for i in range(25):
        found = draw(words(key), i, stream)
        draw_many(words(key), i // 8, out)
        assert found == out[i % 8]


@settings(max_examples=50, deadline=None)
@given(keys)
def test_child_keys_are_the_stream_of_another_nonce(key):
    left, right = children(words(key))
    assert left.astype("<u4").tobytes() + right.astype("<u4").tobytes() == their_stream(key, 0, bytes(12), 64)


def test_no_two_blocks_share_a_key():
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


def test_keys_differ_by_purpose_and_build_and_only_test_keys_come_again():
    builds = [*(Randomness.fresh() for _ in range(100)), *map(Randomness.from_test_key, (b"one", b"two"))]
    assert len({build.root_key(purpose).tobytes() for build in builds for purpose in "ab"}) == 204
    assert (Randomness.from_test_key(b"one").root_key("a") == builds[-2].root_key("a")).all()
    assert [build.is_test for build in builds] == [False] * 100 + [True] * 2


def test_the_key_does_not_show():
    for randomness in (Randomness.fresh(), Randomness.from_test_key(b"hunter2")):
        shown = f"{randomness!r} {randomness} {[randomness]}"
        assert randomness._key.hex() not in shown
        assert repr(randomness._key) not in shown
        assert "hunter2" not in shown
        assert len(repr(randomness)) < 30


def test_fresh_noise_does_not_come_from_the_key():
    zeros, randomness = Exact(np.zeros(64, np.int64)), Randomness.fresh()
    first, second = (
        Mechanism(Fraction(1, 100), randomness).noisy("zeros", zeros, Fraction(1, 100)) for _ in range(2)
    )
    assert first.tolist() != second.tolist()


def test_every_byte_of_a_fresh_key_is_random():
    keys = [Randomness.fresh()._key for _ in range(8)]
    assert all(len(key) == 32 and len(set(key)) > 16 for key in keys)
    assert all(len(set(column)) > 2 for column in zip(*keys, strict=True))
