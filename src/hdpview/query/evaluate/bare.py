"""Plain counts in closed form, without DuckDB: SELECT keys, COUNT(*) FROM view [WHERE …] [GROUP BY keys].

Keys are attributes, and conditions compare single attributes with values. The general path handles everything
else, and gives the same answers from the same error kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from hdpview.domain import Category, Schema
from hdpview.errors import QueryError
from hdpview.query.bounds.noise import NoiseLaw
from hdpview.query.errors.ends import Estimates
from hdpview.query.interval.answers import CountKind, IntervalKind, notes_on
from hdpview.query.interval.groups import Groups
from hdpview.query.question.axes import BinLabel, code_keys
from hdpview.query.question.boxes import Box
from hdpview.query.question.conditions import code_shares, is_open, reach
from hdpview.query.question.where import boxes_of_tree
from hdpview.view.data import ViewData
from hdpview.view.released_tables import Table

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
    """A statement as a plain count; None if it is anything else."""
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
        boxes = boxes_of_tree(where.this, schema, with_database=False) if where is not None else [{}]
    except QueryError:
        return None
    order = _order(tree, items, names, attribute_of)
    limit = tree.args.get("limit")
    n: int | None = None
    if limit is not None:
        if not isinstance(limit, exp.Limit) or _given(limit) != ["expression"]:
            return None
        if not isinstance(limit.expression, exp.Literal) or not limit.expression.is_int:  # -1 is no literal
            return None
        n = int(limit.expression.this)
        # It is uncertain which rows are the largest; the general path reports how uncertain.
        if order and items[order[0][0]] is None:
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


@dataclass(frozen=True, eq=False)
class BareAnswer:
    """Columns of a plain count: keys, and the count with its ends."""

    columns: list[pa.Array]
    span: Estimates
    notes: tuple[str, ...]
    attributes: frozenset[int]


def answer_plain(
    tree: exp.Expr,
    view: ViewData,
    confidence: float,
    counts: CountKind,
    interval: IntervalKind | None,
    with_ranks: bool,
) -> tuple[Bare, BareAnswer] | None:
    """A number of records or persons, taken apart and answered; None for anything else."""
    if any(_is_unit(node, view) for node in tree.find_all(exp.Count)):
        bare = _read_people(tree, view)
        return bare, _answer_people(bare, view, confidence, counts)
    known = None if with_ranks else read_bare(tree, view.schema)
    return None if known is None else (known, answer_bare(known, view, confidence, counts, interval))


def answer_bare(
    bare: Bare, view: ViewData, confidence: float, counts: CountKind, interval: IntervalKind | None
) -> BareAnswer:
    """The count in every group, in the requested order."""
    groups = Groups(view, bare.boxes, bare.keys)
    span = groups.counts(confidence, counts, interval)
    return arranged(bare, view, span, {a: groups.keys(i) for i, a in enumerate(bare.keys)})


def arranged(bare: Bare, view: ViewData, span: Estimates, keys: dict[int, Sequence[Any]]) -> BareAnswer:
    """Groups as columns, in the requested order. keys: per attribute, the key of each group."""
    rows = np.arange(len(span.estimate))
    terms = bare.order or tuple((i, False, False) for i, a in enumerate(bare.items) if a is not None)
    for place, falls, nulls_first in reversed(terms):
        a = bare.items[place]
        values = span.estimate.tolist() if a is None else keys[a]
        known = [i for i in rows.tolist() if values[i] is not None]
        missing = [i for i in rows.tolist() if values[i] is None]
        known.sort(key=values.__getitem__, reverse=falls)  # stable in both directions
        rows = np.array([*missing, *known] if nulls_first else [*known, *missing], dtype=np.int64)
    rows = rows[: bare.limit]
    columns = []
    for a in bare.items:
        if a is None:
            columns.append(pa.array(span.estimate[rows]))
        else:
            own = [keys[a][i] for i in rows.tolist()]
            kind = pa.string() if isinstance(view.schema.attributes[a], Category) else None
            columns.append(pa.array([str(v) if isinstance(v, BinLabel) else v for v in own], kind))
    attributes = frozenset(bare.keys) | {a for box in bare.boxes for a in box}
    kept = Estimates(*(column[rows] for column in span))
    return BareAnswer(columns, kept, notes_on(bare.boxes, view.schema), attributes)


# Numbers of persons: COUNT(DISTINCT patient_id), over the view or by one attribute.


def _is_unit(node: exp.Count, view: ViewData) -> bool:
    asked = node.this.expressions if isinstance(node.this, exp.Distinct) else []
    unit = view.manifest.privacy_unit
    return unit != "row" and [c.name.lower() for c in asked if isinstance(c, exp.Column)] == [unit.lower()]


def _read_people(tree: exp.Expr, view: ViewData) -> Bare:
    """The statement as a plain count; refused with a reason if no number of persons was released for it."""
    unit, plain = view.manifest.privacy_unit, tree.copy()
    for node in list(plain.find_all(exp.Count)):
        if _is_unit(node, view):
            if isinstance(node.parent, exp.Select):
                node.replace(exp.alias_(exp.Count(this=exp.Star()), f"count(DISTINCT {unit})", quoted=True))
            else:
                node.replace(exp.Count(this=exp.Star()))
    bare = read_bare(plain, view.schema)
    people = view.parts[0].people if not view.manifest.is_merged else ()
    names = [view.schema.names[table.attributes[0]] for table in people[1:]]
    if bare is not None and people and len(bare.boxes) == 1 and _takes_whole_bins(bare, view):
        asked = {*bare.keys, *bare.boxes[0]}
        if not asked or (len(asked) == 1 and view.schema.names[min(asked)] in names):
            return bare
    known = f"over the whole view, or by one of {', '.join(names)}" if people else "nowhere in this view"
    raise QueryError(
        f"COUNT(DISTINCT {unit}) is answered {known}: persons are only counted where the curator asked "
        "for it (people=, --people). Their numbers do not add up, since a person may have several values."
    )


def _takes_whole_bins(bare: Bare, view: ViewData) -> bool:
    attributes = view.schema.attributes
    return all(
        np.isin(code_shares(attributes[a], condition), (0.0, 1.0)).all()
        and not is_open(attributes[a], condition)
        for box in bare.boxes
        for a, condition in box.items()
    )


def _answer_people(bare: Bare, view: ViewData, confidence: float, counts: CountKind) -> BareAnswer:
    """Released numbers of persons, whose only error is noise."""
    people, box = view.parts[0].people, bare.boxes[0]
    asked = min({*bare.keys, *box}, default=None)
    if asked is None:
        span = _span(people[0], np.zeros(1, np.int64), confidence, counts)
        return arranged(bare, view, span, {})
    codes = np.arange(view.schema.sizes[asked])
    if asked in box:
        codes = codes[reach(view.schema.attributes[asked], box[asked]).possible]
    if not bare.keys and len(codes) != 1:
        name = view.schema.names[asked]
        raise QueryError(
            f"Persons with one of several values of {name} are not counted: one person may have several of "
            f"them. Ask for one value, or GROUP BY {name}."
        )
    table = next(table for table in people[1:] if table.attributes == (asked,))
    keys = code_keys(view.schema.attributes[asked])
    return arranged(bare, view, _span(table, codes, confidence, counts), {asked: [keys[c] for c in codes]})


def _span(table: Table, codes: np.ndarray, confidence: float, counts: CountKind) -> Estimates:
    released = table.counts.reshape(-1)[codes].astype(np.float64)
    width = NoiseLaw(table.scale).half_width(np.ones(len(codes)), confidence)
    floor = 0.0 if counts == "consistent" else -np.inf
    return Estimates(*(np.maximum(end, floor) for end in (released, released - width, released + width)))
