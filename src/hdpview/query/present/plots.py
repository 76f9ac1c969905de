"""Pictures of a view, in Altair: one description for notebook, PNG and SVG."""

from __future__ import annotations

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

        (chart,) = histograms(self.view, where, [attribute], confidence, interval=interval)
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
                f"A heat map of {across.size:,} × {up.size:,} values is too fine to see. Choose attributes "
                "with fewer values."
            )
        labels = across.labels(), up.labels()
        grid = grid_estimates(self.view, count_of(boxes_of(where, self.view.schema)), numbers)
        rows = [
            {"x": labels[0][i], "y": labels[1][j], "count": float(grid[i, j])}
            for i in range(across.size)
            for j in range(up.size)
        ]
        return (
            alt.Chart(alt.Data(values=rows))
            .mark_rect()
            .encode(
                x=alt.X("x:N", sort=labels[0], title=across.name, axis=_axis(labels[0])),
                y=alt.Y("y:N", sort=labels[1][::-1], title=up.name, axis=_axis(labels[1], angle=False)),
                color=alt.Color("count:Q", title="records", scale=alt.Scale(scheme="viridis")),
            )
            .properties(width=560, height=420)
        )

    def partition(self, x: str, y: str) -> alt.LayerChart:
        """The view's blocks along two attributes: shades for records per cell, lines for borders."""
        import altair as alt

        a, b = two_attribute_numbers(x, y, self.view.schema)
        across, up = self.view.schema.attributes[a], self.view.schema.attributes[b]
        # The largest blocks show the shape; the rest would be one black.
        boxes = _blocks(self.view).seen_along(a, b)[:_MOST_BLOCKS]
        scale_x, scale_y = (alt.Scale(domain=[0, attribute.size], nice=False) for attribute in (across, up))
        axes = [
            alt.Axis(values=_ticks(attribute), labelExpr=_names_of_ticks(attribute))
            for attribute in (across, up)
        ]
        encoding = {
            "x": alt.X("x1:Q", scale=scale_x, axis=axes[0], title=across.name),
            "x2": "x2:Q",
            "y": alt.Y("y1:Q", scale=scale_y, axis=axes[1], title=up.name),
            "y2": "y2:Q",
        }
        shades = alt.Color(
            "density:Q", title="records per cell", scale=alt.Scale(scheme="viridis", type="symlog")
        )
        filled = (
            alt.Chart(alt.Data(values=_shades(self.view, a, b)))
            .mark_rect(strokeWidth=0)
            .encode(**encoding, color=shades)
        )
        lines = [dict(zip(("x1", "x2", "y1", "y2"), box, strict=True)) for box in boxes.tolist()]
        borders = (
            alt.Chart(alt.Data(values=lines))
            .mark_rect(fillOpacity=0, stroke=_LINE, strokeWidth=0.4)
            .encode(**encoding)
        )
        return alt.layer(filled, borders).properties(width=560, height=420)


def save(chart: Any, path: str | PathLike[str]) -> None:
    """Write a picture; the name's ending says what kind."""
    target = Path(path)
    if target.suffix.lower() not in _SUFFIXES:
        raise QueryError(f"Unsupported file type {target.name!r}. Use {', '.join(_SUFFIXES)}.")
    if not target.parent.is_dir():
        raise QueryError(f"Cannot write {str(path)!r}: the folder does not exist.")
    if target.suffix.lower() in _RENDERED:
        check_installed("vl_convert")
    chart.save(str(target), **({"scale_factor": 2} if target.suffix.lower() == ".png" else {}))


def _blocks(view: ViewData) -> Blocks:
    blocks = view.parts[0].components
    if len(view.parts) > 1 or not isinstance(blocks, Blocks):
        raise QueryError(
            "Only views by method='hdpview' are made of blocks that can be drawn. Draw a heatmap instead."
        )
    return blocks


def _shades(view: ViewData, a: int, b: int) -> list[dict[str, float]]:
    """Rectangles of equal density: even blocks of just two attributes themselves, else cells of a grid."""
    blocks, schema = _blocks(view), view.schema
    if len(schema) == 2 and len(blocks) <= _MOST_BLOCKS:
        volume = (blocks.upper - blocks.lower).astype(np.float64).prod(axis=1)
        columns = (
            blocks.lower[:, a],
            blocks.upper[:, a],
            blocks.lower[:, b],
            blocks.upper[:, b],
            blocks.weight / volume,
        )
    else:
        across, up = schema.attributes[a], schema.attributes[b]
        steps = [max(1, -(-attribute.size // 100)) for attribute in (across, up)]
        grid = grid_estimates(view, count_of([{}]), [a, b])
        starts = [np.arange(0, size, step) for size, step in zip(grid.shape, steps, strict=True)]
        pooled = np.add.reduceat(np.add.reduceat(grid, starts[0], axis=0), starts[1], axis=1)
        left, low = (place.reshape(-1) for place in np.meshgrid(*starts, indexing="ij"))
        right, high = np.minimum(left + steps[0], across.size), np.minimum(low + steps[1], up.size)
        columns = (left, right, low, high, pooled.reshape(-1) / ((right - left) * (high - low)))
    names = ("x1", "x2", "y1", "y2", "density")
    return [
        dict(zip(names, row, strict=True))
        for row in zip(*(column.tolist() for column in columns), strict=True)
    ]


def _axis(labels: list[str], angle: bool = True) -> alt.Axis:
    import altair as alt

    every = max(1, len(labels) // _MOST_LABELS)
    return alt.Axis(values=labels[::every], labelAngle=-45 if angle and len(labels) > 12 else 0)


def _ticks(attribute: Attribute) -> list[int]:
    return list(range(0, attribute.size, max(1, attribute.size // 10)))


def _names_of_ticks(attribute: Attribute) -> str:
    import json

    labels = attribute.labels()
    return f"{json.dumps({str(i): labels[i] for i in _ticks(attribute)}, ensure_ascii=True)}[datum.value]"
