"""The report's figures, in Altair, from rows of the comparison."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hdpview_bench.datasets import dataset_title, in_order
from hdpview_bench.leaves import Ints
from hdpview_bench.published import METHOD_NAMES

if TYPE_CHECKING:
    import altair as alt

Row = Mapping[str, Any]
MOST_TIMES = 100.0  # larger relative errors are cut off in the picture, as in the paper; the tables show them
_COLOURS = [
    "#1b2a41",
    "#4c78a8",
    "#f58518",
    "#54a24b",
    "#e45756",
    "#b279a2",
    "#9d755d",
    "#72b7b2",
    "#eeca3b",
    "#ff9da6",
    "#bab0ac",
]


def _named(row: Row) -> dict[str, Any]:
    """A row with display names, without the fields that a picture does not need."""
    return {
        "dataset": dataset_title(row["dataset"]),
        "method": METHOD_NAMES.get(row["method"], row["method"]),
        **{key: row[key] for key in ("workload", "rmse", "blocks")},
    }


def _powers(values: Sequence[float]) -> alt.Axis:
    """A logarithmic axis with the powers of ten between these values."""
    import altair as alt

    first, last = (
        math.floor(math.log10(min(values, default=1))),
        math.ceil(math.log10(max(values, default=1))),
    )
    return alt.Axis(values=[10.0**power for power in range(first, last + 1)], format="~g")


def relative_errors(rows: Sequence[Row]) -> alt.Chart:
    """Relative RMSE by dataset, a panel per workload; a point per method."""
    import altair as alt

    shown = [
        {**_named(row), "times": min(row["relative_rmse"], MOST_TIMES)}
        for row in rows
        if row["relative_rmse"] is not None
    ]
    return (
        alt.Chart(alt.Data(values=shown))
        .mark_point(filled=True, size=45, opacity=0.85)
        .encode(
            x=alt.X(
                "dataset:N",
                sort=in_order([row["dataset"] for row in shown]),
                title=None,
                axis=alt.Axis(labelAngle=-40),
            ),
            y=alt.Y(
                "times:Q",
                scale=alt.Scale(type="log"),
                title="RMSE relative to HDPView",
                axis=_powers([row["times"] for row in shown]),
            ),
            color=_by_method(shown),
            shape=alt.Shape("method:N", legend=None),
            facet=alt.Facet(
                "workload:N",
                columns=4,
                title=None,
                sort=list(dict.fromkeys(row["workload"] for row in shown)),
            ),
        )
        .properties(width=165, height=150)
    )


def _by_method(rows: Sequence[Row]) -> alt.Color:
    import altair as alt

    methods = list(dict.fromkeys(row["method"] for row in rows))
    return alt.Color("method:N", title=None, scale=alt.Scale(domain=methods, range=_COLOURS[: len(methods)]))


def numbers_of_blocks(rows: Sequence[Row]) -> alt.Chart:
    """Blocks by dataset and method."""
    import altair as alt

    shown = [_named(row) for row in rows if row["blocks"]]
    return (
        alt.Chart(alt.Data(values=shown))
        .mark_point(filled=True, size=70)
        .encode(
            x=alt.X(
                "blocks:Q",
                scale=alt.Scale(type="log"),
                title="blocks",
                axis=_powers([row["blocks"] for row in shown]),
            ),
            y=alt.Y("dataset:N", sort=in_order([row["dataset"] for row in shown]), title=None),
            color=_by_method(shown),
        )
        .properties(width=520, height=220)
    )


def deviation_histogram(deviations: Mapping[str, tuple[NDArray[np.float64], int]]) -> alt.Chart:
    """Blocks by their absolute deviation; blocks without records count as deviation 0."""
    import altair as alt

    edges = [0.0, 1e-9, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 1e9]
    labels = ["0", "≤1", "≤2", "≤5", "≤10", "≤20", "≤50", "≤100", "≤200", "≤500", "≤1000", ">1000"]
    rows = []
    for method, (deviation, n_empty) in deviations.items():
        counts = np.histogram(deviation, bins=edges)[0]
        counts[0] += n_empty
        rows += [
            {"method": method, "deviation": label, "blocks": int(n)}
            for label, n in zip(labels, counts, strict=True)
            if n
        ]
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_bar()
        .encode(
            x=alt.X(
                "deviation:N",
                sort=labels,
                title="absolute deviation AE (records)",
                axis=alt.Axis(labelAngle=0),
            ),
            xOffset=alt.XOffset("method:N"),
            y=alt.Y("blocks:Q", scale=alt.Scale(type="symlog"), title="blocks"),
            color=_by_method(rows),
        )
        .properties(width=560, height=220)
    )


def lines(rows: Sequence[Row], x: str, x_title: str, panel: str, log: bool = False) -> alt.Chart:
    """RMSE against `x`, one line per method and one panel per `panel`, each with its own scales."""
    import altair as alt

    shown = [
        {**_named(row), x: row[x], panel: _named(row).get(panel) or row[panel]}
        for row in rows
        if row["rmse"] is not None
    ]
    base = alt.Chart(alt.Data(values=shown)).encode(
        x=alt.X(f"{x}:Q", title=x_title, scale=alt.Scale(zero=False)),
        y=alt.Y("rmse:Q", title="RMSE", scale=alt.Scale(type="log") if log else alt.Scale(zero=True)),
        color=_by_method(shown),
    )
    layered = alt.layer(base.mark_line(), base.mark_point(filled=True)).properties(width=300, height=190)
    return layered.facet(alt.Facet(f"{panel}:N", title=None, sort=None), columns=2).resolve_scale(
        x="independent", y="independent"
    )


def error_lines(rows: Sequence[Row], x: str, x_title: str) -> alt.FacetChart:
    """RMSE in percent of the rows, both axes logarithmic: one line per method, one panel per workload."""
    import altair as alt

    shown = [
        {**_named(row), x: row[x], "percent": row["rmse_percent"]} for row in rows if row.get("rmse_percent")
    ]
    base = alt.Chart(alt.Data(values=shown)).encode(
        x=alt.X(
            f"{x}:Q", title=x_title, scale=alt.Scale(type="log"), axis=_powers([row[x] for row in shown])
        ),
        y=alt.Y(
            "percent:Q",
            title="RMSE, % of the records",
            scale=alt.Scale(type="log"),
            axis=_powers([row["percent"] for row in shown]),
        ),
        color=_by_method(shown),
    )
    layered = alt.layer(base.mark_line(), base.mark_point(filled=True)).properties(width=230, height=190)
    return layered.facet(alt.Facet("workload:N", title=None, sort=None), columns=3)


def partitions(bounds: Mapping[str, tuple[Ints, Ints]], side: int = 480) -> alt.HConcatChart:
    """Borders of two-attribute blocks, a square per release. The first attribute runs to the right.

    bounds: lower and upper codes of all blocks by name of the release, half-open, shape (n_blocks, 2).
    """
    import altair as alt

    squares = []
    for name, (lower, upper) in bounds.items():
        rows = [
            {"x": x1, "y": y1, "x2": x2, "y2": y2}
            for (x1, y1), (x2, y2) in zip(lower.tolist(), upper.tolist(), strict=True)
        ]
        ends = {
            axis: alt.Scale(domain=[0, int(upper[:, a].max())], nice=False) for a, axis in enumerate("xy")
        }
        squares.append(
            alt.Chart(alt.Data(values=rows), title=name)
            .mark_rect(fill=None, stroke="#3c3c3c", strokeWidth=0.5)
            .encode(
                x=alt.X("x:Q", scale=ends["x"], axis=None),
                y=alt.Y("y:Q", scale=ends["y"], axis=None),
                x2="x2:Q",
                y2="y2:Q",
            )
            .properties(width=side, height=side)
        )
    return alt.hconcat(*squares)


def noise_and_bias(ratios: Sequence[float]) -> alt.Chart:
    """λ and δ of random converge against α, for a budget of 1."""
    import altair as alt

    rows = []
    for ratio in ratios:
        scale = 2 * (3 * ratio - 2) / (ratio - 1)
        rows += [
            {"α": ratio, "what": "λ", "records": scale},
            {"α": ratio, "what": "δ", "records": scale * float(np.log(ratio))},
        ]
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_line()
        .encode(x="α:Q", y="records:Q", color=alt.Color("what:N", title=None))
    )
    return chart.properties(width=360, height=200)
