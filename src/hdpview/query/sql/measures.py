"""Estimates and intervals of aggregates in all groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.domain import Datetime, Integer, Ordered
from hdpview.errors import QueryError
from hdpview.query.answers import check_reading, with_intervals
from hdpview.query.boxes import Box, intersect
from hdpview.query.conditions import Condition
from hdpview.query.grouped import shares_of_levels, summarise_groups
from hdpview.query.intervals import Kind, Reading
from hdpview.query.noise_width import NoiseLaw, confidence_of_each
from hdpview.query.sql.aggregates import Aggregate
from hdpview.query.sql.groups import Groups
from hdpview.query.sum_summary import SumSummary, with_sum_intervals
from hdpview.query.summary import Summary
from hdpview.query.sums import Part, Values, summarise_sums

Floats = NDArray[np.float64]
_MAX_CENTRED = (
    1_000  # groups whose means get an interval by way of deviations; beyond, by way of sum and count
)
_MAX_QUANTILES = 2_000
_NOTHING = 1e-9  # a consistent count below this is 0, but for rounding


class Span(NamedTuple):
    """Estimates and the ends of their intervals, shape (n_groups,) each; NaN is NULL."""

    estimate: Floats
    lower: Floats
    upper: Floats


class Measures:
    """Aggregates of groups, computed when asked for. `confidence` is of a statement about one of them."""

    def __init__(
        self, groups: Groups, aggregates: Sequence[Aggregate], counts: Reading, interval: Kind
    ) -> None:
        check_reading(counts, interval)
        self.groups, self.aggregates, self.counts, self.interval = groups, aggregates, counts, interval
        self.law = NoiseLaw(groups.view.manifest.noise_scale)
        self._spans: dict[tuple[int, float], Span] = {}
        self._summaries: dict[int, Summary] = {}

    def span(self, i: int, confidence: float) -> Span:
        """Aggregate `i` in every group."""
        key = (i, confidence)
        if key not in self._spans:
            compute = {
                "count": self._count,
                "sum": self._sum,
                "mean": self._mean,
                "quantile": self._quantile,
            }[self.aggregates[i].kind]
            self._spans[key] = compute(i, confidence)
        return self._spans[key]

    def _count(self, i: int, confidence: float) -> Span:
        if i not in self._summaries:
            self._summaries[i] = self.groups.counts(self.aggregates[i].boxes)
        found = with_intervals(self._summaries[i], self.law, confidence, self.counts, self.interval)
        return Span(found.estimate, found.lower, found.upper)

    def _sum(self, i: int, confidence: float) -> Span:
        of = self._sums(i)
        found = with_sum_intervals(of, self.law, confidence, self.counts, self.interval)
        return _null_where(of.n_records <= _NOTHING, Span(found.estimate, found.lower, found.upper))

    def _sums(self, i: int) -> SumSummary:
        if i not in self._summaries:
            self._summaries[i] = self.groups.sums(self.aggregates[i].parts)
        of = self._summaries[i]
        assert isinstance(of, SumSummary)
        return of

    def _mean(self, i: int, confidence: float) -> Span:
        """Sum by count. The interval is that of the sum of deviations from the mean, by the count: sum and
        count err together.

        Guaranteed, it allows for the least count that may be true, and both have to hold at once.
        """
        aggregate, of, strict = self.aggregates[i], self._sums(i), self.interval == "guaranteed"
        level = confidence_of_each(2, confidence) if strict else confidence
        total = with_sum_intervals(of, self.law, level, self.counts, self.interval)
        count = with_intervals(
            self.groups.counts(aggregate.boxes), self.law, level, self.counts, self.interval
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = total.estimate / count.estimate
            few = np.maximum(count.lower, 1.0) if strict else np.maximum(count.estimate, 1.0)
            if len(self.groups) <= _MAX_CENTRED:
                centred = with_sum_intervals(
                    self._deviations(aggregate, mean), self.law, level, "raw", self.interval
                )
                lower, upper = (
                    mean + np.minimum(centred.lower, 0) / few,
                    mean + np.maximum(centred.upper, 0) / few,
                )
            else:
                lower = np.where(total.lower > 0, total.lower / count.upper, total.lower / few)
                upper = np.where(total.upper > 0, total.upper / few, total.upper / count.upper)
        least = min((float(part.values.least.min()) for part in aggregate.parts), default=np.nan)
        greatest = max((float(part.values.greatest.max()) for part in aggregate.parts), default=np.nan)
        lower, upper = (
            np.minimum(np.maximum(lower, least), mean),
            np.maximum(np.minimum(upper, greatest), mean),
        )
        return _null_where(of.n_records <= _NOTHING, Span(mean, lower, upper))

    def _deviations(self, aggregate: Aggregate, mean: Floats) -> SumSummary:
        def minus(values: Values, middle: float) -> Values:
            return Values(
                values.attribute, values.mean - middle, values.least - middle, values.greatest - middle
            )

        middles = np.where(np.isfinite(mean), mean, 0.0).tolist()
        parts = self.groups.parts(aggregate.parts)
        questions = [
            [Part(part.box, minus(part.values, m)) for part in own]
            for own, m in zip(parts, middles, strict=True)
        ]
        return summarise_sums(self.groups.view.blocks, self.groups.view.schema, questions)

    def _quantile(self, i: int, confidence: float) -> Span:
        aggregate, view = self.aggregates[i], self.groups.view
        attribute = view.schema.attributes[aggregate.attribute]
        assert isinstance(attribute, Ordered)
        if len(self.groups) > _MAX_QUANTILES:
            raise QueryError(
                f"Quantiles of {len(self.groups):,} groups take too long; the limit is {_MAX_QUANTILES:,}. Group by less."
            )
        boxes = [intersect(own, aggregate.boxes) for own in self.groups.boxes]
        estimates = np.full(len(boxes), np.nan)
        for g, own in enumerate(boxes):
            histogram = (
                summarise_groups(view.blocks, view.schema, own, [aggregate.attribute]) if own else None
            )
            if histogram is not None:
                estimates[g] = quantile_of(
                    histogram.consistent[: attribute.n_values], attribute, aggregate.quantile
                )
        first, last = self._codes_around(boxes, aggregate, attribute, confidence)
        edges = attribute.edges.astype(np.float64)
        lower, upper = (
            np.minimum(edges[first], estimates),
            np.maximum(edges[last + 1] - attribute.whole, estimates),
        )
        return _null_where(np.isnan(estimates), Span(estimates, lower, upper))

    def _codes_around(
        self, boxes: Sequence[Sequence[Box]], aggregate: Aggregate, attribute: Ordered, confidence: float
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """First and last code that may hold the quantile: where the share of records up to there may, and
        must, reach it.
        """
        n, p, a = len(boxes), aggregate.quantile, aggregate.attribute
        low = np.zeros((2, n), dtype=np.int64)
        high = np.full((2, n), attribute.n_values - 1)
        edges = attribute.edges.tolist()
        shares = shares_of_levels(self.groups.view.blocks, self.groups.view.schema)
        while (low < high).any():
            middle = (low + high) // 2
            questions = []
            for g, code in zip([*range(n)] * 2, middle.reshape(-1).tolist(), strict=True):
                sides = ((edges[0], edges[code + 1]), 1.0 - p), ((edges[code + 1], edges[-1]), -p)
                pieces = [
                    (intersect(boxes[g], [{a: Condition(ranges=(ends,))}]), value)
                    for ends, value in sides
                    if ends[0] < ends[1]
                ]
                questions.append(
                    [Part(box, Values.constant(value)) for inside, value in pieces for box in inside]
                )
            summary = summarise_sums(self.groups.view.blocks, self.groups.view.schema, questions, shares)
            found = with_sum_intervals(summary, self.law, confidence, "consistent", self.interval)
            reached = np.stack([found.upper[:n] >= 0, found.lower[n:] >= 0])
            low, high = np.where(reached, low, np.minimum(middle + 1, high)), np.where(reached, middle, high)
        return low[0], low[1]


def quantile_of(counts: Floats, attribute: Ordered, p: float) -> float:
    """The quantile of a histogram, NaN of an empty one: between single whole numbers as databases do it,
    inside bins by proportion.
    """
    running = np.cumsum(counts)
    total = float(running[-1])
    if total <= _NOTHING:
        return np.nan
    if isinstance(attribute, Integer) and attribute.every == 1:
        rank = max(p * (total - 1.0), 0.0)
        ranks = np.minimum(np.array([np.floor(rank + 1e-9), np.ceil(rank - 1e-9)]), total - 1e-6)
        codes = np.minimum(np.searchsorted(running, ranks + 1e-7, side="right"), len(counts) - 1)
        below, above = attribute.edges[codes].tolist()
        return float(below + (above - below) * (rank - np.floor(rank + 1e-9)))
    code = min(int(np.searchsorted(running, p * total, side="left")), len(counts) - 1)
    inside = (p * total - (running[code] - counts[code])) / counts[code] if counts[code] > 0 else 0.5
    start, end = (float(edge) for edge in attribute.edges[code : code + 2])
    place = start + (end - start) * min(max(inside, 0.0), 1.0)
    return float(min(place, end - 1)) if attribute.whole and not isinstance(attribute, Datetime) else place


def _null_where(absent: NDArray[np.bool_], span: Span) -> Span:
    return Span(*(np.where(absent, np.nan, column) for column in span))
