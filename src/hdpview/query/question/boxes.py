"""Questions as disjoint boxes.

A box holds a condition on some attributes; the others are free. Any combination of conditions with AND, OR
and NOT is a union of boxes that do not overlap, so counts of them add up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hdpview.domain import Attribute, Schema
from hdpview.errors import QueryError
from hdpview.query.question import conditions
from hdpview.query.question.conditions import Condition, complement

Box = Mapping[int, Condition]  # attribute number → condition
MAX_BOXES = 4_096  # of one question
_MAX_STEPS = 500_000  # comparisons of a box with a box for one OR: a second or two
_FEW = 8  # pieces that are worth comparing with all boxes found so far


def rest(attribute: Attribute, condition: Condition) -> Condition:
    """All values that do not satisfy a condition, missing ones included: the complement as a set."""
    others = complement(attribute, condition)
    return Condition(others.ranges, others.codes, null=attribute.nullable and not condition.null)


def reaching_bins(boxes: Sequence[Box], schema: Schema) -> list[Box]:
    """Boxes of all records that may be asked for: beyond the schema's bounds means in the nearest bin."""
    return [
        {a: conditions.reaching_bins(schema.attributes[a], condition) for a, condition in box.items()}
        for box in boxes
    ]


def intersect(left: Sequence[Box], right: Sequence[Box]) -> list[Box]:
    """Boxes of `left AND right`. Disjoint where both inputs are."""
    _check_number(len(left) * len(right))
    both = ({**a, **{k: a[k] & v if k in a else v for k, v in b.items()}} for a in left for b in right)
    return [box for box in both if not is_empty(box)]


def is_empty(box: Box) -> bool:
    """Whether no value satisfies one of the conditions."""
    # A loop: many thousands of boxes are looked at.
    for ranges, codes, null in box.values():  # noqa: SIM110
        if not (ranges or codes or null):
            return True
    return False


def unite(parts: Sequence[Sequence[Box]], schema: Schema) -> list[Box]:
    """Boxes of parts joined by OR, disjoint: of each part, what lies outside all parts before. Boxes of each
    part are disjoint already.
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
    """Boxes and pieces in one list; a few pieces are made one with a box where they fit together."""
    if len(pieces) > _FEW:
        return [*boxes, *pieces]
    for piece in pieces:
        place, both = next(
            ((i, both) for i, box in enumerate(boxes) if (both := _as_one(box, piece)) is not None),
            (len(boxes), piece),
        )
        boxes[place : place + 1] = [both]
    return boxes


def _as_one(box: Box, other: Box) -> Box | None:
    """The union of two boxes where it is seen to be a box: where they differ in one attribute alone."""
    if box.keys() != other.keys():
        return None
    differing = [a for a, condition in other.items() if box[a] != condition]
    return {**box, **{a: box[a] | other[a] for a in differing}} if len(differing) <= 1 else None


def subtract(boxes: Sequence[Box], taken: Sequence[Box], schema: Schema) -> list[Box]:
    """What of `boxes` lies in no box of `taken`, missing values included; disjoint where `boxes` are."""
    outside, n_steps = list(boxes), 0
    for box in taken:
        n_steps += len(outside)
        _check_steps(n_steps)
        outside = [piece for other in outside for piece in _without(other, box, schema)]
        _check_number(len(outside))
    return outside


def _without(box: Box, taken: Box, schema: Schema) -> list[Box]:
    """`box` without `taken`: peel off one attribute's outside at a time."""
    if not all(box[a].meets(condition) for a, condition in taken.items() if a in box):
        return [box]
    pieces: list[Box] = []
    inside: Box = box
    for a, condition in taken.items():
        pieces += intersect([inside], [{a: rest(schema.attributes[a], condition)}])
        inside = intersect([inside], [{a: condition}])[0]
    return pieces


def _check_number(n_boxes: int) -> None:
    if n_boxes > MAX_BOXES:
        raise QueryError(
            f"The condition is too complex (more than {MAX_BOXES:,} boxes). Split it into several queries."
        )


def _check_steps(n_steps: int) -> None:
    if n_steps > _MAX_STEPS:
        raise QueryError("The condition joins too many parts by OR. Ask for them one by one.")
