"""Read questions, and answer them from a view, its synthetic records or the catalogue."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from typing import Any

from sqlglot import exp

from hdpview.domain import Ordered, calendar
from hdpview.errors import QueryError, unknown_name
from hdpview.explore.cache import LruCache
from hdpview.explore.postgres import names
from hdpview.explore.postgres import types as t
from hdpview.explore.postgres.catalog.catalogue import MAX_CHARACTERS, CatalogEngine
from hdpview.explore.postgres.catalog.layout import column_type
from hdpview.explore.postgres.settings import AnswerOptions
from hdpview.explore.postgres.sqlstates import PgError, SqlState
from hdpview.explore.postgres.statements import with_quoted_aliases
from hdpview.explore.postgres.types import OutputColumn, PgType
from hdpview.pview import PView
from hdpview.query.evaluate import Output, Result, describe, run
from hdpview.query.question.where import name_in_sql, parse

# Maximum number of cells of recent answers in the cache.
_CELLS_KEPT = 500_000
_QUESTIONS_KEPT = 1_000
_NO_JOIN = (
    "A view is one table, and holds no rows that a join could match. "
    "Ask each view by itself, or build a view from the joined table."
)
# Aggregates; a statement without any of them asks for rows.
_SUMMARIES = (exp.Group, exp.Having, exp.Distinct, exp.Window, exp.SetOperation, exp.AggFunc)
_NAMED_SUMMARIES = "odds_ratio risk_ratio risk_difference mean dp_interval_low dp_interval_high"


@dataclass(frozen=True)
class ResultSet:
    """Columns and rows, with values of the columns' types."""

    columns: Sequence[OutputColumn]
    rows: Sequence[Sequence[Any]]
    notices: tuple[str, ...] = ()


@dataclass(eq=False)
class _Question:
    """A statement that was read against the views.

    view: the name of the view; None for the catalogue. is_for_rows: whether it asks for records.
    columns: of its answer, once they are known.
    """

    tree: exp.Expr
    view: str | None
    is_for_rows: bool
    parameters: tuple[PgType, ...]
    columns: Sequence[OutputColumn] | None = None


# The type of the numbers that the bins of an attribute start with, and the numbers by the bins' labels.
_BinStarts = tuple[PgType, Mapping[str, float]]


class Answerer:
    """Reads and answers statements over the views in these files, by table name."""

    def __init__(self, paths: Mapping[str, str]) -> None:
        self.views = {name: PView.open(path) for name, path in paths.items()}
        self.engine = CatalogEngine(self.views)
        self._bin_starts = {name: _bin_starts(view) for name, view in self.views.items()}
        self._question = lru_cache(maxsize=_QUESTIONS_KEPT)(self._checked)
        self._answers = LruCache[ResultSet](_CELLS_KEPT)
        self._warm_up()

    def _warm_up(self) -> None:
        """Answer a question of each kind in advance, so that kernels are loaded or compiled."""
        for view in self.views.values():
            columns = [name_in_sql(name) for name in view.schema.names]
            numbers = [name_in_sql(a.name) for a in view.schema if a.kind in ("integer", "real")]
            wanted = "".join(f", AVG({name}), median({name})" for name in numbers[:1])
            condition = f"{columns[-1]} IS NOT NULL"
            for statement in (
                f"SELECT {columns[0]}, COUNT(*){wanted} FROM view WHERE {condition} GROUP BY 1",
                f"SELECT COUNT(*){wanted} FROM view GROUP BY {', '.join(columns[:2])} LIMIT 1",
            ):
                # Attributes of many values may make too many groups; such statements are refused.
                with suppress(QueryError):
                    run(view, statement)

    def parameters(self, text: str) -> tuple[PgType, ...]:
        """Types of the parameters $1, $2, … of a statement."""
        return self._question(text).parameters

    def describe(self, text: str, options: AnswerOptions) -> tuple[Sequence[OutputColumn], ResultSet | None]:
        """The columns of a statement before the values of its parameters are known, and its answer if it has
        none.
        """
        question = self._question(text)
        if question.view is not None and not question.is_for_rows and not question.parameters:
            answer = self.answer(text, (), options, {})
            return answer.columns, answer
        if question.columns is None:
            kinds = map(t.duckdb_type, question.parameters)
            tree = _bound(question.tree, [exp.cast(exp.null(), kind, dialect="duckdb") for kind in kinds])
            if question.view is None or question.is_for_rows:
                question.columns = self.engine.describe(tree)
            else:
                outputs = describe(self.views[question.view], tree, "postgres")
                question.columns = self._columns(question, outputs)
        return _with_ends(question.columns, options), None

    def _checked(self, text: str) -> _Question:
        try:
            return self._read(text)
        except RecursionError:
            raise QueryError("The statement is nested too deeply.") from None
        except (AttributeError, KeyError, IndexError, TypeError, ValueError):
            raise QueryError("Not valid SQL: a part of the statement is missing.") from None

    def _read(self, text: str) -> _Question:
        tree = _parsed(text).copy()
        if not isinstance(tree, (exp.Select, exp.SetOperation, exp.Values, exp.Subquery)):
            raise PgError(SqlState.FEATURE_NOT_SUPPORTED, "Only SELECT statements can be answered.")
        if tree.find(exp.Into) is not None:
            raise PgError(
                SqlState.READ_ONLY, "cannot execute SELECT INTO in a read-only transaction", "Leave out INTO."
            )
        names.spell_out_arrays(tree)
        tables = [
            table
            for table in tree.find_all(exp.Table)
            if isinstance(table.this, exp.Identifier) and not names.is_common_table(table)
        ]
        asked = {self._view_of(table) for table in tables}
        if len(asked) > 1:
            raise PgError(SqlState.FEATURE_NOT_SUPPORTED, "Tables cannot be joined here.", _NO_JOIN)
        name = asked.pop() if asked else None
        is_for_rows = name is not None and _asks_for_rows(tree)
        if (name is None or is_for_rows) and len(text) > MAX_CHARACTERS:
            raise QueryError(f"The statement is longer than {MAX_CHARACTERS:,} characters.")
        if name is None:
            return _Question(tree, None, False, self.engine.parameters(tree))
        schema = self.views[name].schema
        parameters = names.parameter_types(tree, {each.name.lower(): column_type(each) for each in schema})
        for table in tables:
            _rename(table, name if is_for_rows else None)
        for column in tree.find_all(exp.Column):
            column.set("db", None)
        if not is_for_rows:
            _drop_alias(tree)
        names.name_outputs(tree)
        return _Question(tree, name, is_for_rows, parameters)

    def _columns(self, question: _Question, outputs: Sequence[Output]) -> list[OutputColumn]:
        """Outputs in the types of clients. Bins of a number are numbers: their starts."""
        columns = [OutputColumn(each.name, t.of_duckdb(each.type), each.is_estimate) for each in outputs]
        for i, (kind, _) in self._starts(question).items():
            if i < len(columns) and columns[i].kind == t.TEXT:
                columns[i] = columns[i]._replace(kind=kind)
        return columns

    def _starts(self, question: _Question) -> dict[int, _BinStarts]:
        """Starts of bins, by the index of the output that shows them."""
        assert question.view is not None
        known = self._bin_starts[question.view]
        shown = names.shown_attributes(question.tree, self.views[question.view].schema.names)
        return {i: known[name] for i, name in enumerate(shown) if name in known}

    def _view_of(self, table: exp.Table) -> str | None:
        """The view that a table's name stands for; None for a table of the catalogue."""
        name, quoted = table.name, bool(table.this.args.get("quoted"))
        if table.db.lower() in ("", "public"):
            known = [
                each for each in self.views if each == name or (not quoted and each.lower() == name.lower())
            ]
            if known:
                return name if name in known else known[0]
            if name.lower() == "view" and len(self.views) == 1:
                return next(iter(self.views))
        if self.engine.key(table) is not None:
            return None
        full = f"{table.db}.{name}" if table.db else name
        raise PgError(
            SqlState.UNDEFINED_TABLE,
            f'relation "{full[:60]}" does not exist',
            unknown_name("table", name[:60], self.views, "There are").partition(". ")[2],
        )

    def answer(
        self, text: str, values: Sequence[Any], options: AnswerOptions, session: Mapping[str, str]
    ) -> ResultSet:
        """Answer a statement with these values of its parameters."""
        question = self._question(text)
        tree = _bound(question.tree, values)
        if question.view is None:
            return ResultSet(*self.engine.answer(tree, session))
        key = (text, tuple(map(repr, values)), options)
        answer = self._answers.get(key)
        if answer is None:
            if question.is_for_rows:
                columns, rows = self.engine.answer(tree, session)
                # Tools first query columns without rows, which need no note.
                answer = ResultSet(columns, rows, (self.engine.notice(question.view),) if rows else ())
            else:
                answer = self._of_view(question, tree, options)
            self._answers.keep(key, answer, 1 + len(answer.columns) * len(answer.rows))
        return answer

    def _of_view(self, question: _Question, tree: exp.Expr, options: AnswerOptions) -> ResultSet:
        assert question.view is not None
        result = run(
            self.views[question.view],
            tree,
            dialect="postgres",
            confidence=options.confidence,
            counts=options.counts,
            interval=options.interval,
            with_intervals=options.intervals,
        )
        columns, starts = question.columns or self._columns(question, result.outputs), self._starts(question)
        lists: list[list[Any]] = []
        for i, column in enumerate(columns):
            values = result.table.column(i).to_pylist()
            lists.append([starts[i][1].get(each, each) for each in values] if i in starts else values)
            if column.is_estimate and options.intervals:
                lists += [_ends(result, side, i, column) for side in ("lower", "upper")]
        rows = list(zip(*lists, strict=True))
        return ResultSet(_with_ends(columns, options), rows, (*result.notes, *result.inferred))


def _with_ends(columns: Sequence[OutputColumn], options: AnswerOptions) -> list[OutputColumn]:
    """Columns, each followed by the ends of its interval if requested."""
    wanted: list[OutputColumn] = []
    for column in columns:
        wanted.append(column)
        if column.is_estimate and options.intervals:
            kind = t.TIMESTAMP if column.kind in t.MOMENTS else t.FLOAT8
            wanted += [OutputColumn(f"{column.name}{end}", kind) for end in ("_lower", "_upper")]
    return wanted


def _ends(result: Result, side: str, i: int, column: OutputColumn) -> list[Any]:
    """Ends of an output's intervals; None if there is none."""
    ends: Mapping[int, Any] = getattr(result, side)
    if i not in ends:
        return [None] * result.table.num_rows
    values = [None if math.isnan(value) else value for value in ends[i].tolist()]
    if column.kind not in t.MOMENTS:
        return values
    return [None if value is None else calendar.moment(round(value)) for value in values]


def _bin_starts(view: PView) -> dict[str, _BinStarts]:
    """Starts of the bins of numbers, by the attribute's name in small letters."""
    starts: dict[str, _BinStarts] = {}
    for attribute in view.schema:
        if isinstance(attribute, Ordered) and attribute.kind in ("integer", "real"):
            by_label = dict(zip(attribute.value_labels(), attribute.edges[:-1].tolist(), strict=True))
            starts[attribute.name.lower()] = column_type(attribute), by_label
    return starts


def _asks_for_rows(tree: exp.Expr) -> bool:
    """True if a statement has neither groups nor aggregates."""
    inner = tree.unnest() if isinstance(tree, exp.Subquery) else tree
    named = (node.name.lower() for node in inner.find_all(exp.Anonymous))
    has_summary = inner.find(*_SUMMARIES) is not None or not set(named).isdisjoint(_NAMED_SUMMARIES.split())
    return isinstance(inner, exp.Select) and not has_summary


def _rename(table: exp.Table, records: str | None) -> None:
    """Give a table the name that the evaluator knows, or that of its synthetic records."""
    table.set("alias", names.alias_of(table))
    table.set("this", exp.to_identifier(records or "view", quoted=True))
    table.set("db", exp.to_identifier("public") if records else None)
    table.set("catalog", None)


def _drop_alias(tree: exp.Expr) -> None:
    """Drop the alias of the only table: plain counts without one are answered ten times as fast."""
    columns = list(tree.find_all(exp.Column))
    query, *sources = tree.find_all(exp.Query, exp.Table, exp.UDTF, exp.Pivot)
    alias = sources[0].alias.lower() if len(sources) == 1 else None
    is_plain = all(
        column.table.lower() in ("", alias) and column.name.lower() not in ("*", alias) for column in columns
    )
    if isinstance(query, exp.Select) and alias is not None and is_plain:
        sources[0].set("alias", None)
        for column in columns:
            column.set("table", None)


def _bound(tree: exp.Expr, values: Sequence[Any]) -> exp.Expr:
    """The statement with its parameters' values written in."""
    bound = tree.copy()
    for node in list(bound.find_all(exp.Parameter)):
        number = names.parameter_number(node)
        if number > len(values):
            raise PgError(SqlState.INVALID_PARAMETER, f"There is no value for the parameter ${number}.")
        node.replace(_literal(values[number - 1]))
    return bound


def _literal(value: Any) -> exp.Expr:
    """A value as it is written in a statement."""
    if isinstance(value, list):
        return exp.Array(expressions=[_literal(item) for item in value])
    if isinstance(value, date):
        return exp.cast(exp.convert(str(value)), "TIMESTAMP" if isinstance(value, datetime) else "DATE")
    return exp.convert(value, copy=True)


def _parsed(text: str) -> exp.Expr:
    """The tree of a statement. PostgreSQL accepts any word as a name after AS, but the parser does not, so
    such words are quoted.
    """
    try:
        return parse(text, "postgres")
    except QueryError:
        return parse(with_quoted_aliases(text), "postgres")
