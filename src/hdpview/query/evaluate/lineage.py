"""Find the uncertain outputs of a statement, and add a hidden key that identifies its rows in every draw."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator

import sqlglot
from sqlglot import exp

from hdpview.query.evaluate.aggregates import has_aggregate
from hdpview.query.evaluate.database import SECRET
from hdpview.query.evaluate.folding import SETS, source_of

HIDDEN = f"{SECRET}h"
Sources = dict[str, dict[str, bool]]
_ROWS = ""  # marks the rows of a source among its columns


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
    """The sources of a SELECT."""
    first = source_of(select)
    return ([first] if first is not None else []) + [join.this for join in select.args.get("joins") or []]


def add_hidden_key(tree: exp.Expr) -> None:
    """Add a last column that identifies rows across draws."""
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
        if any(map(has_aggregate, select.selects)):
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
            elif isinstance(source, exp.Values):
                columns = source.args["alias"].columns
                parts += [exp.column(column.name, table=source.alias) for column in columns]
        if source_of(select) is None and select.find(exp.Explode) is not None:
            parts = [item.unalias() for item in select.selects]
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
    sets = list(group.find_all(*SETS))
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
    # A plain name, because generating sqlglot's own node for CONCAT_WS takes 3 ms.
    return exp.Anonymous(this="concat_ws", expressions=[exp.Literal.string("|"), *map(_text, parts)])


Range = tuple[float, float]
_ANY: Range = (-math.inf, math.inf)
_SAME = (
    exp.Alias, exp.Avg, exp.Cast, exp.Filter, exp.FirstValue, exp.LastValue, exp.Max, exp.Min, exp.Nullif,
    exp.Paren, exp.TryCast, exp.Window,
)  # fmt: skip


class Ranges:
    """Possible values of outputs: non-negative sums, shares, means, and expressions of them.

    sums: ranges of the columns of base sums. is_share: whether one base sum is part of another.
    Columns of one name anywhere in the statement have one range.
    """

    def __init__(self, tree: exp.Expr, sums: dict[str, Range], is_share: Callable[[str, str], bool]) -> None:
        self._sums, self._is_share = sums, is_share
        self._definitions: dict[str, list[exp.Expr]] = defaultdict(list)
        for select in tree.find_all(exp.Select):
            for item in select.selects:
                self._definitions[item.alias_or_name].append(item.unalias())
        leaves = [tree] if isinstance(tree, exp.Select) else list(_leaves(tree))
        columns = zip(*(leaf.selects for leaf in leaves), strict=False)
        self.of_outputs = [_hull([self.of(item) for item in column]) for column in columns]

    def of(self, node: exp.Expr, above: frozenset[str] = frozenset()) -> Range:
        """The least and the greatest value of an expression."""
        if isinstance(node, exp.Column):
            name = node.name
            if name in self._sums or name in above:
                return self._sums.get(name, (0.0, math.inf))
            return _hull([self.of(each, above | {name}) for each in self._definitions[name]])
        if node.is_number:
            return float(node.to_py()), float(node.to_py())
        if isinstance(node, (exp.Count, exp.CountIf)):
            return 0.0, math.inf
        if isinstance(node, exp.Case):
            default = node.args.get("default")
            values = [each.args["true"] for each in node.args["ifs"]] + ([default] if default else [])
            return _hull([self.of(value, above) for value in values])
        if isinstance(node, exp.Div):
            return self._quotient(node.this.unnest(), node.expression.unnest(), above)
        if isinstance(node, _SAME):
            return self.of(node.this, above)
        if isinstance(node, exp.Subquery):
            return _hull([self.of(item, above) for item in node.this.selects])
        own = [self.of(child, above) for child in node.iter_expressions() if isinstance(child, exp.Expr)]
        if isinstance(node, exp.Coalesce):
            return _hull(own)
        if isinstance(node, (exp.Greatest, exp.Least)):
            choose = max if isinstance(node, exp.Greatest) else min
            return choose(low for low, _ in own), choose(high for _, high in own)
        if isinstance(node, exp.Sub):
            own[1] = -own[1][1], -own[1][0]
        if isinstance(node, (exp.Add, exp.Sub)):
            return own[0][0] + own[1][0], own[0][1] + own[1][1]
        if isinstance(node, exp.Mul):
            ends = [x * y if x and y else 0.0 for x in own[0] for y in own[1]]
            return min(ends), max(ends)
        if isinstance(node, (exp.Sum, exp.Sqrt, exp.Round, exp.Trunc, exp.Floor, exp.Ceil)) and own:
            return (0.0 if own[0][0] >= 0 else -math.inf), math.inf
        return _ANY

    def _quotient(self, part: exp.Expr, whole: exp.Expr, above: frozenset[str]) -> Range:
        if isinstance(part, exp.Mul):  # 100.0 * COUNT(…) / COUNT(*)
            for factor, other in ((part.this, part.expression), (part.expression, part.this)):
                if factor.is_number:
                    share = exp.Div(this=other.copy(), expression=whole.copy())
                    return self.of(exp.Mul(this=factor.copy(), expression=share), above)
        names = [_plain_column(side) for side in (part, whole)]
        if all(name in self._sums for name in names) and self._is_share(*names):
            return 0.0, 1.0
        low, high = self.of(part, above)
        by, most = self.of(whole, above)
        if by == most and by:
            return _hull([(low / by, low / by), (high / by, high / by)])
        return (0.0, math.inf) if low >= 0 and by >= 0 else _ANY


def _hull(ranges: list[Range]) -> Range:
    return min((low for low, _ in ranges), default=-math.inf), max(
        (high for _, high in ranges), default=math.inf
    )


def _plain_column(node: exp.Expr) -> str:
    """The name of a column, also inside expressions that only handle NULL; otherwise None."""
    while isinstance(node, (exp.Paren, exp.Coalesce, exp.Nullif)):
        node = node.this
    return node.name if isinstance(node, exp.Column) else ""
