"""A report as parts, and the two ways it is written: Markdown beside its pictures, and one HTML page with
everything inside.
"""

from __future__ import annotations

import base64
import html
import re
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1b2a41;background:#fff}
table{border-collapse:collapse;font-size:.85rem;margin:1rem 0}td,th{padding:.2rem .6rem;border-bottom:1px solid #ddd;text-align:right}
td:first-child,th:first-child{text-align:left}img{max-width:100%;height:auto}figcaption{font-size:.9rem;color:#555}figure{margin:1.5rem 0}
code{background:#f3f3f3;padding:0 .2rem}.wide{overflow-x:auto}
"""


@dataclass(frozen=True)
class Heading:
    """A title; level 1 is the page's own."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; `code` and **stress** are written as in Markdown."""

    text: str


@dataclass(frozen=True)
class Items:
    """A list."""

    texts: Sequence[str]


@dataclass(frozen=True)
class Table:
    """Rows of texts under column names."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Figure:
    """A picture: an Altair chart or grey pixels (shape (height, width), uint8), the name of its file, and
    what it shows.
    """

    name: str
    picture: Any
    caption: str

    @property
    def file(self) -> str:
        return f"{self.name}.png" if isinstance(self.picture, np.ndarray) else f"{self.name}.svg"

    def content(self) -> bytes:
        """The picture's file: lines stay lines in SVG; what has thousands of them is smaller as pixels."""
        if isinstance(self.picture, np.ndarray):
            return _png(self.picture)
        import vl_convert

        text: str = vl_convert.vegalite_to_svg(self.picture.to_dict())
        return re.sub(
            r' (aria-[a-z]+|role)="[^"]*"', "", text
        ).encode()  # half of the file; the caption says what it shows


Part = Heading | Paragraph | Items | Table | Figure


def write(parts: Sequence[Part], folder: Path, name: str) -> tuple[Path, Path]:
    """Write `name`.md, its pictures under images/`name`, and `name`.html. Returns both pages."""
    pictures = {part.file: part.content() for part in parts if isinstance(part, Figure)}
    images = folder / "images" / name
    images.mkdir(parents=True, exist_ok=True)
    for file, content in pictures.items():
        (images / file).write_bytes(content)
    markdown, page = folder / f"{name}.md", folder / f"{name}.html"
    markdown.write_text(
        "\n\n".join(_markdown(part, f"images/{name}") for part in parts) + "\n", encoding="utf-8"
    )
    page.write_text(_page(parts, pictures), encoding="utf-8")
    return markdown, page


def _png(grey: NDArray[np.uint8]) -> bytes:
    """A grey picture as a PNG file."""
    height, width = grey.shape
    rows = np.concatenate(
        [np.zeros((height, 1), np.uint8), grey], axis=1
    ).tobytes()  # each row is told to be stored as it is
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


def _markdown(part: Part, images: str) -> str:
    match part:
        case Heading(text, level):
            return f"{'#' * level} {text}"
        case Paragraph(text):
            return text
        case Items(texts):
            return "\n".join(f"- {text}" for text in texts)
        case Table(columns, rows):
            lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *rows]
            return "\n".join(
                "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
            )
        case Figure(caption=caption):
            return f"![{caption}]({images}/{part.file})\n\n*{caption}*"


def _page(parts: Sequence[Part], pictures: dict[str, bytes]) -> str:
    title = next((part.text for part in parts if isinstance(part, Heading)), "Report")
    body = "\n".join(_html(part, pictures) for part in parts)
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{html.escape(title)}</title>'
    return f'<!doctype html><html lang="en"><head>{head}<style>{_STYLE}</style></head><body>\n{body}\n</body></html>\n'


def _html(part: Part, pictures: dict[str, bytes]) -> str:
    match part:
        case Heading(text, level):
            return f"<h{level}>{_inline(text)}</h{level}>"
        case Paragraph(text):
            return f"<p>{_inline(text)}</p>"
        case Items(texts):
            return "<ul>" + "".join(f"<li>{_inline(text)}</li>" for text in texts) + "</ul>"
        case Table(columns, rows):
            head = "".join(f"<th>{_inline(cell)}</th>" for cell in columns)
            body = "".join(
                "<tr>" + "".join(f"<td>{_inline(cell)}</td>" for cell in row) + "</tr>" for row in rows
            )
            return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'
        case Figure(caption=caption):
            kind = "png" if part.file.endswith("png") else "svg+xml"
            data = base64.b64encode(pictures[part.file]).decode()
            image = f'<img alt="{html.escape(caption)}" src="data:image/{kind};base64,{data}">'
            return f"<figure>{image}<figcaption>{_inline(caption)}</figcaption></figure>"


def _inline(text: str) -> str:
    """Markdown inside a line: stress, code and links."""
    escaped = html.escape(text.replace("\\*", "∗"), quote=False)
    escaped = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", escaped)
    escaped = re.sub(r"`(.+?)`", r"<code>\1</code>", escaped)
    return re.sub(r"\[(.+?)\]\((.+?)\)", r'<a href="\2">\1</a>', escaped)
