"""The view measures its own error: how far its answers are off on the table, by number of attributes,
privately.

Questions are drawn by a public rule and from the view itself, so they say nothing about the table. Those of a
group exclude each other, so one record changes the sum of a group's errors by one at most, and sums of many
errors are seen clearly. For each number of attributes a factor is drawn with which errors add up to about as
much as expected, by the exponential mechanism with a prior: on small tables the prior decides, on large ones
the measurement does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.counts.protocol import Counts
from hdpview.domain.tables import CodeBoxes
from hdpview.errors import HdpviewError
from hdpview.privacy.exact import Exact
from hdpview.privacy.mechanism import Mechanism
from hdpview.progress import Progress
from hdpview.query.errors.closed import model_scales
from hdpview.query.errors.ends import typical_tail
from hdpview.query.question.batch import pack_boxes
from hdpview.view.blocks import Blocks
from hdpview.view.data import ViewPart
from hdpview.view.quality import N_ORDERS, Quality
from hdpview.view.sample import draw_codes

Ints = NDArray[np.int64]

QUALITY_SHARE = Fraction(1, 25)  # of a build's budget
_PURPOSE = "measure the view's own errors"
_CONFIDENCE = 0.95
# Sets of attributes asked about, per number of attributes; synthetic records for each; and ranges of an
# attribute.
_N_SETS, _N_CELLS, _N_RANGES = 24, 32, (8, 5, 3, 3)
# Share of the groups of questions whose errors add up to no more than expected: a little more than half,
# since some attributes depend strongly and most hardly do.
_HELD = 0.6
# Groups count whose errors are expected to be at least so large, as a share of the largest: what depends on
# groups of small errors is lost in the noise of the draw.
_SEEN = 0.3
# Mean of an error's absolute value, as a multiple of its root mean square: of a normal one.
_MEAN_ERROR = 0.8
# Candidates for a factor are the prior's median times powers of two, by steps of a quarter of a power.
EXPONENTS = np.arange(-24, 17) / 4.0
# The prior falls off exponentially with the exponent, faster downwards: too narrow is worse than too wide.
_FALL_BELOW, _FALL_ABOVE = 0.4, 0.5
_KINDS = tuple(
    f"questions about {n} attribute{s}" for n, s in (("one", ""), ("two", "s"), ("three", "s"), ("four", "s"))
)


class _Questions(NamedTuple):
    """Questions about k attributes, and what the view answers and expects of its errors.

    group: of each question, shape (n,). No record satisfies two questions of the same group.
    """

    boxes: CodeBoxes
    group: NDArray[np.int64]
    estimate: NDArray[np.float64]
    noise: NDArray[np.float64]
    model: NDArray[np.float64]


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
        factors[k - 1] = _drawn_factor(asked[k], exact_counts[k], factors, k, mechanism, amount)  # [P16]
    if isinstance(part.components, Blocks):
        # Synthetic records of blocks are spread evenly, unlike real ones: their cells show too little of the
        # error.
        factors = [max(drawn, usual) for drawn, usual in zip(factors, part.quality.factors, strict=True)]
    within = {_KINDS[k - 1]: _within(asked[k], factors) for k in asked}
    return Quality(tuple(factors), measured=True, within=within)


def questions_about(part: ViewPart, k: int) -> _Questions:
    """Questions about k attributes in groups, by a public rule given the view.

    For each of some sets of attributes there are two groups: the cells of a grid of ranges over all codes,
    and single cells at the places of synthetic records.
    """
    sizes, rng = part.components.sizes, np.random.default_rng(k)
    try:
        codes = draw_codes([part], _N_SETS * _N_CELLS, rng).T.astype(np.int64)
    except HdpviewError:  # a view of nothing has no records to draw
        codes = np.zeros((_N_SETS * _N_CELLS, len(sizes)), np.int64)
    groups = []
    for own in np.split(codes, _N_SETS):
        attribute = rng.permutation(len(sizes))[:k]
        cells = np.array(sorted(set(map(tuple, own[:, attribute].tolist()))))
        groups += [_grid(attribute, own, sizes, rng), _boxes(attribute, cells, cells + 1)]
    columns = ([getattr(each, name) for each in groups] for name in ("attribute", "lower", "upper"))
    boxes = CodeBoxes(*(np.concatenate(column) for column in columns))
    group = np.repeat(np.arange(len(groups)), list(map(len, groups)))
    scales = model_scales(part, pack_boxes(boxes, sizes))
    return _Questions(boxes, group, scales.estimate, scales.known, scales.model)


def _grid(attribute: Ints, records: Ints, sizes: Sequence[int], rng: np.random.Generator) -> CodeBoxes:
    """A grid of ranges of these attributes; every second cut is at the code of a record."""
    ends = []
    for a in attribute.tolist():
        n_cuts = _N_RANGES[len(attribute) - 1] - 1
        even, placed = rng.integers(0, sizes[a], n_cuts), rng.choice(records[:, a], n_cuts)
        cuts = np.where(np.arange(n_cuts) % 2, even, placed)
        ends.append(sorted({0, *cuts.tolist(), sizes[a]}))
    lower, upper = (
        np.array(list(product(*each))) for each in ([own[:-1] for own in ends], [own[1:] for own in ends])
    )
    return _boxes(attribute, lower, upper)


def _boxes(attribute: Ints, lower: Ints, upper: Ints) -> CodeBoxes:
    return CodeBoxes(np.repeat(attribute[None], len(lower), axis=0), lower, upper)


def _drawn_factor(
    asked: _Questions,
    exact_counts: Exact,
    factors: Sequence[float],
    k: int,
    mechanism: Mechanism,
    amount: Fraction,
) -> float:
    """A factor for errors that show in k attributes, by the exponential mechanism. [P16]

    The errors of a group are added up, and so are those to expect with a factor t. The score of t is how far
    the chosen quantile over groups of the difference is from 0, in whole records. Which groups count follows
    from the view alone. One record moves the errors of one question of each group by one at most, so each
    sum, their quantile and the score.
    """
    squared = np.square(factors)
    known = np.maximum(asked.noise + squared[: k - 1] @ asked.model[: k - 1], 0.0)
    model = np.maximum(asked.model[k - 1], 0.0)
    size = np.bincount(asked.group, np.sqrt(model))
    seen = size >= _SEEN * size.max()
    place = math.ceil(_HELD * int(seen.sum())) - 1
    candidates = factors[k - 1] * 2.0**EXPONENTS
    expected = [
        np.ceil(np.bincount(asked.group, _MEAN_ERROR * np.sqrt(known + factor**2 * model)))
        for factor in candidates
    ]
    exact_errors = exact_counts.errors(asked.estimate, asked.group)
    scores = exact_errors.nearness(np.array(expected).astype(np.int64), place, seen)
    prior = np.exp(-np.abs(EXPONENTS) / np.where(EXPONENTS < 0, _FALL_BELOW, _FALL_ABOVE))
    return float(candidates[mechanism.choose(f"{_PURPOSE}: {_KINDS[k - 1]}", scores, amount, prior)])


def _within(asked: _Questions, factors: Sequence[float]) -> float:
    """How many records 95 % of the answers are off at most, if errors are as large as the factors say."""
    scale = np.sqrt(np.maximum(asked.noise + np.square(factors) @ asked.model, 0.0))
    # Errors follow the law behind typical intervals; each scale stands for all its quantiles from the median
    # on.
    levels = 0.5 + (np.arange(50) + 0.5) / 100
    errors = np.outer(scale, [typical_tail(float(level)) for level in levels]).reshape(-1)
    return float(np.quantile(errors, 1.0 - 2 * (1.0 - _CONFIDENCE)))
