"""The expected error of a union of products, without writing down a single large matrix.

A strategy measures, for some sets a of attributes, the product ⊗_{i∈a} Aᵢ of one strategy per attribute (and
sums out the others), each with a weight w_a, one over the variance of its noise. With Bᵢ = AᵢᵀAᵢ all that is
measured adds up to M = Σ_a w_a ⊗_{i∈a} Bᵢ ⊗_{i∉a} 11ᵀ. For each attribute there is a basis in which Bᵢ is the
identity and 11ᵀ is s at one place and 0 elsewhere (s = 1ᵀBᵢ⁻¹1). In the product of these bases M is diagonal,
and its entries depend only on the set b of attributes that stand at another than the first place: Λ_b =
Σ_{a⊇b} w_a Π_{i∉a} sᵢ. So the mean squared error is Σ_b T_b/Λ_b, with T_b the part of the workload on b.
Products of Kronecker strategies (HDMM's OPT_⊗), unions of them (OPT_+) and weighted marginals (OPT_M, where
all Aᵢ = I) are all of this form. Everything below is divided by Π sᵢ, which may be huge.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, combinations

import numpy as np
from numpy.typing import NDArray

from hdpview_bench.rivals.hdmm.workload import Workload

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Set = tuple[int, ...]
_LEAST = 1e-300  # a part of the workload that does not exist


def subsets(attributes: Set, most: int | None = None) -> Iterable[Set]:
    """All subsets of at most `most` members, the empty one included, each in rising order."""
    most = len(attributes) if most is None else min(most, len(attributes))
    return chain.from_iterable(combinations(attributes, k) for k in range(most + 1))


@dataclass(frozen=True, eq=False)
class Slopes:
    """Derivatives of the error: by each weight, shape (n_measured,); by log s, log ρ, log γ of each
    attribute, shape (3, d).
    """

    of_weights: Floats
    of_logs: Floats


class Algebra:
    """Measured sets, queried sets, and their common subsets b."""

    def __init__(self, workload: Workload, measured: list[Set]) -> None:
        d = len(workload.sizes)
        self.measured = measured
        self.parts = sorted(
            {part for asked in workload.sets for part in subsets(asked)}, key=lambda part: (len(part), part)
        )
        number, k = {part: i for i, part in enumerate(self.parts)}, len(workload.sets[0])
        self._frequency = workload.frequency
        self._measured_pairs = _pairs(measured, number, k)
        self._asked_pairs = _pairs(workload.sets, number, k)
        self._in_measured, self._in_asked, self._in_part = (
            _membership(sets, d) for sets in (measured, workload.sets, self.parts)
        )

    def precision(self, weights: Floats, log_s: Floats) -> Floats:
        """Λ_b / Π s for each part, shape (n_parts,)."""
        of_set, of_part = self._measured_pairs
        amount = weights * np.exp(-self._in_measured @ log_s)
        summed: Floats = np.bincount(of_part, amount[of_set], len(self.parts)).astype(np.float64)
        return summed

    def error(self, weights: Floats, logs: Floats) -> tuple[float, Slopes]:
        """Mean squared error and its derivatives. weights: (n_measured,); logs: log s, log ρ, log γ of each
        attribute, shape (3, d).

        Per attribute, with (s, t, h) of its strategy: γ = h/s² and ρ = (t − h/s)/s.
        """
        log_s, log_rho, log_gamma = logs
        asked_set, asked_part = self._asked_pairs
        of_set, of_part = self._measured_pairs
        precision = self.precision(weights, log_s)
        beyond = np.exp(self._in_part @ (log_rho - log_gamma))
        base = self._frequency * np.exp(self._in_asked @ log_gamma)
        of_parts = beyond * np.bincount(asked_part, base[asked_set], len(self.parts)) / precision
        value = float(of_parts.sum())
        by_weight = -np.exp(-self._in_measured @ log_s) * np.bincount(
            of_set, (of_parts / precision)[of_part], len(self.measured)
        )
        by_rho = self._in_part.T @ of_parts
        of_asked = base * np.bincount(asked_set, (beyond / precision)[asked_part], len(base))
        by_logs = np.array(
            [-self._in_measured.T @ (weights * by_weight), by_rho, self._in_asked.T @ of_asked - by_rho]
        )
        return value, Slopes(by_weight, by_logs)


def logs_of(errors: Floats) -> Floats:
    """Logarithms of s, ρ, γ, shape (3, d), from (s, t, h) of each attribute, shape (d, 3)."""
    s, t, h = errors.T
    rho = (t - h / s) / s
    logs: Floats = np.log(np.stack([s, np.maximum(rho, _LEAST), np.maximum(h / s**2, _LEAST)]))
    return logs


def slopes_of_errors(errors: Floats, of_logs: Floats) -> Floats:
    """Derivatives by (s, t, h), shape (d, 3), from those by log s, log ρ, log γ, shape (3, d)."""
    s, t, h = errors.T
    rho = np.maximum((t - h / s) / s, _LEAST)
    by_rho = np.where((t - h / s) / s > _LEAST, of_logs[1] / rho, 0.0)
    by_s = of_logs[0] / s + by_rho * (-t / s**2 + 2 * h / s**3) - 2 * of_logs[2] / s
    return np.stack([by_s, by_rho / s, -by_rho / s**2 + of_logs[2] / h], axis=1)


def _pairs(sets: list[Set], number: dict[Set, int], k: int) -> tuple[Ints, Ints]:
    """All (set, part) with the part inside the set, as two arrays of numbers."""
    pairs = [
        (i, number[part]) for i, chosen in enumerate(sets) for part in subsets(chosen, k) if part in number
    ]
    return np.array([i for i, _ in pairs], dtype=np.int64), np.array([j for _, j in pairs], dtype=np.int64)


def _membership(sets: list[Set], d: int) -> Floats:
    inside = np.zeros((len(sets), d))
    for i, chosen in enumerate(sets):
        inside[i, list(chosen)] = 1.0
    return inside
