"""Statements in, results out."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sqlglot import exp

from hdpview.domain import Category, calendar
from hdpview.errors import HdpviewError, InternalError, QueryError, unknown_name
from hdpview.query.bounds.noise import check_confidence
from hdpview.query.errors.ends import ends
from hdpview.query.errors.kernels import error_model
from hdpview.query.evaluate.bare import Bare, BareAnswer, answer_plain
from hdpview.query.evaluate.database import SECRET, database_of
from hdpview.query.evaluate.deadline import TOO_LONG, Expired, deadline
from hdpview.query.interval.answers import CountKind, IntervalKind, check_kinds
from hdpview.query.present.frames import NOTES
from hdpview.query.quality import inferred_note
from hdpview.query.question.conditions import note_beyond, note_on_cuts, note_on_open
from hdpview.query.question.where import DIALECT, parse
from hdpview.view.data import ViewData

if TYPE_CHECKING:  # the general path is imported only when needed; plain counts do not need it
    from hdpview.query.evaluate.clusters import Base
    from hdpview.query.evaluate.execute import Execution

Floats = NDArray[np.float64]
# Dates and moments as ODBC and JDBC write them: {d '2024-01-01'}.
_ESCAPE = re.compile(r"\{\s*(d|ts)\s*('[^']+')\s*\}", re.IGNORECASE)
MIN_CHANCE = 0.05  # marks a row that is omitted, and names the reason


@dataclass(frozen=True)
class Output:
    """A column of a result.

    type: DuckDB's. is_estimate: it has an interval.
    """

    name: str
    type: str
    is_estimate: bool


@dataclass(frozen=True, eq=False)
class Result:
    """Rows of an answer.

    table: one column per output, names as DuckDB gives them, which may repeat.
    lower, upper: output → ends of its interval, NaN where there is none; microseconds for datetimes.
    notes: sentences for users. inferred: a sentence on relationships that were not measured.
    ranks: each row's probability to belong to the answer and the range of its rank, if requested.
    """

    outputs: Sequence[Output]
    table: pa.Table
    lower: dict[int, Floats]
    upper: dict[int, Floats]
    confidence: float
    notes: tuple[str, ...] = ()
    inferred: tuple[str, ...] = ()
    counts: tuple[str, ...] = ()
    ranks: tuple[Floats, ...] = ()

    @cached_property
    def names_of_outputs(self) -> list[list[str]]:
        """The columns of each output in `to_arrow`: its own, and those of the ends of its interval."""
        names: list[list[str]] = []
        taken = {output.name for output in self.outputs}
        used: set[str] = set()
        for i, output in enumerate(self.outputs):
            own = [_free(output.name, used)]
            if i in self.lower:
                own += [_free(output.name + suffix, taken | used) for suffix in ("_lower", "_upper")]
            used |= set(own)
            names.append(own)
        return names

    def to_arrow(self) -> pa.Table:
        """Each estimate `n` is followed by `n_lower` and `n_upper`; notes are in the schema's metadata."""
        columns = []
        for i, _ in enumerate(self.outputs):
            column = self.table.column(i)
            columns.append(column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column)
            if i in self.lower:
                columns += [_end_column(ends[i], column.type) for ends in (self.lower, self.upper)]
        names = self.names
        columns += [pa.array(column) for column in self.ranks]
        notes = json.dumps([*self.notes, *self.inferred])
        return pa.table(columns, names=names).replace_schema_metadata({NOTES: notes})

    @property
    def names(self) -> list[str]:
        names = [name for own in self.names_of_outputs for name in own]
        for name in ("presence", "rank_lower", "rank_upper")[: len(self.ranks)]:
            names.append(_free(name, set(names)))
        return names

    @property
    def measured(self) -> list[list[str]]:
        """Names of the columns of each output that has an interval."""
        return [own for own in self.names_of_outputs if len(own) == 3]

    @property
    def aggregates(self) -> tuple[str, ...]:
        """Names of the outputs that have intervals."""
        return tuple(self.outputs[i].name for i in sorted(self.lower))

    def to_rows(self) -> list[dict[str, Any]]:
        """The result as plain Python values; None for NULL."""
        table = self.to_arrow()
        lists = [column.to_pylist() for column in table.columns]
        return [dict(zip(table.column_names, row, strict=True)) for row in zip(*lists, strict=True)]


def run(
    view: ViewData,
    statement: str | exp.Expr,
    confidence: float = 0.95,
    counts: CountKind = "consistent",
    interval: IntervalKind = "typical",
    dialect: str = DIALECT,
    with_intervals: bool = True,
    ranks: bool = False,
) -> Result:
    """Answer one SELECT statement.

    statement: SQL text, or a tree that is parsed already. dialect: the SQL it is written in.
    with_intervals: False if intervals are not needed: the answer then takes a fraction of the time.
    ranks: whether `presence` and the range of each row's rank are wanted.
    """
    check_confidence(confidence)
    check_kinds(counts, interval)
    tree = _tree(statement, dialect)

    def ask() -> Result:
        kind = interval if with_intervals else None
        plain = answer_plain(tree, view, confidence, counts, kind, with_ranks=ranks)
        if plain is not None:
            return _bare_result(*plain, view, confidence, with_intervals)
        from hdpview.query.evaluate.execute import Execution

        database = database_of(view)
        for part in (
            () if view.is_blocks else view.parts
        ):  # created once per view; its time does not count for a statement
            error_model(part)
        with database.cursor() as cursor, deadline(cursor, not database.is_warm):
            execution = Execution(database, tree, dialect, cursor, raw=counts == "raw")
            if interval != "typical":
                execution.statement.note(
                    f"Intervals here are typical ones: {interval} intervals are for plain counts."
                )
            result = _result(execution, confidence, counts, with_intervals, ranks)
            database.is_warm = True
            return result

    try:
        return ask()
    except RecursionError:
        raise QueryError("The statement is nested too deeply.") from None
    except Expired:
        raise QueryError(TOO_LONG) from None
    except HdpviewError:
        raise
    except Exception as problem:
        if type(problem).__module__.endswith("duckdb"):
            from hdpview.query.evaluate.statement import refusal

            raise refusal(problem, tree, database_of(view)) from None
        raise InternalError.of(problem, "your statement") from problem


def _bare_result(
    bare: Bare, answer: BareAnswer, view: ViewData, confidence: float, with_intervals: bool
) -> Result:
    table = pa.table(answer.columns, names=list(bare.names))
    at = bare.items.index(None)
    outputs = [
        Output(name, _type_name(field.type), i == at)
        for i, (name, field) in enumerate(zip(bare.names, table.schema, strict=True))
    ]
    note = inferred_note(view, set(answer.attributes)) if bare.keys else None
    ends = ({at: answer.span.lower}, {at: answer.span.upper}) if with_intervals else ({}, {})
    return Result(
        outputs, table, *ends, confidence, answer.notes, () if note is None else (note,), (bare.names[at],)
    )


def describe(view: ViewData, statement: str | exp.Expr, dialect: str = DIALECT) -> list[Output]:
    """Names and types of a statement's outputs."""
    return list(run(view, statement, dialect=dialect, with_intervals=False).outputs)


def _tree(statement: str | exp.Expr, dialect: str) -> exp.Expr:
    if isinstance(statement, exp.Expr):
        return statement
    if not isinstance(statement, str):
        raise QueryError(f"A statement must be SQL text, not {type(statement).__name__}.")
    from sqlglot.dialects import DIALECTS

    statement = _ESCAPE.sub(
        lambda part: f" {'DATE' if part[1] in 'dD' else 'TIMESTAMP'} {part[2]}", statement
    )
    known = sorted(name.lower() for name in DIALECTS if name != "Dialect")
    if dialect not in known:
        raise QueryError(unknown_name("dialect", str(dialect)[:60], known, "The dialects are"))
    words = statement.split(maxsplit=1)
    if words and words[0].lower() in ("describe", "show", "explain", "summarize"):
        raise QueryError(
            f"{words[0].upper()} cannot be answered. Ask for the view's attributes with view.info() or "
            "`hdpview info`."
        )
    if not words or words[0].lower() != "pivot":
        return parse(statement, dialect)
    # The parser reads no ORDER BY or LIMIT after PIVOT.
    pivot, *tail = re.split(r"\s(?=order\s+by\s|limit\s)", statement, maxsplit=1, flags=re.IGNORECASE)
    tree = parse(pivot, dialect)
    for part in ("order", "limit", "offset") if tail else ():
        tree.set(part, parse(f"SELECT 1 {tail[0]}", dialect).args.get(part))
    return tree


def _outputs(execution: Execution, types: Sequence[str]) -> list[Output]:
    statement = execution.statement
    named = []
    for name, kind, is_uncertain in zip(statement.names, types, execution.uncertain, strict=True):
        is_number = not kind.startswith(("VARCHAR", "BOOLEAN", "ENUM")) and "[" not in kind
        named.append(Output(name, "VARCHAR" if kind.startswith("ENUM") else kind, is_uncertain and is_number))
    return named


def _result(
    execution: Execution, confidence: float, counts: CountKind, with_intervals: bool, ranks: bool
) -> Result:
    from hdpview.query.evaluate.execute import numbers_of

    statement = execution.statement
    table = execution.estimate()
    lower: dict[int, Floats] = {}
    upper: dict[int, Floats] = {}
    of_rows: tuple[Floats, ...] = ()
    if with_intervals or statement.ends or statement.probabilities:
        n_draws, is_cut_off = execution.n_draws(), execution.is_cut_off
        drawn = execution.draw(table, n_draws, execution.seed, ranks or is_cut_off)
        for i, draws in drawn.items():
            lower[i], upper[i] = ends(numbers_of(table.column(i)), draws.T, confidence)
        if (ranks or is_cut_off) and table.num_rows:
            known = execution.ranks(table, n_draws, confidence)
            if is_cut_off and known.left_out_presence >= MIN_CHANCE:
                statement.note(
                    f"The first rows are uncertain: {known.left_out or 'another row'} is left out, but "
                    f"belongs among them with probability {known.left_out_presence:.0%}."
                )
            columns = known.presence, known.best, known.worst
            of_rows = tuple(column for column in columns if column is not None) if ranks else ()
    outputs = table.select(range(table.num_columns - 1))
    types = [_type_name(field.type) for field in outputs.schema]
    described = _outputs(execution, types)
    for output, is_uncertain in zip(described, execution.uncertain, strict=True):
        if is_uncertain and not output.is_estimate and with_intervals and table.num_rows:
            statement.note(f"{output.name!r} depends on estimates but has no interval: it is not a number.")
    for i in statement.probabilities:
        lower.pop(i, None)
        upper.pop(i, None)
        if i in drawn:
            shares = np.nanmean(drawn[i], axis=1)
            outputs = outputs.set_column(i, outputs.schema.field(i).name, pa.array(shares, from_pandas=True))
        described[i] = Output(described[i].name, "DOUBLE", False)
    for i, side in statement.ends.items():
        values = (lower if side < 0 else upper).pop(i, None)
        (upper if side < 0 else lower).pop(i, None)
        if values is not None:
            end = _end_column(values, outputs.column(i).type)
            outputs = outputs.set_column(i, outputs.schema.field(i).name, end)
            described[i] = Output(described[i].name, described[i].type, False)
    if counts == "consistent":
        _clip(execution, table, lower, upper)
    outputs = outputs.rename_columns(statement.names)
    return Result(
        described, outputs, lower, upper, confidence, (*statement.notes, *_notes(execution)),
        _inferred(execution), tuple(statement.names[i] for i in _plain_counts(execution)), of_rows,
    )  # fmt: skip


def _clip(execution: Execution, table: pa.Table, lower: dict[int, Floats], upper: dict[int, Floats]) -> None:
    """Clip ends to possible values: no negative counts, and no means beyond the values."""
    from hdpview.query.evaluate.execute import numbers_of
    from hdpview.query.evaluate.lineage import Ranges

    sums: dict[str, tuple[float, float]] = {}
    scans = execution.statement.scans
    for scan in scans:
        for j in range(len(scan.bases)):
            known = sums.get(f"{SECRET}b{j}", (0.0, np.inf))
            is_positive = known[0] == 0 and all(
                bool((c.values[:, c.of(j)] >= 0).all()) for c in scan.clusters
            )
            sums[f"{SECRET}b{j}"] = (0.0 if is_positive else -np.inf), np.inf
    for j in scans[0].limited if len(scans) == 1 and scans[0].n_groups else ():
        for name, end in zip("lu", scans[0].limits(j), strict=True):
            sums[f"{SECRET}{name}{j}"] = float(end.min()), float(end.max())
    sums |= {ordered.column: ordered.range for ordered in scans[0].ordered} if len(scans) == 1 else {}

    def is_share(*names: str) -> bool:
        if len(scans) > 1 or not all(name.startswith(f"{SECRET}b") for name in names):
            return False
        i, j = (int(name.removeprefix(f"{SECRET}b")) for name in names)
        values = [(own.values[:, own.of(i)], own.values[:, own.of(j)]) for own in scans[0].clusters]
        return all(bool(((part >= 0) & (part <= whole)).all()) for part, whole in values)

    ranges = Ranges(execution.statement.tree, sums, is_share).of_outputs
    for i in lower:
        estimate = numbers_of(table.column(i))
        lower[i] = np.fmin(np.maximum(lower[i], ranges[i][0]), estimate)
        upper[i] = np.fmax(np.minimum(upper[i], ranges[i][1]), estimate)
    _nest(execution, lower, upper)


def _nest(execution: Execution, lower: dict[int, Floats], upper: dict[int, Floats]) -> None:
    """Ensure that a count with fewer conditions, and the ends of its interval, are never below those of a
    count with more.
    """
    from hdpview.query.evaluate.expressions import text_of

    counted = {
        i: set(map(text_of, base.conditions)) for i, base in _plain_counts(execution).items() if i in lower
    }
    for i, few in counted.items():
        for j, many in counted.items():
            if few < many:
                lower[i] = np.fmax(lower[i], lower[j])
                upper[j] = np.fmin(upper[j], upper[i])


def _plain_counts(execution: Execution) -> dict[int, Base]:
    """Outputs that are plain numbers of records, with their conditions."""
    statement, by_output = execution.statement, {}
    tree = statement.tree
    if not isinstance(tree, exp.Select) or len(statement.scans) != 1 or tree.args.get("group") is not None:
        return {}
    bases = statement.scans[0].bases
    for i, item in enumerate(tree.selects[: len(statement.names)]):
        node = item.unalias().unnest()
        node = node.this if isinstance(node, exp.Coalesce) else node
        is_base = isinstance(node, exp.Column) and node.name.startswith(f"{SECRET}b")
        if is_base and bases[int(node.name.removeprefix(f"{SECRET}b"))].is_count:
            by_output[i] = bases[int(node.name.removeprefix(f"{SECRET}b"))]
    return by_output


def _inferred(execution: Execution) -> tuple[str, ...]:
    scans = execution.statement.scans
    if not any(scan.keys or len(c.attributes) > 1 for scan in scans for c in scan.clusters):
        return ()
    attributes = {a for scan in execution.statement.scans for a in scan.attributes}
    note = inferred_note(execution.database.view, attributes)
    return () if note is None else (note,)


def _notes(execution: Execution) -> list[str]:
    """Notes on cut bins, values beyond bounds, and undeclared values."""
    notes: list[str] = []
    attributes = execution.database.schema.attributes
    for scan in execution.statement.scans:
        notes += [note_on_cuts(attributes[a], sorted(codes)) for a, codes in scan.cuts.bins.items() if codes]
        notes += [note_beyond(attributes[a]) for a in scan.cuts.beyond]
        for attribute in (attributes[a] for a in scan.cuts.other):
            assert isinstance(attribute, Category)
            notes.append(note_on_open(attribute))
    return list(dict.fromkeys(notes))


def _free(name: str, taken: set[str]) -> str:
    names = chain([name], (f"{name}_{n}" for n in count(2)))
    return next(own for own in names if own not in taken)


_TYPES = {
    "string": "VARCHAR", "large_string": "VARCHAR", "bool": "BOOLEAN", "date32[day]": "DATE",
    "int64": "BIGINT", "int32": "INTEGER", "int16": "SMALLINT", "int8": "TINYINT",
    "timestamp[us]": "TIMESTAMP",
}  # fmt: skip


def _type_name(kind: pa.DataType) -> str:
    """DuckDB's name of an Arrow type."""
    if pa.types.is_dictionary(kind):
        return "VARCHAR"
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return "TIMESTAMP WITH TIME ZONE"
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    return _TYPES.get(str(kind), str(kind).upper())


def _end_column(values: Floats, kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        moments = [None if np.isnan(v) else calendar.moment(round(v)) for v in values.tolist()]
        return pa.array(moments, pa.timestamp("us"))
    return pa.array(values, from_pandas=True)
