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
        return why_not_these(
            [(e, t.counts, t.scale) for e, t in zip(exact_tables, self.tables, strict=True)]
        )

    def release(
        self,
        counts: Counts,
        mechanism: Mechanism,
        engine: Engine | None = None,
        progress: Progress | None = None,
    ) -> ViewRelease:
        build = MixtureBuild(counts, (), mechanism, progress)
        amounts, for_new, new = self._shared(counts.schema, build.accounting)
        build.progress(None, "adding up tables")
        exact_tables = counts.exact_tables([table.shape for table in self.tables], build.progress)
        measured = _measurements(
            build.axes,
            [
                _refined(mechanism, i, *each)
                for i, each in enumerate(zip(exact_tables, self.tables, amounts, strict=True))
            ],
        )
        if new:
            shapes = _shapes(measured, build.accounting, new, for_new, build.rng)
            build.measure("tables of several attributes", shapes, split(for_new, [1.0] * len(new)), measured)
        tables = tuple(one.table for one in (*measured.histograms, *measured.tables))
        return ViewRelease(build.mixture(measured), tables)

    def expected(self, part: ViewPart, schema: Schema, total: Fraction, law: Accounting) -> ViewPart:
        """The part with tables of the noise that this refinement would leave, and the counts that it expects."""
        amounts, for_new, new = self._shared(schema, law)
        known = [Measured(table, table.variance) for table in self.tables]
        noises = [_noise(table, amount) for table, amount in zip(self.tables, amounts, strict=True)]
        shapes = [table.shape for table in self.tables]
        if new:
            measured = _measurements(axes_of(schema), known)
            shapes += _shapes(measured, law, new, for_new, np.random.default_rng(0))
            noises += [law.noise(for_new / len(new))] * len(new)
        assert isinstance(part.components, Components)
        counts = [np.rint(part.components.table(shape)).astype(np.int64) for shape in shapes]
        tables = [Table(s, c, n.law, n.scale) for s, c, n in zip(shapes, counts, noises, strict=True)]
        return replace(part, tables=tuple(tables))

    def _shared(
        self, schema: Schema, accounting: Accounting
    ) -> tuple[list[Fraction], Fraction, list[tuple[int, ...]]]:
        """What each table gets: in proportion to what it had, and a part of the focus where it is one; what is
        for new tables, and of which attributes these are.
        """
        names, known = schema.names, {table.attributes for table in self.tables}
        focus = sorted({tuple(sorted(names.index(name) for name in group)) for group in self.focus})
        new = [group for group in focus if group not in known]
        for_focus = accounting.total * _FOCUS_SHARE if focus else Fraction(0)
        each = for_focus / len(focus) if focus else Fraction(0)
        had = [_amount(table) for table in self.tables]
        amounts = [
            amount + (each if table.attributes in focus else 0)
            for table, amount in zip(self.tables, split(accounting.total - for_focus, had), strict=True)
        ]
        return amounts, each * len(new), new


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


def _shapes(
    measured: Measurements,
    accounting: Accounting,
    groups: Sequence[tuple[int, ...]],
    amount: Fraction,
    rng: np.random.Generator,
) -> list[TableShape]:
    """Tables that the view does not hold yet, with the bins that the amount is worth."""
    tie_breakers = [rng.random(axis.size) for axis in measured.axes]
    planner = Planner(measured.axes, measured.shares(), measured.total, accounting, tie_breakers)
    return planner.shapes_of(groups, amount)


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
