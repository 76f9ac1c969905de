"""Answers to the page's requests, as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from hdpview.domain import Attribute, Boolean, Datetime, Ordered
from hdpview.pview import PView
from hdpview.query.errors.ends import ONE_POINT, TEN_PERCENT, Estimates
from hdpview.query.evaluate import run
from hdpview.query.interval.answers import Answer, answer, notes_on
from hdpview.query.interval.groups import Groups
from hdpview.query.interval.statistics import (
    FilteredItselfError,
    Histogram,
    compare,
    compare_shares,
    histograms,
    value_shares,
)
from hdpview.query.question.where import attribute_number, boxes_of, name_in_sql, two_attribute_numbers

Json = dict[str, Any]
_UNEQUAL = 1.25  # hours; months differ in length by less
MAX_ROWS = 20_000  # of one result
_LISTED = ("epsilon", "delta", "private", "n_components", "n_attributes", "estimated_records")


class Statements:
    """SQL over the views in these files; a child process uses it to evaluate untrusted statements."""

    def __init__(self, paths: Mapping[str, str]) -> None:
        self._views = {name: PView.open(path) for name, path in paths.items()}
        for view in self._views.values():
            condition = f"{name_in_sql(view.schema.names[0])} IS NULL"
            run(view, f"SELECT COUNT(*) FROM view WHERE {condition}")

    def sql(self, name: str, sql: str, confidence: float) -> Json:
        """The result of a statement, as `hdpview query --format json` prints it."""
        view = self._views[name]
        result = run(view, sql, confidence)
        rows = result.to_rows()
        return {
            "columns": result.names,
            "aggregates": list(result.aggregates),
            "rows": [{key: _plain(value) for key, value in row.items()} for row in rows[:MAX_ROWS]],
            "cut_off": len(rows) > MAX_ROWS,
            "notes": list(result.notes),
            "inferred": list(result.inferred),
            "confidence": confidence,
            **dict(zip(("epsilon", "delta"), map(float, view.manifest.total), strict=True)),
        }

    def table(self, name: str, sql: str, confidence: float, kind: str) -> bytes:
        """The result of a statement with its intervals, as a CSV or Parquet file."""
        table, target = run(self._views[name], sql, confidence).to_arrow(), pa.BufferOutputStream()
        (pq.write_table if kind == "parquet" else pa_csv.write_csv)(table, target)
        content: bytes = target.getvalue().to_pybytes()
        return content


def describe(name: str, view: PView) -> Json:
    """A view's entry in the list of views."""
    facts = view.info()
    return {"name": name, **{key: facts[key] for key in _LISTED}}


def describe_schema(name: str, view: PView) -> Json:
    """Public facts about a view: its guarantee and budget, and its attributes with their values."""
    return {
        "name": name,
        **view.info(),
        "usefulness": [TEN_PERCENT, ONE_POINT],
        "made_of": "block" if view.is_blocks else "component",
        "attributes": [_attribute(attribute) for attribute in view.schema],
    }


def _attribute(attribute: Attribute) -> Json:
    described: Json = {
        "name": attribute.name,
        "sql": name_in_sql(attribute.name),
        "kind": "datetime" if isinstance(attribute, Datetime) else attribute.kind,
        "nullable": attribute.nullable,
        "label": attribute.label,
        "unit": attribute.unit,
        "labels": attribute.labels(),
        "strays": attribute.describe_fallbacks(),
    }
    if isinstance(attribute, Ordered):
        # Bin i contains values from edges[i] to below edges[i + 1]; datetimes are microseconds since 1970.
        described["edges"] = attribute.edges.tolist()
        widths = np.diff(attribute.edges)[: max(1, attribute.n_values - 1)]  # the last may be cut short
        described["unequal"] = bool(widths.max() > _UNEQUAL * widths.min())
    elif isinstance(attribute, Boolean):
        described["literals"] = ["FALSE", "TRUE"]
    else:
        described["literals"] = ["'" + label.replace("'", "''") + "'" for label in attribute.value_labels()]
    return described


def histogram_answer(
    view: PView,
    where: str | None,
    own: Mapping[str, str | None],
    confidence: float,
    attributes: Sequence[str] | None = None,
    shares: bool = False,
) -> Json:
    """The count under a condition and the histograms of some attributes, of all by default; for those in
    `own`, under the condition given there; with `shares`, also the shares of each histogram. `filtered`: the
    attributes in the condition.
    """
    boxes = boxes_of(where, view.schema)
    wanted = view.schema.names if attributes is None else list(dict.fromkeys(attributes))
    charts = histograms(view, where, [name for name in wanted if name not in own], confidence=confidence)
    for name, condition in own.items():
        attribute_number(name, view.schema)
        if name in wanted:
            charts += histograms(view, condition, [name], confidence=confidence)
    by_name = {each.attribute.name: _histogram(each) for each in charts}
    if shares:
        for name, chart in by_name.items():
            chart["share"] = _ends(value_shares(view, name, own.get(name, where), confidence))
    return {
        "count": _answer(answer(view, [boxes], confidence)[0]),
        "histograms": by_name,
        "filtered": [view.schema.names[a] for a in sorted({a for box in boxes for a in box})],
        "confidence": confidence,
    }


def warm_up(views: Iterable[PView]) -> None:
    """Answer a gesture in advance, so that kernels are compiled and blocks are laid out."""
    for view in views:
        view.info()
        name = view.schema.names[0]
        histogram_answer(view, None, {name: None}, 0.95)


def pair_answer(view: PView, where: str | None, first: str, second: str, confidence: float) -> Json:
    """Counts of all combinations of two attributes' values: rows by the first, columns by the second."""
    numbers = two_attribute_numbers(first, second, view.schema)
    boxes = boxes_of(where, view.schema)
    groups = Groups(view, boxes, numbers)
    answer: Json = {"notes": list(notes_on(boxes, view.schema))}
    for key, column in groups.counts(confidence)._asdict().items():
        grid = np.zeros(groups.shape)
        grid.reshape(-1)[groups.cells] = column
        answer[key] = grid.round(2).tolist()
    return answer


def compare_answer(view: PView, first: str | None, second: str | None, confidence: float) -> Json:
    """Two counts side by side, and whether they differ."""
    comparison = compare(view, first, second, confidence=confidence)
    return {
        "first": _answer(comparison.first),
        "second": _answer(comparison.second),
        "difference": comparison.difference,
        "difference_interval": list(comparison.difference_interval),
        "ratio": _plain(comparison.ratio),
        "ratio_interval": [_plain(end) for end in comparison.ratio_interval],
        "is_real": comparison.is_real,
        "words": str(comparison),
    }


def shares_answer(
    view: PView, first: str | None, second: str | None, attribute: str, confidence: float
) -> Json:
    """The shares of an attribute's values under two conditions, and their differences, each with its
    interval; or the reason for their absence.
    """
    try:
        ends = compare_shares(view, attribute, first, second, confidence)
    except FilteredItselfError as problem:
        return {"reason": str(problem)}
    return {key: _ends(getattr(ends, key)) for key in ("first", "second", "difference")}


def _ends(estimates: Estimates) -> Json:
    """Estimates and the ends of their intervals as lists."""
    return {key: list(map(_plain, column.tolist())) for key, column in estimates._asdict().items()}


def _answer(answer: Answer) -> Json:
    return {
        "estimate": answer.estimate,
        "lower": answer.lower,
        "upper": answer.upper,
        "guaranteed": list(answer.guaranteed),
        "basis": answer.basis,
        "notes": list(answer.notes),
    }


def _histogram(histogram: Histogram) -> Json:
    return {key: getattr(histogram, key).round(3).tolist() for key in ("estimate", "lower", "upper")}


def _plain(value: Any) -> Any:
    """A value as JSON allows it: no NaN or infinity, and datetimes as text."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)
