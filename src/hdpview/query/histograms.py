"""Histograms of all attributes under one filter: what an explorer shows, and asks for again at every move of the mouse."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdpview.domain import Attribute
from hdpview.machine import available_cores
from hdpview.query import base_noise
from hdpview.query.answers import Where, with_intervals
from hdpview.query.boxes import Box, intersect, pack
from hdpview.query.grouped import Shares, code_shares, shares_of_levels, summarise_groups, tidied
from hdpview.query.intervals import Kind, Reading
from hdpview.query.noise_width import NoiseLaw
from hdpview.query.predicates import attribute_number, boxes_of
from hdpview.query.sql.axes import code_conditions, code_keys
from hdpview.query.summary import FULL, Summary, summarise
from hdpview.view.data import ViewData
from hdpview.view.within import Within

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
    in_numba = len(numbers) > FEW_ATTRIBUTES
    has_base = bool(view.blocks.bases)
    at_once = {a for a in numbers if in_numba and (a not in spoken_of or (has_base and len(boxes) == 1))}
    over_bases = _OverBases(view, boxes).summaries(at_once) if has_base and at_once else {}
    weights, full = _block_weights(shares, boxes) if in_numba and not has_base else ([], np.zeros(0, dtype=bool))
    for a in numbers:
        if a in over_bases:
            yield over_bases[a]
            continue
        if a in at_once:
            yield _in_numba(view, a, weights, full)
            continue
        painted = summarise_groups(view.blocks, view.schema, boxes, [a], shares)
        if painted is None:
            questions = [intersect(boxes, [{a: condition}]) for condition in code_conditions(view.schema.attributes[a])]
            painted = summarise(view.blocks, pack(questions, view.schema))
        yield painted


def _block_weights(shares: Sequence[Shares], boxes: Sequence[Box]) -> tuple[list[Floats], NDArray[np.bool_]]:
    """Weights of blocks in a filter, level by level, and whether a box covers them."""
    weights = [sum((level.of_box(box) for box in boxes), np.zeros(len(level.level.counts))) for level in shares]
    nothing = np.zeros(len(weights[0]), dtype=bool)
    return weights, np.logical_or.reduce([nothing, *(shares[0].of_box(box) > FULL for box in boxes)])


class _OverBases:
    """Histograms under one filter where bases say how records spread: how each block spreads over all bins is found once for all."""

    def __init__(self, view: ViewData, boxes: Sequence[Box]) -> None:
        self.view, self.boxes, self.levels = view, boxes, view.blocks.levels
        self.joints: dict[Within, tuple[Floats, NDArray[np.bool_], NDArray[np.bool_]]] = {}

    def summaries(self, numbers: Iterable[int]) -> dict[int, Summary]:
        """Histograms of attributes that no box speaks of, or of any where there is one box."""
        withins, attributes = [within for level in self.levels for within in level.within], list(numbers)
        with ThreadPoolExecutor(available_cores()) as pool:
            self.joints = dict(zip(withins, pool.map(self._joint, withins), strict=True))
            return dict(zip(attributes, pool.map(self._summary, attributes), strict=True))

    def _joint(self, within: Within) -> tuple[Floats, NDArray[np.bool_], NDArray[np.bool_]]:
        """What the filter asks for of each block in each bin of all attributes; which blocks it touches, and which a box covers."""
        from hdpview.query import base_kernels

        base, n = within.base, within.last - within.first
        joint, touched, full = np.zeros((n, sum(base.n_bins))), np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
        for box in self.boxes:
            prefixes = [base.prefix(a, code_shares(self.view.schema, a, condition)) for a, condition in box.items()]
            place = np.full(len(base.parent), -1)
            place[list(box)] = np.cumsum([0, *map(len, prefixes)])[:-1]
            base_kernels.add_joint(place, np.concatenate([np.zeros(0), *prefixes]), within.flat, joint, touched, full)
        return joint, touched, full

    def _summary(self, a: int) -> Summary:
        schema, size = self.view.schema, self.view.schema.sizes[a]
        share = code_shares(schema, a, self.boxes[0].get(a)) if len(self.boxes) == 1 else np.ones(size)
        finest, *coarser = (self._columns(i, a, share) for i in range(len(self.levels)))
        named = tidied(dict(zip((field.name for field in fields(Summary)), finest, strict=False)))
        coarse = {"coarser_estimates": np.array([c[1] for c in coarser]), "coarser_spreads": np.array([c[9] for c in coarser])}
        bases = base_noise.noisy_bases(self.view.blocks.bases)
        functions = [{b: code_shares(schema, b, condition) for b, condition in box.items()} for box in self.boxes if bases]
        return Summary(**named, **coarse, base_variance=base_noise.of_groups(bases, functions, [None] * len(functions), [a], schema.sizes))

    def _columns(self, i: int, a: int, share: Floats) -> Floats:
        """Columns of a summary, shape (10, size), from the blocks of one level, part by part."""
        from hdpview.query import base_kernels

        level, found = self.levels[i], np.zeros((10, len(share)))
        noisy = self.view.blocks.noisy_counts.astype(np.float64) if i == 0 else level.counts
        for within in level.within:
            joint, touched, full = self.joints[within]
            base, out, here = within.base, np.zeros_like(found), slice(within.first, within.last)
            first = sum(base.n_bins[:a])
            bins = joint[:, first : first + base.n_bins[a]], touched, full, *within.ranges[a], base.bin_starts[a], base.running[a]
            base_kernels.histogram(*bins, share, level.counts[here], noisy[here], FULL, out)
            largest = np.maximum(found[4], out[4])
            found += out
            found[4] = largest
        return found


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
