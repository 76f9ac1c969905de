"""Pictures of a view, in Altair: one description for notebook, PNG and SVG."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pyarrow as pa

from hdpview.domain import Ordered
from hdpview.query.answers import Where, answer
from hdpview.query.boxes import Box, intersect
from hdpview.query.conditions import Condition, missing
from hdpview.query.predicates import attribute_number, boxes_of
from hdpview.view.data import ViewData

if TYPE_CHECKING:
    import altair as alt

_BAR, _WHISKER = "#4c78a8", "#1b2a41"
_MOST_LABELS = 40


def histogram_table(view: ViewData, name: str, where: Where = None, confidence: float = 0.95) -> pa.Table:
    """Count per value of an attribute, with the noise interval around it: columns label, count, lower, upper."""
    a = attribute_number(name, view.schema)
    attribute = view.schema.attributes[a]
    if isinstance(attribute, Ordered):
        edges = attribute.edges.tolist()
        values = [Condition(ranges=(ends,)) for ends in itertools.pairwise(edges)]
    else:
        values = [Condition(codes=frozenset({code})) for code in range(attribute.n_values)]
    values += [missing(attribute)] if attribute.nullable else []
    base = boxes_of(where, view.schema)
    questions: list[list[Box]] = [intersect(base, [{a: value}]) for value in values]
    found = answer(view, questions, confidence)
    columns = {"label": attribute.labels(), "count": found.estimate, "lower": found.noise[:, 0], "upper": found.noise[:, 1]}
    return pa.table(columns)


def histogram(view: ViewData, name: str, where: Where = None, confidence: float = 0.95) -> alt.LayerChart:
    """Bars with whiskers: counts per value of an attribute, and how far noise alone may move them."""
    import altair as alt

    rows = histogram_table(view, name, where, confidence).to_pylist()
    labels = [row["label"] for row in rows]
    every = max(1, len(labels) // _MOST_LABELS)
    axis = alt.Axis(values=labels[::every], labelAngle=-45 if len(labels) > 12 else 0)
    base = alt.Chart(alt.Data(values=rows)).encode(x=alt.X("label:N", sort=labels, title=name, axis=axis))
    bars = base.mark_bar(color=_BAR).encode(y=alt.Y("count:Q", title="records"))
    whiskers = base.mark_rule(color=_WHISKER).encode(y="lower:Q", y2="upper:Q")
    return alt.layer(bars, whiskers).properties(width=720, height=280)
