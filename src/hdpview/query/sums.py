"""Sums of values over records: like counts, with each code weighted by the value it stands for.

A block gives its count times the mean value of those of its cells that are asked for. What a record adds is
known only to lie between
the least and the greatest value in its block, or to be 0 where it may lie outside the question: this bounds
    the guaranteed
interval. A count is a sum of ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.domain import Attribute, Integer, Ordered, Schema
from hdpview.errors import QueryError
from hdpview.query import base_noise
from hdpview.query.boxes import Box
from hdpview.query.cover import Column, Cover, covers
from hdpview.query.grouped import Shares, code_classes, code_shares, shares_of_levels
from hdpview.query.sum_summary import SumSummary
from hdpview.view.blocks import Blocks, Level

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Values:
    """What each code of an attribute stands for, shape (size,): its mean value, and the least and greatest
    value in its bin.

    attribute: its number; None for a constant, where the arrays have shape (1,).
    """

    attribute: int | None
    mean: Floats
    least: Floats
    greatest: Floats

    @classmethod
    def constant(cls, value: float) -> Values:
        number = np.array([float(value)])
        return cls(None, number, number, number)


class Part(NamedTuple):
    """Records in a box, each counted with its value."""

    box: Box
    values: Values


def bin_values(attribute: Attribute, a: int) -> Values:
    """Values of the codes of a number, a datetime (microseconds from 1970) or a truth (0 and 1): bins stand
    for their middle.
    """
    if attribute.kind == "boolean":
        mean = least = greatest = np.array([0.0, 1.0])
    elif isinstance(attribute, Ordered):
        edges = attribute.edges.astype(np.float64)
        least, greatest = edges[:-1], edges[1:] - attribute.whole
        mean = least if isinstance(attribute, Integer) and attribute.every == 1 else (least + greatest) / 2
    else:
        raise QueryError(
            f"{attribute.name!r} has no numbers to add up. Count its values: SELECT {attribute.name}, COUNT(*) … GROUP BY 1."
        )
    null = np.zeros(int(attribute.nullable))
    return Values(a, *(np.concatenate([values, null]) for values in (mean, least, greatest)))


class _Weights(NamedTuple):
    """Per block: value and squared value of a record, share of records asked for, and bounds of what one may
    add.
    """

    value: Floats
    square: Floats
    share: Floats
    least: Floats
    greatest: Floats


def summarise_sums(
    blocks: Blocks,
    schema: Schema,
    questions: Sequence[Sequence[Part]],
    shares: Sequence[Shares] | None = None,
) -> SumSummary:
    """Sums of many questions, each a list of disjoint parts. `shares`: memories to use, where batches have
    conditions in common.
    """
    unit = _unit(part for question in questions for part in question)
    finest, *coarser = blocks.levels
    additive, largest = np.zeros((len(questions), _N_ADDITIVE)), np.zeros((len(questions), 3))
    of_coarser = np.zeros((len(coarser), len(questions), 2))
    shares = shares or shares_of_levels(blocks, schema)
    for q, question in enumerate(questions):
        weights = _weights(shares[0], question, np.ones(len(question)), None, unit)
        columns = [column.sum() for column, _ in _contributions(weights, blocks.noisy_counts, finest.counts)]
        additive[q] = [*columns, _spread(weights) @ finest.counts]
        largest[q] = [np.abs(w).max() for w in (weights.value, weights.least, weights.greatest)]
        for i, level in enumerate(coarser):
            of_level = _weights(shares[i + 1], question, np.ones(len(question)), None, unit)
            of_coarser[i, q] = of_level.value @ level.counts, _spread(of_level) @ level.counts
    bases = base_noise.noisy_bases(blocks)
    of_base = [
        base_noise.of_functions(bases, *_functions(schema, question if bases else (), unit))
        for question in questions
    ]
    told = base_noise.OfBase(*np.array(of_base).reshape(-1, 4).T)
    return _summary(additive.T, largest.T, of_coarser, told, unit, _non_negative(questions))


def summarise_group_sums(
    blocks: Blocks, schema: Schema, parts: Sequence[Part], attributes: Sequence[int]
) -> SumSummary | None:
    """Sums in every group of codes of `attributes`, in code order; None where groups have to be asked one by
    one.
    """
    boxes = [part.box for part in parts]
    classes = code_classes(schema, boxes, attributes)
    if classes is None or any(part.values.attribute in attributes for part in parts):
        return None
    unit = _unit(parts)
    finest, *coarser = blocks.levels
    n_cells = math.prod(schema.sizes[a] for a in attributes)
    additive, largest = np.zeros((_N_ADDITIVE, n_cells)), np.zeros((3, n_cells))
    of_coarser = np.zeros((len(coarser), n_cells, 2))
    for cover in covers(finest, schema.sizes, attributes):
        noisy, counts, shares = (
            blocks.noisy_counts[cover.block],
            finest.counts[cover.block],
            Shares(finest, schema),
        )
        for one in classes:
            cells = slice(None) if one.cells is None else one.cells
            weights = _weights(shares, parts, one.coefficients, cover, unit)
            additive[:, cells] += _painted(cover, weights, counts, _contributions(weights, noisy, counts))[
                :, cells
            ]
            for row, column, power in zip(
                largest, (weights.value, weights.least, weights.greatest), (1.0, 0.0, 0.0), strict=True
            ):
                row[cells] = np.maximum(row[cells], cover.maxima(np.abs(column), power)[cells])
    for out, level in zip(of_coarser, coarser, strict=True):
        for cover in covers(level, schema.sizes, attributes):
            counts, shares = level.counts[cover.block], Shares(level, schema)
            for one in classes:
                cells = slice(None) if one.cells is None else one.cells
                weights = _weights(shares, parts, one.coefficients, cover, unit)
                out[cells] += _painted(cover, weights, counts, [(weights.value * counts, 1.0)])[:, cells].T
    for squares, fourths, most in ((2, 3, 0), (5, 6, 1), (8, 9, 2)):  # running sums leave rounding behind
        additive[squares] = np.maximum(additive[squares], largest[most] ** 2)
        additive[fourths] = np.clip(
            additive[fourths], largest[most] ** 4, additive[squares] * largest[most] ** 2
        )
    bases = base_noise.noisy_bases(blocks)
    of_base = base_noise.of_groups(
        bases, *_functions(schema, parts if bases else (), unit), attributes, schema.sizes
    )
    return _summary(additive, largest, of_coarser, of_base, unit, _non_negative([parts]))


def _functions(
    schema: Schema, parts: Sequence[Part], unit: float
) -> tuple[list[dict[int, Floats]], list[int | None]]:
    """Parts as functions of single attributes, values in units of `unit`, and which attribute has the
    values.
    """
    found = []
    for part in parts:
        functions = {a: code_shares(schema, a, condition) for a, condition in part.box.items()}
        a, value = part.values.attribute, part.values.mean / unit
        if a is not None:
            functions[a] = functions.get(a, np.ones(len(value))) * value
        elif functions:  # a constant is a factor of any one of them
            functions = {**functions, (first := next(iter(functions))): functions[first] * value}
        found.append(functions)
    return found, [part.values.attribute for part in parts]


_N_ADDITIVE = 12


def _contributions(of: _Weights, noisy_counts: NDArray[np.int64], counts: Floats) -> list[Column]:
    """What each block adds to the sums of a `SumSummary`, in the order that `_summary` takes them, but for
    the spread.
    """
    square, least, greatest = of.value**2, of.least**2, of.greatest**2
    columns = [(of.value * noisy_counts, 1.0), (of.value * counts, 1.0), (square, 2.0), (square**2, 4.0)]
    bounds = [of.least * noisy_counts, least, least**2, of.greatest * noisy_counts, greatest, greatest**2]
    return [*columns, *((column, 0.0) for column in bounds), (of.share * counts, 1.0)]


def _painted(cover: Cover, of: _Weights, counts: Floats, columns: list[Column]) -> Floats:
    """Sums of columns in each group, and the spread, shape (n_columns + 1, n_groups)."""
    if cover.within is None:
        return cover.sums([*columns, (_spread(of) * counts, 0.0)])
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(of.square > 0, of.value**2 / of.square, 0.0)
    return np.concatenate([cover.sums(columns), cover.spreads(of.square, ratios, counts)[None]])


def _spread(of: _Weights) -> Floats:
    """How much a block may be misjudged: the ¾ power of the variance of what a record in it adds, in units of
    the largest value.

    For counts, values 0 and 1, this is the (w·(1 − w))^¾ of `summary.spread_weights`.
    """
    variance = of.square - of.value**2
    return np.where(variance > 1e-12, np.maximum(variance, 0.0), 0.0) ** 0.75


def _weights(
    shares: Shares, parts: Sequence[Part], coefficients: Floats, cover: Cover | None, unit: float
) -> _Weights:
    """Weights of blocks, values in units of `unit`. With a cover: of its rectangles, per shape of a group,
    bounds aside.
    """
    n = len(shares.level.counts if cover is None else cover.block)
    value, square, asked, full = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n, dtype=bool)
    least, greatest = np.full(n, np.inf), np.full(n, -np.inf)
    for part, coefficient in zip(parts, coefficients, strict=True):
        if not coefficient:
            continue
        (mean, mean_square, here, low, high), covered = _of_part(shares, part, cover, unit)
        value += coefficient * mean
        square += coefficient * mean_square
        asked += coefficient * here
        full |= covered & (coefficient == 1.0)
        least = np.where(here > 0, np.minimum(least, low), least)
        greatest = np.where(here > 0, np.maximum(greatest, high), greatest)
    touched = asked > 0
    least, greatest = np.where(touched, least, 0.0), np.where(touched, greatest, 0.0)
    least, greatest = (
        np.where(full, least, np.minimum(least, 0.0)),
        np.where(full, greatest, np.maximum(greatest, 0.0)),
    )
    return _Weights(value, square, asked, least, greatest)


def _of_part(
    shares: Shares, part: Part, cover: Cover | None, unit: float
) -> tuple[_Weights, NDArray[np.bool_]]:
    """What one part adds to the weights, with bounds of its values in each block, and whether it covers the
    block in one group.
    """
    values, a = part.values, part.values.attribute
    here, covered = shares.in_blocks(part.box) if cover is None else shares.in_cover(cover, part.box)
    if cover is not None:
        covered = covered & cover.single
    if a is None:
        mean, least, greatest = (
            float(column[0]) / unit for column in (values.mean, values.least, values.greatest)
        )
        return _Weights(
            here * mean, here * mean**2, here, np.full_like(here, least), np.full_like(here, greatest)
        ), covered
    of_code, mean_of_code = code_shares(shares.schema, a, part.box.get(a)), values.mean / unit
    mean_value, mean_square = shares.expected(
        part.box, a, (of_code * mean_of_code, of_code * mean_of_code**2), cover
    )
    low, high = _bounds(shares.level, a, of_code > 0, values, unit)
    bounds = (low, high) if cover is None else (low[cover.block], high[cover.block])
    return _Weights(mean_value, mean_square, here, *bounds), covered


def _bounds(
    level: Level, a: int, asked: NDArray[np.bool_], values: Values, unit: float
) -> tuple[Floats, Floats]:
    """Least and greatest value among the codes of each block that are asked for."""
    ends = np.stack([level.lower[a], level.upper[a]], axis=1).reshape(-1)
    least = np.append(np.where(asked, values.least / unit, np.inf), np.inf)
    greatest = np.append(np.where(asked, values.greatest / unit, -np.inf), -np.inf)
    return np.minimum.reduceat(least, ends)[::2], np.maximum.reduceat(greatest, ends)[::2]


def _unit(parts: Iterable[Part]) -> float:
    """A power of two near the largest value: powers of values stay within range, and whole numbers stay
    exact.
    """
    sizes = [
        float(np.abs(values).max()) for part in parts for values in (part.values.least, part.values.greatest)
    ]
    largest = max(sizes, default=1.0)
    return 2.0 ** math.ceil(math.log2(largest)) if largest > 0 else 1.0


def _non_negative(questions: Sequence[Sequence[Part]]) -> bool:
    return all(bool((part.values.least >= 0).all()) for question in questions for part in question)


def _summary(
    additive: Floats,
    largest: Floats,
    of_coarser: Floats,
    of_base: base_noise.OfBase,
    unit: float,
    non_negative: bool,
) -> SumSummary:
    (
        raw,
        consistent,
        squares,
        fourths,
        least,
        least2,
        least4,
        greatest,
        greatest2,
        greatest4,
        n_records,
        spread,
    ) = additive
    return SumSummary(
        raw=raw * unit,
        consistent=consistent * unit,
        squares=squares * unit**2,
        fourths=fourths * unit**4,
        largest=largest[0] * unit,
        full_sum=least * unit,
        n_full=least2 * unit**2,
        touched_sum=greatest * unit,
        n_touched=greatest2 * unit**2,
        spread=np.maximum(spread, 0.0) * unit,
        coarser_estimates=of_coarser[..., 0] * unit,
        coarser_spreads=np.maximum(of_coarser[..., 1], 0.0) * unit,
        **of_base.scaled(unit)._asdict(),
        least_fourths=least4 * unit**4,
        least_largest=largest[1] * unit,
        greatest_fourths=greatest4 * unit**4,
        greatest_largest=largest[2] * unit,
        n_records=n_records,
        non_negative=non_negative,
    )
