"""Statements that are several questions: UNION, GROUPING SETS, ROLLUP and CUBE. Each is answered by itself,
and their rows are put under one another.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
from sqlglot import exp

from hdpview.errors import QueryError
from hdpview.query.interval.columns import Column
from hdpview.query.sql.execute import Result
from hdpview.query.sql.functions import OrderTerm, places_in_order
from hdpview.query.sql.relations import whole_number
from hdpview.query.sql.scalar import shown
from hdpview.query.sql.subqueries import Ask, with_values

_MOST_PARTS = 64
_SETS = (exp.GroupingSets, exp.Rollup, exp.Cube)


def answer(tree: exp.Expr, ask: Ask, ask_values: Ask) -> Result:
    """Answer a statement. ask: answers one SELECT; ask_values: likewise, where nobody looks at intervals."""
    if tree.find(exp.Subquery, exp.Join) is not None:
        tree = with_values(tree, lambda inner: answer(inner, ask_values, ask_values))
    selects = list(_parts(tree))
    if len(selects) == 1 and selects[0] is tree:
        return ask(tree)
    if len(selects) > _MOST_PARTS:
        raise QueryError(f"That is {len(selects):,} questions at once; at most {_MOST_PARTS} can be.")
    found = _united(
        [ask(select) for select in selects], bool(tree.args.get("distinct")) and isinstance(tree, exp.Union)
    )
    return _ordered(found, tree)


def _parts(tree: exp.Expr) -> Iterator[exp.Expr]:
    """The SELECTs that a statement puts under one another; the statement itself where it is one."""
    inner = tree.unnest() if isinstance(tree, exp.Subquery) else tree
    if isinstance(inner, exp.Union):
        for side in (inner.this, inner.expression):
            side = side.copy()
            _pass_on(inner.args.get("with_"), side)
            yield from _parts(side)
    elif isinstance(inner, exp.Select) and _has_sets(inner):
        yield from _by_sets(inner)
    else:
        yield tree


def _pass_on(clause: exp.Expr | None, side: exp.Expr) -> None:
    target = side.unnest() if isinstance(side, exp.Subquery) else side
    if clause is None:
        return
    own = target.args.get("with_")
    target.set("with_", exp.With(expressions=[*clause.copy().expressions, *(own.expressions if own else ())]))


def _has_sets(select: exp.Select) -> bool:
    clause = select.args.get("group")
    return clause is not None and clause.find(*_SETS) is not None


def _by_sets(select: exp.Select) -> Iterator[exp.Expr]:
    """A SELECT for each set of groups; what it does not group by is NULL in it."""
    clause = select.args["group"]
    listed = [
        *clause.expressions,
        *(clause.args.get(key) or [] for key in ("rollup", "cube", "grouping_sets")),
    ]
    flat = [node for each in listed for node in (each if isinstance(each, list) else [each])]
    choices = [list(_sets_of(node, select)) for node in flat]
    if math.prod(map(len, choices)) > _MOST_PARTS:
        raise QueryError(f"That is more than {_MOST_PARTS} questions at once; group by fewer sets.")
    every = {node for choice in choices for one in choice for node in one}
    for combination in itertools.product(*choices):
        kept = list(dict.fromkeys(node for one in combination for node in one))
        yield _grouped_by(select, kept, every - set(kept))


def _sets_of(node: exp.Expr, select: exp.Select) -> Iterator[tuple[exp.Expr, ...]]:
    """The sets of expressions that an entry of GROUP BY stands for."""
    if isinstance(node, exp.GroupingSets):
        for each in node.expressions:
            yield from _sets_of(each, select)
        return
    if not isinstance(node, (exp.Rollup, exp.Cube)):
        yield _members(node, select)
        return
    parts = [_members(each, select) for each in node.expressions]
    if isinstance(node, exp.Rollup):
        for n in range(len(parts), -1, -1):
            yield tuple(itertools.chain(*parts[:n]))
    else:
        for n in range(len(parts), -1, -1):
            for chosen in itertools.combinations(parts, n):
                yield tuple(itertools.chain(*chosen))


def _members(node: exp.Expr, select: exp.Select) -> tuple[exp.Expr, ...]:
    inner = node.unnest()
    if isinstance(inner, exp.Tuple):
        return tuple(member for each in inner.expressions for member in _members(each, select))
    if (
        isinstance(inner, exp.Literal)
        and inner.this.isdigit()
        and 1 <= int(inner.this) <= len(select.expressions)
    ):
        return (select.expressions[int(inner.this) - 1].unalias(),)
    outputs = {item.alias.lower(): item.this for item in select.expressions if item.alias}
    own = outputs.get(inner.name.lower()) if isinstance(inner, exp.Column) and not inner.table else None
    return (own or inner,)


def _grouped_by(select: exp.Select, kept: Sequence[exp.Expr], left: set[exp.Expr]) -> exp.Expr:
    made = select.copy()
    for key in ("order", "limit", "offset"):
        made.set(key, None)
    made.set("group", exp.Group(expressions=[node.copy() for node in kept]) if kept else None)
    made.set("expressions", [_named(item, _replaced(item.unalias(), left)) for item in made.expressions])
    having = made.args.get("having")
    if having is not None:
        having.set("this", _replaced(having.this, left))
    return made


def _replaced(node: exp.Expr, left: set[exp.Expr]) -> exp.Expr:
    """An expression of a set of groups: NULL for what it does not group by, outside aggregates."""
    if isinstance(node, exp.Grouping):
        bits = "".join(str(int(part in left)) for part in node.expressions)
        return exp.Literal.number(int(bits or "0", 2))
    if node in left:
        return exp.null()
    if isinstance(node, (exp.AggFunc, exp.Filter, exp.WithinGroup)):
        return node.copy()
    made = node.copy()
    for key, part in list(made.args.items()):
        if isinstance(part, exp.Expr):
            made.set(key, _replaced(part, left))
        elif isinstance(part, list):
            made.set(key, [_replaced(each, left) if isinstance(each, exp.Expr) else each for each in part])
    return made


def _named(item: exp.Expr, node: exp.Expr) -> exp.Expr:
    name = item.alias_or_name
    return exp.alias_(node, name, quoted=True) if name else node


def _united(results: Sequence[Result], distinct: bool) -> Result:
    """Rows of several results under the names of the first."""
    parts = [result.outputs() for result in results]
    width = len(parts[0])
    if any(len(part) != width for part in parts):
        raise QueryError("Each SELECT of a UNION must have the same number of columns.")
    columns: list[Column] = []
    aggregates: list[str] = []
    counts: list[str] = []
    for groups in zip(*parts, strict=True):
        most = max(groups, key=len)
        name = groups[0][0].name
        names = [name, f"{name}_lower", f"{name}_upper"][: len(most)]
        aggregates += [name] * (len(most) > 1)
        are_counts = [group[0].name in each.counts for group, each in zip(groups, results, strict=True)]
        counts += [name] * all(are_counts)
        for i, own_name in enumerate(names):
            pieces = [
                group[i] if i < len(group) else Column("", [None] * len(group[0].values)) for group in groups
            ]
            columns.append(_stacked(own_name, pieces))
    notes = tuple(dict.fromkeys(note for result in results for note in result.notes))
    inferred = tuple(dict.fromkeys(note for result in results for note in result.inferred))
    found = Result(columns, results[0].confidence, tuple(aggregates), notes, inferred, tuple(counts))
    if distinct:
        rows = list(zip(*(group[0].plain() for group in found.outputs()), strict=True))
        firsts = {row: i for i, row in reversed(list(enumerate(rows)))}
        found = found.taken(np.array(sorted(firsts.values()), dtype=np.int64))
    return found


def _stacked(name: str, pieces: Sequence[Column]) -> Column:
    arrays = [piece.values for piece in pieces if isinstance(piece.values, np.ndarray)]
    if len(arrays) == len(pieces) and len({piece.of_moments for piece in pieces}) == 1:
        return Column(name, np.concatenate(arrays), pieces[0].of_moments)
    return Column(name, [value for piece in pieces for value in piece.objects()])


def _ordered(found: Result, tree: exp.Expr) -> Result:
    """The rows of a UNION or of GROUPING SETS in their order, cut by LIMIT and OFFSET."""
    tree = tree.unnest() if isinstance(tree, exp.Subquery) else tree
    outputs = found.outputs()
    n = len(outputs[0][0].values)
    order = np.arange(n)
    clause = tree.args.get("order")
    if clause is not None:
        names = [group[0].name for group in outputs]
        terms = [
            OrderTerm.of(term, outputs[_place(term.this, tree, names)][0].objects())
            for term in clause.expressions
        ]
        order = np.array(places_in_order(n, terms), dtype=np.int64)
    limit, start = whole_number(tree, "limit"), max(whole_number(tree, "offset"), 0)
    return found.taken(order[start : None if limit < 0 else start + limit])


def _place(node: exp.Expr, tree: exp.Expr, names: Sequence[str]) -> int:
    """Which output an ORDER BY term means: its position, its name, or the same expression."""
    inner = node.unnest()
    if isinstance(inner, exp.Literal) and inner.this.isdigit() and 1 <= int(inner.this) <= len(names):
        return int(inner.this) - 1
    selected = tree.expressions if isinstance(tree, exp.Select) else []
    for i, name in enumerate(names):
        is_name = isinstance(inner, exp.Column) and inner.name.lower() == name.lower()
        if is_name or (i < len(selected) and selected[i].unalias() == inner):
            return i
    raise QueryError(f"{shown(node)}: order the whole by the names or positions of its columns.")
