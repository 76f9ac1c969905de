"""Quantiles in closed form: where the share of records up to a code may, and must, reach them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdpview.domain import Datetime, Integer, Ordered
from hdpview.errors import QueryError
from hdpview.query.bounds.noise import check_confidence
from hdpview.query.errors.closed import evaluate
from hdpview.query.estimate.estimates import grid_estimates
from hdpview.query.interval.answers import IntervalKind, check_kinds, typical_ends
from hdpview.query.interval.statistics import Statistic
from hdpview.query.question import conditions
from hdpview.query.question.aggregates import EMPTY_COUNT
from hdpview.query.question.batch import pack, times_functions
from hdpview.query.question.boxes import Box, intersect
from hdpview.query.question.quantities import count_of
from hdpview.query.question.where import Where, attribute_number, boxes_of
from hdpview.view.data import ViewData

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_PLACES_AT_ONCE = 12  # a batch of codes costs little more than a single one


def quantile(
    view: ViewData,
    name: str,
    q: float,
    where: Where = None,
    confidence: float = 0.95,
    counts: Any = "consistent",
    interval: IntervalKind = "typical",
) -> Statistic:
    """A quantile of an attribute."""
    check_confidence(confidence)
    check_kinds(counts, interval)
    if isinstance(q, bool) or not isinstance(q, (int, float)) or not 0 <= q <= 1:
        raise QueryError("A quantile is a number from 0 to 1, such as 0.5 for the median.")
    if interval != "typical":
        raise QueryError(f"A {interval} interval is for counts; a quantile has the typical one.")
    a = attribute_number(name, view.schema)
    attribute = view.schema.attributes[a]
    if not isinstance(attribute, Ordered):
        raise QueryError(
            f"Quantiles are taken of a numeric or datetime attribute; {name!r} is of type {attribute.kind}."
        )
    boxes = intersect(boxes_of(where, view.schema), [{a: conditions.everything(attribute)}])
    estimate = np.nan
    if boxes:
        histogram = grid_estimates(view, count_of(boxes), [a])
        estimate = quantile_of(histogram[: attribute.n_values], attribute, float(q))
    if np.isnan(estimate):
        return Statistic(None, None, None, confidence)
    first, last = _codes_around(view, boxes, a, attribute, float(q), confidence)
    lower = min(float(attribute.edges[first]), estimate)
    upper = max(float(attribute.edges[last + 1] - attribute.whole), estimate)
    return Statistic.of(estimate, lower, upper, confidence, isinstance(attribute, Datetime))


def _codes_around(
    view: ViewData, boxes: Sequence[Box], a: int, attribute: Ordered, q: float, confidence: float
) -> tuple[int, int]:
    """First and last code that may hold the quantile: where the share of records up to there may, and must,
    reach it.
    """
    records = pack([count_of(boxes)], view.schema)

    def ends_of_shares(codes: Ints) -> tuple[Floats, Floats]:
        """Upper and lower ends of: records up to each code, less the quantile's share of all."""
        # 1 − q up to a code, −q after it, and nothing where the value is missing.
        steps = np.where(np.arange(attribute.size) <= codes[:, None], 1.0 - q, -q)
        steps[:, attribute.n_values :] = 0.0
        evaluation = evaluate(view, times_functions(records, a, steps), records)
        lower, upper = typical_ends(evaluation, confidence, "consistent")
        return upper, lower

    nearby = []
    for side in (0, 1):
        low, high = 0, attribute.n_values - 1
        while low < high:
            fractions = np.arange(1, _PLACES_AT_ONCE + 1) / (_PLACES_AT_ONCE + 1)
            middle = low + np.floor((high - low) * fractions).astype(np.int64)
            different, which = np.unique(middle, return_inverse=True)
            reached = np.append(ends_of_shares(different)[side][which] >= 0, True)
            at = int(reached.argmax())
            places = [low - 1, *middle.tolist(), high]
            high = places[at + 1]
            low = min(places[at] + 1, high)
        nearby.append(low)
    return nearby[0], nearby[1]


def quantile_of(counts: Floats, attribute: Ordered, p: float) -> float:
    """The quantile of a histogram, NaN of an empty one.

    Between single whole numbers as databases compute it, inside bins by proportion.
    """
    running = np.cumsum(counts)
    total = float(running[-1])
    if total <= EMPTY_COUNT:
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
