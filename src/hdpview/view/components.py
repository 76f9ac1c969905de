"""Components: the common form of all views, whatever method built them.

    P(cell) = Σ_z weight_z · Π_a share_a(code | z)

The paper's blocks are components that are uniform on a range of each attribute; a mixture's are tables over
bins. Counts, groups, sums, means, quantiles, samples and filtered histograms are linear algebra over this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


class Components(Protocol):
    """Components over the codes of a domain. Attributes are numbered as in the schema."""

    def __len__(self) -> int: ...

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of codes of each attribute."""
        ...

    @property
    def weight(self) -> Floats:
        """Records of each component, non-negative, shape (n_components,)."""
        ...

    def factors(self, a: int, values: Floats) -> Floats:
        """Mean of values per code of attribute `a` in each component: (k, size) → (k, n_components)."""
        ...

    def grid(self, attributes: Sequence[int], weight: Floats) -> Floats:
        """Σ_z weight_z · Π share_a(code | z) for all combinations of codes.

        weight: shape (n_components,). Returns an array with one axis per attribute.
        """
        ...

    def draw(self, component: Codes, rng: np.random.Generator) -> NDArray[np.int32]:
        """Draw one record from each of these components: codes, shape (n_attributes, n)."""
        ...
