"""What noise in the histograms behind a base does to answers: a variance per question, from the marginals of the base alone.

A question is a product of functions of single attributes: the share of each code that it asks for, or the share times a value. Noise in
the histogram of attribute a moves the answer by what the function makes of it, times the share of records that all other functions let
through; how the two are put together is `base_noise`. Boxes of a question, and parts of a merged view, add up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from hdpview.query.boxes import Questions
from hdpview.view.base import Base

Floats = NDArray[np.float64]
Functions = Mapping[int, Floats]  # attribute → a number per code, shape (size,)


_LEFT = 0.3  # of the variance of noise in a histogram: smoothing, and counts of blocks, take most of it away
_TOGETHER = 1 / 4  # the power of a share that others let through: rare values go together more often than if they were independent


def base_noise(variance: Floats | float, n_codes: Floats | float, size: Floats | float, rest: Floats | float, scale: float = 1.0) -> Floats:
    """Squared error of a question from the noise in the histogram of one of its attributes. A model, chosen by measured coverage.

    variance: of one code's count there. n_codes: how many of the attribute's `size` codes are asked for; as the total is known better than
    its parts, asking for nearly all of them is as good as asking for the few that are left. rest: share of records that satisfies the
    question in all other attributes, taken as if they were independent. scale: of the values that are summed up, where they are of others.
    """
    return np.asarray(_LEFT * variance * np.minimum(n_codes, size - n_codes) * together(rest) ** 2 * scale**2, dtype=np.float64)


def together(share: Floats | float) -> Floats:
    """The share of records that conditions may let through together, from the product of what each lets through.

    Of a function with two signs, as a quantile's is, it is the size that counts.
    """
    return np.abs(np.asarray(share, dtype=np.float64)) ** _TOGETHER


def noisy_bases(bases: Sequence[Base]) -> list[Base]:
    """Bases whose noise is known."""
    return [base for base in bases if np.any(base.variance)]


def of_questions(bases: Sequence[Base], questions: Questions) -> Floats:
    """The variance of every question, shape (n_questions,)."""
    found = np.zeros(len(questions))
    for base in noisy_bases(bases):
        if len(questions.term_at):
            found += _of_questions(base, questions)
    return found


def _of_questions(base: Base, questions: Questions) -> Floats:
    at, example, term = np.unique(questions.term_at, return_index=True, return_inverse=True)
    attribute = questions.term_attribute[example]  # of each different condition; conditions stand one after the other, without gaps
    sizes = np.array(base.sizes)[attribute]
    marginals = [np.append(base.marginal(a), 0.0) for a in range(len(base.parent))]
    ends = np.stack([at, at + sizes], axis=1).reshape(-1)
    share = np.diff(questions.prefix, append=0.0)
    n_codes = np.add.reduceat(share**2, ends)[::2]
    passed = np.add.reduceat(share * np.concatenate([marginals[a] for a in attribute]), ends)[::2]
    box = np.repeat(np.arange(len(questions.term_start) - 1), np.diff(questions.term_start))
    log_all = np.bincount(box, _log(passed[term]), len(questions.term_start) - 1)
    rest = np.exp(log_all[box] - _log(passed[term]))
    variance = base_noise(np.asarray(base.variance)[questions.term_attribute], n_codes[term], sizes[term], rest)
    question = np.repeat(np.arange(len(questions)), np.diff(questions.box_start))
    return np.bincount(question[box], variance, len(questions)).astype(np.float64)


def _log(shares: Floats) -> Floats:
    """Logarithms; of nothing, one so low that no product with it is anything."""
    return np.log(np.maximum(shares, 1e-300))


def of_functions(bases: Sequence[Base], boxes: Sequence[Functions], with_values: Sequence[int | None]) -> float:
    """The variance of one question, a sum over boxes of functions. with_values: the attribute of each box that has values, if any."""
    found = 0.0
    for base in noisy_bases(bases):
        for functions, valued in zip(boxes, with_values, strict=True):
            for a, function in functions.items():
                rest, scale = _passed(base, {b: other for b, other in functions.items() if b != a}, valued)
                found += float(base_noise(np.asarray(base.variance)[a], *_codes(function, a == valued), rest, scale))
    return found


def _passed(base: Base, functions: Functions, valued: int | None) -> tuple[float, float]:
    """The share of records that functions let through together, and the size of the values among them."""
    share, scale = 1.0, 1.0
    for a, function in functions.items():
        through = float((function != 0 if a == valued else function) @ base.marginal(a))
        share *= through
        scale *= abs(float(function @ base.marginal(a))) / through if a == valued and through > 0 else 1.0
    return share, scale


def _codes(function: Floats, is_valued: bool) -> tuple[float, float]:
    """How many codes a function asks for, and of how many. Of values, what differs from their mean: the total is known better."""
    if is_valued:
        return float(((function - function.mean()) ** 2).sum()), math.inf
    return float((function**2).sum()), float(len(function))


def of_groups(
    bases: Sequence[Base], boxes: Sequence[Functions], with_values: Sequence[int | None], attributes: Sequence[int], sizes: Sequence[int]
) -> Floats:
    """The variance in every group of codes of `attributes`, the last running fastest, shape (n_groups,)."""
    shape = [sizes[a] for a in attributes]
    found = np.zeros(math.prod(shape))
    for base in noisy_bases(bases):
        for functions, valued in zip(boxes, with_values, strict=True):
            of_axes = [functions.get(a, np.ones(size)) for a, size in zip(attributes, shape, strict=True)]
            squares = [_squared(base.marginal(a), function, a == valued) for a, function in zip(attributes, of_axes, strict=True)]
            others = {a: function for a, function in functions.items() if a not in attributes}
            rest, scale = _passed(base, others, valued)
            found += of_functions([base], [others], [valued]) * _outer(squares)
            for i, (a, function) in enumerate(zip(attributes, of_axes, strict=True)):
                own = base_noise(np.asarray(base.variance)[a], function**2, len(function), rest, scale)
                found += _outer([*squares[:i], own, *squares[i + 1 :]])
    return found


def of_histograms(bases: Sequence[Base], boxes: Sequence[Functions], attributes: Sequence[int], sizes: Sequence[int]) -> Floats:
    """The variance of every code of each of these attributes by itself, one after the other, shape (number of all codes,).

    To attributes that a box does not speak of, it does the same.
    """
    ends = np.cumsum([0, *(sizes[a] for a in attributes)]).tolist()
    found = np.zeros(ends[-1])
    for base in noisy_bases(bases):
        for functions in boxes:
            of_filter, rest = of_functions([base], [functions], [None]), _passed(base, functions, None)[0]
            for a, i, j in zip(attributes, ends[:-1], ends[1:], strict=True):
                if a in functions:
                    found[i:j] += of_groups([base], [functions], [None], [a], sizes)
                else:
                    own = base_noise(np.asarray(base.variance)[a], 1.0, sizes[a], rest)
                    found[i:j] += of_filter * _squared(base.marginal(a), np.ones(sizes[a]), False) + own
    return found


def _squared(marginal: Floats, function: Floats, is_valued: bool) -> Floats:
    """What each code of a grouping attribute lets through, squared, shape (size,)."""
    if is_valued:
        return together(marginal) ** 2 * function**2
    return together(function * marginal) ** 2


def _outer(axes: Sequence[Floats]) -> Floats:
    return np.asarray(reduce(np.multiply.outer, axes)).reshape(-1)
