"""Questions with which a view measures its own errors: drawn by a public rule and from the view itself."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.domain.table_shapes import CodeBoxes
from hdpview.errors import HdpviewError
from hdpview.query.errors.closed import evaluate_part
from hdpview.query.question.batch import pack_boxes
from hdpview.view.data import ViewPart
from hdpview.view.sample import draw_codes

Ints = NDArray[np.int64]
# Sets of attributes asked about, per number of attributes; fewer for views of very many components, because
# every question visits each of them: 2.5 million blocks took three minutes of processor time.
_N_SETS = 24
_LEAST_SETS = 4
_MAX_SETS_TIMES_COMPONENTS = 8_000_000
# Number of synthetic records per set.
_N_CELLS = 32
# Number of ranges per attribute in questions about one, two, three and four attributes.
_N_RANGES = (8, 5, 3, 3)


class Questions(NamedTuple):
    """Questions about k attributes, the view's answers, and their expected errors.

    group: of each question, shape (n,). No record satisfies two questions of the same group.
    """

    boxes: CodeBoxes
    group: NDArray[np.int64]
    estimate: NDArray[np.float64]
    noise: NDArray[np.float64]
    model: NDArray[np.float64]


def questions_about(part: ViewPart, k: int) -> Questions:
    """Questions about k attributes in groups, by a public rule given the view.

    For each of some sets of attributes there are two groups: the cells of a grid of ranges over all codes,
    and single cells at the places of synthetic records.
    """
    sizes, rng = part.components.sizes, np.random.default_rng(k)
    affordable = _MAX_SETS_TIMES_COMPONENTS // len(part.components)
    n_sets = min(_N_SETS, max(_LEAST_SETS, affordable))
    try:
        codes = draw_codes([part], n_sets * _N_CELLS, rng).T.astype(np.int64)
    except HdpviewError:  # an empty view has no records to draw
        codes = np.zeros((n_sets * _N_CELLS, len(sizes)), np.int64)
    groups = []
    for own in np.split(codes, n_sets):
        attribute = rng.permutation(len(sizes))[:k]
        cells = np.array(sorted(set(map(tuple, own[:, attribute].tolist()))))
        groups += [_grid(attribute, own, sizes, rng), _boxes(attribute, cells, cells + 1)]
    boxes = CodeBoxes(
        *map(np.concatenate, zip(*((b.attribute, b.lower, b.upper) for b in groups), strict=True))
    )
    group = np.repeat(np.arange(len(groups)), list(map(len, groups)))
    of = evaluate_part(part, pack_boxes(boxes, sizes))
    known = of.variance - np.square(part.quality.factors) @ of.model
    return Questions(boxes, group, of.estimate, known, of.model)


def _grid(attribute: Ints, records: Ints, sizes: Sequence[int], rng: np.random.Generator) -> CodeBoxes:
    """A grid of ranges of these attributes; every second cut is at the code of a record."""
    ends = []
    for a in attribute.tolist():
        n_cuts = _N_RANGES[len(attribute) - 1] - 1
        even, placed = rng.integers(0, sizes[a], n_cuts), rng.choice(records[:, a], n_cuts)
        cuts = np.where(np.arange(n_cuts) % 2, even, placed)
        ends.append(sorted({0, *cuts.tolist(), sizes[a]}))
    lower, upper = (
        np.array(list(product(*(own[part] for own in ends)))) for part in (slice(-1), slice(1, None))
    )
    return _boxes(attribute, lower, upper)


def _boxes(attribute: Ints, lower: Ints, upper: Ints) -> CodeBoxes:
    return CodeBoxes(np.repeat(attribute[None], len(lower), axis=0), lower, upper)
