"""Statements in, results out."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sqlglot import exp

from hdpview.domain import Category, calendar
from hdpview.errors import HdpviewError, InternalError, QueryError, unknown_name
from hdpview.query.bounds.noise import check_confidence
from hdpview.query.errors.ends import ends
from hdpview.query.errors.fields import seed_of
from hdpview.query.errors.kernels import error_model
from hdpview.query.evaluate.bare import Bare, BareAnswer, answer_bare, is_clear, read_bare
from hdpview.query.evaluate.database import SECRET, database_of, shortened_line
from hdpview.query.evaluate.deadline import TOO_LONG, Expired, deadline
from hdpview.query.evaluate.people import answer_people, asks_for_people, read_people
from hdpview.query.interval.answers import CountKind, IntervalKind, check_kinds
from hdpview.query.present.frames import NOTES
from hdpview.query.quality import inferred_note
from hdpview.query.question.conditions import note_beyond, note_on_other
from hdpview.query.question.where import DIALECT, parse
from hdpview.view.blocks import Blocks
from hdpview.view.data import ViewData

if TYPE_CHECKING:  # the general path is imported when it is needed: plain counts do without
    from hdpview.query.evaluate.execute import Execution
    from hdpview.query.evaluate.scan import Base, Scan

Floats = NDArray[np.float64]
T = TypeVar("T")
_MAX_NAMED_BINS = 3
MIN_CHANCE = 0.05  # of a row that is left out and named for it
# Errors of DuckDB that depend on values: casts, overflows, arguments out of range.
_OF_VALUES = {
    "ConversionException",
    "OutOfRangeException",
    "InvalidInputException",
    "DataError",
    "TypeMismatchException",
}


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
    lower, upper: output → ends of its interval, NaN where there is none; microseconds for moments.
    notes: sentences that people should read. inferred: a sentence on relations that were not measured.
    ranks: how sure each row belongs to the answer, and the ends of its rank, where that was asked for.
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
    with_intervals: False where nobody looks at intervals: the answer takes a fraction of the time.
    ranks: whether `presence` and the range of each row's rank are wanted.
    """
    check_confidence(confidence)
    check_kinds(counts, interval)
    tree = _tree(statement, dialect)

    def ask() -> Result:
        if asks_for_people(tree, view):
            asked = read_people(tree, view)
            people = answer_people(asked, view, confidence, counts)
            return _bare_result(asked, people, view, confidence, with_intervals)
        bare = None if ranks else read_bare(tree, view.schema)
        if bare is not None and (interval != "typical" or is_clear(bare, view.schema)):
            answer = answer_bare(bare, view, confidence, counts, interval if with_intervals else None)
            return _bare_result(bare, answer, view, confidence, with_intervals)
        from hdpview.query.evaluate.execute import Execution

        database = database_of(view)
        for part in view.parts:  # made once for a view, on no statement's time
            if not isinstance(part.components, Blocks):
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

    return _guarded(ask)


def _guarded(ask: Callable[[], T]) -> T:
    """Refusals in words: of what values make impossible; whatever else happens is a mistake of ours."""
    try:
        return ask()
    except RecursionError:
        raise QueryError("The statement is nested too deeply.") from None
    except Expired:
        raise QueryError(TOO_LONG) from None
    except HdpviewError:
        raise
    except Exception as problem:
        if type(problem).__name__ in _OF_VALUES:
            first = str(problem).strip().splitlines()[0].replace(SECRET, "")
            raise QueryError(f"The statement has no value: {shortened_line(first)}") from None
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
    tree = _tree(statement, dialect)
    if asks_for_people(tree, view):
        return list(run(view, tree, with_intervals=False).outputs)

    def ask() -> list[Output]:
        from hdpview.query.evaluate.execute import Execution

        database = database_of(view)
        with database.cursor() as cursor, deadline(cursor, not database.is_warm):
            execution = Execution(database, tree, dialect, cursor)
            return _outputs(execution, execution.describe())

    return _guarded(ask)


def _tree(statement: str | exp.Expr, dialect: str) -> exp.Expr:
    if isinstance(statement, exp.Expr):
        return statement
    if not isinstance(statement, str):
        raise QueryError(f"A statement is SQL text, not {type(statement).__name__}.")
    from sqlglot.dialects import DIALECTS

    known = sorted(name.lower() for name in DIALECTS if name != "Dialect")
    if dialect not in known:
        raise QueryError(unknown_name("dialect", str(dialect)[:60], known, "The dialects are"))
    words = statement.split(maxsplit=1)
    if words and words[0].lower() in ("describe", "show", "explain", "summarize"):
        raise QueryError(
            f"{words[0].upper()} cannot be answered. Ask for the view's attributes with view.info() or "
            "`hdpview info`."
        )
    return parse(statement, dialect)


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
        drawn = execution.draw(table, n_draws, _seed(execution), ranks or is_cut_off)
        for i, draws in drawn.items():
            lower[i], upper[i] = ends(numbers_of(table.column(i)), draws.T, confidence)
        if (ranks or is_cut_off) and table.num_rows:
            known = execution.ranks(table, n_draws, confidence)
            if is_cut_off and known.left_out_presence >= MIN_CHANCE:
                statement.note(
                    f"Which rows come first is not certain: {known.left_out or 'another row'} is left out, "
                    f"and belongs among these with probability {known.left_out_presence:.0%}."
                )
            columns = known.presence, known.best, known.worst
            of_rows = tuple(column for column in columns if column is not None) if ranks else ()
    outputs = table.select(range(table.num_columns - 1))
    types = [_type_name(field.type) for field in outputs.schema]
    described = _outputs(execution, types)
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
            outputs = outputs.set_column(
                i, outputs.schema.field(i).name, _end_column(values, outputs.column(i).type)
            )
            described[i] = Output(described[i].name, described[i].type, False)
    if counts == "consistent":
        _clip(execution, table, lower, upper)
    outputs = outputs.rename_columns(statement.names)
    return Result(
        described, outputs, lower, upper, confidence, (*statement.notes, *_notes(execution)),
        _inferred(execution), tuple(statement.names[i] for i in _plain_counts(execution)), of_rows,
    )  # fmt: skip


def _clip(execution: Execution, table: pa.Table, lower: dict[int, Floats], upper: dict[int, Floats]) -> None:
    """Ends within what is possible: no negative counts, and no means beyond the values."""
    from hdpview.query.evaluate.execute import numbers_of
    from hdpview.query.evaluate.lineage import never_negative

    positive: dict[str, bool] = {}
    for scan in execution.statement.scans:
        for j in range(len(scan.bases)):
            own = all(bool((c.values[:, c.of(j)] >= 0).all()) for c in scan.clusters)
            positive[f"{SECRET}b{j}"] = own and positive.get(f"{SECRET}b{j}", True)
    signs = never_negative(execution.statement.tree, positive)
    for i in lower:
        estimate = numbers_of(table.column(i))
        least, greatest = _limits(execution, i) or (0.0 if signs[i] else -np.inf, np.inf)
        lower[i] = np.fmin(np.maximum(lower[i], least), estimate)
        upper[i] = np.fmax(np.minimum(upper[i], greatest), estimate)
    _nest(execution, lower, upper)


def _limits(execution: Execution, i: int) -> tuple[float, float] | None:
    """The least and greatest values of a plain mean, a share, and what follows from shares by subtraction and
    by multiplication with numbers; None for any other output.
    """
    tree, scans = execution.statement.tree, execution.statement.scans
    if not isinstance(tree, exp.Select) or len(scans) != 1:
        return None
    return _limits_of_node(scans[0], tree.selects[i].unalias().unnest())


def _base_of(node: exp.Expr) -> int | None:
    """The number of the base sum that this is, if it is one."""
    while isinstance(node, (exp.Paren, exp.Coalesce, exp.Nullif)):
        node = node.this
    name = node.name.removeprefix(f"{SECRET}b") if isinstance(node, exp.Column) else ""
    return int(name) if name.isdecimal() else None


def _limits_of_node(scan: Scan, node: exp.Expr) -> tuple[float, float] | None:
    node = node.unnest()
    sides = [node.args.get(name) for name in ("this", "expression")]
    left, right = (side.unnest() if isinstance(side, exp.Expr) else exp.Null() for side in sides)
    if isinstance(node, exp.Mul) and left.is_number:
        left, right = right, left
    if isinstance(node, exp.Div) and isinstance(left, exp.Mul):  # 100.0 * COUNT(…) / COUNT(*)
        factor, part = (left.this, left.expression) if left.this.is_number else (left.expression, left.this)
        return _limits_of_node(scan, exp.Mul(this=exp.Div(this=part, expression=right), expression=factor))
    if isinstance(node, exp.Sub):
        one, other = _limits_of_node(scan, left), _limits_of_node(scan, right)
        return None if one is None or other is None else (one[0] - other[1], one[1] - other[0])
    if isinstance(node, (exp.Mul, exp.Div)) and right.is_number:
        by, inner = float(right.to_py()), _limits_of_node(scan, left)
        if not by or inner is None:
            return None
        scaled = [end * by if isinstance(node, exp.Mul) else end / by for end in inner]
        return min(scaled), max(scaled)
    if isinstance(node, exp.Div):
        part, whole = _base_of(left), _base_of(right)
        if part is None or whole is None:
            return None
        values = [(own.values[:, own.of(part)], own.values[:, own.of(whole)]) for own in scan.clusters]
        is_share = all(bool(((own >= 0) & (own <= of_whole)).all()) for own, of_whole in values)
        return (0.0, 1.0) if is_share else None
    if not isinstance(node, exp.Case) or len(node.args["ifs"]) != 1:
        return None
    clamped = node.args["ifs"][0].args["true"]
    ends = [column.name for column in clamped.expressions if isinstance(column, exp.Column)]
    if not isinstance(clamped, exp.Least) or len(ends) != 1 or not ends[0].startswith(f"{SECRET}u"):
        return None
    low, high = scan.limits(int(ends[0].removeprefix(f"{SECRET}u")))
    return float(low.min(initial=np.inf)), float(high.max(initial=-np.inf))


def _nest(execution: Execution, lower: dict[int, Floats], upper: dict[int, Floats]) -> None:
    """A count with fewer conditions is never below one with more: neither are the ends of its interval."""
    from hdpview.query.evaluate.scan import text_of

    counted = {
        i: set(map(text_of, base.conditions)) for i, base in _plain_counts(execution).items() if i in lower
    }
    for i, few in counted.items():
        for j, many in counted.items():
            if few < many:
                lower[i] = np.fmax(lower[i], lower[j])
                upper[j] = np.fmin(upper[j], upper[i])


def _plain_counts(execution: Execution) -> dict[int, Base]:
    """Outputs that are plain numbers of records, and what they count."""
    statement, found = execution.statement, {}
    tree = statement.tree
    if not isinstance(tree, exp.Select) or len(statement.scans) != 1 or tree.args.get("group") is not None:
        return {}
    bases = statement.scans[0].bases
    for i, item in enumerate(tree.selects[: len(statement.names)]):
        node = item.unalias().unnest()
        node = node.this if isinstance(node, exp.Coalesce) else node
        is_base = isinstance(node, exp.Column) and node.name.startswith(f"{SECRET}b")
        if is_base and bases[int(node.name.removeprefix(f"{SECRET}b"))].is_count:
            found[i] = bases[int(node.name.removeprefix(f"{SECRET}b"))]
    return found


def _inferred(execution: Execution) -> tuple[str, ...]:
    scans = execution.statement.scans
    if not any(scan.keys or len(c.attributes) > 1 for scan in scans for c in scan.clusters):
        return ()
    attributes = {a for scan in execution.statement.scans for a in scan.attributes}
    note = inferred_note(execution.database.view, attributes)
    return () if note is None else (note,)


def _notes(execution: Execution) -> list[str]:
    """Sentences on bins that are cut, values beyond bounds, and undeclared values."""
    notes: list[str] = []
    attributes = execution.database.schema.attributes
    for scan in execution.statement.scans:
        for attribute, codes in ((attributes[a], codes) for a, codes in scan.cuts.bins.items() if codes):
            labels = attribute.value_labels()
            shown = ", ".join(labels[code] for code in sorted(codes)[:_MAX_NAMED_BINS])
            more = f" and {len(codes) - _MAX_NAMED_BINS} more" if len(codes) > _MAX_NAMED_BINS else ""
            notes.append(
                f"The statement cuts bins of {attribute.name} ({shown}{more}); the view knows one count for "
                "each, so intervals cover whatever lies on either side. Ask for whole bins to be sure."
            )
        notes += [note_beyond(attributes[a]) for a in scan.cuts.beyond]
        for attribute in (attributes[a] for a in scan.cuts.other):
            assert isinstance(attribute, Category)
            notes.append(
                f"{note_on_other(attribute)} Whether they satisfy the condition is unknown, and intervals "
                "reach over them."
            )
    return list(dict.fromkeys(notes))


def _seed(execution: Execution) -> int:
    text = execution.statement.tree.sql("duckdb").replace(SECRET, "")
    return seed_of(execution.database.checksum, text)


def _free(name: str, taken: set[str]) -> str:
    own, n = name, 1
    while own in taken:
        n += 1
        own = f"{name}_{n}"
    return own


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
