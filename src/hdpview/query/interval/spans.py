"""Aggregates in all groups, with their intervals.

A typical interval follows from the errors of the sums behind an aggregate and how it changes with each of
them (the delta method), so that errors which sums have in common cancel. Noise and guaranteed intervals are
computed for each sum, with so much more confidence that all hold together, and carried through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.domain import Datetime, Integer, Ordered
from hdpview.errors import QueryError
from hdpview.query.bounds.guaranteed import guaranteed
from hdpview.query.bounds.noise import confidence_of_each
from hdpview.query.errors.closed import Evaluation, evaluate
from hdpview.query.errors.ends import typical_tail
from hdpview.query.estimate.estimates import grid_estimates
from hdpview.query.interval.answers import Kind, Reading, check_reading, typical_ends
from hdpview.query.interval.groups import Groups
from hdpview.query.question.aggregates import Aggregate
from hdpview.query.question.batch import pack, times_functions
from hdpview.query.question.boxes import Box, intersect
from hdpview.query.question.conditions import Condition
from hdpview.query.question.quantities import Part, Quantity, Values, count_of, cut, reaching_bins

Floats = NDArray[np.float64]
_MAX_QUANTILES = 2_000
_PLACES_AT_ONCE = 12  # of all groups together, in a search for quantiles
# Codes of an attribute, and codes of all groups together, up to which all are evaluated before the search.
_MOST_CODES, _MOST_SHARES = 256, 4_096
_NOTHING = 1e-9  # an estimated count below this is 0, but for rounding
_STEP = 1e-3  # of the delta method, in standard errors


class Span(NamedTuple):
    """Estimates and the ends of their intervals, shape (n_groups,) each; NaN is NULL."""

    estimate: Floats
    lower: Floats
    upper: Floats

    def within(self, least: float, greatest: float) -> Span:
        """Ends cut to what is possible; they always hold the estimate."""
        lower, upper = np.maximum(self.lower, least), np.minimum(self.upper, greatest)
        return Span(self.estimate, np.minimum(lower, self.estimate), np.maximum(upper, self.estimate))


class Measures:
    """Aggregates of groups, computed when asked for. interval: None for estimates alone; the ends are NaN
    then.
    """

    def __init__(
        self, groups: Groups, counts: Reading = "consistent", interval: Kind | None = "typical"
    ) -> None:
        check_reading(counts, interval or "typical")
        self.groups, self.counts, self.interval = groups, counts, interval
        self._evaluations: dict[int, tuple[Quantity, Evaluation]] = {}
        self._estimates: dict[int, tuple[Quantity, Floats]] = {}
        self._spans: dict[tuple[int, float], tuple[Aggregate, Span]] = {}

    def evaluation(self, quantity: Quantity) -> Evaluation:
        """A quantity in every group; each is computed once."""
        if id(quantity) not in self._evaluations:
            self._evaluations[id(quantity)] = quantity, self.groups.evaluation(quantity)
        return self._evaluations[id(quantity)][1]

    def sums(self, quantities: Sequence[Quantity]) -> Floats:
        """Estimates of quantities in every group, shape (m, n_groups)."""
        columns = [self._sum(quantity) for quantity in quantities]
        return np.stack(columns) if columns else np.zeros((0, len(self.groups)))

    def _sum(self, quantity: Quantity) -> Floats:
        """The estimate of a quantity in every group; its errors are left out where nobody asked for them
        yet.
        """
        if self.counts == "raw":
            return self.evaluation(quantity).raw
        if id(quantity) in self._evaluations:
            return self.evaluation(quantity).estimate
        if id(quantity) not in self._estimates:
            self._estimates[id(quantity)] = quantity, self.groups.estimates(quantity)
        return self._estimates[id(quantity)][1]

    def span(self, aggregate: Aggregate, confidence: float) -> Span:
        """An aggregate in every group; each is computed once."""
        key = (id(aggregate), confidence)
        if key not in self._spans:
            self._spans[key] = aggregate, self._span(aggregate, confidence)
        return self._spans[key][1]

    def _span(self, aggregate: Aggregate, confidence: float) -> Span:
        if aggregate.kind == "quantile":
            return self._quantile(aggregate, confidence)
        if self.interval is None:
            return estimates_alone(aggregate.value(self.sums(aggregate.quantities)))
        if aggregate.kind == "count" or (aggregate.kind == "sum" and self.interval == "typical"):
            found = self.linear(aggregate.quantities[0], confidence)
            empty = np.isnan(aggregate.value(self.sums(aggregate.quantities)))
            floor = aggregate.limits[0] if self.counts == "consistent" else -np.inf
            return _null_where(empty, found.within(floor, np.inf))
        if self.interval == "typical":
            return self.smooth(
                aggregate.quantities, aggregate.value, aggregate.limits, aggregate.denominators, confidence
            )
        return self._from_ends(aggregate, confidence)

    def linear(self, quantity: Quantity, confidence: float) -> Span:
        """A quantity in every group, with the interval that was chosen."""
        of = self.evaluation(quantity)
        estimate = of.raw if self.counts == "raw" else of.estimate
        if self.interval == "typical":
            lower, upper = typical_ends(of, confidence, self.counts)
            upper = np.maximum(upper, self._upper_of_bins(quantity, confidence))
        elif self.interval == "noise":
            width = of.noise.half_width(confidence)
            lower, upper = of.raw - width, of.raw + width
        else:
            lower, upper = self.groups.guaranteed(quantity, confidence).T
        return Span(estimate, np.minimum(lower, estimate), np.maximum(upper, estimate))

    def _upper_of_bins(self, quantity: Quantity, confidence: float) -> Floats:
        """The upper ends over the bins that values beyond the schema's bounds are counted in, if any is asked
        for.
        """
        wider, groups = reaching_bins(quantity, self.groups.view.schema), self.groups.reaching_bins()
        if wider is None and groups is None:
            return np.full(len(self.groups), -np.inf)
        found = (groups or self.groups).evaluation(wider or quantity)
        return typical_ends(found, confidence, self.counts)[1]

    def smooth(
        self,
        quantities: Sequence[Quantity],
        value: Callable[[Floats], Floats],
        limits: tuple[float, float],
        denominators: Sequence[int],
        confidence: float,
    ) -> Span:
        """A function of sums with its typical interval."""
        sums, tail = self.sums(quantities), typical_tail(confidence)
        estimate = value(sums)
        covariances = self.groups.covariances(quantities)
        variance = delta_variance(value, sums, covariances)
        half = tail * np.sqrt(variance)
        span = Span(estimate, estimate - half, estimate + half)
        # Means and shares lie within limits, so that their interval is that of the delta method; any other
        # ratio may be anything where a denominator may be 0.
        for i in denominators if np.isinf(limits).any() else ():
            unsafe = sums[i] <= tail * np.sqrt(np.maximum(covariances[i, i], 0.0))
            span = Span(estimate, np.where(unsafe, -np.inf, span.lower), np.where(unsafe, np.inf, span.upper))
        return _null_where(np.isnan(estimate), span.within(*limits))

    def _from_ends(self, aggregate: Aggregate, confidence: float) -> Span:
        """The range of an aggregate over the ends of its sums. Means allow for the least count that may be
        true.
        """
        quantities = aggregate.quantities
        estimate = aggregate.value(self.sums(quantities))
        if aggregate.kind not in ("sum", "mean"):
            unknown = np.full(len(self.groups), np.inf)
            return _null_where(
                np.isnan(estimate), Span(estimate, -unknown, unknown).within(*aggregate.limits)
            )
        level = confidence_of_each(len(quantities), confidence)
        total, count = (self.linear(quantity, level) for quantity in quantities)
        if aggregate.kind == "sum":
            return _null_where(np.isnan(estimate), Span(estimate, total.lower, total.upper))
        few, many = np.maximum(count.lower, 1.0), np.maximum(count.upper, 1.0)
        lower = np.where(total.lower > 0, total.lower / many, total.lower / few)
        upper = np.where(total.upper > 0, total.upper / few, total.upper / many)
        return _null_where(np.isnan(estimate), Span(estimate, lower, upper).within(*aggregate.limits))

    def _quantile(self, aggregate: Aggregate, confidence: float) -> Span:
        view, a = self.groups.view, aggregate.attribute
        attribute = view.schema.attributes[a]
        assert isinstance(attribute, Ordered)
        if len(self.groups) > _MAX_QUANTILES:
            raise QueryError(
                f"Quantiles of {len(self.groups):,} groups take too long; the limit is "
                f"{_MAX_QUANTILES:,}. Use fewer groups."
            )
        boxes = [intersect(own, aggregate.boxes) for own in self.groups.boxes]
        estimates = np.full(len(boxes), np.nan)
        for g, own in enumerate(boxes):
            if own:
                histogram = grid_estimates(view, count_of(own), [a])
                estimates[g] = quantile_of(histogram[: attribute.n_values], attribute, aggregate.quantile)
        if self.interval is None:
            return estimates_alone(estimates)
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
        n, n_codes = len(boxes), attribute.n_values
        low = np.zeros((2, n), dtype=np.int64)
        high = np.full((2, n), n_codes - 1)
        known: Floats | None = None
        if n_codes <= _MOST_CODES and n * n_codes <= _MOST_SHARES and self.interval != "guaranteed":
            every = np.broadcast_to(np.arange(n_codes), (n, n_codes))
            known = np.stack(self._ends_of_shares(boxes, aggregate, attribute, every, confidence))
        # Several places at once: a batch costs little more than a single question.
        n_places = max(1, _PLACES_AT_ONCE // max(n, 1))
        fractions = np.arange(1, n_places + 1) / (n_places + 1)
        while (low < high).any():
            middle = low[..., None] + np.floor((high - low)[..., None] * fractions).astype(np.int64)
            if known is not None:
                ends = np.take_along_axis(known, middle, axis=2)
            else:
                both = [self._ends_of_shares(boxes, aggregate, attribute, own, confidence) for own in middle]
                ends = np.stack([both[0][0], both[1][1]])
            reached = np.concatenate([ends >= 0, np.ones((2, n, 1), dtype=bool)], axis=2)
            first = reached.argmax(axis=2)[..., None]
            places = np.concatenate([low[..., None] - 1, middle, high[..., None]], axis=2)
            high = np.take_along_axis(places, first + 1, axis=2)[..., 0]
            low = np.minimum(np.take_along_axis(places, first, axis=2)[..., 0] + 1, high)
        return low[0], low[1]

    def _ends_of_shares(
        self,
        boxes: Sequence[Sequence[Box]],
        aggregate: Aggregate,
        attribute: Ordered,
        codes: NDArray[np.int64],
        confidence: float,
    ) -> tuple[Floats, Floats]:
        """Upper and lower ends of: records up to a code, less the quantile's share of all. Shape as `codes`:
        one row of codes per group.
        """
        p, a, schema = aggregate.quantile, aggregate.attribute, self.groups.view.schema
        if self.interval == "guaranteed":
            below, above, edges = Values.constant(1.0 - p), Values.constant(-p), attribute.edges.tolist()
            quantities = []
            for own, border in (
                (own, edges[code + 1]) for own, row in zip(boxes, codes.tolist(), strict=True) for code in row
            ):
                sides = ((-np.inf, border), below), ((border, np.inf), above)
                parts = [Part({a: Condition(ranges=(ends,))}, values) for ends, values in sides]
                quantities.append(cut(parts, own))
            lower, upper = guaranteed(self.groups.view, quantities, confidence).T
            return upper.reshape(codes.shape), lower.reshape(codes.shape)
        different, which = np.unique(codes, return_inverse=True)
        # 1 − p up to a code, −p after it, and nothing where the value is missing.
        steps = np.where(np.arange(attribute.size) <= different[:, None], 1.0 - p, -p)
        steps[:, attribute.n_values :] = 0.0
        records = pack([count_of(own) for own in boxes], schema)
        found = evaluate(self.groups.view, times_functions(records, a, steps), records)
        if self.interval == "noise":
            width = found.noise.half_width(confidence)
            lower, upper = found.raw - width, found.raw + width
        else:
            lower, upper = typical_ends(found, confidence, "consistent")
        places = np.arange(len(boxes))[:, None] * len(different) + which.reshape(codes.shape)
        return upper[places], lower[places]


def estimates_alone(estimate: Floats) -> Span:
    """Estimates without intervals."""
    unknown = np.full(len(estimate), np.nan)
    return Span(estimate, unknown, unknown)


def delta_variance(value: Callable[[Floats], Floats], sums: Floats, covariances: Floats) -> Floats:
    """Squared error of a function of sums, shape (n,), from how it changes with each of them.

    sums: shape (m, n); covariances: shape (m, m, n).
    """
    deviation = np.sqrt(np.maximum(covariances.diagonal(axis1=0, axis2=1).T, 0.0))
    slopes = np.zeros_like(sums)
    for i in range(len(sums)):
        step = np.maximum(_STEP * deviation[i], 1e-9 * np.maximum(np.abs(sums[i]), 1.0))
        up, down = sums.copy(), sums.copy()
        up[i] += step
        down[i] -= step
        with np.errstate(all="ignore"):
            slopes[i] = (value(up) - value(down)) / (2.0 * step)
    found: Floats = np.einsum("in,ijn,jn->n", np.nan_to_num(slopes), covariances, np.nan_to_num(slopes))
    squared: Floats = np.maximum(found, 0.0)
    return squared


def quantile_of(counts: Floats, attribute: Ordered, p: float) -> float:
    """The quantile of a histogram, NaN of an empty one.

    Between single whole numbers as databases compute it, inside bins by proportion.
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
