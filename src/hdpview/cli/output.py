"""Printing: tables for people, CSV and JSON for programs."""

from __future__ import annotations

import csv
import io
import json
import logging
import math
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

if TYPE_CHECKING:
    from hdpview.pview import PView

_MAX_WIDTH = 100_000  # characters per line if the output is not a terminal, so nothing is folded


Format = Literal["table", "csv", "json"]
JsonOrTable = Literal["table", "json"]


def names_in(text: str | None) -> list[str]:
    """The names in a comma-separated list."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def print_json(content: Any) -> None:
    """Print JSON, with dates as ISO text and infinities as null."""
    typer.echo(json.dumps(_json_value(content), ensure_ascii=False, indent=2, allow_nan=False))


def _json_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _json_value(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_value(each) for each in value]
    if isinstance(value, date):
        return value.isoformat()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def show(format: JsonOrTable, data: Any, text: str) -> None:
    """Print facts as JSON, or as text for people."""
    print_json(data) if format == "json" else typer.echo(text)


def wrote(path: Path, remark: str = "") -> None:
    """Print what was written, and its size."""
    typer.echo(f"Wrote {path} ({path.stat().st_size / 1000:,.0f} kB){remark}")


@contextmanager
def shown_log() -> Iterator[None]:
    """Print what hdpview logs, such as the budget spent and left."""
    log, echo = logging.getLogger("hdpview"), logging.StreamHandler(sys.stderr)
    level = log.level
    log.addHandler(echo)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(echo)
        log.setLevel(level)


class NumberText(str):
    """A number formatted for printing."""


def rounded_row(
    row: Mapping[str, Any], measured: Sequence[Sequence[str]], counts: Collection[str]
) -> dict[str, Any]:
    """Round estimates as far as their intervals allow, as on the explorer's page.

    measured: column names of an estimate and of both ends of its interval. counts: estimates of counts.
    """
    rounded = dict(row)
    for names in measured:
        values = row[names[0]], row[names[1]], row[names[2]]
        if all(isinstance(value, float) and math.isfinite(value) for value in values):
            rounded |= zip(names, _rounded(*values, 1.0 if names[0] in counts else 0.0), strict=True)
    return rounded


def _rounded(value: float, lower: float, upper: float, least: float) -> list[NumberText]:
    """Keep two digits of the interval's half width, and no fractions of records."""
    half = (upper - lower) / 2
    step = max(least, 10.0 ** (math.floor(math.log10(half)) - 1) if half > 0 else 0.1)
    digits = min(6, max(0, -math.floor(math.log10(step) + 1e-9)))
    # A lower end above 0 must not be shown as 0.
    ends = value, step if lower > 0 and step >= 1 and lower < step / 2 else lower, upper
    return [NumberText(f"{math.floor(end / step + 0.5) * step + 0.0:,.{digits}f}") for end in ends]


def print_table(
    columns: Sequence[str], rows: Sequence[Mapping[str, Any]], keys: Collection[str] = ()
) -> None:
    """Print a table with right-aligned numbers. On a narrow screen texts are folded, but never numbers.

    keys: numeric columns that name groups, such as years; they are printed without separators.
    """
    from rich.cells import cell_len
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        values = [row[column] for row in rows if not isinstance(row[column], bool)]
        numeric = any(isinstance(value, (int, float, NumberText)) for value in values)
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
    needed = console.measure(table, options=console.options.update(max_width=_MAX_WIDTH))
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
