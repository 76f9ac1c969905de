"""A strategy that can be executed: whole weights, exact shares of the budget, exact expected error."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from hdpview_bench.rivals.hdmm.algebra import Algebra, Set, logs_of
from hdpview_bench.rivals.hdmm.optimise import Plan, best_plan
from hdpview_bench.rivals.hdmm.templates import errors_of, whole_numbers
from hdpview_bench.rivals.hdmm.workload import Workload, workload_named

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
# Maximum bits of a weight.
_BITS = 10
# Maximum bits of a product of weights, so that sums of 2^32 records stay within 63 bits.
_MOST_BITS = 30
_SHARE_UNITS = 2**40
_LARGEST_EXPONENT = 300.0


@dataclass(frozen=True, eq=False)
class Factor:
    """The measurement of one attribute: each code times a whole weight, and whole-weighted sums of codes.
    single: shape (size,); sums: shape (p, size). Every column of both together sums to `scale`, the most that
    one record changes.
    """

    single: Ints
    sums: Ints
    scale: int

    @property
    def n_rows(self) -> int:
        return len(self.single) + len(self.sums)

    @cached_property
    def matrix(self) -> Floats:
        """The strategy in shares of its scale, shape (n_rows, size), columns of sum 1."""
        return np.vstack([np.diag(self.single), self.sums]) / self.scale

    @cached_property
    def s(self) -> float:
        """1ᵀ(AᵀA)⁻¹1."""
        return float(np.linalg.inv(self.matrix.T @ self.matrix).sum())

    @cached_property
    def basis(self) -> Floats:
        """V with VᵀAᵀAV = I and Vᵀ1 = (√s, 0, …, 0), shape (size, size): in it, products of strategies are
        diagonal.
        """
        lower = np.linalg.cholesky(self.matrix.T @ self.matrix)
        ones = np.linalg.solve(lower, np.ones(len(lower)))
        frame, _ = np.linalg.qr(np.column_stack([ones, np.eye(len(lower))]))
        frame[:, 0] *= math.copysign(1.0, float(frame[:, 0] @ ones))
        solved: Floats = np.linalg.solve(lower.T, frame)
        return solved

    @cached_property
    def running(self) -> Floats:
        """Running sums of the basis over codes, shape (size + 1, size): Vᵀq of a range is a difference."""
        return np.vstack([np.zeros(len(self.basis)), np.cumsum(self.basis, axis=0)])


@dataclass(frozen=True, eq=False)
class Strategy:
    """Sets of attributes to measure, the exact share of the budget of each, and the queries per attribute."""

    measured: tuple[Set, ...]
    shares: tuple[Fraction, ...]
    factors: tuple[Factor, ...]

    @property
    def n_measurements(self) -> int:
        return sum(math.prod(self.factors[i].n_rows for i in chosen) for chosen in self.measured)

    def sensitivity(self, chosen: Set) -> int:
        """The most that one record changes, over all measurements of a set."""
        return math.prod(self.factors[i].scale for i in chosen)

    def weights(self, epsilon: Fraction) -> Floats:
        """One over the variance of each set's noise, in shares of the scale: 1/(2·sinh²(ε/2))."""
        weights = []
        for chosen, share in zip(self.measured, self.shares, strict=True):
            scale = self.sensitivity(chosen)
            half = min(float(share * epsilon / scale) / 2, _LARGEST_EXPONENT)
            weights.append(2.0 * math.sinh(half) ** 2 * float(scale) ** 2)
        return np.array(weights)

    def mean_squared_error(self, workload: Workload, epsilon: Fraction) -> float:
        """Over the questions of a workload; infinite if some are not measured at all."""
        errors = np.array(
            [
                errors_of(factor.matrix, overlap)
                for factor, overlap in zip(self.factors, workload.overlaps, strict=True)
            ]
        )
        algebra, logs = Algebra(workload, list(self.measured)), logs_of(errors)
        weights = self.weights(epsilon)
        if (algebra.precision(weights, logs[0]) <= 0).any():
            return math.inf
        return algebra.error(weights, logs)[0]


@lru_cache(maxsize=64)
def strategy_for(workload_name: str, sizes: tuple[int, ...], epsilon: Fraction) -> Strategy:
    """The strategy with the least expected error at this budget; measuring every cell is one candidate."""
    workload = workload_named(workload_name, sizes)
    everything = Plan(
        (tuple(range(len(sizes))),), np.ones(1), tuple(np.eye(size) for size in sizes), math.inf
    )
    choices = [in_whole_numbers(plan) for plan in (best_plan(workload_name, sizes), everything)]
    return min(choices, key=lambda strategy: strategy.mean_squared_error(workload, epsilon))


def in_whole_numbers(plan: Plan) -> Strategy:
    """A plan with weights and shares that can be charged and measured exactly."""
    n_weighted = max(
        sum(len(plan.matrices[i]) > plan.matrices[i].shape[1] for i in chosen) for chosen in plan.measured
    )
    bits = max(4, min(_BITS, _MOST_BITS // max(1, n_weighted)))
    units = [max(1, round(share * _SHARE_UNITS)) for share in plan.shares.tolist()]
    return Strategy(
        plan.measured,
        tuple(Fraction(unit, sum(units)) for unit in units),
        tuple(_factors(plan.matrices, bits)),
    )


def _factors(matrices: Iterable[Floats], bits: int) -> Iterable[Factor]:
    for matrix in matrices:
        size = matrix.shape[1]
        if len(matrix) == size:  # every code by itself: no weights
            yield Factor(np.ones(size, np.int64), np.zeros((0, size), np.int64), 1)
        else:
            whole = whole_numbers(matrix, size, bits)
            yield Factor(np.diag(whole[:size]).copy(), whole[size:], 2**bits)
