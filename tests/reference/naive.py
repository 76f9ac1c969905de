"""The paper, naive and obviously right: the oracle that the fast code is compared with.

The count tensor is a dense NumPy array, the absolute error is its definition, every cut is scored by really
splitting the array, and the recursion is plain Python. Formulas follow ALGORITHM.md §1; nothing here comes
from `hdpview.partition`. The only thing shared with the library is the source of uniform numbers, so that
both sides can be fed the same ones."""

import math
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hdpview.privacy.randomness import child_keys, draw_many

Bounds = tuple[int, ...]


@dataclass(frozen=True)
class Numbers:
    """ε_p, ε_cut, κ, λ, δ and θ of the paper."""

    epsilon_counts: float
    epsilon_cut: float
    kappa: int
    lam: float
    delta: float
    theta: float


def numbers(
    epsilon: float,
    n_cells: int,
    *,
    ratio: float = 0.9,
    alpha: float = 1.6,
    beta: float = 1.2,
    gamma: float = 0.9,
) -> Numbers:
    """The paper's parameters. Where its κ would be 0, one cut is made privately (and paid for), as in the
    library."""
    epsilon_r = ratio * epsilon
    epsilon_p = (1 - ratio) * epsilon
    kappa = max(1, math.floor(beta * math.log2(n_cells)))
    lam = (3 * alpha - 2) / (alpha - 1) * 2 / (gamma * epsilon_r)
    return Numbers(
        epsilon_p, (1 - gamma) * epsilon_r / kappa, kappa, lam, lam * math.log(alpha), 1 / epsilon_p
    )


@dataclass(frozen=True)
class Leaf:
    """A block that converged: half-open bounds, depth (root 1), number of records, key."""

    lower: Bounds
    upper: Bounds
    depth: int
    total: int
    key: NDArray[np.uint32]


@dataclass
class Partition:
    """Leaves in depth-first order, and how often each way of deciding was used."""

    leaves: list[Leaf] = field(default_factory=list)
    ways: Counter[str] = field(default_factory=Counter)


def uniforms(key: NDArray[np.uint32], block: int) -> NDArray[np.float64]:
    out = np.empty(8)
    draw_many(key, block, out)
    return out


class Stream:
    """The uniform draws of one block, by number."""

    def __init__(self, key: NDArray[np.uint32]) -> None:
        self.key = key

    def __getitem__(self, i: int) -> float:
        return float(uniforms(self.key, i // 8)[i % 8])


def absolute_error(x: NDArray[np.int64]) -> float:
    """AE(B), by definition."""
    return float(np.abs(x - x.mean()).sum())


def all_cuts(shape: Bounds) -> list[tuple[int, int]]:
    """(attribute, number of values on the left) of every cut of an array of this shape."""
    return [(a, v) for a, width in enumerate(shape) for v in range(1, width)]


def score(x: NDArray[np.int64], a: int, v: int) -> float:
    """Q of one cut: −(AE_L + AE_R)."""
    left, right = np.split(x, [v], axis=a)
    return -(absolute_error(left) + absolute_error(right))


def rate(n_cells: int, epsilon_cut: float) -> float:
    """ε / 2Δ_Q with Δ_Q = 2·Δ_AE and Δ_AE = 2(1 − 1/|B|)."""
    return epsilon_cut / (2 * 2 * 2 * (1 - 1 / n_cells))


def cut_probabilities(x: NDArray[np.int64], epsilon_cut: float) -> NDArray[np.float64]:
    """The exponential mechanism's exact distribution over `all_cuts(x.shape)`."""
    scores = np.array([score(x, a, v) for a, v in all_cuts(x.shape)])
    weights = np.exp(rate(x.size, epsilon_cut) * (scores - scores.max()))
    return weights / weights.sum()


def blind_probabilities(shape: Bounds) -> NDArray[np.float64]:
    """Uniform over attributes with more than one value, then over that attribute's cut points."""
    wide = [width for width in shape if width > 1]
    return np.concatenate([np.full(width - 1, 1 / len(wide) / (width - 1)) for width in wide])


def is_sampled_by_rejection(x: NDArray[np.int64], epsilon_cut: float) -> bool:
    """Whether the library samples this block's cut by rejection: all means below 1, and scores within 1 of
    each other."""
    return int(x.sum()) * max(x.shape) < x.size and rate(x.size, epsilon_cut) * _most_gain(x) <= 1


def _most_gain(x: NDArray[np.int64]) -> float:
    return 2 * int(x.sum()) * np.count_nonzero(x) * max(x.shape) / x.size


def chance_to_converge(deviation: float, depth: int, n: Numbers) -> float:
    """P(BAE + Lap(λ) ≤ θ)."""
    biased = max(n.theta + 2 - n.delta, deviation - depth * n.delta)
    z = (n.theta - biased) / n.lam
    return 1 - math.exp(-z) / 2 if z >= 0 else math.exp(z) / 2


def partition(tensor: NDArray[np.int64], n: Numbers, key: NDArray[np.uint32]) -> Partition:
    grown = Partition()
    _grow(tensor, (0,) * tensor.ndim, 1, key, n, grown)
    return grown


def _grow(
    x: NDArray[np.int64], lower: Bounds, depth: int, key: NDArray[np.uint32], n: Numbers, grown: Partition
) -> None:
    draws = Stream(key)
    if x.size == 1 or draws[0] < chance_to_converge(absolute_error(x), depth, n):
        upper = tuple(low + width for low, width in zip(lower, x.shape, strict=True))
        grown.leaves.append(Leaf(lower, upper, depth, int(x.sum()), key))
        return
    if depth > n.kappa:
        way, (a, v) = "blind", _cut_blindly(x.shape, draws)
    elif is_sampled_by_rejection(x, n.epsilon_cut):
        way, (a, v) = "rejection", _cut_by_rejection(x, n.epsilon_cut, draws)
    else:
        way, (a, v) = "inversion", _cut_by_inversion(x, n.epsilon_cut, draws)
    grown.ways[way] += 1
    keys = np.empty(16, np.uint32)
    child_keys(key, keys)
    left, right = np.split(x, [v], axis=a)
    middle = tuple(low + v if b == a else low for b, low in enumerate(lower))
    _grow(left, lower, depth + 1, keys[:8], n, grown)
    _grow(right, middle, depth + 1, keys[8:], n, grown)


def _cut_blindly(shape: Bounds, draws: Stream) -> tuple[int, int]:
    wide = [a for a, width in enumerate(shape) if width > 1]
    a = wide[int(draws[1] * len(wide))]
    return a, 1 + int(draws[2] * (shape[a] - 1))


def _cut_by_inversion(x: NDArray[np.int64], epsilon_cut: float, draws: Stream) -> tuple[int, int]:
    cumulative = np.cumsum(cut_probabilities(x, epsilon_cut))
    chosen = int(np.searchsorted(cumulative, draws[1] * cumulative[-1], side="right"))
    return all_cuts(x.shape)[chosen]


def _cut_by_rejection(x: NDArray[np.int64], epsilon_cut: float, draws: Stream) -> tuple[int, int]:
    cuts, total = all_cuts(x.shape), int(x.sum())
    i = 1
    while True:
        a, v = cuts[int(draws[i] * len(cuts))]
        gain = score(x, a, v) + 2 * total
        if draws[i + 1] < math.exp(rate(x.size, epsilon_cut) * (gain - _most_gain(x))):
            return a, v
        i += 2


def keyed_noise(key: NDArray[np.uint32], i: int, epsilon_counts: float) -> int:
    """Test noise of leaf i: the difference of two geometric variables with success probability 1 − e^−ε."""
    draws = Stream(key)
    first, second = (math.floor(-math.log1p(-draws[j]) / epsilon_counts) for j in (2 * i, 2 * i + 1))
    return first - second
