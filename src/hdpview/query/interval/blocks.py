"""How far answers from blocks may be off: noise on counts, and records that lie unevenly inside blocks.

The weight of a block in a quantity is the mean of the quantity over the block's cells, so noise adds the sum
of the weights' squares. Where a question cuts through a block, a record there may count or not: the spread is
the standard deviation of what it adds, summed over the records of all blocks, and over as many more as noise
may hide in one of them. The error that uneven blocks add is a multiple of the spread, which `Quality` gives
per number of attributes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.domain import Schema
from hdpview.query.estimate.estimates import grid_terms, term_means
from hdpview.query.interval.noise import NoiseLaw
from hdpview.query.question.quantities import Batch, Part, Quantity, Values, pack, product
from hdpview.view.blocks import Blocks

Floats = NDArray[np.float64]
_AT_ONCE = 4_000_000  # numbers of an array of quantities × blocks
_LEAST_SHARE = 1e-12  # of a block: from there on less does not make an answer less sure


class BlockSums(NamedTuple):
    """Sums over blocks per quantity, shape (n,) each.

    raw, estimate: of weight times count, noisy and consistent. squares, fourths, largest: of the weights'
        squares and
    fourth powers, and the largest weight. spread: see above.
    """

    raw: Floats
    estimate: Floats
    squares: Floats
    fourths: Floats
    largest: Floats
    spread: Floats


def block_sums(blocks: Blocks, batch: Batch) -> BlockSums:
    """The sums for every quantity of a batch."""
    found = BlockSums(*np.zeros((6, len(batch))))
    noisy = blocks.noisy_counts.astype(np.float64)
    for quantities, weight, square in _weights(blocks, batch):
        squares = weight**2
        rows = (
            weight @ noisy,
            weight @ blocks.weight,
            squares.sum(axis=1),
            (squares**2).sum(axis=1),
            np.abs(weight).max(axis=1),
            _spread(blocks, _deviation(weight, square)),
        )
        for column, values in zip(found, rows, strict=True):
            column[quantities] = values
    return found


def _weights(blocks: Blocks, batch: Batch) -> Iterator[tuple[slice, Floats, Floats]]:
    """In pieces: means and mean squares of quantities in blocks, shape (n_quantities, n_blocks) each."""
    pieces = zip(term_means(blocks, batch), term_means(blocks, batch.squared), strict=True)
    for (quantities, piece, means), (_, _, squares) in pieces:
        yield quantities, _by_quantity(piece, means), _by_quantity(piece, squares)


def _by_quantity(batch: Batch, of_terms: Floats) -> Floats:
    """Sums of the rows of each quantity, shape (n, n_blocks)."""
    if batch.n_terms == batch.n and (batch.quantity == np.arange(batch.n)).all():
        return of_terms
    found = np.zeros((batch.n, of_terms.shape[1]))
    np.add.at(found, batch.quantity, of_terms)
    return found


def _variance(weight: Floats, square: Floats) -> Floats:
    """Of what a record of each block adds, without what rounding leaves where a block is covered whole."""
    variance = square - weight**2
    return np.where(variance > 1e-12 * square, variance, 0.0)


def _deviation(weight: Floats, square: Floats) -> Floats:
    """How far what a record of each block adds may be off.

    It is the standard deviation, times more where a question asks for a small share of a block: populated
    cells hold far more of it than an even spread would.
    """
    share = np.clip(np.divide(weight**2, square, out=np.zeros_like(square), where=square > 0), 0.0, 1.0)
    unlike = np.maximum(share * (1.0 - share), _LEAST_SHARE) ** -0.375
    found: Floats = np.sqrt(_variance(weight, square)) * unlike
    return found


def _spread(blocks: Blocks, deviation: Floats) -> Floats:
    """What records of all blocks, and those that noise hides in one, may add. Last axis of deviations:
    blocks.
    """
    found: Floats = deviation @ blocks.weight + _hidden(blocks) * deviation.max(axis=-1)
    return found


def _hidden(blocks: Blocks) -> float:
    """How many records noise may hide in one block: its standard deviation."""
    return math.sqrt(NoiseLaw(blocks.noise_scale).variance)


class Spreads(NamedTuple):
    """Of m quantities of each of n groups: shared noise Σ weights·weights, (m, m, n); spreads, (m, n);
    correlations of what a record adds to two of them inside blocks, (m, m, n).
    """

    squares: Floats
    spread: Floats
    correlation: Floats


def block_spreads(blocks: Blocks, quantities: Sequence[Sequence[Quantity]], schema: Schema) -> Spreads:
    """For errors of quantities that are combined: quantities[i][g] is the i-th of group g."""
    m, n = len(quantities), len(quantities[0])
    found = Spreads(np.zeros((m, m, n)), np.zeros((m, n)), np.zeros((m, m, n)))
    step = max(1, _AT_ONCE // (len(blocks) * m))
    for start in range(0, n, step):
        chunk = [each[start : start + step] for each in quantities]
        for column, values in zip(found, _spreads(blocks, chunk, schema), strict=True):
            column[..., start : start + step] = values
    return found


def _spreads(blocks: Blocks, quantities: Sequence[Sequence[Quantity]], schema: Schema) -> Spreads:
    m, n = len(quantities), len(quantities[0])
    weight, square = np.zeros((2, m, n, len(blocks)))
    for i, own in enumerate(quantities):
        for some, weights, squares in _weights(blocks, pack(own, schema)):
            weight[i, some], square[i, some] = weights, squares
    variance = _variance(weight, square) @ blocks.weight
    correlation = np.zeros((m, m, n))
    for i in range(m):
        correlation[i, i] = 1.0
        for j in range(i):
            both = [product(x, y) for x, y in zip(quantities[i], quantities[j], strict=True)]
            together = sums_over_blocks(blocks, pack(both, schema)) - (weight[i] * weight[j]) @ blocks.weight
            scale = np.sqrt(variance[i] * variance[j])
            ratio = np.divide(together, scale, out=np.zeros(n), where=scale > 0)
            correlation[i, j] = correlation[j, i] = np.clip(ratio, -1.0, 1.0)
    shared = np.einsum("iqb,jqb->ijq", weight, weight)
    return Spreads(shared, _spread(blocks, _deviation(weight, square)), correlation)


def sums_over_blocks(blocks: Blocks, batch: Batch) -> Floats:
    """The consistent estimate of each quantity, shape (n,)."""
    found = np.zeros(len(batch))
    for quantities, piece, means in term_means(blocks, batch):
        found[quantities] = piece.sums(means @ blocks.weight)
    return found


@dataclass(frozen=True, eq=False)
class _Cells:
    """A term over a grid: a factor per cell, and of each block in a cell the weight and the mean square.

    excess: per cell, how many times the square of its factor is the factor of its mean square: more than 1
        where the question cuts through the cell, so that a record there may count or not.
    """

    on_axes: Floats
    excess: Floats
    weight: Floats
    square: Floats


def grid_sums(blocks: Blocks, quantity: Quantity, attributes: Sequence[int], schema: Schema) -> BlockSums:
    """The sums in every cell of a grid, in code order, flat. Where several terms meet in a cell, squares,
    largest weights and spreads are bounded from above by those of the terms.
    """
    rectangles, share = blocks.rectangles(attributes), blocks.share_of_cell(attributes)
    noisy = blocks.noisy_counts.astype(np.float64)
    n_cells = int(np.prod(rectangles.shape))
    raw, estimate, roots, largest, spread, fourth_roots = np.zeros((6, n_cells))
    for term in _cells(blocks, quantity, attributes, schema, share):
        columns = [term.weight * noisy, term.weight * blocks.weight, term.weight**2, term.weight**4]
        sums = rectangles.sums(np.stack(columns))
        most = rectangles.maxima(np.abs(term.weight))
        size = np.abs(term.on_axes)
        raw += sums[0] * term.on_axes
        estimate += sums[1] * term.on_axes
        roots += np.sqrt(np.maximum(sums[2], most**2)) * size
        fourth_roots += np.maximum(sums[3], most**4) ** 0.25 * size
        largest += most * size
        for excess in np.unique(term.excess):
            deviation = _deviation(term.weight, excess * term.square)
            here = np.maximum(rectangles.sums((deviation * blocks.weight)[None])[0], 0.0)
            here += _hidden(blocks) * rectangles.maxima(deviation)
            spread += np.where(term.excess == excess, here * size, 0.0)
    return BlockSums(raw, estimate, roots**2, fourth_roots**4, largest, spread)


def _cells(
    blocks: Blocks, quantity: Quantity, attributes: Sequence[int], schema: Schema, share: Floats
) -> Iterator[_Cells]:
    squares: dict[int, Values] = {}
    squared = [
        Part(part.box, *(squares.setdefault(id(values), _squared(values)) for values in part[1:]))
        for part in quantity
    ]
    firsts = grid_terms(blocks, quantity, attributes, schema)
    seconds = grid_terms(blocks, squared, attributes, schema)
    n_cells = int(np.prod([schema.sizes[a] for a in attributes], dtype=np.float64))
    for (on_axes, mean), (squared_on_axes, square) in zip(firsts, seconds, strict=True):
        factor, of_square = (
            np.ones(n_cells) if each is None else each.reshape(-1) for each in (on_axes, squared_on_axes)
        )
        excess: Floats = np.divide(of_square, factor**2, out=np.ones(n_cells), where=factor != 0)
        yield _Cells(factor, excess.round(9), mean * share, square * share)


def _squared(values: Values) -> Values:
    return Values(values.attribute, values.mean**2, values.least, values.greatest)
