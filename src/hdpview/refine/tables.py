"""Spend more on a view: less noise on every table that it holds, and new tables for what people need. [P17]

The tables of a view were released with some noise. They are released again with less, such that the old ones
could have been made from the new ones; so a view at ε₁ that is refined by ε₂ has the noise of one at ε₁ + ε₂.
What is refined, and how far, follows from released numbers and from the curator's wishes alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from hdpview.counts.protocol import Counts
from hdpview.domain import Schema
from hdpview.domain.tables import TableShape
from hdpview.methods.mixture import Mixture, MixtureBuild
from hdpview.methods.mixture.accounting import Accounting, split
from hdpview.methods.mixture.bins import Axis, axes_of
from hdpview.methods.mixture.measure import Measured, Measurements, measure
from hdpview.methods.mixture.plan import Planner
from hdpview.methods.protocol import Engine, Progress, ViewRelease
from hdpview.privacy.exact import Exact
from hdpview.privacy.mechanism import NOTHING, Mechanism
from hdpview.privacy.noise import Noise
from hdpview.view.data import ViewPart
from hdpview.view.mixture import Mixture as Components
from hdpview.view.tables import Table

# Share of what is spent that goes to the tables of the focus; the rest makes all others finer.
_FOCUS_SHARE = Fraction(3, 5)
# Records². Tables tell the number of records; the one that was released by itself is not kept.
_UNKNOWN = 1e18
# A table of the focus that would now have so many times the cells is measured anew.
_MANY_MORE_CELLS = 2
# Variance of rounding to whole numbers, in records².
_ROUNDING = 1 / 12


@dataclass(frozen=True, eq=False)
class Refinement(Mixture):
    """The method with the released tables of the view that it refines, and the checksum of that view.

    focus: here also single attributes. before: ε and δ of tables with Gaussian noise.
    """

    least_in_focus = 1
    tables: tuple[Table, ...] = ()
    refined_view: str = ""
    before: tuple[Fraction, Fraction] = NOTHING

    def __repr__(self) -> str:
        return f"Refinement(of {self.refined_view}, focus={self.focus})"

    def why_not_this_table(self, counts: Counts) -> str | None:
        """Why the counts cannot be those of the table that the view was built from; None if they can.

        For the curator alone, before anything is charged: another table would be protected less.
        """
        exact_tables = counts.exact_tables([table.shape for table in self.tables])
        return why_not_these([(e, t.counts, t.scale) for e, t in zip(exact_tables, self.tables, strict=True)])

    def release(
        self,
        counts: Counts,
        mechanism: Mechanism,
        engine: Engine | None = None,
        progress: Progress | None = None,
    ) -> ViewRelease:
        build = MixtureBuild(counts, (), mechanism, progress)
        amounts, shapes, each = self._plan(counts.schema, build.accounting, build.rng)
        build.progress(None, "adding up tables")
        exact_tables = counts.exact_tables([table.shape for table in self.tables], build.progress)
        refined = [
            _refined(mechanism, i, *own)
            for i, own in enumerate(zip(exact_tables, self.tables, amounts, strict=True))
        ]
        measured = _measurements(build.axes, refined)
        if shapes:
            build.measure("tables of several attributes", shapes, [each] * len(shapes), measured)
        tables = tuple(one.table for one in (*measured.histograms, *measured.tables))
        return ViewRelease(build.mixture(measured), tables)

    def expected(self, part: ViewPart, schema: Schema, accounting: Accounting) -> ViewPart:
        """The part with the noise that this refinement would leave, and the counts that the view expects."""
        assert isinstance(part.components, Components)
        amounts, new, each = self._plan(schema, accounting, np.random.default_rng(0))
        noises = [_noise(table, amount) for table, amount in zip(self.tables, amounts, strict=True)]
        noises += [accounting.noise(each)] * len(new)
        tables = []
        for shape, noise in zip([*(table.shape for table in self.tables), *new], noises, strict=True):
            counts = np.rint(part.components.table(shape)).astype(np.int64)
            tables.append(Table(shape, counts, noise.law, noise.scale))
        return replace(part, tables=tuple(tables))

    def _plan(
        self, schema: Schema, accounting: Accounting, rng: np.random.Generator
    ) -> tuple[list[Fraction], list[TableShape], Fraction]:
        """What each table gets: in proportion to what it had, and a part of the focus where it is one; the
        shapes of new tables, and what each of these gets.
        """
        axes, names = axes_of(schema), schema.names
        groups = {tuple(sorted(names.index(name) for name in group)) for group in self.focus}
        focus = sorted(group for group in groups if all(axes[a].size > 1 for a in group))
        for_focus = accounting.total * _FOCUS_SHARE if focus else Fraction(0)
        each = for_focus / max(1, len(focus))
        cells = dict[tuple[int, ...], int]()
        for table in self.tables:
            cells[table.attributes] = max(table.counts.size, cells.get(table.attributes, 0))
        new = []
        if any(len(group) > 1 for group in focus):
            known = [Measured(table, table.variance) for table in self.tables]
            measured = _measurements(axes, known)
            tie_breakers = [rng.random(axis.size) for axis in axes]
            planner = Planner(axes, measured.shares(), measured.total, accounting, tie_breakers)
            planned = planner.shapes_of([group for group in focus if len(group) > 1], for_focus)
            # Bins of a table stay as they are, so one that is to have many more is measured beside it.
            new = [
                shape
                for shape in planned
                if math.prod(shape.shape) > _MANY_MORE_CELLS * cells.get(shape.attributes, 0)
            ]
        finer = set(focus) - {shape.attributes for shape in new}
        shares = split(accounting.total - for_focus, [_amount(table) for table in self.tables])
        amounts = list[Fraction]()
        for table, amount in zip(self.tables, shares, strict=True):
            is_finest = table.attributes in finer and table.counts.size == cells[table.attributes]
            finer -= {table.attributes} if is_finest else set()
            amounts.append(amount + (each if is_finest else 0))
        return amounts, new, each


def why_not_these(pairs: Sequence[tuple[Exact, np.ndarray, float]]) -> str | None:
    """Why exact counts cannot be those that were released with noise of these scales; None if they can."""
    if all(Mechanism.could_have_released(*pair) for pair in pairs):
        return None
    return (
        "This is not the table that the view was built from, or it has changed since. Refine a view with "
        "the same table. Of a newer one build a new view, and merge both where nobody is in both; see "
        "docs/how-to/yearly.md."
    )


def _amount(table: Table) -> float:
    """What a table's noise cost: ε, or ρ."""
    return 1 / table.scale if table.noise == "laplace" else 1 / (2 * table.scale**2)


def _noise(table: Table, amount: Fraction) -> Noise:
    """The noise of a table for `amount` more."""
    return Noise(table.noise, Fraction(_amount(table)) + amount)


def _measurements(axes: tuple[Axis, ...], tables: Sequence[Measured]) -> Measurements:
    measured = Measurements(axes, 1.0, _UNKNOWN)
    measured.histograms = [one for one in tables if len(one.attributes) == 1]
    measured.tables = [one for one in tables if len(one.attributes) > 1]
    return measured


def _refined(mechanism: Mechanism, i: int, exact: Exact, table: Table, amount: Fraction) -> Measured:
    """A table with less noise. Gaussian noise loses nothing when it is drawn again: precisions add up."""
    heading = "less noise on tables"
    if table.noise == "gaussian":
        again = measure(mechanism, f"{heading}: {i}", exact, table.shape, amount)
        share = table.scale**2 / (table.scale**2 + again.variance)
        counts = np.rint(table.counts + share * (again.table.counts - table.counts)).astype(np.int64)
        variance = again.variance * share + _ROUNDING
        return Measured(Table(table.shape, counts, "gaussian", math.sqrt(variance)), variance)
    counts = mechanism.refined(f"{heading}: {i}", exact, table.counts, table.scale, amount)
    noise = Noise("laplace", 1 / Fraction(table.scale) + amount)
    return Measured(Table(table.shape, counts, "laplace", noise.scale), noise.variance)
