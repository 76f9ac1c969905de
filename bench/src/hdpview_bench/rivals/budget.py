"""What rivals share. They never build a view, so they may read exact counts, charge and draw themselves."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hdpview.counts.exact_statistics import Counts
from hdpview.counts.sparse import SparseCounts, local_cells
from hdpview.methods.protocol import Engine, Method, Progress, Release
from hdpview.privacy import mechanism as door
from hdpview.privacy.mechanism import Mechanism
from hdpview.privacy.noise import laplace_scale
from hdpview.privacy.randomness import Randomness, draw_many

_DRAWS_PER_BLOCK = 8


class Budget:
    """The budget of a mechanism, charged by hand."""

    def __init__(self, mechanism: Mechanism) -> None:
        self._mechanism = mechanism
        self.randomness: Randomness = mechanism._randomness

    @property
    def epsilon(self) -> Fraction:
        return self._mechanism.total

    @property
    def remaining(self) -> Fraction:
        return self._mechanism.remaining

    def charge(self, purpose: str, epsilon: Fraction, times: int = 1) -> Fraction:
        """Spend `times · epsilon` on a purpose; return `epsilon`, the share of one use."""
        self._mechanism._charge(purpose, epsilon * times, times)
        return epsilon


def noisy_vector(
    exact: NDArray[np.int64], epsilon: Fraction, randomness: Randomness, purpose: str
) -> NDArray[np.int64]:
    """Whole numbers of any shape with discrete Laplace noise of scale 1/ε on each. Charges nothing."""
    key = randomness.root_key("noise on " + purpose) if randomness.is_test else None
    flat = np.ascontiguousarray(exact, np.int64).reshape(-1)
    if not len(flat):
        return exact.copy()
    return door._sampled(flat, "laplace", laplace_scale(epsilon), key, 0).reshape(np.shape(exact))


class Draws:
    """Uniform draws under one key, in order, for methods whose decisions have a fixed order."""

    def __init__(self, key: NDArray[np.uint32]) -> None:
        self._key, self._n_blocks_used = key, 0

    def uniform(self, n: int) -> NDArray[np.float64]:
        """The next `n` draws, uniform on multiples of 2⁻⁵³ in [0, 1)."""
        drawn = np.empty(n)
        draw_many(self._key, self._n_blocks_used, drawn)
        self._n_blocks_used += -(-n // _DRAWS_PER_BLOCK)
        return drawn


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
