"""Write a report as Markdown with pictures beside it, and as one self-contained HTML page."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;
color:#1b2a41;background:#fff}
table{border-collapse:collapse;font-size:.85rem;margin:1rem 0;display:block;overflow-x:auto}
td,th{padding:.2rem .6rem;border-bottom:1px solid #ddd}img{max-width:100%;height:auto}
code{background:#f3f3f3;padding:0 .2rem}
"""


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; columns after the first are right-aligned."""
    lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def items(texts: Sequence[str]) -> str:
    """A Markdown list."""
    return "\n".join(f"- {text}" for text in texts)


@dataclass(frozen=True)
class Figure:
    """An Altair chart, its file name and its caption.

    as_pixels: for charts with thousands of marks, where PNG is smaller than SVG.
    """

    name: str
    chart: Any
    caption: str
    as_pixels: bool = False

    @property
    def file(self) -> str:
        return f"{self.name}.png" if self.as_pixels else f"{self.name}.svg"

    def content(self) -> bytes:
        return png(self.chart) if self.as_pixels else svg(self.chart)


Part = str | Figure


def write(parts: Sequence[Part], folder: Path, name: str) -> tuple[Path, Path]:
    """Write `name`.md, its pictures under images/`name`, and `name`.html. Returns both pages.

    parts: pieces of Markdown, and figures between them.
    """
    images = folder / "images" / name
    images.mkdir(parents=True, exist_ok=True)
    pictures = {part.file: part.content() for part in parts if isinstance(part, Figure)}
    for file, content in pictures.items():
        (images / file).write_bytes(content)
    text = "\n\n".join(part if isinstance(part, str) else _image(part, name) for part in parts) + "\n"
    markdown, page = folder / f"{name}.md", folder / f"{name}.html"
    markdown.write_text(text, encoding="utf-8")
    page.write_text(_html(text, name, pictures), encoding="utf-8")
    return markdown, page


def _image(figure: Figure, name: str) -> str:
    return f"![{figure.caption}](images/{name}/{figure.file})\n\n*{figure.caption}*"


def _html(text: str, name: str, pictures: Mapping[str, bytes]) -> str:
    """The page with all pictures embedded."""
    from markdown_it import MarkdownIt

    body = MarkdownIt("commonmark").enable("table").render(text)
    for file, content in pictures.items():
        kind = "png" if file.endswith("png") else "svg+xml"
        data = base64.b64encode(content).decode()
        body = body.replace(f'src="images/{name}/{file}"', f'src="data:image/{kind};base64,{data}"')
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{name}</title>'
    return (
        f'<!doctype html><html lang="en"><head>{head}<style>{_STYLE}</style></head>'
        f"<body>\n{body}\n</body></html>\n"
    )


def svg(chart: Any) -> bytes:
    """An Altair chart as SVG, without the descriptions of marks, which are half of the file."""
    import vl_convert

    text: str = vl_convert.vegalite_to_svg(chart.to_dict())
    return re.sub(r' (aria-[a-z]+|role)="[^"]*"', "", text).encode()


def png(chart: Any) -> bytes:
    """An Altair chart as PNG."""
    import vl_convert

    content: bytes = vl_convert.vegalite_to_png(chart.to_dict(), scale=1.0)
    return content
