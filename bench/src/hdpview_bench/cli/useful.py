"""`hdpview bench useful`."""

from __future__ import annotations

from typing import Annotated

import typer

from hdpview.cli import output
from hdpview.cli.options import option
from hdpview_bench.cli.shared import DataDir, Shape, print_rows


def useful(
    datasets: Annotated[
        str | None, option("Names or Parquet files, comma-separated; four public tables by default.")
    ] = None,
    epsilon: Annotated[str, typer.Option(help="Privacy budget.")] = "1.0",
    questions: Annotated[int, typer.Option(min=5, help="Questions of each table.")] = 75,
    data_dir: DataDir = None,
    format: Shape = "table",
) -> None:
    """Ask everyday questions and count the answers whose interval is narrow enough to use.

    Example: hdpview bench useful --data-dir data
    """
    from hdpview_bench import useful as measure

    rows = measure.useful_rows(
        tuple(output.names_in(datasets)) or measure.DATASETS, epsilon, questions, data_dir
    )
    if format == "table":
        typer.echo(measure.summary(rows))
    print_rows(rows, format)
