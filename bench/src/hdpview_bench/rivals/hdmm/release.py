"""HDMM's release: the least-squares fit of its measurements, in a basis in which the fit is a division."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdpview_bench.rivals.hdmm.algebra import Set, subsets
from hdpview_bench.rivals.hdmm.strategy import Factor, Floats, Strategy
from hdpview_bench.workloads import CodeBoxes

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class FittedRelease:
    """Coefficients of every measured part b: an array with an axis of (size − 1) per attribute of b. What is
    not measured counts as 0.
    """

    factors: tuple[Factor, ...]
    parts: dict[Set, Floats]

    def marginal(self, attributes: Sequence[int]) -> Floats:
        asked = tuple(sorted(attributes))
        table = np.zeros([len(self.factors[i].single) for i in asked])
        for part in subsets(asked):
            if part in self.parts:
                table[tuple(slice(1, None) if i in part else 0 for i in asked)] = self.parts[part]
        for axis, i in enumerate(asked):
            table = along(self.factors[i].basis / math.sqrt(self.factors[i].s), table, axis)
        return np.ascontiguousarray(table.transpose([asked.index(i) for i in attributes]))

    def answer(self, boxes: CodeBoxes) -> Floats:
        answers = np.zeros(len(boxes))
        for q in range(len(boxes)):
            asked = boxes.attribute[q].tolist()
            place = {}
            for i, low, high in zip(asked, boxes.lower[q], boxes.upper[q], strict=True):
                place[i] = (self.factors[i].running[high] - self.factors[i].running[low]) / math.sqrt(
                    self.factors[i].s
                )
            for part in subsets(tuple(sorted(asked))):
                if part in self.parts:
                    value = self.parts[part]
                    for i in part:
                        value = np.tensordot(place[i][1:], value, axes=1)
                    answers[q] += float(value) * math.prod(place[i][0] for i in asked if i not in part)
        return answers


def along(matrix: Floats, table: Floats, axis: int) -> Floats:
    """A matrix applied along one axis of a table."""
    return np.moveaxis(np.tensordot(matrix, table, axes=(1, axis)), 0, axis)


def exact_measurements(exact_table: Ints, factors: Sequence[Factor]) -> Ints:
    """Whole-weighted sums of a table of counts along all its axes: shape (n_rows of each factor)."""
    for axis, factor in enumerate(factors):
        if len(factor.sums) or factor.scale > 1:
            first = np.moveaxis(exact_table, axis, 0)
            single = first * factor.single.reshape(-1, *[1] * (first.ndim - 1))
            sums = (
                np.stack([np.tensordot(row, first, axes=1) for row in factor.sums])
                if len(factor.sums)
                else single[:0]
            )
            exact_table = np.moveaxis(np.concatenate([single, sums]), 0, axis)
    return exact_table


def fit(strategy: Strategy, noisy_tables: Sequence[Ints], weights: Floats) -> FittedRelease:
    """Weighted least squares of all measurements at once. weights: one over the variance of each table's
    noise, in shares of its scale.
    """
    sums: dict[Set, Floats] = {}
    precisions: dict[Set, float] = {}
    factors = strategy.factors
    for chosen, noisy, weight in zip(strategy.measured, noisy_tables, weights.tolist(), strict=True):
        table = noisy / strategy.sensitivity(chosen)
        for axis, i in enumerate(chosen):
            table = along(factors[i].basis.T @ factors[i].matrix.T / math.sqrt(factors[i].s), table, axis)
        amount = weight / math.prod(factors[i].s for i in chosen)
        for part in subsets(chosen):
            block = table[tuple(slice(1, None) if i in part else 0 for i in chosen)] * weight
            sums[part] = sums[part] + block if part in sums else block
            precisions[part] = precisions.get(part, 0.0) + amount
    return FittedRelease(
        factors, {part: np.asarray(value) / precisions[part] for part, value in sums.items()}
    )
