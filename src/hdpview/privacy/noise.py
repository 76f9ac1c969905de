"""Noise for released counts: whole numbers, so that no low bit of a fraction can tell what was added to what.

The noise is discrete Laplace, P(z) ∝ exp(−|z|·ε), or, where a little delta is spent, discrete Gaussian, P(z)
∝ exp(−z²/2σ²); both are drawn by OpenDP's exact samplers. Under a test key a keyed stand-in of the same
distribution takes their place, so that engines and implementations can be compared bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hdpview.errors import BudgetError
from hdpview.privacy.randomness import Randomness, draw_block, draw_many
from hdpview.progress import Progress, silent

_TEST_NOISE_BLOCK = 2**31  # far behind the draws that a block uses while it is grown
_ENTRIES_AT_ONCE = 2**17  # of a long vector: OpenDP takes lists, and about a second for each
_WIDEST_TABLE = 2**12  # of σ: beyond, a rounded normal variable is the discrete Gaussian for any test
_LEAST_CERTIFIED_DELTA = Fraction(1, 2**53)  # of a threshold: OpenDP rounds up to the last bit of 1
Integers = NDArray[np.int64]


def laplace_scale(epsilon: Fraction) -> float:
    """The smallest double that is at least 1/ε: rounding may only add noise."""
    scale = float(1 / epsilon)
    return scale if Fraction(scale) * epsilon >= 1 else math.nextafter(scale, math.inf)


def laplace_variance(epsilon: Fraction) -> float:
    """Of discrete Laplace noise with P(z) ∝ exp(−|z|·ε)."""
    q = math.exp(-float(epsilon))  # vanishes for large ε, where sinh(ε/2) would be too large for a double
    return 2 * q / math.expm1(-float(epsilon)) ** 2


def noisy_counts(
    exact_counts: NDArray[np.int64],
    epsilon: Fraction,
    randomness: Randomness,
    leaf_keys: NDArray[np.uint32],
    progress: Progress | None = None,
) -> NDArray[np.int64]:
    """Counts with discrete Laplace noise of scale 1/ε on each. [P6]

    Counts of disjoint blocks: one record changes one of them by one, so the whole vector costs ε once.

    Args:
        exact_counts: shape (n_blocks,).
        epsilon: the budget of the whole vector.
        randomness: the build's; it decides only whether this is a test.
        leaf_keys: shape (n_blocks, 8), the keys of the blocks; used under a test key alone.
        progress: called with the fraction done and a few words: millions of counts take a minute.
    """
    noisy, report = np.empty_like(exact_counts), progress or silent
    for start in range(0, len(exact_counts), _ENTRIES_AT_ONCE):
        report(start / len(exact_counts), "adding noise")
        part = slice(start, start + _ENTRIES_AT_ONCE)
        if randomness.is_test:
            noisy[part] = exact_counts[part] + _keyed_laplace(leaf_keys[part], epsilon)
        else:
            noisy[part] = opendp_laplace(exact_counts[part], laplace_scale(epsilon))
    return noisy


def noisy_vector(
    exact: NDArray[np.int64], epsilon: Fraction, randomness: Randomness, purpose: str
) -> NDArray[np.int64]:
    """Whole numbers with discrete Laplace noise of scale 1/ε on each, for vectors whose entries have no block
    keys.

    It costs ε times the sum, over all entries, of what one record can change in each.

    Args:
        exact: any shape.
        epsilon: the budget per unit of change.
        randomness: the build's; it decides whether this is a test, and then draws.
        purpose: names the vector; two vectors of one build under a test key need different ones.
    """
    scale = laplace_scale(epsilon)
    return _with_noise(
        exact,
        randomness,
        purpose,
        lambda part: opendp_laplace(part, scale),
        lambda u: _geometric_difference(u, epsilon),
    )


def gaussian_scale(rho: Fraction) -> float:
    """The smallest double σ that is at least √(1/2ρ): rounding may only add noise."""
    scale = math.sqrt(1 / (2 * rho))
    while 2 * rho * Fraction(scale) ** 2 < 1:
        scale = math.nextafter(scale, math.inf)
    return scale


def gaussian_vector(
    exact: NDArray[np.int64], rho: Fraction, randomness: Randomness, purpose: str
) -> NDArray[np.int64]:
    """Whole numbers with discrete Gaussian noise of σ² = 1/2ρ on each: ρ-zCDP where a record changes one
    entry by one. [P14]

    Args are those of `noisy_vector`, with ρ for ε. The variance of the noise is at most σ².
    """
    scale = gaussian_scale(rho)
    return _with_noise(
        exact,
        randomness,
        purpose,
        lambda part: opendp_gaussian(part, scale, rho),
        lambda u: _keyed_gaussian(u, scale),
    )


def _with_noise(
    exact: Integers,
    randomness: Randomness,
    purpose: str,
    noisy_of: Callable[[Integers], Integers],
    keyed_noise: Callable[[NDArray[np.float64]], Integers],
) -> Integers:
    """A vector of any shape with noise, part by part. keyed_noise: under a test key, from pairs of uniform
    draws, shape (n, 2) to (n,).
    """
    flat = np.ascontiguousarray(exact, dtype=np.int64).reshape(-1)
    noisy = np.empty_like(flat)
    key = randomness.root_key("noise on " + purpose)
    for start in range(0, len(flat), _ENTRIES_AT_ONCE):
        part = slice(start, start + _ENTRIES_AT_ONCE)
        if randomness.is_test:
            noisy[part] = flat[part] + keyed_noise(_uniform_pairs(key, start, len(flat[part])))
        else:
            noisy[part] = noisy_of(flat[part])
    return noisy.reshape(np.shape(exact))


def opendp_laplace(exact_counts: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
    """Counts with discrete Laplace noise of this scale on each, from OpenDP's exact sampler."""
    import opendp.prelude as dp

    if not len(exact_counts):
        return exact_counts.copy()
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    mechanism = dp.m.make_laplace(*space, scale=scale)
    return np.array(mechanism(exact_counts.tolist()), dtype=np.int64)


def opendp_gaussian(exact_counts: NDArray[np.int64], scale: float, rho: Fraction) -> NDArray[np.int64]:
    """Counts with discrete Gaussian noise of this σ, from OpenDP, which has to certify ρ. [P14]"""
    import opendp.prelude as dp

    if not len(exact_counts):
        return exact_counts.copy()
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="i64")
    mechanism = dp.m.make_gaussian(*space, scale=scale)
    if Fraction(mechanism.map(1)) > rho * (1 + Fraction(1, 10**9)):
        raise BudgetError(f"OpenDP certifies rho {mechanism.map(1):g} for a mechanism of {float(rho):g}.")
    return np.array(mechanism(exact_counts.tolist()), dtype=np.int64)


def laplace_with_threshold(
    exact_counts: dict[str, int], epsilon: Fraction, delta: Fraction, max_rows: int = 1
) -> dict[str, int]:
    """Noisy counts of texts that nobody listed beforehand: those that pass a threshold. OpenDP itself
    certifies ε and δ. [P13]

    One person has up to `max_rows` rows, each of which changes the count of one text by one; a text that only
    this person has passes the threshold with probability δ at most, all of theirs together.
    """
    import opendp.prelude as dp

    if delta < _LEAST_CERTIFIED_DELTA:
        raise BudgetError(
            f"OpenDP certifies no delta below {float(_LEAST_CERTIFIED_DELTA):.2g}; {float(delta):.2g} "
            "was asked for."
        )
    dp.enable_features("contrib")
    space = (
        dp.map_domain(dp.atom_domain(T=str), dp.atom_domain(T="i64")),
        dp.l01inf_distance(dp.absolute_distance(T="i64")),
    )
    scale = laplace_scale(epsilon / max_rows)
    threshold = math.ceil(max_rows + scale * math.log(1 / float(delta)))
    while True:
        mechanism = dp.m.make_laplace_threshold(*space, scale=scale, threshold=threshold)
        spent_epsilon, spent_delta = mechanism.map((max_rows, max_rows, max_rows))
        if Fraction(spent_delta) <= delta:
            break
        threshold += 1
    if Fraction(spent_epsilon) > epsilon * (1 + Fraction(1, 10**9)):
        raise BudgetError(
            f"OpenDP certifies epsilon {spent_epsilon:g} for a mechanism of {float(epsilon):g}."
        )
    return dict(mechanism(exact_counts))


def _keyed_laplace(leaf_keys: NDArray[np.uint32], epsilon: Fraction) -> NDArray[np.int64]:
    """Discrete Laplace noise for each block, from two uniform draws under its key."""
    draws, words = np.empty((len(leaf_keys), 8)), np.empty(16, np.uint32)
    for i in range(len(leaf_keys)):
        draw_block(leaf_keys[i], _TEST_NOISE_BLOCK, words, draws[i])
    return _geometric_difference(draws[:, :2], epsilon)


def _uniform_pairs(key: NDArray[np.uint32], first: int, n: int) -> NDArray[np.float64]:
    """Pairs from `first`, a multiple of 4, of a key's stream of uniform draws, shape (n, 2)."""
    draws = np.empty(2 * n)
    draw_many(key, first // 4, draws)
    return draws.reshape(n, 2)


def _geometric_difference(draws: NDArray[np.float64], epsilon: Fraction) -> NDArray[np.int64]:
    """Discrete Laplace as the difference of two geometric variables by inversion: (n, 2) to (n,)."""
    geometric = np.floor(np.log1p(-draws) / -float(epsilon)).astype(np.int64)
    return geometric[:, 0] - geometric[:, 1]


def _keyed_gaussian(draws: NDArray[np.float64], scale: float) -> NDArray[np.int64]:
    """Discrete Gaussian by inversion; a rounded normal variable where very wide: (n, 2) to (n,)."""
    if scale > _WIDEST_TABLE:
        normal = np.sqrt(-2 * np.log1p(-draws[:, 0])) * np.cos(2 * np.pi * draws[:, 1])
        wide: Integers = np.rint(scale * normal).astype(np.int64)
        return wide
    most = math.ceil(9 * scale) + 1
    values = np.arange(-most, most + 1)
    running = np.cumsum(np.exp(-(values**2) / (2 * scale**2)))
    found: Integers = values[
        np.searchsorted(running, draws[:, 0] * running[-1], side="right").clip(max=2 * most)
    ]
    return found
