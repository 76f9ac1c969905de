"""Rewrite forms of SQL and fold subqueries over rows of the view, before scans are located."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from sqlglot import exp

from hdpview.errors import QueryError
from hdpview.query.evaluate.aggregates import has_aggregate
from hdpview.query.evaluate.database import DIVIDE, SECRET, ViewDatabase
from hdpview.query.evaluate.dialects import to_duckdb
from hdpview.query.evaluate.expressions import text_of
from hdpview.query.question.where import DIALECT

SETS = (exp.Rollup, exp.Cube, exp.GroupingSets)
ONE_TABLE = (
    "A view is one table, and holds no rows that a join could match. Build the view from the joined "
    "table, or filter with WHERE."
)
_ROW_LEVEL_LACKS = ("group", "having", "distinct", "limit", "offset", "qualify", "joins", "windows")
# Answers a subquery on the estimate: names of its outputs, and its rows.
Answer = Callable[[exp.Expr], tuple[list[str], list[tuple[Any, ...]]]]


def fold(tree: exp.Expr, answer: Answer) -> None:
    """Make SELECTs over rows of the view, as subqueries or WITH, part of the SELECT around them."""
    changed = True
    while changed:
        changed = False
        ctes = {cte.alias: cte for cte in tree.find_all(exp.CTE)}
        for select in list(tree.find_all(exp.Select)):
            changed |= _fold_joins(select, ctes, answer)
            source = source_of(select)
            if source is None or select.args.get("joins"):
                continue
            inner = _inner(source, ctes)
            if isinstance(inner, exp.Select) and _is_row_level(inner) and inner is not select:
                _merge(select, source, inner)
                changed = True
    for cte in list(tree.find_all(exp.CTE)):
        if isinstance(cte.this, exp.Select) and _is_row_level(cte.this):
            _drop(cte)


def _is_row_level(select: exp.Select) -> bool:
    return (
        reads_view(select)
        and not any(select.args.get(key) for key in _ROW_LEVEL_LACKS)
        and not any(map(has_aggregate, select.selects))
        and not any(isinstance(item, exp.Star) or item.find(exp.Window) for item in select.selects)
    )


def _fold_joins(select: exp.Select, ctes: dict[str, exp.CTE], answer: Answer) -> bool:
    """Replace joins of the view with a list of VALUES by CASE expressions, and with one row by its values."""
    joins = list(select.args.get("joins") or [])
    if not joins or not reads_view(select):
        return False
    while joins:
        join = joins.pop(0)
        inner = _inner(join.this, ctes) or join.this
        is_rows = isinstance(inner, exp.Select) and _is_row_level(inner)
        if is_rows or not isinstance(inner, (exp.Query, exp.Values)):
            raise QueryError(ONE_TABLE)
        names, rows = answer(exp.select("*").from_(join.this.copy()))
        cells = [[literal(value) for value in row] for row in rows]
        _fold_lookup(select, join, join.this.alias_or_name, names, cells)
        select.set("joins", list(joins) or None)
    return True


def _fold_lookup(
    select: exp.Select, join: exp.Join, alias: str, names: list[str], rows: list[list[exp.Expr]]
) -> None:
    condition = join.args.get("on")
    side = (join.side or "").upper()
    if len(rows) == 1 and condition is None and not join.args.get("using"):
        for column in list(select.find_all(exp.Column)):
            if column.table == alias and column.name in names:
                column.replace(rows[0][names.index(column.name)].copy())
        return
    if not isinstance(condition, exp.EQ) or side not in ("", "LEFT") or join.kind.upper() == "CROSS":
        raise QueryError(ONE_TABLE)
    ends = [condition.this, condition.expression]
    own = next((e for e in ends if isinstance(e, exp.Column) and e.table == alias), None)
    other = next((e for e in ends if e is not own), None)
    if own is None or other is None or own.name not in names:
        raise QueryError(ONE_TABLE)
    at = names.index(own.name)
    if len({text_of(row[at]) for row in rows}) < len(rows):
        raise QueryError(f"{ONE_TABLE} The list names a key twice.")

    def value(column: str) -> exp.Expr:
        case, place = exp.Case(), names.index(column)
        for row in rows:
            case = case.when(exp.EQ(this=other.copy(), expression=row[at].copy()), row[place].copy())
        return exp.paren(case)

    for column in list(select.find_all(exp.Column)):
        if column.table == alias and column is not own and column.name in names:
            column.replace(value(column.name))
    if side != "LEFT":
        select.where(exp.In(this=other.copy(), expressions=[row[at].copy() for row in rows]), copy=False)


def source_of(select: exp.Expr) -> exp.Expr | None:
    source = select.args.get("from_")
    return None if source is None else source.this


def reads_view(select: exp.Expr) -> bool:
    source = source_of(select)
    return isinstance(source, exp.Table) and source.name == "view" and not source.args.get("pivots")


def _inner(source: exp.Expr, ctes: dict[str, exp.CTE]) -> exp.Expr | None:
    whole = ctes.get(source.name) if isinstance(source, exp.Table) else source
    return whole.this if isinstance(whole, (exp.Subquery, exp.CTE)) else None


def _merge(select: exp.Select, source: exp.Expr, inner: exp.Select) -> None:
    """Merge a row-level SELECT into the one that reads from it."""
    name = source.alias_or_name
    values = {item.alias_or_name: item.unalias() for item in inner.selects}
    for column in list(select.find_all(exp.Column)):
        if column.table == name and column.name in values:
            value = values[column.name]
            column.replace(value.copy() if isinstance(value, exp.Column) else exp.paren(value.copy()))
    from_ = select.args["from_"]
    own_source = source_of(inner)
    assert own_source is not None
    from_.set("this", own_source.copy())
    where = inner.args.get("where")
    if where is not None:
        select.where(where.this.copy(), copy=False)


def _drop(cte: exp.CTE) -> None:
    whole = cte.parent
    cte.pop()
    if whole is not None and not whole.expressions:
        whole.pop()


def literal(value: Any) -> exp.Expr:
    """A Python value as SQL."""
    if isinstance(value, datetime):
        return exp.cast(exp.Literal.string(value.isoformat(sep=" ")), "TIMESTAMP")
    if isinstance(value, date):
        return exp.cast(exp.Literal.string(value.isoformat()), "DATE")
    if isinstance(value, Decimal):
        return exp.Literal.number(str(value))
    return exp.convert(value)


def rewritten(tree: exp.Expr, dialect: str, database: ViewDatabase) -> exp.Expr:
    """The statement in DuckDB's SQL, with tables by their plain names."""
    if isinstance(tree, exp.Pivot):
        pivoted = _pivoted(tree, database)
        for part in ("order", "limit", "offset"):
            pivoted.set(part, tree.args.get(part))
        tree = pivoted
    for source in [node for node in tree.find_all(exp.Subquery) if node.args.get("pivots")]:
        source.replace(_pivoted_subquery(source))
    tree = to_duckdb(tree, dialect, database.types)
    for node in tree.find_all(exp.Table, exp.Column):
        table = "this" if isinstance(node, exp.Table) else "table"
        if node.text(table).lower() == "view":
            node.set(table, exp.to_identifier("view", quoted=True))
            node.set("db", None)
            node.set("catalog", None)
    for series in list(tree.find_all(exp.GenerateSeries)):
        if isinstance(series.parent, exp.Table):
            series.parent.replace(_listed(series.parent, dialect))
    for distinct in list(tree.find_all(exp.Distinct)):
        if isinstance(distinct.parent, exp.Select) and distinct.args.get("on"):
            _take_first(distinct.parent, distinct.args["on"].expressions)
    for node in list(tree.find_all(exp.Limit, exp.Fetch)):
        assert node.parent is not None
        if isinstance(node, exp.Fetch):
            node.parent.set("limit", exp.Limit(expression=node.args.get("count") or exp.Literal.number(1)))
        elif isinstance(node.expression, exp.Var):  # LIMIT ALL
            node.parent.set("limit", None)
    for place in [node for sets in tree.find_all(*SETS) for node in sets.find_all(exp.Literal)]:
        select = place.find_ancestor(exp.Select)
        if select is None or not isinstance(place.parent, (exp.Tuple, exp.Paren, *SETS)):
            continue
        if place.is_int and 1 <= int(place.this) <= len(select.selects):
            place.replace(select.selects[int(place.this) - 1].unalias().copy())
    return tree


def _take_first(select: exp.Select, keys: list[exp.Expr]) -> None:
    """DISTINCT ON (keys) … ORDER BY terms as QUALIFY ROW_NUMBER() OVER (…) = 1."""
    order, outputs = select.args.get("order"), {str(i): item for i, item in enumerate(select.selects, 1)}
    outputs |= {item.alias: item for item in select.selects if item.alias}
    for term in order.expressions if order is not None else []:
        if isinstance(term.this, (exp.Column, exp.Literal)) and term.this.name in outputs:
            term.set("this", outputs[term.this.name].unalias().copy())
    window = exp.Window(this=exp.RowNumber(), partition_by=keys, order=order and order.copy())
    select.set("qualify", exp.Qualify(this=exp.EQ(this=window, expression=exp.Literal.number(1))))
    select.set("distinct", None)


def _listed(table: exp.Table, dialect: str) -> exp.Expr:
    """FROM generate_series(…) AS t(x), as a subquery of one column."""
    series, alias = table.this, table.args.get("alias")
    given = alias.columns[0].name if alias is not None and alias.columns else ""
    name = given or (table.alias if dialect != DIALECT else "")
    name = name or ("range" if series.args.get("is_end_exclusive") else "generate_series")
    plain = exp.GenerateSeries(**{key: value for key, value in series.args.items() if value is not None})
    return exp.select(exp.alias_(exp.Explode(this=plain.copy()), name)).subquery(table.alias or name)


def divide_counts(tree: exp.Expr) -> None:
    """Estimates have fractions, so `//` of counts must truncate them."""
    for node in list(tree.find_all(exp.IntDiv)):
        has_fractions = node.find(exp.Div, exp.Avg) is not None or any(
            not number.is_string and not number.is_int for number in node.find_all(exp.Literal)
        )
        if not has_fractions:
            sides = [exp.paren(side.copy()) for side in (node.this, node.expression)]
            whole = exp.Div(this=sides[0], expression=sides[1], typed=False, safe=False)
            node.replace(exp.func("trunc", whole))


def spell_out(tree: exp.Expr) -> None:
    """Write division in dialects where it cuts fractions of whole numbers off, and units between two columns
    as a difference of units since 1970, each about one column.
    """
    for node in list[exp.Expr](tree.find_all(exp.Div)):
        if node.args.get("typed") and node.find(exp.AggFunc) is None:
            for part in list(node.find_all(exp.Extract)):
                part.replace(exp.cast(part.copy(), "DOUBLE"))
            node.replace(exp.Anonymous(this=DIVIDE, expressions=[node.this, node.expression]))
        node.set("typed", False)
    for node in list(tree.find_all(exp.DateDiff)):
        if all(side.find(exp.Column) for side in (node.this, node.expression)):
            start, end = (
                exp.DateDiff(this=side, expression=literal(date(1970, 1, 1)), unit=node.args.get("unit"))
                for side in (node.expression.copy(), node.this.copy())
            )
            node.replace(exp.paren(exp.Sub(this=end, expression=start)))


_OF_WHOLE = (exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Paren, exp.Round)


def write_whole_counts(root: exp.Expr) -> None:
    """Round counts that are converted to text, and arithmetic of counts and whole numbers."""
    for count in list(root.find_all(exp.Count, exp.CountIf)):
        whole: exp.Expr = count
        while isinstance(whole.parent, _OF_WHOLE):
            whole = whole.parent
        text = whole.parent
        is_cast = isinstance(text, exp.Cast) and text.to.is_type(*exp.DataType.TEXT_TYPES)
        if is_cast or isinstance(text, (exp.DPipe, exp.Concat, exp.ConcatWs)):
            kinds = (*_OF_WHOLE, exp.Count, exp.CountIf, exp.Literal)
            parts = whole.walk(prune=lambda node: isinstance(node, (exp.Count, exp.CountIf)))
            if all(isinstance(node, kinds) and (not node.is_number or node.is_int) for node in parts):
                whole.replace(exp.cast(exp.func("round", whole.copy()), "BIGINT"))


def _pivoted(pivot: exp.Pivot, database: ViewDatabase) -> exp.Expr:
    """PIVOT … ON attribute USING aggregates GROUP BY keys, as a SELECT with FILTERs."""
    table, ons, using = pivot.this, pivot.expressions, pivot.args.get("using") or [exp.Count(this=exp.Star())]
    if not isinstance(table, exp.Table) or len(ons) != 1:
        raise QueryError("PIVOT takes one attribute: PIVOT view ON attribute USING COUNT(*) GROUP BY key.")
    on, listed = ons[0], None
    if isinstance(on, exp.In):
        on, listed = on.this, [value.this for value in on.expressions if isinstance(value, exp.Literal)]
    a = database.number.get(on.name.lower()) if isinstance(on, exp.Column) else None
    if a is None or database.is_binned(a):
        raise QueryError("PIVOT takes a plain attribute after ON, which is not counted in bins.")
    labels = listed if listed is not None else sorted(database.schema.attributes[a].value_labels())
    group = pivot.args.get("group")
    keys = list(group.expressions) if group is not None else []
    return _with_filters(table, keys, on, {label: exp.Literal.string(label) for label in labels}, using)


def _pivoted_subquery(source: exp.Subquery) -> exp.Expr:
    """(SELECT …) PIVOT (aggregates FOR column IN (values)), as a subquery with FILTERs."""
    (pivot, *others), inner = source.args["pivots"], source.this
    fields = pivot.args.get("fields") or []
    if others or len(fields) != 1 or pivot.args.get("unpivot") or not isinstance(fields[0], exp.In):
        raise QueryError("PIVOT takes one column: PIVOT (COUNT(*) FOR column IN ('a', 'b')).")
    on, using = fields[0].this, pivot.expressions
    # T-SQL writes values as names: IN ([web], [store]).
    values = {
        value.alias or value.unalias().name: exp.Literal.string(value.unalias().name)
        if isinstance(value.unalias(), exp.Column)
        else value.unalias()
        for value in fields[0].expressions
    }
    used = {column.name for node in [on, *using] for column in node.find_all(exp.Column)}
    keys = [exp.column(name) for name in inner.named_selects if name not in used]
    plain = source.copy()
    plain.set("pivots", None)
    plain.set("alias", exp.TableAlias(this=exp.to_identifier(f"{SECRET}p")))
    alias = pivot.alias or source.alias or f"{SECRET}q"
    return _with_filters(plain, keys, on, values, using).subquery(alias)


def _with_filters(
    source: exp.Expr, keys: list[Any], on: exp.Expr, values: dict[str, Any], using: list[exp.Expr]
) -> exp.Select:
    """A SELECT with a column per value and aggregate."""
    items: list[exp.Expr] = [key.copy() for key in keys]
    for label, value in values.items():
        for one in using:
            test = exp.EQ(this=on.copy(), expression=value.copy())
            item = exp.Filter(this=one.unalias().copy(), expression=exp.Where(this=test))
            suffix = f"_{one.alias or text_of(one)}" if len(using) > 1 or one.alias else ""
            items.append(exp.alias_(item, f"{label}{suffix}", quoted=True))
    select = exp.select(*items).from_(source.copy())
    return select.group_by(*(key.copy() for key in keys)) if keys else select
