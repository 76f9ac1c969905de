"""Commands about schemas: the public description of a table."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hdpview.cli import output
from hdpview.cli.options import Columns, Exclude, Format

if TYPE_CHECKING:
    from hdpview.counts.preview import Concern


def check(
    schema: Annotated[Path, typer.Argument(metavar="SCHEMA", help="A schema file.", show_default=False)],
    data: Annotated[
        str | None, typer.Argument(metavar="[DATA]", help="A table to try the schema on.", show_default=False)
    ] = None,
    engine: Annotated[
        str, typer.Option(help="Where DATA is read: local, spark, or a cluster such as spark://host:7077.")
    ] = "local",
    format: Format = output.JsonOrTable.table,
) -> None:
    """Check a schema, and what it would make of a table: from the types of its columns and the format of the
    first lines, without spending budget.

    Example: hdpview schema check adult.toml adult.parquet
    """
    from hdpview.domain import Schema

    checked = Schema.load(schema)
    concerns: list[Concern] = []
    if data is not None:
        from hdpview.build import preview

        concerns = preview(data, checked, engine=engine)
    rows = [
        {
            "attribute": a.name,
            "type": a.kind,
            "values": a.size,
            "missing and unknown values": a.describe_fallbacks(),
        }
        for a in checked
    ]
    if format == output.JsonOrTable.json:
        output.print_json(
            {
                "attributes": rows,
                "cells": float(checked.n_cells),
                "learnt_from_data": checked.learnt_from_data,
                "concerns": [dataclasses.asdict(concern) for concern in concerns],
            }
        )
        return
    output.print_table(["attribute", "type", "values", "missing and unknown values"], rows)
    typer.echo(f"\nThe schema is valid: {len(checked)} attributes, {float(checked.n_cells):.3g} cells.")
    for concern in concerns:
        colour = "red" if concern.is_grave else "yellow"
        typer.secho(str(concern), fg=colour)
    if any(concern.is_grave for concern in concerns):
        typer.echo("Columns that cannot be read at all make `hdpview build` ask before it spends anything.")
    if checked.learnt_from_data:
        typer.secho("It was drawn from the data, so views built on it are NOT PRIVATE.", fg="red")


def import_schema(
    description: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A description of the table, or file.py:name of a Python object.",
            show_default=False,
        ),
    ],
    output_path: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the schema here instead of printing it.")
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            help="frictionless, pandera, dbt, sql, redcap or arrow; found out by default.", show_default=False
        ),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(
            help="Which table, model or resource, where FILE describes several.", show_default=False
        ),
    ] = None,
    columns: Columns = None,
    exclude: Exclude = None,
) -> None:
    """Make a schema of a description that exists: Frictionless, Pandera, dbt, SQL, REDCap, Arrow, Polars,
    pandas.

    Example: hdpview schema import datapackage.json -o adult.toml
    """
    from hdpview.domain.importing import import_description

    output.check_draft_place(output_path)
    text = import_description(
        description, kind, table, columns=output.names_in(columns), exclude=output.names_in(exclude)
    )
    output.write_draft(text, output_path, "DATA")


def json_schema(
    output_path: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write it here instead of printing it.")
    ] = None,
) -> None:
    """Print the JSON Schema of schema files, by which editors complete and check them.

    Example: hdpview schema json-schema -o hdpview.schema.json
    """
    from importlib import resources

    text = (resources.files("hdpview.domain") / "schema.json").read_text(encoding="utf-8")
    if output_path is None:
        typer.echo(text, nl=False)
    else:
        output_path.write_text(text, encoding="utf-8")
        typer.echo(
            f"Wrote {output_path}. As first line of a schema write: #:schema ./{output_path}", err=True
        )
