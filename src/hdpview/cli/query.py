"""Commands for analysts. They open views and never see tables."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hdpview.cli import output
from hdpview.cli.options import Force, Format, View, argument, option
from hdpview.errors import QueryError

if TYPE_CHECKING:
    import altair as alt
    import pyarrow as pa

    from hdpview.domain import Attribute


def info(
    view: View,
    card: Annotated[bool, option("Print the privacy card, a one-page summary.", "--card")] = False,
    quality: Annotated[
        bool, option("Print the size of errors, and the attributes counted together.", "--quality")
    ] = False,
    output_path: Annotated[
        Path | None,
        option("Write the card to this file: HTML if it ends in .html, else text.", "-o", "--output"),
    ] = None,
    format: Format = "table",
) -> None:
    """Describe a view: what it protects, what it cost and which attributes it has.

    Example: hdpview info adult.pview --card -o adult-card.html
    """
    from hdpview.pview import PView

    opened = PView.open(view)
    if output_path is not None:
        opened.privacy_card().save(output_path)
        output.wrote(output_path)
        return
    if card:
        typer.echo(opened.privacy_card().text, nl=False)
        return
    if quality:
        report = opened.quality()
        output.show(format, report.as_dict(), str(report))
        return
    facts = opened.info()
    if format == "json":
        output.print_json(facts)
        return
    if not facts["private"]:
        typer.secho("NOT PRIVATE: " + "; ".join(facts["not_private_because"]), fg="red", bold=True)
    spent = ", ".join(f"{purpose} {epsilon:.2g}" for purpose, epsilon in facts["spending"].items())
    typer.echo(
        f"about {facts['estimated_records']:,.0f} records in {facts['n_components']:,} components "
        f"over {facts['n_cells']:.3g} cells; about {facts['about']}"
    )
    typer.echo(
        f"privacy: {opened.manifest.budget} for one {facts['privacy_unit']} ({facts['neighbours']}); "
        f"spent on {spent}"
    )
    typer.echo(f"method: {facts['method']}, hdpview {facts['library_version']}")
    typer.echo(f"risk: {facts['risk']}")
    typer.echo("")
    rows = [_row(attribute) for attribute in opened.schema]
    output.print_table([*rows[0]], rows)


def _row(attribute: Attribute) -> dict[str, object]:
    labels = attribute.value_labels()
    missing = "a value of its own" if attribute.nullable else f"as {labels[attribute.missing_code]}"
    row = {"attribute": attribute.name, "type": attribute.kind, "values": attribute.size}
    return {**row, "from": labels[0], "to": labels[-1], "missing": missing}


def query(
    view: View,
    sql: Annotated[str, argument("The query.", metavar="SQL")],
    format: Annotated[
        output.Format, typer.Option(help="table for people; csv or json for programs.")
    ] = "table",
    confidence: Annotated[float, typer.Option(help="Confidence of the interval, 0.5 to 0.9999.")] = 0.95,
    interval: Annotated[
        Literal["typical", "guaranteed", "noise"],
        typer.Option(help="Kind of interval to print as lower and upper."),
    ] = "typical",
    dialect: Annotated[
        str, typer.Option(help="SQL dialect: duckdb, postgres, snowflake, spark, …")
    ] = "duckdb",
    ranks: Annotated[
        bool, option("Add the probability that each row belongs to the answer, and its ranks.", "--ranks")
    ] = False,
) -> None:
    """Answer an SQL query from a view. Costs no budget.

    Example: hdpview query adult.pview "SELECT sex, COUNT(*) AS n, AVG(age) FROM view GROUP BY sex"
    """
    from hdpview.pview import PView
    from hdpview.query.evaluate import run

    opened = PView.open(view)
    result = run(opened, sql, confidence, interval=interval, dialect=dialect, ranks=ranks)
    columns, rows = result.names, result.to_rows()
    if format == "json":
        budget = dict(zip(("epsilon", "delta"), map(float, opened.manifest.total), strict=True))
        notes = [*result.notes, *result.inferred]
        output.print_json(
            {"columns": columns, "rows": rows, "confidence": confidence, **budget, "notes": notes}
        )
    elif format == "csv":
        output.print_csv(columns, rows)
    else:
        measured = result.measured
        keys = set(columns) - {name for names in measured for name in names}
        output.print_table(columns, [output.rounded_row(row, measured, result.counts) for row in rows], keys)
    if format != "json":
        for note in (*result.notes, *result.inferred):
            typer.echo(note, err=True)
    output.warn_if_not_private(opened)


def plot(
    view: View,
    columns: Annotated[
        list[str], argument("One attribute for bars, two for a heat map.", metavar="COL [COL]")
    ],
    output_path: Annotated[Path, option("The picture: .png, .svg, .pdf, .html or .json.", "-o", "--output")],
    where: Annotated[str | None, option("A condition on the records counted.")] = None,
    partition: Annotated[
        bool, typer.Option(help="With two attributes: draw the borders of the view's blocks.")
    ] = False,
) -> None:
    """Draw counts of one attribute as bars, or of two as a heat map. Costs no budget.

    Example: hdpview plot adult.pview age hours -o age-hours.png
    """
    from hdpview.pview import PView
    from hdpview.query.present.plots import save

    opened = PView.open(view)
    if len(columns) > 2 or (partition and (len(columns) != 2 or where is not None)):
        raise QueryError("A chart shows one or two attributes; --partition needs two and excludes --where.")
    chart: alt.Chart | alt.LayerChart
    if partition:
        chart = opened.plot.partition(columns[0], columns[1])
    elif len(columns) == 2:
        chart = opened.plot.heatmap(columns[0], columns[1], where)
    else:
        chart = opened.plot.histogram(columns[0], where)
    save(chart, output_path)
    output.wrote(output_path)


def wishes(
    view: View,
    file: Annotated[
        Path | None,
        argument("The file of wishes; by default, VIEW with the ending .wishes.json.", metavar="FILE"),
    ] = None,
    where: Annotated[
        str | None, option("Add a wish: a condition whose count should be more precise.")
    ] = None,
    within: Annotated[
        float | None, option("With --where: wanted half-width of its 95% interval, in records.")
    ] = None,
    format: Format = "table",
) -> None:
    """List the counts that analysts need more precisely, with their present precision; or add one.

    Example: hdpview wishes adult.pview --where "age >= 60 AND sex = 'Female'" --within 50
    """
    from hdpview.pview import PView
    from hdpview.wishes import Wishes

    opened, path = PView.open(view), file or view.with_suffix(".wishes.json")
    if (where is None) != (within is None):
        raise QueryError("A wish needs a condition and a number of records: --where and --within.")
    if where is not None and within is not None:
        new = opened.wish(where, within)
        (Wishes.load(path) + new if path.exists() else new).save(path)
        typer.echo(f"Wrote {path}. Send it to the curator of the view.", err=True)
    elif not path.exists():
        raise QueryError(f"There are no wishes in {str(path)!r} yet. Add one with --where and --within.")
    report = Wishes.load(path).report(opened)
    if format == "json":
        output.print_json(report)
    else:
        rows = [{**row, "met": "yes" if row["met"] else "no"} for row in report]
        output.print_table(["where", "within", "now", "met"], rows)


def sample(
    view: View,
    n: Annotated[int, option("Number of records.", "-n", "--rows")],
    output_path: Annotated[
        Path | None,
        option("The .csv or .parquet file to write; by default, CSV is printed.", "-o", "--output"),
    ] = None,
    seed: Annotated[int | None, option("Seed, to draw the same records again.")] = None,
) -> None:
    """Draw synthetic records from a view. Costs no budget.

    Example: hdpview sample adult.pview -n 1000 -o synthetic.csv
    """
    from hdpview.pview import PView

    _write(PView.open(view).sample(n, seed=seed, as_="pyarrow"), output_path)


def _write(table: pa.Table, path: Path | None) -> None:
    """Write an Arrow table as CSV or Parquet."""
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    from hdpview.view.file import written_whole

    if path is None:
        pc.write_csv(table, sys.stdout.buffer)
        return
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise QueryError(f"Unsupported file type {path.name!r}. Use .csv or .parquet.")
    write = pq.write_table if path.suffix.lower() == ".parquet" else pc.write_csv
    with written_whole(path) as file:
        write(table, file)
    output.wrote(path)


def merge(
    views: Annotated[list[Path], argument("The .pview files.", metavar="VIEW VIEW …")],
    output_path: Annotated[Path, option("The merged view.", "-o", "--output")],
    overlapping: Annotated[
        bool, typer.Option(help="A person may be in several of the tables, so the budgets add up.")
    ] = False,
    force: Force = False,
) -> None:
    """Merge views of several tables with the same schema, such as those of two hospitals, into one.

    Example: hdpview merge north.pview south.pview -o both.pview
    """
    from hdpview.pview import PView
    from hdpview.pview import merge as merge_views
    from hdpview.view.save import Saver

    Saver(output_path).check(force)
    opened = {path.resolve(): PView.open(path) for path in views}
    merged = merge_views([opened[path.resolve()] for path in views], overlapping=overlapping)
    merged.save(output_path)
    how = "budgets add up" if overlapping else "nobody is in two of them, so only the largest budget counts"
    output.wrote(output_path, f": {len(views)} views; {merged.manifest.budget} ({how})")
