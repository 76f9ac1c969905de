"""A view as data: its manifest and its parts, each with components. Files hold it, and queries read it.

Components are the common form of all views, whatever method built them:

    P(cell) = Σ_z weight_z · Π_a share_a(code | z)

The paper's blocks are components that are uniform on a range of each attribute; a mixture's are tables over
bins. Counts, groups, sums, means, quantiles, samples and filtered histograms are linear algebra over this.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hdpview.domain import Schema
from hdpview.domain.attributes import Cycles
from hdpview.view.blocks import Blocks
from hdpview.view.manifest import Manifest
from hdpview.view.mixture import Mixture
from hdpview.view.quality import Quality
from hdpview.view.released_tables import Table

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


class Components(Protocol):
    """Components over the codes of a domain. Attributes are numbered as in the schema."""

    def __len__(self) -> int: ...

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of codes of each attribute."""

    @property
    def weight(self) -> Floats:
        """Records of each component, non-negative, shape (n_components,)."""

    @property
    def raw_weight(self) -> Floats:
        """The same without bias: noisy counts of blocks, which may be negative."""

    def factors(self, a: int, values: Floats) -> Floats:
        """Mean of values per code of attribute `a` in each component: (k, size) → (k, n_components)."""

    def grid(self, attributes: Sequence[int], weight: Floats) -> Floats:
        """Σ_z weight_z · Π share_a(code | z) for all combinations of codes.

        weight: shape (n_components,). Returns an array with one axis per attribute.
        """

    def draw(self, component: Codes, rng: np.random.Generator) -> NDArray[np.int32]:
        """Draw one record from each of these components: codes, shape (n_attributes, n)."""


@dataclass(frozen=True, eq=False)
class ViewPart:
    """Everything released about one table.

    components: blocks or a mixture. tables: the released tables behind a mixture; none for blocks.
    quality: how large the errors are. cycles: per attribute, classes of values that recur; public.
    people: released numbers of persons: a table with one bin for all, then one per attribute with its codes.
    """

    components: Blocks | Mixture
    quality: Quality
    tables: tuple[Table, ...] = ()
    people: tuple[Table, ...] = ()
    cycles: tuple[Cycles, ...] = ()

    def fingerprint(self) -> str:
        """Equal for copies of a part, and different for other parts because of noise and random starts.

        Depends on released numbers alone: the file's checksum changes with its format and its facts.
        """
        digest = hashlib.blake2b(self.components.raw_weight.astype(np.float32).tobytes(), digest_size=16)
        for table in self.tables:
            digest.update(table.counts.tobytes())
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class ViewData:
    """A released view, immutable. parts: one, or one per table of a merged view."""

    manifest: Manifest
    parts: tuple[ViewPart, ...]

    @property
    def schema(self) -> Schema:
        return self.manifest.schema

    @property
    def is_blocks(self) -> bool:
        """True for views by the paper's method."""
        return isinstance(self.parts[0].components, Blocks)

    @property
    def n_components(self) -> int:
        return sum(len(part.components) for part in self.parts)
