"""Components: what every view is made of, whatever method built it.

    P(cell) = Σ_z weight_z · Π_a share_a(code | z)

The paper's blocks are components that are uniform on a range of each attribute. A mixture's are tables over
bins. Counts, groups, sums, means, quantiles, samples and histograms under a filter are linear algebra over
this protocol.
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
        """Records of each component, none negative, shape (n_components,)."""
        ...

    def factors(self, a: int, values: Floats) -> Floats:
        """Mean, in each component, of values per code of attribute `a`: (k, size) → (k, n_components)."""
        ...

    def grid(self, attributes: Sequence[int], weight: Floats) -> Floats:
        """Σ_z weight_z · Π share_a(code | z) for all combinations of codes.

        weight: shape (n_components,). Returns an array with one axis per attribute.
        """
        ...

    def draw(self, component: Codes, rng: np.random.Generator) -> NDArray[np.int32]:
        """Codes of one record drawn from each of these components, shape (n_attributes, n)."""
        ...
