"""The view measures its own error: how far its answers are off on the table, by number of attributes,
privately.

Questions are drawn by a public rule and from the view itself, so they say nothing about the table. For each
number of attributes a factor is drawn that would make intervals hold as often as they should, by the
exponential mechanism with a prior: on small tables, where one record counts for much, the prior decides; on
large ones the measurement does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.counts.protocol import Counts
from hdpview.domain.tables import CodeBoxes
from hdpview.errors import HdpviewError
from hdpview.privacy.budget import Budget
from hdpview.privacy.choice import choose
from hdpview.privacy.randomness import Draws, Randomness
from hdpview.progress import Progress
from hdpview.query.interval.errors import model_scales
from hdpview.query.interval.tails import typical_tail
from hdpview.query.workloads import pack_boxes
from hdpview.view.blocks import Blocks
from hdpview.view.data import ViewPart
from hdpview.view.quality import N_ORDERS, Quality
from hdpview.view.sample import draw_codes

QUALITY_SHARE = Fraction(1, 25)  # of a build's budget
_PURPOSE = "measure the view's own errors"
_CONFIDENCE = 0.95
# Of the questions whose truth an interval should hold: a little more than is promised, since factors are
# drawn.
_HELD = 0.965
_MOST_QUESTIONS, _LEAST_QUESTIONS = 256, 48  # of each kind and number of attributes
_MOST_WORK = 4e9  # records times questions
# Candidates for a factor are the prior's median times powers of two, by steps of half a power.
EXPONENTS = np.arange(-8, 9) / 2.0
# The prior falls off exponentially with the exponent, faster downwards: too narrow is worse than too wide.
_FALL_BELOW, _FALL_ABOVE = 0.25, 0.4
_KINDS = tuple(
    f"questions about {n} attribute{s}" for n, s in (("one", ""), ("two", "s"), ("three", "s"), ("four", "s"))
)


class _Questions(NamedTuple):
    """Questions about k attributes: boxes, and what the view answers and expects of its errors."""

    boxes: CodeBoxes
    estimate: NDArray[np.float64]
    noise: NDArray[np.float64]
    model: NDArray[np.float64]


def measure_quality(
    part: ViewPart, counts: Counts, budget: Budget, randomness: Randomness, progress: Progress | None = None
) -> Quality:
    """The sizes of a view's errors on the table, spending what is left of a budget."""
    classes = range(1, min(N_ORDERS, len(part.components.sizes)) + 1)
    asked = {k: questions_about(part, k) for k in classes}
    if progress is not None:
        progress(None, "measuring the view's own errors")
    exact_counts = [counts.exact_box_counts(asked[k].boxes, progress) for k in classes]
    epsilon = budget.charge(_PURPOSE, budget.remaining / len(classes), times=len(classes))  # [P16]
    draws = Draws(randomness.root_key("quality"))
    factors = list(part.quality.factors)
    for k, exact_truth in zip(classes, exact_counts, strict=True):
        factors[k - 1] = _drawn_factor(asked[k], exact_truth, factors, k, epsilon, draws)
    if isinstance(part.components, Blocks):
        # Synthetic records of blocks are spread evenly, unlike real ones: their cells show too little of the
        # error.
        factors = [max(drawn, usual) for drawn, usual in zip(factors, part.quality.factors, strict=True)]
    within = {_KINDS[k - 1]: _within(asked[k], factors) for k in asked}
    return Quality(tuple(factors), measured=True, within=within)


def questions_about(part: ViewPart, k: int) -> _Questions:
    """Random ranges of k attributes, and cells at the places of synthetic records: a public rule given the
    view.
    """
    sizes, rng = part.components.sizes, np.random.default_rng(k)
    total = max(float(part.components.weight.sum()), 1.0)
    n = int(np.clip(_MOST_WORK / (total * 2 * N_ORDERS), _LEAST_QUESTIONS, _MOST_QUESTIONS))
    width = np.array(sizes)
    attribute = np.argsort(rng.random((n, len(sizes))), axis=1)[:, :k]
    ends = np.sort(rng.integers(0, width[attribute][..., None], (n, k, 2)), axis=2)
    found = [CodeBoxes(attribute, ends[..., 0], ends[..., 1] + 1)]
    try:
        codes = draw_codes([part], n, rng).T.astype(np.int64)
    except HdpviewError:  # a view of nothing has no records to draw
        codes = np.zeros((0, len(sizes)), np.int64)
    if len(codes):
        attribute = np.argsort(rng.random(codes.shape), axis=1)[:, :k]
        cell = np.take_along_axis(codes, attribute, axis=1)
        found.append(CodeBoxes(attribute, cell, cell + 1))
    columns = ([getattr(each, name) for each in found] for name in ("attribute", "lower", "upper"))
    boxes = CodeBoxes(*(np.concatenate(column) for column in columns))
    scales = model_scales(part, pack_boxes(boxes, sizes))
    return _Questions(boxes, scales.estimate, scales.noise, scales.model)


def _drawn_factor(
    asked: _Questions,
    exact_truth: NDArray[np.int64],
    factors: Sequence[float],
    k: int,
    epsilon: Fraction,
    draws: Draws,
) -> float:
    """A factor for errors that show in k attributes, by the exponential mechanism. [P16]

    For a factor t, the score is how far the chosen quantile of |answer − truth| − reach(t) is from 0, in
    whole records. One record moves each truth by one at most, so each difference, their quantile and the
    score.
    """
    tail = typical_tail(_CONFIDENCE)
    squared = np.square(factors)
    known = np.maximum(asked.noise + squared[: k - 1] @ asked.model[: k - 1], 0.0)
    exact_errors = np.abs(np.rint(asked.estimate).astype(np.int64) - exact_truth)
    place = math.ceil(_HELD * len(exact_errors)) - 1
    candidates = factors[k - 1] * 2.0**EXPONENTS
    exact_scores = []
    for factor in candidates:
        reach = np.ceil(tail * np.sqrt(known + factor**2 * np.maximum(asked.model[k - 1], 0.0))).astype(
            np.int64
        )
        exact_scores.append(-abs(int(np.sort(exact_errors - reach)[place])))  # [P16]
    prior = np.exp(-np.abs(EXPONENTS) / np.where(EXPONENTS < 0, _FALL_BELOW, _FALL_ABOVE))
    chosen = choose(np.array(exact_scores, np.float64), epsilon / 2, draws, prior)  # [P16]
    return float(candidates[chosen])


def _within(asked: _Questions, factors: Sequence[float]) -> float:
    """How many records 95 % of the answers are off at most, if errors are as large as the factors say."""
    scale = np.sqrt(np.maximum(asked.noise + np.square(factors) @ asked.model, 0.0))
    # Errors follow the law behind typical intervals; each scale stands for all its quantiles from the median
    # on.
    levels = 0.5 + (np.arange(50) + 0.5) / 100
    errors = np.outer(scale, [typical_tail(float(level)) for level in levels]).reshape(-1)
    return float(np.quantile(errors, 1.0 - 2 * (1.0 - _CONFIDENCE)))
