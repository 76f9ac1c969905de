"""Errors of answers from blocks: noise on counts, and records spread unevenly inside blocks.

The weight of a block in a quantity is the mean of the quantity over the block's cells, so the variance of
noise is ∝ the sum of squared weights. If a question cuts through a block, a record there may count or not:
the spread is the standard deviation of its contribution, summed over the records of all blocks, plus records
that noise may hide in one of them. Uneven blocks add a multiple of the spread as error, which `Quality` gives
per number of attributes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.domain import Schema
from hdpview.query.bounds.noise import NoiseLaw
from hdpview.query.estimate.estimates import function_means, grid_terms, sums_over_components, term_means
from hdpview.query.question.batch import Batch, Grids, pack
from hdpview.query.question.quantities import Quantity, product
from hdpview.view.blocks import Blocks

Floats = NDArray[np.float64]
MAX_ARRAY_SIZE = 4_000_000  # maximum size of an array of quantities × blocks
_LEAST_SHARE = 1e-12  # of a block; smaller shares do not increase the error


class BlockSums(NamedTuple):
    """Sums over blocks per quantity, shape (n,) each.

    raw, estimate: sums of weights times noisy counts, and times consistent counts. squares, fourths: sums of
        the weights' squares and fourth powers. largest: the largest weight. spread: see above.
    """

    raw: Floats
    estimate: Floats
    squares: Floats
    fourths: Floats
    largest: Floats
    spread: Floats


def block_sums(blocks: Blocks, asked: Batch | Grids) -> BlockSums:
    """The sums for every quantity."""
    if isinstance(asked, Grids):
        grids = [_grid_sums(blocks, asked, attributes) for attributes in asked.attributes]
        return BlockSums(*map(np.concatenate, zip(*grids, strict=True)))
    sums = BlockSums(*np.zeros((6, len(asked))))
    counts = np.stack([blocks.noisy_counts.astype(np.float64), blocks.weight], axis=1)
    for quantities, weight, square in _weights(blocks, asked):
        squares = weight**2
        sums.raw[quantities], sums.estimate[quantities] = (weight @ counts).T
        sums.squares[quantities] = squares.sum(axis=1)
        sums.fourths[quantities] = np.einsum("nb,nb->n", squares, squares)
        sums.largest[quantities] = np.maximum(weight.max(axis=1), -weight.min(axis=1))
        sums.spread[quantities] = _spread(blocks, cut_deviation(weight, square))
    return sums


def _weights(blocks: Blocks, batch: Batch) -> Iterator[tuple[slice, Floats, Floats]]:
    """Means and mean squares of quantities in blocks, in chunks, shape (n_quantities, n_blocks) each."""
    squares = None if batch.squared is batch else term_means(blocks, batch.squared)
    for quantities, piece, means in term_means(blocks, batch):
        weight = _by_quantity(piece, means)
        yield quantities, weight, weight if squares is None else _by_quantity(piece, next(squares)[2])


def _by_quantity(batch: Batch, of_terms: Floats) -> Floats:
    """Sums of the rows of each quantity, shape (n, n_blocks)."""
    if batch.n_terms == batch.n and (batch.quantity == np.arange(batch.n)).all():
        return of_terms
    sums = np.zeros((batch.n, of_terms.shape[1]))
    np.add.at(sums, batch.quantity, of_terms)
    return sums


def _variance(weight: Floats, square: Floats) -> Floats:
    """Variance of a record's contribution per block, with rounding errors in fully covered blocks removed."""
    variance = square - weight**2
    return np.where(variance > 1e-12 * square, variance, 0.0)


def cut_deviation(weight: Floats, square: Floats) -> Floats:
    """The error of a record's contribution per block.

    It is the standard deviation, increased if a question covers a small share of a block: populated cells
    hold far more records than an even spread would put there.
    """
    variance = _variance(weight, square)
    # Most blocks lie inside a question or outside it; computing only the others is faster.
    cut, deviations = variance > 0.0, np.zeros(variance.shape)
    weight, square = weight[cut], square[cut]
    share = np.clip(weight**2 / square, 0.0, 1.0)
    unlike = np.maximum(share * (1.0 - share), _LEAST_SHARE) ** -0.375
    deviations[cut] = np.sqrt(variance[cut]) * unlike
    return deviations


def _spread(blocks: Blocks, deviation: Floats) -> Floats:
    """Error from records of all blocks and those that noise hides in one. deviation: (…, n_blocks)."""
    spread: Floats = deviation @ blocks.weight + hidden_records(blocks) * deviation.max(axis=-1)
    return spread


def hidden_records(blocks: Blocks) -> float:
    """Number of records that noise may hide in one block: its standard deviation."""
    return math.sqrt(NoiseLaw(blocks.noise_scale).variance)


def block_covariances(
    blocks: Blocks, quantities: Sequence[Sequence[Quantity]], factor: Floats, schema: Schema
) -> Floats:
    """Expected products of the errors of m quantities in each of n groups, shape (m, m, n).

    quantities[i][g] is the i-th of group g; factor: of its spread, shape (m, n). Noise is shared; spreads are
    as correlated as a record's contributions to two quantities inside blocks.
    """
    m, n = len(quantities), len(quantities[0])
    step = max(1, MAX_ARRAY_SIZE // (len(blocks) * m))
    products = [np.zeros((m, m, 0))]
    for start in range(0, n, step):
        chunk = [own[start : start + step] for own in quantities]
        products.append(_covariances(blocks, chunk, factor[:, start : start + step], schema))
    return np.concatenate(products, axis=2)


def _covariances(
    blocks: Blocks, quantities: Sequence[Sequence[Quantity]], factor: Floats, schema: Schema
) -> Floats:
    m, n = len(quantities), len(quantities[0])
    weight, square = np.zeros((2, m, n, len(blocks)))
    for i, own in enumerate(quantities):
        for some, weights, squares in _weights(blocks, pack(own, schema)):
            weight[i, some], square[i, some] = weights, squares
    # Records that noise hides may lie in any block.
    records = blocks.weight + hidden_records(blocks) / len(blocks)
    variance = _variance(weight, square) @ records
    size = factor * _spread(blocks, cut_deviation(weight, square))
    products: Floats = np.einsum("iqb,jqb->ijq", weight, weight) * NoiseLaw(blocks.noise_scale).variance
    for i in range(m):
        products[i, i] += size[i] ** 2
        for j in range(i):
            both = [product(x, y) for x, y in zip(quantities[i], quantities[j], strict=True)]
            joint = sums_over_components(blocks, pack(both, schema), records)
            together = joint - (weight[i] * weight[j]) @ records
            scale = np.sqrt(variance[i] * variance[j])
            correlation = np.divide(together, scale, out=np.zeros(n), where=scale > 0)
            products[[i, j], [j, i]] += size[i] * size[j] * np.clip(correlation, -1.0, 1.0)
    return products


def _grid_sums(blocks: Blocks, asked: Grids, attributes: Sequence[int]) -> BlockSums:
    """The sums of a count in every cell of a grid, flat, in code order. If several terms share a cell,
    squares, largest weights and spreads are upper bounds.
    """
    rectangles, share = blocks.rectangles(attributes), blocks.share_of_cell(attributes)
    noisy, shape = blocks.noisy_counts.astype(np.float64), asked.shape(attributes)
    raw, estimate, roots, largest, spread, fourth_roots = np.zeros((6, int(np.prod(shape))))
    for on_axes, mean in grid_terms(asked.whole, function_means(blocks, asked.whole), attributes, shape):
        weight = mean * share
        # The part of each cell that the question covers: if it is cut, a record there may count or not.
        part = np.ones(len(raw)) if on_axes is None else on_axes.reshape(-1)
        sums = rectangles.sums(np.stack([weight * noisy, weight * blocks.weight, weight**2, weight**4]))
        most = rectangles.maxima(weight)
        raw += sums[0] * part
        estimate += sums[1] * part
        roots += np.sqrt(np.maximum(sums[2], most**2)) * part
        fourth_roots += np.maximum(sums[3], most**4) ** 0.25 * part
        largest += most * part
        for own in np.unique(part[part > 0.0]):
            deviation = cut_deviation(weight, weight / own)
            here = np.maximum(rectangles.sums((deviation * blocks.weight)[None])[0], 0.0)
            here += hidden_records(blocks) * rectangles.maxima(deviation)
            spread += np.where(part == own, here * own, 0.0)
    return BlockSums(raw, estimate, roots**2, fourth_roots**4, largest, spread)
