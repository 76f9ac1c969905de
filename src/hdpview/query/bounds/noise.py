"""Bounds on the noise of an answer: quantiles of a weighted sum of discrete Laplace noise.

The variance and the excess kurtosis of the sum Σ wᵢ·zᵢ determine its quantile within 1.5%: it lies between
those of two extreme families, one large weight over a normal rest and equal weights. Both are computed
exactly, by inverting their characteristic functions, and the larger is used. One table per level of
confidence serves any number of answers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hdpview.errors import QueryError

_LARGEST_KURTOSIS = 3.0  # excess kurtosis of one Laplace variable; smaller for sums of several
_N_TABLE, _N_FREQUENCIES, _PERIOD, _NEWTON_STEPS = 33, 4_000, 50.0, 8
MAX_CONFIDENCE = 0.9999
_MOST_INSIDE = 1.0 - 1e-7  # if several intervals must hold at once

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class NoiseLaw:
    """Noise in whole numbers on each count: discrete Laplace, P(z) ∝ exp(−|z|/scale), or discrete
    Gaussian.
    """

    scale: float
    kind: Literal["laplace", "gaussian"] = "laplace"

    @property
    def decay(self) -> float:
        return math.exp(-1.0 / self.scale) if self.scale else 0.0

    @property
    def variance(self) -> float:
        if self.kind == "gaussian":
            return self.scale**2
        return 2.0 * self.decay / math.expm1(-1.0 / self.scale) ** 2

    @property
    def excess_kurtosis(self) -> float:
        if self.kind == "gaussian":
            return 0.0
        return (1.0 + 4.0 * self.decay + self.decay**2) / (2.0 * self.decay) if self.decay else math.inf

    def half_width(self, n: Floats, confidence: float) -> Floats:
        """Half the width of the central interval that holds the sum of n such noises with this confidence."""
        fourth = n * (self.excess_kurtosis * self.variance**2)
        return half_width(n * self.variance, fourth, np.ones_like(n), self, confidence)

    def quantile_of_one(self, confidence: float) -> int:
        """The smallest whole number m with P(|z| ≤ m) ≥ confidence for the noise z of one block: 2·p^(m +
        1)/(1 + p) ≤ 1 − confidence.
        """
        if self.kind == "gaussian":
            return math.ceil(self.scale * float(bounded_quantile(np.zeros(1), confidence)[0]))
        needed = -self.scale * math.log((1.0 - confidence) * (1.0 + self.decay) / 2.0)
        return max(math.ceil(needed) - 1, 0)


def bounded_quantile(kurtosis: Floats, confidence: float) -> Floats:
    """The x with P(|Z| ≤ x) = confidence, for standardised sums of Laplace noise with these excess kurtoses,
    clipped to that of one Laplace variable.
    """
    return np.interp(np.sqrt(np.minimum(kurtosis, _LARGEST_KURTOSIS)), *_table(float(confidence)))


def half_width(variance: Floats, fourth: Floats, largest: Floats, law: NoiseLaw, confidence: float) -> Floats:
    """Half the widths of the central intervals that hold weighted sums of noise with this confidence.

    variance, fourth: of the sums, the latter their fourth cumulants. largest: their largest weights. law: of
    the noise with the largest scale. Noise comes in whole numbers: half of the largest weight makes the
    interval reach the next possible sum. If nearly all noise is 0, a standard deviation misses the tails; a
    quantile of single noise covers them.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        kurtosis = np.where(variance > 0, fourth / variance**2, 0.0)
    width = bounded_quantile(kurtosis, confidence) * np.sqrt(variance) + 0.5 * largest
    return np.where(variance > 0, np.maximum(width, law.quantile_of_one(confidence) * largest), 0.0)


def check_confidence(confidence: float) -> None:
    if not isinstance(confidence, (int, float)) or not 0.5 <= confidence <= MAX_CONFIDENCE:
        raise QueryError(
            f"confidence must lie between 0.5 and {MAX_CONFIDENCE}, such as 0.95; got {confidence!r}."
        )


def confidence_of_each(n: int, confidence: float) -> float:
    """The confidence of each of `n` intervals such that all hold at once with this confidence."""
    return min(1.0 - (1.0 - confidence) / max(n, 1), _MOST_INSIDE)


@lru_cache(maxsize=64)
def _table(confidence: float) -> tuple[Floats, Floats]:
    """Quantiles over a grid of √kurtosis from 0 (normal) to √3 (a single Laplace variable)."""
    root_kurtosis = np.linspace(0.0, math.sqrt(_LARGEST_KURTOSIS), _N_TABLE)
    inner = root_kurtosis[1:-1, None]
    step = 2 * math.pi / _PERIOD
    frequency: Floats = (np.arange(_N_FREQUENCIES, dtype=np.float64) + 0.5) * step
    share = inner / math.sqrt(_LARGEST_KURTOSIS)  # shares of the variance in the one large weight
    one_large = np.exp(-(1 - share) * frequency**2 / 2) / (1 + share * frequency**2 / 2)
    n_equal = _LARGEST_KURTOSIS / inner**2
    equal = np.exp(-n_equal * np.log1p(frequency**2 / (2 * n_equal)))
    middle = np.maximum(
        _invert(one_large, frequency, step, confidence), _invert(equal, frequency, step, confidence)
    )
    normal = _invert(np.exp(-(frequency**2) / 2)[None], frequency, step, confidence)
    laplace = -math.log(1 - confidence) / math.sqrt(2)
    return root_kurtosis, np.concatenate([normal, middle, [laplace]])


def _invert(characteristic: Floats, frequency: Floats, step: float, confidence: float) -> Floats:
    """Solve (2/π)·∫ φ(u)·sin(u·x)/u du = confidence for x, row by row, by Newton's method. φ: shape (n,
    n_frequencies).
    """
    x = np.full((len(characteristic), 1), 1.5)
    for _ in range(_NEWTON_STEPS):
        covered = (characteristic * np.sin(frequency * x) / frequency).sum(axis=1, keepdims=True)
        density = (characteristic * np.cos(frequency * x)).sum(axis=1, keepdims=True)
        x = np.clip(
            x - (covered - confidence * math.pi / (2 * step)) / np.maximum(density, 1e-9), 0.5 * x, 1.5 * x
        )
    return x[:, 0]
