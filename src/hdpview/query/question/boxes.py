"""Questions as disjoint boxes.

A box holds a condition on some attributes; the others are free. Any combination of conditions with AND, OR
and NOT is a union of boxes that do not overlap, so counts of them add up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hdpview.domain import Schema
from hdpview.errors import QueryError
from hdpview.query.question import conditions
from hdpview.query.question.conditions import Condition

Box = Mapping[int, Condition]  # attribute number → condition
MAX_BOXES = 4_096  # maximum number of boxes of one question
_MAX_STEPS = 500_000  # maximum number of comparisons of two boxes for one OR: a second or two
_MAX_MERGED_PIECES = 8  # with more pieces, none is compared with earlier boxes


def reaching(boxes: Sequence[Box], schema: Schema, upper: bool) -> list[Box] | None:
    """Boxes of all records that may satisfy a condition, or of those that certainly do; None if both are the
    given boxes.
    """
    attributes = schema.attributes
    if not any(conditions.is_open(attributes[a], condition) for box in boxes for a, condition in box.items()):
        return None
    return [
        {a: conditions.reaching(attributes[a], condition, upper) for a, condition in box.items()}
        for box in boxes
    ]


def intersect(left: Sequence[Box], right: Sequence[Box]) -> list[Box]:
    """Boxes of `left AND right`. Disjoint where both inputs are."""
    _check_number(len(left) * len(right))
    both = ({**a, **{k: a[k] & v if k in a else v for k, v in b.items()}} for a in left for b in right)
    return [box for box in both if not is_empty(box)]


def is_empty(box: Box) -> bool:
    """Whether no value satisfies one of the conditions."""
    # A plain loop is faster than any() for many thousands of boxes.
    for condition in box.values():  # noqa: SIM110
        if not condition:
            return True
    return False


def unite(parts: Sequence[Sequence[Box]], schema: Schema) -> list[Box]:
    """Disjoint boxes of parts joined by OR: each part without the parts before it. Boxes
    of each part are already disjoint.
    """
    _check_number(sum(len(part) for part in parts))
    boxes: list[Box] = []
    taken: list[Box] = []
    n_steps = 0
    for part in parts:
        pieces = subtract(part, taken, schema)
        n_steps += len(pieces) * len(taken)
        _check_steps(n_steps)
        taken, boxes = joined(taken, part), joined(boxes, pieces)
        _check_number(len(boxes))
    return boxes


def joined(boxes: list[Box], pieces: Sequence[Box]) -> list[Box]:
    """Boxes and pieces in one list; a few pieces are merged with a box if they fit together."""
    if len(pieces) > _MAX_MERGED_PIECES:
        return [*boxes, *pieces]
    for piece in pieces:
        place, both = next(
            ((i, both) for i, box in enumerate(boxes) if (both := _as_one(box, piece)) is not None),
            (len(boxes), piece),
        )
        boxes[place : place + 1] = [both]
    return boxes


def _as_one(box: Box, other: Box) -> Box | None:
    """The union of two boxes that differ in a single attribute, which is a box; otherwise None."""
    if box.keys() != other.keys():
        return None
    differing = [a for a, condition in other.items() if box[a] != condition]
    return {**box, **{a: box[a] | other[a] for a in differing}} if len(differing) <= 1 else None


def subtract(boxes: Sequence[Box], taken: Sequence[Box], schema: Schema) -> list[Box]:
    """`boxes` without `taken`, missing values included; disjoint if `boxes` are."""
    outside, n_steps = list(boxes), 0
    for box in taken:
        n_steps += len(outside)
        _check_steps(n_steps)
        outside = [piece for other in outside for piece in _without(other, box, schema)]
        _check_number(len(outside))
    return outside


def _without(box: Box, taken: Box, schema: Schema) -> list[Box]:
    """`box` without `taken`: split off the part outside `taken`, one attribute at a time."""
    if not all((box[a] & condition).ranges for a, condition in taken.items() if a in box):
        return [box]
    pieces: list[Box] = []
    inside: Box = box
    for a, condition in taken.items():
        pieces += intersect([inside], [{a: conditions.rest(schema.attributes[a], condition)}])
        inside = intersect([inside], [{a: condition}])[0]
    return pieces


def _check_number(n_boxes: int) -> None:
    if n_boxes > MAX_BOXES:
        raise QueryError(
            f"The condition is too complex (more than {MAX_BOXES:,} boxes). Split it into several queries."
        )


def _check_steps(n_steps: int) -> None:
    if n_steps > _MAX_STEPS:
        raise QueryError("The condition joins too many parts by OR. Split it into several queries.")
