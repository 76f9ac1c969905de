"""Axes of groups: the values that name the groups, each with its boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Self

from hdpview.domain import Attribute, Datetime, Integer, Schema, calendar
from hdpview.query.question.boxes import Box
from hdpview.query.question.conditions import of_code


class BinLabel(str):
    """The name of a bin. Bins are ordered by position, not alphabetically."""

    __slots__ = ("place",)
    place: int

    def __new__(cls, text: str, place: int) -> Self:
        label = super().__new__(cls, text)
        label.place = place
        return label

    def __lt__(self, other: str) -> bool:
        return self.place < other.place if isinstance(other, BinLabel) else super().__lt__(other)

    def __gt__(self, other: str) -> bool:
        return self.place > other.place if isinstance(other, BinLabel) else super().__gt__(other)


@dataclass(frozen=True, eq=False)
class Axis:
    """The codes of an attribute, in order: the name of each, and its disjoint boxes."""

    keys: tuple[Any, ...]
    boxes: tuple[Sequence[Box], ...]
    attribute: int


def attribute_axis(schema: Schema, a: int) -> Axis:
    """The codes of an attribute as groups."""
    return _axis_of(schema.attributes[a], a)


@lru_cache(maxsize=256)
def _axis_of(attribute: Attribute, a: int) -> Axis:
    return Axis(
        tuple(code_keys(attribute)),
        tuple([{a: of_code(attribute, code)}] for code in range(attribute.size)),
        a,
    )


def code_keys(attribute: Attribute) -> list[Any]:
    """The name of each code in a result: its value, or the start or name of its bin."""
    keys: list[Any]
    if attribute.kind == "boolean":
        keys = [False, True]
    elif isinstance(attribute, Integer) and attribute.every == 1:
        keys = attribute.edges[:-1].tolist()
    elif attribute.kind == "category":
        keys = list(attribute.value_labels())
    elif isinstance(attribute, Datetime):
        starts = [calendar.moment(edge) for edge in attribute.edges[:-1].tolist()]
        by_day = all(start.time() == datetime.min.time() for start in starts)
        keys = [start.date() if by_day else start for start in starts]
    else:
        keys = [BinLabel(text, place) for place, text in enumerate(attribute.value_labels())]
    return keys + [None] * attribute.nullable
