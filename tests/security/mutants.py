"""Builds with a planted bug, for the audit to catch. Each says what it charges and then does something else."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np

from hdpview.audit.run import Build
from hdpview.counts.contributions import EACH_ROW, Contributions
from hdpview.counts.sparse import SparseCounts
from hdpview.door import release
from hdpview.engine.local import LocalEngine
from hdpview.methods import Hdpview, Method
from hdpview.partition.grow import grow, root
from hdpview.partition.parameters import PartitionParameters
from hdpview.privacy.ledger import Ledger
from hdpview.privacy.randomness import Randomness
from hdpview.view.blocks import Blocks

MOSTLY_COUNTS = Hdpview(partition_share=0.01)  # nearly all of the budget on noise
MOSTLY_CUTS = Hdpview(partition_share=0.995, converge_share=0.005, cut_levels_factor=0.001, bias_ratio=1.0001)  # on a single cut
MOSTLY_CONVERGE = Hdpview(partition_share=0.95, converge_share=0.98, bias_ratio=1000.0)


def honest(method: Method, epsilon: Fraction, limits: Contributions = EACH_ROW) -> Build:
    """What it should be."""
    return lambda counts: release(counts, epsilon, method, Randomness.fresh(), 1, limits=limits).blocks


def half_the_noise(epsilon: Fraction) -> Build:
    """Noise of half the scale: as if the budget for counts were twice what was charged."""

    def build(counts: SparseCounts) -> Blocks:
        double = MOSTLY_COUNTS.release(counts, Ledger(2 * epsilon), Randomness.fresh(), LocalEngine(1)).blocks
        return Blocks(double.lower, double.upper, double.noisy_counts, double.depth)

    return build


def one_key_for_all(method: Method, epsilon: Fraction) -> Build:
    """The same key for every build, noise included: what a fixed seed does."""
    return lambda counts: release(counts, epsilon, method, Randomness.from_test_key(b"0"), 1).blocks


def unscaled_bound(method: Method, epsilon: Fraction) -> Build:
    """A person has up to three rows, and the noise is for one."""
    return honest(method, epsilon)


def with_parameters(method: Hdpview, epsilon: Fraction, change: Callable[[PartitionParameters], dict[str, Any]]) -> Build:
    """The partition alone, with parameters changed after they were charged. Its counts carry no information: the noise on them is huge.

    Keys are numbered, one for each build: partitions are as random as with keys from the system, and a test passes always or never.
    """
    numbers = itertools.count()

    def build(counts: SparseCounts) -> Blocks:
        chosen = PartitionParameters.choose(method, epsilon, counts.schema.n_cells)
        names = [*(field.name for field in dataclasses.fields(chosen)), "converge_floor"]
        parameters: Any = SimpleNamespace(**{**{name: getattr(chosen, name) for name in names}, **change(chosen)})
        randomness = Randomness.from_test_key(b"%d" % next(numbers))
        codes, rows = counts.exact_codes.copy(), counts.exact_counts.copy()
        leaves, _ = grow(codes, rows, root(counts.schema.sizes, rows, randomness.root_key("partition")), parameters)
        return Blocks(leaves.lower, leaves.upper, np.zeros(len(leaves), np.int64), leaves.depth)

    return build
