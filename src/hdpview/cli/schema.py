"""The commands `hdpview schema …`: the public description of a table."""

from __future__ import annotations

import dataclasses
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hdpview.cli import output
from hdpview.cli.options import Columns, Data, Exclude, Format, LedgerFile, MaxRows, PrivacyUnit, TableName
from hdpview.cli.progress import ProgressBar
from hdpview.errors import SchemaError

if TYPE_CHECKING:
    from hdpview.counts.losses import SchemaWarning
    from hdpview.domain import Schema
    from hdpview.privacy.ledger import Receipt

Resume = Annotated[
    bool, typer.Option("--resume", help="Finish what broke off after its charge, without paying again.")
]
_OTHER_FORMATS = (".yaml", ".yml", ".json", ".csv", ".parquet")  # names of files that are not TOML


def draft(
    data: Data,
    output_path: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the draft here instead of printing it.")
    ] = None,
    columns: Columns = None,
    exclude: Exclude = None,
    from_data_not_private: Annotated[
        bool,
        typer.Option(
            help="Fill in bounds and categories from the data. For public data only: the schema is marked."
        ),
    ] = False,
    learn_bounds_epsilon: Annotated[
        str | None,
        typer.Option(
            help="Learn bounds from the data for this budget, charged in the ledger.", show_default=False
        ),
    ] = None,
    learn_delta: Annotated[
        str | None,
        typer.Option(help="Learn frequent categories too, for this delta, such as 1e-9.", show_default=False),
    ] = None,
    privacy_unit: PrivacyUnit = None,
    max_rows: MaxRows = 1,
    ledger: LedgerFile = None,
    table: TableName = None,
    resume: Resume = False,
) -> None:
    """Draft a schema from the names and types of a table's columns. You fill in what needs knowledge.

    Example: hdpview schema draft adult.parquet -o adult.toml
    """
    from hdpview.counts.contributions import Contributions
    from hdpview.counts.draft import draft_schema, learnable_draft, learnt_text
    from hdpview.counts.learn import learn_charged
    from hdpview.domain import TextFormat
    from hdpview.privacy.budget import exact_delta, exact_epsilon
    from hdpview.privacy.ledger import Ledger, default_ledger, ledger_for, name_of

    _check_learning(from_data_not_private, learn_bounds_epsilon, learn_delta, privacy_unit, resume)
    _check_place(output_path)
    wanted, unwanted = output.names_in(columns), output.names_in(exclude)
    receipts: list[Receipt] = []
    if learn_bounds_epsilon is not None:
        epsilon, delta = exact_epsilon(learn_bounds_epsilon), exact_delta(learn_delta or "0")
        limits = Contributions(privacy_unit, max_rows)
        draft, kinds = learnable_draft(data, wanted, unwanted, privacy_unit)
        account, name = Ledger(ledger or ledger_for(data, table) or default_ledger()), table or name_of(data)
        terms = (kinds, epsilon, delta, limits, draft.source or TextFormat())
        learnt = learn_charged(account, name, data, *terms, resume=resume, on_charge=receipts.append)
        typer.echo(account.describe(name), err=True)
        text = learnt_text(draft, learnt, epsilon, delta)
    else:
        text = draft_schema(data, from_data_not_private, columns=wanted, exclude=unwanted)
    not_private = "It is drawn from the data, so views built on it are NOT PRIVATE"
    _write(text, output_path, data, not_private if from_data_not_private else "")
    for receipt in receipts:
        receipt.name_view(None if output_path is None else str(output_path))


def _check_learning(
    not_private: bool, epsilon: str | None, delta: str | None, unit: str | None, resume: bool
) -> None:
    if not_private and epsilon is not None:
        raise SchemaError("--from-data-not-private is free; --learn-bounds-epsilon costs budget. Give one.")
    needing = {"--learn-delta": delta is not None, "--privacy-unit": bool(unit), "--resume": resume}
    for name, given in needing.items():
        if given and epsilon is None:
            raise SchemaError(f"{name} goes with --learn-bounds-epsilon, the budget for learning.")


def check(
    schema: Annotated[Path, typer.Argument(metavar="SCHEMA", help="A schema file.", show_default=False)],
    data: Annotated[
        str | None, typer.Argument(metavar="[DATA]", help="A table to try the schema on.", show_default=False)
    ] = None,
    engine: Annotated[
        str, typer.Option(help="Where DATA is read: local, spark, or a cluster such as spark://host:7077.")
    ] = "local",
    epsilon: Annotated[
        str | None,
        typer.Option(
            help="Check under differential privacy, if you may not look at the table; uses budget.",
            show_default=False,
        ),
    ] = None,
    privacy_unit: PrivacyUnit = None,
    max_rows: MaxRows = 1,
    ledger: LedgerFile = None,
    table: TableName = None,
    resume: Resume = False,
    format: Format = output.JsonOrTable.table,
) -> None:
    """Check a schema, and what a build would lose of a table; exit code 1 on what would stop a build.

    Reads the whole table, for your eyes only, and spends no budget unless --epsilon is given.

    Example: hdpview schema check adult.toml adult.parquet
    """
    from hdpview.domain import Schema

    checked = Schema.load(schema)
    warnings: list[SchemaWarning] = []
    if data is not None:
        from hdpview.build import preview

        with ProgressBar() as progress:
            who: dict[str, Any] = {"privacy_unit": privacy_unit, "max_rows": max_rows}
            paying = {"ledger": ledger, "table": table, "resume": resume, **who}
            warnings = (
                preview(data, checked, engine=engine, progress=progress, **who)
                if epsilon is None
                else checked_for_budget(data, checked, epsilon, paying, progress)
            )
    is_blocked = any(warning.is_blocking for warning in warnings)
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
                "warnings": [dataclasses.asdict(warning) for warning in warnings],
            }
        )
        raise typer.Exit(int(is_blocked))
    output.print_table(["attribute", "type", "values", "missing and unknown values"], rows)
    typer.echo(f"\nThe schema is valid: {len(checked)} attributes, {float(checked.n_cells):.3g} cells.")
    for warning in warnings:
        typer.secho(str(warning), fg="red" if warning.is_blocking else "yellow")
    if data is not None and not warnings:
        typer.echo("It reads the whole table without losses.")
    if is_blocked:
        typer.echo("A build would stop here, before it spends anything, unless --accept-losses is given.")
    if checked.learnt_from_data:
        typer.secho("It was drawn from the data, so views built on it are NOT PRIVATE.", fg="red")
    raise typer.Exit(int(is_blocked))


def checked_for_budget(
    data: str, schema: Schema, epsilon: str, paying: dict[str, Any], progress: ProgressBar
) -> list[SchemaWarning]:
    """A check that is charged, and says so. paying: ledger, table, resume, privacy_unit and max_rows."""
    from hdpview.counts.contributions import Contributions
    from hdpview.counts.ingest import ReadOptions
    from hdpview.counts.paid_check import paid_check
    from hdpview.privacy.budget import exact_epsilon
    from hdpview.privacy.ledger import Ledger, default_ledger, ledger_for, name_of

    name = paying["table"] or name_of(data)
    account = Ledger(paying["ledger"] or ledger_for(data, paying["table"]) or default_ledger())
    limits = Contributions(paying["privacy_unit"], paying["max_rows"])
    options = ReadOptions(limits, secrets.token_hex(16), progress=progress)
    budget, resume = exact_epsilon(epsilon), paying["resume"]
    warnings = paid_check(data, schema, budget, account, name, options, resume=resume)
    typer.echo(account.describe(name), err=True)
    return warnings


def import_schema(
    description: Annotated[
        str, typer.Argument(metavar="FILE", help="A description of the table.", show_default=False)
    ],
    output_path: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the schema here instead of printing it.")
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(help="frictionless, sql or redcap; found out by default.", show_default=False),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(help="Which table or resource, where FILE describes several.", show_default=False),
    ] = None,
    columns: Columns = None,
    exclude: Exclude = None,
) -> None:
    """Make a schema of a description: Frictionless, SQL, or a data dictionary such as REDCap's.

    Example: hdpview schema import datapackage.json -o adult.toml
    """
    from hdpview.domain.importing import import_description

    _check_place(output_path)
    text = import_description(
        description, kind, table, columns=output.names_in(columns), exclude=output.names_in(exclude)
    )
    _write(text, output_path, "DATA")


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


def _check_place(output_path: Path | None) -> None:
    """Refuse, before anything is spent or read, a place where a draft could not be written."""
    if output_path is None:
        return
    if output_path.exists():
        raise SchemaError(
            f"{str(output_path)!r} is there already, and a draft is not written over it. Remove it, or "
            "name another file."
        )
    if output_path.suffix.lower() in _OTHER_FORMATS:
        raise SchemaError(
            f"Schema files are written in TOML, and {str(output_path)!r} is named like another format. "
            f"Write {str(output_path.with_suffix('.toml'))!r} instead."
        )
    if not os.access(output_path.parent, os.W_OK):
        raise SchemaError(f"The folder of {str(output_path)!r} does not exist, or you may not write to it.")


def _write(text: str, output_path: Path | None, data: str, note: str = "") -> None:
    """Write a draft, or print it, and say what comes next."""
    from hdpview.domain.places import open_lines

    if output_path is None:
        typer.echo(text, nl=False)
        return
    try:
        output_path.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise SchemaError(
            f"Cannot write {str(output_path)!r}: {problem.strerror or problem}. If the draft was paid for, "
            "name another place and add --resume: it costs nothing more."
        ) from None
    n_open = len(open_lines(text))
    next_step = note or (f"Replace each ? in it ({n_open} lines)" if n_open else "Look it through")
    typer.echo(
        f"Wrote {output_path}. {next_step}; then run: hdpview schema check {output_path} {data}", err=True
    )
