"""Names and types of a statement's result, known before it runs: clients ask for them first.

They follow from the statement and the columns of its tables alone, so a prepared statement has them before
its parameters have values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from hdpview.errors import QueryError
from hdpview.explore.postgres import types as t
from hdpview.explore.postgres.names import common_table, output_name, parameter_number, type_of_cast
from hdpview.explore.postgres.types import PgType
from hdpview.query.sql.aggregates import ASSOCIATIONS, NAMED_AGGREGATES, QUANTILES, is_aggregate
from hdpview.query.sql.axes import TRUTHS
from hdpview.query.sql.dates import PART_NODES
from hdpview.query.sql.execute import is_end_of_interval
from hdpview.query.sql.windows import is_rank

_MOST_COLUMNS = 1_600  # as in PostgreSQL


@dataclass(frozen=True)
class OutputColumn:
    """A column of a result. is_aggregate: whether it follows from aggregates, and so has an interval."""

    name: str
    kind: PgType
    is_aggregate: bool = False


TableColumns = Callable[[exp.Table], Sequence[OutputColumn] | None]
_Scope = dict[str, Sequence[OutputColumn]]

# Types of expressions that have the same one whatever they are made of; all others are texts or looked into.
_KINDS: dict[type[exp.Expr], PgType] = {
    **dict.fromkeys(TRUTHS, t.BOOL),
    **dict.fromkeys(
        (exp.Exists, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Escape, exp.Boolean, exp.Operator), t.BOOL
    ),
    **dict.fromkeys((exp.LogicalAnd, exp.LogicalOr, exp.ArrayContainsAll, exp.ArrayOverlaps), t.BOOL),
    **dict.fromkeys((exp.CurrentSchema, exp.CurrentDatabase, exp.CurrentCatalog), t.NAME),
    **dict.fromkeys((exp.CurrentUser, exp.SessionUser), t.NAME),
    **dict.fromkeys((exp.Floor, exp.Ceil, exp.Sqrt, exp.Pow, exp.Ln, exp.Exp, exp.Log), t.FLOAT8),
    **dict.fromkeys((exp.Round, exp.Trunc, exp.PercentRank, exp.CumeDist), t.FLOAT8),
    **dict.fromkeys((exp.Stddev, exp.StddevSamp, exp.StddevPop, exp.Variance, exp.VariancePop), t.FLOAT8),
    **dict.fromkeys((exp.Corr, exp.CovarPop, exp.CovarSamp), t.FLOAT8),
    **dict.fromkeys((exp.Length, exp.StrPosition, exp.WidthBucket, exp.ArraySize, *PART_NODES), t.INT4),
    **dict.fromkeys((exp.RowNumber, exp.Rank, exp.DenseRank, exp.Ntile, exp.Grouping), t.INT8),
    **dict.fromkeys((exp.TimestampTrunc, exp.DateTrunc), t.TIMESTAMP),
    exp.Extract: t.NUMERIC,
    exp.CurrentSchemas: t.BY_NAME["_name"],
    exp.CurrentDate: t.DATE,
    exp.CurrentTimestamp: t.TIMESTAMPTZ,
    exp.Interval: t.INTERVAL,
}
_SAME = (
    *(
        exp.Paren,
        exp.Neg,
        exp.Abs,
        exp.Sign,
        exp.Filter,
        exp.Window,
        exp.Min,
        exp.Max,
        exp.Collate,
        exp.Distinct,
    ),
    *(exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue),
)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv)
_WIDTH = [t.INT2, t.INT4, t.INT8, t.NUMERIC, t.FLOAT4, t.FLOAT8]


class Describer:
    """Describes one statement.

    tables: columns of a table that is not a common table expression; None where there is none of that name.
    of_counts: the type of COUNT, and of sums: whole numbers in the catalogue, estimates in a view.
    """

    def __init__(self, tables: TableColumns, of_counts: PgType) -> None:
        self._tables, self._of_counts = tables, of_counts
        self._scopes: dict[int, _Scope] = {}
        self._unfinished: set[int] = set()

    def columns(self, tree: exp.Expr) -> list[OutputColumn]:
        """Columns of a SELECT, of several put together, or of VALUES."""
        tree = tree.unnest() if isinstance(tree, exp.Subquery) else tree
        if isinstance(tree, exp.SetOperation):
            left, right = self.columns(tree.this), self.columns(tree.expression)
            return [
                replace(a, kind=_wider(a.kind, b.kind), is_aggregate=a.is_aggregate or b.is_aggregate)
                for a, b in zip(left, right, strict=False)
            ]
        if isinstance(tree, exp.Values):
            first = tree.expressions[0].expressions if tree.expressions else []
            return [OutputColumn(f"column{i}", self.kind(node)) for i, node in enumerate(first, 1)]
        if not isinstance(tree, exp.Select):
            return []
        found: list[OutputColumn] = []
        for item in tree.expressions:
            found += self._projected(item, tree)
            if len(found) > _MOST_COLUMNS:
                raise QueryError(f"A result has at most {_MOST_COLUMNS:,} columns. Name those you need.")
        return found

    def _projected(self, item: exp.Expr, tree: exp.Select) -> Iterable[OutputColumn]:
        inner = item.unalias()
        if isinstance(inner, exp.Star):
            return [column for columns in self._scope(tree).values() for column in columns]
        if isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star):
            return self._scope(tree).get(inner.table.lower(), ())
        kind = self.kind(inner)
        has_interval = kind in t.NUMBERS | t.MOMENTS and self._is_aggregate(inner)
        return [OutputColumn(output_name(item), kind, has_interval)]

    def _is_aggregate(self, node: exp.Expr) -> bool:
        """Whether an expression follows from aggregates, here or in a subquery; ends of intervals do not."""
        parts = list(node.walk(prune=is_rank))
        if any(map(is_end_of_interval, parts)):
            return False
        columns = map(self._column, (part for part in parts if isinstance(part, exp.Column)))
        return any(map(is_aggregate, parts)) or any(
            column is not None and column.is_aggregate for column in columns
        )

    def _scope(self, tree: exp.Select) -> _Scope:
        """What stands in a SELECT's FROM, by alias."""
        if id(tree) in self._scopes:
            return self._scopes[id(tree)]
        if id(tree) in self._unfinished:
            return {}
        self._unfinished.add(id(tree))
        clause = tree.args.get("from_")
        found: _Scope = {}
        sources = [clause.this] if clause is not None else []
        sources += [join.this for join in tree.args.get("joins") or ()]
        for source in sources:
            for nested in (source, *(join.this for join in source.args.get("joins") or ())):
                name, columns = self._source(nested)
                found[name if name not in found else f"{name} {len(found)}"] = columns
        self._scopes[id(tree)] = found
        return found

    def _source(self, source: exp.Expr) -> tuple[str, Sequence[OutputColumn]]:
        alias = source.args.get("alias")
        name = source.alias_or_name.lower()
        if isinstance(source, exp.Lateral):
            source = source.this
        if isinstance(source, exp.Table) and isinstance(source.this, exp.Identifier):
            common = common_table(source)
            columns = self.columns(common.this) if common is not None else self._tables(source) or ()
            renamed = common.args["alias"].columns if common is not None else []
            columns = _renamed(columns, [column.name for column in renamed])
        elif isinstance(source, (exp.Subquery, exp.Values)):
            columns = self.columns(source.this if isinstance(source, exp.Subquery) else source)
        else:  # a function that gives rows
            inner = source.this if isinstance(source, exp.Table) else source
            columns = [OutputColumn(name or output_name(inner), self.kind(inner))]
        named = [] if alias is None else [column.name for column in alias.columns]
        return name, _renamed(columns, named)

    def _column(self, node: exp.Expr) -> OutputColumn | None:
        node = node.unnest()
        if not isinstance(node, exp.Column):
            return None
        select: exp.Expr | None = node.parent_select
        while isinstance(select, exp.Select):
            scope = self._scope(select)
            places = [scope[node.table.lower()]] if node.table and node.table.lower() in scope else []
            for columns in places if node.table else scope.values():
                for column in columns:
                    if column.name.lower() == node.name.lower():
                        return column
            if not node.table:
                named = {item.alias.lower(): item for item in select.expressions if item.alias}
                item = named.get(node.name.lower())
                if (
                    item is not None
                    and item.find(exp.Column) is not node
                    and node.find_ancestor(exp.Alias) is not item
                ):
                    return OutputColumn(item.alias, self.kind(item.this))
            select = select.parent_select
        return None

    def kind(self, node: exp.Expr) -> PgType:
        """The type of an expression; text where nothing says otherwise."""
        if isinstance(node, exp.Column):
            found = self._column(node)
            return t.TEXT if found is None else found.kind
        if isinstance(node, exp.Literal):
            return t.TEXT if node.is_string else _type_of_number(node.this)
        if isinstance(node, exp.Cast):
            return type_of_cast(node)
        if type(node) in _KINDS:
            return _KINDS[type(node)]
        if isinstance(node, _ARITHMETIC):
            return _arithmetic(node, self.kind(node.this), self.kind(node.expression))
        if isinstance(node, (exp.Subquery, exp.Select, exp.SetOperation)):
            columns = self.columns(node)
            return columns[0].kind if columns else t.TEXT
        if isinstance(node, exp.Dot):
            return self.kind(node.expression)
        return self._of_function(node)

    def _of_function(self, node: exp.Expr) -> PgType:
        if isinstance(node, exp.Anonymous):
            if node.name.lower() in ASSOCIATIONS:
                return t.FLOAT8
            if node.name.lower() in NAMED_AGGREGATES or is_end_of_interval(node):
                return self._of_mean(node.expressions[0]) if node.expressions else t.FLOAT8
            return t.TEXT
        if isinstance(node, (exp.Count, exp.CountIf)):
            return self._of_counts
        if isinstance(node, exp.Sum):
            return t.FLOAT8 if self._of_counts is t.FLOAT8 else t.INT8
        if isinstance(node, (exp.Avg, *QUANTILES)):
            return self._of_mean(node.this)
        if isinstance(node, exp.WithinGroup):
            return self._of_mean(node.expression.expressions[0].this)
        if isinstance(node, _SAME):
            return self.kind(node.this if node.this is not None else node.expressions[0])
        if isinstance(node, (exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.Greatest, exp.Least)):
            return self._common(list(_results(node)))
        if isinstance(node, (exp.Array, exp.ArrayAgg)):
            inner = node.this if isinstance(node, exp.ArrayAgg) else next(iter(node.expressions), None)
            inner = inner.this if isinstance(inner, exp.Order) else inner
            return t.array_of(t.TEXT if inner is None else self.kind(inner))
        if isinstance(node, exp.ExplodingGenerateSeries):
            kind = self.kind(node.args["start"])
            return t.TIMESTAMP if kind in t.MOMENTS else t.INT4
        if isinstance(node, exp.Bracket):
            return t.ELEMENT_OF.get(self.kind(node.this).oid, t.TEXT)
        return t.TEXT

    def _of_mean(self, node: exp.Expr) -> PgType:
        return t.TIMESTAMP if self.kind(node) in t.MOMENTS else t.FLOAT8

    def _common(self, nodes: Sequence[exp.Expr]) -> PgType:
        kinds = [self.kind(node) for node in nodes if not _is_untyped(node)]
        found = kinds[0] if kinds else t.TEXT
        for kind in kinds[1:]:
            found = _wider(found, kind)
        return found

    def parameters(self, tree: exp.Expr) -> dict[int, PgType]:
        """Types of the parameters $1, $2, … by where they stand."""
        found: dict[int, PgType] = {}
        for node in tree.find_all(exp.Parameter):
            number = parameter_number(node)
            kind = self._parameter(node)
            if found.get(number, t.UNKNOWN) in (t.UNKNOWN, t.TEXT):
                found[number] = kind
        return found

    def _parameter(self, node: exp.Expr) -> PgType:
        parent = node.parent
        while isinstance(parent, (exp.Paren, exp.Neg, exp.Tuple)):
            node, parent = parent, parent.parent
        if isinstance(parent, exp.Cast):
            return type_of_cast(parent)
        if isinstance(parent, (exp.Limit, exp.Offset, exp.Fetch)):
            return t.INT8
        is_all = isinstance(parent, exp.Anonymous) and parent.name.upper() == "ALL"
        if isinstance(parent, (exp.Any, exp.All)) or is_all:
            assert parent is not None
            return t.array_of(self.beside(parent))
        if isinstance(parent, (exp.Binary, exp.In, exp.Between, exp.Coalesce, exp.Nullif)):
            return self.beside(node)
        return t.TEXT

    def beside(self, node: exp.Expr) -> PgType:
        """The type of what a value stands beside in a comparison; text where nothing says otherwise."""
        parent = node.parent
        assert parent is not None
        others = [
            other for other in parent.iter_expressions() if other is not node and not _is_untyped(other)
        ]
        return self.kind(others[0]) if others else t.TEXT


def _is_untyped(node: exp.Expr) -> bool:
    inner = node.unnest()
    return isinstance(inner, (exp.Parameter, exp.Null)) or (
        isinstance(inner, exp.Literal) and inner.is_string
    )


def _results(node: exp.Expr) -> Iterable[exp.Expr]:
    if isinstance(node, (exp.Case, exp.If)):
        branches = node.args.get("ifs") or [node]
        yield from (branch.args["true"] for branch in branches)
        default = node.args.get("default") or node.args.get("false")
        if default is not None:
            yield default
    else:
        yield node.this
        yield from node.expressions if not isinstance(node, exp.Nullif) else ()


def _type_of_number(text: str) -> PgType:
    if not text.isdecimal():
        return t.NUMERIC
    return t.INT4 if int(text) < 2**31 else t.INT8 if int(text) < 2**63 else t.NUMERIC


def _wider(a: PgType, b: PgType) -> PgType:
    if a == b or b is t.TEXT:
        return a if a != t.TEXT or a == b else b
    if a in t.MOMENTS and b in t.MOMENTS:
        return t.TIMESTAMP
    if a in _WIDTH and b in _WIDTH:
        return max(a, b, key=_WIDTH.index)
    return b if a is t.TEXT else a


def _arithmetic(node: exp.Expr, a: PgType, b: PgType) -> PgType:
    if a in t.MOMENTS and b in t.MOMENTS and isinstance(node, exp.Sub):
        return t.INT4 if a is b is t.DATE else t.INTERVAL
    if a in t.MOMENTS or b in t.MOMENTS:
        moment, other = (a, b) if a in t.MOMENTS else (b, a)
        return moment if other in t.INTEGERS else t.TIMESTAMP
    a, b = (t.INT4 if kind in (t.OID, t.XID) else kind for kind in (a, b))
    if a not in _WIDTH or b not in _WIDTH:
        return a if a in _WIDTH else b if b in _WIDTH else t.FLOAT8
    return max(a, b, key=_WIDTH.index)


def _renamed(columns: Sequence[OutputColumn], names: Sequence[str]) -> Sequence[OutputColumn]:
    if not names:
        return columns
    fresh = [replace(column, name=name) for column, name in zip(columns, names, strict=False)]
    return [*fresh, *columns[len(fresh) :], *(OutputColumn(name, t.TEXT) for name in names[len(columns) :])]
