"""Plain counts in closed form, without DuckDB: SELECT keys, COUNT(*) FROM view [WHERE …] [GROUP BY keys].

Keys are attributes, conditions compare single attributes with values and cut no bin. Anything else is left to
the general path, which gives the same answers from the same error kernels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sqlglot import exp

from hdpview.domain import Category, Datetime, Ordered, Schema
from hdpview.errors import QueryError
from hdpview.query.interval.answers import CountKind, IntervalKind, notes_on
from hdpview.query.interval.groups import Groups
from hdpview.query.interval.spans import Estimates, group_estimates
from hdpview.query.question.aggregates import COUNT
from hdpview.query.question.axes import BinLabel, attribute_axis
from hdpview.query.question.boxes import Box
from hdpview.query.question.conditions import code_shares, is_beyond
from hdpview.query.question.where import boxes_of_tree
from hdpview.view.data import ViewData

_PARTS = {"expressions", "from_", "where", "group", "order", "limit", "kind", "hint"}


@dataclass(frozen=True)
class Bare:
    """A plain count, taken apart.

    items: per output, the number of an attribute; None for the count. names: of the outputs.
    order: pairs of an output and whether it falls; nulls come last, or first where the third is True.
    """

    items: tuple[int | None, ...]
    names: tuple[str, ...]
    keys: tuple[int, ...]
    boxes: Sequence[Box]
    order: tuple[tuple[int, bool, bool], ...]
    limit: int | None


def read_bare(tree: exp.Expr, schema: Schema) -> Bare | None:
    """The plain count that a statement is; None for anything else."""
    if not isinstance(tree, exp.Select) or any(v for k, v in tree.args.items() if k not in _PARTS):
        return None
    source = tree.args.get("from_")
    table = source.this if source is not None else None
    if not isinstance(table, exp.Table) or table.name != "view" or len(_given(table)) > 1:
        return None
    number = {name.lower(): a for a, name in enumerate(schema.names)}
    if len(number) < len(schema):
        return None

    def attribute_of(node: exp.Expr) -> int | None:
        is_plain = isinstance(node, exp.Column) and node.table in ("", "view") and not node.args.get("db")
        return number.get(node.name.lower()) if is_plain else None

    items, names = [], []
    for item in tree.selects:
        inner = item.unalias()
        a = attribute_of(inner)
        if a is None and not (isinstance(inner, exp.Count) and isinstance(inner.this, exp.Star)):
            return None
        items.append(a)
        names.append(item.alias or (schema.names[a] if a is not None else "count_star()"))
    keys = _keys(tree, items, attribute_of)
    if keys is None or items.count(None) != 1 or len(set(names)) < len(names):
        return None
    where = tree.args.get("where")
    try:
        boxes = boxes_of_tree(where.this, schema) if where is not None else [{}]
    except QueryError:
        return None
    if where is not None and where.find(exp.Like, exp.ILike):
        return None
    order = _order(tree, items, names, attribute_of)
    limit = tree.args.get("limit")
    n: int | None = None
    if limit is not None:
        if not isinstance(limit, exp.Limit) or not isinstance(limit.expression, exp.Literal):
            return None
        n = int(limit.expression.this) if limit.expression.is_int else None
        # Which rows are the largest is uncertain, and the general path says how much.
        if n is None or (order and items[order[0][0]] is None):
            return None
    return None if order is None else Bare(tuple(items), tuple(names), tuple(keys), boxes, order, n)


def _given(node: exp.Expr) -> list[str]:
    return [name for name, value in node.args.items() if value]


def _keys(tree: exp.Select, items: list[int | None], attribute_of: Any) -> list[int] | None:
    group, shown = tree.args.get("group"), [a for a in items if a is not None]
    if group is None:
        return None if shown else []
    if _given(group) != ["expressions"]:
        return None
    keys = []
    for node in group.expressions:
        if isinstance(node, exp.Literal) and node.is_int and 1 <= int(node.this) <= len(items):
            a = items[int(node.this) - 1]
        else:
            a = attribute_of(node)
        if a is None:
            return None
        keys.append(a)
    return keys if len(set(keys)) == len(keys) and set(shown) <= set(keys) else None


def _order(
    tree: exp.Select, items: list[int | None], names: list[str], attribute_of: Any
) -> tuple[tuple[int, bool, bool], ...] | None:
    terms = []
    order = tree.args.get("order")
    for term in order.expressions if order is not None else []:
        node = term.this
        if isinstance(node, exp.Literal) and node.is_int and 1 <= int(node.this) <= len(items):
            place = int(node.this) - 1
        elif isinstance(node, exp.Column) and not node.table and node.name in names:
            place = names.index(node.name)
        elif isinstance(node, exp.Count) and isinstance(node.this, exp.Star):
            place = items.index(None)
        else:
            a = attribute_of(node)
            if a is None or a not in items:
                return None
            place = items.index(a)
        terms.append((place, bool(term.args.get("desc")), bool(term.args.get("nulls_first"))))
    return tuple(terms)


def is_clear(bare: Bare, schema: Schema) -> bool:
    """True if no condition cuts a bin, lies beyond bounds, or compares moments that are counted by days."""
    for box in bare.boxes:
        for a, condition in box.items():
            attribute = schema.attributes[a]
            shares = code_shares(attribute, condition)
            if isinstance(attribute, Datetime) or is_beyond(attribute, condition):
                return False
            if ((shares > 0) & (shares < 1)).any():
                return False
            if not isinstance(attribute, Ordered):
                continue
            if any(
                math.nextafter(end, -math.inf) in attribute.edges for pair in condition.ranges for end in pair
            ):
                return False
    return True


@dataclass(frozen=True, eq=False)
class BareAnswer:
    """Columns of a plain count: keys, and the count with its ends."""

    columns: list[pa.Array]
    span: Estimates
    notes: tuple[str, ...]
    attributes: frozenset[int]


def answer_bare(
    bare: Bare, view: ViewData, confidence: float, counts: CountKind, interval: IntervalKind | None
) -> BareAnswer:
    """The count in every group, in the order asked for."""
    axes = [attribute_axis(view.schema, a) for a in bare.keys]
    groups = Groups(view, bare.boxes, axes)
    span = group_estimates(groups, COUNT, confidence, counts, interval)
    return arranged(bare, view, span, {a: groups.keys(i) for i, a in enumerate(bare.keys)})


def arranged(bare: Bare, view: ViewData, span: Estimates, keys: dict[int, Sequence[Any]]) -> BareAnswer:
    """Groups as columns, in the order asked for. keys: of each attribute, what each group has."""
    rows = np.arange(len(span.estimate))
    terms = bare.order or tuple((i, False, False) for i, a in enumerate(bare.items) if a is not None)
    for place, falls, nulls_first in reversed(terms):
        a = bare.items[place]
        values = span.estimate.tolist() if a is None else keys[a]
        rows = _sorted(rows, values, falls, nulls_first)
    rows = rows[: bare.limit]
    columns = []
    for a in bare.items:
        if a is None:
            columns.append(pa.array(span.estimate[rows]))
        else:
            own = [keys[a][i] for i in rows.tolist()]
            columns.append(
                pa.array([str(v) if isinstance(v, BinLabel) else v for v in own], _arrow_type(view.schema, a))
            )
    attributes = frozenset(bare.keys) | {a for box in bare.boxes for a in box}
    kept = Estimates(*(column[rows] for column in span))
    return BareAnswer(columns, kept, notes_on(list(bare.boxes), view), attributes)


def _arrow_type(schema: Schema, a: int) -> pa.DataType | None:
    return pa.string() if isinstance(schema.attributes[a], Category) else None


def _sorted(
    rows: NDArray[np.int64], values: Sequence[Any], falls: bool, nulls_first: bool
) -> NDArray[np.int64]:
    known = [i for i in rows.tolist() if values[i] is not None]
    missing = [i for i in rows.tolist() if values[i] is None]
    known.sort(key=lambda i: values[i], reverse=falls)  # stable in both directions
    return np.array([*missing, *known] if nulls_first else [*known, *missing], dtype=np.int64)
