"""Spend more on a view: less noise on every table that it holds, and new tables for what people need. [P17]

The tables of a view were released with some noise. They are released again with less, such that the old ones
could have been made from the new ones; so a view at ε₁ that is refined by ε₂ has the noise of one at ε₁ + ε₂.
What is refined, and how far, follows from released numbers and from the curator's wishes alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from hdpview.counts.protocol import Counts
from hdpview.domain import Schema
from hdpview.methods.mixture import Mixture, MixtureBuild
from hdpview.methods.mixture.accounting import split
from hdpview.methods.mixture.measure import Measured, Measurements
from hdpview.methods.mixture.plan import Planner
from hdpview.methods.protocol import Engine, Progress, ViewRelease
from hdpview.privacy.exact import Exact
from hdpview.privacy.mechanism import Mechanism
from hdpview.privacy.noise import Noise
from hdpview.view.tables import Table

# Share of what is spent that goes to the tables of the focus; the rest makes all others finer.
_FOCUS_SHARE = Fraction(3, 5)
# Records². Tables tell the number of records; the one that was released by itself is not kept.
_UNKNOWN = 1e18


@dataclass(frozen=True, eq=False)
class Refinement(Mixture):
    """The method with the released tables of the view that it refines, and the checksum of that view."""

    tables: tuple[Table, ...] = ()
    refined_view: str = ""

    def __repr__(self) -> str:
        return f"Refinement(of {self.refined_view}, focus={self.focus})"

    def why_not_this_table(self, counts: Counts) -> str | None:
        """Why the counts cannot be those of the table that the view was built from; None if they can.

        For the curator alone, before anything is charged: another table would be protected less.
        """
        exact_tables = counts.exact_tables([table.shape for table in self.tables])
        if all(
            Mechanism.could_have_released(exact, table.counts, table.scale)
            for exact, table in zip(exact_tables, self.tables, strict=True)
        ):
            return None
        return (
            "This is not the table that the view was built from, or it has changed since. Refine a view with "
            "the same table; build a new view of a newer one, and see docs/how-to/yearly.md."
        )

    def release(
        self,
        counts: Counts,
        mechanism: Mechanism,
        engine: Engine | None = None,
        progress: Progress | None = None,
    ) -> ViewRelease:
        build = MixtureBuild(counts, (), mechanism, progress)
        focus = self._groups(counts.schema)
        known = {table.attributes for table in self.tables}
        for_focus = mechanism.total * _FOCUS_SHARE if focus else Fraction(0)
        amounts = self._amounts(mechanism.total, for_focus, focus)
        build.progress(None, "adding up tables")
        exact_tables = counts.exact_tables([table.shape for table in self.tables], build.progress)
        refined = [
            _refined(mechanism, exact, table, amount)
            for exact, table, amount in zip(exact_tables, self.tables, amounts, strict=True)
        ]
        measured = Measurements(build.axes, 1.0, _UNKNOWN)
        measured.histograms = [one for one in refined if len(one.attributes) == 1]
        measured.tables = [one for one in refined if len(one.attributes) > 1]
        new = [group for group in focus if group not in known]
        if new:
            self._measure_new(build, measured, new, for_focus * len(new) / len(focus))
        tables = tuple(one.table for one in (*measured.histograms, *measured.tables))
        return ViewRelease(build.mixture(measured), tables)

    def _groups(self, schema: Schema) -> list[tuple[int, ...]]:
        names = schema.names
        return sorted({tuple(sorted(names.index(name) for name in group)) for group in self.focus})

    def _amounts(self, total: Fraction, for_focus: Fraction, focus: list[tuple[int, ...]]) -> list[Fraction]:
        """What each table gets: in proportion to what it had, and a part of the focus where it is one."""
        each = for_focus / len(focus) if focus else Fraction(0)
        amounts = split(total - for_focus, [1 / table.scale for table in self.tables])
        return [
            amount + (each if table.attributes in focus else 0)
            for table, amount in zip(self.tables, amounts, strict=True)
        ]

    @staticmethod
    def _measure_new(
        build: MixtureBuild, measured: Measurements, groups: list[tuple[int, ...]], amount: Fraction
    ) -> None:
        """Tables that the view does not hold yet."""
        tie_breakers = [build.rng.random(axis.size) for axis in build.axes]
        planner = Planner(build.axes, measured.shares(), measured.total, build.accounting, tie_breakers)
        shapes = planner.shapes_of(groups, amount)
        build.measure("tables of several attributes", shapes, split(amount, [1.0] * len(shapes)), measured)


def _refined(mechanism: Mechanism, exact: Exact, table: Table, amount: Fraction) -> Measured:
    purpose = f"less noise on tables: {' '.join(map(str, table.attributes))} of {table.counts.size}"
    counts = mechanism.refined(purpose, exact, table.counts, table.scale, amount)
    noise = Noise("laplace", 1 / Fraction(table.scale) + amount)
    return Measured(Table(table.shape, counts, "laplace", noise.scale), noise.variance)
