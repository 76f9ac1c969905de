"""Printing: tables for people, CSV and JSON for programs."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from hdpview.pview import PView

_WIDEST = 100_000  # characters of a line that no screen folds: a file or another program reads it


class Format(StrEnum):
    """How a result is printed."""

    table = "table"
    csv = "csv"
    json = "json"


class JsonOrTable(StrEnum):
    """How facts are printed."""

    table = "table"
    json = "json"


class Interval(StrEnum):
    """Which interval is shown."""

    typical = "typical"
    guaranteed = "guaranteed"
    noise = "noise"


def names_in(text: str | None) -> list[str]:
    """The names in a list with commas between them; none in nothing."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def print_json(content: Any) -> None:
    """Dates as ISO text; infinities, which JSON does not know, as null."""
    typer.echo(json.dumps(_json_value(content), ensure_ascii=False, indent=2, allow_nan=False))


def _json_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _json_value(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_value(each) for each in value]
    if isinstance(value, date):
        return value.isoformat()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_table(
    columns: Sequence[str], rows: Sequence[Mapping[str, Any]], keys: Collection[str] = ()
) -> None:
    """A table with right-aligned numbers. Where the screen is too narrow, texts are folded, but never a
    number or the name of a column.

    keys: columns of numbers that name groups, such as years; they are printed without separators.
    """
    from rich.cells import cell_len
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        numeric = any(
            isinstance(row[column], (int, float)) and not isinstance(row[column], bool) for row in rows
        )
        table.add_column(
            escape(column),
            justify="right" if numeric else "left",
            overflow="fold",
            no_wrap=numeric,
            min_width=cell_len(column),
        )
    for row in rows:
        table.add_row(*(_shown(row[column], is_key=column in keys) for column in columns))
    console = Console()
    needed = console.measure(table, options=console.options.update(max_width=_WIDEST))
    console.width = max(console.width, needed.minimum) if console.is_terminal else needed.maximum
    console.print(table)


def print_csv(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    typer.echo(text.getvalue(), nl=False)


def _shown(value: Any, is_key: bool) -> str:
    from rich.markup import escape

    if value is None:
        return "NULL"
    if is_key:
        return f"{value:.10g}" if isinstance(value, float) else escape(str(value))
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.3g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else escape(str(value))


def warn_if_not_private(view: PView) -> None:
    if not view.manifest.is_private:
        reasons = "; ".join(view.manifest.not_private_because)
        typer.secho(f"This view is NOT PRIVATE: {reasons}", fg="red", err=True)


def check_draft_place(output_path: Path | None) -> None:
    """Refuse, before anything is spent or read, a place where a draft could not be written."""
    from hdpview.errors import SchemaError

    if output_path is not None and output_path.exists():
        raise SchemaError(
            f"{str(output_path)!r} is there already, and a draft is not written over it. Remove it, or "
            "name another file."
        )
    if output_path is not None and not output_path.parent.is_dir():
        raise SchemaError(f"The folder of {str(output_path)!r} does not exist. Make it first.")


def write_draft(text: str, output_path: Path | None, data: str, note: str = "") -> None:
    """Write a draft, or print it, and say what comes next."""
    from hdpview.domain.places import open_lines

    if output_path is None:
        typer.echo(text, nl=False)
        return
    output_path.write_text(text, encoding="utf-8")
    n_open = len(open_lines(text))
    next_step = note or (f"Replace each ? in it ({n_open} lines)" if n_open else "Look it through")
    typer.echo(
        f"Wrote {output_path}. {next_step}; then run: hdpview schema check {output_path} {data}", err=True
    )
