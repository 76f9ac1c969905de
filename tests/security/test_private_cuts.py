"""As many cuts on a path look at the data as were charged, which no audit could tell."""

import dataclasses
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hdpview.counts.sparse import SparseCounts
from hdpview.domain import Integer, Schema
from hdpview.methods import Hdpview
from hdpview.partition.grow import grow, root
from hdpview.partition.parameters import PartitionParameters
from hdpview.privacy.randomness import Randomness
from hdpview.view.blocks import Blocks
from hdpview_bench.audit.evidence import cuts_to
from hdpview_bench.audit.tables import sparse

CELLS = np.array([3, 900, 17, 0, 250, 41, 5, 600, 80, 1, 33, 470], np.int64)


def best_cut(lower: int, upper: int) -> int:

    def deviation(x: np.ndarray[Any, Any]) -> float:
        return float(np.abs(x - x.mean()).sum())

    return min(range(lower + 1, upper), key=lambda v: deviation(CELLS[lower:v]) + deviation(CELLS[v:upper]))


@pytest.mark.parametrize("n_charged", [1, 2, 3])
def test_cuts_look_at_data_down_to_the_depth_that_was_charged_and_no_further(n_charged):
    """With a huge budget a private cut is surely the best one; cuts at depth κ + 1 are not."""
    chosen = PartitionParameters.choose(Hdpview(), Fraction(1), CELLS.size)
    changed: dict[str, Any] = {"epsilon_cut": Fraction(10**9), "n_private_cut_levels": n_charged}
    parameters = dataclasses.replace(
        chosen, **changed, converge_threshold=-1e12
    )  # never stops above a single cell
    is_best: dict[int, list[bool]] = {}
    for number in range(60):
        counts = sparse(CELLS)
        start = root(
            counts.schema.sizes, counts.exact_counts, Randomness.from_test_key(b"%d" % number).root_key("x")
        )
        leaves, _ = grow(counts.exact_codes.copy(), counts.exact_counts.copy(), start, parameters)
        blocks = Blocks(leaves.lower, leaves.upper, leaves.exact_sum, leaves.depth, 1.0)
        for leaf in range(len(blocks)):
            lower, upper = 0, CELLS.size
            for depth, (_, point) in enumerate(cuts_to(blocks, leaf), start=1):
                if upper - lower > 2:
                    is_best.setdefault(depth, []).append(point == best_cut(lower, upper))
                lower, upper = (point, upper) if leaves.lower[leaf, 0] >= point else (lower, point)
    assert all(all(is_best[depth]) for depth in range(1, n_charged + 1))
    assert np.mean(is_best[n_charged + 1]) < 0.8


def test_the_ledger_is_charged_for_exactly_that_many():
    from hdpview.build import release

    view = release(sparse(CELLS), Fraction(1), Hdpview(), Randomness.fresh(), 1)
    cuts = next(spent for spent in view.manifest.spending if spent.purpose == "choose cuts")
    parameters = PartitionParameters.choose(Hdpview(), Fraction(1), CELLS.size)
    assert (cuts.times, cuts.epsilon) == (parameters.n_private_cut_levels, parameters.epsilon_cut)
    assert cuts.times == int(np.floor(1.2 * np.log2(CELLS.size)))


def test_tables_whose_sums_would_wrap_around_are_refused():
    """One record more would turn a sum of 64 bits negative, far beyond any sensitivity."""
    schema = Schema([Integer(name="a", min=0, max=1)])
    counts = SparseCounts(schema, np.array([[0], [1]], np.uint8), np.full(2, 2**62))
    assert "more records than" in str(Hdpview().why_not_this_table(counts))
    assert Hdpview().why_not_this_table(dataclasses.replace(counts, exact_counts=np.full(2, 2**40))) is None
