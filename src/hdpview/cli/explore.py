"""Commands of the analyst: they open a view and never see the table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hdpview.cli import output

View = Annotated[Path, typer.Argument(metavar="VIEW", help="A .pview file.", show_default=False)]


def info(
    view: View,
    format: Annotated[output.JsonOrTable, typer.Option(help="table for people, json for programs.")] = output.JsonOrTable.table,
) -> None:
    """Tell what a view is: what it protects, what it cost, what can be asked.

    Example: hdpview info adult.pview
    """
    from hdpview.pview import PView

    opened = PView.open(view)
    facts = opened.info()
    if format == output.JsonOrTable.json:
        output.print_json(facts)
        return
    if not facts["private"]:
        typer.secho("NOT PRIVATE: " + "; ".join(facts["not_private_because"]), fg="red", bold=True)
    one_block = opened.smallest_meaningful_count()
    spent = ", ".join(f"{purpose} {epsilon:g}" for purpose, epsilon in facts["spending"].items())
    typer.echo(f"about {facts['estimated_records']:,.0f} records in {facts['n_blocks']:,} blocks of {facts['n_cells']:.3g} cells")
    typer.echo(f"privacy: epsilon {facts['epsilon']:g} for one {facts['privacy_unit']} ({facts['neighbours']}); spent on {spent}")
    typer.echo(f"method: {facts['method']}, hdpview {facts['library_version']}")
    typer.echo(f"noise: ±{one_block:,.0f} on the count of one block (95 %); smaller counts mean nothing on their own\n")
    rows = [{"attribute": a.name, "type": a.kind, "values": a.size, "from": a.labels()[0], "to": a.labels()[-1]} for a in opened.schema]
    output.print_table(["attribute", "type", "values", "from", "to"], rows)


def query(
    view: View,
    sql: Annotated[str, typer.Argument(metavar="SQL", help="The question.", show_default=False)],
    format: Annotated[output.Format, typer.Option(help="table for people; csv or json for programs.")] = output.Format.table,
    confidence: Annotated[float, typer.Option(help="Confidence of the interval, 0.5 to 0.9999.")] = 0.95,
    interval: Annotated[output.Interval, typer.Option(help="Which interval is printed as lower and upper.")] = output.Interval.typical,
    dialect: Annotated[str, typer.Option(help="The SQL it is written in: duckdb, postgres, snowflake, spark, …")] = "duckdb",
) -> None:
    """Ask a view a question in SQL. Costs no budget, however often.

    Example: hdpview query adult.pview "SELECT sex, COUNT(*) AS n, AVG(age) FROM view WHERE hours >= 40 GROUP BY sex"
    """
    from hdpview.pview import PView
    from hdpview.query.sql import run

    opened = PView.open(view)
    result = run(opened, sql, confidence, interval=interval.value, dialect=dialect)
    columns, rows = result.names, result.to_rows()
    if format == output.Format.json:
        output.print_json({"columns": columns, "rows": rows, "confidence": confidence, "epsilon": float(opened.manifest.epsilon)})
    elif format == output.Format.csv:
        output.print_csv(columns, rows)
    else:
        output.print_table(columns, rows)
    if not opened.manifest.is_private:
        typer.secho("This view is NOT PRIVATE: " + "; ".join(opened.manifest.not_private_because), fg="red", err=True)
