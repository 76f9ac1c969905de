"""A view as data: its manifest and its blocks. What files hold and what queries work on."""

from __future__ import annotations

from dataclasses import dataclass

from hdpview.domain import Schema
from hdpview.view.blocks import Blocks
from hdpview.view.manifest import Manifest


@dataclass(frozen=True, eq=False)
class ViewData:
    """A released view: never changed after it was made."""

    manifest: Manifest
    blocks: Blocks

    @property
    def schema(self) -> Schema:
        return self.manifest.schema
