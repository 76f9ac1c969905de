"""`hdpview bench spark`."""

from __future__ import annotations

from typing import Annotated

import typer

from hdpview_bench.cli.shared import Shape, print_rows


def spark(
    rows: Annotated[
        int, typer.Option(min=1000, help="Rows of the table, of ten attributes with a hundred values each.")
    ] = 10_000_000,
    format: Shape = "table",
) -> None:
    """Build one table with the local engine, with Spark on two cores, and on a stand-alone cluster of a
    master and two workers.

    Example: hdpview bench spark --rows 10000000
    """
    from hdpview_bench.spark import spark_rows

    measured = []
    for row in spark_rows(rows):
        measured.append(row)
        typer.echo(f"{row['engine']}: counted in {row['count_s']} s, grown in {row['grow_s']} s", err=True)
    print_rows(measured, format)
