"""Intervals around answers, from what a view tells and nothing else. Derived in docs/intervals.md.

noise       where the noise on counts alone can have moved the answer
guaranteed  holds whatever the data: noise, and the worst case in blocks that the question cuts through
typical     noise, and an estimate of how unevenly records lie in those blocks: a model, with measured coverage
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hdpview.query.base_noise import OfBase
from hdpview.query.noise_width import NoiseLaw
from hdpview.query.summary import Summary

Floats = NDArray[np.float64]
Reading = Literal["consistent", "raw"]
Kind = Literal["typical", "guaranteed", "noise"]

_ROUNDING = 1e-9  # spreads that differ by less, relative to the largest, are equal but for rounding
_UNKNOWN_MULTIPLE = 1.0  # where there is nothing to learn from, as in a view of one block
_FITTED_NOISE = 0.5  # of the variance of noise in blocks' counts, left in an answer after the fit
_FITTED_UNEVEN = 0.7  # of the squared error by uneven blocks: histograms and tables measured the same records
_TOLD_BY_HISTOGRAMS = (
    5.0  # times the variance of their noise that is left: most that single attributes add to an error
)
_TAIL_SCALE = (
    0.83  # of a Student distribution with 5 degrees of freedom: 2.13 at 95 %, with room for surprises beyond
)


def noise_interval(of: Summary, law: NoiseLaw, confidence: float) -> Floats:
    """Where the truth lies if records lie evenly inside blocks, shape (n, 2)."""
    width = law.half_width(of.squares, of.fourths, of.largest, confidence)
    return np.stack([of.raw - width, of.raw + width], axis=1)


def guaranteed_interval(of: Summary, law: NoiseLaw, confidence: float) -> Floats:
    """Blocks inside the question hold at least their own records; all it touches hold at most all of theirs.
    Shape (n, 2).
    """
    full = law.half_width(of.n_full, of.n_full, np.minimum(of.n_full, 1.0), confidence)
    touched = law.half_width(of.n_touched, of.n_touched, np.minimum(of.n_touched, 1.0), confidence)
    return np.stack([of.full_sum - full, of.touched_sum + touched], axis=1)


def typical_interval(
    of: Summary, law: NoiseLaw, confidence: float, counts: Reading, guaranteed: Floats
) -> Floats:
    """Estimate ± a multiple of noise and aggregation error together; never outside the guaranteed interval.
    Shape (n, 2).
    """
    estimate = of.raw if counts == "raw" else of.consistent
    width = typical_tail(confidence) * np.sqrt(typical_variance(of, law, counts))
    return np.stack(
        [np.maximum(estimate - width, guaranteed[:, 0]), np.minimum(estimate + width, guaranteed[:, 1])],
        axis=1,
    )


def typical_variance(of: Summary, law: NoiseLaw, counts: Reading) -> Floats:
    """Squared error to expect of each answer, shape (n,)."""
    return variance_of_parts(
        of.squares, law.variance, aggregation_error(of), of.raw - of.consistent, of.of_base, counts
    )


def variance_of_parts(
    squares: Floats,
    noise: float,
    uneven: Floats,
    moved: Floats,
    of_base: OfBase,
    counts: Reading = "consistent",
) -> Floats:
    """Squared error to expect from noise in blocks' counts, uneven blocks, counts moved off the noisy ones,
    and noise in a base.

    squares: of the weights of blocks. noise: variance of that in one count. Counts that are fitted to more
        than themselves, which all are
    that have a base, keep about half of their noise, and uneven blocks move answers less: what is a matter of
        the total, or of single
    attributes, histograms have told, but for their noise. Elsewhere counts are moved only to be consistent,
    and how far that moved the answer counts as error.
    """
    left = _FITTED_UNEVEN * uneven**2
    single = np.minimum((1.0 - of_base.joint_share) * left, _TOLD_BY_HISTOGRAMS * of_base.base_variance)
    of_total = np.minimum(of_base.total_squares, squares)
    fitted = _FITTED_NOISE * noise * (squares - of_total)
    fitted += (
        np.minimum(_FITTED_NOISE * noise * of_total, _TOLD_BY_HISTOGRAMS * of_base.total_variance)
        + of_base.total_variance
    )
    over_base = (
        (noise * squares if counts == "raw" else fitted)
        + of_base.joint_share * left
        + single
        + of_base.base_variance
    )
    is_known = (of_base.total_variance > 0) | (of_base.base_variance > 0)
    return np.where(is_known, over_base, noise * squares + uneven**2 + moved**2)


def aggregation_error(of: Summary) -> Floats:
    """How far uneven blocks may have moved an answer, shape (n,)."""
    estimates = np.concatenate([of.consistent[None], of.coarser_estimates])
    return error_left(estimates, np.concatenate([of.spread[None], of.coarser_spreads]))


def error_left(estimates: Floats, spreads: Floats) -> Floats:
    """The error that is left in the finest of several estimates, shape (n,), by extrapolation over the levels
    of the tree.

    Let an answer's error be a multiple of its spread, the count in blocks that the question cuts through.
    Undoing cuts raises the spread and moves the answer; the ratio of the two is the multiple, and with the
    spread that is left it gives the error that is left.

    estimates, spreads: shape (n_levels, n), finest first.
    """
    moved, risen = (np.diff(estimates, axis=0) ** 2).sum(axis=0), (np.diff(spreads, axis=0) ** 2).sum(axis=0)
    tells = risen > (_ROUNDING * spreads.max(axis=0)) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        multiple = np.sqrt(np.where(tells, moved / risen, _UNKNOWN_MULTIPLE**2))
    left: Floats = multiple * spreads[0]
    return left


@lru_cache(maxsize=64)
def typical_tail(confidence: float) -> float:
    """How many expected errors the typical interval reaches to either side."""
    low, high = 0.0, 1e3
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if _student_5(middle) < confidence else (low, middle)
    return _TAIL_SCALE * high


def _student_5(t: float) -> float:
    """P(|T| ≤ t) for Student's distribution with 5 degrees of freedom."""
    angle = math.atan(t / math.sqrt(5))
    return 2 / math.pi * (angle + math.sin(angle) * math.cos(angle) * (1 + 2 / 3 * math.cos(angle) ** 2))
