"""Which outputs of a statement are uncertain, and a hidden key that tells its rows apart in every draw."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import sqlglot
from sqlglot import exp

from hdpview.query.evaluate.aggregates import has_aggregate
from hdpview.query.evaluate.database import SECRET
from hdpview.query.evaluate.statement import _source

HIDDEN = f"{SECRET}h"
_SETS = (exp.Rollup, exp.Cube, exp.GroupingSets)
Sources = dict[str, dict[str, bool]]
_ROWS = ""  # stands among the columns of a source for its rows themselves


def uncertain_outputs(tree: exp.Expr) -> list[bool]:
    """For each output, whether it depends on an estimate."""
    return _Lineage().of(tree)


class _Lineage:
    def __init__(self) -> None:
        self.ctes: Sources = {}
        # Queries whose number of rows is uncertain, by identity.
        self.rows: dict[int, bool] = {}

    def of(self, query: exp.Expr) -> list[bool]:
        query = query.unnest() if isinstance(query, exp.Subquery) else query
        for cte in query.ctes if isinstance(query, exp.Query) else []:
            self.ctes[cte.alias] = self._named(cte.this, cte.args.get("alias"))
        if isinstance(query, exp.SetOperation):
            pairs = list(zip(self.of(query.left), self.of(query.right), strict=False))
            self.rows[id(query)] = any(self._has_uncertain_rows(side) for side in (query.left, query.right))
            return [one or other for one, other in pairs]
        if not isinstance(query, exp.Select):
            return [False] * len(query.selects) if isinstance(query, exp.Query) else [False]
        sources: Sources = {}
        for source in sources_of(query):
            if isinstance(source, exp.Subquery):
                sources[source.alias] = self._named(source.this, source.args.get("alias"))
            elif isinstance(source, exp.Table) and source.name in self.ctes:
                sources[source.alias_or_name] = self.ctes[source.name]
        below = any(source.get(_ROWS, False) for source in sources.values())

        def is_uncertain(column: exp.Column) -> bool:
            if column.table in sources:
                return sources[column.table].get(column.name, False)
            name = column.name
            return name.startswith((f"{SECRET}b", f"{SECRET}q"))

        filters = [query.args[key] for key in ("where", "having", "qualify") if query.args.get(key)]
        is_filtered = any(is_uncertain(c) for node in filters for c in node.find_all(exp.Column))
        is_chosen = below or is_filtered
        self.rows[id(query)] = is_chosen and not query.args.get("limit")
        windows = {window.name: window for window in query.args.get("windows") or []}

        def depends(item: exp.Expr) -> bool:
            named = [windows[w.alias] for w in item.find_all(exp.Window) if w.alias in windows]
            columns = [c for node in [item, *named] for c in node.find_all(exp.Column)]
            return (
                (is_chosen and item.find(exp.AggFunc, exp.Window) is not None)
                or any(map(is_uncertain, columns))
                or any(any(self.of(inner.this)) for inner in item.find_all(exp.Subquery))
            )

        return [depends(item) for item in query.selects]

    def _named(self, query: exp.Expr, alias: exp.Expr | None) -> dict[str, bool]:
        names = [c.name for c in alias.columns] if isinstance(alias, exp.TableAlias) else []
        assert isinstance(query, exp.Query)
        by_name = dict(zip(names or query.named_selects, self.of(query), strict=False))
        return {**by_name, _ROWS: self._has_uncertain_rows(query)}

    def _has_uncertain_rows(self, query: exp.Expr) -> bool:
        inner = query.unnest() if isinstance(query, exp.Subquery) else query
        return self.rows.get(id(inner), False)


def sources_of(select: exp.Expr) -> list[exp.Expr]:
    """What a SELECT reads from."""
    first = _source(select)
    return ([first] if first is not None else []) + [join.this for join in select.args.get("joins") or []]


def add_hidden_key(tree: exp.Expr) -> None:
    """Add a last column that tells rows apart the same way in every draw."""
    _Hidden({cte.alias: cte for cte in tree.find_all(exp.CTE)}).add(tree)


class _Hidden:
    def __init__(self, ctes: dict[str, exp.CTE]) -> None:
        self.ctes = ctes

    def add(self, query: exp.Expr) -> None:
        if isinstance(query, exp.Subquery):
            self.add(query.this)
        elif isinstance(query, exp.SetOperation):
            self._add_to_set(query)
        elif isinstance(query, exp.Select):
            query.append("expressions", exp.alias_(self._key(query), HIDDEN))

    def _add_to_set(self, query: exp.SetOperation) -> None:
        if query.args.get("distinct") or isinstance(query, (exp.Except, exp.Intersect)):
            uncertain = uncertain_outputs(query)
            for leaf in _leaves(query):
                pairs = zip(leaf.selects, uncertain, strict=False)
                keys = [item.unalias() for item, is_uncertain in pairs if not is_uncertain]
                leaf.append("expressions", exp.alias_(_joined(keys or [exp.Literal.string("0")]), HIDDEN))
            return
        for i, whole in enumerate((query.left, query.right)):
            side: exp.Expr = whole.unnest() if isinstance(whole, exp.Subquery) else whole
            self.add(side)
            for leaf in [side] if isinstance(side, exp.Select) else _leaves(side):
                own = leaf.selects[-1]
                text = exp.func("concat", exp.Literal.string(f"{i}|"), _text(own.unalias()))
                own.replace(exp.alias_(text, HIDDEN))

    def _key(self, select: exp.Select) -> exp.Expr:
        group = select.args.get("group")
        if group is not None:
            return _key_of_group(select, group)
        if any(map(has_aggregate, select.selects)) or _source(select) is None:
            return exp.Literal.string("0")
        if select.args.get("distinct"):
            return _joined([item.unalias() for item in select.selects])
        parts: list[exp.Expr] = []
        for source in sources_of(select):
            if isinstance(source, exp.Table) and source.name.startswith(f"{SECRET}_scan"):
                parts.append(exp.column(f"{SECRET}g", table=source.alias_or_name))
            elif isinstance(source, exp.Subquery):
                parts.append(self._below(source.this, source.alias))
            elif isinstance(source, exp.Table) and source.name in self.ctes:
                parts.append(self._below(self.ctes[source.name].this, source.alias_or_name))
        return _joined(parts) if parts else exp.Literal.string("0")

    def _below(self, query: exp.Expr, alias: str) -> exp.Expr:
        if not isinstance(query, exp.Query) or isinstance(query, exp.Values):
            return exp.Literal.string("v")
        if HIDDEN not in query.named_selects:
            self.add(query)
            parent = query.parent
            columns = parent.args.get("alias") if parent is not None else None
            if isinstance(columns, exp.TableAlias) and columns.columns:
                columns.append("columns", exp.to_identifier(HIDDEN))
        return exp.column(HIDDEN, table=alias)


def _key_of_group(select: exp.Select, group: exp.Expr) -> exp.Expr:
    sets = list(group.find_all(*_SETS))
    keys = list(group.find_all(exp.Column)) if sets else list(group.expressions)
    if group.args.get("all"):
        keys += [item.unalias() for item in select.selects if not item.find(exp.AggFunc)]
    columns = {key.sql("duckdb"): key for key in keys}
    more = [sqlglot.parse_one(f"GROUPING({key})", read="duckdb") for key in columns] if sets else []
    parts: list[exp.Expr] = [*columns.values(), *more]
    return _joined(parts) if parts else exp.Literal.string("0")


def _leaves(query: exp.Expr) -> Iterator[exp.Select]:
    for side in (query.left, query.right):  # type: ignore[attr-defined]
        inner = side.unnest() if isinstance(side, exp.Subquery) else side
        if isinstance(inner, exp.SetOperation):
            yield from _leaves(inner)
        elif isinstance(inner, exp.Select):
            yield inner


def _text(node: exp.Expr) -> exp.Expr:
    return exp.func("coalesce", exp.cast(node.copy(), "VARCHAR"), exp.Literal.string("~"))


def _joined(parts: list[exp.Expr]) -> exp.Expr:
    return exp.func("concat_ws", exp.Literal.string("|"), *map(_text, parts))


_RISING = (
    exp.Paren, exp.Coalesce, exp.Add, exp.Mul, exp.Div, exp.Sum, exp.Avg, exp.Sqrt, exp.Min, exp.Max,
    exp.Least,
)  # fmt: skip


def never_negative(tree: exp.Expr, is_positive: dict[str, bool]) -> list[bool]:
    """For each output, whether it cannot be negative: sums, shares and roundings of what is not.

    is_positive: per column of base sums. Columns of one name anywhere in the statement have one sign.
    """
    definitions: dict[str, list[exp.Expr]] = defaultdict(list)
    for select in tree.find_all(exp.Select):
        for item in select.selects:
            definitions[item.alias_or_name].append(item.unalias())

    def sign(node: exp.Expr, above: frozenset[str] = frozenset()) -> bool:
        if isinstance(node, exp.Column):
            name, own = node.name, definitions[node.name]
            known = is_positive.get(name, bool(own))
            return known and (name in above or all(sign(each, above | {name}) for each in own))
        if isinstance(node, exp.Literal):
            return not node.is_string
        if isinstance(node, exp.Count):
            return True
        if isinstance(node, exp.Case):
            values = [each.args["true"] for each in node.args.get("ifs") or []]
            default = node.args.get("default")
            return all(sign(v, above) for v in [*values, *([default] if default is not None else [])])
        if isinstance(node, exp.Greatest):
            return any(sign(child, above) for child in node.iter_expressions())
        if isinstance(node, exp.Nullif):
            return sign(node.this, above)
        if isinstance(node, exp.Window):
            return isinstance(node.this, (exp.Sum, exp.Avg, exp.Count, exp.Min, exp.Max)) and sign(
                node.this, above
            )
        if isinstance(node, exp.Subquery):
            return all(sign(item, above) for item in node.this.selects)
        if isinstance(
            node, (exp.Alias, exp.Cast, exp.TryCast, exp.Round, exp.Trunc, exp.Floor, exp.Ceil, exp.Filter)
        ):
            return sign(node.this, above)
        if isinstance(node, _RISING):
            return all(sign(child, above) for child in node.iter_expressions())
        return False

    leaves = [tree] if isinstance(tree, exp.Select) else list(_leaves(tree))
    return [all(map(sign, column)) for column in zip(*(leaf.selects for leaf in leaves), strict=False)]
