"""Measure the view's own error privately: how far its answers are off on the table, by number of attributes.

Questions are drawn by a public rule and from the view itself, so they reveal nothing about the table. The
questions of a group exclude each other, so one record changes the sum of a group's errors by at most 1, and
noise hardly affects large sums. For each number of attributes, the exponential mechanism draws the factor
with which expected errors match the observed ones. Its prior dominates on small tables, the measurement on
large ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.counts.exact_statistics import Counts
from hdpview.privacy.mechanism import Mechanism
from hdpview.progress import Progress
from hdpview.query.errors.ends import typical_tail
from hdpview.query.errors.questions import Questions, questions_about
from hdpview.view.blocks import Blocks
from hdpview.view.data import ViewPart
from hdpview.view.quality import N_ORDERS, Quality

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
QUALITY_SHARE = Fraction(1, 25)  # of a build's budget
PURPOSE = "measure the view's own errors"
_CONFIDENCE = 0.95
# Share of the groups of questions whose errors add up to no more than expected: a little more than half,
# because a few attributes are strongly dependent and most hardly are.
_HELD = 0.6
# A group counts if its expected errors are at least this share of the largest; noise in the draw hides
# smaller ones.
_SEEN = 0.3
# The same for the ratio of prior model error to noise, if no model error is as large as the noise.
_OF_MODEL = 0.5
# Mean absolute value of a normal error, as a multiple of its root mean square.
_MEAN_ERROR = math.sqrt(2.0 / math.pi)
# Candidates for a factor are the prior's median times powers of two, in steps of a quarter of an exponent.
EXPONENTS = np.arange(-24, 17) / 4.0
# The prior falls off exponentially with the exponent, faster downwards: too narrow an interval is worse.
_FALL_BELOW = 0.4
_FALL_ABOVE = 0.5
_KINDS = (
    "questions about one attribute",
    *(f"questions about {n} attributes" for n in ("two", "three", "four")),
)


def measure_quality(
    part: ViewPart, counts: Counts, mechanism: Mechanism, progress: Progress | None = None
) -> Quality:
    """The sizes of a view's errors on the table, spending all of a mechanism's budget."""
    classes = range(1, min(N_ORDERS, len(part.components.sizes)) + 1)
    asked = {k: questions_about(part, k) for k in classes}
    if progress is not None:
        progress(None, "measuring the view's own errors")
    exact_counts = {k: counts.exact_box_counts(asked[k].boxes, progress) for k in classes}
    amount, factors = mechanism.total / len(classes), list(part.quality.factors)
    for k in classes:
        choice = choice_of(asked[k], factors, k, amount)
        errors = exact_counts[k].errors(asked[k].estimate, asked[k].group)
        scores = errors.nearness(choice.expected, choice.place, choice.seen)  # [P16]
        drawn = mechanism.choose(f"{PURPOSE}: {_KINDS[k - 1]}", scores, amount, choice.prior)  # [P16]
        factors[k - 1] = float(choice.factors[drawn])
    if isinstance(part.components, Blocks):
        # Blocks spread synthetic records evenly, unlike real ones, so their cells understate the error.
        factors = [max(drawn, usual) for drawn, usual in zip(factors, part.quality.factors, strict=True)]
    within = {_KINDS[k - 1]: _within(asked[k], factors) for k in asked}
    return Quality(tuple(factors), measured=True, within=within)


class Choice(NamedTuple):
    """A draw of the factor for errors that show in k attributes, by the exponential mechanism. [P16]

    For each group, subtract the errors expected with a candidate from the observed ones. The score of the
    candidate is the distance from 0 of the chosen quantile of these differences, in whole records. The view
    alone decides all of the following. One record changes the error of one question per group by at most 1,
    and so each sum, their quantile and the score.

    expected: errors of groups, shape (n_candidates, n_groups). seen: groups that count. place: of the
    quantile. prior, factors: per candidate, its weight in the draw and the factor to use if it is drawn.
    """

    expected: Ints
    seen: NDArray[np.bool_]
    place: int
    prior: Floats
    factors: Floats


def choice_of(asked: Questions, factors: Sequence[float], k: int, amount: Fraction) -> Choice:
    """The draw of the factor for k attributes. factors: of fewer attributes, and what to expect of more."""
    squared = np.square(factors)
    known = np.maximum(asked.noise + squared[: k - 1] @ asked.model[: k - 1], 0.0)
    model = np.maximum(asked.model[k - 1], 0.0)
    # Use groups in which the model's error dominates, because the size of the noise is known.
    size, of_noise = (np.bincount(asked.group, np.sqrt(own)) for own in (model, known))
    share = factors[k - 1] * size / np.maximum(of_noise, 1e-9)
    large = size >= _SEEN * size.max()
    seen = large & (share >= min(1.0, _OF_MODEL * float(share[large].max())))
    place = math.ceil(_HELD * int(seen.sum())) - 1
    candidates = factors[k - 1] * 2.0**EXPONENTS
    errors = [_MEAN_ERROR * np.sqrt(known + factor**2 * model) for factor in candidates]
    expected = np.array([np.ceil(np.bincount(asked.group, own)) for own in errors]).astype(np.int64)
    prior = np.exp(-np.abs(EXPONENTS) / np.where(EXPONENTS < 0, _FALL_BELOW, _FALL_ABOVE))
    exponents = _posterior(expected[:, seen], place, prior, amount) @ EXPONENTS
    return Choice(expected, seen, place, prior, factors[k - 1] * 2.0**exponents)


def _posterior(expected: Ints, place: int, prior: Floats, amount: Fraction) -> Floats:
    """The probability that a candidate is right if another is drawn, shape (n_drawn, n_candidates).

    A draw on a small table is close to a draw from the prior and means little. If a candidate is right, the
    errors of groups are the expected ones, so scores are distances between expected errors.
    """
    apart = np.abs(np.sort(expected[:, None] - expected[None], axis=2)[:, :, place])
    chance = prior * np.exp(-float(amount) / 2.0 * apart)
    chance /= chance.sum(axis=1, keepdims=True)  # of every draw, if a candidate is right
    joint = (prior[:, None] * chance).T
    posterior: Floats = joint / joint.sum(axis=1, keepdims=True)
    return posterior


def _within(asked: Questions, factors: Sequence[float]) -> float:
    """The number of records within which 95% of the answers lie, if the factors are right."""
    scale = np.sqrt(np.maximum(asked.noise + np.square(factors) @ asked.model, 0.0))
    # Errors follow the law behind typical intervals; each scale contributes its quantiles above the median.
    levels = 0.5 + (np.arange(50) + 0.5) / 100
    errors = np.outer(scale, [typical_tail(float(level)) for level in levels]).reshape(-1)
    return float(np.quantile(errors, 1.0 - 2 * (1.0 - _CONFIDENCE)))
