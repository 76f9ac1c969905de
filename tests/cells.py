"""A view without noise: every occupied cell of a small table is a block of its own, found by bisection as a
build would.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hdpview.domain import Schema
from hdpview.pview import PView
from hdpview.view.base import Base
from hdpview.view.blocks import Blocks
from hdpview.view.manifest import Manifest, Spending

TINY_NOISE = 1e-3  # the discrete Laplace law of this scale is 0 but for one draw in e^1000


def cell_blocks(codes: NDArray[np.int64], sizes: tuple[int, ...]) -> Blocks:
    """Blocks of the rows' codes, shape (n_rows, n_attributes): halve the longest side until a block is empty
    or a single cell.
    """
    found: list[tuple[NDArray[np.int32], NDArray[np.int32], int, int]] = []

    def halve(
        lower: NDArray[np.int32], upper: NDArray[np.int32], rows: NDArray[np.int64], depth: int
    ) -> None:
        widest = int(np.argmax(upper - lower))
        if not len(rows) or upper[widest] - lower[widest] == 1:
            found.append((lower, upper, len(rows), depth))
            return
        middle = (int(lower[widest]) + int(upper[widest])) // 2
        left, right = upper.copy(), lower.copy()
        left[widest] = right[widest] = middle
        below = rows[:, widest] < middle
        halve(lower, left, rows[below], depth + 1)
        halve(right, upper, rows[~below], depth + 1)

    halve(np.zeros(len(sizes), np.int32), np.array(sizes, np.int32), codes, 1)
    lower, upper, counts, depth = zip(*found, strict=True)
    return Blocks(np.array(lower), np.array(upper), np.array(counts, np.int64), np.array(depth, np.int32))


def noiseless_view(schema: Schema, codes: NDArray[np.int64], noise_scale: float = TINY_NOISE) -> PView:
    """A view that knows the table cell by cell."""
    return view_of(
        schema, cell_blocks(codes, schema.sizes), noise_scale, "cells", ("the counts have no noise",)
    )


def view_of(
    schema: Schema,
    blocks: Blocks,
    noise_scale: float = 10.0,
    method: str = "hdpview",
    why: tuple[str, ...] = (),
) -> PView:
    """A view of these blocks, as if a method had made it with a budget of 1. why: the reasons it is not
    private.
    """
    spending = (Spending("noise on counts", Fraction(1), 1),)
    return PView(
        Manifest(schema, method, Fraction(1), spending, noise_scale, {}, {}, "0", not_private_because=why),
        blocks,
    )


def noisy_view(schema: Schema, seed: int, n_cuts: int = 40, noise_scale: float = 10.0) -> PView:
    """A view of random cuts with random counts, negative ones too."""
    rng = np.random.default_rng(seed)
    leaves = [(np.zeros(len(schema), np.int32), np.array(schema.sizes, np.int32), 1)]
    for _ in range(n_cuts):
        i, a = int(rng.integers(len(leaves))), int(rng.integers(len(schema)))
        lower, upper, depth = leaves[i]
        if upper[a] - lower[a] > 1:
            left, right = upper.copy(), lower.copy()
            left[a] = right[a] = int(rng.integers(lower[a] + 1, upper[a]))
            leaves[i : i + 1] = [(lower, left, depth + 1), (right, upper, depth + 1)]
    lower, upper, depth = (np.array(column) for column in zip(*leaves, strict=True))
    counts = rng.integers(-40, 160, len(leaves)) * rng.integers(0, 2, len(leaves))
    manifest = noiseless_view(schema, np.zeros((0, len(schema)), np.int64), noise_scale).manifest
    return PView(manifest, Blocks(lower, upper, counts, depth.astype(np.int32)))


def random_base(sizes: tuple[int, ...], rng: np.random.Generator) -> Base:
    """A random forest over random bins, with random shapes and tables; noise on its histograms, too."""
    n, order, parent = len(sizes), rng.permutation(len(sizes)), [-1] * len(sizes)
    for i in range(1, n):
        parent[order[i]] = int(order[rng.integers(i)]) if rng.random() < 0.8 else -1
    bins = [np.cumsum(np.append(0, rng.random(size - 1) < 0.4)).astype(np.int32) for size in sizes]
    weights = [rng.random(size) ** 3 + 0.01 for size in sizes]
    shape = [
        weight / np.bincount(of_code, weight)[of_code] for weight, of_code in zip(weights, bins, strict=True)
    ]
    tables = [
        rng.random((1 if parent[a] < 0 else bins[parent[a]][-1] + 1, bins[a][-1] + 1)) ** 3 + 0.01
        for a in range(n)
    ]
    tables = [table / table.sum(axis=1, keepdims=True) for table in tables]
    return Base(tuple(bins), tuple(shape), tuple(parent), tuple(tables), rng.random(n) * 9)


def cell_masses(base: Base) -> NDArray[np.float64]:
    """P(cell) by its definition, cell by cell, shape (size of each attribute)."""
    found = np.ones(base.sizes)
    for cell in np.ndindex(*base.sizes):
        for a, code in enumerate(cell):
            row = 0 if base.parent[a] < 0 else base.bin_of_code[base.parent[a]][cell[base.parent[a]]]
            found[cell] *= base.table[a][row, base.bin_of_code[a][code]] * base.shape[a][code]
    return found


def cell_counts(blocks: Blocks, counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Records in each cell by definition: every block's count, spread as its part's base says, or evenly."""
    sizes = tuple(blocks.upper.max(axis=0).tolist())
    masses = [np.ones(sizes) if base is None else cell_masses(base) for base in blocks.base_of_parts]
    found = np.zeros(sizes)
    for lower, upper, part, count in zip(blocks.lower, blocks.upper, blocks.parts, counts, strict=True):
        inside = tuple(map(slice, lower.tolist(), upper.tolist()))
        found[inside] += count * masses[part][inside] / masses[part][inside].sum()
    return found


def based_view(schema: Schema, seed: int, n_cuts: int = 12, fitted: bool = True) -> PView:
    """The blocks of `noisy_view` over a random base."""
    view, rng = noisy_view(schema, seed, n_cuts), np.random.default_rng([seed, 1])
    blocks, base = view.blocks, random_base(schema.sizes, rng)
    counts = rng.random(len(blocks)) * 100 if fitted else None
    return PView(
        view.manifest,
        Blocks(blocks.lower, blocks.upper, blocks.noisy_counts, blocks.depth, base=base, fitted=counts),
    )
