"""Expressions about attributes: find their attributes, and write them over points."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sqlglot import exp

from hdpview.domain import Datetime, Ordered
from hdpview.errors import shortened
from hdpview.query.evaluate.database import SECRET, ViewDatabase, point_type

if TYPE_CHECKING:
    from hdpview.query.evaluate.scan import Scan

BIN = "__bin"  # suffix of a column with the bin of an attribute instead of its value
# Distance beyond the bounds of a datetime at which a condition is tested: 1,000 years.
FAR_MICROSECONDS = 1_000 * 365 * 86_400_000_000
# A value that no text pattern matches, because the texts in `other` are unknown.
UNDECLARED = "\ue000"
# Expressions that need hours, minutes or times of day.
_INSIDE_DAYS = r"hour|minute|second|epoch_us|(?-i:%-?[HIMSpfTX])|\btime\b|\d:\d\d|current_timestamp|now\("


def conjuncts(node: exp.Expr) -> list[exp.Expr]:
    """The terms of a conjunction, also of the negation of a disjunction."""
    whole = node.unnest()
    if isinstance(whole, exp.And):
        return [one for part in whole.flatten() for one in conjuncts(part)]
    negated = whole.this.unnest() if isinstance(whole, exp.Not) else None
    if isinstance(negated, exp.Not):
        return conjuncts(negated.this)
    if isinstance(negated, exp.Or):
        parts = negated.flatten()
        return [one for part in parts for one in conjuncts(exp.Not(this=exp.paren(part.copy())))]
    return [node]


def shown(node: exp.Expr) -> str:
    """SQL of a tree as the user wrote it."""
    plain = re.sub(rf"{SECRET}\w*\.", "", text_of(node))
    return shortened(re.sub(r'"([a-z_]\w*)"', r"\1", plain))


def text_of(node: exp.Expr) -> str:
    """DuckDB's SQL of a tree."""
    return node.sql("duckdb", copy=True)


def key_name(i: int) -> str:
    """The column of a group key."""
    return f"{SECRET}k{i}"


def over_points(scan: Scan, node: exp.Expr, value: str = "x") -> str:
    """SQL of an expression about one attribute over its table of points."""
    number = scan.database.number
    days = scan.fine - looked_inside(node, scan.database) if scan.fine else set()

    def to_point(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Column):
            point = exp.column("bin" if part.name.endswith(BIN) else value)
            return exp.cast(point, "DATE") if number.get(part.name.lower()) in days else point
        return part

    return text_of(node.copy().transform(to_point))


def far_beyond(attribute: Ordered) -> tuple[int, int]:
    """Values far beyond the bounds of the schema, on either side."""
    low, high = map(int, attribute.ends)
    if isinstance(attribute, Datetime):
        return low - FAR_MICROSECONDS, high + FAR_MICROSECONDS
    width = min(1000 * max(abs(low), abs(high), high - low, 1), 2**62)
    return -width, width


def looks_inside_days(node: exp.Expr) -> bool:
    """Whether an expression needs hours, minutes or times of day."""
    return bool(re.search(_INSIDE_DAYS, text_of(node).replace("00:00:00", ""), re.IGNORECASE))


def looked_inside(node: exp.Expr, database: ViewDatabase) -> set[int]:
    """Attributes counted by days of which an expression needs hours, minutes or times of day."""
    if not looks_inside_days(node):
        return set()
    numbers = (database.number.get(c.name.removesuffix(BIN).lower()) for c in node.find_all(exp.Column))
    attributes = database.schema.attributes
    return {
        a for a in numbers if a is not None and point_type(attributes[a]) != point_type(attributes[a], True)
    }
