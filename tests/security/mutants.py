"""Builds with a planted bug, for the audit to catch. Each says what it charges and then does something else.

python tests/security/mutants.py    prints what the audit finds of each, and of the same build without the bug
"""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Callable
from fractions import Fraction
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
from hdpview.methods.calibrated import purse

from hdpview.audit.run import CONFIDENCE, Audit, Build, audit_builds
from hdpview.audit.tables import CONTRAST, Neighbours, pair
from hdpview.build import release
from hdpview.counts.contributions import EACH_ROW, Contributions
from hdpview.counts.sparse import SparseCounts
from hdpview.engine.local import LocalEngine
from hdpview.methods import Hdpview, Method, calibrated
from hdpview.partition.grow import grow, root
from hdpview.partition.parameters import PartitionParameters
from hdpview.privacy.budget import Budget
from hdpview.privacy.randomness import Randomness
from hdpview.view.blocks import Blocks

MOSTLY_COUNTS = Hdpview(partition_share=0.01)  # nearly all of the budget on noise
MOSTLY_CUTS = Hdpview(
    partition_share=0.995, converge_share=0.005, cut_levels_factor=0.001, bias_ratio=1.0001
)  # on a single cut
MOSTLY_CONVERGE = Hdpview(partition_share=0.95, converge_share=0.98, bias_ratio=1000.0)
MOSTLY_LEAVES = calibrated.Calibrated(
    histogram_share=0.01, choice_share=0.005, pair_share=0.005, cut_share=0.01
)
MOSTLY_HISTOGRAMS = calibrated.Calibrated(
    histogram_share=0.97, choice_share=0.005, pair_share=0.005, cut_share=0.01
)


def honest(method: Method, epsilon: Fraction, limits: Contributions = EACH_ROW) -> Build:
    """What it should be."""
    return lambda counts: release(counts, epsilon, method, Randomness.fresh(), 1, limits=limits).blocks


def half_the_noise(epsilon: Fraction) -> Build:
    """Noise of half the scale: as if the budget for counts were twice what was charged."""

    def build(counts: SparseCounts) -> Blocks:
        double = MOSTLY_COUNTS.release(counts, Budget(2 * epsilon), Randomness.fresh(), LocalEngine(1)).blocks
        return Blocks(double.lower, double.upper, double.noisy_counts, double.depth)

    return build


def calibrated_with(method: Method, epsilon: Fraction, noise: str, factor: int) -> Build:
    """The calibrated method where one kind of noise, `noisy_vector` or `noisy_counts`, is drawn for `factor`
    times its budget.
    """
    home = purse if hasattr(purse, noise) else calibrated
    right = getattr(home, noise)

    def wrong(exact: Any, of_noise: Fraction, *rest: Any) -> Any:
        return right(exact, factor * of_noise, *rest)

    def build(counts: SparseCounts) -> Blocks:
        with patch.object(home, noise, wrong):
            return release(counts, epsilon, method, Randomness.fresh(), 1).blocks

    return build


def one_key_for_all(method: Method, epsilon: Fraction) -> Build:
    """The same key for every build, noise included: what a fixed seed does."""
    return lambda counts: release(counts, epsilon, method, Randomness.from_test_key(b"0"), 1).blocks


def with_parameters(
    method: Hdpview, epsilon: Fraction, change: Callable[[PartitionParameters], dict[str, Any]]
) -> Build:
    """The partition alone, with parameters changed after they were charged. Its counts carry no information:
    the noise on them is huge.

    Keys are numbered, one for each build: partitions are as random as with keys from the system, and a test
        passes always or never.
    """
    numbers = itertools.count()

    def build(counts: SparseCounts) -> Blocks:
        chosen = PartitionParameters.choose(method, epsilon, counts.schema.n_cells)
        changed = dataclasses.replace(chosen, **change(chosen))
        parameters: Any = SimpleNamespace(
            numbers=(*changed.numbers[:-1], chosen.converge_floor), guide=chosen.guide
        )
        randomness = Randomness.from_test_key(b"%d" % next(numbers))
        codes, rows = counts.exact_codes.copy(), counts.exact_counts.copy()
        leaves, _ = grow(
            codes, rows, root(counts.schema.sizes, rows, randomness.root_key("partition")), parameters
        )
        return Blocks(leaves.lower, leaves.upper, np.zeros(len(leaves), np.int64), leaves.depth)

    return build


@dataclasses.dataclass(frozen=True)
class Planted:
    """A bug, the same build without it, and where to look for it with how many builds."""

    epsilon: Fraction
    right: Build
    wrong: Build
    tables: Neighbours
    runs: int
    confidence: float = CONFIDENCE

    def audit(self, is_wrong: bool) -> Audit:
        build, runs = (self.wrong, self.runs) if is_wrong else (self.right, max(500, self.runs // 4))
        return audit_builds(
            "planted", float(self.epsilon), build, [self.tables], runs, confidence=self.confidence
        )


def _tight(extra_cuts: int) -> Build:
    """Cuts at the rate of the tight Δ, which is as private by [P3]: the paper's is twice as large and would
    hide one cut more.
    """
    return with_parameters(
        MOSTLY_CUTS,
        Fraction(3),
        lambda p: {
            "epsilon_cut": 2 * p.epsilon_cut,
            "n_private_cut_levels": p.n_private_cut_levels + extra_cuts,
        },
    )


def _path_to_a_crowd() -> Neighbours:
    cells = np.zeros((2,) * 10, np.int64)
    cells[(1,) * 10] = 5  # with one more, the deviation lies on the threshold: each level is a toss-up
    return pair("a path", cells, (1,) * 10)


ONE, NOBODY, HALF = Fraction(1), np.zeros(4, np.int64), np.array([6, 6])
PLANTED = {
    "half the noise": Planted(
        ONE, honest(MOSTLY_COUNTS, ONE), half_the_noise(ONE), pair("one", NOBODY, (1,)), 1_000
    ),
    "one key for all builds": Planted(
        ONE, honest(Hdpview(), ONE), one_key_for_all(Hdpview(), ONE), pair("one", NOBODY, (1,)), 400
    ),
    "three rows of a person, noise for one": Planted(
        ONE,
        honest(MOSTLY_COUNTS, ONE, Contributions("person", 3)),
        honest(MOSTLY_COUNTS, ONE),
        pair("three", NOBODY, (1,), 3),
        1_000,
    ),
    "calibrated, half the noise on counts": Planted(
        ONE,
        honest(MOSTLY_LEAVES, ONE),
        calibrated_with(MOSTLY_LEAVES, ONE, "noisy_counts", 2),
        pair("one", NOBODY, (1,)),
        800,
    ),
    "calibrated, hardly any noise on histograms": Planted(
        ONE,
        honest(MOSTLY_HISTOGRAMS, ONE),
        calibrated_with(MOSTLY_HISTOGRAMS, ONE, "noisy_vector", 4),
        pair("one", HALF, (1,)),
        400,
    ),
    "no bias with depth": Planted(
        Fraction(2),
        with_parameters(MOSTLY_CONVERGE, Fraction(2), lambda _: {}),
        with_parameters(MOSTLY_CONVERGE, Fraction(2), lambda _: {"converge_bias_per_level": 0.0}),
        _path_to_a_crowd(),
        12_000,
    ),
    "one private cut too many": Planted(
        Fraction(3),
        _tight(0),
        _tight(1),
        pair("corner", np.array(CONTRAST, np.int64), (1, 1)),
        40_000,
        confidence=0.99,
    ),
}

if __name__ == "__main__":
    for name, planted in PLANTED.items():
        for is_wrong in (False, True):
            found = planted.audit(is_wrong)
            title = name if is_wrong else f"{name}, put right"
            sys.stdout.write(
                f"{title}: claimed {found.claimed:g}, found {found.lower_bound:.2f} ({found.runs:,} runs)\n"
            )
