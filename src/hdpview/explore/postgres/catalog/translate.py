"""PostgreSQL's SQL over the catalogue as SQLite understands it.

SQLite takes nearly any SQL without asking about types, so a few rewrites are enough: schemas become parts of
names, operators and casts become functions that the engine brings along, arrays become JSON texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlglot import ErrorLevel, exp

from hdpview.errors import QueryError
from hdpview.explore.postgres import types as t
from hdpview.explore.postgres.columns import Describer
from hdpview.explore.postgres.functions import RETURNS
from hdpview.explore.postgres.names import alias_of, compared_array, is_common_table, type_of_cast

_PLAIN_FUNCTIONS: dict[type[exp.Expr], str] = {
    exp.CurrentVersion: "version",
    exp.CurrentSchema: "current_schema",
    exp.CurrentSchemas: "current_schemas",
    exp.CurrentDatabase: "current_database",
    exp.CurrentCatalog: "current_database",
    exp.CurrentUser: "current_user",
    exp.SessionUser: "current_user",
    exp.CurrentTimestamp: "now",
    exp.CurrentDate: "pg_today",
}
_OPERATORS: dict[str, tuple[bool, bool]] = {  # of patterns: whether negated, whether letters' case is ignored
    "~": (False, False),
    "!~": (True, False),
    "~*": (False, True),
    "!~*": (True, True),
}


def to_sqlite(
    tree: exp.Expr, describer: Describer, table_key: Callable[[exp.Table], str], numbers: Mapping[str, int]
) -> str:
    """The statement in SQLite's words. table_key: what a table of the catalogue is called there. numbers: of
    the tables, by that key.
    """
    _show_names(tree, describer)
    _number_tables(tree, table_key, numbers)
    root = tree.copy()
    for node in reversed(list(root.walk(bfs=False))):  # inner nodes first
        fresh = _rewritten(node, table_key)
        if fresh is node:
            continue
        if node is root:
            root = fresh
        else:
            node.replace(fresh)
    return root.sql(dialect="sqlite", comments=False, unsupported_level=ErrorLevel.IGNORE)


def _show_names(tree: exp.Expr, describer: Describer) -> None:
    """Numbers that stand for names, such as 'adult'::regclass, are shown as names in the result."""
    for select in _results_of(tree):
        for item in select.expressions:
            inner = item.unalias()
            kind = t.TEXT if isinstance(inner, exp.Star) else describer.kind(inner)
            if kind in t.REG_TYPES:
                inner.replace(_call("_name_of", inner.copy(), exp.Literal.string(kind.name)))
    for cast in list(tree.find_all(exp.Cast)):
        kind = describer.kind(cast.this)
        if type_of_cast(cast) in t.TEXTS and kind in t.REG_TYPES:
            cast.set("this", _call("_name_of", cast.this.copy(), exp.Literal.string(kind.name)))


def _number_tables(tree: exp.Expr, table_key: Callable[[exp.Table], str], numbers: Mapping[str, int]) -> None:
    """c.tableoid, a column that every table of PostgreSQL has and no list shows, is the table's number."""
    for column in [each for each in tree.find_all(exp.Column) if each.name.lower() == "tableoid"]:
        select = column.parent_select
        if select is None:
            continue
        sources = [select.args.get("from_"), *(select.args.get("joins") or ())]
        for source in (each.this for each in sources if each is not None):
            is_meant = source.alias_or_name.lower() == column.table.lower() or not column.table
            if isinstance(source, exp.Table) and is_meant and table_key(source) in numbers:
                column.replace(exp.Literal.number(numbers[table_key(source)]))
                break


def _results_of(tree: exp.Expr) -> list[exp.Select]:
    if isinstance(tree, exp.SetOperation):
        return [*_results_of(tree.this), *_results_of(tree.expression)]
    inner = tree.unnest() if isinstance(tree, exp.Subquery) else tree
    return [inner] if isinstance(inner, exp.Select) else []


def _rewritten(node: exp.Expr, table_key: Callable[[exp.Table], str]) -> exp.Expr:
    rule = _RULES.get(type(node))
    if rule is not None:
        return rule(node)
    if type(node) in _PLAIN_FUNCTIONS:
        return _call(_PLAIN_FUNCTIONS[type(node)], *([node.this] if node.this else []))
    if isinstance(node, exp.Table):
        return _table(node, table_key)
    if isinstance(node, exp.Select):
        return _select(node)
    return node


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _table(node: exp.Table, table_key: Callable[[exp.Table], str]) -> exp.Expr:
    if not isinstance(node.this, exp.Identifier):
        return _rows_of_function(node)
    if is_common_table(node):
        return node
    name = exp.to_identifier(table_key(node), quoted=True)
    return exp.Table(this=name, alias=alias_of(node), joins=node.args.get("joins"))


def _rows_of_function(node: exp.Table) -> exp.Expr:
    """FROM generate_series(1, 3) AS s(i): a subquery over the items of a JSON text."""
    function, alias = node.this, node.args.get("alias")
    if isinstance(function, exp.ExplodingGenerateSeries):
        ends = [function.args.get(key) for key in ("start", "end", "step")]
        items = _call("_series", *(each for each in ends if each is not None))
    else:
        called = function.name.lower() if isinstance(function, exp.Anonymous) else ""
        if called not in RETURNS and not isinstance(function, (exp.Explode, exp.Unnest)):
            raise QueryError(f"function {called[:60]!r} does not exist")
        given = function.expressions or ([function.this] if isinstance(function.this, exp.Expr) else [])
        is_unnest = called in ("unnest", "")
        items = given[0] if is_unnest and given else exp.null()
    name = alias.columns[0].name if alias is not None and alias.columns else node.alias or "value"
    each = exp.Table(this=_call("json_each", items))
    column = exp.alias_(exp.column("value"), name, quoted=True)
    return exp.Subquery(
        this=exp.Select(expressions=[column], from_=exp.From(this=each)),
        alias=exp.TableAlias(this=exp.to_identifier(node.alias or "series", quoted=True)),
    )


def _select(node: exp.Select) -> exp.Expr:
    distinct = node.args.get("distinct")
    if distinct is not None and distinct.args.get("on"):
        node.set("distinct", exp.Distinct())
    for join in node.args.get("joins") or ():
        if isinstance(join.this, exp.Lateral):
            join.set("this", join.this.this)
    if node.args.get("locks"):
        node.set("locks", None)
    return node


def _dot(node: exp.Expr) -> exp.Expr:
    """pg_catalog.version() is version(); (f(x)).n, a part of a row that SQLite lacks, is NULL."""
    return node.expression if isinstance(node.expression, exp.Func) else exp.null()


def _operator(node: exp.Expr) -> exp.Expr:
    sign = str(node.args["operator"]).rpartition(".")[2]
    if sign in _OPERATORS:
        negated, ignore_case = _OPERATORS[sign]
        return _pattern(node.this, node.expression, ignore_case, negated)
    comparisons: dict[str, type[exp.Binary]] = {"=": exp.EQ, "<>": exp.NEQ, "||": exp.DPipe, "~~": exp.Like}
    made = comparisons.get(sign, exp.EQ)(this=node.this, expression=node.expression)
    return exp.Not(this=made) if sign == "!~~" else made


def _pattern(value: exp.Expr, pattern: exp.Expr, ignore_case: bool, negated: bool = False) -> exp.Expr:
    found = _call("_regex", value, pattern, exp.Literal.number(int(ignore_case)))
    return exp.Not(this=found) if negated else found


def _any_or_comparison(node: exp.Expr) -> exp.Expr:
    """X = ANY(array) and x <> ALL(array)."""
    array = compared_array(node)
    if array is None:
        return node
    if isinstance(array, (exp.Select, exp.Subquery)):
        found: exp.Expr = exp.In(this=node.this, query=exp.Subquery(this=array.unnest()))
    else:
        found = _call("_equals_any", node.this, array)
    return found if isinstance(node, exp.EQ) else exp.Not(this=found)


def _ilike(node: exp.Expr) -> exp.Expr:
    found = _call("_like_any_case", node.this, node.expression)
    return exp.Not(this=found) if node.args.get("negate") else found


def _cast(node: exp.Expr) -> exp.Expr:
    assert isinstance(node, exp.Cast)
    kind = type_of_cast(node)
    if kind is t.NAME or (kind in t.TEXTS and kind is not t.CHAR):
        return exp.Cast(this=node.this, to=exp.DataType.build("text"))
    return _call("_cast", node.this, exp.Literal.string(kind.name))


def _aggregate(name: str) -> Callable[[exp.Expr], exp.Expr]:
    def rule(node: exp.Expr) -> exp.Expr:
        inner = node.this.this if isinstance(node.this, exp.Order) else node.this
        separator = node.args.get("separator")
        return _call(name, inner, *([separator] if separator is not None else []))

    return rule


def _array(node: exp.Expr) -> exp.Expr:
    if len(node.expressions) == 1 and isinstance(
        node.expressions[0], (exp.Select, exp.Subquery, exp.SetOperation)
    ):
        inner = node.expressions[0]
        inner = inner if isinstance(inner, exp.Subquery) else exp.Subquery(this=inner)
        first = inner.this.expressions[0].alias_or_name if isinstance(inner.this, exp.Select) else ""
        if not first:
            return exp.null()
        inner = exp.Subquery(this=inner.this, alias=exp.TableAlias(this=exp.to_identifier("items")))
        listed = _call("array_agg", exp.column(first, quoted=True))
        return exp.Subquery(this=exp.Select(expressions=[listed], from_=exp.From(this=inner)))
    return _call("_array", *node.expressions)


def _bracket(node: exp.Expr) -> exp.Expr:
    place: exp.Expr = node.expressions[0]
    if isinstance(place, exp.Literal) and place.this.isdecimal():  # the parser counts from 0
        place = exp.Literal.number(int(place.this) + 1)
    return _call("_element", node.this, place)


def _interval(node: exp.Expr) -> exp.Expr:
    unit = node.args.get("unit")
    return exp.Literal.string(f"{node.name} {'' if unit is None else unit.name}".strip())


def _shifted(node: exp.Expr) -> exp.Expr:
    """A moment plus or minus an INTERVAL, which is a text by now."""
    sides, sign = [node.this, node.expression], -1 if isinstance(node, exp.Sub) else 1
    spans = [side for side in sides if _is_interval(side)]
    if len(spans) != 1:
        return node
    moment = sides[0] if spans[0] is sides[1] else sides[1]
    return _call("_shifted", moment, spans[0], exp.Literal.number(sign))


def _is_interval(node: exp.Expr) -> bool:
    return (
        isinstance(node, exp.Literal)
        and node.is_string
        and " " in node.this
        and node.this.split()[0].lstrip("-").isdigit()
    )


def _date_trunc(node: exp.Expr) -> exp.Expr:
    return _call("date_trunc", exp.Literal.string(node.args["unit"].name), node.this)


def _arguments(name: str, *keys: str) -> Callable[[exp.Expr], exp.Expr]:
    def rule(node: exp.Expr) -> exp.Expr:
        given: Sequence[exp.Expr] = [node.args[key] for key in keys if node.args.get(key) is not None]
        return _call(name, *given, *node.expressions)

    return rule


def _column(node: exp.Expr) -> exp.Expr:
    """pg_catalog.pg_class.oid is pg_class.oid; user is a function without brackets."""
    if node.name.lower() in ("user", "current_role") and not node.args.get("table"):
        return node if node.this.args.get("quoted") else _call("current_user")
    return exp.Column(this=node.this, table=node.args.get("table")) if node.args.get("db") else node


def _alias(node: exp.Expr) -> exp.Expr:
    """In quotes: `AS notnull` is a word of SQLite's."""
    return exp.alias_(node.this, node.alias, quoted=True)


_RULES: dict[type[exp.Expr], Callable[[exp.Expr], exp.Expr]] = {
    exp.Alias: _alias,
    exp.Column: _column,
    exp.Dot: _dot,
    exp.Operator: _operator,
    exp.Collate: lambda node: node.this,
    exp.RegexpLike: lambda node: _pattern(node.this, node.expression, False),
    exp.RegexpILike: lambda node: _pattern(node.this, node.expression, True),
    exp.EQ: _any_or_comparison,
    exp.NEQ: _any_or_comparison,
    exp.ILike: _ilike,
    exp.Cast: _cast,
    exp.ArrayAgg: _aggregate("array_agg"),
    exp.GroupConcat: _aggregate("string_agg"),
    exp.Array: _array,
    exp.Bracket: _bracket,
    exp.TimestampTrunc: _date_trunc,
    exp.ArrayToString: _arguments("array_to_string", "this", "expression", "null"),
    exp.ArraySize: _arguments("array_length", "this"),
    exp.RegexpReplace: _arguments("regexp_replace", "this", "expression", "replacement", "modifiers"),
    exp.SplitPart: _arguments("split_part", "this", "delimiter", "part_index"),
    exp.StrPosition: _arguments("strpos", "this", "substr"),
    exp.Concat: _arguments("concat"),
    exp.Explode: _arguments("unnest", "this"),
    exp.Unnest: _arguments("unnest"),
    exp.LogicalAnd: lambda node: exp.Min(this=node.this),
    exp.LogicalOr: lambda node: exp.Max(this=node.this),
    exp.JSONObject: lambda _: exp.null(),
    exp.ByteString: lambda node: exp.Literal.string(node.name.encode().decode("unicode_escape")),
    exp.Interval: _interval,
    exp.Add: _shifted,
    exp.Sub: _shifted,
    exp.SimilarTo: _arguments("_similar_to", "this", "expression"),
    exp.TimeToStr: _arguments("to_char", "this", "format"),
    exp.AtTimeZone: lambda node: node.this,
    exp.Initcap: _arguments("initcap", "this"),
    exp.Translate: _arguments("translate", "this", "from_", "to"),
}
