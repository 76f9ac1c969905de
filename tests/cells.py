"""Views made by hand: of every occupied cell of a small table, of random cuts, and random mixtures."""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hdpview.domain import Schema
from hdpview.domain.table_shapes import TableShape
from hdpview.pview import PView
from hdpview.view.blocks import Blocks
from hdpview.view.contents import quantised
from hdpview.view.data import ViewPart
from hdpview.view.manifest import Manifest, Spending
from hdpview.view.mixture import Mixture
from hdpview.view.quality import prior_quality
from hdpview.view.released_tables import Table

TINY_NOISE = 1e-3  # the discrete Laplace law of this scale is 0 but for one draw in e^1000


def cell_blocks(codes: NDArray[np.int64], sizes: tuple[int, ...], noise_scale: float = TINY_NOISE) -> Blocks:
    """Blocks of the rows' codes, (n_rows, n_attributes): halve the longest side until a block is empty or one
    cell."""
    leaves: list[tuple[NDArray[np.int32], NDArray[np.int32], int, int]] = []

    def halve(
        lower: NDArray[np.int32], upper: NDArray[np.int32], rows: NDArray[np.int64], depth: int
    ) -> None:
        widest = int(np.argmax(upper - lower))
        if not len(rows) or upper[widest] - lower[widest] == 1:
            leaves.append((lower, upper, len(rows), depth))
            return
        middle = (int(lower[widest]) + int(upper[widest])) // 2
        left, right = upper.copy(), lower.copy()
        left[widest] = right[widest] = middle
        below = rows[:, widest] < middle
        halve(lower, left, rows[below], depth + 1)
        halve(right, upper, rows[~below], depth + 1)

    halve(np.zeros(len(sizes), np.int32), np.array(sizes, np.int32), codes, 1)
    lower, upper, counts, depth = zip(*leaves, strict=True)
    return Blocks(
        np.array(lower), np.array(upper), np.array(counts, np.int64), np.array(depth, np.int32), noise_scale
    )


def noiseless_view(schema: Schema, codes: NDArray[np.int64], noise_scale: float = TINY_NOISE) -> PView:
    """A view that knows the table cell by cell."""
    blocks = cell_blocks(codes, schema.sizes, noise_scale)
    return view_of(schema, blocks, "cells", ("the counts have no noise",))


def view_of(
    schema: Schema,
    components: Blocks | Mixture,
    method: str = "hdpview",
    why: tuple[str, ...] = (),
    tables: tuple[Table, ...] = (),
) -> PView:
    """A view of these components, as if a method had made it with a budget of 1. why: reasons it is not
    private."""
    spending = (Spending("noise on counts", Fraction(1), 1),)
    manifest = Manifest(schema, method, Fraction(1), spending, {}, {}, "0", not_private_because=why)
    return PView(manifest, (ViewPart(components, prior_quality(components, tables), tables),))


def noisy_blocks(sizes: tuple[int, ...], seed: int, n_cuts: int = 40, noise_scale: float = 10.0) -> Blocks:
    """Random cuts with random counts, negative ones too."""
    rng = np.random.default_rng(seed)
    leaves = [(np.zeros(len(sizes), np.int32), np.array(sizes, np.int32), 1)]
    for _ in range(n_cuts):
        i, a = int(rng.integers(len(leaves))), int(rng.integers(len(sizes)))
        lower, upper, depth = leaves[i]
        if upper[a] - lower[a] > 1:
            left, right = upper.copy(), lower.copy()
            left[a] = right[a] = int(rng.integers(lower[a] + 1, upper[a]))
            leaves[i : i + 1] = [(lower, left, depth + 1), (right, upper, depth + 1)]
    lower, upper, depth = (np.array(column) for column in zip(*leaves, strict=True))
    counts = rng.integers(-40, 160, len(leaves)) * rng.integers(0, 2, len(leaves))
    return Blocks(lower, upper, counts, depth.astype(np.int32), noise_scale)


def noisy_view(schema: Schema, seed: int, n_cuts: int = 40, noise_scale: float = 10.0) -> PView:
    return view_of(schema, noisy_blocks(schema.sizes, seed, n_cuts, noise_scale))


def random_mixture(sizes: tuple[int, ...], seed: int, n_components: int = 5, n_members: int = 2) -> Mixture:
    """Random components over random bins; bins are not runs of codes."""
    rng = np.random.default_rng(seed)
    bins, shapes, shares = [], [], []
    n = n_components * n_members
    for size in sizes:
        n_bins = int(rng.integers(1, size + 1))
        bin_of_code = np.concatenate([np.arange(n_bins), rng.integers(0, n_bins, size - n_bins)]).astype(
            np.int32
        )
        rng.shuffle(bin_of_code)
        weight = rng.random(size) + 0.05
        bins.append(bin_of_code)
        shapes.append(weight / np.bincount(bin_of_code, weight)[bin_of_code])
        share = rng.random((n_bins, n)) ** 4 + 1e-3
        shares.append(quantised(share / share.sum(axis=0)))
    member = np.repeat(np.arange(n_members), n_components).astype(np.int32)
    weight = rng.random(n) * 200
    for each in range(n_members):
        weight[member == each] *= 1000.0 / n_members / weight[member == each].sum()
    return Mixture(weight, tuple(bins), tuple(shapes), tuple(shares), member)


def tables_of(mixture: Mixture, seed: int, scale: float = 5.0, *, fitted: bool = False) -> tuple[Table, ...]:
    """Released tables as a build would have made them: a histogram per attribute, and tables of some pairs.

    fitted: whether their noise happens to be 0, so that the model says what they say."""
    rng = np.random.default_rng(seed)
    sizes = mixture.sizes
    sets = [(a,) for a in range(len(sizes))] + [(a, a + 1) for a in range(0, len(sizes) - 1, 2)]
    tables = []
    for attributes in sets:
        shape = TableShape.of_codes(attributes, sizes)
        counts = np.rint(
            mixture.grid(attributes, mixture.weight) + rng.laplace(0, scale, shape.shape) * (not fitted)
        )
        tables.append(Table(shape, counts.astype(np.int64), "laplace", scale))
    return tuple(tables)


def mixture_view(schema: Schema, seed: int, *, fitted: bool = False) -> PView:
    """A view of a random mixture with its tables. fitted: as for `tables_of`."""
    mixture = random_mixture(schema.sizes, seed)
    return view_of(schema, mixture, "mixture", tables=tables_of(mixture, seed, fitted=fitted))


def cell_counts(components: Blocks | Mixture, weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Records in each cell by definition, cell by cell: an oracle that is slow and obviously right."""
    records = np.zeros(components.sizes)
    for cell in np.ndindex(*components.sizes):
        for z in range(len(components)):
            share = 1.0
            for a, code in enumerate(cell):
                if isinstance(components, Blocks):
                    inside = components.lower[z, a] <= code < components.upper[z, a]
                    share *= inside / (components.upper[z, a] - components.lower[z, a])
                else:
                    share *= (
                        components.share[a][components.bin_of_code[a][code], z]
                        * components.within_bin_share[a][code]
                    )
            records[cell] += weight[z] * share
    return records
