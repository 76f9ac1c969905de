"""Randomness as a keyed function of a block's place in the tree.

Every block has a key of its own: the root's comes from the operating system, a child's from its parent's by
ChaCha20 (the tree construction of a pseudorandom function by Goldreich, Goldwasser and Micali). A block's
draws are a stream under its key. So a view does not depend on the order of work, on threads or on the engine;
a retried task draws the same numbers; and no two blocks share a stream, however deep the tree.

The key is discarded after the build. A fixed key is for tests: anyone who knows it can subtract the noise.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hdpview.jit import numba as nb

KEY_WORDS = 8  # a key is 8 words of 32 bits
_KEY_BYTES = 4 * KEY_WORDS
# Purposes: the nonce of the stream cipher.
_CHILDREN = 0
_DRAWS = 1
_FURTHER_BITS = 2
_DRAWS_PER_BLOCK = 8
_BITS_PER_BLOCK = 512
_FIRST_BITS = 53  # bits of a uniform number, which fit a double

Bounds = tuple[Fraction, Fraction]  # lower and upper bound of a real number


@dataclass(frozen=True)
class Randomness:
    """The secret key of one build."""

    _key: bytes = field(repr=False)
    is_test: bool = False

    @classmethod
    def fresh(cls) -> Randomness:
        """A key from the operating system's secure source."""
        return cls(secrets.token_bytes(_KEY_BYTES))  # [P2]

    @classmethod
    def from_test_key(cls, test_key: bytes) -> Randomness:
        """A reproducible key, for tests only; its use is recorded in the view."""
        return cls(hashlib.blake2b(test_key, digest_size=_KEY_BYTES).digest(), is_test=True)

    def root_key(self, purpose: str) -> NDArray[np.uint32]:
        """The key of the root of a tree, shape (8,). Different purposes have unrelated keys."""
        derived = hashlib.blake2b(purpose.encode(), key=self._key, digest_size=_KEY_BYTES).digest()
        return np.frombuffer(derived, dtype="<u4").astype(np.uint32)


@nb.njit(cache=True, nogil=True, inline="always")
def _rotate(word, by):  # type: ignore[no-untyped-def]
    return np.uint32((word << np.uint32(by)) | (word >> np.uint32(32 - by)))


@nb.njit(cache=True, nogil=True, inline="always")
def _quarter(a, b, c, d):  # type: ignore[no-untyped-def]
    a = np.uint32(a + b)
    d = _rotate(d ^ a, 16)
    c = np.uint32(c + d)
    b = _rotate(b ^ c, 12)
    a = np.uint32(a + b)
    d = _rotate(d ^ a, 8)
    c = np.uint32(c + d)
    b = _rotate(b ^ c, 7)
    return a, b, c, d


@nb.njit(cache=True, nogil=True)
def chacha20_block(key, counter, nonce, out):  # type: ignore[no-untyped-def]
    """The ChaCha20 block function (RFC 8439): key (8,) and out (16,) uint32; counter and the three words of
    nonce uint32. The state lives in sixteen variables, not in an array, so that it stays in registers.
    """
    a0, a1 = np.uint32(0x61707865), np.uint32(0x3320646E)
    a2, a3 = np.uint32(0x79622D32), np.uint32(0x6B206574)
    b0, b1, b2, b3 = key[0], key[1], key[2], key[3]
    c0, c1, c2, c3 = key[4], key[5], key[6], key[7]
    d0, d1, d2, d3 = np.uint32(counter), np.uint32(nonce[0]), np.uint32(nonce[1]), np.uint32(nonce[2])
    for _ in range(10):
        a0, b0, c0, d0 = _quarter(a0, b0, c0, d0)
        a1, b1, c1, d1 = _quarter(a1, b1, c1, d1)
        a2, b2, c2, d2 = _quarter(a2, b2, c2, d2)
        a3, b3, c3, d3 = _quarter(a3, b3, c3, d3)
        a0, b1, c2, d3 = _quarter(a0, b1, c2, d3)
        a1, b2, c3, d0 = _quarter(a1, b2, c3, d0)
        a2, b3, c0, d1 = _quarter(a2, b3, c0, d1)
        a3, b0, c1, d2 = _quarter(a3, b0, c1, d2)
    out[0], out[1] = a0 + np.uint32(0x61707865), a1 + np.uint32(0x3320646E)
    out[2], out[3] = a2 + np.uint32(0x79622D32), a3 + np.uint32(0x6B206574)
    out[4], out[5], out[6], out[7] = b0 + key[0], b1 + key[1], b2 + key[2], b3 + key[3]
    out[8], out[9], out[10], out[11] = c0 + key[4], c1 + key[5], c2 + key[6], c3 + key[7]
    out[12], out[13] = d0 + np.uint32(counter), d1 + np.uint32(nonce[0])
    out[14], out[15] = d2 + np.uint32(nonce[1]), d3 + np.uint32(nonce[2])


@nb.njit(cache=True, nogil=True)
def child_keys(key, words):  # type: ignore[no-untyped-def]
    """Write the keys of a block's halves into `words` (16,) uint32: the left one's first."""
    chacha20_block(key, 0, (_CHILDREN, 0, 0), words)


@nb.njit(cache=True, nogil=True, inline="always")
def _uniform(words, i):  # type: ignore[no-untyped-def]
    """A number from two words: uniform on multiples of 2⁻⁵³ in [0, 1)."""
    bits = (np.uint64(words[2 * i]) << np.uint64(21)) ^ (np.uint64(words[2 * i + 1]) >> np.uint64(11))
    return np.float64(bits) * 2.0**-53


@nb.njit(cache=True, nogil=True)
def draw(key, i, stream):  # type: ignore[no-untyped-def]
    """Draw `i` of a key's stream, a multiple of 2⁻⁵³ in [0, 1). Draw in ascending order: `stream`, from
    `new_stream`, holds the words of the last block.
    """
    if i % _DRAWS_PER_BLOCK == 0:
        chacha20_block(key, i // _DRAWS_PER_BLOCK, (_DRAWS, 0, 0), stream)
    return _uniform(stream, i % _DRAWS_PER_BLOCK)


@nb.njit(cache=True, nogil=True)
def new_stream():  # type: ignore[no-untyped-def]
    """Scratch space for `draw`."""
    return np.empty(16, np.uint32)


@nb.njit(cache=True, nogil=True)
def draw_many(key, first_block, out):  # type: ignore[no-untyped-def]
    """Fill `out` (n,) float64 with draws 8·first_block onwards of a key's stream."""
    stream, start = new_stream(), _DRAWS_PER_BLOCK * first_block
    for i in range(len(out)):
        out[i] = draw(key, start + i, stream)


@dataclass(frozen=True)
class Uniform:
    """A uniform number in [0, 1): draw `i` of a key, with as many bits as needed."""

    key: NDArray[np.uint32]
    i: int

    def bounds(self, n_blocks: int) -> Bounds:
        """Bounds [low, high) of the number: 53 bits, and 512 more for each further block."""
        drawn, words = np.empty(self.i % _DRAWS_PER_BLOCK + 1), np.empty(16, np.uint32)
        draw_many(self.key, self.i // _DRAWS_PER_BLOCK, drawn)
        bits, n_bits = round(float(drawn[-1]) * 2**_FIRST_BITS), _FIRST_BITS
        for block in range(n_blocks):
            nonce = (np.uint32(_FURTHER_BITS), np.uint32(self.i), np.uint32(0))
            chacha20_block(self.key, np.uint32(block), nonce, words)
            further = int.from_bytes(words.astype("<u4").tobytes(), "little")
            bits, n_bits = (bits << _BITS_PER_BLOCK) | further, n_bits + _BITS_PER_BLOCK
        return Fraction(bits, 2**n_bits), Fraction(bits + 1, 2**n_bits)
