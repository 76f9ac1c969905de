"""What a method is: from exact counts to a release, within a budget. The one protocol for ours and for every baseline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hdpview.counts.sparse import SparseCounts
from hdpview.domain import Schema
from hdpview.partition.grow import ExactBlocks
from hdpview.partition.parameters import PartitionParameters
from hdpview.privacy.ledger import Ledger
from hdpview.privacy.randomness import Randomness
from hdpview.view.blocks import Blocks

Progress = Callable[[float | None, str], None]


class Engine(Protocol):
    """Where partitions are grown. Engines differ in speed and reach, never in what they build."""

    def grow(
        self, counts: SparseCounts, parameters: PartitionParameters, key: NDArray[np.uint32], progress: Progress | None
    ) -> ExactBlocks: ...


@dataclass(frozen=True)
class BlockRelease:
    """Blocks, and the public facts about how they came about."""

    blocks: Blocks
    noise_scale: float
    parameters: Mapping[str, float]


class Method(Protocol):
    """A way to build a view. Its settings are fields of a frozen object."""

    @property
    def name(self) -> str: ...

    def settings(self) -> Mapping[str, float]:
        """What the curator chose, for the manifest."""
        ...

    def why_infeasible(self, schema: Schema, epsilon: float) -> str | None:
        """Why this method cannot build a view of this domain with this budget, and what can; None if it can."""
        ...

    def release(
        self, counts: SparseCounts, ledger: Ledger, randomness: Randomness, engine: Engine, progress: Progress | None = None
    ) -> BlockRelease:
        """Build a view, spending all of the ledger's budget."""
        ...
