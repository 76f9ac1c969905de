"""The base measure: how records spread inside a block. Even for the paper's method; released by methods that
learn it.

A Markov forest over bins of the attributes, and a fixed shape inside each bin:

    P(cell) = Π_a table[a][bin of parent(a), bin of a] · shape[a][code of a]

An attribute without a parent is independent of all but those that depend on it. A block of S records holds
S·P(cell)/P(block) of them in a cell. Everything is computed by messages: one pass over the attributes,
children before their parents, tells the mass of a box; one pass back tells how it spreads over each
attribute's bins.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdpview.errors import ViewFileError

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

MAX_BINS = 256  # of one attribute
GRAIN = (
    2.0**44
    # shares of codes are multiples of 1/GRAIN: running sums over an attribute's bins, 2^52 grains at most,
    # are exact
)
_LEAST_SHAPE = 2.0**-40  # of a code in its bin; less is lifted to this
_LEAST_CHANCE = 1e-12  # of a bin given its parent's
_ROUNDING, _TOLERANCE = (
    1e-7,
    1e-6,
)  # sums off 1 by less are 1 but for rounding; by more than the second, something is wrong


@dataclass(frozen=True, eq=False)
class Base:
    """A distribution over the cells of a domain, positive everywhere. Attributes are numbered as in the
    schema.

    bin_of_code: per attribute, shape (size,): number of the bin of each code, rising from 0 in steps of 1:
        bins are runs of codes.
    shape: per attribute, shape (size,), positive: share of a bin's records at each of its codes; sums to 1
        over each bin.
    parent: per attribute, the number of the one it depends on, or −1.
    table: per attribute, shape (bins of its parent, or 1; its own bins), positive: chance of a bin given the
        parent's. Rows sum to 1.
    variance: shape (n_attributes,): of the noise in one code's count in the histograms behind the base; 0
        where unknown.
    """

    bin_of_code: tuple[Ints, ...]
    shape: tuple[Floats, ...]
    parent: tuple[int, ...]
    table: tuple[Floats, ...]
    variance: Floats | None = None

    def __post_init__(self) -> None:
        n = len(self.parent)
        if not n == len(self.bin_of_code) == len(self.shape) == len(self.table):
            raise _fault("its parts are of different lengths")
        bins = tuple(_checked_bins(bins) for bins in self.bin_of_code)
        object.__setattr__(self, "parent", tuple(int(parent) for parent in self.parent))
        object.__setattr__(self, "bin_of_code", bins)
        self._check_forest()
        n_rows = [1 if parent < 0 else int(bins[parent][-1]) + 1 for parent in self.parent]
        object.__setattr__(self, "shape", tuple(map(_checked_shape, self.shape, bins)))
        object.__setattr__(self, "table", tuple(map(_checked_table, self.table, n_rows, bins)))
        variance = np.zeros(n) if self.variance is None else np.array(self.variance, dtype=np.float64)
        if variance.shape != (n,) or not np.isfinite(variance).all() or (variance < 0).any():
            raise _fault("its variances are not a number of 0 or more per attribute")
        object.__setattr__(self, "variance", variance)
        arrays: list[NDArray[Any]] = [*self.bin_of_code, *self.shape, *self.table, variance]
        for array in arrays:
            array.setflags(write=False)

    def _check_forest(self) -> None:
        if any(not -1 <= parent < len(self.parent) for parent in self.parent):
            raise _fault("an attribute depends on one that is not there")
        if len(self.upward) < len(self.parent):  # from the roots, a circle cannot be reached
            raise _fault("its attributes depend on each other in a circle")

    @classmethod
    def product(cls, weights: Sequence[Floats], variance: Floats | None = None) -> Base:
        """Independent attributes. weights: per attribute, shape (size,), positive, in any unit."""
        shapes = tuple(np.asarray(weight, dtype=np.float64) / np.sum(weight) for weight in weights)
        bins, table = (
            tuple(np.zeros(len(shape), np.int32) for shape in shapes),
            tuple(np.ones((1, 1)) for _ in shapes),
        )
        return cls(bins, shapes, (-1,) * len(shapes), table, variance)

    @classmethod
    def even(cls, sizes: Sequence[int]) -> Base:
        """All cells alike: what a view without a base has."""
        return cls.product([np.ones(size) for size in sizes])

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(len(shape) for shape in self.shape)

    @property
    def n_bins(self) -> tuple[int, ...]:
        """Number of bins of each attribute."""
        return tuple(len(starts) - 1 for starts in self.bin_starts)

    @cached_property
    def bin_starts(self) -> tuple[Ints, ...]:
        """First code of each bin, and the size, shape (n_bins + 1,) per attribute."""
        return tuple(
            np.searchsorted(bins, np.arange(bins[-1] + 2)).astype(np.int32) for bins in self.bin_of_code
        )

    @cached_property
    def running(self) -> tuple[Floats, ...]:
        """Running sums of the shape over all codes, shape (size + 1,) per attribute; exact."""
        return tuple(np.concatenate([[0.0], np.cumsum(shape)]) for shape in self.shape)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Attributes that depend on each attribute."""
        found: list[list[int]] = [[] for _ in self.parent]
        for a, parent in enumerate(self.parent):
            if parent >= 0:
                found[parent].append(a)
        return tuple(map(tuple, found))

    @cached_property
    def upward(self) -> tuple[int, ...]:
        """All attributes, children before their parents."""
        found = [a for a, parent in enumerate(self.parent) if parent < 0]
        for a in found:
            found.extend(self.children[a])
        return tuple(reversed(found))

    def with_ancestors(self, attributes: Sequence[int]) -> list[int]:
        """These attributes and all that they depend on, children before their parents."""
        needed: set[int] = set()
        for a in attributes:
            while a >= 0 and a not in needed:
                needed.add(a)
                a = self.parent[a]
        return [a for a in self.upward if a in needed]

    def prefix(self, a: int, shares: Floats) -> Floats:
        """Running sums of a question's share of each code times the code's share of its bin, shape (size +
        1,); exact.

        shares: shape (size,), from 0 to 1. A code that is cut through, however unevenly, counts neither as
            covered nor as missed.
        """
        asked = np.rint(shares * self.shape[a] * GRAIN)
        cut = (shares > 0) & (shares < 1)
        asked = np.where(cut, np.clip(asked, 1.0, self.shape[a] * GRAIN - 1.0), asked)
        return np.concatenate([[0.0], np.cumsum(asked / GRAIN)])

    def in_bins(self, a: int, prefix: Floats, lower: NDArray[Any], upper: NDArray[Any]) -> Floats:
        """What ranges of codes of one attribute hold of a running sum over codes, bin by bin, shape (n,
        n_bins).

        prefix: shape (size + 1,). lower, upper: shape (n,), half-open.
        """
        borders = np.clip(self.bin_starts[a], lower[:, None], upper[:, None])
        found: Floats = np.diff(prefix[borders], axis=1)
        return found

    def masses(self, lower: NDArray[Any], upper: NDArray[Any]) -> tuple[Floats, list[Floats]]:
        """The logarithm of P(box), shape (n,), and how each box spreads over the bins of each attribute:
        shapes (n, n_bins), rows sum to 1.

        lower, upper: shape (n, n_attributes), half-open.
        """
        return self.passes(
            [self.in_bins(a, self.running[a], lower[:, a], upper[:, a]) for a in range(len(self.parent))]
        )

    def passes(self, in_bins: Sequence[Floats]) -> tuple[Floats, list[Floats]]:
        """`masses` of anything whose share of each bin of each attribute is known: in_bins, shapes (n,
        n_bins); 1 for all of a bin.

        One pass up the forest, one down. What holds nothing at all has the logarithm −∞, and rows of 0.
        """
        n, parents = len(in_bins[0]), self.parent
        inside, message, log_mass = [*in_bins], [np.zeros(0)] * len(parents), np.zeros(n)
        with np.errstate(divide="ignore"):
            for a in self.upward:
                for of_child in (np.ones(1), *(message[child] for child in self.children[a])):
                    inside[a], largest = scaled(inside[a] * of_child)
                    log_mass += np.log(largest)
                message[a] = inside[a] @ self.table[a].T
                if parents[a] < 0:
                    log_mass += np.log(message[a][:, 0])
        spread: list[Floats] = [np.zeros((n, 0))] * len(parents)
        for a in reversed(self.upward):
            of_parent = spread[parents[a]] if parents[a] >= 0 else np.ones((n, 1))
            given = of_parent / np.where(message[a] > 0, message[a], 1.0)
            spread[a] = (given @ self.table[a]) * inside[a]
        return log_mass, spread

    def marginal(self, a: int) -> Floats:
        """P(code) of one attribute by itself, shape (size,)."""
        codes: Floats = self._bin_marginals[a][self.bin_of_code[a]] * self.shape[a]
        return codes

    @cached_property
    def _bin_marginals(self) -> list[Floats]:
        whole = np.zeros((1, len(self.parent)), np.int32), np.array([self.sizes], np.int32)
        return [spread[0] for spread in self.masses(*whole)[1]]

    def story(self, names: Sequence[str]) -> str:
        """In words: what is known of attributes of these names, and which depend on which."""
        links = [f"{names[a]} on {names[parent]}" for a, parent in enumerate(self.parent) if parent >= 0]
        known = f"the histograms of {len(self.parent):,} attributes"
        return known if not links else f"{known}, and how some depend on others: {', '.join(links)}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a manifest, in full precision; bins by their first codes."""
        return {
            "bins": [starts[:-1].tolist() for starts in self.bin_starts],
            "shape": [shape.tolist() for shape in self.shape],
            "parent": list(self.parent),
            "table": [table.tolist() for table in self.table],
            "variance": np.asarray(self.variance).tolist(),
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any], sizes: Sequence[int]) -> Base:
        """The inverse, for a domain of these sizes, trusting nothing. ViewFileError where it is not a
        base.
        """
        parts = [content[name] for name in ("bins", "shape", "parent", "table", "variance")]
        if any(not isinstance(part, list) or len(part) != len(sizes) for part in parts):
            raise _fault("it does not speak of every attribute")
        starts, shapes, parents, tables, variance = parts
        if any(isinstance(parent, bool) or not isinstance(parent, int) for parent in parents):
            raise _fault("an attribute depends on one that is not there")
        bins = [_bins_from(first, size) for first, size in zip(starts, sizes, strict=True)]
        try:
            arrays = [[np.array(values, dtype=np.float64) for values in part] for part in (shapes, tables)]
            noise = np.array(variance, dtype=np.float64)
        except (ValueError, TypeError, OverflowError):
            raise _fault("it holds something else than numbers") from None
        return cls(tuple(bins), tuple(arrays[0]), tuple(parents), tuple(arrays[1]), noise)


def scaled(rows: Floats) -> tuple[Floats, Floats]:
    """Rows divided by their largest values, and these: so that products over many attributes stay within
    doubles.
    """
    largest: Floats = rows.max(axis=1)
    return rows / np.where(largest > 0, largest, 1.0)[:, None], largest


def _fault(why: str) -> ViewFileError:
    return ViewFileError(f"The base measure does not hold together: {why}.")


def _bins_from(starts: Any, size: int) -> Ints:
    if (
        not isinstance(starts, list)
        or not starts
        or len(starts) > MAX_BINS
        or any(type(start) is not int for start in starts)
    ):
        raise _fault(f"bins of an attribute are given by their first codes, {MAX_BINS} at most")
    borders = [*starts, size]
    if starts[0] != 0 or any(low >= high for low, high in itertools.pairwise(borders)):
        raise _fault("bins do not follow each other from the first code to the last")
    return np.repeat(np.arange(len(starts), dtype=np.int32), np.diff(borders))


def _checked_bins(bins: NDArray[Any]) -> Ints:
    found = np.array(bins, dtype=np.int32)
    if (
        found.ndim != 1
        or not len(found)
        or found[0] != 0
        or not np.isin(np.diff(found), (0, 1)).all()
        or found[-1] >= MAX_BINS
    ):
        raise _fault(f"bins are runs of codes, numbered from 0 to {MAX_BINS - 1} at most")
    return found


def _checked_shape(shape: Floats, bins: Ints) -> Floats:
    """The shape in whole grains, none of them too small to be told from nothing."""
    found = np.array(shape, dtype=np.float64)
    if found.shape != bins.shape or not np.isfinite(found).all() or (found <= 0).any():
        raise _fault("a share of a code in its bin is missing, or not above 0")
    total = np.bincount(bins, found)
    if (np.abs(total - 1) > _TOLERANCE).any():
        raise _fault("shares of the codes in a bin do not add up to 1")
    if (np.abs(total - 1) > _ROUNDING).any():
        found = found / total[bins]
    return np.rint(np.maximum(found, _LEAST_SHAPE) * GRAIN) / GRAIN


def _checked_table(table: Floats, n_rows: int, bins: Ints) -> Floats:
    found = np.array(table, dtype=np.float64)
    if found.shape != (n_rows, int(bins[-1]) + 1) or not np.isfinite(found).all() or (found <= 0).any():
        raise _fault("a chance of a bin given another is missing, or not above 0")
    total = found.sum(axis=1, keepdims=True)
    if (np.abs(total - 1) > _TOLERANCE).any():
        raise _fault("chances of the bins given another do not add up to 1")
    lifted: Floats = np.maximum(np.where(np.abs(total - 1) > _ROUNDING, found / total, found), _LEAST_CHANCE)
    return lifted
