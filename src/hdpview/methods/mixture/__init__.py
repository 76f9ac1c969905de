"""The mixture: noisy histograms and tables of groups of attributes, and components fitted to them.

The method first releases the number of records and a histogram of each attribute, then tables of groups of
attributes that together cover all pairs, then fine tables of the most dependent pairs. As post-processing, it
fits components to all of them; within a component, attributes are independent. The groups and their bins
follow from the schema, the budget and released numbers. With a delta, noise is Gaussian, which is smaller
when there are many tables.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hdpview.counts.protocol import Counts
from hdpview.domain import Schema
from hdpview.domain.tables import TableShape
from hdpview.errors import MethodError, unknown_name
from hdpview.methods.mixture.accounting import Accounting, delta_helps, split
from hdpview.methods.mixture.bins import axes_of, in_order, refinement, sums_over
from hdpview.methods.mixture.fit import Components, Targets, fits_side_by_side
from hdpview.methods.mixture.measure import Measured, Measurements, measure, n_cells
from hdpview.methods.mixture.plan import TOTAL_SHARE, Planner, effort_for, share_of_histograms
from hdpview.methods.protocol import Engine, Method, Progress, ViewRelease
from hdpview.privacy.budget import exact_delta
from hdpview.privacy.mechanism import Mechanism
from hdpview.progress import silent
from hdpview.view import mixture as view
from hdpview.view.contents import quantised

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# A table of more attributes would have too many cells for its records.
_MOST_IN_FOCUS = 3


@dataclass(frozen=True)
class Mixture(Method):
    """The method with its settings.

    focus: groups of two or three attribute names. Their tables are always measured, with more budget.
    delta: part of the budget like ε, so not a setting; 0 for pure differential privacy.
    """

    name = "mixture"
    makes_views = True
    supports_spark = True
    reads = "tables"
    least_in_focus: ClassVar[int] = 2
    focus: tuple[tuple[str, ...], ...] = ()
    delta: float | str | Fraction = field(default=Fraction(0))

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", exact_delta(self.delta))
        try:
            focus = tuple(tuple(names) for names in self.focus)
        except TypeError:
            raise MethodError("focus lists groups of attributes, such as [('age', 'income')].") from None
        if any(isinstance(names, str) for names in self.focus) or not all(
            isinstance(name, str) for names in focus for name in names
        ):
            raise MethodError("focus lists groups of attributes by name, such as [('age', 'income')].")
        least = self.least_in_focus
        if any(not least <= len(set(names)) == len(names) <= _MOST_IN_FOCUS for names in focus):
            raise MethodError(f"Each group of focus names {least} to {_MOST_IN_FOCUS} different attributes.")
        object.__setattr__(self, "focus", focus)

    def why_infeasible(self, schema: Schema, epsilon: float) -> str | None:
        """Any domain and budget will do, but focus must name attributes and a delta must reduce noise."""
        known = [attribute.name for attribute in schema.attributes]
        for name in (name for names in self.focus for name in names):
            if name not in known:
                return f"focus: {unknown_name('attribute', name, known, 'The schema has')}"
        delta, d = exact_delta(self.delta), len(schema)
        if delta and not delta_helps(Fraction(epsilon), delta, d + min(d * (d - 1) // 2, 2 * d)):
            return (
                f"With {d} attributes, epsilon {epsilon:g} and delta {float(delta):g} for one record, tables "
                "would have more noise than without a delta. Omit delta, or use a larger one."
            )
        return None

    def release(
        self,
        counts: Counts,
        mechanism: Mechanism,
        engine: Engine | None = None,
        progress: Progress | None = None,
    ) -> ViewRelease:
        names = [attribute.name for attribute in counts.schema.attributes]
        focus = {tuple(sorted(names.index(name) for name in group)) for group in self.focus}
        return MixtureBuild(counts, tuple(sorted(focus)), mechanism, progress).release()


class MixtureBuild:
    """One release, step by step."""

    def __init__(
        self,
        counts: Counts,
        focus: tuple[tuple[int, ...], ...],
        mechanism: Mechanism,
        progress: Progress | None,
    ) -> None:
        self.counts, self.focus, self.mechanism = counts, focus, mechanism
        self.accounting = Accounting.of(mechanism)
        self.axes = axes_of(counts.schema)
        # Random initial values break ties between exchangeable codes; seeding by position would bias them.
        self.rng = mechanism.rng("start of the fit")
        self.progress = progress or silent

    def release(self) -> ViewRelease:
        measured = self.measured()
        tables = (*(one.table for one in measured.histograms), *(one.table for one in measured.tables))
        return ViewRelease(self.mixture(measured), tables)

    def measured(self) -> Measurements:
        """Make the whole release, spending all of the budget."""
        measured, amount = self._measure_histograms()
        if amount:
            self._measure_tables(measured, amount)
        return measured

    def _measure_histograms(self) -> tuple[Measurements, Fraction]:
        """Measure the number of records and all histograms; returns the budget left for tables."""
        accounting, sizes = self.accounting, [axis.size for axis in self.axes]
        shapes = [TableShape.of_codes([a], sizes) for a in range(len(sizes))]
        self.progress(None, "adding up histograms")
        exact_histograms = self.counts.exact_tables(shapes, self.progress)
        amount = accounting.total * TOTAL_SHARE
        noisy_total = self.mechanism.noisy("number of records", exact_histograms[0].total(), amount)  # [P8]
        measured = Measurements(self.axes, float(noisy_total[0]), accounting.noise(amount).variance)
        share = share_of_histograms(self.axes, measured.total_to_plan_with, accounting)
        amounts = accounting.shared(accounting.total * share, sizes)
        measured.histograms = [
            measure(self.mechanism, "histograms of attributes", exact, shape, amount)  # [P8]
            for exact, shape, amount in zip(exact_histograms, shapes, amounts, strict=True)
        ]
        return measured, self.mechanism.remaining

    def _measure_tables(self, measured: Measurements, amount: Fraction) -> None:
        """Measure groups of attributes, then fine tables of their most dependent pairs."""
        tie_breakers = [self.rng.random(axis.size) for axis in self.axes]
        total = measured.total_to_plan_with
        planner = Planner(self.axes, measured.shares(), total, self.accounting, tie_breakers)
        focus = [group for group in self.focus if set(group) <= set(planner.attributes)]
        plan = planner.groups(amount, focus)
        self.measure("tables of several attributes", plan.shapes, plan.amounts, measured)
        if plan.for_fine:
            shapes = planner.fine_pairs(measured.tables, measured.shares(), plan.for_fine)
            amounts = split(plan.for_fine, [1.0] * len(shapes))
            self.measure("fine tables of pairs", shapes, amounts, measured)

    def measure(
        self, heading: str, shapes: list[TableShape], amounts: list[Fraction], measured: Measurements
    ) -> None:
        self.progress(None, "adding up tables")
        exact_tables = self.counts.exact_tables(shapes, self.progress)
        for exact, shape, amount in zip(exact_tables, shapes, amounts, strict=True):
            measured.tables.append(measure(self.mechanism, heading, exact, shape, amount))  # [P8]

    def mixture(self, measured: Measurements) -> view.Mixture:
        """Several independent fits to the whole release, with shares rounded to 16 bits."""
        total, shares = measured.total, measured.shares()
        fine = [in_order(bins) for bins in fine_bins(measured)]
        margins = [sums_over(bins, share) for bins, share in zip(fine, shares, strict=True)]
        shape = tuple(share / margin[bins] for share, margin, bins in zip(shares, margins, fine, strict=True))
        fits = self._fits(measured, fine, margins, total)
        weight = np.concatenate(
            [one.weight.astype(np.float64) / one.weight.sum(dtype=np.float64) for one in fits]
        )
        share = tuple(quantised(_joined([one.share[a] for one in fits])) for a in range(len(self.axes)))
        member = np.repeat(np.arange(len(fits), dtype=np.int32), [len(one.weight) for one in fits])
        return view.Mixture(weight * total / len(fits), tuple(fine), shape, share, member)

    def _fits(
        self, measured: Measurements, fine: list[NDArray[np.int32]], margins: list[Floats], total: float
    ) -> list[Components]:
        if not measured.tables:
            return [Components.independent(margins)]
        effort = effort_for(n_cells(measured.tables))
        tables, variances = zip(*((one.table, one.variance) for one in measured.tables), strict=True)
        targets = Targets(tables, variances, fine, [axis.n_ordered for axis in self.axes])
        starts = [Components.start(margins, effort.n_components, self.rng) for _ in range(effort.members)]
        self.progress(0.0, "fitting components")
        return fits_side_by_side(
            starts,
            targets,
            margins,
            total,
            effort.passes,
            effort.rounds,
            lambda done: self.progress(done, "fitting components"),
        )


def _joined(shares: list[NDArray[np.float32]]) -> NDArray[np.float64]:
    """Shares of all fits, concatenated; each column sums to 1 in doubles; shape (n_bins, n)."""
    joined = np.concatenate(shares, axis=1).astype(np.float64)
    scaled: NDArray[np.float64] = joined / joined.sum(axis=0)
    return scaled


def fine_bins(measured: Measurements) -> list[NDArray[np.int32]]:
    """Per attribute, the finest bins that the measured tables distinguish."""
    binnings: list[list[NDArray[np.int32]]] = [[] for _ in measured.axes]
    for one in measured.tables:
        for a, bins in zip(one.attributes, one.table.shape.bin_of_code, strict=True):
            binnings[a].append(bins)
    return [refinement(axis.size, bins) for axis, bins in zip(measured.axes, binnings, strict=True)]


__all__ = ["Measured", "Mixture"]
