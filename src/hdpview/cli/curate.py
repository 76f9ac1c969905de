"""Commands of the curator: they see the table."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hdpview.cli import guard, output
from hdpview.cli.options import (
    Columns,
    Data,
    Delta,
    Exclude,
    Format,
    LedgerFile,
    MethodName,
    SchemaFile,
    TableName,
)
from hdpview.cli.progress import ProgressBar

if TYPE_CHECKING:
    from hdpview.curate.job import BuildJob
    from hdpview.domain import Schema
    from hdpview.pview import PView

Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Build without asking, even where a column cannot be read.")
]


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
    privacy_unit: Annotated[
        str | None,
        typer.Option(
            help="Column that says whose row it is: learning protects the person.", show_default=False
        ),
    ] = None,
    max_rows: Annotated[int, typer.Option(min=1, help="Rows of one person that are looked at.")] = 1,
    ledger: LedgerFile = None,
    table: TableName = None,
) -> None:
    """Draft a schema from the names and types of a table's columns. You fill in what needs knowledge.

    Example: hdpview schema draft adult.parquet -o adult.toml
    """
    from hdpview.counts.draft import draft_schema
    from hdpview.errors import SchemaError

    if from_data_not_private and learn_bounds_epsilon is not None:
        raise SchemaError(
            "Give either --from-data-not-private, for public data, or --learn-bounds-epsilon, which "
            "costs budget."
        )
    if learn_delta is not None and learn_bounds_epsilon is None:
        raise SchemaError("--learn-delta goes with --learn-bounds-epsilon, the budget for learning.")
    if learn_bounds_epsilon is None and privacy_unit:
        raise SchemaError("--privacy-unit goes with --learn-bounds-epsilon, the budget for learning.")
    output.check_draft_place(output_path)
    if learn_bounds_epsilon is not None:
        text = guard.learnt_schema(
            guard.Learning(
                data,
                learn_bounds_epsilon,
                learn_delta,
                ledger,
                table,
                tuple(output.names_in(columns)),
                tuple(output.names_in(exclude)),
                privacy_unit,
                max_rows,
            )
        )
    else:
        text = draft_schema(
            data,
            from_data_not_private=from_data_not_private,
            columns=output.names_in(columns),
            exclude=output.names_in(exclude),
        )
    not_private = (
        "It is drawn from the data, so views built on it are NOT PRIVATE" if from_data_not_private else ""
    )
    output.write_draft(text, output_path, data, not_private)


def build(
    data: Data,
    schema: SchemaFile,
    epsilon: Annotated[
        str, typer.Option("--epsilon", "-e", help="The privacy budget, such as 1.0.", show_default=False)
    ],
    output_path: Annotated[
        Path, typer.Option("-o", "--output", help="The .pview file to write.", show_default=False)
    ],
    delta: Delta = None,
    method: MethodName = "mixture",
    engine: Annotated[
        str, typer.Option(help="Where to build: local, spark, or a cluster such as spark://host:7077.")
    ] = "local",
    privacy_unit: Annotated[
        str | None,
        typer.Option(
            help="Column that says whose row it is: protects the person, not the row.", show_default=False
        ),
    ] = None,
    max_rows: Annotated[
        int, typer.Option(min=1, help="Rows of one person that are counted, chosen by lot.")
    ] = 1,
    no_person: Annotated[
        list[str] | None,
        typer.Option(
            metavar="VALUE",
            help="What --privacy-unit holds where nobody is named, such as NA; else it is one person.",
            show_default=False,
        ),
    ] = None,
    count: Annotated[
        str | None, typer.Option(help="Column of an aggregated table: how many records a row stands for.")
    ] = None,
    ledger: LedgerFile = None,
    table: TableName = None,
    no_ledger: Annotated[bool, typer.Option("--no-ledger", help="Keep no account of this build.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Write over a view that is there already.")] = False,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads; all cores by default.")] = None,
    memory_limit: Annotated[
        str | None, typer.Option(help="Memory of the embedded database before it uses the disk, such as 4GB.")
    ] = None,
    test_key: Annotated[
        str | None, typer.Option(help="For tests only: a fixed key. The view is stamped NOT PRIVATE.")
    ] = None,
    focus: Annotated[
        list[str] | None,
        typer.Option(
            help="Attributes to count together for certain, such as age,income. May be given several times.",
            show_default=False,
        ),
    ] = None,
    yes: Yes = False,
    format: Format = output.JsonOrTable.table,
) -> None:
    """Build a view of a table, spending EPSILON once. The table is not needed afterwards.

    Example: hdpview build adult.parquet --schema adult.toml --epsilon 1.0 -o adult.pview
    """
    from hdpview.build import account_of, budget_line
    from hdpview.build import build as build_view
    from hdpview.cli.save import Saver
    from hdpview.domain import Schema
    from hdpview.privacy.budget import exact_epsilon
    from hdpview.privacy.ledger import name_of

    saver = Saver(output_path)
    saver.check(force)
    described = Schema.load(schema)
    if engine == "local" and not yes:
        with ProgressBar():
            confirm_reading(data, described)
    account = account_of(data, False if no_ledger else ledger, table, is_test=test_key is not None)
    name = None if account is None else table or name_of(data)
    typer.echo(budget_line(account, name, exact_epsilon(epsilon)), err=True)
    settings: dict[str, Any] = {"focus": [tuple(output.names_in(names)) for names in focus]} if focus else {}
    with ProgressBar() as progress:
        view = build_view(
            data,
            described,
            epsilon,
            delta=delta,
            method=method,
            engine=engine,
            privacy_unit=privacy_unit,
            max_rows=max_rows,
            count=count,
            no_person=no_person or (),
            ledger=False if no_ledger else ledger,
            table=table,
            threads=threads,
            memory_limit=memory_limit,
            test_key=None if test_key is None else test_key.encode(),
            progress=progress,
            on_charge=saver.keep,
            **settings,
        )
        progress(None, "writing the view")
        elsewhere = saver.save(view)
    typer.echo(budget_line(account, name, None), err=True)
    end_if_elsewhere(elsewhere)
    guard.warn_if_view_beside_table(data, output_path)
    _print_built(view, output_path, format)


def _print_built(view: PView, output_path: Path, format: output.JsonOrTable) -> None:
    """What was written, what its histograms say about mistakes in the schema, and how to ask it."""
    size = output_path.stat().st_size
    findings = view.diagnosis()
    if format == output.JsonOrTable.json:
        found = [dataclasses.asdict(finding) for finding in findings]
        output.print_json({"view": str(output_path), "bytes": size, **view.info(), "diagnosis": found})
        return
    typer.echo(f"Wrote {output_path} ({size / 1000:,.0f} kB)\n{view!r}")
    for finding in findings:
        typer.secho(f"Look: {finding}", fg="yellow")
    typer.echo(f'Ask it: hdpview query {output_path} "SELECT COUNT(*) FROM view"')


def end_if_elsewhere(sentence: str | None) -> None:
    """Exit with code 3 where a view had to be written to another place than was asked for."""
    from hdpview.cli.save import SAVED_ELSEWHERE

    if sentence is not None:
        typer.secho(sentence, fg="red", err=True)
        raise typer.Exit(SAVED_ELSEWHERE)


def confirm_reading(data: str, schema: Schema) -> None:
    """Ask, or refuse where nobody can answer, before budget is spent on columns that cannot be read at
    all.
    """
    from hdpview.counts.preview import preview
    from hdpview.errors import DataError

    grave = [concern for concern in preview(data, schema) if concern.is_grave]
    if not grave:
        return
    told = "\n".join(f"  {concern.attribute}: {concern.sentence}" for concern in grave)
    if sys.stdin.isatty():
        typer.secho(f"Before the budget is spent:\n{told}", fg="yellow", err=True)
        typer.confirm("Build all the same?", abort=True, err=True)
        return
    raise DataError(
        f"The schema cannot read {len(grave)} of the table's columns, and nothing was spent:\n{told}\n"
        "Correct the schema, or pass --yes to build all the same."
    )


def estimate(
    schema: SchemaFile,
    rows: Annotated[
        int,
        typer.Option(
            min=1, help="About how many rows the table has; a rounded figure will do.", show_default=False
        ),
    ],
    epsilon: Annotated[
        str | None, typer.Option("--epsilon", "-e", help="A budget to judge.", show_default=False)
    ] = None,
    error: Annotated[
        float | None,
        typer.Option(help="Or: the error wanted, in records, of a range of two attributes (or one)."),
    ] = None,
    delta: Delta = None,
    max_rows: Annotated[
        int, typer.Option(min=1, help="Rows of one person that would be counted, as in build.")
    ] = 1,
    method: MethodName = "mixture",
    format: Format = output.JsonOrTable.table,
) -> None:
    """Before spending: tell what a budget will buy, or find the budget for a wanted error. Needs no data.

    Example: hdpview estimate --schema adult.toml --rows 50000 --epsilon 1.0
    """
    from hdpview.domain import Schema
    from hdpview.forecast import estimate as estimate_build

    with ProgressBar() as progress:
        found = estimate_build(
            Schema.load(schema),
            rows,
            epsilon,
            error=error,
            delta=delta,
            max_rows=max_rows,
            method=method,
            progress=progress,
        )
    if format == output.JsonOrTable.json:
        errors, relations = (
            {kind: bounds._asdict() for kind, bounds in kinds.items()}
            for kinds in (found.errors, found.relations)
        )
        output.print_json({**dataclasses.asdict(found), "errors": errors, "relations": relations})
    else:
        typer.echo(str(found))


def open_page(
    data: Data,
    folder: Annotated[
        Path, typer.Option("-d", "--directory", help="Where the schema, the view and its pages go.")
    ] = Path(),
    ledger: LedgerFile = None,
    table: TableName = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 0,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open a browser.")] = False,
) -> None:
    """Go from a table to a view on a page in the browser: describe, choose, build. On this machine alone.

    Example: hdpview curate admissions.csv
    """
    import secrets
    import socket
    import webbrowser

    import uvicorn

    from hdpview.curate.server import create_app
    from hdpview.curate.work import Curation, check_folder
    from hdpview.errors import DataError

    check_folder(folder)
    work, token = Curation(data, folder, ledger, table), secrets.token_urlsafe(24)
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError as problem:
            raise DataError(f"Cannot listen on port {port}: {problem.strerror}. Try --port 0.") from None
        app = create_app(work, token)
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/?token={token}"
        typer.echo(f"Curating {work.table} at {address}  (Ctrl-C ends it)")
        if not no_open:
            webbrowser.open(address)
        config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_keep_alive=5)
        with app.state.opened.stack:
            uvicorn.Server(config).run(sockets=[listener])
        end_build(app.state.job)


def end_build(job: BuildJob) -> None:
    """A build that is under way when the page ends stops at its next step, and says what it cost."""
    if job.state == "running":
        job.cancel()
        job.wait()
        typer.secho(job.message or "The view was built.", fg="yellow", err=True)
