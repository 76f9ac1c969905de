"""The commands `hdpview build` and `hdpview estimate`."""

from __future__ import annotations

import dataclasses
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hdpview.cli import output
from hdpview.cli.options import (
    Data,
    Delta,
    Format,
    LedgerFile,
    MaxRows,
    MethodName,
    PrivacyUnit,
    SchemaFile,
    TableName,
)
from hdpview.cli.progress import ProgressBar
from hdpview.view.diagnosis import in_brief

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from hdpview.counts.losses import SchemaWarning
    from hdpview.domain import Schema
    from hdpview.pview import PView
    from hdpview.view.save import Saver

Epsilon = Annotated[
    str, typer.Option("--epsilon", "-e", help="The privacy budget, such as 1.0.", show_default=False)
]
Engine = Annotated[
    str, typer.Option(help="Where to build: local, spark, or a cluster such as spark://host:7077.")
]
NoPerson = Annotated[
    list[str] | None,
    typer.Option(
        metavar="VALUE",
        help="What --privacy-unit holds where nobody is named, such as NA; else it is one person.",
        show_default=False,
    ),
]
People = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COL",
        help="With --privacy-unit: count persons by this attribute too. May be given several times.",
        show_default=False,
    ),
]
Count = Annotated[
    str | None, typer.Option(help="Column of an aggregated table: how many records a row stands for.")
]
Focus = Annotated[
    list[str] | None,
    typer.Option(
        help="Attributes to count together for certain, such as age,income. May be given several times.",
        show_default=False,
    ),
]
WishFile = Annotated[
    Path | None, typer.Option(help="A file of wishes that analysts sent.", show_default=False)
]
NoLedger = Annotated[bool, typer.Option("--no-ledger", help="Do not record this build in a ledger.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing view.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads; all cores by default.")]
MemoryLimit = Annotated[
    str | None, typer.Option(help="Memory limit of the database, such as 4GB; the rest spills to disk.")
]
TestKey = Annotated[
    str | None, typer.Option(help="For tests only: a fixed key. The view is stamped NOT PRIVATE.")
]
AcceptLosses = Annotated[
    bool, typer.Option("--accept-losses", help="Build even if a fifth or more of a column would be lost.")
]
Resume = Annotated[
    bool,
    typer.Option("--resume", help="Finish a build that broke off after its charge, without paying again."),
]
CheckEpsilon = Annotated[
    str | None,
    typer.Option(
        help="Check the schema under differential privacy for this budget; nothing else is shown.",
        show_default=False,
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Answer all questions with yes, losses included.")]
# Epsilon above which a build asks: someone who guessed could become more than 99% sure of a record.
LARGE_EPSILON = 5


def build(
    data: Data,
    schema: SchemaFile,
    epsilon: Epsilon,
    output_path: Annotated[
        Path, typer.Option("-o", "--output", help="The .pview file to write.", show_default=False)
    ],
    delta: Delta = None,
    method: MethodName = "mixture",
    engine: Engine = "local",
    privacy_unit: PrivacyUnit = None,
    max_rows: MaxRows = 1,
    no_person: NoPerson = None,
    people: People = None,
    count: Count = None,
    ledger: LedgerFile = None,
    table: TableName = None,
    no_ledger: NoLedger = False,
    force: Force = False,
    threads: Threads = None,
    memory_limit: MemoryLimit = None,
    test_key: TestKey = None,
    focus: Focus = None,
    accept_losses: AcceptLosses = False,
    check_epsilon: CheckEpsilon = None,
    resume: Resume = False,
    yes: Yes = False,
    format: Format = output.JsonOrTable.table,
) -> None:
    """Build a view of a table, spending EPSILON once. The table is not needed afterwards.

    Example: hdpview build adult.parquet --schema adult.toml --epsilon 1.0 -o adult.pview
    """
    options: dict[str, Any] = {
        "ledger": False if no_ledger else ledger,
        "table": table,
        "test_key": None if test_key is None else test_key.encode(),
        "accept_losses": accept_losses or yes,
        "delta": delta,
        "method": method,
        "engine": engine,
        "resume": resume,
        "threads": threads,
        "privacy_unit": privacy_unit,
        "max_rows": max_rows,
        "no_person": no_person or (),
        "count": count,
        "people": people or (),
        "memory_limit": memory_limit,
        **({"focus": [tuple(output.names_in(names)) for names in focus]} if focus else {}),
    }
    from hdpview.build import build as build_view
    from hdpview.domain import Schema
    from hdpview.privacy.budget import exact_epsilon
    from hdpview.view.save import Saver

    saver = Saver(output_path)
    saver.check(force)
    described = Schema.load(schema)
    _state_risk(exact_epsilon(epsilon), options, yes)
    tell: Callable[[SchemaWarning], object] = tell_warning
    # A build that is resumed was checked before it was charged.
    if check_epsilon is not None and not resume:
        _check_for_budget(data, described, check_epsilon, options)
        # The build's own check has nothing to add, and nobody may see what it says.
        options["accept_losses"], tell = True, str
    view = built_and_saved(saver, data, epsilon, options, partial(build_view, data, described, epsilon), tell)
    warn_if_view_beside_table(data, output_path)
    _print_built(view, output_path, format)


def built_and_saved(
    saver: Saver,
    data: str,
    epsilon: str,
    options: dict[str, Any],
    make: Callable[..., PView],
    tell: Callable[[SchemaWarning], object] | None = None,
) -> PView:
    """Build and save, and say what is charged before and after. Asks on a terminal where much would be lost.

    options: as of `hdpview.build`. make: builds, given these. tell: shows smaller losses.
    """
    from hdpview.build import account_of, budget_line
    from hdpview.errors import LossError
    from hdpview.privacy.budget import exact_epsilon
    from hdpview.privacy.ledger import name_of

    is_test = options["test_key"] is not None
    account = account_of(data, options["ledger"], options["table"], is_test=is_test)
    name = None if account is None else options["table"] or name_of(data)
    coming = None if options["resume"] else exact_epsilon(epsilon)
    typer.echo(budget_line(account, name, coming), err=True)
    hooks = {"on_warning": tell or tell_warning, "on_charge": saver.keep}

    def build_and_save() -> tuple[PView, str | None]:
        with ProgressBar() as progress:
            view = make(progress=progress, **hooks, **options)
            progress(None, "writing the view")
            return view, saver.save(view)

    try:
        view, elsewhere = build_and_save()
    except LossError as losses:
        if not sys.stdin.isatty():
            raise
        for warning in losses.warnings:
            tell_warning(warning)
        typer.confirm("Nothing was spent. Build all the same?", abort=True, err=True)
        options["accept_losses"] = True
        view, elsewhere = build_and_save()
    typer.echo(budget_line(account, name, None), err=True)
    end_if_elsewhere(elsewhere)
    return view


def _print_built(view: PView, output_path: Path, format: output.JsonOrTable) -> None:
    """What was written, what its histograms say about mistakes in the schema, and how to ask it."""
    size = output_path.stat().st_size
    findings = view.diagnosis()
    if format == output.JsonOrTable.json:
        diagnosis = [dataclasses.asdict(finding) for finding in findings]
        output.print_json({"view": str(output_path), "bytes": size, **view.info(), "diagnosis": diagnosis})
        return
    typer.echo(f"Wrote {output_path} ({size / 1000:,.0f} kB)\n{view!r}")
    for sentence in in_brief(findings):
        typer.secho(f"Look: {sentence}", fg="yellow")
    typer.echo(f'Ask it: hdpview query {output_path} "SELECT COUNT(*) FROM view"')


def warn_if_view_beside_table(data: str, view: Path) -> None:
    """Warn where a view lies beside the table it protects and more people may read it."""
    table = Path(data)
    if (
        table.exists()
        and table.resolve().parent == view.resolve().parent
        and view.stat().st_mode & ~table.stat().st_mode & 0o044
    ):
        typer.secho(
            f"Note: {view.name} may be read by more people than {table.name}, and lies in the same "
            "folder. Move it to one of its own.",
            fg="yellow",
            err=True,
        )
    elif table.is_file() and table.stat().st_mode & 0o004:
        typer.secho(
            f"Note: every user of this machine may read {table.name}. Consider: chmod o-r {table.name}",
            fg="yellow",
            err=True,
        )


def end_if_elsewhere(sentence: str | None) -> None:
    """Exit with code 3 where a view had to be written to another place than was asked for."""
    from hdpview.view.save import SAVED_ELSEWHERE

    if sentence is not None:
        typer.secho(sentence, fg="red", err=True)
        raise typer.Exit(SAVED_ELSEWHERE)


def _check_for_budget(data: str, schema: Schema, epsilon: str, options: dict[str, Any]) -> None:
    """Ask for losses under differential privacy instead of looking at the table."""
    from hdpview.cli.schema import checked_for_budget
    from hdpview.counts.check import refuse_losses

    with ProgressBar() as progress:
        warnings = checked_for_budget(data, schema, epsilon, options, progress)
    refuse_losses(warnings, options["accept_losses"], tell_warning)


def _state_risk(epsilon: Fraction, options: dict[str, Any], yes: bool) -> None:
    """State what the budget means for one person, and ask where that is next to no protection."""
    from hdpview.view.risk import risk_sentence

    typer.echo(f"Risk: {risk_sentence(epsilon, options['privacy_unit'] or 'row')}", err=True)
    if epsilon > LARGE_EPSILON and sys.stdin.isatty() and not yes:
        typer.confirm(f"An epsilon above {LARGE_EPSILON} protects little. Go on?", abort=True, err=True)


def tell_warning(warning: SchemaWarning) -> None:
    """Show the curator what a build would lose."""
    typer.secho(f"Look: {warning}", fg="red" if warning.is_blocking else "yellow", err=True)


def estimate(
    schema: Annotated[
        Path | None, typer.Option("--schema", "-s", help="The schema file.", show_default=False)
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(
            min=1, help="About how many rows the table has; a rounded figure will do.", show_default=False
        ),
    ] = None,
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
    plan: Annotated[
        Path | None,
        typer.Option(
            help="Instead: show which attributes would be counted together, and draw them to this SVG file.",
            show_default=False,
        ),
    ] = None,
    wishes: WishFile = None,
    view: Annotated[
        Path | None, typer.Option(help="With --wishes: the view to refine.", show_default=False)
    ] = None,
    output_path: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="With --wishes: draw error against epsilon here, .svg or .png.",
            show_default=False,
        ),
    ] = None,
    format: Format = output.JsonOrTable.table,
) -> None:
    """Before spending: tell what a budget will buy, or find the budget for a wanted error. Needs no data.

    Example: hdpview estimate --schema adult.toml --rows 50000 --epsilon 1.0
    """
    from hdpview.domain import Schema
    from hdpview.errors import BudgetError
    from hdpview.forecast import estimate as estimate_build
    from hdpview.forecast import estimate_plan

    if wishes is not None and view is not None:
        _estimate_wishes(wishes, view, output_path, format)
        return
    if schema is None or rows is None:
        raise BudgetError("Give --schema and --rows, for a build; or --wishes and --view, to refine a view.")
    if plan is not None:
        planned = estimate_plan(
            Schema.load(schema), rows, epsilon, delta=delta, max_rows=max_rows, method=method
        )
        plan.write_text(planned.svg(), encoding="utf-8")
        if format == output.JsonOrTable.json:
            output.print_json(dataclasses.asdict(planned))
        else:
            typer.echo(f"{planned}\nDrawn to {plan}.")
        return

    with ProgressBar() as progress:
        forecast = estimate_build(
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
            for kinds in (forecast.errors, forecast.relations)
        )
        output.print_json({**dataclasses.asdict(forecast), "errors": errors, "relations": relations})
    else:
        typer.echo(str(forecast))


def _estimate_wishes(wishes: Path, view: Path, picture: Path | None, format: output.JsonOrTable) -> None:
    """Which budget would meet which wish."""
    from hdpview.pview import PView
    from hdpview.query.present.plots import save
    from hdpview.refine.forecast import estimate_wishes
    from hdpview.wishes import Wishes

    needs = estimate_wishes(PView.open(view), Wishes.load(wishes))
    if picture is not None:
        save(needs.chart(), picture)
    if format == output.JsonOrTable.json:
        output.print_json({"wishes": needs.rows(), "epsilon": needs.epsilons, "reach": needs.reach.tolist()})
        return
    words = {None: f"more than {needs.epsilons[-1]:g}", 0.0: "met"}
    rows = [{**row, "epsilon": words.get(row["epsilon"], row["epsilon"])} for row in needs.rows()]
    output.print_table(["where", "within", "now", "epsilon"], rows)
    typer.echo(
        "now: the reach of its 95% interval, in records. epsilon: to spend on `hdpview refine --wishes`."
    )
