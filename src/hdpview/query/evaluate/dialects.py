"""Statements in other dialects, as DuckDB means them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqlglot import exp
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify_columns import qualify_columns
from sqlglot.optimizer.qualify_tables import qualify_tables

from hdpview.errors import QueryError

# Pieces of PostgreSQL's to_char formats → of strftime, or in braces what strftime lacks.
_PIECES: dict[str, str] = {
    "FMMonth": "%B", "FMMON": "{upper:%b}", "FMMonth ": "%B", "FMDay": "%A", "FMDD": "%-d", "FMMM": "%-m",
    "FMHH24": "%-H", "FMHH12": "%-I",
    "YYYY": "%Y", "IYYY": "%G", "HH24": "%H", "HH12": "%I", "MONTH": "{pad9:upper:%B}", "Month": "{pad9:%B}",
    "month": "{pad9:lower:%B}", "DAY": "{pad9:upper:%A}", "Day": "{pad9:%A}", "day": "{pad9:lower:%A}",
    "MON": "{upper:%b}", "Mon": "%b", "mon": "{lower:%b}", "DDD": "%j", "YY": "%y", "MM": "%m", "DD": "%d",
    "DY": "{upper:%a}", "Dy": "%a", "dy": "{lower:%a}", "ID": "{isodow}", "IW": "%V", "WW": "{week_of_year}",
    "HH": "%I", "MI": "%M", "SS": "%S", "MS": "%g", "US": "%f", "AM": "%p", "PM": "%p",
    "D": "{dow}", "Q": "{quarter}",
    "W": "{week_of_month}", "FM": "",
}  # fmt: skip
_FORMAT = re.compile(
    '"[^"]*"|' + "|".join(sorted(map(re.escape, _PIECES), key=len, reverse=True)) + "|.", re.DOTALL
)
_INTEGERS = exp.DataType.INTEGER_TYPES


def to_duckdb(tree: exp.Expr, dialect: str, types: Mapping[str, str]) -> exp.Expr:
    """The statement with the meaning that its dialect gives it, ready to be written as DuckDB's."""
    tree = tree.transform(_respelled)
    _count_truths(tree, types)
    if dialect in ("postgres", "redshift", "materialize", "risingwave"):
        return _from_postgres(tree, types)
    return tree


def _count_truths(tree: exp.Expr, types: Mapping[str, str]) -> None:
    """The mean of a truth value is a rate: DuckDB wants it as a number."""
    booleans = {name.lower() for name, kind in types.items() if kind == "BOOLEAN"}
    for node in tree.find_all(exp.Avg, exp.Sum, exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Variance):
        argument = node.this.unnest() if isinstance(node.this, exp.Expression) else exp.Null()
        is_column = isinstance(argument, exp.Column) and argument.name.lower() in booleans
        if is_column or isinstance(argument, (exp.Predicate, exp.Connector, exp.Not, exp.Boolean)):
            name = node.sql("duckdb").replace(node.sql_name(), node.sql_name().lower(), 1)
            node.set("this", exp.cast(argument.copy(), exp.DataType.Type.INT))
            if node.arg_key == "expressions" and isinstance(node.parent, exp.Select):
                node.replace(exp.alias_(node.copy(), name, quoted=True))


def _from_postgres(tree: exp.Expr, types: Mapping[str, str]) -> exp.Expr:
    _divide_whole_numbers(tree, types)

    return tree.transform(lambda node: _formatted(node) if isinstance(node, exp.TimeToStr) else node)


def _divide_whole_numbers(tree: exp.Expr, types: Mapping[str, str]) -> None:
    """Division of whole numbers cuts off the fraction."""
    divisions = list(tree.find_all(exp.Div))
    if not divisions:
        return
    # A copy knows the types, with aggregates as the real numbers that they are here.
    for number, node in enumerate(divisions):
        node.meta["division"] = number
    schema: dict[str, object] = {"view": dict(types)}
    copied = tree.copy()
    for aggregate in list(copied.find_all(exp.Count, exp.Sum, exp.CountIf)):
        aggregate.replace(exp.cast(aggregate.copy(), "DOUBLE"))
    try:
        typed = annotate_types(
            qualify_columns(qualify_tables(copied), schema=schema, expand_alias_refs=False), schema=schema
        )
    except Exception:  # a statement that cannot be typed is refused later, in DuckDB's words
        return
    by_number = {known.meta.get("division"): known for known in typed.find_all(exp.Div)}
    for number, node in enumerate(divisions):
        known = by_number.get(number)
        if known is None:
            continue
        if known.this.is_type(*_INTEGERS) and known.expression.is_type(*_INTEGERS):
            inner = exp.Div(this=node.this.copy(), expression=node.expression.copy(), typed=False, safe=False)
            node.replace(exp.Trunc(this=inner))
        else:
            node.set("typed", False)


def _formatted(node: exp.Expr) -> exp.Expr:
    """to_char(value, format) as a concatenation of strftime and what DuckDB's strftime lacks."""
    given = node.args.get("format")
    if not isinstance(given, exp.Literal):
        raise QueryError("TO_CHAR takes a plain text as its format, such as 'YYYY-MM'.")
    value = node.this.sql("duckdb")
    text = given.this
    if isinstance(node, exp.TimeToStr):
        text = _as_postgres(text)
    parts: list[str] = []
    plain = ""
    for piece in _FORMAT.findall(text):
        code = (
            piece[1:-1].replace("%", "%%")
            if piece.startswith('"')
            else _PIECES.get(piece, piece.replace("%", "%%"))
        )
        if not (code.startswith("{") and code.endswith("}")):
            plain += code
            continue
        if plain:
            parts.append(_strftime(value, plain))
            plain = ""
        parts.append(_special(value, code[1:-1]))
    if plain or not parts:
        parts.append(_strftime(value, plain))
    import sqlglot

    whole = " || ".join(parts)
    return exp.paren(sqlglot.parse_one(whole, read="duckdb"))


def _as_postgres(text: str) -> str:
    """Sqlglot has turned the format into strftime's already; turn what it did back."""
    back = {
        "%Y": "YYYY", "%m": "MM", "%d": "DD", "%H": "HH24", "%I": "HH12", "%M": "MI", "%S": "SS", "%f": "US",
        "%y": "YY", "%B": "Month", "%b": "Mon", "%A": "Day", "%a": "Dy", "%j": "DDD", "%p": "AM", "%u": "ID",
        "%-d": "FMDD", "%-m": "FMMM", "%W": "WW", "%V": "IW", "%G": "IYYY", "%w": "D", "%U": "WW",
    }  # fmt: skip
    return re.sub(r"%-?[a-zA-Z]", lambda m: back.get(m.group(0), m.group(0)), text)


def _strftime(value: str, code: str) -> str:
    return "strftime({}, '{}')".format(value, code.replace("'", "''"))


def _special(value: str, code: str) -> str:
    fixed = {
        "quarter": f"CAST(quarter({value}) AS VARCHAR)",
        "dow": f"CAST(dayofweek({value}) + 1 AS VARCHAR)",
        "isodow": f"CAST(isodow({value}) AS VARCHAR)",
        "week_of_year": f"lpad(CAST((dayofyear({value}) - 1) // 7 + 1 AS VARCHAR), 2, '0')",
        "week_of_month": f"CAST((day({value}) - 1) // 7 + 1 AS VARCHAR)",
    }
    if code in fixed:
        return fixed[code]
    *how, pattern = code.split(":")
    text = _strftime(value, pattern)
    for one in reversed(how):
        text = f"rpad({text}, 9, ' ')" if one == "pad9" else f"{one}({text})"
    return text


def _respelled(node: exp.Expr) -> exp.Expr:
    """Functions that DuckDB has under another name or in another form."""
    if isinstance(node, exp.ToChar) and node.args.get("format") is not None:
        return _formatted(node)
    whole = node.this
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
