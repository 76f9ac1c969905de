"""The mixture: noisy histograms and tables of groups of attributes, and components fitted to them.

The method first releases the number of records and a histogram of each attribute, then tables of groups of
attributes that together cover all pairs, then fine tables of the most dependent pairs. As post-processing, it
fits components to all of them; within a component, attributes are independent. The groups and their bins
follow from the schema, the budget and released numbers. With a delta, noise is Gaussian, which is smaller
when there are many tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hdpview.counts.exact_statistics import Counts
from hdpview.domain import Schema
from hdpview.domain.table_shapes import TableShape
from hdpview.errors import MethodError, unknown_name
from hdpview.methods.mixture.bins import axes_of, in_order, refinement, sums_over
from hdpview.methods.mixture.fit import Components, Targets, fits_side_by_side
from hdpview.methods.mixture.measure import Measurements, measure
from hdpview.methods.mixture.plan import TOTAL_SHARE, Planner, delta_helps, effort_for, histogram_amounts
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
        groups = self.focus if isinstance(self.focus, (list, tuple)) else (None,)
        if not all(isinstance(g, (list, tuple)) and all(isinstance(n, str) for n in g) for g in groups):
            raise MethodError("focus must list groups of attributes by name, such as [('age', 'income')].")
        focus, least = tuple(map(tuple, groups)), self.least_in_focus
        if any(not least <= len(set(names)) == len(names) <= _MOST_IN_FOCUS for names in focus):
            raise MethodError(f"Each group in focus needs {least} to {_MOST_IN_FOCUS} different attributes.")
        object.__setattr__(self, "focus", focus)

    def why_infeasible(self, schema: Schema, epsilon: float) -> str | None:
        """Any domain and budget will do, but focus must name attributes and a delta must reduce noise."""
        for name in (name for names in self.focus for name in names):
            if name not in schema.names:
                return f"focus: {unknown_name('attribute', name, schema.names, 'The schema has')}"
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
        names = counts.schema.names
        focus = {tuple(sorted(names.index(name) for name in group)) for group in self.focus}
        return MixtureBuild(counts, tuple(sorted(focus)), mechanism, progress).release()


class MixtureBuild:
    """One release, step by step."""

    def __init__(
        self,
        counts: Counts,
        focus: Sequence[tuple[int, ...]],
        mechanism: Mechanism,
        progress: Progress | None,
    ) -> None:
        self.counts, self.focus, self.mechanism = counts, focus, mechanism
        self.whole = mechanism.noise(mechanism.total)
        self.axes = axes_of(counts.schema)
        # Random initial values break ties between exchangeable codes; seeding by position would bias them.
        self.rng = mechanism.rng("start of the fit")
        self.progress = progress or silent

    def release(self) -> ViewRelease:
        measured = self.measure_histograms()
        if self.mechanism.remaining:
            self.measure_tables(measured)
        tables = (*(one.table for one in measured.histograms), *(one.table for one in measured.tables))
        return ViewRelease(self.mixture(measured), tables)

    def measure_histograms(self) -> Measurements:
        """Measure the number of records and all histograms."""
        sizes = self.counts.schema.sizes
        shapes = [TableShape.of_codes([a], sizes) for a in range(len(sizes))]
        self.progress(None, "adding up histograms")
        exact_histograms = self.counts.exact_tables(shapes, self.progress)
        amount = self.mechanism.total * TOTAL_SHARE
        noisy_total = self.mechanism.noisy("number of records", exact_histograms[0].total(), amount)  # [P8]
        measured = Measurements(self.axes, float(noisy_total[0]), self.mechanism.noise(amount).variance)
        amounts = histogram_amounts(self.axes, measured.total_to_plan_with, self.whole)
        measured.histograms = [
            measure(self.mechanism, "histograms of attributes", exact, shape, amount)  # [P8]
            for exact, shape, amount in zip(exact_histograms, shapes, amounts, strict=True)
        ]
        return measured

    def measure_tables(self, measured: Measurements) -> None:
        """Measure groups of attributes, then fine tables of their most dependent pairs."""
        tie_breakers = [self.rng.random(axis.size) for axis in self.axes]
        total = measured.total_to_plan_with
        planner = Planner(self.axes, measured.shares(), total, self.whole, tie_breakers)
        focus = [group for group in self.focus if set(group) <= set(planner.attributes)]
        plan = planner.groups(self.mechanism.remaining, focus)
        self.measure("tables of several attributes", plan.shapes, plan.amounts, measured)
        if plan.for_fine:
            shapes = planner.fine_pairs(measured.tables, measured.shares(), plan.for_fine)
            amounts = [plan.for_fine / len(shapes)] * len(shapes)
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
        shapes = [one.table.shape for one in measured.tables]
        fine = list[NDArray[np.int32]]()  # per attribute, the finest bins that the tables distinguish
        for a, axis in enumerate(self.axes):
            bins = [each.bin_of_code[each.attributes.index(a)] for each in shapes if a in each.attributes]
            fine.append(in_order(refinement(axis.size, bins)))
        margins = [sums_over(own, share) for own, share in zip(fine, shares, strict=True)]
        shape = tuple(share / margin[own] for share, margin, own in zip(shares, margins, fine, strict=True))
        fits = self._fits(measured, fine, margins, total)
        weights = (one.weight.astype(np.float64) for one in fits)
        weight = np.concatenate([own / own.sum() for own in weights])
        of_fits = zip(*(one.share for one in fits), strict=True)
        joined = [np.concatenate(own, axis=1, dtype=np.float64) for own in of_fits]
        share = tuple(quantised(own / own.sum(axis=0)) for own in joined)
        fit_index = np.repeat(np.arange(len(fits), dtype=np.int32), [len(one.weight) for one in fits])
        return view.Mixture(weight * total / len(fits), tuple(fine), shape, share, fit_index)

    def _fits(
        self, measured: Measurements, fine: list[NDArray[np.int32]], margins: list[Floats], total: float
    ) -> list[Components]:
        if not measured.tables:
            return [Components.independent(margins)]
        tables, variances = zip(*((one.table, one.variance) for one in measured.tables), strict=True)
        targets = Targets(tables, variances, fine, [axis.n_ordered for axis in self.axes])
        effort = effort_for(targets.n_cells)
        starts = [Components.start(margins, effort.n_components, self.rng) for _ in range(effort.members)]
        return fits_side_by_side(starts, targets, margins, total, effort.passes, effort.rounds, self.progress)
