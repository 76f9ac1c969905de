"""`hdpview bench spark`."""

from __future__ import annotations

from typing import Annotated

import typer

from hdpview.cli import output
from hdpview_bench.cli.options import Shape


def spark(
    rows: Annotated[
        int, typer.Option(min=1000, help="Rows of the table, of ten attributes with a hundred values each.")
    ] = 10_000_000,
    format: Shape = output.JsonOrTable.table,
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
    if format == output.JsonOrTable.json:
        output.print_json(measured)
    else:
        output.print_table(list(measured[0]), measured)
