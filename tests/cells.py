"""A view without noise: every occupied cell of a small table is a block of its own, found by bisection as a build would."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hdpview.domain import Schema
from hdpview.pview import PView
from hdpview.view.blocks import Blocks
from hdpview.view.manifest import Manifest, Spending

TINY_NOISE = 1e-3  # the discrete Laplace law of this scale is 0 but for one draw in e^1000


def cell_blocks(codes: NDArray[np.int64], sizes: tuple[int, ...]) -> Blocks:
    """Blocks of the rows' codes, shape (n_rows, n_attributes): halve the longest side until a block is empty or a single cell."""
    found: list[tuple[NDArray[np.int32], NDArray[np.int32], int, int]] = []

    def halve(lower: NDArray[np.int32], upper: NDArray[np.int32], rows: NDArray[np.int64], depth: int) -> None:
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
    manifest = Manifest(
        schema=schema,
        method="cells",
        epsilon=Fraction(1),
        spending=(Spending("noise on counts", Fraction(1), 1),),
        noise_scale=noise_scale,
        settings={},
        parameters={},
        library_version="0",
        not_private_because=("the counts have no noise",),
    )
    return PView(manifest, cell_blocks(codes, schema.sizes))


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
