"""PView: a released view as people use it. It holds data; the functions of `query` do the work."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from hdpview.errors import QueryError
from hdpview.query.interval import answers, statistics
from hdpview.query.interval.answers import Answer, Answers, Interval, QueryOptions
from hdpview.query.interval.statistics import Comparison, Statistic
from hdpview.query.present.frames import FrameKind, to_frame
from hdpview.query.question.where import Where
from hdpview.view import file
from hdpview.view.blocks import Blocks
from hdpview.view.card import PrivacyCard, privacy_card
from hdpview.view.data import ViewData
from hdpview.view.diagnosis import Finding, Histogram, diagnose
from hdpview.view.manifest import risk_sentence

if TYPE_CHECKING:
    from hdpview.explore.notebook import Explorer
    from hdpview.query.present.plots import Plots
    from hdpview.query.quality import QualityReport
    from hdpview.wishes import Wishes

_MOST_PAIRS = 12  # maximum number of pairs that a card names


@dataclass(frozen=True, eq=False)
class PView(ViewData):
    """A differentially private view of a table. Ask any number of questions; none costs further budget.

    Words that questions share:
        where: which records, as SQL text ("age >= 40 AND sex = 'Female'") or a dictionary ({"age": (30, 39),
            "sex": "Female", "region": ["North", "South"]}); None for all.
        confidence: how often the interval should hold the truth, such as 0.95.
        counts: `consistent` estimates are never negative; `raw` ones are unbiased and add up. Views by the
            default method give the same estimate for both.
        interval: which interval `lower` and `upper` are: `typical` (noise and the model's error, as
            measured), `guaranteed` (holds whatever the data), or `noise` (noise alone).
        how: `confidence`, `counts` and `interval`, as above, for every question but `sample`.
        as_: the kind of data frame to return: pandas, polars or pyarrow; `frame` by default.

    frame: the kind of data frame that results come in by default; None for the first that is installed.

    >>> view.count("age BETWEEN 30 AND 39 AND sex = 'Female'").estimate   # doctest: +SKIP
    """

    frame: FrameKind | None = None

    def count(self, where: Where = None, **how: Unpack[QueryOptions]) -> Answer:
        """Count the records that satisfy a condition. The answer has all three intervals."""
        answer: Answer = self.count_many([where], **how)[0]
        return answer

    def count_many(self, wheres: Sequence[Where], **how: Unpack[QueryOptions]) -> Answers:
        """Answer many counting questions at once, much faster than one by one."""
        return answers.count_many(self, wheres, **how)

    def compare(self, first: Where, second: Where, **how: Unpack[QueryOptions]) -> Comparison:
        """Compare two counts: their difference and ratio, with intervals."""
        return statistics.compare(self, first, second, **how)

    def error_bound(self, where: Where = None, *, mu: float = 0.05, xi: float = 1.0) -> Interval:
        """The paper's bounds Θ_min and Θ_max on the error of a raw count, for given μ and ξ."""
        from hdpview.query.bounds.paper import error_bound

        return error_bound(self, where, mu, xi)

    def sql(
        self,
        statement: str,
        *,
        dialect: str = "duckdb",
        ranks: bool = False,
        as_: FrameKind | None = None,
        **how: Unpack[QueryOptions],
    ) -> Any:
        """Answer a SELECT statement over the table `view`; each estimate `n` has `n_lower` and `n_upper`.

        Statements have DuckDB's semantics. Notes on the answer are in the frame's `attrs["notes"]`
        (pandas) or in the schema's metadata (Arrow).

        dialect: the SQL that the statement is written in: duckdb, postgres, snowflake, spark and others.
        ranks: add the columns `presence`, how likely a row belongs to the answer where LIMIT, HAVING or
            QUALIFY choose rows, and `rank_lower` and `rank_upper`, the range of its rank by ORDER BY.

        >>> view.sql("SELECT sex, COUNT(*) AS n FROM view GROUP BY sex")   # doctest: +SKIP
        """
        from hdpview.query.evaluate import run

        result = run(self, statement, dialect=dialect, ranks=ranks, **how)
        return to_frame(result.to_arrow(), as_ or self.frame)

    def histogram(
        self,
        attribute: str,
        where: Where = None,
        *,
        as_: FrameKind | None = None,
        **how: Unpack[QueryOptions],
    ) -> Any:
        """Counts of the values or bins of an attribute."""
        return to_frame(statistics.histogram(self, attribute, where, **how), as_ or self.frame)

    def marginal(
        self,
        attributes: Sequence[str],
        where: Where = None,
        *,
        as_: FrameKind | None = None,
        **how: Unpack[QueryOptions],
    ) -> Any:
        """Counts of the combinations of values of several attributes, one row each."""
        return to_frame(statistics.marginal(self, attributes, where, **how), as_ or self.frame)

    def mean(self, attribute: str, where: Where = None, **how: Unpack[QueryOptions]) -> Statistic:
        """The mean of an attribute; a bin counts as its middle."""
        return statistics.mean(self, attribute, where, **how)

    def sum(self, attribute: str, where: Where = None, **how: Unpack[QueryOptions]) -> Statistic:
        """The sum of an attribute; a bin counts as its middle."""
        from hdpview.query.evaluate import verbs

        return verbs.total(self, attribute, where, **how)

    def rate(self, outcome: Where, where: Where = None, **how: Unpack[QueryOptions]) -> Statistic:
        """The share of the records of `where` that satisfy a condition."""
        return statistics.rate(self, outcome, where, **how)

    def quantile(
        self, attribute: str, q: float = 0.5, where: Where = None, **how: Unpack[QueryOptions]
    ) -> Statistic:
        """The value below which a share q of the records lies: the median for 0.5."""
        from hdpview.query.evaluate.verbs import quantile

        return quantile(self, attribute, q, where, **how)

    def stddev(self, attribute: str, where: Where = None, **how: Unpack[QueryOptions]) -> Statistic:
        """The standard deviation of an attribute."""
        from hdpview.query.evaluate import verbs

        return verbs.stddev(self, attribute, where, **how)

    def correlation(self, x: str, y: str, where: Where = None, **how: Unpack[QueryOptions]) -> Statistic:
        """Pearson's correlation of two attributes."""
        from hdpview.query.evaluate import verbs

        return verbs.correlation(self, x, y, where, **how)

    def odds_ratio(
        self, outcome: Where, exposure: Where, where: Where = None, **how: Unpack[QueryOptions]
    ) -> Statistic:
        """The odds of an outcome among the exposed, divided by the odds among the others."""
        from hdpview.query.evaluate import verbs

        return verbs.association(self, "odds_ratio", outcome, exposure, where, **how)

    def risk_ratio(
        self, outcome: Where, exposure: Where, where: Where = None, **how: Unpack[QueryOptions]
    ) -> Statistic:
        """The rate of an outcome among the exposed, divided by the rate among the others."""
        from hdpview.query.evaluate import verbs

        return verbs.association(self, "risk_ratio", outcome, exposure, where, **how)

    def risk_difference(
        self, outcome: Where, exposure: Where, where: Where = None, **how: Unpack[QueryOptions]
    ) -> Statistic:
        """The rate of an outcome among the exposed, minus the rate among the others."""
        from hdpview.query.evaluate import verbs

        return verbs.association(self, "risk_difference", outcome, exposure, where, **how)

    def wish(self, where: str, within: float) -> Wishes:
        """Wish for a more precise count, with a 95% interval that ends `within` records of the estimate.

        Join wishes with `+`, `save` them to a file and send it to the curator, who refines the view.
        """
        from hdpview.wishes import wish

        return wish(self, where, within)

    def sample(self, n: int, *, seed: int | None = None, as_: FrameKind | None = None) -> Any:
        """Draw synthetic records from the view. A seed makes them repeatable and does not weaken privacy."""
        from hdpview.view.sample import draw

        return to_frame(draw(self, n, seed), as_ or self.frame)

    def quality(self) -> QualityReport:
        """The measured errors of this view, and the attributes that were counted together."""
        return self._quality

    @cached_property
    def _quality(self) -> QualityReport:
        from hdpview.query.quality import quality_report

        return quality_report(self)

    @property
    def plot(self) -> Plots:
        """Charts: `view.plot.histogram("age")`, `.heatmap("age", "sex")`, `.partition(…)`."""
        from hdpview.query.present.plots import Plots

        return Plots(self)

    def explore(self, port: int = 0) -> Explorer:
        """Open the explorer on this view. A notebook displays it; elsewhere, open its `url`."""
        from hdpview.explore.notebook import explore

        return explore(self, port=port)

    def publish(self, path: str | PathLike[str]) -> None:
        """Write one HTML page that answers in any browser, without a server and without a network."""
        from hdpview.explore.publish import publish

        publish(self, path)

    def with_frames(self, kind: FrameKind) -> PView:
        """The same view with results in another kind of data frame."""
        return PView(self.manifest, self.parts, kind)

    @property
    def blocks(self) -> Blocks:
        """The blocks of a view by the paper's method."""
        components = self.parts[0].components
        if len(self.parts) > 1 or not isinstance(components, Blocks):
            raise QueryError("This view is not made of blocks. Views by method='hdpview' are.")
        return components

    def privacy_card(self) -> PrivacyCard:
        """One page to judge the view by: what is protected, what it cost, what was assumed, how accurate it
        is, and what its histograms say about the schema.

        It has .text, .html (made to be printed) and .save(path).
        """
        return privacy_card(self, file.checksum_of(self), self.diagnosis(), _counted_together(self))

    def diagnosis(self) -> tuple[Finding, ...]:
        """Likely mistakes in the schema that the view's histograms reveal: unreadable values, bounds that are
        too tight or too wide, frequent values that were not declared. Costs no budget.
        """

        def histogram_of(name: str) -> Histogram:
            counts, lower, upper = (
                column.to_numpy() for column in self.histogram(name, as_="pyarrow").columns[-3:]
            )
            # the wider side, because intervals are cut off at 0
            return Histogram(counts, np.maximum(upper - counts, counts - lower))

        return diagnose(self.schema, histogram_of)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the view to a .pview file, completely or not at all."""
        file.write(self, path)

    @classmethod
    def open(cls, path: str | PathLike[str]) -> PView:
        """Open a .pview file, after checking all of it."""
        data = file.read(path)
        return cls(data.manifest, data.parts)

    def info(self) -> dict[str, Any]:
        """The public facts about this view, as plain data."""
        return deepcopy(self._facts)

    @cached_property
    def _facts(self) -> dict[str, Any]:
        manifest = self.manifest
        (epsilon, delta), learning = manifest.total, manifest.learning
        charges = (*manifest.spending, *([] if learning is None else [learning]))
        return {
            "private": manifest.is_private,
            "not_private_because": list(manifest.not_private_because),
            "epsilon": float(epsilon),
            "delta": float(delta),
            "neighbours": manifest.change,
            "privacy_unit": manifest.privacy_unit,
            "max_rows": manifest.max_rows,
            "people": [self.schema.names[t.attributes[0]] for t in self.parts[0].people[1:]],
            "about": manifest.estimand,
            "spending": {charge.purpose: float(charge.epsilon * charge.times) for charge in charges},
            "method": manifest.method,
            "settings": dict(manifest.settings),
            "parameters": dict(manifest.parameters),
            "risk": risk_sentence(epsilon, manifest.privacy_unit, delta),
            "quality": self.quality().as_dict(),
            **({"merged": manifest.describe_merge()} if manifest.is_merged else {}),
            "n_components": self.n_components,
            "estimated_records": self.count(None).estimate,
            "n_attributes": len(self.schema),
            "n_cells": float(self.schema.n_cells),
            "attributes": self.schema.to_dict()["attributes"],
            "created": manifest.created,
            "library_version": manifest.library_version,
        }

    def __repr__(self) -> str:
        manifest, n_records = self.manifest, self.count(None).estimate
        private = "" if manifest.is_private else " — NOT PRIVATE: " + "; ".join(manifest.not_private_because)
        kind = "blocks" if self.is_blocks else "components"
        return (
            f"PView of about {n_records:,.0f} records, {len(self.schema)} attributes, "
            f"{self.n_components:,} {kind}\n"
            f"{manifest.budget} (adding or removing one {manifest.privacy_unit}), method "
            f"{manifest.method}{private}\n"
            f"attributes: {', '.join(self.schema.names)}"
        )

    def _repr_html_(self) -> str:
        from hdpview.query.present.html import page

        return page(self, str(self))


def _counted_together(view: PView) -> str | None:
    """Describe which pairs of attributes were counted together; None if the question does not arise."""
    known, n_pairs = [each.attributes for each in view.quality().known], view.quality().n_pairs
    if not n_pairs or view.is_blocks or len(view.parts) > 1:
        return None
    first = ", ".join(" × ".join(names) for names in known[:_MOST_PAIRS])
    more = f" and {len(known) - _MOST_PAIRS:,} more" if len(known) > _MOST_PAIRS else ""
    named = f": {first}{more}" if known else ""
    others = "" if len(known) == n_pairs else " Others are modelled and may look weaker than they are."
    return f"{len(known):,} of {n_pairs:,} pairs of attributes were counted together{named}.{others}"


def merge(views: Sequence[PView], *, overlapping: bool = False) -> PView:
    """One view of several tables with the same schema: hospital A and hospital B, day 1 and day 2.

    If nobody is in more than one of the tables, the merged view costs the largest ε of them, and the largest
    δ. If somebody may be, pass `overlapping=True`: the budgets then add up.
    """
    from hdpview.view.merge import merged

    views = list(views)
    data = merged(views, overlapping=overlapping)
    return PView(data.manifest, data.parts, views[0].frame)


def open_view(path: str | PathLike[str]) -> PView:
    """Open a .pview file, after checking all of it. Raises a ViewFileError for damaged or foreign files."""
    return PView.open(path)
