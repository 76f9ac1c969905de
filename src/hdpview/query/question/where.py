"""Read conditions as boxes: from SQL (parsed by sqlglot, DuckDB's dialect) and from Python dictionaries.

NOT is pushed down to single comparisons first, so that SQL's third truth value never has to be stored: a
comparison with a missing value is neither true nor false, and neither it nor its negation finds the row.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np
import sqlglot
from sqlglot import exp

from hdpview.domain import Attribute, Boolean, Schema
from hdpview.errors import QueryError, SchemaError, quoted, shortened, unknown_name
from hdpview.query.question import conditions
from hdpview.query.question.boxes import Box, intersect, is_empty, unite
from hdpview.query.question.conditions import Condition

Where = str | Mapping[str, Any] | None
MAX_TEXT = 200_000  # maximum characters of one condition
DIALECT = "duckdb"

_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_WORDS_OF_SQL = sqlglot.Dialect.get_or_raise(DIALECT).tokenizer_class.KEYWORDS.keys()


def boxes_of(where: Where, schema: Schema) -> list[Box]:
    """Disjoint boxes of a condition: SQL text, a dictionary, or None for everything.

    In a dictionary a pair is a range with both ends included, or open at an end that is None; a list, set or
    array gives alternatives, None means missing, and anything else is a value: `{"age": (30, 39), "sex":
    "Female", "region": ["North", "South"]}`.
    """
    if where is None:
        return [{}]
    if isinstance(where, str):
        if not where.strip():
            raise QueryError("The condition is empty. Leave it out to count everything.")
        return boxes_of_tree(parse(where), schema)
    if isinstance(where, (dict, Mapping)):
        return _boxes_of_mapping(where, schema)
    raise QueryError(f"A condition must be SQL text or a dictionary, not {type(where).__name__}.")


@lru_cache(maxsize=1024)
def parse(text: str, dialect: str = DIALECT) -> exp.Expr:
    """Parse one SQL expression or statement; raise a QueryError with the reason otherwise."""
    if len(text) > MAX_TEXT:
        raise QueryError(f"The text is longer than {MAX_TEXT:,} characters.")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise QueryError("The text is not valid UTF-8. Encode it in UTF-8.")
    try:
        parsed = [tree for tree in sqlglot.parse(text, dialect=dialect) if tree is not None]
    except sqlglot.errors.SqlglotError as problem:
        raise QueryError(f"Not valid SQL: {_told(str(problem))}{_hint_at_quotes(text)}") from None
    except RecursionError:
        raise QueryError("The SQL is nested too deeply.") from None
    if len(parsed) != 1:
        raise QueryError("Give exactly one SQL condition or statement.")
    if isinstance(parsed[0], exp.Command) and _hint_at_quotes(text):
        raise QueryError(f"Not a condition or SELECT statement.{_hint_at_quotes(text)}")
    return parsed[0]


def _hint_at_quotes(text: str) -> str:
    """A hint to quote an attribute that is named like an SQL statement, if the text compares one."""
    statements = (
        "alter|analyze|call|comment|copy|create|describe|execute|grant|kill|load|merge|set|show|use|with"
    )
    word = re.search(rf"\b({statements})\s*([=<>!]|(between|in|is|like|not)\b)", text, re.IGNORECASE)
    return (
        f' {word[1]} is an SQL keyword; for the attribute, write "{word[1]}" in double quotes.'
        if word
        else ""
    )


def name_in_sql(name: str) -> str:
    """An attribute's name as SQL writes it: in double quotes unless it is a plain word and not a keyword."""
    if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) and name.upper() not in _WORDS_OF_SQL:
        return name
    return '"' + name.replace('"', '""') + '"'


def attribute_number(name: str, schema: Schema) -> int:
    """Position of an attribute that a question names."""
    if not isinstance(name, str):
        raise QueryError(f"Attribute names must be texts, not {type(name).__name__}.")
    try:
        return schema.index(name)
    except SchemaError:
        odd = next(
            (known for known in schema.names if known.startswith(name) and not known.isidentifier()), None
        )
        hint = "" if odd is None else f' Write a name like that in double quotes: "{odd}".'
        raise QueryError(unknown_name("attribute", name, schema.names, "This view has") + hint) from None


def two_attribute_numbers(first: str, second: str, schema: Schema) -> tuple[int, int]:
    """Positions of two different attributes that a question names."""
    numbers = attribute_number(first, schema), attribute_number(second, schema)
    if numbers[0] == numbers[1]:
        raise QueryError("Name two different attributes; for a single one, use histogram.")
    return numbers


def boxes_of_tree(tree: exp.Expr, schema: Schema, with_database: bool = True) -> list[Box]:
    """Disjoint boxes of a parsed condition.

    with_database: False to refuse what only DuckDB can read.
    """
    try:
        return _Reader(schema, with_database).boxes(tree, negated=False)
    except RecursionError:
        raise QueryError("The condition is nested too deeply.") from None


def _boxes_of_mapping(where: Mapping[str, Any], schema: Schema) -> list[Box]:
    box: dict[int, Condition] = {}
    numbers = schema.numbers
    for name, value in where.items():
        a = numbers[name] if name in numbers else attribute_number(name, schema)
        attribute = schema.attributes[a]
        if isinstance(value, tuple):
            if len(value) != 2:
                raise QueryError(
                    f"Write a range of {quoted(name)} as a pair (low, high), and alternatives as a list."
                )
            condition = conditions.between(attribute, _plain(value[0]), _plain(value[1]))
        else:
            known, has_null = _alternatives(value)
            condition = conditions.one_of(attribute, known)
            if has_null:
                condition |= conditions.missing(attribute)
        box[a] = condition & box[a] if a in box else condition
    return [] if is_empty(box) else [box]


def tree_of(where: Where, schema: Schema) -> exp.Expr | None:
    """A condition as a tree of SQL; None for all records."""
    if where is None:
        return None
    if isinstance(where, str):
        return parse(where)
    if not isinstance(where, Mapping):
        boxes_of(where, schema)  # refuses it
    parts: list[exp.Expr] = []
    for name, value in where.items():
        column = exp.column(schema.attributes[attribute_number(name, schema)].name, quoted=True)
        if isinstance(value, tuple):
            signs = zip((exp.GTE, exp.LTE), map(_plain, value), strict=True)
            ends = [sign(this=column, expression=_literal(v)) for sign, v in signs if v is not None]
            parts.append(exp.and_(*ends) if ends else column.is_(exp.null()).not_())
            continue
        known, has_null = _alternatives(value)
        choices: list[exp.Expr] = [column.isin(*known)] if known else []
        if has_null:
            choices.append(exp.Is(this=column.copy(), expression=exp.Null()))
        parts.append(exp.or_(*choices) if choices else exp.false())
    return exp.and_(*parts) if parts else None


def _literal(value: Any) -> exp.Expr:
    is_infinite = isinstance(value, float) and math.isinf(value)
    return exp.cast(exp.Literal.string(str(value)), "DOUBLE") if is_infinite else exp.convert(value)


def _alternatives(value: Any) -> tuple[list[Any], bool]:
    """The values that a dictionary gives for an attribute, and whether a missing one is among them."""
    is_several = isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping, np.generic))
    several = list(map(_plain, value if is_several else [value]))
    known = [one for one in several if one is not None]
    return known, len(known) < len(several)


def _plain(value: Any) -> Any:
    """Convert a value of pandas or NumPy to plain Python; NaN, NaT and NA become None."""
    if isinstance(value, np.datetime64):
        is_day = np.datetime_data(value.dtype)[0] == "D"
        return value.astype("datetime64[D]" if is_day else "datetime64[us]").item()
    value = value.item() if isinstance(value, np.generic) else value
    value = float(value) if isinstance(value, Decimal) else value
    is_missing = type(value).__name__ in ("NAType", "NaTType") or (
        isinstance(value, float) and math.isnan(value)
    )
    return None if is_missing else value


class _Reader:
    """Reads one tree against one schema: plain comparisons by itself, anything else about one attribute with
    DuckDB, which is slower to load.
    """

    def __init__(self, schema: Schema, with_database: bool) -> None:
        self.schema, self.with_database = schema, with_database

    def boxes(self, node: exp.Expr, negated: bool) -> list[Box]:
        node = node.unnest()
        if isinstance(node, exp.Not):
            return self.boxes(node.this, not negated)
        if isinstance(node, exp.Between):
            return self.boxes(_as_comparisons(node), negated)
        if isinstance(node, (exp.And, exp.Or)):
            if isinstance(node, exp.Or) != negated:
                return unite([self.boxes(part, negated) for part in node.flatten()], self.schema)
            return intersect(self.boxes(node.this, negated), self.boxes(node.expression, negated))
        if isinstance(node, exp.Boolean):
            return [{}] if bool(node.this) != negated else []
        if isinstance(node, exp.Null):
            return []
        names = [column.name for column in node.find_all(exp.Column)]
        if not names:
            return [{}] if self._constant(exp.Not(this=exp.paren(node)) if negated else node) else []
        self._check_quotes(node)
        numbers = {attribute_number(name, self.schema) for name in names}
        if len(numbers) > 1:
            raise QueryError(
                f"{_shown(node)} combines attributes, but a condition here can test only one at a time. Ask "
                'view.sql("SELECT COUNT(*) FROM view WHERE …").'
            )
        (a,) = numbers
        condition = self._on(self.schema.attributes[a], node, negated, len(names) == 1)
        return intersect([{a: condition}], [{}])

    def _check_quotes(self, node: exp.Expr) -> None:
        """Refuse a text without quotes, with a message about quotes."""
        right = node.expression if type(node) in _COMPARISONS else None
        known = {name.lower() for name in self.schema.names}
        if isinstance(right, exp.Column) and right.name.lower() not in known:
            name = shortened(right.name)
            raise QueryError(f"{name!r} is not an attribute. Write a text in single quotes: '{name}'.")

    def _on(self, attribute: Attribute, node: exp.Expr, negated: bool, once: bool) -> Condition:
        """The values of an attribute for which a condition is true, or false if negated.

        once: whether the condition names it once.
        """
        plain = self._plain(attribute, node) if once else None
        if plain is None:
            self._check_database(node)
            from hdpview.query.evaluate.leaves import condition_on

            return condition_on(attribute, node, negated)
        condition, has_null = plain
        if isinstance(node, exp.Is):
            return (
                conditions.rest(attribute, condition)
                if negated != bool(node.args.get("negate"))
                else condition
            )
        if not negated:
            return condition
        # As in SQL, NOT IN is never true if the list contains NULL.
        return Condition() if has_null else conditions.complement(condition)

    def _plain(self, attribute: Attribute, node: exp.Expr) -> tuple[Condition, bool] | None:
        """The values for which a plain test of an attribute holds, and whether it compares with NULL; None
        for other tests.
        """
        if isinstance(node, exp.Column):
            return conditions.compare(attribute, "=", True), False
        if type(node) in _COMPARISONS:
            sign, left, right = _COMPARISONS[type(node)], node.this.unnest(), node.expression.unnest()
            if isinstance(right, exp.Column):
                sign, left, right = MIRRORED[sign], right, left
            if not isinstance(left, exp.Column):
                return None
            value = self._constant(right)
            return (
                (Condition(), True) if value is None else (conditions.compare(attribute, sign, value), False)
            )
        if isinstance(node, exp.Is) and isinstance(node.this.unnest(), exp.Column):
            if isinstance(node.expression, exp.Null):
                return conditions.missing(attribute), False
            if isinstance(node.expression, exp.Boolean) and isinstance(attribute, Boolean):
                return conditions.compare(attribute, "=", bool(node.expression.this)), False
            return None
        if isinstance(node, exp.In) and isinstance(node.this.unnest(), exp.Column) and node.expressions:
            values = [self._constant(value) for value in node.expressions]
            known = [value for value in values if value is not None]
            return conditions.one_of(attribute, known), len(known) < len(values)
        return None

    def _constant(self, node: exp.Expr) -> Any:
        """The value of an expression without attributes; None for NULL."""
        node = node.unnest()
        if isinstance(node, exp.Literal):
            return node.this if node.is_string else _number(node.this)
        if isinstance(node, exp.Boolean):
            return bool(node.this)
        if isinstance(node, exp.Null):
            return None
        if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
            return -_number(node.this.this)
        if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.this.is_string:
            return node.this.this
        self._check_database(node)
        from hdpview.query.evaluate.leaves import constant

        return constant(node)

    def _check_database(self, node: exp.Expr) -> None:
        if not self.with_database:
            raise QueryError(f"{_shown(node)} is not a plain comparison.")


def _as_comparisons(node: exp.Between) -> exp.Expr:
    """`x BETWEEN low AND high` spelled out, so that NULL on one side does not decide the other.

    SYMMETRIC: in either order.
    """

    def in_order(low: exp.Expr, high: exp.Expr) -> exp.Expr:
        above, below = (sign(this=node.this.copy()) for sign in (exp.GTE, exp.LTE))
        above.set("expression", low.copy())
        below.set("expression", high.copy())
        return exp.And(this=above, expression=below)

    low, high = node.args["low"], node.args["high"]
    if not node.args.get("symmetric"):
        return in_order(low, high)
    return exp.Or(this=in_order(low, high), expression=in_order(high, low))


def _number(text: str) -> int | float:
    try:
        return int(text) if text.isdecimal() and len(text) < 300 else float(text)  # 300 digits fit a double
    except ValueError:  # the parser accepts 1e and 1e-0.5 as numbers
        raise QueryError(f"{quoted(text)} is not a number. Write it like 1500, 0.5 or 1.5e3.") from None


def _shown(node: Any) -> str:
    return shortened(node.sql(dialect=DIALECT) if isinstance(node, exp.Expr) else str(node))


def _told(problem: str) -> str:
    """The parser's message without the names of its classes."""
    first_line = re.sub(r"\x1b\[[0-9]*m", "", problem).splitlines()[0] if problem else "unreadable"
    first_line = re.sub(
        r"^Required keyword: '\w+' missing for <class '[\w.]+'>", "a part is missing", first_line
    )
    return re.sub(r"^Error tokenizing.*", "a quotation or comment has no end.", first_line)
