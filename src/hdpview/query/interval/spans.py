"""Counts, sums, means and rates of groups in closed form, with their intervals.

A typical interval follows from the errors of the sums behind an aggregate and how it changes with each of
them (the delta method), so that errors which sums have in common cancel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.errors import QueryError
from hdpview.query.errors.ends import typical_tail
from hdpview.query.interval.answers import CountKind, IntervalKind, check_kinds, typical_ends
from hdpview.query.interval.groups import Groups
from hdpview.query.question.aggregates import Aggregate
from hdpview.query.question.quantities import Quantity, reaching_bins

Floats = NDArray[np.float64]
_STEP = 1e-3  # of the delta method, in standard errors


class Estimates(NamedTuple):
    """Estimates and the ends of their intervals, shape (n_groups,) each; NaN is NULL."""

    estimate: Floats
    lower: Floats
    upper: Floats

    def within(self, least: float, greatest: float) -> Estimates:
        """Ends cut to what is possible; they always hold the estimate."""
        lower, upper = np.maximum(self.lower, least), np.minimum(self.upper, greatest)
        return Estimates(self.estimate, np.minimum(lower, self.estimate), np.maximum(upper, self.estimate))

    def null_where(self, absent: NDArray[np.bool_]) -> Estimates:
        """The same without the groups that have no records."""
        return Estimates(*(np.where(absent, np.nan, column) for column in self))


def group_estimates(
    groups: Groups,
    aggregate: Aggregate,
    confidence: float = 0.95,
    counts: CountKind = "consistent",
    interval: IntervalKind | None = "typical",
) -> Estimates:
    """An aggregate in every group. interval: None for estimates alone; the ends are NaN then."""
    check_kinds(counts, interval or "typical")
    if interval is None:
        estimate = aggregate.value(_sums(groups, aggregate.quantities, counts))
        return Estimates(estimate, np.full(len(estimate), np.nan), np.full(len(estimate), np.nan))
    if aggregate.kind == "count" or (aggregate.kind == "sum" and interval == "typical"):
        floor = aggregate.limits[0] if counts == "consistent" else -np.inf
        spans = _linear(groups, aggregate.quantities[0], confidence, counts, interval).within(floor, np.inf)
        if aggregate.kind == "count":
            return spans
        return spans.null_where(np.isnan(aggregate.value(_sums(groups, aggregate.quantities, counts))))
    if interval != "typical":
        raise QueryError(f"A {interval} interval is for counts; a {aggregate.kind} has the typical one.")
    return smooth(groups, aggregate.quantities, aggregate.value, aggregate.limits, confidence, counts)


def _sums(groups: Groups, quantities: Sequence[Quantity], counts: CountKind) -> Floats:
    """Estimates of quantities in every group, shape (m, n_groups)."""
    if counts == "raw":
        return np.stack([groups.evaluation(quantity).raw for quantity in quantities])
    return np.stack([groups.estimates(quantity) for quantity in quantities])


def _linear(
    groups: Groups, quantity: Quantity, confidence: float, counts: CountKind, interval: IntervalKind
) -> Estimates:
    """A count or sum in every group, with the interval that was chosen."""
    of = groups.evaluation(quantity)
    estimate = of.raw if counts == "raw" else of.estimate
    if interval == "noise":
        width = of.noise.half_width(confidence)
        lower, upper = of.raw - width, of.raw + width
    elif interval == "guaranteed":
        lower, upper = groups.guaranteed(quantity, confidence).T
    else:
        lower, upper = typical_ends(of, confidence, counts)
        wider, reaching = reaching_bins(quantity, groups.view.schema), groups.reaching_bins()
        # Values beyond the schema's bounds are counted in the first or last bin: its upper end counts, too.
        if wider is not None or reaching is not None:
            of_bins = (reaching or groups).evaluation(wider or quantity)
            upper = np.maximum(upper, typical_ends(of_bins, confidence, counts)[1])
    return Estimates(estimate, lower, upper).within(-np.inf, np.inf)


def smooth(
    groups: Groups,
    quantities: Sequence[Quantity],
    value: Callable[[Floats], Floats],
    limits: tuple[float, float],
    confidence: float,
    counts: CountKind = "consistent",
    denominators: Sequence[int] = (),
) -> Estimates:
    """A function of sums with its typical interval.

    denominators: sums that it divides by; where they may be 0 and limits are infinite, anything is possible.
    """
    sums, covariances = _sums(groups, quantities, counts), groups.covariances(quantities)
    estimates = delta_estimates(value, sums, covariances, confidence)
    for i in denominators if np.isinf(limits).any() else ():
        unsafe = sums[i] <= typical_tail(confidence) * np.sqrt(np.maximum(covariances[i, i], 0.0))
        ends = np.where(unsafe, -np.inf, estimates.lower), np.where(unsafe, np.inf, estimates.upper)
        estimates = Estimates(estimates.estimate, *ends)
    return estimates.within(*limits).null_where(np.isnan(estimates.estimate))


def delta_estimates(
    value: Callable[[Floats], Floats], sums: Floats, covariances: Floats, confidence: float
) -> Estimates:
    """A function of sums, with intervals from how it changes with each of them.

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
            slopes[i] = np.nan_to_num((value(up) - value(down)) / (2.0 * step))
    variance = np.maximum(np.einsum("in,ijn,jn->n", slopes, covariances, slopes), 0.0)
    estimate, half = value(sums), typical_tail(confidence) * np.sqrt(variance)
    return Estimates(estimate, estimate - half, estimate + half)
