"""Translate statements of other dialects for DuckDB."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.time import format_time

from hdpview.errors import QueryError

# Pieces of PostgreSQL's to_char formats → of strftime, and those that strftime lacks → DuckDB's SQL.
_STRFTIME: dict[str, str] = {
    "FMMonth": "%B", "FMDay": "%A", "FMDD": "%-d", "FMMM": "%-m", "FMHH24": "%-H", "FMHH12": "%-I", "FM": "",
    "YYYY": "%Y", "IYYY": "%G", "YY": "%y", "MM": "%m", "Mon": "%b", "DDD": "%j", "DD": "%d", "Dy": "%a",
    "IW": "%V", "HH24": "%H", "HH12": "%I", "HH": "%I", "MI": "%M", "SS": "%S", "MS": "%g", "US": "%f",
    "AM": "%p", "PM": "%p",
}  # fmt: skip
_SPECIAL: dict[str, str] = {
    "Month": "rpad(monthname(x), 9, ' ')",
    "Day": "rpad(dayname(x), 9, ' ')",
    "D": "CAST(dayofweek(x) + 1 AS VARCHAR)",
    "ID": "CAST(isodow(x) AS VARCHAR)",
    "Q": "CAST(quarter(x) AS VARCHAR)",
    "W": "CAST((day(x) - 1) // 7 + 1 AS VARCHAR)",
    "WW": "lpad(CAST((dayofyear(x) - 1) // 7 + 1 AS VARCHAR), 2, '0')",
}
for _piece in ("FMMonth", "FMDay", "Mon", "Dy", "AM", "PM"):  # keep upper and lower case
    _code = f"strftime(x, '{_STRFTIME[_piece]}')"
    _SPECIAL |= {_piece.upper(): f"upper({_code})", _piece.lower().replace("fm", "FM"): f"lower({_code})"}
for _piece in ("Month", "Day"):
    _SPECIAL |= {_piece.upper(): f"upper({_SPECIAL[_piece]})", _piece.lower(): f"lower({_SPECIAL[_piece]})"}
_FORMAT = re.compile(
    '"[^"]*"|' + "|".join(sorted([*_STRFTIME, *_SPECIAL], key=len, reverse=True)) + "|.", re.DOTALL
)
# Dialects in which days of the week count from Sunday, 1.
_SUNDAY_IS_ONE = {"bigquery", "databricks", "doris", "hive", "mysql", "spark", "spark2", "starrocks", "tsql"}
# Dialects whose weeks of the year begin on Sunday.
_WEEKS_FROM_SUNDAY = {"bigquery", "mysql", "tsql"}
# Numbers of weeks as DuckDB's SQL, by MySQL's modes.
_WEEKS = {
    "0": "CAST(strftime(x, '%U') AS INT)",
    "1": "CASE WHEN isoyear(x) < year(x) THEN 0 WHEN isoyear(x) > year(x) THEN 53 ELSE week(x) END",
    "3": "weekofyear(x)",
    "5": "CAST(strftime(x, '%W') AS INT)",
    # The first of January belongs to week 1.
    "tsql": "(dayofyear(x) + dayofweek(date_trunc('year', x)) - 1) // 7 + 1",
}
# Parts of dates that DuckDB's EXTRACT lacks.
_PARTS = {"ISOWEEK": "weekofyear(x)", "YEAR_MONTH": "year(x) * 100 + month(x)", "DATE": "CAST(x AS DATE)"}
_FROM_SUNDAY = {"DAYOFWEEK": "dayofweek(x) + 1", "WEEKDAY": "isodow(x) - 1"}
_UNITS = {"MM": "MONTH", "MON": "MONTH", "YY": "YEAR", "YYYY": "YEAR", "Q": "QUARTER", "DD": "DAY"}
# Functions of one argument as DuckDB's SQL.
_RENAMED = {
    "var": "variance(x)", "varp": "var_pop(x)", "stdevp": "stddev_pop(x)", "isnull": "x IS NULL",
    "total": "coalesce(sum(x), 0)",
}  # fmt: skip


def to_duckdb(tree: exp.Expr, dialect: str, types: Mapping[str, str]) -> exp.Expr:
    """The statement with the meaning of its dialect, ready to be written as DuckDB's SQL."""
    tree = tree.transform(_respelled).transform(_part, dialect)
    if dialect == "tsql":
        _join_texts(tree)
    _roll_up(tree)
    _count_truths(tree, types)
    if dialect != "duckdb":
        tree = tree.transform(_cut_to_length)
    if dialect in ("postgres", "redshift", "materialize", "risingwave"):
        tree = tree.transform(lambda node: _formatted(node) if isinstance(node, exp.TimeToStr) else node)
    return tree


def _join_texts(tree: exp.Expr) -> None:
    """SQL Server's + of texts as ||."""
    for node in reversed(list(tree.find_all(exp.Add))):
        if any(map(_is_text, (node.this, node.expression))):
            node.replace(exp.DPipe(this=node.this.copy(), expression=node.expression.copy()))


def _is_text(node: exp.Expr) -> bool:
    is_cast = isinstance(node, exp.Cast) and node.to.is_type(*exp.DataType.TEXT_TYPES)
    return node.is_string or is_cast or isinstance(node, (exp.DPipe, exp.Left, exp.Right))


def _roll_up(tree: exp.Expr) -> None:
    """GROUP BY a, b WITH ROLLUP as ROLLUP (a, b)."""
    for sets in list(tree.find_all(exp.Rollup, exp.Cube)):
        group = sets.parent
        if isinstance(group, exp.Group) and not sets.expressions:
            sets.set("expressions", group.expressions)
            group.set("expressions", None)


def _cut_to_length(node: exp.Expr) -> exp.Expr:
    """A cast to VARCHAR(7) cuts texts to this length, except in DuckDB."""
    kind = node.this if isinstance(node, exp.Convert) else node.args.get("to")
    if not isinstance(kind, exp.DataType) or not kind.is_type("char", "varchar", "nchar", "nvarchar"):
        return node
    length = kind.expressions[0].this if kind.expressions else None
    return exp.func("left", node, length.copy()) if isinstance(length, exp.Literal) else node


def _count_truths(tree: exp.Expr, types: Mapping[str, str]) -> None:
    """Cast truth values inside AVG to numbers, because DuckDB averages only numbers."""
    booleans = {name.lower() for name, kind in types.items() if kind == "BOOLEAN"}
    for node in tree.find_all(exp.Avg, exp.Sum, exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Variance):
        argument = node.this.unnest() if isinstance(node.this, exp.Expression) else exp.Null()
        is_column = isinstance(argument, exp.Column) and argument.name.lower() in booleans
        if is_column or isinstance(argument, (exp.Predicate, exp.Connector, exp.Not, exp.Boolean)):
            name = node.sql("duckdb").replace(node.sql_name(), node.sql_name().lower(), 1)
            node.set("this", exp.cast(argument.copy(), exp.DataType.Type.INT))
            if node.arg_key == "expressions" and isinstance(node.parent, exp.Select):
                node.replace(exp.alias_(node.copy(), name, quoted=True))


def _formatted(node: exp.Expr) -> exp.Expr:
    """to_char(value, format) as a concatenation of strftime and the parts that DuckDB's strftime lacks."""
    given = node.args.get("format")
    if not isinstance(given, exp.Literal):
        raise QueryError("TO_CHAR takes a plain text as its format, such as 'YYYY-MM'.")
    text: str = given.this
    if isinstance(node, exp.TimeToStr):  # the parser has already translated parts to strftime
        text = format_time(text, Postgres.INVERSE_TIME_MAPPING, Postgres.INVERSE_TIME_TRIE) or ""
    parts, code = [], ""
    for piece in _FORMAT.findall(text.replace("TM", "FM")):
        if piece in _SPECIAL:
            parts += [_strftime(code), _SPECIAL[piece]]
            code = ""
        else:
            code += _STRFTIME.get(piece, piece.strip('"').replace("%", "%%"))
    listed = [part for part in (*parts, _strftime(code)) if part] or ["''"]
    return _with_x(" || ".join(listed), node.this)


def _with_x(sql: str, x: exp.Expr) -> exp.Expr:
    """DuckDB's SQL of an expression of x."""
    whole: exp.Expr = exp.maybe_parse(sql, dialect="duckdb")
    return exp.paren(whole.transform(lambda part: x.copy() if part == exp.column("x") else part))


def _strftime(code: str) -> str:
    return "strftime(x, '{}')".format(code.replace("'", "''")) if code else ""


def _part(node: exp.Expr, dialect: str) -> exp.Expr:
    """A part of a date that DuckDB lacks, or that the dialect numbers differently."""
    if isinstance(node, exp.Extract):
        name, x = node.name.upper(), node.expression
    elif isinstance(node, (exp.DayOfWeek, exp.Week)):
        name, x = node.key.upper(), node.this
    elif isinstance(node, exp.Anonymous) and node.name.lower() == "weekday" and len(node.expressions) == 1:
        name, x = "WEEKDAY", node.expressions[0]
    else:
        return node
    if name == "WEEK" and dialect in _WEEKS_FROM_SUNDAY:
        mode = "tsql" if dialect == "tsql" else node.text("mode") or "0"
        if mode not in _WEEKS:
            raise QueryError("WEEK takes the modes 0, 1, 3 and 5.")
        return _with_x(_WEEKS[mode], x)
    own = _PARTS | (_FROM_SUNDAY if dialect in _SUNDAY_IS_ONE else {})
    return _with_x(own[name], x) if name in own else node


def _respelled(node: exp.Expr) -> exp.Expr:
    """Replace functions that have another name or form in DuckDB."""
    if isinstance(node, exp.ToChar) and node.args.get("format") is not None:
        return _formatted(node)
    whole = node.this
    if isinstance(node, (exp.DateTrunc, exp.TimestampTrunc)) and node.text("unit").upper() in _UNITS:
        return exp.func("date_trunc", exp.Literal.string(_UNITS[node.text("unit").upper()]), whole.copy())
    if isinstance(node, exp.DateAdd) and whole.is_number:  # T-SQL's dates are days since 1900
        node.set("this", exp.cast(exp.Literal.string("1900-01-01"), "DATE"))
    if isinstance(node, exp.Anonymous) and node.name.lower() == "field" and len(node.expressions) > 1:
        value, *listed = node.expressions
        cases = exp.Case(this=value.copy()).else_(exp.Literal.number(0))
        for place, one in enumerate(listed, 1):
            cases.append("ifs", exp.If(this=one.copy(), true=exp.Literal.number(place)))
        return cases
    if isinstance(node, exp.Anonymous) and node.name.lower() in _RENAMED and len(node.expressions) == 1:
        return _with_x(_RENAMED[node.name.lower()], node.expressions[0])
    if isinstance(node, exp.Anonymous) and node.name.lower() == "yearweek" and len(node.expressions) == 2:
        if node.expressions[1].name not in ("1", "3"):
            raise QueryError("YEARWEEK takes the modes 1 and 3.")
        return exp.func("yearweek", node.expressions[0].copy(), dialect="duckdb")
    if isinstance(node, exp.NEQ) and isinstance(node.expression, exp.Anonymous):
        values = node.expression.expressions  # x <> ALL(ARRAY[…])
        if node.expression.name.lower() == "all" and len(values) == 1 and isinstance(values[0], exp.Array):
            listed = [value.copy() for value in values[0].expressions]
            return exp.Not(this=exp.In(this=whole.copy(), expressions=listed))
    if isinstance(node, exp.EQ) and isinstance(node.expression, exp.Any):
        listed = node.expression.this.unnest()
        if listed.is_string and listed.this.startswith("{"):  # x = ANY('{a,b}'), as drivers write it
            texts = [text.strip(' "') for text in listed.this.strip("{}").split(",")]
            return exp.In(this=whole.copy(), expressions=list(map(exp.Literal.string, texts)))
    is_named = isinstance(node, exp.Window) and isinstance(whole, exp.Anonymous)
    if is_named and whole.name.lower() == "ratio_to_report" and len(whole.expressions) == 1:
        value, window = whole.expressions[0], node.copy()
        window.set("this", exp.Sum(this=value.copy()))
        return exp.paren(exp.Div(this=exp.paren(value.copy()), expression=window, typed=False, safe=False))
    if (
        isinstance(node, exp.Bracket)
        and isinstance(whole, exp.ApproxQuantiles)
        and len(node.expressions) == 1
    ):
        parts = whole.expression or exp.Literal.number(1)
        share = exp.Div(this=node.expressions[0].copy(), expression=parts.copy(), typed=False, safe=False)
        return exp.func("quantile_disc", whole.this.copy(), share)
    return node
