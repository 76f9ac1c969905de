"""Pictures of a view, in Altair: one description for notebook, PNG and SVG."""

from __future__ import annotations

import json
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hdpview.domain import Attribute
from hdpview.errors import QueryError, check_installed
from hdpview.query.estimate.estimates import grid_estimates
from hdpview.query.interval.answers import IntervalKind
from hdpview.query.interval.statistics import histograms
from hdpview.query.question.quantities import count_of
from hdpview.query.question.where import Where, boxes_of, two_attribute_numbers
from hdpview.view.blocks import Blocks
from hdpview.view.data import ViewData

if TYPE_CHECKING:
    import altair as alt

_BAR, _WHISKER, _LINE = "#4c78a8", "#1b2a41", "#f2f2f2"
_MOST_LABELS, _MOST_CELLS, _MOST_BLOCKS = 40, 40_000, 20_000
_RENDERED = (".png", ".svg", ".pdf")  # by vl-convert
_SUFFIXES = (*_RENDERED, ".html", ".json")


@dataclass(frozen=True)
class Plots:
    """Pictures of one view."""

    view: ViewData

    def histogram(
        self,
        attribute: str,
        where: Where = None,
        *,
        confidence: float = 0.95,
        interval: IntervalKind = "typical",
    ) -> alt.LayerChart:
        """Bars of counts per value of an attribute, with whiskers for the ends of the chosen interval."""
        import altair as alt

        (chart,) = histograms(self.view, where, [attribute], confidence=confidence, interval=interval)
        labels, *numbers = chart.attribute.labels(), chart.estimate, chart.lower, chart.upper
        rows = [
            {"label": label, "count": n, "lower": low, "upper": high}
            for label, n, low, high in zip(labels, *(each.tolist() for each in numbers), strict=True)
        ]
        base = alt.Chart(alt.Data(values=rows)).encode(
            x=alt.X("label:N", sort=labels, title=chart.attribute.name, axis=_axis(labels))
        )
        bars = base.mark_bar(color=_BAR).encode(y=alt.Y("count:Q", title="records"))
        whiskers = base.mark_rule(color=_WHISKER).encode(y="lower:Q", y2="upper:Q")
        return alt.layer(bars, whiskers).properties(width=720, height=280)

    def heatmap(self, x: str, y: str, where: Where = None) -> alt.Chart:
        """Counts of two attributes as shades."""
        import altair as alt

        numbers = two_attribute_numbers(x, y, self.view.schema)
        across, up = (self.view.schema.attributes[a] for a in numbers)
        if across.size * up.size > _MOST_CELLS:
            raise QueryError(
                f"A heat map of {across.size:,} × {up.size:,} values is too fine to read. Choose attributes "
                "with fewer values."
            )
        labels = across.labels(), up.labels()
        grid = grid_estimates(self.view, count_of(boxes_of(where, self.view.schema)), numbers)
        rows = [
            {"x": labels[0][i], "y": labels[1][j], "count": float(grid[i, j])}
            for i in range(across.size)
            for j in range(up.size)
        ]
        chart = alt.Chart(alt.Data(values=rows)).mark_rect().properties(width=560, height=420)
        return chart.encode(
            x=alt.X("x:N", sort=labels[0], title=across.name, axis=_axis(labels[0])),
            y=alt.Y("y:N", sort=labels[1][::-1], title=up.name, axis=_axis(labels[1], angle=False)),
            color=alt.Color("count:Q", title="records", scale=alt.Scale(scheme="viridis")),
        )

    def partition(self, x: str, y: str) -> alt.LayerChart:
        """The view's blocks along two attributes: shades for records per cell, lines for borders."""
        import altair as alt

        a, b = two_attribute_numbers(x, y, self.view.schema)
        across, up = self.view.schema.attributes[a], self.view.schema.attributes[b]
        blocks = self.view.parts[0].components
        if len(self.view.parts) > 1 or not isinstance(blocks, Blocks):
            raise QueryError(
                "Only views by method='hdpview' are made of blocks that can be drawn. Draw a heatmap instead."
            )
        # Draw the largest blocks only; the lines of all others would merge into black.
        boxes = blocks.seen_along(a, b)[:_MOST_BLOCKS]
        lines = [dict(zip(("x1", "x2", "y1", "y2"), box, strict=True)) for box in boxes.tolist()]
        scale = alt.Scale(scheme="viridis", type="symlog")
        filled = alt.Chart(alt.Data(values=_shades(self.view, blocks, a, b))).mark_rect(strokeWidth=0)
        borders = alt.Chart(alt.Data(values=lines)).mark_rect(fillOpacity=0, stroke=_LINE, strokeWidth=0.4)
        filled = filled.encode(color=alt.Color("density:Q", title="records per cell", scale=scale))
        place = {"x": alt.X("x1:Q", **_codes(across)), "x2": "x2:Q"}
        place |= {"y": alt.Y("y1:Q", **_codes(up)), "y2": "y2:Q"}
        layers = (each.encode(**place) for each in (filled, borders))
        return alt.layer(*layers).properties(width=560, height=420)


def save(chart: Any, path: str | PathLike[str]) -> None:
    """Write a picture in the format of the name's ending."""
    target = Path(path)
    if target.suffix.lower() not in _SUFFIXES:
        raise QueryError(f"Unsupported file type {target.name!r}. Use {', '.join(_SUFFIXES)}.")
    if not target.parent.is_dir():
        raise QueryError(f"Cannot write {str(path)!r}: the folder does not exist.")
    if target.suffix.lower() in _RENDERED:
        check_installed("vl_convert")
    chart.save(str(target), **({"scale_factor": 2} if target.suffix.lower() == ".png" else {}))


def _shades(view: ViewData, blocks: Blocks, a: int, b: int) -> list[dict[str, float]]:
    """Rectangles of equal density: the blocks of just two attributes, else cells of a grid."""
    across, up = view.schema.attributes[a], view.schema.attributes[b]
    if len(view.schema) == 2 and len(blocks) <= _MOST_BLOCKS:
        (left, low), (right, high) = ((ends[:, a], ends[:, b]) for ends in (blocks.lower, blocks.upper))
        records = blocks.weight
    else:
        steps = [max(1, -(-attribute.size // 100)) for attribute in (across, up)]
        grid = grid_estimates(view, count_of([{}]), [a, b])
        starts = [np.arange(0, size, step) for size, step in zip(grid.shape, steps, strict=True)]
        records = np.add.reduceat(np.add.reduceat(grid, starts[0], axis=0), starts[1], axis=1).reshape(-1)
        left, low = (place.reshape(-1) for place in np.meshgrid(*starts, indexing="ij"))
        right, high = np.minimum(left + steps[0], across.size), np.minimum(low + steps[1], up.size)
    density = records / ((right - left).astype(np.float64) * (high - low))
    columns = (each.tolist() for each in (left, right, low, high, density))
    return [
        dict(zip(("x1", "x2", "y1", "y2", "density"), row, strict=True)) for row in zip(*columns, strict=True)
    ]


def _axis(labels: list[str], angle: bool = True) -> alt.Axis:
    import altair as alt

    every = max(1, len(labels) // _MOST_LABELS)
    return alt.Axis(values=labels[::every], labelAngle=-45 if angle and len(labels) > 12 else 0)


def _codes(attribute: Attribute) -> dict[str, Any]:
    """An axis of codes, with the names of about ten of them."""
    import altair as alt

    labels, ticks = attribute.labels(), range(0, attribute.size, max(1, attribute.size // 10))
    names = json.dumps({str(i): labels[i] for i in ticks}, ensure_ascii=True)
    axis = alt.Axis(values=list(ticks), labelExpr=f"{names}[datum.value]")
    return {"scale": alt.Scale(domain=[0, attribute.size], nice=False), "axis": axis, "title": attribute.name}
