"""Measure the errors of a view of an invented table."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from hdpview.build import release
from hdpview.counts.contributions import Contributions
from hdpview.counts.sparse import SparseCounts
from hdpview.domain import Schema
from hdpview.domain.table_shapes import CodeBoxes
from hdpview.methods import Method
from hdpview.privacy.exact import unprotected
from hdpview.privacy.randomness import Randomness
from hdpview.query.estimate.estimates import estimates
from hdpview.query.question.batch import pack_boxes
from hdpview.view.file import size_in_bytes

# Number of attributes in each kind of counting question.
COUNTS = {
    "range of one attribute": 1,
    "range of two attributes": 2,
    "range of three attributes": 3,
    "cell of a two-way table": 2,
}
GROUP_MEAN = "mean within a group"
GROUP_RATE = "rate within a group"
RELATIONS = (GROUP_MEAN, GROUP_RATE)
# Each kind always draws the same questions, so that budgets compare on equal terms.
_SEEDS = dict(zip((*COUNTS, *RELATIONS), (0, 5, 6, 1, 8, 9), strict=True))
_N_QUESTIONS = 150  # of each kind, to each view
_N_GROUPS = 40  # of each kind, in each view
_N_RANGES = 8  # ranges of codes per attribute that form groups
_LEAST_GROUP = 30  # records; smaller groups have no meaningful mean
_LEAST_SHARE = 0.01  # the same, as a share of all records

Floats = NDArray[np.float64]
Answer = Callable[[CodeBoxes], tuple[Floats, Floats]]  # counts of boxes by a view, and the true counts
Measured = dict[str, float]  # of one table: errors by kind, "blocks", "bytes", "seconds"


def measure(
    table: SparseCounts,
    epsilon: Fraction,
    method: Method,
    kinds: Sequence[str],
    limits: Contributions,
    n_builds: int,
) -> Measured:
    """Errors by kind, blocks, bytes and seconds: root mean squares over a few builds.

    kinds: of questions, among COUNTS and RELATIONS.
    """
    builds = [_measure_one(table, epsilon, method, kinds, limits, i) for i in range(n_builds)]
    return {what: statistics.fmean(build[what] ** 2 for build in builds) ** 0.5 for what in builds[0]}


def _measure_one(
    table: SparseCounts,
    epsilon: Fraction,
    method: Method,
    kinds: Sequence[str],
    limits: Contributions,
    number: int,
) -> Measured:
    started = time.process_time()  # a busy machine must not prolong the forecast
    # The data are invented, so a fixed key is safe; budgets then compare on equal terms.
    key = Randomness.from_test_key(b"estimate %d" % number)
    view = release(table, epsilon, method, key, limits=limits)
    measured: Measured = {"seconds": time.process_time() - started, "blocks": view.n_components}
    measured["bytes"] = size_in_bytes(view)

    def answer(boxes: CodeBoxes) -> tuple[Floats, Floats]:
        estimated = estimates(view, pack_boxes(boxes, table.schema.sizes))
        return estimated, unprotected(table.exact_box_counts(boxes)).astype(np.float64)

    for kind in kinds:
        rng = np.random.default_rng([number, _SEEDS[kind]])
        error = _relation_error if kind in RELATIONS else _count_error
        measured[kind] = error(kind, table.schema, rng, answer)
    return measured


def _count_error(kind: str, schema: Schema, rng: Generator, answer: Answer) -> float:
    draw, n = draw_cells if kind.startswith("cell") else draw_ranges, _N_QUESTIONS
    is_single = COUNTS[kind] == 1
    boxes = (
        draw_single_ranges(schema.sizes, n, rng) if is_single else draw(schema.sizes, COUNTS[kind], n, rng)
    )
    estimated, exact_counts = answer(boxes)
    return float(np.sqrt(((estimated - exact_counts) ** 2).mean()))


def _relation_error(kind: str, schema: Schema, rng: Generator, answer: Answer) -> float:
    """Error of means or rates of one attribute within groups of another, times the number of records, so that
    it scales with the table as errors of counts do.

    A group is about an eighth of an attribute's codes. Its mean is that of positions from 0 to 1 on the other
    attribute's axis; its rate is the share of records in the upper half of that axis.
    """
    pairs = np.argsort(rng.random((_N_GROUPS, len(schema))), axis=1)[:, :2]
    sizes = np.array(schema.sizes)[pairs]
    groups = rng.integers(0, np.minimum(sizes[:, 0], _N_RANGES))
    parts = [_parts(int(size)) for size in sizes[:, 1]]
    lower, upper, pair, place = [], [], [], []
    for i, (starts, ends) in enumerate(parts):
        first, last = (side[groups[i]] for side in _parts(int(sizes[i, 0])))
        lower += [(first, start) for start in starts]
        upper += [(last, end) for end in ends]
        pair += [i] * len(starts)
        place += [(start + end) / 2 / sizes[i, 1] for start, end in zip(starts, ends, strict=True)]
    answered, exact_counts = answer(CodeBoxes(pairs[pair], np.array(lower), np.array(upper)))
    weight = np.array(place) if kind == GROUP_MEAN else (np.array(place) > 0.5).astype(np.float64)
    n_seen, n_true = (np.bincount(pair, counts, _N_GROUPS) for counts in (answered, exact_counts))
    n_rows = float(answer(CodeBoxes(pairs[:1, :1], np.zeros((1, 1), np.int64), sizes[:1, :1]))[1][0])
    large = (n_true >= max(_LEAST_GROUP, _LEAST_SHARE * n_rows)) & (n_seen > 0)
    if not large.any():
        return 0.0
    estimated = np.bincount(pair, answered * weight, _N_GROUPS)[large] / n_seen[large]
    exact_means = np.bincount(pair, exact_counts * weight, _N_GROUPS)[large] / n_true[large]
    return float(np.sqrt(((estimated - exact_means) ** 2).mean())) * n_rows


def _parts(size: int) -> tuple[list[int], list[int]]:
    """Bounds of up to eight ranges of codes of about equal length."""
    ends = [size * (i + 1) // min(size, _N_RANGES) for i in range(min(size, _N_RANGES))]
    return [0, *ends[:-1]], ends


def draw_single_ranges(sizes: Sequence[int], n: int, rng: Generator) -> CodeBoxes:
    """Ranges of single attributes, uniform among all of them."""
    width = np.array(sizes, dtype=np.int64)
    weight = width * (width + 1) / 2.0
    attribute = rng.choice(len(sizes), (n, 1), p=weight / weight.sum())
    size = width[attribute]
    ends = rng.integers(0, size + 1, (n, 2))
    while (empty := ends[:, 0] == ends[:, 1]).any():
        ends[empty] = rng.integers(0, size[empty] + 1, (int(empty.sum()), 2))
    ends = np.sort(ends, axis=1)
    return CodeBoxes(attribute, ends[:, :1], ends[:, 1:])


def draw_ranges(sizes: Sequence[int], n_attributes: int, n: int, rng: Generator) -> CodeBoxes:
    """Ranges of random attributes between two random codes of each."""
    width = np.array(sizes, dtype=np.int64)
    attribute = np.argsort(rng.random((n, len(sizes))), axis=1)[:, :n_attributes]
    ends = np.sort(rng.integers(0, width[attribute][..., None], (n, n_attributes, 2)), axis=2)
    return CodeBoxes(attribute, ends[..., 0], ends[..., 1] + 1)


def draw_cells(sizes: Sequence[int], n_attributes: int, n: int, rng: Generator) -> CodeBoxes:
    """Cells of tables of the given number of attributes, uniform among all of them."""
    width = np.array(sizes, dtype=np.int64)
    sets = np.array(list(combinations(range(len(sizes)), n_attributes)), dtype=np.int64)
    weight = width[sets].astype(np.float64).prod(axis=1)
    attribute = sets[rng.choice(len(sets), n, p=weight / weight.sum())]
    code = rng.integers(0, width[attribute])
    return CodeBoxes(attribute, code, code + 1)
