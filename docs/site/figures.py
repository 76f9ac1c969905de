"""Draws the concept figures of the documentation: `python docs/site/figures.py` writes them to docs/images.

All numbers in them are invented.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

IMAGES = Path(__file__).parents[1] / "images"
INK, PALE, BLUE, ORANGE, GREEN = "#222", "#9aa0a6", "#3f51b5", "#d9730d", "#2e7d32"
CELL = 18  # pixels


class Drawing:
    """An SVG picture that is written element by element."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.size = (width, height)
        self.elements = [f"<title>{title}</title>", f'<rect width="{width}" height="{height}" fill="#fff"/>']

    def text(
        self, x: float, y: float, words: str, size: int = 13, anchor: str = "start", fill: str = INK
    ) -> None:
        self.elements.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" '
            f'fill="{fill}">{words}</text>'
        )

    def rect(self, x: float, y: float, width: float, height: float, **style: object) -> None:
        self.elements.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" {_style(style)}/>'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, **style: object) -> None:
        self.elements.append(f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" {_style(style)}/>')

    def dot(self, x: float, y: float, radius: float, fill: str) -> None:
        self.elements.append(f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="{fill}"/>')

    def save(self, name: str) -> None:
        width, height = self.size
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            'font-family="sans-serif">'
        )
        (IMAGES / name).write_text("\n".join([head, *self.elements, "</svg>", ""]), encoding="utf-8")


def _style(style: dict[str, object]) -> str:
    return " ".join(f'{key.replace("_", "-")}="{value}"' for key, value in style.items())


def _records(rng: Generator) -> NDArray[np.int64]:
    """Cells (column, row) of 120 records on a grid of 16 × 10: a crowd, a smaller one, and a few
    elsewhere.
    """
    crowd = rng.normal((4, 3), (1.6, 1.2), (70, 2))
    second = rng.normal((12, 7), (1.2, 1.0), (40, 2))
    rest = rng.uniform((0, 0), (15.9, 9.9), (10, 2))
    return np.clip(np.concatenate([crowd, second, rest]), 0, (15, 9)).astype(np.int64)


def _grid(drawing: Drawing, x: float, y: float) -> None:
    for column in range(17):
        drawing.line(x + column * CELL, y, x + column * CELL, y + 10 * CELL, stroke="#e3e5e8")
    for row in range(11):
        drawing.line(x, y + row * CELL, x + 16 * CELL, y + row * CELL, stroke="#e3e5e8")
    drawing.text(x + 8 * CELL, y + 10 * CELL + 18, "age", 12, "middle", PALE)
    drawing.text(x - 8, y + 5 * CELL, "hours", 12, "end", PALE)


def draw_blocks(rng: Generator) -> None:
    """Blocks: cells with records, cut into blocks, each with a noisy count."""
    drawing = Drawing(800, 250, "Records in cells, and the same cells gathered in blocks with noisy counts")
    cells = _records(rng)
    left, right, top = 60, 460, 40
    drawing.text(left, 22, "The table: records in cells", 14)
    _grid(drawing, left, top)
    for column, row in cells:
        x, y = rng.uniform(3, CELL - 3, 2)
        drawing.dot(left + column * CELL + x, top + row * CELL + y, 2.4, INK)
    drawing.text(right, 22, "The view: blocks with noisy counts", 14)
    _grid(drawing, right, top)
    blocks = [
        (0, 0, 8, 2),
        (0, 2, 2, 5),
        (2, 2, 4, 3),
        (6, 2, 2, 3),
        (2, 5, 6, 2),
        (0, 7, 8, 3),
        (8, 0, 8, 5),
        (8, 5, 2, 5),
        (10, 5, 4, 4),
        (14, 5, 2, 5),
        (10, 9, 4, 1),
    ]
    for column, row, width, height in blocks:
        inside = (cells >= (column, row)).all(axis=1) & (cells < (column + width, row + height)).all(axis=1)
        count = int(inside.sum() + rng.integers(-2, 3))
        share = min(0.75, max(count, 0) / (width * height) / 3.5)
        x, y = right + column * CELL, top + row * CELL
        drawing.rect(
            x,
            y,
            width * CELL,
            height * CELL,
            fill=BLUE,
            fill_opacity=f"{share:.2f}",
            stroke=BLUE,
            stroke_width=1.5,
        )
        drawing.text(
            x + width * CELL / 2,
            y + height * CELL / 2 + 5,
            str(count).replace("-", "−"),
            13,
            "middle",
            "#fff" if share > 0.4 else INK,
        )
    drawing.save("concept-block.svg")


def _bars(
    drawing: Drawing, x: float, y: float, shares: NDArray[np.float64], width: float, height: float, fill: str
) -> None:
    """A histogram with its base at y + height."""
    step = width / len(shares)
    for i, share in enumerate(shares / shares.max()):
        drawing.rect(x + i * step, y + height * (1 - share), step - 1, height * share, fill=fill)


def draw_components() -> None:
    """Components: a weight and a histogram per attribute; together they express dependence."""
    drawing = Drawing(800, 292, "Two components, each a weight and a histogram per attribute, and their sum")
    at = np.arange(16)
    ages = [np.exp(-(((at - centre) / 2.6) ** 2)) + 0.02 for centre in (4, 11)]
    hours = [np.exp(-(((at[:10] - centre) / 1.9) ** 2)) + 0.02 for centre in (2.5, 6.5)]
    weights, colours = (700, 300), (BLUE, ORANGE)
    for i in range(2):
        y = 40 + i * 140
        drawing.text(20, y - 12, f"Component {i + 1}: about {weights[i]} records", 14, "start", colours[i])
        _bars(drawing, 20, y, ages[i], 190, 72, colours[i])
        drawing.text(115, y + 90, "age", 12, "middle", PALE)
        drawing.text(228, y + 44, "×", 20, "middle")
        _bars(drawing, 246, y, hours[i], 130, 72, colours[i])
        drawing.text(311, y + 90, "hours", 12, "middle", PALE)
    drawing.text(300, 160, "+", 24, "middle")
    drawing.text(414, 152, "=", 24, "middle")
    total = sum(
        weight * np.outer(hour / hour.sum(), age / age.sum())
        for weight, hour, age in zip(weights, hours, ages, strict=True)
    )
    left, top, cell = 446, 44, 19
    drawing.text(left, 28, "Records by age and hours", 14)
    for (row, column), count in np.ndenumerate(np.asarray(total)):
        drawing.rect(
            left + column * cell,
            top + row * cell,
            cell - 1,
            cell - 1,
            fill=GREEN,
            fill_opacity=f"{0.06 + 0.94 * count / np.max(total):.2f}",
        )
    drawing.text(left + 8 * cell, top + 10 * cell + 18, "age", 12, "middle", PALE)
    drawing.text(left + 16 * cell - 2, top - 6, "hours ↓", 12, "end", PALE)
    drawing.save("concept-component.svg")


def draw_intervals(rng: Generator) -> None:
    """Intervals: the three kinds for one answer, and how often the typical one contains the truth."""
    drawing = Drawing(
        800, 300, "Three intervals around one answer, and twenty intervals of which nineteen hold the truth"
    )
    drawing.text(20, 24, "One answer, three intervals", 14)
    x = lambda count: 40 + count * 0.3  # noqa: E731
    for row, (name, low, high, colour) in enumerate(
        [("noise", 560, 640, PALE), ("typical", 470, 730, BLUE), ("guaranteed", 210, 1010, INK)]
    ):
        y = 70 + row * 44
        drawing.line(x(low), y, x(high), y, stroke=colour, stroke_width=6, stroke_linecap="round")
        drawing.dot(x(600), y, 5, ORANGE)
        drawing.text(x(low), y - 10, name, 12, "start", colour)
    drawing.line(x(660), 48, x(660), 176, stroke=GREEN, stroke_width=2, stroke_dasharray="4 3")
    drawing.text(x(660) + 6, 190, "truth", 12, "start", GREEN)
    drawing.text(x(600) - 6, 190, "estimate", 12, "end", ORANGE)
    drawing.line(x(0), 206, x(1100), 206, stroke=PALE)
    for count in range(0, 1101, 200):
        drawing.text(x(count), 222, f"{count:,}", 11, "middle", PALE)
    drawing.text(20, 250, "noise: what the added noise alone can do", 12)
    drawing.text(20, 268, "typical: noise, and the model’s error as measured", 12)
    drawing.text(20, 286, "guaranteed: whatever the data look like", 12)
    left, middle = 450, 620
    drawing.text(left, 24, "Twenty answers at 95%", 14)
    errors = np.clip(rng.normal(0, 30, 20), -52, 52)
    errors[13] = 84
    for i, error in enumerate(errors):
        y = 44 + i * 12
        colour = ORANGE if abs(error) > 62 else BLUE
        drawing.line(
            middle + error - 62,
            y,
            middle + error + 62,
            y,
            stroke=colour,
            stroke_width=3,
            stroke_linecap="round",
        )
        drawing.dot(middle + error, y, 3, colour)
    drawing.line(middle, 34, middle, 284, stroke=GREEN, stroke_width=2, stroke_dasharray="4 3")
    drawing.text(middle, 297, "truth", 12, "middle", GREEN)
    drawing.save("concept-interval.svg")


if __name__ == "__main__":
    generator = np.random.default_rng(7)
    draw_blocks(generator)
    draw_components()
    draw_intervals(generator)
