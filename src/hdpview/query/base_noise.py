"""What the histograms behind a base tell of the error of answers, from the marginals of the base alone.

A question is a product of functions of single attributes: the share of each code that it asks for, or the
    share times a value. Noise in
the histogram of attribute a moves the answer by what the function makes of it, times the share of records
that all other functions let through; how the two are put together is `base_noise`. Boxes of a question, and
parts of a merged view, add up.

Of how such a product varies from record to record, one part is a sum over single attributes, which histograms
know about, and the rest is
joint to several of them, which they know nothing about: `joint_share`. Its mean over all records is a matter
    of the total alone, which
histograms know best of all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.query.boxes import Questions
from hdpview.view.base import Base
from hdpview.view.blocks import Blocks

Floats = NDArray[np.float64]
Functions = Mapping[int, Floats]  # attribute → a number per code, shape (size,)


_LEFT = 0.3  # of the variance of noise in a histogram: smoothing, and counts of blocks, take most of it away
_TOGETHER = (
    1 / 4
    # the power of a share that others let through: rare values go together more often than if they were
    # independent
)
_MOST_VARIED = 1e12  # relative variance of a function that hardly any record passes


class OfBase(NamedTuple):
    """What bases tell of each question, shape (n,) each; named as the fields of `Summary`, where they are
    explained.
    """

    base_variance: Floats
    joint_share: Floats
    total_variance: Floats
    total_squares: Floats

    def scaled(self, values: Floats | float) -> OfBase:
        """Of sums, where every record counts for its value."""
        return OfBase(
            self.base_variance * values**2,
            self.joint_share,
            self.total_variance * values**2,
            self.total_squares * values**2,
        )


class NoisyBase(NamedTuple):
    """A base whose noise is known, and how many blocks lie over it."""

    base: Base
    n_blocks: int

    def of_total(self, share: NDArray[Any] | float) -> tuple[Floats, Floats]:
        """`total_variance` and `total_squares` of questions whose mean over all records is `share`.

        Each histogram adds up to the total; of all together, weighted by how sure they are, the variance is 1
        / Σ 1/(variance · size).
        """
        variances = np.asarray(self.base.variance) * np.array(self.base.sizes)
        variance = 1.0 / np.sum(1.0 / variances[variances > 0])
        square = np.asarray(share, dtype=np.float64) ** 2
        return variance * square, self.n_blocks * square


def base_noise(
    variance: Floats | float,
    n_codes: Floats | float,
    size: Floats | float,
    rest: Floats | float,
    scale: float = 1.0,
) -> Floats:
    """Squared error of a question from the noise in the histogram of one of its attributes. A model, chosen
    by measured coverage.

    variance: of one code's count there. n_codes: how many of the attribute's `size` codes are asked for; as
        the total is known better than
    its parts, asking for nearly all of them is as good as asking for the few that are left. rest: share of
    records that satisfies the question in all other attributes, taken as if they were independent. scale: of
    the values that are summed up, where they are of others.
    """
    return np.asarray(
        _LEFT * variance * np.minimum(n_codes, size - n_codes) * together(rest) ** 2 * scale**2,
        dtype=np.float64,
    )


def together(share: Floats | float) -> Floats:
    """The share of records that conditions may let through together, from the product of what each lets
    through.

    Of a function with two signs, as a quantile's is, it is the size that counts.
    """
    return np.abs(np.asarray(share, dtype=np.float64)) ** _TOGETHER


def joint_share(varied: Floats | float, logs: Floats | float) -> Floats:
    """The share of a product's variance that is not a sum over its factors: 0 for a single one, near 1 for
    cells of large tables.

    Factors of relative variances r are taken as independent. The product's relative variance is then Π(1 + r)
    − 1, and that of the sum that comes nearest to it is Σ r (Hoeffding). varied: Σ r; logs: Σ log(1 + r).
    """
    varied, logs = np.asarray(varied, dtype=np.float64), np.asarray(logs, dtype=np.float64)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        return np.where(varied > 0, np.clip(1.0 - varied / np.expm1(logs), 0.0, 1.0), 0.0)


def _varied(mean: Floats, square: Floats) -> Floats:
    """The relative variance of a function, from its mean and mean square over records."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(mean != 0, np.clip(square / mean**2 - 1.0, 0.0, _MOST_VARIED), _MOST_VARIED)


def noisy_bases(blocks: Blocks) -> list[NoisyBase]:
    """Bases whose noise is known."""
    n_blocks = np.bincount(blocks.parts, minlength=len(blocks.bases))
    return [
        NoisyBase(base, int(n))
        for base, n in zip(blocks.bases, n_blocks, strict=False)
        if np.any(base.variance)
    ]


class _OfBox(NamedTuple):
    """Variance, joint share and mean over all records of one box, as many numbers each as are asked for."""

    variance: Floats | float
    joint: Floats | float
    mean: Floats | float


def _of_boxes(over: NoisyBase, boxes: Sequence[_OfBox], shape: tuple[int, ...]) -> OfBase:
    """Boxes are disjoint: variances and means add up, and the largest joint share counts for all."""
    variance, joint, mean = (
        (np.stack(of_boxes) for of_boxes in zip(*boxes, strict=True)) if boxes else np.zeros((3, 1, *shape))
    )
    return OfBase(variance.sum(axis=0), joint.max(axis=0), *over.of_total(mean.sum(axis=0)))


def _of_parts(parts: Sequence[OfBase], shape: tuple[int, ...]) -> OfBase:
    """So it is with the parts of a merged view; nothing where no base tells of its noise."""
    variance, joint, total, squares = (
        (np.stack(of) for of in zip(*parts, strict=True)) if parts else np.zeros((4, 1, *shape))
    )
    return OfBase(variance.sum(axis=0), joint.max(axis=0), total.sum(axis=0), squares.sum(axis=0))


def of_questions(blocks: Blocks, questions: Questions) -> OfBase:
    """What histograms tell of every question."""
    return _of_parts([_of_questions(over, questions) for over in noisy_bases(blocks)], (len(questions),))


def _of_questions(over: NoisyBase, questions: Questions) -> OfBase:
    base, n_boxes = over.base, len(questions.term_start) - 1
    question = np.repeat(np.arange(len(questions)), np.diff(questions.box_start))
    if not len(questions.term_at):  # all ask for everything
        nothing = np.zeros(len(questions))
        return OfBase(nothing, nothing, *over.of_total(np.bincount(question, minlength=len(questions))))
    at, example, term = np.unique(questions.term_at, return_index=True, return_inverse=True)
    attribute = questions.term_attribute[
        example
    ]  # of each different condition; conditions stand one after the other, without gaps
    sizes = np.array(base.sizes)[attribute]
    marginals = [np.append(base.marginal(a), 0.0) for a in range(len(base.parent))]
    ends = np.stack([at, at + sizes], axis=1).reshape(-1)
    share, marginal = np.diff(questions.prefix, append=0.0), np.concatenate([marginals[a] for a in attribute])
    n_codes, passed, squared = (
        np.add.reduceat(of_codes, ends)[::2] for of_codes in (share**2, share * marginal, share**2 * marginal)
    )
    box = np.repeat(np.arange(n_boxes), np.diff(questions.term_start))
    varied = _varied(passed, squared)[term]
    log_all, r, log_r = (
        np.bincount(box, terms, n_boxes).astype(float)
        for terms in (_log(passed[term]), varied, np.log1p(varied))
    )
    rest = np.exp(log_all[box] - _log(passed[term]))
    variance = base_noise(
        np.asarray(base.variance)[questions.term_attribute], n_codes[term], sizes[term], rest
    )
    joint = np.zeros(len(questions))
    np.maximum.at(joint, question, joint_share(r, log_r))
    of_total = over.of_total(np.bincount(question, np.exp(log_all), len(questions)))
    return OfBase(np.bincount(question[box], variance, len(questions)).astype(np.float64), joint, *of_total)


def _log(shares: Floats) -> Floats:
    """Logarithms; of nothing, one so low that no product with it is anything."""
    return np.log(np.maximum(shares, 1e-300))


def of_functions(
    bases: Sequence[NoisyBase], boxes: Sequence[Functions], with_values: Sequence[int | None]
) -> OfBase:
    """What histograms tell of one question, a sum over boxes of functions; of no dimension.

    with_values: the attribute of each box that has values, if any.
    """
    asked = list(zip(boxes, with_values, strict=True))
    return _of_parts([_of_boxes(over, [_of_box(over.base, *box) for box in asked], ()) for over in bases], ())


def _of_box(base: Base, functions: Functions, valued: int | None) -> _OfBox:
    return _OfBox(
        _variance(base, functions, valued), joint_share(*_variation(base, functions)), _mean(base, functions)
    )


def _mean(base: Base, functions: Functions) -> float:
    """The mean over all records of a product of functions."""
    return math.prod(float(function @ base.marginal(a)) for a, function in functions.items())


def _variance(base: Base, functions: Functions, valued: int | None) -> float:
    """The variance of one box."""
    found = 0.0
    for a, function in functions.items():
        rest, scale = _passed(base, {b: other for b, other in functions.items() if b != a}, valued)
        found += float(base_noise(np.asarray(base.variance)[a], *_codes(function, a == valued), rest, scale))
    return found


def _variation(base: Base, functions: Functions) -> tuple[float, float]:
    """Σ r and Σ log(1 + r) over the relative variances of functions."""
    marginals = [base.marginal(a) for a in functions]
    means = np.array(
        [function @ marginal for function, marginal in zip(functions.values(), marginals, strict=True)]
    )
    squares = np.array(
        [function**2 @ marginal for function, marginal in zip(functions.values(), marginals, strict=True)]
    )
    varied = _varied(means, squares)
    return float(varied.sum()), float(np.log1p(varied).sum())


def _passed(base: Base, functions: Functions, valued: int | None) -> tuple[float, float]:
    """The share of records that functions let through together, and the size of the values among them."""
    share, scale = 1.0, 1.0
    for a, function in functions.items():
        through = float((function != 0 if a == valued else function) @ base.marginal(a))
        share *= through
        scale *= abs(float(function @ base.marginal(a))) / through if a == valued and through > 0 else 1.0
    return share, scale


def _codes(function: Floats, is_valued: bool) -> tuple[float, float]:
    """How many codes a function asks for, and of how many. Of values, what differs from their mean: the total
    is known better.
    """
    if is_valued:
        return float(((function - function.mean()) ** 2).sum()), math.inf
    return float((function**2).sum()), float(len(function))


def of_groups(
    bases: Sequence[NoisyBase],
    boxes: Sequence[Functions],
    with_values: Sequence[int | None],
    attributes: Sequence[int],
    sizes: Sequence[int],
) -> OfBase:
    """What histograms tell of every group of codes of `attributes`, the last running fastest, shape
    (n_groups,).
    """
    asked, shape = list(zip(boxes, with_values, strict=True)), (math.prod(sizes[a] for a in attributes),)
    return _of_parts(
        [
            _of_boxes(over, [_of_groups(over.base, *box, attributes, sizes) for box in asked], shape)
            for over in bases
        ],
        shape,
    )


def _of_groups(
    base: Base, functions: Functions, valued: int | None, attributes: Sequence[int], sizes: Sequence[int]
) -> _OfBox:
    """One box in every group."""
    marginals = [base.marginal(a) for a in attributes]
    of_axes = [functions.get(a, np.ones(sizes[a])) for a in attributes]
    squares = [
        _squared(marginal, function, a == valued)
        for a, marginal, function in zip(attributes, marginals, of_axes, strict=True)
    ]
    others = {a: function for a, function in functions.items() if a not in attributes}
    rest, scale = _passed(base, others, valued)
    variance = _variance(base, others, valued) * _outer(squares)
    for i, (a, function) in enumerate(zip(attributes, of_axes, strict=True)):
        own = base_noise(np.asarray(base.variance)[a], function**2, len(function), rest, scale)
        variance += _outer([*squares[:i], own, *squares[i + 1 :]])
    of_codes = [_of_codes(marginal) for marginal in marginals]
    sums = (
        total + _outer([axis[i] for axis in of_codes], np.add)
        for i, total in enumerate(_variation(base, others))
    )
    asked = _outer([function != 0 for function in of_axes])
    mean = _mean(base, others) * _outer(
        [function * marginal for function, marginal in zip(of_axes, marginals, strict=True)]
    )
    return _OfBox(variance, np.where(asked, joint_share(*sums), 0.0), mean)


def of_histograms(
    bases: Sequence[NoisyBase], boxes: Sequence[Functions], attributes: Sequence[int], sizes: Sequence[int]
) -> OfBase:
    """What histograms tell of every code of each of these attributes by itself, one after the other, shape
    (number of all codes,).
    """
    shape = (sum(sizes[a] for a in attributes),)
    return _of_parts(
        [
            _of_boxes(over, [_of_histograms(over.base, box, attributes, sizes) for box in boxes], shape)
            for over in bases
        ],
        shape,
    )


def _of_histograms(
    base: Base, functions: Functions, attributes: Sequence[int], sizes: Sequence[int]
) -> _OfBox:
    """As `_of_groups`, of each attribute by itself. To all that the box does not speak of, it does the same,
    so they are taken at once.
    """
    marginal = np.concatenate([np.zeros(0), *(base.marginal(a) for a in attributes)])
    widths = np.array([sizes[a] for a in attributes], np.int64)
    own = base_noise(
        np.asarray(base.variance)[np.array(attributes, np.int64)],
        1.0,
        widths.astype(float),
        _passed(base, functions, None)[0],
    )
    variance = _variance(base, functions, None) * together(marginal) ** 2 + np.repeat(own, widths)
    (varied, logs), (own_varied, own_logs) = _variation(base, functions), _of_codes(marginal)
    joint, mean = joint_share(varied + own_varied, logs + own_logs), _mean(base, functions) * marginal
    ends = np.cumsum(widths)
    for a, first, end in zip(attributes, ends - widths, ends, strict=True):
        if a in functions:
            variance[first:end], joint[first:end], mean[first:end] = _of_groups(
                base, functions, None, [a], sizes
            )
    return _OfBox(variance, joint, mean)


def _of_codes(marginal: Floats) -> tuple[Floats, Floats]:
    """Relative variance r of asking for each code alone, and log(1 + r), shape (size,) each."""
    varied = _varied(marginal, marginal)
    return varied, np.log1p(varied)


def _squared(marginal: Floats, function: Floats, is_valued: bool) -> Floats:
    """What each code of a grouping attribute lets through, squared, shape (size,)."""
    if is_valued:
        return together(marginal) ** 2 * function**2
    return together(function * marginal) ** 2


def _outer(axes: Sequence[Floats], together: np.ufunc = np.multiply) -> Floats:
    return np.asarray(reduce(together.outer, axes)).reshape(-1)
