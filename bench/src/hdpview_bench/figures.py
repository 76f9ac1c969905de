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
_COLOURS = "#1b2a41 #4c78a8 #f58518 #54a24b #e45756 #b279a2 #9d755d #72b7b2 #eeca3b #ff9da6 #bab0ac"
_DEVIATIONS = [0.0, 1e-9, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 1e9]
_DEVIATION_LABELS = ["0", *(f"≤{end:g}" for end in _DEVIATIONS[2:-1]), ">1000"]


def _named(row: Row) -> dict[str, Any]:
    """A row with display names, without the fields that a picture does not need."""
    return {
        "dataset": dataset_title(row["dataset"]),
        "method": METHOD_NAMES.get(row["method"], row["method"]),
        **{key: row[key] for key in ("workload", "rmse", "blocks")},
    }


def _chart(rows: Sequence[Row], **properties: Any) -> alt.Chart:
    """A chart of rows, coloured by method."""
    import altair as alt

    methods = list(dict.fromkeys(row["method"] for row in rows))
    scale = alt.Scale(domain=methods, range=_COLOURS.split()[: len(methods)])
    chart = alt.Chart(alt.Data(values=list(rows)), **properties)
    return chart.encode(color=alt.Color("method:N", title=None, scale=scale))


def _logarithmic(rows: Sequence[Row], name: str, title: str) -> dict[str, Any]:
    """A logarithmic axis with the powers of ten between the values."""
    import altair as alt

    ends = [math.log10(row[name]) for row in rows] or [0.0]
    powers = [10.0**power for power in range(math.floor(min(ends)), math.ceil(max(ends)) + 1)]
    axis = alt.Axis(values=powers, format="~g")
    return {"shorthand": f"{name}:Q", "scale": alt.Scale(type="log"), "title": title, "axis": axis}


def relative_errors(rows: Sequence[Row]) -> alt.Chart:
    """Relative RMSE by dataset, a panel per workload; a point per method."""
    import altair as alt

    measured = [row for row in rows if row["relative_rmse"] is not None]
    shown = [{**_named(row), "times": min(row["relative_rmse"], MOST_TIMES)} for row in measured]
    order = in_order([row["dataset"] for row in shown])
    workloads = list(dict.fromkeys(row["workload"] for row in shown))
    chart = _chart(shown).mark_point(filled=True, size=45, opacity=0.85)
    return chart.encode(
        x=alt.X("dataset:N", sort=order, title=None, axis=alt.Axis(labelAngle=-40)),
        y=alt.Y(**_logarithmic(shown, "times", "RMSE relative to HDPView")),
        shape=alt.Shape("method:N", legend=None),
        facet=alt.Facet("workload:N", columns=4, title=None, sort=workloads),
    ).properties(width=165, height=150)


def numbers_of_blocks(rows: Sequence[Row]) -> alt.Chart:
    """Blocks by dataset and method."""
    import altair as alt

    shown = [_named(row) for row in rows if row["blocks"]]
    order = in_order([row["dataset"] for row in shown])
    chart = _chart(shown).mark_point(filled=True, size=70)
    return chart.encode(
        x=alt.X(**_logarithmic(shown, "blocks", "blocks")), y=alt.Y("dataset:N", sort=order, title=None)
    ).properties(width=520, height=220)


def deviation_histogram(deviations: Mapping[str, tuple[NDArray[np.float64], int]]) -> alt.Chart:
    """Blocks by their absolute deviation; blocks without records count as deviation 0."""
    import altair as alt

    rows = []
    for method, (deviation, n_empty) in deviations.items():
        counts = np.histogram(deviation, bins=_DEVIATIONS)[0]
        counts[0] += n_empty
        labelled = zip(_DEVIATION_LABELS, counts.tolist(), strict=True)
        rows += [{"method": method, "deviation": label, "blocks": n} for label, n in labelled if n]
    title, axis = "absolute deviation AE (records)", alt.Axis(labelAngle=0)
    return (
        _chart(rows)
        .mark_bar()
        .encode(
            x=alt.X("deviation:N", sort=_DEVIATION_LABELS, title=title, axis=axis),
            xOffset=alt.XOffset("method:N"),
            y=alt.Y("blocks:Q", scale=alt.Scale(type="symlog"), title="blocks"),
        )
        .properties(width=560, height=220)
    )


def lines(rows: Sequence[Row], x: str, x_title: str, panel: str, log: bool = False) -> alt.FacetChart:
    """RMSE against `x`, one line per method and one panel per `panel`, each with its own scales."""
    import altair as alt

    measured = [row for row in rows if row["rmse"] is not None]
    shown = [{x: row[x], **({panel: row[panel]} if panel in row else {}), **_named(row)} for row in measured]
    base = _chart(shown).encode(
        x=alt.X(f"{x}:Q", title=x_title, scale=alt.Scale(zero=False)),
        y=alt.Y("rmse:Q", title="RMSE", scale=alt.Scale(type="log") if log else alt.Scale(zero=True)),
    )
    scales = {"x": "independent", "y": "independent"}
    return _panels(base, panel, 2, width=300).resolve_scale(**scales)


def error_lines(rows: Sequence[Row], x: str, x_title: str) -> alt.FacetChart:
    """RMSE in percent of the rows, both axes logarithmic: one line per method, one panel per workload."""
    import altair as alt

    measured = [row for row in rows if row.get("rmse_percent")]
    shown = [{**_named(row), x: row[x], "percent": row["rmse_percent"]} for row in measured]
    base = _chart(shown).encode(
        x=alt.X(**_logarithmic(shown, x, x_title)),
        y=alt.Y(**_logarithmic(shown, "percent", "RMSE, % of the records")),
    )
    return _panels(base, "workload", 3, width=230)


def _panels(base: alt.Chart, panel: str, columns: int, width: int) -> alt.FacetChart:
    """Lines with points, a panel per value."""
    import altair as alt

    layered = alt.layer(base.mark_line(), base.mark_point(filled=True)).properties(width=width, height=190)
    return layered.facet(alt.Facet(f"{panel}:N", title=None, sort=None), columns=columns)


def partitions(bounds: Mapping[str, tuple[Ints, Ints]], side: int = 480) -> alt.HConcatChart:
    """Borders of two-attribute blocks, a square per release. The first attribute runs to the right.

    bounds: lower and upper codes of all blocks by name of the release, half-open, shape (n_blocks, 2).
    """
    import altair as alt

    squares = []
    for name, (lower, upper) in bounds.items():
        boxes = np.hstack([lower, upper]).tolist()
        rows = [dict(zip(("x", "y", "x2", "y2"), box, strict=True)) for box in boxes]
        x, y = (alt.Scale(domain=[0, int(most)], nice=False) for most in upper.max(axis=0))
        square = alt.Chart(alt.Data(values=rows), title=name, width=side, height=side)
        square = square.mark_rect(fill=None, stroke="#3c3c3c", strokeWidth=0.5)
        axes = alt.X("x:Q", scale=x, axis=None), alt.Y("y:Q", scale=y, axis=None)
        squares.append(square.encode(*axes, x2="x2:Q", y2="y2:Q"))
    return alt.hconcat(*squares)


def noise_and_bias(ratios: Sequence[float]) -> alt.Chart:
    """λ and δ of random converge against α, for a budget of 1."""
    import altair as alt

    rows = []
    for ratio in ratios:
        scale = 2 * (3 * ratio - 2) / (ratio - 1)
        pair = {"λ": scale, "δ": scale * math.log(ratio)}
        rows += [{"α": ratio, "what": what, "records": records} for what, records in pair.items()]
    chart = alt.Chart(alt.Data(values=rows), width=360, height=200).mark_line()
    return chart.encode(x="α:Q", y="records:Q", color=alt.Color("what:N", title=None))
