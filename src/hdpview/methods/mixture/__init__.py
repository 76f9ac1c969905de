"""The mixture: histograms and tables of pairs with noise, and components fitted to them.

First the number of records and a histogram of each attribute are released, then tables of pairs of
attributes: a spanning tree, and in rounds those that the model so far explains worst. Components, in each of
which attributes are independent, are fitted to all of it as post-processing. How many tables, and how finely,
follows from the schema, the budget and released numbers. With a delta noise is Gaussian, which is less where
there are many tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hdpview.counts.protocol import Counts
from hdpview.domain import Schema
from hdpview.domain.tables import TableShape
from hdpview.errors import MethodError, unknown_name
from hdpview.methods.mixture.accounting import Accounting, delta_helps
from hdpview.methods.mixture.bins import axes_of, in_order, refinement, sums_over
from hdpview.methods.mixture.choose import choose, joins_parts
from hdpview.methods.mixture.fit import Components, Target, fit, model_table
from hdpview.methods.mixture.measure import Measured, Measurements, measure, n_cells
from hdpview.methods.mixture.plan import (
    FOCUS_WEIGHT,
    ROUNDS,
    TOTAL_SHARE,
    Plan,
    effort_for,
    nearly_constant,
    plan_for,
    shape_for,
)
from hdpview.methods.protocol import Engine, Method, Progress, ViewRelease
from hdpview.privacy.budget import exact_delta
from hdpview.privacy.exact import Exact, grid_for
from hdpview.privacy.mechanism import Mechanism
from hdpview.progress import silent
from hdpview.view import mixture as view
from hdpview.view.contents import quantised

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_TABLES = "tables of several attributes"
# A table of more attributes has too many cells for its records.
_MOST_IN_FOCUS = 3
# Share of all records, of a component that is kept: far below one record of any table.
_LEAST_WEIGHT = 1e-12
# While tables are still being chosen: a model that ranks pairs by how badly it explains them need not be a
# fine one.
_CHOOSING_PASSES = 2
_CHOOSING_ROUNDS = 30
_CHOOSING_COMPONENTS = 128


@dataclass(frozen=True)
class Mixture(Method):
    """The method with its settings.

    focus: groups of two or three attributes, by name, whose tables are measured in any case and with more
        budget.
    delta: part of the budget, as ε is, and so not among the settings; 0 for pure differential privacy.
    """

    name = "mixture"
    makes_views = True
    supports_spark = True
    reads = "tables"
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
        if any(not 2 <= len(set(names)) == len(names) <= _MOST_IN_FOCUS for names in focus):
            raise MethodError(f"Each group of focus names 2 to {_MOST_IN_FOCUS} different attributes.")
        object.__setattr__(self, "focus", focus)

    def why_infeasible(self, schema: Schema, epsilon: float) -> str | None:
        """Any domain and budget will do; but focus has to name attributes, and a delta to be of some use."""
        known = [attribute.name for attribute in schema.attributes]
        for name in (name for names in self.focus for name in names):
            if name not in known:
                return f"focus: {unknown_name('attribute', name, known, 'The schema has')}"
        delta, d = exact_delta(self.delta), len(schema)
        if delta and not delta_helps(Fraction(epsilon), delta, d + min(d * (d - 1) // 2, 2 * d)):
            return (
                f"With {d} attributes, epsilon {epsilon:g} and delta {float(delta):g} for one record "
                "tables would "
                "have more noise than without a delta. Leave delta out, or use a larger one."
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
        return _Build(counts, tuple(sorted(focus)), mechanism, progress).release()


class _Build:
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
        plan, measured = self._measure_histograms()
        if plan.total_weight:
            self._measure_tables(self._without_nearly_constant(plan, measured), measured)
        tables = (*(one.table for one in measured.histograms), *(one.table for one in measured.tables))
        return ViewRelease(self._mixture(measured), tables)

    def _measure_histograms(self) -> tuple[Plan, Measurements]:
        """The number of records, what follows from it, and a histogram of each attribute."""
        accounting, sizes = self.accounting, [axis.size for axis in self.axes]
        shapes = [TableShape.of_codes([a], sizes) for a in range(len(sizes))]
        self.progress(None, "adding up histograms")
        exact_histograms = self.counts.exact_tables(shapes, self.progress)
        amount = accounting.total * TOTAL_SHARE
        noisy_total = self.mechanism.noisy("number of records", exact_histograms[0].total(), amount)  # [P8]
        measured = Measurements(self.axes, float(noisy_total[0]), accounting.noise(amount).variance)
        plan = plan_for(self.axes, self.focus, measured.total_to_plan_with, accounting)
        amounts = accounting.shared(accounting.total * plan.shares()[0], sizes)
        measured.histograms = [
            measure(self.mechanism, "histograms of attributes", exact, shape, amount)  # [P8]
            for exact, shape, amount in zip(exact_histograms, shapes, amounts, strict=True)
        ]
        return plan, measured

    def _without_nearly_constant(self, plan: Plan, measured: Measurements) -> Plan:
        """The plan, with no table for attributes that histograms show to be constant but for noise."""
        if not plan.n_choices:
            return plan
        amount = self.accounting.total * plan.shares()[2] / plan.total_weight
        deviation = self.accounting.noise(amount).variance ** 0.5
        left_out = nearly_constant(measured.shares(), measured.total, deviation)
        found = plan_for(self.axes, self.focus, measured.total_to_plan_with, self.accounting, left_out)
        # Of fewer than two attributes there are no tables; then the budget goes where it was to go.
        return found if found.total_weight else plan

    def _measure_tables(self, plan: Plan, measured: Measurements) -> None:
        """Tables of several attributes: those of the focus, then the chosen ones in rounds."""
        _, for_choices, for_tables = (self.accounting.total * share for share in plan.shares())
        self.unit = for_tables / plan.total_weight
        candidates = _Candidates(self, plan, measured)
        candidates.measure(range(len(plan.focus)), FOCUS_WEIGHT)
        first = len(plan.focus)
        if not plan.chooses:
            candidates.measure(range(first, first + plan.n_choices), 1)
            return
        amount = for_choices / plan.n_choices
        candidates.choose_tree(plan.n_choices, amount)
        for i in range(ROUNDS):
            left = plan.n_choices + first - len(measured.tables)
            candidates.choose_worst(left // (ROUNDS - i), amount)

    def _mixture(self, measured: Measurements) -> view.Mixture:
        """Several fits to all that was released, side by side, with shares rounded to 16 bits."""
        total, shares = measured.total, measured.shares()
        fine = [in_order(bins) for bins in fine_bins(measured)]
        margins = [sums_over(bins, share) for bins, share in zip(fine, shares, strict=True)]
        shape = tuple(share / margin[bins] for share, margin, bins in zip(shares, margins, fine, strict=True))
        fits = [_without_empty(one) for one in self._fits(measured, fine, margins, total)]
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
        targets = self._targets(measured, fine)
        n_steps, done = effort.members * effort.passes, 0

        def step() -> None:
            nonlocal done
            done += 1
            self.progress(done / n_steps, "fitting components")

        self.progress(0.0, "fitting components")
        return [
            fit(
                Components.start(margins, effort.n_components, self.rng),
                targets,
                margins,
                total,
                effort.passes,
                effort.rounds,
                step,
                long_steps=effort.long_steps,
            )
            for _ in range(effort.members)
        ]

    def _targets(self, measured: Measurements, fine: list[NDArray[np.int32]]) -> list[Target]:
        n_ordered = [axis.n_ordered for axis in self.axes]
        return [Target(one.table, one.variance, fine, n_ordered) for one in measured.tables]


def _without_empty(components: Components) -> Components:
    """The components that have any weight: shares of one without are 0/0."""
    kept = components.weight > _LEAST_WEIGHT * components.weight.sum()
    return Components(components.weight[kept], tuple(own[:, kept] for own in components.share))


def _joined(shares: list[NDArray[np.float32]]) -> NDArray[np.float64]:
    """Shares of several fits side by side, each column of sum 1 in doubles; shape (n_bins, n)."""
    joined = np.concatenate(shares, axis=1).astype(np.float64)
    scaled: NDArray[np.float64] = joined / joined.sum(axis=0)
    return scaled


class _Candidates:
    """Tables that may be measured: their bins, their exact counts, and which are taken."""

    def __init__(self, build: _Build, plan: Plan, measured: Measurements) -> None:
        self.build, self.measured = build, measured
        self.attributes = [*plan.focus, *plan.candidates]
        self.total, self.shares = measured.total, measured.shares()
        lots = [build.rng.random(axis.size) for axis in build.axes]
        usual, focus = (
            build.accounting.noise(build.unit * weight).variance ** 0.5 for weight in (1, FOCUS_WEIGHT)
        )
        self.shapes = [
            shape_for(
                attributes,
                build.axes,
                self.shares,
                self.total,
                focus if i < len(plan.focus) else usual,
                lots,
                plan.n_choices + len(plan.focus),
            )
            for i, attributes in enumerate(self.attributes)
        ]
        build.progress(None, "adding up tables")
        self.exact = build.counts.exact_tables(self.shapes, build.progress)
        self.left = list(range(len(self.attributes)))
        self.n_chosen = 0
        self.model: Components | None = None

    def measure(self, chosen: range | list[int], weight: int) -> None:
        """Release these tables, with `weight` units of budget each on average."""
        if not len(chosen):
            return
        build = self.build
        sizes = [math.prod(self.exact[i].shape) for i in chosen]
        amounts = build.accounting.shared(build.unit * weight * len(chosen), sizes)
        for i, amount in zip(chosen, amounts, strict=True):
            table = measure(build.mechanism, _TABLES, self.exact[i], self.shapes[i], amount)  # [P8]
            self.measured.tables.append(table)
            self.left.remove(i)

    def choose_tree(self, most: int, amount: Fraction) -> None:
        """Choose tables that connect all attributes, by their distance from independence; each costs
        `amount`.
        """
        joins = joins_parts([self.attributes[i] for i in self.left], len(self.build.axes))
        self._choose(most, amount, lambda shape: independent_table(shape, self.shares), joins)

    def choose_worst(self, n: int, amount: Fraction) -> None:
        """Choose tables that a model of those measured so far explains worst; each costs `amount`."""
        if n:
            model = self._refit()
            self._choose(n, amount, lambda shape: model_table(shape, model, self.fine))

    def _choose(
        self,
        n: int,
        amount: Fraction,
        expected_shares: Callable[[TableShape], Floats],
        still_open: Callable[[list[int]], NDArray[np.bool_]] | None = None,
    ) -> None:
        """Choose and measure tables by how far each is from what is expected, which is released. [P9]"""
        exact_scores = []
        for i in self.left:
            expected = expected_shares(self.shapes[i]) * self.total
            exact_scores.append(self.exact[i].distance(expected, grid_for(self.total, expected.size)))
        build = self.build
        chosen = choose(build.mechanism, Exact.stack(exact_scores), n, amount, self.n_chosen, still_open)
        self.n_chosen += len(chosen)
        self.measure([self.left[i] for i in chosen], 1)

    def _refit(self) -> Components:
        build, fresh = self.build, self.model is None
        self.fine = [
            refinement(
                axis.size,
                [
                    shape.bin_of_code[shape.attributes.index(a)]
                    for shape in self.shapes
                    if a in shape.attributes
                ],
            )
            for a, axis in enumerate(build.axes)
        ]
        margins = [sums_over(bins, share) for bins, share in zip(self.fine, self.shares, strict=True)]
        start = self.model or Components.start(margins, _CHOOSING_COMPONENTS, build.rng)
        self.model = fit(
            start,
            build._targets(self.measured, self.fine),
            margins,
            self.total,
            _CHOOSING_PASSES,
            _CHOOSING_ROUNDS,
            lambda: build.progress(None, "choosing tables"),
            fresh,
        )
        return self.model


def independent_table(shape: TableShape, shares: list[Floats]) -> Floats:
    """Probabilities of a table's cells if attributes were independent. shares: of codes, per attribute."""
    table = np.ones(())
    for a, bins in zip(shape.attributes, shape.bin_of_code, strict=True):
        table = np.multiply.outer(table, sums_over(bins, shares[a]))
    return table


def fine_bins(measured: Measurements) -> list[NDArray[np.int32]]:
    """Per attribute, the bins that all measured tables tell apart."""
    found: list[list[NDArray[np.int32]]] = [[] for _ in measured.axes]
    for one in measured.tables:
        for a, bins in zip(one.attributes, one.table.shape.bin_of_code, strict=True):
            found[a].append(bins)
    return [refinement(axis.size, bins) for axis, bins in zip(measured.axes, found, strict=True)]


__all__ = ["Measured", "Mixture"]
