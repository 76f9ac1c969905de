"""Questions answered: by a view, by its synthetic records, or by the catalogue."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, cast

from sqlglot import exp

from hdpview.domain import Ordered
from hdpview.errors import QueryError, unknown_name
from hdpview.explore.postgres import rewrite
from hdpview.explore.postgres import types as t
from hdpview.explore.postgres.catalog.engine import MAX_CHARACTERS, CatalogEngine, SessionFacts
from hdpview.explore.postgres.catalog.tables import column_type
from hdpview.explore.postgres.columns import Describer, OutputColumn
from hdpview.explore.postgres.errors import (
    FEATURE_NOT_SUPPORTED,
    INVALID_PARAMETER,
    READ_ONLY,
    UNDEFINED_TABLE,
    PgError,
)
from hdpview.explore.postgres.names import is_common_table, parameter_number, quote_ident
from hdpview.explore.postgres.records import Records
from hdpview.explore.postgres.statements import with_quoted_aliases
from hdpview.explore.postgres.types import PgType
from hdpview.explore.recent import Recent
from hdpview.pview import PView
from hdpview.query.question.where import name_in_sql, parse
from hdpview.query.sql import run, run_tree
from hdpview.query.sql.constants import literal
from hdpview.query.sql.rows import asks_for_rows

_CELLS_KEPT = 500_000  # of recent answers
_QUESTIONS_KEPT = 1_000
_NO_JOIN = (
    "A view is one table, and holds no rows that a join could match. "
    "Ask each view by itself, or build a view from the joined table."
)


@dataclass(frozen=True)
class Reading:
    """How a session wants aggregates answered."""

    intervals: bool = False
    confidence: float = 0.95
    interval: str = "typical"
    counts: str = "consistent"

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Reading:
        """From the settings of a session."""
        return cls(
            settings["hdpview.intervals"] == "on",
            float(settings["hdpview.confidence"]),
            settings["hdpview.interval"],
            settings["hdpview.counts"],
        )


@dataclass(frozen=True)
class Answer:
    """Columns and rows, with values of the columns' types."""

    columns: Sequence[OutputColumn]
    rows: Sequence[Sequence[Any]]
    notices: tuple[str, ...] = ()


@dataclass(eq=False)
class Question:
    """A statement that was read against the views.

    view: the name of the view that it asks; None for the catalogue. of_rows: whether it asks for records.
    parameters: types of $1, $2, …
    """

    tree: exp.Expr
    view: str | None
    of_rows: bool
    columns: Sequence[OutputColumn]
    parameters: tuple[PgType, ...]


class Answerer:
    """Reads and answers statements over these views. Called from several threads."""

    def __init__(self, views: Mapping[str, PView]) -> None:
        self.views = dict(views)
        self.engine = CatalogEngine(views)
        self._records = {name: Records(view) for name, view in views.items()}
        self._bin_starts = {name: _bin_starts(view) for name, view in views.items()}
        self._questions = Recent[Question](_QUESTIONS_KEPT)
        self._answers = Recent[Answer](_CELLS_KEPT)

    def warm_up(self) -> None:
        """Answer a question of each kind before anyone asks: kernels are loaded, or compiled where they never
        were, and components laid out then.
        """
        for view in self.views.values():
            names = [name_in_sql(name) for name in view.schema.names]
            numbers = [name_in_sql(a.name) for a in view.schema if a.kind in ("integer", "real")]
            wanted = "".join(f", AVG({name}), median({name})" for name in numbers[:1])
            run(
                view,
                f"SELECT {names[0]}, COUNT(*){wanted} FROM view WHERE {names[-1]} IS NOT NULL GROUP BY 1",
            )
            run(view, f"SELECT COUNT(*){wanted} FROM view GROUP BY {', '.join(names[:2])} LIMIT 1")
            run(
                view,
                f"SELECT COUNT(*){wanted} FROM view GROUP BY CASE WHEN {names[0]} IS NULL THEN 1 ELSE 2 END",
            )

    def read(self, text: str) -> Question:
        """What a statement asks for."""
        found = self._questions.get(text)
        if found is None:
            try:
                found = self._read(text)
            except RecursionError:
                raise QueryError("The statement is nested too deeply.") from None
            except (AttributeError, KeyError, IndexError, TypeError, ValueError):
                raise QueryError("Not valid SQL: a part of the statement is missing.") from None
            self._questions.keep(text, found)
        return found

    def _read(self, text: str) -> Question:
        tree = _parsed(text).copy()
        if not isinstance(tree, (exp.Select, exp.SetOperation, exp.Values, exp.Subquery)):
            raise PgError(FEATURE_NOT_SUPPORTED, "Only SELECT statements can be answered.")
        if tree.find(exp.Into) is not None:
            raise PgError(
                READ_ONLY, "cannot execute SELECT INTO in a read-only transaction", "Leave out INTO."
            )
        names = {self._view_of(table) for table in _tables(tree)}
        if len(names) > 1:
            raise PgError(FEATURE_NOT_SUPPORTED, "Tables cannot be joined here.", _NO_JOIN)
        name = names.pop() if names else None
        if name is None:
            if len(text) > MAX_CHARACTERS:
                raise QueryError(
                    f"A question about the catalogue is longer than {MAX_CHARACTERS:,} characters."
                )
            columns: Sequence[OutputColumn] = self.engine.describe(tree)
            return Question(tree, None, False, columns, self.engine.parameters(tree))
        describer = Describer(self._columns_of_view, t.FLOAT8)
        columns = describer.columns(tree)
        parameters = _parameters(describer, tree)
        of_rows = asks_for_rows(tree)
        tree = rewrite.for_view(tree, describer, lambda table: not is_common_table(table))
        return Question(tree, name, of_rows, columns, parameters)

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
            UNDEFINED_TABLE,
            f'relation "{full[:60]}" does not exist',
            unknown_name("table", name[:60], self.views, "There are").partition(". ")[2],
        )

    def _columns_of_view(self, table: exp.Table) -> Sequence[OutputColumn] | None:
        name = self._view_of(table)
        if name is None:
            return None
        return [OutputColumn(attribute.name, column_type(attribute)) for attribute in self.views[name].schema]

    def columns(self, question: Question, reading: Reading) -> list[OutputColumn]:
        """Columns of the answer, known before it: with the ends of intervals where they are wanted."""
        found: list[OutputColumn] = []
        for column in question.columns:
            found.append(column)
            if column.is_aggregate and reading.intervals and question.view is not None:
                found += [OutputColumn(f"{column.name}{end}", column.kind) for end in ("_lower", "_upper")]
        return found

    def answer(
        self, question: Question, values: Sequence[Any], reading: Reading, session: SessionFacts
    ) -> Answer:
        """Answer a question with these values of its parameters."""
        tree = _bound(question.tree, values) if question.parameters else question.tree
        if question.view is None:
            return Answer(question.columns, self.engine.rows(tree, session))
        tree = rewrite.with_arrays(tree) if question.parameters else tree
        key = (question, tuple(map(repr, values)), reading)
        found = self._answers.get(key)
        if found is None:
            answer = self._of_rows if question.of_rows else self._of_view
            found = answer(question, tree, reading)
            self._answers.keep(key, found, 1 + len(found.columns) * len(found.rows))
        return found

    def _of_rows(self, question: Question, tree: exp.Expr, _: Reading) -> Answer:
        assert question.view is not None
        records = self._records[question.view]
        rows = records.answer(tree)
        kinds = [column.kind for column in question.columns]
        typed = [[fitted(value, kind, {}) for value, kind in zip(row, kinds, strict=True)] for row in rows]
        # Tools look at the columns of no rows first; there is nothing to say about those.
        return Answer(question.columns, typed, (records.notice(question.view),) if rows else ())

    def _of_view(self, question: Question, tree: exp.Expr, reading: Reading) -> Answer:
        assert question.view is not None
        view, starts = self.views[question.view], self._bin_starts[question.view]
        result = run_tree(
            view,
            tree,
            reading.confidence,
            cast("Any", reading.counts),
            cast("Any", reading.interval),
            with_intervals=reading.intervals,
        )
        found = [[column.plain() for column in output] for output in result.outputs()]
        columns = self.columns(question, reading)
        if len(found) != len(question.columns):
            raise QueryError("The columns of this statement cannot be told. Name them instead of writing *.")
        lists: list[list[Any]] = []
        for values, column in zip(found, question.columns, strict=True):
            wanted = 3 if column.is_aggregate and reading.intervals else 1
            lists += (values + [[None] * len(values[0])] * 2)[:wanted]
        rows = [
            [fitted(value, column.kind, starts) for value, column in zip(row, columns, strict=True)]
            for row in zip(*lists, strict=True)
        ]
        return Answer(columns, rows, (*result.notes, *result.inferred))

    def hint_name(self, question: Question | None) -> str:
        """What a view is called in a question to ask instead."""
        name = question.view if question is not None and question.view else next(iter(self.views), "view")
        return quote_ident(name)


def fitted(value: Any, kind: PgType, bin_starts: Mapping[str, float]) -> Any:
    """A value as one of its column's type; a bin as the number it starts with. None where it does not fit."""
    if value is None:
        return None
    if kind in t.NUMBERS:
        if isinstance(value, str):
            value = bin_starts.get(value, value)
        try:
            number = value if isinstance(value, int) else float(value)
        except (TypeError, ValueError):
            return None
        if kind in t.INTEGERS:
            return round(number) if math.isfinite(number) else None
        return number
    if kind is t.BOOL:
        return value if isinstance(value, bool) else None
    if kind in t.MOMENTS:
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        return value if isinstance(value, date) else None
    return t.text_of(value, kind) if not isinstance(value, str) else str(value)


def _bin_starts(view: PView) -> dict[str, float]:
    """The number that each bin starts with, by the bin's name."""
    found: dict[str, float] = {}
    for attribute in view.schema:
        if isinstance(attribute, Ordered) and attribute.kind in ("integer", "real"):
            found.update(zip(attribute.value_labels(), attribute.edges[:-1].tolist(), strict=True))
    return found


def _tables(tree: exp.Expr) -> list[exp.Table]:
    return [
        table
        for table in tree.find_all(exp.Table)
        if isinstance(table.this, exp.Identifier) and not is_common_table(table)
    ]


def _parameters(describer: Describer, tree: exp.Expr) -> tuple[PgType, ...]:
    found = describer.parameters(tree)
    return tuple(found.get(number, t.TEXT) for number in range(1, max(found, default=0) + 1))


def _bound(tree: exp.Expr, values: Sequence[Any]) -> exp.Expr:
    """The statement with its parameters' values written in."""
    bound = tree.copy()
    for node in list(bound.find_all(exp.Parameter)):
        number = parameter_number(node)
        if number > len(values):
            raise PgError(INVALID_PARAMETER, f"There is no value for the parameter ${number}.")
        node.replace(literal(values[number - 1]))
    return bound


def _parsed(text: str) -> exp.Expr:
    """The tree of a statement. PostgreSQL takes any word as a name behind AS, the parser does not: such words
    are put into quotes if need be.
    """
    try:
        return parse(text, "postgres")
    except QueryError:
        quoted = with_quoted_aliases(text)
        if quoted == text:
            raise
    return parse(quoted, "postgres")
