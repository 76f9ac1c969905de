"""`hdpview bench paper`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hdpview.cli import output
from hdpview.cli.options import option
from hdpview.cli.progress_bar import ProgressBar
from hdpview_bench.cli.shared import DataDir, MemoryLimit, RowSeconds, Seconds, Workers


def paper(
    datasets: Annotated[
        str | None,
        option(
            "Names, comma-separated; by default seven of the paper's, or hospital where there is no "
            "--data-dir."
        ),
    ] = None,
    methods: Annotated[
        str | None, option("Names, comma-separated; `all` methods by default. With peers: all,mst,aim.")
    ] = None,
    trials: Annotated[
        int, typer.Option(min=1, help="Releases per dataset, method and budget, each with fresh noise.")
    ] = 10,
    data_dir: DataDir = None,
    quick: Annotated[bool, typer.Option(help="At most two trials, five workloads and fewer steps.")] = False,
    seconds: Seconds = 300.0,
    row_seconds: RowSeconds = 400.0,
    memory_limit: MemoryLimit = "6GB",
    workers: Workers = None,
    format: Annotated[
        output.JsonOrTable,
        typer.Option(help="table for people, json for programs: the rows behind the report."),
    ] = "table",
    cells: Annotated[
        Path | None,
        option("Folder to keep finished cells in, by default beside the report; a stopped run resumes."),
    ] = None,
    out: Annotated[
        Path,
        typer.Option("--output", "-o", help="Folder for benchmarks.md, benchmarks.html and the pictures."),
    ] = Path("hdpview-report"),
) -> None:
    """Run the paper's evaluation and write a report: its tables and figures beside ours, and which of its
    claims hold.

    Example: hdpview bench paper --quick -o report
    """
    from hdpview_bench import experiments, report
    from hdpview_bench.workers import Limits, memory_bytes

    scope = experiments.choose(
        output.names_in(datasets), output.names_in(methods), trials, data_dir, quick, row_seconds
    )
    with ProgressBar() as progress:
        written = report.write_report(
            scope, out, cells or out, Limits(seconds, memory_bytes(memory_limit)), workers, progress
        )
    if format == "json":
        output.print_json(report.all_rows(scope, cells or out))
    else:
        typer.echo(f"Wrote {written[0]} and {written[1]}.")
