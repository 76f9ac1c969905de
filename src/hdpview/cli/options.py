"""Options that several commands share, each with one name and one help text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hdpview.cli import output


def option(help: str, *names: str, **how: Any) -> Any:
    """An option without a printed default. names: its spellings, if other than the parameter's."""
    return typer.Option(*names, help=help, show_default=False, **how)


def argument(help: str, **how: Any) -> Any:
    """An argument without a printed default."""
    return typer.Argument(help=help, show_default=False, **how)


Data = Annotated[
    str, argument("A CSV, Parquet or JSON-lines file, a glob in quotes, or a folder.", metavar="DATA")
]
SchemaFile = Annotated[Path, option("The schema file; `hdpview schema draft` writes one.", "--schema", "-s")]
Columns = Annotated[str | None, option("Columns to use, with commas between them.")]
Exclude = Annotated[str | None, option("Columns to leave out, with commas between them.")]
Delta = Annotated[
    str | None, option("With --method mixture: probability that the guarantee may fail, such as 1e-9.")
]
MethodName = Annotated[str, typer.Option(help="mixture, or hdpview (the paper's method).")]
LedgerFile = Annotated[
    Path | None, option("File that records the budget spent; beside the table by default.")
]
TableName = Annotated[str | None, option("The table's name in the ledger; by default the name of its file.")]
DraftFile = Annotated[Path | None, option("Write to this file instead of printing.", "-o", "--output")]
Force = Annotated[bool, option("Overwrite an existing view.", "--force")]
View = Annotated[Path, argument("A .pview file.", metavar="VIEW")]
Views = Annotated[list[Path], argument("One or more .pview files.", metavar="VIEW…")]
ViewFile = Annotated[Path, option("The .pview file to write.", "-o", "--output")]
Host = Annotated[str, typer.Option(help="Address to listen on.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 picks a free one.")]
NoOpen = Annotated[bool, option("Do not open a browser.", "--no-open")]
Format = Annotated[output.JsonOrTable, typer.Option(help="table for people, json for programs.")]
PrivacyUnit = Annotated[
    str | None, option("Column that identifies the person. Protects people, not single rows.")
]
MaxRows = Annotated[
    int, typer.Option(min=1, help="Maximum rows counted per person; extra rows are dropped at random.")
]
Epsilon = Annotated[str, option("The privacy budget, such as 1.0.", "--epsilon", "-e")]
Engine = Annotated[
    str, typer.Option(help="Where to build: local, spark, or a cluster such as spark://host:7077.")
]
NoPerson = Annotated[
    list[str] | None,
    option("Value of --privacy-unit that names nobody, such as NA; repeatable.", metavar="VALUE"),
]
People = Annotated[
    list[str] | None,
    option("With --privacy-unit: attribute by which to count persons too; repeatable.", metavar="COL"),
]
Count = Annotated[str | None, option("In an aggregated table: column with the number of records per row.")]
Focus = Annotated[
    list[str] | None, option("Attributes to always count together, such as age,income; repeatable.")
]
WishFile = Annotated[Path | None, option("File of wishes that analysts sent.")]
NoLedger = Annotated[bool, option("Do not record this build in a ledger.", "--no-ledger")]
Threads = Annotated[int | None, option("Threads; all cores by default.", min=1)]
MemoryLimit = Annotated[
    str | None, option("Memory limit of the database, such as 4GB; the rest spills to disk.")
]
TestKey = Annotated[str | None, option("For tests only: a fixed key. The view is stamped NOT PRIVATE.")]
AcceptLosses = Annotated[
    bool, option("Build even if a fifth or more of a column would be lost.", "--accept-losses")
]
Resume = Annotated[bool, option("Finish an interrupted run after its charge, at no cost.", "--resume")]
CheckEpsilon = Annotated[
    str | None, option("Budget for checking the schema privately; hides the exact check.")
]
Yes = Annotated[bool, option("Answer yes to all questions; also accepts losses.", "--yes", "-y")]
