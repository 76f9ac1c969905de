"""The commands `hdpview schema …`: the public description of a table."""

from __future__ import annotations

import dataclasses
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hdpview.cli import options as given
from hdpview.cli import output
from hdpview.cli.options import argument, option
from hdpview.cli.progress_bar import ProgressBar
from hdpview.errors import SchemaError, ViewFileError

if TYPE_CHECKING:
    from hdpview.counts.losses import SchemaWarning
    from hdpview.domain import Schema
    from hdpview.privacy.ledger import Ledger, Receipt

_OTHER_FORMATS = (".yaml", ".yml", ".json", ".csv", ".parquet")  # names of files that are not TOML


def draft(
    data: given.Data,
    output_path: given.DraftFile = None,
    columns: given.Columns = None,
    exclude: given.Exclude = None,
    from_data_not_private: Annotated[
        bool,
        typer.Option(
            help="Fill in bounds and categories from the data. For public data only: marks the schema."
        ),
    ] = False,
    learn_bounds_epsilon: Annotated[
        str | None, option("Learn bounds from the data for this budget, charged in the ledger.")
    ] = None,
    learn_delta: Annotated[
        str | None, option("Learn frequent categories too, for this delta, such as 1e-9.")
    ] = None,
    privacy_unit: given.PrivacyUnit = None,
    max_rows: given.MaxRows = 1,
    ledger: given.LedgerFile = None,
    table: given.TableName = None,
    resume: given.Resume = False,
) -> None:
    """Draft a schema from the names and types of a table's columns. You fill in bounds and values.

    Example: hdpview schema draft adult.parquet -o adult.toml
    """
    from hdpview.counts.contributions import Contributions
    from hdpview.counts.draft import draft_schema, learnable_draft, learnt_text
    from hdpview.counts.learn import learn_charged
    from hdpview.domain import TextFormat
    from hdpview.privacy.budget import exact_delta, exact_epsilon

    _check_learning(from_data_not_private, learn_bounds_epsilon, learn_delta, privacy_unit, resume)
    _check_place(output_path)
    wanted, unwanted = output.names_in(columns), output.names_in(exclude)
    receipts: list[Receipt] = []
    if learn_bounds_epsilon is not None:
        epsilon, delta = exact_epsilon(learn_bounds_epsilon), exact_delta(learn_delta or "0")
        limits = Contributions(privacy_unit, max_rows)
        draft, kinds = learnable_draft(data, wanted, unwanted, privacy_unit)
        charged, name = _ledger_of(data, ledger, table)
        terms = (kinds, epsilon, delta, limits, draft.source or TextFormat())
        learnt = learn_charged(charged, name, data, *terms, resume=resume, on_charge=receipts.append)
        typer.echo(charged.describe(name), err=True)
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
    for name, is_given in needing.items():
        if is_given and epsilon is None:
            raise SchemaError(f"{name} needs --learn-bounds-epsilon, the budget for learning.")


def check(
    schema: Annotated[Path, argument("A schema file.", metavar="SCHEMA")],
    data: Annotated[str | None, argument("A table to try the schema on.", metavar="[DATA]")] = None,
    engine: Annotated[
        str, typer.Option(help="Where DATA is read: local, spark, or a cluster such as spark://host:7077.")
    ] = "local",
    epsilon: Annotated[
        str | None, option("Check under differential privacy, if you may not look at the table; uses budget.")
    ] = None,
    privacy_unit: given.PrivacyUnit = None,
    max_rows: given.MaxRows = 1,
    ledger: given.LedgerFile = None,
    table: given.TableName = None,
    resume: given.Resume = False,
    format: given.Format = "table",
) -> None:
    """Check a schema, and list what a build would lose of a table. Exit code 1 if a build would stop.

    Reads the whole table; the result is for the curator only. Spends no budget without --epsilon.

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
    fallbacks = "missing and unknown values"
    rows = [
        {"attribute": a.name, "type": a.kind, "values": a.size, fallbacks: a.describe_fallbacks()}
        for a in checked
    ]
    if format == "json":
        facts = {"cells": float(checked.n_cells), "learnt_from_data": checked.learnt_from_data}
        losses = [dataclasses.asdict(warning) for warning in warnings]
        output.print_json({"attributes": rows, **facts, "warnings": losses})
    else:
        output.print_table([*rows[0]], rows)
        _print_outcome(checked, warnings, data is not None, is_blocked)
    raise typer.Exit(int(is_blocked))


def _print_outcome(schema: Schema, warnings: list[SchemaWarning], was_tried: bool, is_blocked: bool) -> None:
    """Print the outcome of a check. was_tried: whether a table was read."""
    typer.echo(f"\nThe schema is valid: {len(schema)} attributes, {float(schema.n_cells):.3g} cells.")
    for warning in warnings:
        typer.secho(str(warning), fg="red" if warning.is_blocking else "yellow")
    if was_tried and not warnings:
        typer.echo("It reads the whole table without losses.")
    if is_blocked:
        typer.echo("A build would stop here, before it spends anything, unless --accept-losses is given.")
    if schema.learnt_from_data:
        typer.secho("It was drawn from the data, so views built on it are NOT PRIVATE.", fg="red")


def checked_for_budget(
    data: str, schema: Schema, epsilon: str, paying: dict[str, Any], progress: ProgressBar
) -> list[SchemaWarning]:
    """A check under differential privacy. paying: ledger, table, resume, privacy_unit and max_rows."""
    from hdpview.counts.contributions import Contributions
    from hdpview.counts.ingest import ReadOptions
    from hdpview.counts.paid_check import paid_check
    from hdpview.privacy.budget import exact_epsilon

    ledger, name = _ledger_of(data, paying["ledger"], paying["table"])
    limits = Contributions(paying["privacy_unit"], paying["max_rows"])
    options = ReadOptions(limits, secrets.token_hex(16), progress=progress)
    budget, resume = exact_epsilon(epsilon), paying["resume"]
    warnings = paid_check(data, schema, budget, ledger, name, options, resume=resume)
    typer.echo(ledger.describe(name), err=True)
    return warnings


def _ledger_of(data: str, path: Path | None, table: str | None) -> tuple[Ledger, str]:
    """The ledger to charge, and the table's name in it."""
    from hdpview.privacy.ledger import Ledger, default_ledger, ledger_for, name_of

    return Ledger(path or ledger_for(data, table) or default_ledger()), table or name_of(data)


def import_schema(
    description: Annotated[str, argument("A description of the table.", metavar="FILE")],
    output_path: given.DraftFile = None,
    kind: Annotated[str | None, option("frictionless, sql or redcap; detected by default.")] = None,
    table: Annotated[str | None, option("The table or resource to use, if FILE describes several.")] = None,
    columns: given.Columns = None,
    exclude: given.Exclude = None,
) -> None:
    """Make a schema from a description: Frictionless, SQL, or a data dictionary such as REDCap's.

    Example: hdpview schema import datapackage.json -o adult.toml
    """
    from hdpview.domain.importing import import_description

    if Path(description).suffix.lower() == ".toml":
        raise SchemaError(f"{description!r} is a schema already. Run: hdpview schema check {description}")
    _check_place(output_path)
    text = import_description(
        description, kind, table, columns=output.names_in(columns), exclude=output.names_in(exclude)
    )
    _write(text, output_path, "DATA")


def json_schema(output_path: given.DraftFile = None) -> None:
    """Print the JSON Schema of schema files, which editors use to complete and check them.

    Example: hdpview schema json-schema -o hdpview.schema.json
    """
    from importlib import resources

    text = (resources.files("hdpview.domain") / "schema.json").read_text(encoding="utf-8")
    if output_path is None:
        typer.echo(text, nl=False)
    else:
        output_path.write_text(text, encoding="utf-8")
        typer.echo(
            f"Wrote {output_path}. First line of a schema for editors: #:schema ./{output_path}", err=True
        )


def _check_place(output_path: Path | None) -> None:
    """Refuse an unwritable path before anything is spent or read."""
    if output_path is None:
        return
    if output_path.exists():
        raise SchemaError(
            f"{str(output_path)!r} exists, and a draft does not replace it. Remove it, or name another file."
        )
    if output_path.suffix.lower() in _OTHER_FORMATS:
        raise SchemaError(
            f"Schema files are TOML, but {str(output_path)!r} has the ending of another format. "
            f"Write {str(output_path.with_suffix('.toml'))!r} instead."
        )
    if not (output_path.parent.is_dir() and os.access(output_path.parent, os.W_OK)):
        raise SchemaError(f"The folder of {str(output_path)!r} does not exist, or you may not write to it.")


def _write(text: str, output_path: Path | None, data: str, note: str = "") -> None:
    """Write a draft and print the next step, or print the draft."""
    from hdpview.domain.toml import open_lines
    from hdpview.view.file import written_whole

    if output_path is None:
        typer.echo(text, nl=False)
        return
    try:
        with written_whole(output_path) as file:
            file.write(text.encode())
    except ViewFileError as problem:
        raise SchemaError(
            f"{problem} If the draft was paid for, name another file and add --resume: it costs nothing more."
        ) from None
    n_open = len(open_lines(text))
    next_step = note or (f"Replace each ? in it ({n_open} lines)" if n_open else "Review it")
    typer.echo(
        f"Wrote {output_path}. {next_step}; then run: hdpview schema check {output_path} {data}", err=True
    )
