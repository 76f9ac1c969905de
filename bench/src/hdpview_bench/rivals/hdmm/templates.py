"""p-Identity strategies for one attribute: every code by itself, and p weighted sums of codes, all columns of
sum 1.

The parameters are p rows Θ ≥ 0, written as squares so that a minimiser need not mind the sign; A = [I; Θ] ·
diag(1/c), c = 1 + column sums of Θ. What the error of a product of strategies needs to know of A, with X =
(AᵀA)⁻¹ and the workload's overlap G: s = 1ᵀX1, the error of counting everything; t = tr(G·X), of the
questions; h = 1ᵀX·G·X1, of the part they share with counting everything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
# Maximum square root of a parameter; with larger ones, differences of nearly equal doubles vanish.
LARGEST_ROOT = 100.0


@dataclass(frozen=True, eq=False)
class Template:
    """A p-Identity strategy by the roots of its parameters, shape (p, size), for questions with this overlap
    (size, size).
    """

    roots: Floats
    overlap: Floats

    @property
    def theta(self) -> Floats:
        return self.roots**2

    def matrix(self) -> Floats:
        """The strategy, shape (size + p, size), columns of sum 1."""
        size = self.roots.shape[1]
        columns: Floats = np.vstack([np.eye(size), self.theta]) / (1 + self.theta.sum(axis=0))
        return columns

    def errors(self) -> tuple[Floats, Callable[[Floats], Floats]]:
        """(s, t, h), and the function that turns their derivatives of some number into those of the roots."""
        theta, overlap = self.theta, self.overlap
        column = 1 + theta.sum(axis=0)
        inner = np.eye(theta.shape[1]) - theta.T @ np.linalg.solve(
            np.eye(len(theta)) + theta @ theta.T, theta
        )
        whole = column * (inner @ column)  # X1
        shared = overlap @ whole
        scaled = column[:, None] * overlap * column
        terms = np.array([whole.sum(), (inner * scaled).sum(), whole @ shared])

        def pull_back(of_errors: Floats) -> Floats:
            of_s, of_t, of_h = of_errors
            of_inverse = of_s + of_t * overlap + of_h * (shared[:, None] + shared)  # ∂/∂X
            half = inner @ (column[:, None] * of_inverse)
            of_column = 2 * np.diag(half)
            of_theta = of_column - 2 * theta @ ((half * column) @ inner)
            by_roots: Floats = 2 * self.roots * of_theta
            return by_roots

        return terms, pull_back


def errors_of(matrix: Floats, overlap: Floats) -> Floats:
    """(s, t, h) of any strategy of full rank, by definition."""
    inverse = np.linalg.inv(matrix.T @ matrix)
    whole = inverse.sum(axis=0)
    return np.array([whole.sum(), (overlap * inverse).sum(), whole @ overlap @ whole])


def default_rows(size: int) -> int:
    """Number of weighted sums of a strategy: about one per sixteen codes, at least two."""
    return max(2, size // 16 + 1)


def whole_numbers(matrix: Floats, size: int, bits: int) -> NDArray[np.int64]:
    """A strategy with whole weights and columns of sum 2^bits, near 2^bits times this one, because noise is
    discrete.

    The weight of the single code compensates for what rounding changes in a column.
    """
    sums = np.round(matrix[size:] * 2**bits).astype(np.int64)
    sums = sums[sums.any(axis=1)]
    single = 2**bits - sums.sum(axis=0)
    while (single < 1).any():
        sums[:, single < 1] -= sums[:, single < 1] > 0
        single = 2**bits - sums.sum(axis=0)
    return np.vstack([np.diag(single), sums])
