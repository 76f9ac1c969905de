"""PView: a released view as people use it. It holds data; the functions of `query` do the work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

from hdpview.query import answers
from hdpview.query.answers import Answer, Answers, Interval, Where
from hdpview.query.compare import Comparison, compare
from hdpview.query.frames import FrameKind, to_frame
from hdpview.query.intervals import Kind, Reading
from hdpview.query.meaning import Meaning, smallest_meaningful_counts
from hdpview.query.paper_bound import error_bound
from hdpview.view import storage
from hdpview.view.card import PrivacyCard, privacy_card
from hdpview.view.data import ViewData
from hdpview.view.risk import risk_sentence

if TYPE_CHECKING:
    from hdpview.explore.notebook import Explorer
    from hdpview.query.plots import Plots
    from hdpview.query.verbs import Statistic
    from hdpview.view.base import Base


@dataclass(frozen=True, eq=False)
class PView(ViewData):
    """A differentially private view of a table. Ask any number of questions; none costs further budget.

    frame: the kind of data frame that results come in: pandas, polars or pyarrow; None for the first that is
        installed.

    >>> view.count("age BETWEEN 30 AND 39 AND sex = 'Female'").estimate   # doctest: +SKIP
    """

    frame: FrameKind | None = None

    def count(
        self,
        where: Where = None,
        *,
        confidence: float = 0.95,
        counts: Reading = "consistent",
        interval: Kind = "typical",
    ) -> Answer:
        """How many records satisfy a condition: SQL text, or a dictionary such as {"age": (30, 39), "sex":
        "Female"}.

        `lower` and `upper` of the answer are the ends of the interval named: typical, guaranteed or noise;
            all three are there.
        """
        found: Answer = self.count_many([where], confidence=confidence, counts=counts, interval=interval)[0]
        return found

    def count_many(
        self,
        wheres: Sequence[Where],
        *,
        confidence: float = 0.95,
        counts: Reading = "consistent",
        interval: Kind = "typical",
    ) -> Answers:
        """Answer many counting questions at once: much faster than one by one."""
        return answers.count_many(self, wheres, confidence, counts, interval)

    def compare(self, first: Where, second: Where, *, confidence: float = 0.95) -> Comparison:
        """Whether two counts really differ: their difference and ratio, with intervals that know what the
        counts share.
        """
        return compare(self, first, second, confidence)

    def error_bound(self, where: Where = None, *, mu: float = 0.05, xi: float = 1.0) -> Interval:
        """The paper's bounds Θ_min and Θ_max on the error of a raw count, for given μ and ξ."""
        return error_bound(self, where, mu, xi)

    def sql(
        self,
        statement: str,
        *,
        confidence: float = 0.95,
        counts: Reading = "consistent",
        interval: Kind = "typical",
        dialect: str = "duckdb",
        as_: FrameKind | None = None,
    ) -> Any:
        """Answer a SELECT statement over the table `view`; each aggregate `n` comes with `n_lower` and
        `n_upper`.

        >>> view.sql("SELECT sex, COUNT(*) AS n, AVG(age) AS mean_age FROM view GROUP BY sex")   # doctest: +SKIP
        """
        from hdpview.query.sql import run

        return to_frame(
            run(self, statement, confidence, counts, interval, dialect).to_arrow(), as_ or self.frame
        )

    def histogram(
        self,
        attribute: str,
        where: Where = None,
        *,
        confidence: float = 0.95,
        counts: Reading = "consistent",
        interval: Kind = "typical",
        as_: FrameKind | None = None,
    ) -> Any:
        """Counts of the values or bins of an attribute."""
        from hdpview.query import verbs

        return to_frame(
            verbs.histogram(self, attribute, where, confidence, counts, interval), as_ or self.frame
        )

    def marginal(
        self,
        attributes: Sequence[str],
        where: Where = None,
        *,
        confidence: float = 0.95,
        counts: Reading = "consistent",
        interval: Kind = "typical",
        as_: FrameKind | None = None,
    ) -> Any:
        """Counts of the combinations of values of several attributes, a row each."""
        from hdpview.query import verbs

        return to_frame(
            verbs.marginal(self, attributes, where, confidence, counts, interval), as_ or self.frame
        )

    def crosstab(
        self,
        row: str,
        column: str,
        where: Where = None,
        *,
        counts: Reading = "consistent",
        as_: FrameKind | None = None,
    ) -> Any:
        """Counts with one attribute down, another across, and totals."""
        from hdpview.query import verbs

        return to_frame(verbs.crosstab(self, row, column, where, counts), as_ or self.frame)

    def mean(
        self, attribute: str, where: Where = None, *, confidence: float = 0.95, interval: Kind = "typical"
    ) -> Statistic:
        """The mean of an attribute; bins count as their middle."""
        return self._statistic("mean", attribute, where, confidence, interval)

    def sum(
        self, attribute: str, where: Where = None, *, confidence: float = 0.95, interval: Kind = "typical"
    ) -> Statistic:
        """The sum of an attribute; bins count as their middle."""
        return self._statistic("sum", attribute, where, confidence, interval)

    def quantile(
        self,
        attribute: str,
        q: float = 0.5,
        where: Where = None,
        *,
        confidence: float = 0.95,
        interval: Kind = "typical",
    ) -> Statistic:
        """The value below which a share q of the records lies: the median for 0.5."""
        return self._statistic("quantile", attribute, where, confidence, interval, q)

    def _statistic(
        self, kind: str, attribute: str, where: Where, confidence: float, interval: Kind, q: float = 0.5
    ) -> Statistic:
        from hdpview.query.verbs import statistic

        return statistic(self, kind, attribute, where, confidence, "consistent", interval, q)

    def sample(self, n: int, *, seed: int | None = None, as_: FrameKind | None = None) -> Any:
        """Synthetic records, drawn from the view; a seed makes them repeatable and harms nothing."""
        from hdpview.view.sample import draw

        return to_frame(draw(self, n, seed), as_ or self.frame)

    @property
    def plot(self) -> Plots:
        """Pictures: `view.plot.histogram("age")`, `view.plot.heatmap("age", "sex")`,
        `view.plot.partition("age", "hours")`.
        """
        from hdpview.query.plots import Plots

        return Plots(self)

    def explore(self, port: int = 0) -> Explorer:
        """Open the explorer on this view: in a notebook it shows itself; elsewhere open its `url`. `stop()`
        ends it.
        """
        from hdpview.explore.notebook import explore

        return explore(self, port=port)

    def with_frames(self, kind: FrameKind) -> PView:
        """The same view with results in another kind of data frame."""
        return PView(self.manifest, self.blocks, kind)

    def privacy_card(self) -> PrivacyCard:
        """One page to judge the view by: what is protected, what it cost, what was assumed. Has .text, .html
        and .save(path).
        """
        return privacy_card(self.manifest, len(self.blocks), self._released_bases())

    def save(self, path: str | PathLike[str]) -> None:
        """Write the view to a .pview file, whole or not at all."""
        storage.write(self, path)

    @classmethod
    def open(cls, path: str | PathLike[str]) -> PView:
        """Open a .pview file. All of it is checked first."""
        data = storage.read(path)
        return cls(data.manifest, data.blocks)

    def info(self) -> dict[str, Any]:
        """The public facts about this view, as plain data."""
        manifest = self.manifest
        return {
            "private": manifest.is_private,
            "not_private_because": list(manifest.not_private_because),
            "epsilon": float(manifest.epsilon),
            "delta": float(manifest.delta),
            "neighbours": manifest.change,
            "privacy_unit": manifest.privacy_unit,
            "max_rows": manifest.max_rows,
            "spending": {spent.purpose: float(spent.epsilon * spent.times) for spent in manifest.spending},
            "method": manifest.method,
            "settings": dict(manifest.settings),
            "parameters": dict(manifest.parameters),
            "noise_scale": manifest.noise_scale,
            "risk": risk_sentence(manifest.epsilon, manifest.privacy_unit, manifest.delta),
            "meaningful_from": self.smallest_meaningful_counts()._asdict(),
            **({"merged": manifest.merged_story()} if manifest.is_merged else {}),
            **(
                {"base": [base.story(self.schema.names) for base in bases]}
                if (bases := self._released_bases())
                else {}
            ),
            "n_blocks": len(self.blocks),
            "estimated_records": self.count(None).estimate,
            "n_attributes": len(self.schema),
            "n_cells": float(self.schema.n_cells),
            "attributes": self.schema.to_dict()["attributes"],
            "library_version": manifest.library_version,
        }

    def _released_bases(self) -> list[Base]:
        return [base for base in self.blocks.base_of_parts if base is not None]

    def smallest_meaningful_counts(self, confidence: float = 0.95) -> Meaning:
        """How large a count must be before it means something: of a single block, and of a range of two
        attributes.
        """
        return smallest_meaningful_counts(self, confidence)

    def __repr__(self) -> str:
        manifest, n_records = self.manifest, self.count(None).estimate
        private = "" if manifest.is_private else " — NOT PRIVATE: " + "; ".join(manifest.not_private_because)
        return (
            f"PView of about {n_records:,.0f} records, {len(self.schema)} attributes, {len(self.blocks):,} blocks\n"
            f"{manifest.budget} (adding or removing one {manifest.privacy_unit}), method {manifest.method}{private}\n"
            f"attributes: {', '.join(self.schema.names)}"
        )

    def _repr_html_(self) -> str:
        from hdpview.query.html import page

        return page(self, str(self))


def merge(views: Sequence[PView], *, overlapping: bool = False) -> PView:
    """One view of several tables with the same schema: hospital A and hospital B, day 1 and day 2.

    If nobody is in more than one of the tables, the merged view costs the largest ε of them, and the largest
    δ. If somebody may be, say `overlapping=True`: then they add up.
    """
    from hdpview.view.merge import merged

    views = list(views)
    data = merged(views, overlapping=overlapping)
    return PView(data.manifest, data.blocks, views[0].frame)


def open_view(path: str | PathLike[str]) -> PView:
    """Open a .pview file. All of it is checked first; a broken or foreign file is refused in words."""
    return PView.open(path)
