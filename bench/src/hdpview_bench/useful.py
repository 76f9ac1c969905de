"""Everyday questions, and how many answers are useful as they are.

A view is asked five kinds of questions in SQL: counts of groups, rates by group, shares of all records,
comparisons of two rates, and trends over ranges of a number. An estimate is close if it is within 10% of the
truth or within one point: 1% of all records for a count, 0.01 for a share. An answer is useful if its
interval is that narrow, or if it shows which of two rates is larger.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from hdpview.build import build
from hdpview.domain import Integer
from hdpview.pview import PView
from hdpview.query.errors.ends import ONE_POINT, TEN_PERCENT, usefulness
from hdpview_bench.asked import Recoded
from hdpview_bench.coverage import recoded_table
from hdpview_bench.datasets import dataset_title

DATASETS = ("adult", "nycflights", "traffic", "electricity")
N_QUESTIONS = 75  # questions per table
_MIN_RECORDS = 100  # minimum records of a group that people ask about
_N_RANGES = 4  # number of ranges of a trend
Flags = NDArray[np.bool_]
Row = dict[str, Any]


class Question(NamedTuple):
    """An expression in SQL and its true value. unit: all records for a count, 1 for a share."""

    sql: str
    exact_truth: float
    unit: float


@dataclass(frozen=True, eq=False)
class _Table:
    """A table in codes, and a generator of questions about it."""

    recoded: Recoded
    rng: Generator

    def records(self, *conditions: Flags) -> float:
        """Records that satisfy all conditions."""
        inside = np.logical_and.reduce([np.ones(len(self.recoded.counts.exact_counts), bool), *conditions])
        return float(self.recoded.counts.exact_counts[inside].sum())

    def attributes(self) -> tuple[int, int]:
        """Two attributes."""
        a, b = self.rng.permutation(len(self.recoded.schema))[:2].tolist()
        return a, b

    def value(self, a: int, *conditions: Flags) -> tuple[str, Flags]:
        """A condition on an attribute: the value of a random record among the given ones."""
        counts = self.recoded.counts
        weight = counts.exact_counts * np.logical_and.reduce([counts.exact_counts > 0, *conditions])
        row = int(self.rng.choice(len(weight), p=weight / weight.sum()))
        code = int(counts.exact_codes[row, a])
        return f"a{a} = {self.recoded.literal(a, code)}", counts.exact_codes[:, a] == code


def _count(*conditions: str) -> str:
    return f"COUNT(*) FILTER (WHERE {' AND '.join(conditions)})"


def _groups(table: _Table, total: float) -> Iterator[Question]:
    """Ask how many records of a group satisfy a condition."""
    a, b = table.attributes()
    (group, in_group), (other, satisfy) = table.value(a), table.value(b)
    yield Question(_count(group, other), table.records(in_group, satisfy), total)


def _rates(table: _Table, _: float) -> Iterator[Question]:
    """Ask which share of a group satisfies a condition."""
    a, b = table.attributes()
    (group, in_group), (other, satisfy) = table.value(a), table.value(b)
    if table.records(in_group) >= _MIN_RECORDS:
        rate = table.records(in_group, satisfy) / table.records(in_group)
        yield Question(f"{_count(group, other)} / {_count(group)}", rate, 1.0)


def _shares(table: _Table, _: float) -> Iterator[Question]:
    """Ask which share of all records satisfies two conditions."""
    a, b = table.attributes()
    (group, in_group), (other, satisfy) = table.value(a), table.value(b)
    yield Question(
        f"{_count(group, other)} / COUNT(*)", table.records(in_group, satisfy) / table.records(), 1.0
    )


def _comparisons(table: _Table, _: float) -> Iterator[Question]:
    """Ask by how much the rates of two groups differ."""
    a, b = table.attributes()
    (one, in_one), (other, satisfy) = table.value(a), table.value(b)
    if table.records(~in_one) < _MIN_RECORDS or table.records(in_one) < _MIN_RECORDS:
        return
    two, in_two = table.value(a, ~in_one)
    if table.records(in_two) >= _MIN_RECORDS:
        rates = [table.records(own, satisfy) / table.records(own) for own in (in_one, in_two)]
        yield Question(
            f"{_count(one, other)} / {_count(one)} - {_count(two, other)} / {_count(two)}",
            rates[0] - rates[1],
            1.0,
        )


def _trends(table: _Table, total: float) -> Iterator[Question]:
    """Ask for the number of records in each of several ranges of a number."""
    schema = table.recoded.schema
    a, b = table.attributes()
    if not isinstance(schema.attributes[a], Integer) or schema.sizes[a] < _N_RANGES:
        return
    other, satisfy = table.value(b)
    ends = np.linspace(0, schema.sizes[a], _N_RANGES + 1).astype(int).tolist()
    codes = table.recoded.counts.exact_codes[:, a]
    for low, high in itertools.pairwise(ends):
        inside = (codes >= low) & (codes < high)
        yield Question(
            _count(f"a{a} BETWEEN {low} AND {high - 1}", other), table.records(inside, satisfy), total
        )


KINDS: dict[str, Callable[[_Table, float], Iterator[Question]]] = {
    "groups": _groups,
    "rates": _rates,
    "shares": _shares,
    "comparisons": _comparisons,
    "trends": _trends,
}


def useful_rows(
    datasets: tuple[str, ...], epsilon: str, n_questions: int = N_QUESTIONS, data_dir: Path | None = None
) -> list[Row]:
    """A row per table and kind of question: shares of answers that held, were close, and are useful."""
    rows = []
    for dataset in datasets:
        recoded = recoded_table(dataset, data_dir)
        view = build(recoded.exact_rows(), recoded.schema, epsilon, threads=1, ledger=False)
        rows += asked_rows(view, recoded, dataset, n_questions)
    return rows


def asked_rows(view: PView, recoded: Recoded, dataset: str, n_questions: int = N_QUESTIONS) -> list[Row]:
    """The rows of one table."""
    table, rows = _Table(recoded, np.random.default_rng(0)), []
    total = table.records()
    for kind, ask in KINDS.items():
        questions: list[Question] = []
        for _ in range(50 * n_questions):  # some draws yield no question
            if len(questions) >= n_questions // len(KINDS):
                break
            questions += ask(table, total)
        columns = ", ".join(f"{one.sql} AS x{i}" for i, one in enumerate(questions))
        answer = view.sql(f"SELECT {columns} FROM view", as_="pyarrow").to_pylist()[0]
        names = [(f"x{i}", f"x{i}_lower", f"x{i}_upper") for i in range(len(questions))]
        ends = np.array([[answer[name] for name in own] for own in names], dtype=np.float64)
        truth, unit = (np.array([one[i] for one in questions]) for i in (1, 2))
        off = np.abs(ends[:, 0] - truth)
        words = usefulness(ends[:, 0], ends[:, 1], ends[:, 2], unit, is_difference=kind == "comparisons")
        rows.append(
            {
                "dataset": dataset_title(dataset),
                "kind": kind,
                "questions": len(questions),
                "held": float(((ends[:, 1] <= truth) & (truth <= ends[:, 2])).mean()),
                "close": float((off <= np.maximum(TEN_PERCENT * np.abs(truth), ONE_POINT * unit)).mean()),
                **{word: float((words == word).mean()) for word in ("useful", "rough", "unknown")},
            }
        )
    return rows


def summary(rows: list[Row]) -> str:
    """One sentence over all tables."""
    weight = [row["questions"] for row in rows]
    held, close, useful = (
        float(np.average([row[name] for row in rows], weights=weight)) for name in ("held", "close", "useful")
    )
    return (
        f"Of {sum(weight):,} everyday questions {held:.0%} were held by their interval, {close:.0%} of the "
        f"estimates were within 10% or one point, and {useful:.0%} of the answers are useful as they stand."
    )
