"""A view as data: its manifest and its parts. Files hold it, and queries read it."""

from __future__ import annotations

from dataclasses import dataclass

from hdpview.domain import Schema
from hdpview.domain.attributes import Cycles
from hdpview.view.blocks import Blocks
from hdpview.view.manifest import Manifest
from hdpview.view.mixture import Mixture
from hdpview.view.quality import Quality
from hdpview.view.tables import Table


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


@dataclass(frozen=True, eq=False)
class ViewData:
    """A released view, immutable. parts: one, or one per table of a merged view."""

    manifest: Manifest
    parts: tuple[ViewPart, ...]

    @property
    def schema(self) -> Schema:
        return self.manifest.schema

    @property
    def n_components(self) -> int:
        return sum(len(part.components) for part in self.parts)
