"""`hdpview bench useful`."""

from __future__ import annotations

from typing import Annotated

import typer

from hdpview.cli import output
from hdpview_bench.cli.options import DataDir, Shape


def useful(
    datasets: Annotated[
        str | None,
        typer.Option(help="Names or Parquet files, comma-separated; four public tables by default."),
    ] = None,
    epsilon: Annotated[str, typer.Option(help="Privacy budget.")] = "1.0",
    questions: Annotated[int, typer.Option(min=5, help="Questions of each table.")] = 75,
    data_dir: DataDir = None,
    format: Shape = output.JsonOrTable.table,
) -> None:
    """Ask everyday questions and count the answers whose interval is narrow enough to use.

    Example: hdpview bench useful --data-dir data
    """
    from hdpview_bench import useful as measure

    rows = measure.useful_rows(
        tuple(output.names_in(datasets)) or measure.DATASETS, epsilon, questions, data_dir
    )
    if format == output.JsonOrTable.json:
        output.print_json(rows)
        return
    typer.echo(measure.summary(rows))
    output.print_table(list(rows[0]), rows)
