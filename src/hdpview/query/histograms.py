"""Histograms of all attributes under one filter: what an explorer shows, and asks for again at every move of the mouse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdpview.domain import Attribute
from hdpview.query.answers import Where, with_intervals
from hdpview.query.boxes import Box, intersect, pack
from hdpview.query.grouped import shares_of_levels, summarise_groups, tidied
from hdpview.query.intervals import Kind, Reading
from hdpview.query.noise_width import NoiseLaw
from hdpview.query.predicates import attribute_number, boxes_of
from hdpview.query.sql.axes import code_conditions, code_keys
from hdpview.query.summary import FULL, Summary, summarise
from hdpview.view.data import ViewData

Floats = NDArray[np.float64]
FEW_ATTRIBUTES = 3  # up to here NumPy is done before Numba is loaded


@dataclass(frozen=True, eq=False)
class Histogram:
    """Counts of the values of one attribute, in code order, with intervals; the last one is of missing values where there are such.

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
    schema, boxes = view.schema, boxes_of(where, view.schema)
    numbers = list(range(len(schema))) if names is None else [attribute_number(name, schema) for name in names]
    summary = _joined(list(_summaries(view, boxes, numbers)))
    found = with_intervals(summary, NoiseLaw(view.manifest.noise_scale), confidence, counts, interval)
    ends = np.cumsum([0, *(schema.sizes[a] for a in numbers)])
    return [
        Histogram(schema.attributes[a], code_keys(schema.attributes[a]), found.estimate[i:j], found.lower[i:j], found.upper[i:j])
        for a, i, j in zip(numbers, ends[:-1], ends[1:], strict=True)
    ]


def _summaries(view: ViewData, boxes: Sequence[Box], numbers: Sequence[int]) -> Iterator[Summary]:
    """One by one, in NumPy; many that the filter does not speak of, in Numba: then each block has one weight for all of them."""
    shares = shares_of_levels(view.blocks, view.schema)
    spoken_of = {a for box in boxes for a in box}
    in_numba = len(numbers) > FEW_ATTRIBUTES and not shares[0].level.within
    weights = [sum((level.of_box(box) for box in boxes), np.zeros(len(level.level.counts))) for level in shares] if in_numba else []
    full = np.logical_or.reduce([np.zeros(len(view.blocks), dtype=bool), *(shares[0].in_blocks(box)[1] for box in boxes if in_numba)])
    for a in numbers:
        if in_numba and a not in spoken_of:
            yield _in_numba(view, a, weights, full)
            continue
        painted = summarise_groups(view.blocks, view.schema, boxes, [a], shares)
        if painted is None:
            questions = [intersect(boxes, [{a: condition}]) for condition in code_conditions(view.schema.attributes[a])]
            painted = summarise(view.blocks, pack(questions, view.schema))
        yield painted


def _in_numba(view: ViewData, a: int, weights: Sequence[Floats], full: NDArray[np.bool_]) -> Summary:
    """The histogram of one attribute under a filter on others. weights: of blocks in the filter, level by level; full: covered by a box."""
    from hdpview.query import kernels

    (finest, *coarser), size = view.blocks.levels, view.schema.sizes[a]
    columns = np.zeros((10, size + 1))
    noisy = view.blocks.noisy_counts.astype(np.float64)
    kernels.histogram(finest.lower[a], finest.upper[a], finest.inverse_width[a], weights[0], full, finest.counts, noisy, FULL, columns)
    of_coarser = np.zeros((len(coarser), 2, size + 1))
    for level, weight, out in zip(coarser, weights[1:], of_coarser, strict=True):
        kernels.coarser_histogram(level.lower[a], level.upper[a], level.inverse_width[a], weight, level.counts, FULL, out)
    named = tidied(dict(zip((field.name for field in fields(Summary)), columns[:, :-1], strict=False)))
    of_coarser = np.maximum(of_coarser[:, :, :-1], 0.0)
    return Summary(**named, coarser_estimates=of_coarser[:, 0], coarser_spreads=of_coarser[:, 1], base_variance=np.zeros(size))


def _joined(summaries: Sequence[Summary]) -> Summary:
    columns = {field.name: np.concatenate([getattr(each, field.name) for each in summaries], axis=-1) for field in fields(Summary)}
    return Summary(**columns)
