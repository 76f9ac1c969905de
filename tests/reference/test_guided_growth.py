"""Fed the same random numbers, the fast engine and a naive recursion over dense arrays cut the same blocks
over a base.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import naive
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cells import cell_masses, random_base
from hdpview.counts.protocol import CellCounts
from hdpview.counts.sparse import SparseCounts
from hdpview.domain import Integer, Schema
from hdpview.engine import local
from hdpview.engine.local import LocalEngine
from hdpview.methods.calibrated import Calibrated, guide_of
from hdpview.methods.protocol import BlockRelease, Progress, release_with
from hdpview.partition.grow import ExactBlocks
from hdpview.partition.parameters import Growth, GuidedParameters
from hdpview.privacy.randomness import Randomness, child_keys

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
SLOW = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
seeds = st.integers(0, 2**32 - 1)
shapes = st.lists(st.integers(1, 7), min_size=1, max_size=4).map(tuple)


def sparse(tensor: Ints) -> SparseCounts:
    schema = Schema([Integer(name=f"a{i}", min=0, max=size - 1) for i, size in enumerate(tensor.shape)])
    cells = np.random.default_rng(1).permutation(np.argwhere(tensor))
    return SparseCounts(schema, np.ascontiguousarray(cells, dtype=np.uint8), tensor[tuple(cells.T)])


@dataclass
class Growing:
    """The recursion, from the definition: all that it knows of the base is the mass of every cell.

    is_close: whether a decision hung by a rounding error, as it does under even bases: then either way is
        right.
    """

    epsilon_cut: float
    n_levels: int
    least_share: float
    n_quantiles: int
    leaves: list[naive.Leaf] = field(default_factory=list)
    is_close: bool = False

    def grow(
        self, x: Ints, masses: Floats, lower: tuple[int, ...], depth: int, key: NDArray[np.uint32]
    ) -> None:
        self.is_close |= abs(masses.sum() - self.least_share) < 1e-9
        cuts = self.cuts(masses) if depth <= self.n_levels and masses.sum() >= self.least_share else []
        if not cuts:
            upper = tuple(low + width for low, width in zip(lower, x.shape, strict=True))
            self.leaves.append(naive.Leaf(lower, upper, depth, int(x.sum()), key))
            return
        scores = np.array([self.score(x, masses, a, v) for a, v in cuts])
        cumulative = np.cumsum(np.exp(self.epsilon_cut / 2 * (scores - scores.max())))
        a, v = cuts[int(np.searchsorted(cumulative, naive.Stream(key)[0] * cumulative[-1], side="right"))]
        keys = np.empty(16, np.uint32)
        child_keys(key, keys)
        middle = tuple(low + v if b == a else low for b, low in enumerate(lower))
        halves = zip(
            np.split(x, [v], axis=a),
            np.split(masses, [v], axis=a),
            (lower, middle),
            (keys[:8], keys[8:]),
            strict=True,
        )
        for half, of_half, corner, of_key in halves:
            self.grow(half, of_half, corner, depth + 1, of_key)

    def cuts(self, masses: Floats) -> list[tuple[int, int]]:
        """Attribute and number of values on the left, of the cut nearest to each quantile; in order, each
        once.
        """
        found = []
        for a in range(masses.ndim):
            of_values = masses.sum(axis=tuple(b for b in range(masses.ndim) if b != a)) / masses.sum()
            left = np.cumsum(of_values)[:-1]
            for target in np.arange(1, self.n_quantiles if len(left) else 1) / self.n_quantiles:
                distance = np.abs(left - target)
                self.is_close |= int((distance < distance.min() + 1e-9).sum()) > 1
                cut = a, int(distance.argmin()) + 1
                found += [cut] if cut not in found else []
        return found

    def score(self, x: Ints, masses: Floats, a: int, v: int) -> float:
        left, of_left = np.split(x, [v], axis=a)[0], np.split(masses, [v], axis=a)[0]
        return float(abs(left.sum() - x.sum() * of_left.sum() / masses.sum()))


def assert_same(fast: ExactBlocks, leaves: list[naive.Leaf]) -> None:
    assert fast.lower.tolist() == [list(leaf.lower) for leaf in leaves]
    assert fast.upper.tolist() == [list(leaf.upper) for leaf in leaves]
    assert fast.depth.tolist() == [leaf.depth for leaf in leaves]
    assert fast.exact_sum.tolist() == [leaf.total for leaf in leaves]
    assert fast.keys.tolist() == [leaf.key.tolist() for leaf in leaves]


@settings(max_examples=80, deadline=None, suppress_health_check=SLOW)
@given(
    shapes,
    seeds,
    st.sampled_from(["0.01", "0.5", "3"]),
    st.integers(1, 9),
    st.sampled_from([0.0, 0.02, 0.2]),
    st.integers(2, 6),
)
def test_fast_and_naive_cut_the_same_blocks(
    shape: tuple[int, ...], seed: int, epsilon: str, n_levels: int, least_share: float, n_quantiles: int
) -> None:
    """Bounds, depths, sums and keys of all leaves are the same for any table, base, budget, depth, least
    share and quantiles.
    """
    rng = np.random.default_rng(seed)
    tensor, base = rng.poisson(rng.choice([0.1, 2.0, 30.0]), shape).astype(np.int64), random_base(shape, rng)
    key = Randomness.from_test_key(b"%d" % seed).root_key("partition")
    oracle = Growing(float(Fraction(epsilon)), n_levels, least_share, n_quantiles)
    oracle.grow(tensor, cell_masses(base), (0,) * len(shape), 1, key)
    parameters = GuidedParameters(Fraction(epsilon), n_levels, guide_of(base, least_share, n_quantiles))
    assert_same(LocalEngine(1).grow(sparse(tensor), parameters, key), oracle.leaves)


@dataclass
class Watched:
    """The local engine; keeps what it was asked to grow with."""

    grown_with: list[Growth] = field(default_factory=list)

    def grow(
        self, counts: CellCounts, parameters: Growth, key: NDArray[np.uint32], progress: Progress | None
    ) -> ExactBlocks:
        self.grown_with.append(parameters)
        return LocalEngine(1).grow(counts, parameters, key, progress)


@settings(max_examples=25, deadline=None, suppress_health_check=SLOW)
@given(shapes, seeds, st.sampled_from(["1", "5", "20"]))
def test_a_whole_release_is_the_naive_one(shape: tuple[int, ...], seed: int, epsilon: str) -> None:
    """Under a test key the blocks and noisy counts of a release follow from its own base, budgets and key by
    the naive recursion.
    """
    rng = np.random.default_rng(seed)
    tensor, randomness, engine = (
        rng.poisson(rng.exponential(40, shape)).astype(np.int64),
        Randomness.from_test_key(b"%d" % seed),
        Watched(),
    )
    release, charges = release_with(Calibrated(), sparse(tensor), Fraction(epsilon), randomness, engine)
    assert isinstance(release, BlockRelease)
    (base,), spent = release.blocks.bases, {charge.purpose: charge for charge in charges}
    parameters = engine.grown_with[0]
    oracle = Growing(
        float(spent["choose cuts"].epsilon),
        spent["choose cuts"].times,
        parameters.guide.least_share,
        parameters.guide.n_quantiles,
    )
    oracle.grow(tensor, cell_masses(base), (0,) * len(shape), 1, randomness.root_key("partition"))
    assume(not oracle.is_close)
    assert release.blocks.lower.tolist() == [list(leaf.lower) for leaf in oracle.leaves]
    assert release.blocks.upper.tolist() == [list(leaf.upper) for leaf in oracle.leaves]
    noise = float(spent["noise on counts"].epsilon)
    assert release.blocks.noisy_counts.tolist() == [
        leaf.total + naive.keyed_noise(leaf.key, noise) for leaf in oracle.leaves
    ]


@settings(max_examples=15, deadline=None, suppress_health_check=SLOW)
@given(shapes, seeds, st.integers(1, 3), st.sampled_from([0, 2, 20]))
def test_handing_blocks_to_other_threads_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], seed: int, threads: int, rows_per_task: int
) -> None:
    """Where large blocks are grown one decision at a time, the leaves and their order are those of one
    task.
    """
    rng = np.random.default_rng(seed)
    tensor, base = rng.poisson(1, shape).astype(np.int64), random_base(shape, rng)
    parameters = GuidedParameters(Fraction(1), 6, guide_of(base, 0.001, 4))
    key = Randomness.from_test_key(b"%d" % seed).root_key("partition")
    whole = LocalEngine(1).grow(sparse(tensor), parameters, key)
    with monkeypatch.context() as patched:
        patched.setattr(local, "_ROWS_PER_TASK", rows_per_task)
        parts = LocalEngine(threads).grow(sparse(tensor), parameters, key)
    for name in ("lower", "upper", "depth", "exact_sum", "keys"):
        assert getattr(parts, name).tolist() == getattr(whole, name).tolist(), name
