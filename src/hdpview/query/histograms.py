"""Histograms of all attributes under one filter: what an explorer shows, and asks for again at every move of
the mouse.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdpview.domain import Attribute
from hdpview.query.answers import Answer, Answers, Where, with_intervals
from hdpview.query.at_once import can_be_at_once, summarise_at_once
from hdpview.query.boxes import Box, intersect, pack
from hdpview.query.grouped import shares_of_levels, summarise_groups
from hdpview.query.intervals import Kind, Reading
from hdpview.query.noise_width import NoiseLaw
from hdpview.query.predicates import attribute_number, boxes_of
from hdpview.query.sql.axes import code_conditions, code_keys
from hdpview.query.summary import Summary, summarise
from hdpview.view.data import ViewData

Floats = NDArray[np.float64]
FEW_ATTRIBUTES = 3  # up to here NumPy is done before Numba is loaded


@dataclass(frozen=True, eq=False)
class Histogram:
    """Counts of the values of one attribute, in code order, with intervals; the last one is of missing values
    where there are such.

    keys: what each value is called in a result; `attribute.labels()` has texts for people.
    """

    attribute: Attribute
    keys: Sequence[Any]
    estimate: Floats
    lower: Floats
    upper: Floats


def histograms(
    view: ViewData,
    where: Where = None,
    names: Sequence[str] | None = None,
    confidence: float = 0.95,
    counts: Reading = "consistent",
    interval: Kind = "typical",
) -> list[Histogram]:
    """Histograms of the named attributes, or of all, of the records that satisfy a condition."""
    names = view.schema.names if names is None else names
    if len(names) > FEW_ATTRIBUTES:
        return panel(view, where, names, confidence, counts, interval)[1]
    boxes, numbers = boxes_of(where, view.schema), [attribute_number(name, view.schema) for name in names]
    found = with_intervals(_joined(_painted(view, boxes, numbers)), _law(view), confidence, counts, interval)
    return _cut_up(view, found, numbers)


def panel(
    view: ViewData,
    where: Where = None,
    names: Sequence[str] = (),
    confidence: float = 0.95,
    counts: Reading = "consistent",
    interval: Kind = "typical",
) -> tuple[Answer, list[Histogram]]:
    """The count of the records that satisfy a condition, and histograms of the named attributes: all at once,
    in Numba.
    """
    boxes, numbers = boxes_of(where, view.schema), [attribute_number(name, view.schema) for name in names]
    at_once = [a for a in dict.fromkeys(numbers) if can_be_at_once(view, boxes, a)]
    others = [a for a in dict.fromkeys(numbers) if a not in at_once]
    summary = _joined([*_painted(view, boxes, others), summarise_at_once(view, boxes, at_once)])
    found = with_intervals(summary, _law(view), confidence, counts, interval)
    by_number = dict(zip([*others, *at_once], _cut_up(view, found, [*others, *at_once]), strict=True))
    return found[len(found) - 1], [by_number[a] for a in numbers]


def _law(view: ViewData) -> NoiseLaw:
    return NoiseLaw(view.manifest.noise_scale)


def _painted(view: ViewData, boxes: Sequence[Box], numbers: Sequence[int]) -> list[Summary]:
    """One attribute by one, in NumPy, whatever the filter says."""
    shares, found = shares_of_levels(view.blocks, view.schema), []
    for a in numbers:
        painted = summarise_groups(view.blocks, view.schema, boxes, [a], shares)
        if painted is None:
            questions = [
                intersect(boxes, [{a: condition}]) for condition in code_conditions(view.schema.attributes[a])
            ]
            painted = summarise(view.blocks, pack(questions, view.schema))
        found.append(painted)
    return found


def _joined(summaries: Sequence[Summary]) -> Summary:
    columns = {
        field.name: np.concatenate([getattr(each, field.name) for each in summaries], axis=-1)
        for field in fields(Summary)
    }
    return Summary(**columns)


def _cut_up(view: ViewData, found: Answers, numbers: Sequence[int]) -> list[Histogram]:
    """Answers for all codes of these attributes, one after the other, as histograms."""
    attributes, lower, upper = [view.schema.attributes[a] for a in numbers], found.lower, found.upper
    ends = np.cumsum([0, *(view.schema.sizes[a] for a in numbers)]).tolist()
    return [
        Histogram(attribute, code_keys(attribute), found.estimate[i:j], lower[i:j], upper[i:j])
        for attribute, (i, j) in zip(attributes, itertools.pairwise(ends), strict=True)
    ]
