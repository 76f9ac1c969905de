"""A mixture of products: attributes are independent within each component.

    P(cell) = Σ_z weight_z · Π_a share_a[bin of code | z] · within_bin_share_a[code]

Within a bin, every component spreads records over the codes by the attribute's `within_bin_share`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdpview.domain.table_shapes import TableShape

Floats = NDArray[np.float64]
# Largest codes × bins matrix, in entries (2 MB); multiplying by larger ones is slower than adding up bins.
_MAX_MATRIX = 262_144
# Rounding allowed in shares that must sum to 1.
_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class Mixture:
    """Components of a view. Attributes are numbered as in the schema.

    weight: shape (n_components,), non-negative: records of each component.
    bin_of_code: per attribute, shape (size,), int32: the bin of each code; bins need not be contiguous.
    within_bin_share: per attribute, shape (size,), non-negative: share of its bin's records at each code.
    share: per attribute, shape (n_bins, n_components), non-negative: share of a component's records in each
        bin; columns sum to 1.
    fit_index: shape (n_components,), int32, rising from 0: the fit that a component belongs to. Each fit to
        the released tables models the whole table; its weights sum to the number of records divided by the
        number of fits.
    """

    weight: Floats
    bin_of_code: tuple[NDArray[np.int32], ...]
    within_bin_share: tuple[Floats, ...]
    share: tuple[Floats, ...]
    fit_index: NDArray[np.int32]

    def __post_init__(self) -> None:
        shares = self.weight, *self.within_bin_share, *self.share
        arrays: list[NDArray[Any]] = [self.fit_index, *self.bin_of_code, *shares]
        for array in arrays:
            array.setflags(write=False)

    def __len__(self) -> int:
        return len(self.weight)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of codes of each attribute."""
        return tuple(len(bins) for bins in self.bin_of_code)

    @property
    def raw_weight(self) -> Floats:
        """The weights: fits have no negative counts."""
        return self.weight

    def table(self, shape: TableShape) -> Floats:
        """Records in every cell of a table."""
        if len(shape.attributes) == 1:
            counts = self.grid(shape.attributes, self.weight)
            return np.bincount(shape.bin_of_code[0], counts).astype(np.float64)
        factors = [
            self.factors(a, np.eye(n)[bins].T)
            for a, n, bins in zip(shape.attributes, shape.shape, shape.bin_of_code, strict=True)
        ]
        cells = self.weight
        for factor in factors[:-1]:
            cells = cells[..., None, :] * factor
        table: Floats = cells @ factors[-1].T
        return table

    def factors(self, a: int, values: Floats) -> Floats:
        """Mean of values per code of attribute `a` in each component: (k, size) → (k, n_components)."""
        means: Floats = self._in_bins(a, values) @ self.share[a]
        return means

    def _in_bins(self, a: int, values: Floats) -> Floats:
        """Mean of values per code in each bin: (k, size) → (k, n_bins)."""
        if self._codes_are_bins[a]:
            return values
        spread = self._spread[a]
        if spread is not None:
            return values @ spread
        bins, within, n_bins = self.bin_of_code[a], self.within_bin_share[a], len(self.share[a])
        return np.array([np.bincount(bins, row * within, n_bins) for row in values]).reshape(-1, n_bins)

    def grid(self, attributes: Sequence[int], weight: Floats) -> Floats:
        """Σ_z weight_z · Π share_a(code | z) for all combinations of codes, one axis per attribute."""
        table = weight[None, :]
        for a in attributes[:-1]:
            table = (table[:, None, :] * self._per_code(a)[None]).reshape(-1, len(self))
        if not attributes:
            return np.asarray(weight.sum())
        last = attributes[-1]
        cells: Floats = table @ self.share[last].T
        if not self._codes_are_bins[last]:
            cells = cells[:, self.bin_of_code[last]] * self.within_bin_share[last]
        return cells.reshape([self.sizes[a] for a in attributes])

    def draw(self, component: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int32]:
        """Draw one record from each of these components: codes, shape (n_attributes, n)."""
        codes = np.empty((len(self.share), len(component)), np.int32)
        order = np.argsort(component, kind="stable")
        which, starts = np.unique(component[order], return_index=True)
        ends = [*starts[1:].tolist(), len(component)]
        for a in range(len(self.share)):
            reach = np.cumsum(self._per_code(a), axis=0)
            uniform = rng.random(len(component))
            for z, start, end in zip(which.tolist(), starts.tolist(), ends, strict=True):
                rows = order[start:end]
                drawn = np.searchsorted(reach[:, z], uniform[rows] * reach[-1, z], side="right")
                codes[a, rows] = np.minimum(drawn, len(reach) - 1)
        return codes

    @cached_property
    def _codes_are_bins(self) -> tuple[bool, ...]:
        """Per attribute, True if every code is its own bin."""
        return tuple(
            len(share) == len(bins) and bool((bins == np.arange(len(bins))).all())
            for bins, share in zip(self.bin_of_code, self.share, strict=True)
        )

    @cached_property
    def _spread(self) -> tuple[Floats | None, ...]:
        """Share of each bin's records at each code, shape (size, n_bins); None if that is too large."""
        spread: list[Floats | None] = []
        for bins, within, share in zip(self.bin_of_code, self.within_bin_share, self.share, strict=True):
            if len(bins) * len(share) > _MAX_MATRIX:
                spread.append(None)
                continue
            matrix = np.zeros((len(bins), len(share)))
            matrix[np.arange(len(bins)), bins] = within
            spread.append(matrix)
        return tuple(spread)

    def _per_code(self, a: int) -> Floats:
        """Share of each component's records at each code, shape (size, n_components)."""
        if self._codes_are_bins[a]:
            return self.share[a]
        per_code: Floats = self.share[a][self.bin_of_code[a]] * self.within_bin_share[a][:, None]
        return per_code


def fault_in_mixture(mixture: Mixture, sizes: Sequence[int]) -> str | None:
    """The reason why a mixture does not fit a domain of these sizes; None if it does."""
    n, parts = len(mixture.weight), (mixture.bin_of_code, mixture.within_bin_share, mixture.share)
    if not n or any(len(part) != len(sizes) for part in parts):
        return "there are no components, or an attribute is missing from them"
    weight, fit_index = mixture.weight, mixture.fit_index
    if not (np.isfinite(weight) & (weight >= 0)).all() or len(fit_index) != n:
        return "a weight is not a number of records"
    if fit_index[0] != 0 or not np.isin(np.diff(fit_index), (0, 1)).all():
        return "the fits are not numbered from 0"
    for size, bins, within, share in zip(sizes, *parts, strict=True):
        if bins.shape != (size,) or within.shape != (size,) or share.ndim != 2 or share.shape[1] != n:
            return "an attribute has the wrong number of bins or shares"
        if (np.bincount(np.clip(bins, 0, size), minlength=len(share)) == 0).any() or (bins < 0).any():
            return "bins of an attribute are not numbered from 0 without gaps"
        if int(bins.max()) + 1 != len(share):
            return "the bins of an attribute do not match its shares"
        for values, total in ((within, np.bincount(bins, within)), (share, share.sum(axis=0))):
            if not (np.isfinite(values) & (values >= 0)).all() or (np.abs(total - 1) > _TOLERANCE).any():
                return "shares are negative, or do not add up to 1"
    return None
