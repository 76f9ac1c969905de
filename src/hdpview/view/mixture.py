"""A mixture of products: components in each of which the attributes are independent.

    P(cell) = Σ_z weight_z · Π_a share_a[bin of code | z] · shape_a[code]

Within a bin every component spreads records over the codes alike, by the attribute's `shape`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Mixture:
    """Components of a view. Attributes are numbered as in the schema.

    weight: shape (n_components,), not negative: records of each component; their sum is the number of records.
    bin_of_code: per attribute, shape (size,), int32: the bin of each code; bins need not be runs of codes.
    shape: per attribute, shape (size,), not negative: share of a bin's records at each code; sums to 1 over a bin.
    share: per attribute, shape (n_bins, n_components), not negative: share of a component's records in each bin;
        columns sum to 1.
    member: shape (n_components,), int32, rising from 0: which of several fits to the same released tables a
        component belongs to. Each fit is a view of the whole table by itself, and the weights of each add up to
        the number of records divided by the number of fits; how far they disagree tells how sure the model is.
    """

    weight: Floats
    bin_of_code: tuple[NDArray[np.int32], ...]
    shape: tuple[Floats, ...]
    share: tuple[Floats, ...]
    member: NDArray[np.int32]

    def __post_init__(self) -> None:
        arrays: list[NDArray[Any]] = [self.weight, self.member, *self.bin_of_code, *self.shape, *self.share]
        for array in arrays:
            array.setflags(write=False)

    def __len__(self) -> int:
        return len(self.weight)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of codes of each attribute."""
        return tuple(len(bins) for bins in self.bin_of_code)

    def factors(self, a: int, values: Floats) -> Floats:
        """Mean, in each component, of values given per code of attribute `a`: (k, size) → (k, n_components)."""
        n_bins = len(self.share[a])
        in_bins = np.zeros((len(values), n_bins))
        np.add.at(in_bins.T, self.bin_of_code[a], (values * self.shape[a]).T)
        return in_bins @ self.share[a]

    def grid(self, attributes: Sequence[int], weight: Floats) -> Floats:
        """Σ_z weight_z · Π share_a(code | z) for all combinations of codes, shape (size of each attribute)."""
        table = weight[None, :]
        for a in attributes[:-1]:
            table = (table[:, None, :] * self._per_code(a)[None]).reshape(-1, len(self))
        sizes = [self.sizes[a] for a in attributes]
        last = self._per_code(attributes[-1]) if attributes else np.ones((1, len(self)))
        found: Floats = (table @ last.T).reshape(sizes)
        return found

    def _per_code(self, a: int) -> Floats:
        """Share of each component's records at each code, shape (size, n_components)."""
        per_code: Floats = self.share[a][self.bin_of_code[a]] * self.shape[a][:, None]
        return per_code
