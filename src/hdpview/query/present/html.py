"""A view as a notebook shows it: facts, and a small histogram of every attribute. Plain HTML and SVG."""

from __future__ import annotations

from html import escape

import numpy as np

from hdpview.query.interval.statistics import Histogram, histograms
from hdpview.view.data import ViewData

_WIDTH, _HEIGHT, _MOST_BARS, _MOST_ATTRIBUTES = 120, 32, 60, 60


def page(view: ViewData, summary: str) -> str:
    """HTML of a view. All texts are escaped, because names and labels come from untrusted files."""
    names = view.schema.names[:_MOST_ATTRIBUTES]
    cells = "".join(map(_cell, histograms(view, names=names)))
    n_hidden = len(view.schema) - len(names)
    more = f"<p>… and {n_hidden} more attributes</p>" if n_hidden else ""
    return (
        f'<div style="font-family:sans-serif"><pre style="margin:0">{escape(summary)}</pre>'
        f'<div style="display:flex;flex-wrap:wrap;gap:12px;margin-top:8px">{cells}</div>{more}</div>'
    )


def _cell(of: Histogram) -> str:
    span = escape(of.attribute.span())
    return (
        f'<div style="font-size:11px"><b>{escape(of.attribute.name)}</b><br>{_bars(of)}'
        f'<div style="max-width:{_WIDTH}px;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;'
        f'opacity:.7">{span}</div></div>'
    )


def _bars(of: Histogram) -> str:
    """An SVG with a limited number of bars; if there are more values, neighbours share a bar."""
    step = -(-len(of.estimate) // _MOST_BARS)
    counts = np.add.reduceat(np.maximum(of.estimate, 0.0), np.arange(0, len(of.estimate), step))
    width, top = _WIDTH / len(counts), float(counts.max()) or 1.0
    bar, heights = max(width - 0.5, 0.5), (counts * (_HEIGHT / top)).tolist()
    places = [(i * width, _HEIGHT - height, height) for i, height in enumerate(heights)]
    bars = "".join(
        f'<rect x="{x:.2f}" y="{y:.2f}" width="{bar:.2f}" height="{height:.2f}"/>' for x, y, height in places
    )
    return f'<svg width="{_WIDTH}" height="{_HEIGHT}" fill="#4c78a8" role="img">{bars}</svg>'
