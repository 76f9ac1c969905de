"""From what people write to boxes: SQL conditions (parsed by sqlglot, DuckDB's dialect) and Python
dictionaries.

NOT is pushed down to single comparisons first, so that SQL's third truth value never has to be stored: a
comparison with a missing value is neither true nor false, and neither it nor its negation finds the row.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
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
MAX_TEXT = 200_000  # characters of one condition
DIALECT = "duckdb"

_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ARITHMETIC: dict[type[exp.Expr], Callable[[Any, Any], Any]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
    exp.Div: operator.truediv,
}
_WORDS_OF_SQL = sqlglot.Dialect.get_or_raise(DIALECT).tokenizer_class.KEYWORDS.keys()
_WHAT_WORKS = (
    "Conditions combine comparisons, BETWEEN, IN, LIKE and IS NULL on single attributes with AND, OR and NOT."
)


def boxes_of(where: Where, schema: Schema) -> list[Box]:
    """Disjoint boxes of a condition: SQL text, a dictionary, or None for everything.

    In a dictionary a pair is a range with both ends included, a list or set gives alternatives, None means
    missing, and
    anything else is a value: `{"age": (30, 39), "sex": "Female", "region": ["North", "South"]}`.
    """
    if where is None:
        return [{}]
    if isinstance(where, str):
        if not where.strip():
            raise QueryError("The condition is empty. Leave it out to count everything.")
        return boxes_of_tree(parse(where), schema)
    if isinstance(where, (dict, Mapping)):
        return _boxes_of_mapping(where, schema)
    raise QueryError(f"A condition is SQL text or a dictionary, not {type(where).__name__}.")


@lru_cache(maxsize=1024)
def parse(text: str, dialect: str = DIALECT) -> exp.Expr:
    """Parse one SQL expression or statement; for anything else, a QueryError that says what is wrong."""
    if len(text) > MAX_TEXT:
        raise QueryError(f"The text is longer than {MAX_TEXT:,} characters.")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise QueryError("The text holds bytes that are not UTF-8. Write it anew in UTF-8.")
    try:
        parsed = [tree for tree in sqlglot.parse(text, dialect=dialect) if tree is not None]
    except sqlglot.errors.SqlglotError as problem:
        raise QueryError(f"Not valid SQL: {_told(str(problem))}") from None
    except RecursionError:
        raise QueryError("The SQL is nested too deeply.") from None
    if len(parsed) != 1:
        raise QueryError("Give exactly one SQL condition or statement.")
    return parsed[0]


def name_in_sql(name: str) -> str:
    """An attribute's name as SQL writes it: in double quotes where it is no plain word, or a word of SQL."""
    if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) and name.upper() not in _WORDS_OF_SQL:
        return name
    return '"' + name.replace('"', '""') + '"'


def attribute_number(name: str, schema: Schema) -> int:
    """Position of an attribute that a question names."""
    if not isinstance(name, str):
        raise QueryError(f"Attributes are named by text, not by {type(name).__name__}.")
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
        raise QueryError("Name two different attributes; for one there is the histogram.")
    return numbers


def boxes_of_tree(tree: exp.Expr, schema: Schema) -> list[Box]:
    """Disjoint boxes of a parsed condition."""
    try:
        return _Reader(schema).boxes(tree, negated=False)
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
                raise QueryError(f"A range of {quoted(name)} is a pair (low, high); alternatives are a list.")
            condition = conditions.between(attribute, _plain(value[0]), _plain(value[1]))
        else:
            alternatives = [
                _plain(one) for one in (value if isinstance(value, (list, set, frozenset)) else [value])
            ]
            condition = conditions.one_of(attribute, [one for one in alternatives if one is not None])
            if any(one is None for one in alternatives):
                condition |= conditions.missing(attribute)
        box[a] = condition & box[a] if a in box else condition
    return [] if is_empty(box) else [box]


def tree_of(where: Where, schema: Schema) -> exp.Expr | None:
    """A condition as a tree of SQL; None for all records."""
    if where is None:
        return None
    if isinstance(where, str):
        return parse(where)
    parts: list[exp.Expr] = []
    for name, value in where.items():
        column = exp.column(schema.attributes[attribute_number(name, schema)].name, quoted=True)
        if isinstance(value, tuple):
            low, high = (exp.convert(_plain(end)) for end in value)
            parts.append(exp.Between(this=column, low=low, high=high))
            continue
        several = list(value) if isinstance(value, (list, set, frozenset)) else [value]
        known = [exp.convert(_plain(one)) for one in several if _plain(one) is not None]
        choices: list[exp.Expr] = [exp.In(this=column, expressions=known)] if known else []
        if len(known) < len(several):
            choices.append(exp.Is(this=column.copy(), expression=exp.Null()))
        parts.append(exp.or_(*choices) if choices else exp.false())
    return exp.and_(*parts) if parts else None


def _plain(value: Any) -> Any:
    """A NumPy scalar as the Python value it stands for: NaT is None, times are datetimes, days dates."""
    if not isinstance(value, np.generic):
        return value
    if not isinstance(value, np.datetime64):
        return value.item()
    is_day = np.datetime_data(value.dtype)[0] == "D"
    return value.astype("datetime64[D]" if is_day else "datetime64[us]").item()


class _Reader:
    """Reads one tree against one schema."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

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
        a, condition = self._leaf(node, negated)
        return intersect([{a: condition}], [{}])

    def _leaf(self, node: exp.Expr, negated: bool) -> tuple[int, Condition]:
        if type(node) in _COMPARISONS:
            return self._comparison(node, negated)
        a = self._column(node if isinstance(node, exp.Column) else node.this)
        attribute = self.schema.attributes[a]
        if isinstance(node, exp.Is):
            return a, self._is(attribute, node.expression, negated != bool(node.args.get("negate")))
        condition = self._values(attribute, node, negated)
        return a, condition if condition is not None else Condition()

    def _comparison(self, node: exp.Expr, negated: bool) -> tuple[int, Condition]:
        sign, left, right = _COMPARISONS[type(node)], node.this.unnest(), node.expression.unnest()
        if isinstance(right, exp.Column) and not isinstance(left, exp.Column):
            sign, left, right = MIRRORED[sign], right, left
        a = self._column(left)
        if isinstance(right, exp.Null):
            return a, Condition()
        attribute = self.schema.attributes[a]
        condition = conditions.compare(attribute, sign, self._literal(right))
        return a, conditions.complement(attribute, condition) if negated else condition

    def _is(self, attribute: Attribute, what: exp.Expr, negated: bool) -> Condition:
        if isinstance(what, exp.Null):
            return conditions.everything(attribute) if negated else conditions.missing(attribute)
        if isinstance(what, exp.Boolean) and isinstance(attribute, Boolean):
            condition = conditions.compare(attribute, "=", bool(what.this))
            rest = conditions.complement(attribute, condition)
            return Condition(codes=rest.codes, null=attribute.nullable) if negated else condition
        raise QueryError(
            f"IS takes NULL, or TRUE and FALSE for a boolean; {attribute.name!r} is of type {attribute.kind}."
        )

    def _values(self, attribute: Attribute, node: exp.Expr, negated: bool) -> Condition | None:
        """The condition of IN, LIKE or a bare boolean; None where a NULL makes it true of nothing."""
        if isinstance(node, exp.Column):
            condition = conditions.compare(attribute, "=", True)
        elif isinstance(node, exp.In) and node.expressions and not node.args.get("query"):
            values = [value.unnest() for value in node.expressions]
            known = [value for value in values if not isinstance(value, exp.Null)]
            if negated and len(known) < len(values):
                return None
            condition = conditions.one_of(attribute, map(self._literal, known))
        elif isinstance(node, (exp.Like, exp.ILike)):
            pattern = self._literal(node.expression.unnest())
            condition = conditions.like(attribute, pattern, ignore_case=isinstance(node, exp.ILike))
            negated = negated != bool(node.args.get("negate"))
        else:
            raise QueryError(f"Cannot use {_shown(node)} as a condition. {_WHAT_WORKS}")
        return conditions.complement(attribute, condition) if negated else condition

    def _column(self, node: Any) -> int:
        node = node.unnest() if isinstance(node, exp.Expr) else node
        if not isinstance(node, exp.Column):
            raise QueryError(f"Expected the name of an attribute, not {_shown(node)}. {_WHAT_WORKS}")
        return attribute_number(node.name, self.schema)

    def _literal(self, node: exp.Expr) -> Any:
        node = node.unnest()
        if isinstance(node, exp.Literal):
            return node.this if node.is_string else _number(node.this)
        if isinstance(node, exp.Boolean):
            return bool(node.this)
        if isinstance(node, exp.Neg):
            return -self._numeric(node.this)
        if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.this.is_string:
            return node.this.this
        if type(node) in _ARITHMETIC:
            try:
                value = _ARITHMETIC[type(node)](self._numeric(node.this), self._numeric(node.expression))
                if math.isfinite(value):
                    return value
            except (ZeroDivisionError, OverflowError):
                pass
            raise QueryError(f"{_shown(node)} has no value.")
        if isinstance(node, exp.Column):
            name = shortened(node.name)
            raise QueryError(
                f"Attributes are compared with values, not with each other. If {name!r} is a text, "
                f"write '{name}'."
            )
        raise QueryError(f"Expected a number, text or date, not {_shown(node)}.")

    def _numeric(self, node: exp.Expr) -> float:
        value = self._literal(node)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise QueryError(f"Expected a number, not {quoted(value)}.")
        return value


def _as_comparisons(node: exp.Between) -> exp.Expr:
    """`x BETWEEN low AND high` spelled out, so that NULL on one side does not decide the other.
    SYMMETRIC: in either order.
    """

    def in_order(low: exp.Expr, high: exp.Expr) -> exp.Expr:
        left, right = (
            exp.GTE(this=node.this.copy(), expression=low.copy()),
            exp.LTE(this=node.this.copy(), expression=high.copy()),
        )
        return exp.And(this=left, expression=right)

    low, high = node.args["low"], node.args["high"]
    return (
        exp.Or(this=in_order(low, high), expression=in_order(high, low))
        if node.args.get("symmetric")
        else in_order(low, high)
    )


def _number(text: str) -> int | float:
    try:
        return int(text) if text.isdecimal() and len(text) < 300 else float(text)  # 300 digits fit a double
    except ValueError:  # the parser takes 1e and 1e-0.5 for numbers
        raise QueryError(f"{quoted(text)} is not a number. Write it like 1500, 0.5 or 1.5e3.") from None


def _shown(node: Any) -> str:
    return shortened(node.sql(dialect=DIALECT) if isinstance(node, exp.Expr) else str(node))


def _told(problem: str) -> str:
    """What the parser complains of, without the names of its classes."""
    first_line = re.sub(r"\x1b\[[0-9]*m", "", problem).splitlines()[0] if problem else "unreadable"
    first_line = re.sub(
        r"^Required keyword: '\w+' missing for <class '[\w.]+'>", "a part is missing", first_line
    )
    return re.sub(r"^Error tokenizing.*", "a quotation or comment has no end.", first_line)
