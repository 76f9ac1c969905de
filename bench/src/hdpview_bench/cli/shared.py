"""Options and output that several commands share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from hdpview.cli import output
from hdpview.cli.options import option

DataDir = Annotated[Path | None, option("Folder with the datasets as Parquet files.")]
Shape = Annotated[output.JsonOrTable, typer.Option(help="table for people, json for programs.")]
Seconds = Annotated[
    float,
    typer.Option(
        min=0.001,
        help="CPU seconds for one release with its answers; beyond, it is infeasible.",
    ),
]
RowSeconds = Annotated[
    float,
    typer.Option(min=0.001, help="Start no further trials of a method on a dataset after this time."),
]
MemoryLimit = Annotated[
    str, typer.Option(help="Memory for one release, such as 4GB; beyond, it is infeasible.")
]
Workers = Annotated[int | None, option("Parallel processes; by default one per core.", min=1)]


def print_rows(
    rows: Sequence[Mapping[str, Any]], format: output.JsonOrTable, columns: Iterable[str] | None = None
) -> None:
    """Print rows as JSON, or as a table of these columns, by default those of the first row."""
    if format == "json":
        output.print_json(rows)
    elif rows:
        output.print_table(list(columns or rows[0]), rows)
