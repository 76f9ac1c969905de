"""Options that several commands share, each with one name and one help text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hdpview.cli import output

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A CSV, Parquet or JSON-lines file, a glob in quotes, or a folder.",
        show_default=False,
    ),
]
SchemaFile = Annotated[
    Path,
    typer.Option(
        "--schema", "-s", help="The schema file; `hdpview schema draft` writes one.", show_default=False
    ),
]
Columns = Annotated[
    str | None, typer.Option(help="Columns to use, with commas between them.", show_default=False)
]
Exclude = Annotated[
    str | None, typer.Option(help="Columns to leave out, with commas between them.", show_default=False)
]
Delta = Annotated[
    str | None,
    typer.Option(
        help="With --method mixture: probability outside the promise, such as 1e-9.", show_default=False
    ),
]
MethodName = Annotated[str, typer.Option(help="How to build: mixture, or hdpview (the paper's method).")]
LedgerFile = Annotated[
    Path | None,
    typer.Option(
        help="File that keeps what was spent on tables; beside the table by default.", show_default=False
    ),
]
TableName = Annotated[
    str | None,
    typer.Option(help="The table's name in the ledger; the file's by default.", show_default=False),
]
Format = Annotated[output.JsonOrTable, typer.Option(help="table for people, json for programs.")]
PrivacyUnit = Annotated[
    str | None,
    typer.Option(
        help="Column that identifies the person. Protects people, not single rows.", show_default=False
    ),
]
MaxRows = Annotated[
    int, typer.Option(min=1, help="Maximum rows counted per person; extra rows are dropped at random.")
]
