"""Typical kinds of questions, asked through a view's public interface, with the true answers.

Tables are recoded first: attributes are named a0, a1, …, numbers become codes, and categories become codes as
texts. So the same conditions work for every table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.random import Generator
from numpy.typing import NDArray

from hdpview.counts.sparse import SparseCounts
from hdpview.domain import Attribute, Category, Integer, Schema
from hdpview.domain.table_shapes import CodeBoxes
from hdpview.privacy.exact import unprotected
from hdpview.pview import PView
from hdpview_bench.questions import (
    codes_of_records,
    populated_cells,
    random_attributes,
    random_cells,
    random_ranges,
)
from hdpview_bench.relations import LEAST_RECORDS, has_mean

_PER_STATEMENT = 20
# Expected number of groups with enough records in a group-by; pairs are drawn accordingly.
_GROUPS_PER_PAIR = 10

Floats = NDArray[np.float64]
Condition = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Asked:
    """True answers and answers of a view, shape (n,). Intervals have shape (n, 2), NaN if there is none."""

    exact_truth: Floats
    estimate: Floats
    typical: Floats
    guaranteed: Floats


@dataclass(frozen=True, eq=False)
class Recoded:
    """A recoded table for questions. Contains exact counts, so for benchmarks only."""

    counts: SparseCounts
    schema: Schema

    @classmethod
    def of(cls, counts: SparseCounts) -> Recoded:
        return cls(counts, Schema([_recoded(i, one) for i, one in enumerate(counts.schema)]))

    def exact_rows(self) -> pa.Table:
        """The records, to build a view of."""
        rows = np.repeat(self.counts.exact_codes, self.counts.exact_counts, axis=0)
        columns = {}
        for a, attribute in enumerate(self.schema):
            column = pa.array(rows[:, a])
            if isinstance(attribute, Category):
                texts = pa.array(list(attribute.values))
                column = pa.DictionaryArray.from_arrays(pa.array(rows[:, a].astype(np.int32)), texts)
                column = column.cast(pa.string())
            columns[attribute.name] = column
        return pa.table(columns)

    def condition(self, attribute: int, lower: int, upper: int) -> tuple[str, Any]:
        """A half-open range of codes as an entry of a dictionary of conditions."""
        one = self.schema.attributes[attribute]
        if isinstance(one, Category):
            return one.name, [str(code) for code in range(lower, upper)]
        return one.name, (lower, upper - 1)

    def literal(self, attribute: int, code: int) -> str:
        """A code as SQL writes it."""
        return f"'{code}'" if isinstance(self.schema.attributes[attribute], Category) else str(code)

    def exact_table(self, a: int, b: int) -> Floats:
        """Records by the codes of two attributes."""
        sizes = self.schema.sizes[a], self.schema.sizes[b]
        codes = self.counts.exact_codes
        place = codes[:, a].astype(np.int64) * sizes[1] + codes[:, b]
        table = np.bincount(place, self.counts.exact_counts.astype(np.float64), sizes[0] * sizes[1])
        return table.astype(np.float64).reshape(sizes)


def _recoded(number: int, attribute: Attribute) -> Attribute:
    if has_mean(attribute):
        return Integer(name=f"a{number}", min=0, max=attribute.size - 1)
    return Category(name=f"a{number}", values=tuple(map(str, range(attribute.size))))


@dataclass(frozen=True)
class Asking:
    """The inputs of a kind of question."""

    view: PView
    table: Recoded
    n_questions: int
    confidence: float
    rng: Generator


def _count_all(asking: Asking) -> Asked:
    nothing = np.zeros((1, 0), dtype=np.int64)
    return _counted(asking, CodeBoxes(nothing, nothing, nothing))


def _ranges(k: int) -> Callable[[Asking], Asked]:
    return lambda asking: _counted(
        asking, random_ranges(asking.table.schema.sizes, k, asking.n_questions, asking.rng)
    )


def _cells(k: int) -> Callable[[Asking], Asked]:
    return lambda asking: _counted(
        asking, random_cells(asking.table.schema.sizes, k, asking.n_questions, asking.rng)
    )


def _populated(k: int) -> Callable[[Asking], Asked]:
    return lambda asking: _counted(
        asking, populated_cells(asking.table.counts, k, asking.n_questions, asking.rng)
    )


def _counted(asking: Asking, boxes: CodeBoxes) -> Asked:
    """Counts of boxes, by `count_many`."""
    wheres: list[Condition | None] = [
        dict(asking.table.condition(*part) for part in zip(*parts, strict=True)) or None
        for parts in zip(boxes.attribute.tolist(), boxes.lower.tolist(), boxes.upper.tolist(), strict=True)
    ]
    answers = asking.view.count_many(wheres, confidence=asking.confidence)
    if boxes.attribute.shape[1]:
        truth = unprotected(asking.table.counts.exact_box_counts(boxes)).astype(np.float64)
    else:
        truth = np.array([float(asking.table.counts.exact_counts.sum())])
    return Asked(truth, answers.estimate, answers.typical, answers.guaranteed)


def _means(asking: Asking) -> Asked:
    """Means of a number by group, in standard deviations of that number."""

    def ask(a: int, b: int) -> tuple[str, Floats]:
        table, values = asking.table.exact_table(a, b), np.arange(asking.table.schema.sizes[b])
        scale = _deviation(table, values)
        truth = table @ values / np.maximum(table.sum(axis=1), 1.0) / scale
        return f"AVG(a{b}) / {scale!r}", truth

    return _grouped(asking, ask, has_mean)


def _sums(asking: Asking) -> Asked:
    """Sums of a number by group, in records of the number's standard deviation."""

    def ask(a: int, b: int) -> tuple[str, Floats]:
        table, values = asking.table.exact_table(a, b), np.arange(asking.table.schema.sizes[b])
        scale = _deviation(table, values)
        return f"SUM(a{b}) / {scale!r}", table @ values / scale

    return _grouped(asking, ask, has_mean)


def _medians(asking: Asking) -> Asked:
    """Medians of a number by group, in standard deviations of that number."""

    def ask(a: int, b: int) -> tuple[str, Floats]:
        table, values = asking.table.exact_table(a, b), np.arange(asking.table.schema.sizes[b])
        scale = _deviation(table, values)
        reached = np.cumsum(table, axis=1) >= table.sum(axis=1, keepdims=True) / 2
        return f"MEDIAN(a{b}) / {scale!r}", values[reached.argmax(axis=1)] / scale

    return _grouped(asking, ask, has_mean)


def _deviation(table: Floats, values: NDArray[np.int64]) -> float:
    """Standard deviation of the values across a table of records; 1 if it is 0."""
    return float(np.sqrt(np.cov(values, fweights=table.sum(axis=0).astype(np.int64)))) or 1.0


def _of_value(aggregate: str, truth_of: Callable[[Floats, Floats], Floats]) -> Callable[[Asking], Asked]:
    """An aggregate, by group, of the count of a value, which is that of a random record.

    aggregate: in SQL, {n} stands for the count. truth_of: computes it from that count and the size of each
    group.
    """

    def ask_all(asking: Asking) -> Asked:
        def ask(a: int, b: int) -> tuple[str, Floats]:
            table = asking.table.exact_table(a, b)
            code = int(asking.rng.choice(table.shape[1], p=table.sum(axis=0) / table.sum()))
            count = f"COUNT(*) FILTER (WHERE a{b} = {asking.table.literal(b, code)})"
            return aggregate.format(n=count), truth_of(table[:, code], np.maximum(table.sum(axis=1), 1.0))

        return _grouped(asking, ask, lambda _: True)

    return ask_all


def _ranks(count: Floats, _: Floats) -> Floats:
    """The largest count has rank 1."""
    ranks: Floats = 1.0 + (count[None] > count[:, None]).sum(axis=1)
    return ranks


def _grouped(
    asking: Asking, ask: Callable[[int, int], tuple[str, Floats]], has_answer: Callable[[Attribute], bool]
) -> Asked:
    """An aggregate of one attribute by the values of another, over random pairs, for groups with enough
    records.

    ask: the aggregate in SQL and its true values, shape (size of a,). has_answer: which attributes it
    accepts.
    """
    schema = asking.table.schema
    pairs = [
        (a, b)
        for a in range(len(schema))
        for b in range(len(schema))
        if a != b and has_answer(schema.attributes[b])
    ]
    asking.rng.shuffle(pairs)
    parts = []
    for a, b in pairs[: max(1, asking.n_questions // _GROUPS_PER_PAIR)]:
        aggregate, truth = ask(a, b)
        groups = np.flatnonzero(asking.table.exact_table(a, b).sum(axis=1) >= LEAST_RECORDS)
        statement = f"SELECT a{a} AS code, {aggregate} AS x FROM view GROUP BY a{a}"
        answers = [
            _by_code(_run(asking, statement, interval), groups) for interval in ("typical", "guaranteed")
        ]
        parts.append(Asked(truth[groups], answers[0][:, 0], answers[0][:, 1:], answers[1][:, 1:]))
    return together(parts)


def _run(asking: Asking, statement: str, interval: Any) -> pa.Table:
    return asking.view.sql(statement, confidence=asking.confidence, interval=interval, as_="pyarrow")


def _by_code(table: pa.Table, groups: NDArray[np.int64]) -> Floats:
    """Estimate, lower and upper of these groups, shape (n, 3); NaN if the view does not list a group."""
    columns = [table[name].to_pylist() for name in ("code", "x", "x_lower", "x_upper")]
    known = {int(code): numbers for code, *numbers in zip(*columns, strict=True)}
    missing = [None, None, None]
    return np.array([known.get(int(code), missing) for code in groups], dtype=np.float64).reshape(-1, 3)


def _differences(asking: Asking) -> Asked:
    """Differences between the counts of two values of an attribute, under a condition on another. The values
    are those of random records.
    """
    counts = asking.table.counts
    attribute = random_attributes(len(counts.schema), 2, asking.n_questions, asking.rng)
    # Shape (n, 2 counts, 2 attributes): the second attribute has one code in both counts.
    code = np.stack([codes_of_records(counts, attribute, asking.rng) for _ in range(2)], axis=1)
    code[:, 1, 1] = code[:, 0, 1]
    differ = code[:, 0, 0] != code[:, 1, 0]
    attribute, code = attribute[differ], code[differ]
    sides = [CodeBoxes(attribute, code[:, side], code[:, side] + 1) for side in (0, 1)]
    truth = [unprotected(counts.exact_box_counts(boxes)).astype(np.float64) for boxes in sides]
    asked = [
        " - ".join(
            f"COUNT(*) FILTER (WHERE {_conjunction(asking.table, attribute[i], code[i, side])})"
            for side in (0, 1)
        )
        for i in range(len(attribute))
    ]
    answers = [
        np.concatenate(list(_in_batches(asking, asked, interval))) for interval in ("typical", "guaranteed")
    ]
    return Asked(truth[0] - truth[1], answers[0][:, 0], answers[0][:, 1:], answers[1][:, 1:])


def _conjunction(table: Recoded, attribute: NDArray[np.int64], code: NDArray[np.int64]) -> str:
    return " AND ".join(
        f"a{a} = {table.literal(a, c)}" for a, c in zip(attribute.tolist(), code.tolist(), strict=True)
    )


def _in_batches(asking: Asking, asked: Sequence[str], interval: str) -> Iterator[Floats]:
    """Estimate, lower and upper of each expression, shape (n, 3) per batch."""
    yield np.empty((0, 3))
    for first in range(0, len(asked), _PER_STATEMENT):
        batch = asked[first : first + _PER_STATEMENT]
        columns = ", ".join(f"{expression} AS x{i}" for i, expression in enumerate(batch))
        row = _run(asking, f"SELECT {columns} FROM view", interval).to_pylist()[0]
        names = [[f"x{i}", f"x{i}_lower", f"x{i}_upper"] for i in range(len(batch))]
        yield np.array([[row[name] for name in three] for three in names], dtype=np.float64)


def together(parts: Sequence[Asked]) -> Asked:
    """The questions of all parts."""
    one = np.concatenate([np.empty(0), *(part.exact_truth for part in parts)])
    estimate = np.concatenate([np.empty(0), *(part.estimate for part in parts)])
    ends = [
        np.concatenate([np.empty((0, 2)), *(getattr(part, name) for part in parts)])
        for name in ("typical", "guaranteed")
    ]
    return Asked(one, estimate, *ends)


KINDS: dict[str, Callable[[Asking], Asked]] = {
    "count-all": _count_all,
    **{f"range-{k}": _ranges(k) for k in (1, 2, 3, 4)},
    **{f"cell-{k}": _cells(k) for k in (1, 2, 3, 4)},
    **{f"populated-{k}": _populated(k) for k in (1, 2, 3, 4)},
    "mean": _means,
    "rate": _of_value("{n} / COUNT(*)", lambda count, size: count / size),
    "difference": _differences,
    "sum": _sums,
    "median": _medians,
    "share": _of_value("{n} / SUM({n}) OVER ()", lambda count, _: count / max(count.sum(), 1.0)),
    "rank": _of_value("RANK() OVER (ORDER BY {n} DESC)", _ranks),
}
# Statements whose intervals come from draws.
SQL_KINDS = ("mean", "rate", "difference", "share", "rank")


def n_attributes_of(kind: str) -> int:
    """Number of attributes that this kind of question needs."""
    if kind == "count-all":
        return 1
    return int(kind[-1]) if kind[-1].isdecimal() else 2
