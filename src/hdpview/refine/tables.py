"""Spend more on a view: reduce the noise of every table in it, and add tables for the focus. [P17]

The view's tables are released again with less noise, such that the old counts could have been made from the
new ones by adding noise. A view at ε₁ that is refined by ε₂ therefore has the noise of one built at ε₁ + ε₂.
Which tables are refined, and how far, depends only on released numbers and on the focus.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from hdpview.counts.exact_statistics import Counts
from hdpview.domain import Schema
from hdpview.domain.table_shapes import CodeBoxes, TableShape
from hdpview.methods.mixture import Mixture, MixtureBuild
from hdpview.methods.mixture.bins import Axis, axes_of
from hdpview.methods.mixture.measure import Measured, Measurements, measure
from hdpview.methods.mixture.plan import Planner, split
from hdpview.methods.protocol import Engine, Method, Progress, ViewRelease
from hdpview.privacy.exact import Exact
from hdpview.privacy.mechanism import NOTHING, Mechanism
from hdpview.privacy.noise import Noise, laplace_scale
from hdpview.view.blocks import Blocks
from hdpview.view.data import ViewPart
from hdpview.view.mixture import Mixture as Components
from hdpview.view.released_tables import Table

# Share of the budget for the tables of the focus; the rest reduces the noise of all others.
_FOCUS_SHARE = Fraction(3, 5)
# Variance, in records², of the released number of records. It is not kept; tables imply the number.
_UNKNOWN = 1e18
# Measure a new table for a focus if it would have more than this many times the cells of the old one.
_MANY_MORE_CELLS = 2
# Variance of rounding to whole numbers, in records².
_ROUNDING = 1 / 12


@dataclass(frozen=True, eq=False)
class Refinement(Mixture):
    """Measures the released tables of a view again, with less noise. Has the fingerprint of that view.

    focus: may also name single attributes. before: ε and δ of tables with Gaussian noise.
    """

    least_in_focus = 1
    tables: tuple[Table, ...] = field(default=(), repr=False)
    refined_view: str = ""
    before: tuple[Fraction, Fraction] = NOTHING

    def why_not_this_table(self, counts: Counts) -> str | None:
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
        amounts, shapes, each = self._plan(counts.schema, build.whole, build.rng)
        build.progress(None, "adding up tables")
        exact_tables = counts.exact_tables([table.shape for table in self.tables], build.progress)
        parts = enumerate(zip(exact_tables, self.tables, amounts, strict=True))
        refined = [_refined(mechanism, i, *arguments) for i, arguments in parts]
        measured = _measurements(build.axes, refined)
        if shapes:
            build.measure("tables of several attributes", shapes, [each] * len(shapes), measured)
        tables = tuple(one.table for one in (*measured.histograms, *measured.tables))
        return ViewRelease(build.mixture(measured), tables)

    def expected(self, part: ViewPart, schema: Schema, whole: Noise) -> ViewPart:
        """The part as it would be after refining: the remaining noise, and counts expected from the view."""
        assert isinstance(part.components, Components)
        amounts, new, each = self._plan(schema, whole, np.random.default_rng(0))
        pairs = zip(self.tables, amounts, strict=True)
        noises = [Noise(table.noise, Fraction(_amount(table)) + amount) for table, amount in pairs]
        noises += [Noise(whole.law, each)] * len(new)
        tables = []
        for shape, noise in zip([*(table.shape for table in self.tables), *new], noises, strict=True):
            counts = np.rint(part.components.table(shape)).astype(np.int64)
            tables.append(Table(shape, counts, noise.law, noise.scale))
        return replace(part, tables=tuple(tables))

    def _plan(
        self, schema: Schema, whole: Noise, rng: np.random.Generator
    ) -> tuple[list[Fraction], list[TableShape], Fraction]:
        """Divide the budget: the amount of each table, the shapes of new tables, and the amount of each.

        Tables get amounts in proportion to their present ones. The finest table of a focus gets its share of
        the focus in addition.
        """
        axes, names = axes_of(schema), schema.names
        groups = {tuple(sorted(names.index(name) for name in group)) for group in self.focus}
        focus = sorted(group for group in groups if all(axes[a].size > 1 for a in group))
        for_focus = whole.amount * _FOCUS_SHARE if focus else Fraction(0)
        each = for_focus / max(1, len(focus))
        cells = [table.counts.size for table in self.tables]
        finest = dict[tuple[int, ...], int]()  # which table of these attributes has most cells
        for i in sorted(range(len(cells)), key=lambda i: (-cells[i], i)):
            finest.setdefault(self.tables[i].attributes, i)
        new = []
        if any(len(group) > 1 for group in focus):
            measured = _measurements(axes, [Measured(table, table.variance) for table in self.tables])
            tie_breakers = [rng.random(axis.size) for axis in axes]
            planner = Planner(axes, measured.shares(), measured.total, whole, tie_breakers)
            planned = planner.shapes_of([group for group in focus if len(group) > 1], for_focus)
            # The bins of a table never change, so a table with many more bins is measured beside it.
            for shape in planned:
                known = finest.get(shape.attributes)
                if known is None or math.prod(shape.shape) > _MANY_MORE_CELLS * cells[known]:
                    new.append(shape)
        amounts = split(whole.amount - for_focus, [_amount(table) for table in self.tables])
        for group in set(focus) - {shape.attributes for shape in new}:
            amounts[finest[group]] += each
        return amounts, new, each


def why_not_these(pairs: Sequence[tuple[Exact, np.ndarray, float]]) -> str | None:
    """The reason why exact counts cannot be behind counts with noise of these scales, or None."""
    if all(Mechanism.could_have_released(*pair) for pair in pairs):
        return None
    return (
        "This is not the table that the view was built from, or it has changed since. For a newer table, "
        "build a new view, and merge both if nobody is in both; see docs/how-to/yearly.md."
    )


def _amount(table: Table) -> float:
    """The budget spent on a table: ε for Laplace noise, ρ for Gaussian noise."""
    return 1 / table.scale if table.noise == "laplace" else 1 / (2 * table.scale**2)


def _measurements(axes: tuple[Axis, ...], tables: Sequence[Measured]) -> Measurements:
    measured = Measurements(axes, 1.0, _UNKNOWN)
    measured.histograms = [one for one in tables if len(one.table.attributes) == 1]
    measured.tables = [one for one in tables if len(one.table.attributes) > 1]
    return measured


def _refined(mechanism: Mechanism, i: int, exact: Exact, table: Table, amount: Fraction) -> Measured:
    """Release a table with less noise. With Gaussian noise, a second release is averaged with the first."""
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


@dataclass(frozen=True, eq=False)
class FinerCounts(Method):
    """Measures the blocks of a view again, with less noise. [P17]

    Blocks tile the domain, so a record counts in one of them, and each count gets the whole budget. No block
    is cut again: the cuts were decided with the budget of the build.
    """

    name = "hdpview"
    makes_views = True
    supports_spark = True
    reads = "tables"
    blocks: Blocks = field(repr=False)
    refined_view: str = ""

    def why_not_this_table(self, counts: Counts) -> str | None:
        return why_not_these([(self._exact(counts), self.blocks.noisy_counts, self.blocks.noise_scale)])

    def release(
        self, counts: Counts, mechanism: Mechanism, engine: Engine, progress: Progress | None = None
    ) -> ViewRelease:
        noisy, scale, amount = self.blocks.noisy_counts, self.blocks.noise_scale, mechanism.total
        exact = self._exact(counts, progress)
        finer = mechanism.refined("less noise on counts", exact, noisy, scale, amount)
        less = laplace_scale(1 / Fraction(scale) + amount)
        return ViewRelease(replace(self.blocks, noisy_counts=finer, noise_scale=less))

    def _exact(self, counts: Counts, progress: Progress | None = None) -> Exact:
        lower, upper = self.blocks.lower.astype(np.int64), self.blocks.upper.astype(np.int64)
        attribute = np.tile(np.arange(lower.shape[1]), (len(lower), 1))
        # Blocks tile the domain, which is checked when a file is read, so a record is in one of them.
        return counts.exact_box_counts(CodeBoxes(attribute, lower, upper), progress).apart()
