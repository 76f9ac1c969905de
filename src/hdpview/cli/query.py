"""Commands of the analyst: they open a view and never see the table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hdpview.cli import output
from hdpview.cli.options import Format
from hdpview.errors import QueryError, ViewFileError

if TYPE_CHECKING:
    import pyarrow as pa

    from hdpview.domain import Attribute
    from hdpview.view.card import PrivacyCard

View = Annotated[Path, typer.Argument(metavar="VIEW", help="A .pview file.", show_default=False)]


def info(
    view: View,
    card: Annotated[
        bool, typer.Option("--card", help="Print the privacy card: one page to judge the view by.")
    ] = False,
    quality: Annotated[
        bool,
        typer.Option(
            "--quality", help="Print how far answers are off, and which attributes were counted together."
        ),
    ] = False,
    output_path: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write the card here, as HTML if named so, else text."),
    ] = None,
    format: Format = output.JsonOrTable.table,
) -> None:
    """Tell what a view is: what it protects, what it cost, what can be asked.

    Example: hdpview info adult.pview --card -o adult-card.html
    """
    from hdpview.pview import PView

    opened = PView.open(view)
    if card or output_path is not None:
        _card(opened.privacy_card(), output_path)
        return
    if quality:
        report = opened.quality()
        if format == output.JsonOrTable.json:
            output.print_json(report.as_dict())
        else:
            typer.echo(str(report))
        return
    facts = opened.info()
    if format == output.JsonOrTable.json:
        output.print_json(facts)
        return
    if not facts["private"]:
        typer.secho("NOT PRIVATE: " + "; ".join(facts["not_private_because"]), fg="red", bold=True)
    spent = ", ".join(f"{purpose} {epsilon:g}" for purpose, epsilon in facts["spending"].items())
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
    output.print_table(
        ["attribute", "type", "values", "from", "to", "missing"],
        [_row(attribute) for attribute in opened.schema],
    )


def _row(attribute: Attribute) -> dict[str, object]:
    labels = attribute.value_labels()
    own = "a value of its own" if attribute.nullable else f"as {labels[attribute.missing_code]}"
    return {
        "attribute": attribute.name,
        "type": attribute.kind,
        "values": attribute.size,
        "from": labels[0],
        "to": labels[-1],
        "missing": own,
    }


def _card(card: PrivacyCard, path: Path | None) -> None:
    if path is None:
        typer.echo(card.text, nl=False)
        return
    try:
        card.save(path)
    except OSError as problem:
        raise ViewFileError(f"Cannot write {str(path)!r}: {problem.strerror or problem}.") from None
    typer.echo(f"Wrote {path}", err=True)


def query(
    view: View,
    sql: Annotated[str, typer.Argument(metavar="SQL", help="The question.", show_default=False)],
    format: Annotated[
        output.Format, typer.Option(help="table for people; csv or json for programs.")
    ] = output.Format.table,
    confidence: Annotated[float, typer.Option(help="Confidence of the interval, 0.5 to 0.9999.")] = 0.95,
    interval: Annotated[
        output.Interval, typer.Option(help="Which interval is printed as lower and upper.")
    ] = output.Interval.typical,
    dialect: Annotated[
        str, typer.Option(help="The SQL it is written in: duckdb, postgres, snowflake, spark, …")
    ] = "duckdb",
    ranks: Annotated[
        bool, typer.Option("--ranks", help="Add how likely a row belongs to the answer, and its ranks.")
    ] = False,
) -> None:
    """Ask a view a question in SQL. Costs no budget, however often.

    Example: hdpview query adult.pview "SELECT sex, COUNT(*) AS n, AVG(age) FROM view WHERE hours >= 40 GROUP
        BY sex"
    """
    from hdpview.pview import PView
    from hdpview.query.evaluate import run

    opened = PView.open(view)
    result = run(opened, sql, confidence, interval=interval.value, dialect=dialect, ranks=ranks)
    columns, rows = result.names, result.to_rows()
    if format == output.Format.json:
        budget = dict(zip(("epsilon", "delta"), map(float, opened.manifest.total), strict=True))
        notes = [*result.notes, *result.inferred]
        output.print_json(
            {"columns": columns, "rows": rows, "confidence": confidence, **budget, "notes": notes}
        )
    elif format == output.Format.csv:
        output.print_csv(columns, rows)
    else:
        measured = result.measured
        keys = set(columns) - {name for names in measured for name in names}
        output.print_table(columns, [output.rounded_row(row, measured, result.counts) for row in rows], keys)
    if format != output.Format.json:
        for note in (*result.notes, *result.inferred):
            typer.echo(note, err=True)
    output.warn_if_not_private(opened)


def plot(
    view: View,
    columns: Annotated[
        list[str],
        typer.Argument(
            metavar="COL [COL]", help="One attribute for bars, two for a heat map.", show_default=False
        ),
    ],
    output_path: Annotated[
        Path,
        typer.Option(
            "-o", "--output", help="The picture: .png, .svg, .pdf, .html or .json.", show_default=False
        ),
    ],
    where: Annotated[str | None, typer.Option(help="A condition on the records counted.")] = None,
    partition: Annotated[
        bool, typer.Option(help="With two attributes: draw the borders of the view's blocks.")
    ] = False,
) -> None:
    """Draw a view: counts of one attribute as bars, of two as shades. Costs no budget.

    Example: hdpview plot adult.pview age hours -o age-hours.png
    """
    from hdpview.pview import PView
    from hdpview.query.present.plots import save

    opened = PView.open(view)
    if len(columns) > 2 or (partition and (len(columns) != 2 or where is not None)):
        raise QueryError("A picture shows one or two attributes; --partition takes two, and no --where.")
    if partition:
        save(opened.plot.partition(columns[0], columns[1]), output_path)
    elif len(columns) == 2:
        save(opened.plot.heatmap(columns[0], columns[1], where), output_path)
    else:
        save(opened.plot.histogram(columns[0], where), output_path)


def wishes(
    view: View,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="The file of wishes; by default VIEW's name with .wishes.json."),
    ] = None,
    where: Annotated[
        str | None, typer.Option(help="Add a wish: the condition whose count should be sharper.")
    ] = None,
    within: Annotated[
        float | None, typer.Option(help="With --where: how many records its 95% interval may reach.")
    ] = None,
    format: Format = output.JsonOrTable.table,
) -> None:
    """List what analysts need sharper, and what the view reaches now; or add a wish. Costs no budget.

    Example: hdpview wishes adult.pview --where "age >= 60 AND sex = 'Female'" --within 50
    """
    from hdpview.pview import PView
    from hdpview.wishes import Wishes

    opened, path = PView.open(view), file or view.with_suffix(".wishes.json")
    if (where is None) != (within is None):
        raise QueryError("A wish has a condition and a number of records: --where and --within.")
    if where is not None and within is not None:
        new = opened.wish(where, within)
        (Wishes.load(path) + new if path.exists() else new).save(path)
        typer.echo(f"Wrote {path}. Send it to the curator of the view.", err=True)
    report = Wishes.load(path).report(opened)
    if format == output.JsonOrTable.json:
        output.print_json(report)
    else:
        rows = [{**row, "met": "yes" if row["met"] else "no"} for row in report]
        output.print_table(["where", "within", "now", "met"], rows)


def sample(
    view: View,
    n: Annotated[int, typer.Option("-n", "--rows", help="How many records.", show_default=False)],
    output_path: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="A .csv or .parquet file; without it, CSV is printed."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Makes the records repeatable.")] = None,
) -> None:
    """Draw synthetic records from a view. Costs no budget, however many.

    Example: hdpview sample adult.pview -n 1000 -o synthetic.csv
    """
    from hdpview.pview import PView

    _write(PView.open(view).sample(n, seed=seed, as_="pyarrow"), output_path)


def _write(table: pa.Table, path: Path | None) -> None:
    """Write an Arrow table as CSV or Parquet."""
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    if path is None:
        pc.write_csv(table, sys.stdout.buffer)
        return
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise QueryError(f"Unsupported file type {path.name!r}. Use .csv or .parquet.")
    try:
        pq.write_table(table, path) if path.suffix.lower() == ".parquet" else pc.write_csv(table, path)
    except OSError as problem:
        raise QueryError(f"Cannot write {str(path)!r}: {problem.strerror or problem}.") from None


def merge(
    views: Annotated[
        list[Path], typer.Argument(metavar="VIEW VIEW …", help="The .pview files.", show_default=False)
    ],
    output_path: Annotated[Path, typer.Option("-o", "--output", help="The merged view.", show_default=False)],
    overlapping: Annotated[
        bool, typer.Option(help="Somebody may be in more than one of the tables: the budgets add up.")
    ] = False,
) -> None:
    """Merge views of several tables with the same schema, such as those of two hospitals, into one.

    Example: hdpview merge north.pview south.pview -o both.pview
    """
    from hdpview.pview import PView
    from hdpview.pview import merge as merge_views

    opened = {path.resolve(): PView.open(path) for path in views}
    merged = merge_views([opened[path.resolve()] for path in views], overlapping=overlapping)
    merged.save(output_path)
    how = "budgets add up" if overlapping else "nobody is in two of them, so the largest budget counts"
    typer.echo(
        f"{output_path}: {merged.n_components:,} components of {len(views)} views; "
        f"{merged.manifest.budget} ({how})"
    )
