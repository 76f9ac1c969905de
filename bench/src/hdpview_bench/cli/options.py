"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hdpview.cli import output

DataDir = Annotated[Path | None, typer.Option(help="Folder with the datasets as Parquet files.")]
Shape = Annotated[output.JsonOrTable, typer.Option(help="table for people, json for programs.")]
Seconds = Annotated[
    float,
    typer.Option(
        min=0.001,
        help="Seconds of computing one release with its answers may take; beyond, it is infeasible.",
    ),
]
RowSeconds = Annotated[
    float,
    typer.Option(min=0.001, help="No further trials once releases of a method on a dataset took so long."),
]
MemoryLimit = Annotated[
    str, typer.Option(help="Memory one release may take, such as 4GB; beyond, it is infeasible.")
]
Workers = Annotated[int | None, typer.Option(min=1, help="Processes at a time; by default one per core.")]
