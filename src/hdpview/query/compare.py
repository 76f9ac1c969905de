"""Is this difference real? Two counts compared: their difference and their ratio, with intervals.

The counts share blocks, so their errors are not independent: noise that both see cancels in the difference.
    Weights of blocks are
subtracted before anything is squared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdpview.query import base_noise
from hdpview.query.answers import Answer, Interval, Where, answer
from hdpview.query.boxes import MAX_BOXES, Box, Questions, intersect, pack
from hdpview.query.intervals import error_left, typical_tail, variance_of_parts
from hdpview.query.noise_width import NoiseLaw, check_confidence, confidence_of_each
from hdpview.query.predicates import boxes_of
from hdpview.query.summary import block_weights, spread_weights
from hdpview.view.blocks import Level
from hdpview.view.data import ViewData

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Comparison:
    """Two counts and how they differ.

    difference, ratio: of the first to the second, with typical intervals; a ratio without bounds has infinite
        ends.
    guaranteed_difference: holds whatever the data.
    """

    first: Answer
    second: Answer
    confidence: float
    difference: float
    difference_interval: Interval
    guaranteed_difference: Interval
    ratio: float
    ratio_interval: Interval

    @property
    def is_real(self) -> bool:
        """Whether the typical interval of the difference leaves out 0."""
        return not self.difference_interval.lower <= 0 <= self.difference_interval.upper

    def __str__(self) -> str:
        low, high = self.difference_interval
        verdict = "a real difference" if self.is_real else "not distinguishable from no difference"
        return (
            f"{self.difference:+,.0f} ({self.confidence:.0%} typical: {low:+,.0f} to {high:+,.0f}), {verdict}"
        )


def compare(view: ViewData, first: Where, second: Where, confidence: float = 0.95) -> Comparison:
    """Compare the counts of two conditions."""
    check_confidence(confidence)
    boxes = boxes_of(first, view.schema), boxes_of(second, view.schema)
    one, other = answer(view, boxes, confidence)
    questions, apart = pack(boxes, view.schema), _share_apart(view, *boxes)
    variances = [
        _variance(view, questions, signs, of_base)
        for signs, of_base in (((1, 0), 1.0), ((0, 1), 1.0), ((1, -1), apart))
    ]
    difference = one.estimate - other.estimate
    reach = typical_tail(confidence) * math.sqrt(variances[2])
    covariance = (variances[0] + variances[1] - variances[2]) / 2
    ratio_ends = _fieller(
        one.estimate, other.estimate, variances[0], variances[1], covariance, typical_tail(confidence)
    )
    sure_one, sure_other = (
        found.guaranteed for found in answer(view, boxes, confidence_of_each(2, confidence))
    )
    return Comparison(
        first=one,
        second=other,
        confidence=confidence,
        difference=difference,
        difference_interval=Interval(difference - reach, difference + reach),
        guaranteed_difference=Interval(sure_one.lower - sure_other.upper, sure_one.upper - sure_other.lower),
        ratio=one.estimate / other.estimate if other.estimate > 0 else math.nan,
        ratio_interval=ratio_ends,
    )


def _share_apart(view: ViewData, first: Sequence[Box], second: Sequence[Box]) -> float:
    """The share of what two questions ask for that only one of them asks for, from 0 to 1; 1 where that takes
    too many boxes to tell.

    Equal weights of blocks would not tell: two halves of a bin have them, and share no record.
    """
    if not view.blocks.bases or len(first) * len(second) > MAX_BOXES:
        return 1.0
    questions, finest = pack([first, second, intersect(first, second)], view.schema), view.blocks.levels[0]
    one, other, both = (float(block_weights(finest, questions, q) @ finest.counts) for q in range(3))
    return min(1.0, max(0.0, 1 - 2 * both / (one + other))) if one + other > 0 else 1.0


def _variance(view: ViewData, questions: Questions, signs: tuple[int, int], share_apart: float) -> float:
    """Expected squared error of a signed sum of the two counts: noise, uneven blocks, making counts
    consistent, and noise in a base.

    share_apart: of the base's noise, what does not cancel because both ask for the same.
    """
    estimates, spreads = np.array(
        [_estimate_and_spread(level, questions, signs) for level in view.blocks.levels]
    ).T
    weights = _signed_weights(view.blocks.levels[0], questions, signs)
    noise, squares = NoiseLaw(view.manifest.noise_scale).variance, (weights**2).sum(keepdims=True)
    moved = float(weights @ view.blocks.noisy_counts) - estimates[:1]
    told = base_noise.of_questions(
        view.blocks, questions
    )  # of the total, squares of shares of all records, which are subtracted
    of_base = base_noise.OfBase(
        np.abs(signs) @ told.base_variance[:, None] * share_apart,
        np.max(np.abs(signs) * told.joint_share, keepdims=True),
        *(
            (np.array(signs) @ np.sqrt(of_total)[:, None]) ** 2
            for of_total in (told.total_variance, told.total_squares)
        ),
    )
    return float(
        variance_of_parts(squares, noise, error_left(estimates[:, None], spreads[:, None]), moved, of_base)[0]
    )


def _signed_weights(level: Level, questions: Questions, signs: tuple[int, int]) -> Floats:
    return signs[0] * block_weights(level, questions, 0) + signs[1] * block_weights(level, questions, 1)


def _estimate_and_spread(level: Level, questions: Questions, signs: tuple[int, int]) -> tuple[float, float]:
    """A block cut through by both questions can be misjudged for each of them, so spreads add up whatever the
    signs.
    """
    spread = sum(
        abs(sign) * spread_weights(block_weights(level, questions, q)) for q, sign in enumerate(signs)
    )
    return float(_signed_weights(level, questions, signs) @ level.counts), float(spread @ level.counts)


def _fieller(a: float, b: float, var_a: float, var_b: float, covariance: float, tail: float) -> Interval:
    """All ratios r for which a − r·b could be 0: (a − r·b)² ≤ tail²·(var_a − 2·r·cov + r²·var_b). Ratios of
    counts are not negative.
    """
    square = tail**2
    two, one = b**2 - square * var_b, a * b - square * covariance
    # one² − two·(a² − square·var_a), written without the products of four counts, which cancel
    inside = square * (b**2 * var_a - 2 * a * b * covariance + a**2 * var_b) - square**2 * (
        var_a * var_b - covariance**2
    )
    if two <= 0 or inside < 0:  # the second count cannot be told from 0: any ratio is possible
        return Interval(0.0, math.inf)
    root = math.sqrt(inside)
    return Interval(max(0.0, (one - root) / two), (one + root) / two)
