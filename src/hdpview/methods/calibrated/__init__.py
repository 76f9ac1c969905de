"""The calibrated p-view: blocks over a released base measure, cut where records depart from it.

Histograms of all attributes and coarse tables of some pairs are released first; together they are the base,
which tells how records lie inside a block. Blocks are cut where the table departs from the base, their counts
are released, and fitted to all that was released; last, the base is moved to where histograms and blocks
agree. With a delta the noise on histograms and tables is Gaussian, which is less where there are many
attributes.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from hdpview.counts.protocol import Counts, as_cells
from hdpview.domain import Schema
from hdpview.domain.tables import TableShape
from hdpview.methods.calibrated.fit import Measured, fitted_counts
from hdpview.methods.calibrated.forest import choose_tree, exact_dependence, parents
from hdpview.methods.calibrated.plan import CalibratedSettings, Plan
from hdpview.methods.calibrated.purse import DeltaPurse, PurePurse, Purse
from hdpview.methods.calibrated.rake import raked
from hdpview.methods.calibrated.smooth import quantile_bins, smoothed_shares, smoothed_table
from hdpview.methods.protocol import BlockRelease, Common, Engine, Progress
from hdpview.partition.guide import Guide
from hdpview.partition.parameters import GuidedParameters
from hdpview.privacy.budget import Budget, exact_delta
from hdpview.privacy.grid import grid_for
from hdpview.privacy.noise import laplace_scale, laplace_variance, noisy_counts
from hdpview.privacy.randomness import Draws, Randomness
from hdpview.view.base import Base
from hdpview.view.blocks import Blocks

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Calibrated(CalibratedSettings, Common):
    """The method with its settings; see `plan.py` for what follows from them.

    delta: part of the budget, as ε is, and so not among the settings; 0 for pure differential privacy.
    """

    name = "calibrated"
    makes_views = True
    supports_spark = True
    delta: float | str | Fraction = Fraction(0)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "delta", exact_delta(self.delta))

    def why_infeasible(self, schema: Schema, epsilon: float) -> str | None:
        """It builds a view of any domain with any budget: cuts are limited in number, and stop where the base
        expects few records.

        But a delta has to be good for something.
        """
        delta, plan = exact_delta(self.delta), Plan(self, Fraction(epsilon), len(schema))
        if not delta or DeltaPurse(plan, Budget(plan.epsilon, delta=delta)).helps:
            return None
        return (
            f"With {len(schema)} attributes, epsilon {epsilon:g} and delta {float(delta):g} for one record histograms would have "
            "more noise than without a delta. Leave delta out."
        )

    def release(
        self,
        counts: Counts,
        budget: Budget,
        randomness: Randomness,
        engine: Engine,
        progress: Progress | None = None,
    ) -> BlockRelease:
        plan = Plan(self, budget.epsilon, len(counts.schema.sizes))
        purse: Purse = DeltaPurse(plan, budget) if budget.delta else PurePurse(plan, budget)
        measured = _Measurement(counts, plan, purse, randomness, progress)
        base, fit_to = measured.base()
        total = measured.noisy_total
        spent = purse.blocks(total, measured.with_pairs)
        epsilon_counts = spent.epsilon_counts
        guided_by = partial(
            guide_of,
            least_share=plan.least_records(epsilon_counts) / total,
            n_quantiles=self.n_quantiles,
            noisy_total=total,
        )
        guide = guided_by(base)
        leaves = engine.grow(
            as_cells(counts),
            GuidedParameters(spent.epsilon_cut, spent.n_levels, guide),
            randomness.root_key("partition"),
            progress,
        )
        noisy = noisy_counts(leaves.exact_sum, epsilon_counts, randomness, leaves.keys, progress)
        blocks = Blocks(leaves.lower, leaves.upper, noisy, leaves.depth, base=base)
        if progress is not None:
            progress(None, "fitting counts")
        fitted = fitted_counts(blocks, laplace_variance(epsilon_counts), guide, fit_to)
        moved = raked(base, blocks, fitted, measured.noisy_histograms, measured.variance, guided_by)
        return BlockRelease(
            blocks=dataclasses.replace(blocks, fitted=fitted, base=moved),
            noise_scale=laplace_scale(epsilon_counts),
            parameters={
                "epsilon_counts": float(epsilon_counts),
                **purse.parameters(measured.with_pairs),
                "epsilon_cut": float(spent.epsilon_cut),
                "n_private_cut_levels": spent.n_levels,
                "n_pairs": plan.n_pairs if measured.with_pairs else 0,
                "least_records": plan.least_records(epsilon_counts),
            },
        )


class _Measurement:
    """What is released before the blocks: histograms, and tables of pairs where there are records enough for
    them.
    """

    def __init__(
        self,
        counts: Counts,
        plan: Plan,
        purse: Purse,
        randomness: Randomness,
        progress: Progress | None,
    ) -> None:
        self.counts, self.plan, self.purse = counts, plan, purse
        self.randomness, self.progress = randomness, progress
        noise = purse.histograms()
        sizes = counts.schema.sizes
        exact = counts.exact_tables([TableShape.of_codes((a,), sizes) for a in range(len(sizes))], progress)
        noisy = noise.on(np.concatenate(exact), randomness, "histograms").astype(np.float64)
        self.noisy_histograms = np.split(noisy, np.cumsum([len(histogram) for histogram in exact])[:-1])
        self.variance = noise.variance
        self.noisy_total = _total(self.noisy_histograms)
        self.with_pairs = purse.takes_pairs(self.noisy_total)

    def base(self) -> tuple[Base, Measured]:
        """The base measure, and what counts of blocks are to be fitted to."""
        total, n = self.noisy_total, self.plan.n_attributes
        shares = [smoothed_shares(noisy, total, self.variance) for noisy in self.noisy_histograms]
        bins = [quantile_bins(share, self.plan.settings.n_bins) for share in shares]
        of_bins = [_per_bin(bin_of_code, share) for bin_of_code, share in zip(bins, shares, strict=True)]
        shape = [
            share / of_bin[bin_of_code]
            for share, of_bin, bin_of_code in zip(shares, of_bins, bins, strict=True)
        ]
        parent, table = [-1] * n, [of_bin[None] for of_bin in of_bins]
        tables: dict[int, tuple[Floats, Floats]] = {}
        if self.with_pairs:
            parent, tables = self._tables(bins, of_bins)
            for child, (noisy, variance) in tables.items():
                joint = smoothed_table(
                    noisy, of_bins[parent[child]], of_bins[child], total, float(variance[0])
                )
                table[child] = joint / joint.sum(axis=1, keepdims=True)
        histograms = [
            (_per_bin(bin_of_code, noisy), self.variance * _per_bin(bin_of_code, np.ones(len(noisy))))
            for bin_of_code, noisy in zip(bins, self.noisy_histograms, strict=True)
        ]
        base = Base(tuple(bins), tuple(shape), tuple(parent), tuple(table), np.full(n, self.variance))
        return base, Measured(histograms, tables)

    def _tables(
        self, bins: list[NDArray[np.int32]], of_bins: list[Floats]
    ) -> tuple[list[int], dict[int, tuple[Floats, Floats]]]:
        """The tree of attributes, and a noisy table over the bins of each attribute and its parent."""
        plan = self.plan
        epsilon_choice, noise = self.purse.pairs()
        pairs = list(combinations(range(plan.n_attributes), 2))
        shapes = [TableShape((a, b), (bins[a], bins[b])) for a, b in pairs]
        exact = dict(zip(pairs, self.counts.exact_tables(shapes, self.progress), strict=True))
        scores = exact_dependence(exact, of_bins, self.noisy_total)
        edges = choose_tree(
            scores, plan.n_attributes, epsilon_choice, Draws(self.randomness.root_key("pairs"))
        )
        parent = parents(edges, plan.n_attributes)
        together = noise.on(
            np.concatenate([exact[edge].reshape(-1) for edge in edges]), self.randomness, "tables of pairs"
        )
        ends = np.cumsum([exact[edge].size for edge in edges])
        tables = {}
        for (a, b), noisy in zip(edges, np.split(together.astype(np.float64), ends[:-1]), strict=True):
            table, child = noisy.reshape(exact[a, b].shape), b if parent[b] == a else a
            tables[child] = (table if child == b else table.T, np.full(1, noise.variance))
        return parent, tables


def _per_bin(bin_of_code: NDArray[np.int32], values: Floats) -> Floats:
    """Sums over the codes of each bin."""
    return np.bincount(bin_of_code, values).astype(np.float64)


def _total(noisy_histograms: list[Floats]) -> float:
    """The number of records: every histogram tells it, those with few codes with less noise."""
    weights = np.array([1.0 / len(noisy) for noisy in noisy_histograms])
    totals = np.array([noisy.sum() for noisy in noisy_histograms])
    return max(1.0, float((weights * totals).sum() / weights.sum()))


def guide_of(base: Base, least_share: float, n_quantiles: int, noisy_total: float = 1.0) -> Guide:
    """A base as the arrays that growing needs. noisy_total: the released number of records, for the grid on
    which cuts are scored.
    """
    n, n_bins, grid = len(base.parent), np.array(base.n_bins, np.int64), grid_for(noisy_total)
    table = np.zeros((n, n_bins.max(), n_bins.max()))
    for a, of_a in enumerate(base.table):
        table[a, : of_a.shape[0], : of_a.shape[1]] = of_a
    return Guide(
        parent=np.array(base.parent, np.int64),
        order=np.array(base.upward[::-1], np.int64),
        n_bins=n_bins,
        table=table,
        offsets=np.concatenate([[0], np.cumsum(base.sizes)[:-1]]).astype(np.int64),
        bin_of_code=np.concatenate(base.bin_of_code).astype(np.int64),
        shape=np.concatenate(base.shape),
        least_share=least_share,
        n_quantiles=n_quantiles,
        steps=grid.steps,
        most=grid.most,
    )
