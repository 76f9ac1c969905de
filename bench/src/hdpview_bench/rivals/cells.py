"""Methods that visit every occupied cell of a table, on this machine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hdpview.counts.exact_statistics import Counts
from hdpview.counts.sparse import SparseCounts, local_cells
from hdpview.methods.protocol import Engine, Method, Progress, Release
from hdpview.privacy.mechanism import Mechanism
from hdpview.privacy.randomness import Randomness
from hdpview_bench.rivals.budget import Budget


class CellMethod(Method):
    """Base class for a method that needs no engine: implement `release_cells` instead of `release`."""

    def release(
        self,
        counts: Counts,
        mechanism: Mechanism,
        engine: Engine,
        progress: Progress | None = None,
    ) -> Release:
        budget = Budget(mechanism)
        return self.release_cells(local_cells(counts), budget, budget.randomness)

    def release_cells(self, cells: SparseCounts, budget: Budget, randomness: Randomness) -> Release:
        """Make the release, spending all of the budget."""
        raise NotImplementedError


def exact_tensor(cells: SparseCounts) -> NDArray[np.int64]:
    """Exact counts of all cells, empty ones included, in the domain's shape."""
    exact = np.zeros(cells.schema.sizes, dtype=np.int64)
    exact[tuple(cells.exact_codes.T.astype(np.int64))] = cells.exact_counts
    return exact
