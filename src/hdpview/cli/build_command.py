"""The commands `hdpview build`, `hdpview refine` and `hdpview estimate`."""

from __future__ import annotations

import dataclasses
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hdpview.cli import options as given
from hdpview.cli import output
from hdpview.cli.options import argument, option
from hdpview.cli.progress_bar import ProgressBar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from fractions import Fraction

    from hdpview.counts.losses import SchemaWarning
    from hdpview.domain import Schema
    from hdpview.pview import PView
    from hdpview.view.save import Saver

# Above this epsilon a build asks: an attacker could become more than 99% sure that a record is present.
LARGE_EPSILON = 5
# Options that the library takes as they are.
_PASSED_ON = "count delta engine max_rows memory_limit method privacy_unit resume table threads"


def build(
    data: given.Data,
    schema: given.SchemaFile,
    epsilon: given.Epsilon,
    output_path: given.ViewFile,
    delta: given.Delta = None,
    method: given.MethodName = "mixture",
    engine: given.Engine = "local",
    privacy_unit: given.PrivacyUnit = None,
    max_rows: given.MaxRows = 1,
    no_person: given.NoPerson = None,
    people: given.People = None,
    count: given.Count = None,
    ledger: given.LedgerFile = None,
    table: given.TableName = None,
    no_ledger: given.NoLedger = False,
    force: given.Force = False,
    threads: given.Threads = None,
    memory_limit: given.MemoryLimit = None,
    test_key: given.TestKey = None,
    focus: given.Focus = None,
    accept_losses: given.AcceptLosses = False,
    check_epsilon: given.CheckEpsilon = None,
    resume: given.Resume = False,
    yes: given.Yes = False,
    format: given.Format = "table",
) -> None:
    """Build a view of a table, spending EPSILON once. The table is not needed afterwards.

    Example: hdpview build adult.parquet --schema adult.toml --epsilon 1.0 -o adult.pview
    """
    options = _options(locals())
    from hdpview.build import build as build_view
    from hdpview.domain import Schema
    from hdpview.privacy.budget import exact_epsilon
    from hdpview.view.save import Saver

    saver = Saver(output_path)
    saver.check(force)
    described = Schema.load(schema)
    _ask_about_risk(exact_epsilon(epsilon), options, yes)
    # A resumed build was checked before its charge.
    if check_epsilon is not None and not resume:
        _check_for_budget(data, described, check_epsilon, options)
        # The build's own check adds nothing, and nobody may see its result.
        options |= {"accept_losses": True, "on_warning": str}
    view = build_and_save(saver, partial(build_view, data, described, epsilon), options)
    warn_if_view_beside_table(data, output_path)
    _print_built(view, output_path, format)


def refine(
    view: Annotated[Path, argument("The .pview file to refine; it stays as it is.", metavar="VIEW")],
    data: Annotated[str, option("The table that the view was built from.")],
    epsilon: given.Epsilon,
    output_path: given.ViewFile,
    focus: given.Focus = None,
    wishes: given.WishFile = None,
    no_person: given.NoPerson = None,
    engine: given.Engine = "local",
    ledger: given.LedgerFile = None,
    table: given.TableName = None,
    no_ledger: given.NoLedger = False,
    force: given.Force = False,
    threads: given.Threads = None,
    memory_limit: given.MemoryLimit = None,
    test_key: given.TestKey = None,
    accept_losses: given.AcceptLosses = False,
    resume: given.Resume = False,
) -> None:
    """Spend EPSILON more on a view, to reduce the noise of its answers, most of all for the focus.

    Example: hdpview refine adult.pview --data adult.parquet --epsilon 0.5 --focus age,hours -o finer.pview
    """
    options = _options(locals())
    from hdpview.pview import PView
    from hdpview.refine import refine as refine_view
    from hdpview.view.save import Saver
    from hdpview.wishes import Wishes

    saver = Saver(output_path)
    saver.check(force)
    coarse = PView.open(view)
    options["table"] = table or coarse.manifest.table
    options["wishes"] = None if wishes is None else Wishes.load(wishes)
    finer = build_and_save(saver, partial(refine_view, coarse, data, epsilon), options)
    output.wrote(output_path, f"\n{finer!r}")


def _options(given: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a command in the form of `hdpview.build` and `hdpview.refine`."""
    options = {name: given[name] for name in _PASSED_ON.split() if name in given}
    options |= {name: given[name] or () for name in ("no_person", "people") if name in given}
    options["ledger"] = False if given["no_ledger"] else given["ledger"]
    options["test_key"] = given["test_key"] and given["test_key"].encode()
    options["accept_losses"] = given["accept_losses"] or given.get("yes", False)
    if given["focus"]:
        options["focus"] = [tuple(output.names_in(names)) for names in given["focus"]]
    return options


def build_and_save(saver: Saver, make: Callable[..., PView], options: dict[str, Any]) -> PView:
    """Build and save a view; show what is logged about its budget. On a terminal, ask if much would be lost.

    make: builds the view, given the options of `hdpview.build`.
    """
    from hdpview.view.save import SAVED_ELSEWHERE

    def ask(losses: Sequence[SchemaWarning]) -> bool:
        progress.stop()
        for warning in losses:
            tell_warning(warning)
        return typer.confirm("Nothing was spent. Build anyway?", abort=True, err=True)

    with output.shown_log(), ProgressBar() as progress:
        if sys.stdin.isatty() and not options["accept_losses"]:
            options["accept_losses"] = ask
        hooks = {"on_warning": tell_warning, "on_charge": saver.keep, "progress": progress}
        view = make(**{**hooks, **options})
        progress(None, "writing the view")
        elsewhere = saver.save(view)
    if elsewhere is not None:
        typer.secho(elsewhere, fg="red", err=True)
        raise typer.Exit(SAVED_ELSEWHERE)
    return view


def _print_built(view: PView, output_path: Path, format: output.JsonOrTable) -> None:
    """Print the path, likely mistakes in the schema, and an example of a query."""
    from hdpview.view.diagnosis import in_brief

    findings = view.diagnosis()
    if format == "json":
        file = {"view": str(output_path), "bytes": output_path.stat().st_size}
        diagnosis = [dataclasses.asdict(finding) for finding in findings]
        output.print_json({**file, **view.info(), "diagnosis": diagnosis})
        return
    output.wrote(output_path, f"\n{view!r}")
    for sentence in in_brief(findings):
        typer.secho(f"Warning: {sentence}", fg="yellow")
    typer.echo(f'Ask it: hdpview query {output_path} "SELECT COUNT(*) FROM view"')


def warn_if_view_beside_table(data: str, view: Path) -> None:
    """Warn if a view lies beside its table and more people may read it."""
    table, note = Path(data), ""
    is_beside = table.exists() and table.resolve().parent == view.resolve().parent
    if is_beside and view.stat().st_mode & ~table.stat().st_mode & 0o044:
        note = (
            f"Note: more people can read {view.name} than {table.name}, which is in the same folder. Move "
            "the view to a folder of its own."
        )
    elif table.is_file() and table.stat().st_mode & 0o004:
        note = f"Note: every user of this machine can read {table.name}. Consider: chmod o-r {table.name}"
    if note:
        typer.secho(note, fg="yellow", err=True)


def _check_for_budget(data: str, schema: Schema, epsilon: str, options: dict[str, Any]) -> None:
    """Check for losses under differential privacy."""
    from hdpview.cli.schema_commands import checked_for_budget
    from hdpview.counts.check import refuse_losses

    with ProgressBar() as progress:
        warnings = checked_for_budget(data, schema, epsilon, options, progress)
    refuse_losses(warnings, options["accept_losses"], tell_warning)


def _ask_about_risk(epsilon: Fraction, options: dict[str, Any], yes: bool) -> None:
    """Ask on a terminal whether to go on with a budget that protects little."""
    from hdpview.view.manifest import risk_sentence

    if epsilon > LARGE_EPSILON and sys.stdin.isatty() and not yes:
        typer.echo(risk_sentence(epsilon, options["privacy_unit"] or "row"), err=True)
        typer.confirm(f"An epsilon above {LARGE_EPSILON} protects little. Continue?", abort=True, err=True)


def tell_warning(warning: SchemaWarning) -> None:
    """Show the curator what a build would lose."""
    typer.secho(f"Warning: {warning}", fg="red" if warning.is_blocking else "yellow", err=True)


def estimate(
    schema: Annotated[Path | None, option("The schema file.", "--schema", "-s")] = None,
    rows: Annotated[
        int | None, option("Approximate number of rows; a rounded figure will do.", min=1)
    ] = None,
    epsilon: Annotated[str | None, option("Budget to evaluate.", "--epsilon", "-e")] = None,
    error: Annotated[
        float | None, option("Or: the wanted error, in records, of a range of two attributes (or one).")
    ] = None,
    delta: given.Delta = None,
    max_rows: given.MaxRows = 1,
    method: given.MethodName = "mixture",
    plan: Annotated[
        Path | None, option("Instead: list the attributes counted together, and draw them to this SVG file.")
    ] = None,
    wishes: given.WishFile = None,
    view: Annotated[Path | None, option("With --wishes: the view to refine.")] = None,
    output_path: Annotated[
        Path | None, option("With --wishes: draw error against epsilon here, .svg or .png.", "-o", "--output")
    ] = None,
    format: given.Format = "table",
) -> None:
    """Forecast the errors of a budget, or find the budget for a target error. No data or budget is used.

    Example: hdpview estimate --schema adult.toml --rows 50000 --epsilon 1.0
    """
    from hdpview.domain import Schema
    from hdpview.errors import BudgetError
    from hdpview.forecast import estimate as estimate_build
    from hdpview.forecast import estimate_plan
    from hdpview.view.file import written_whole

    if wishes is not None and view is not None:
        _estimate_wishes(wishes, view, output_path, format)
        return
    if schema is None or rows is None:
        raise BudgetError("Give --schema and --rows, for a build; or --wishes and --view, to refine a view.")
    facts = Schema.load(schema), rows, epsilon
    how: dict[str, Any] = {"delta": delta, "max_rows": max_rows, "method": method}
    if plan is not None:
        planned = estimate_plan(*facts, **how)
        with written_whole(plan) as file:
            file.write(planned.svg().encode())
        output.show(format, dataclasses.asdict(planned), f"{planned}\nDrawn to {plan}.")
        return
    with ProgressBar() as progress:
        forecast = estimate_build(*facts, error=error, progress=progress, **how)
    output.show(format, forecast.as_dict(), str(forecast))


def _estimate_wishes(wishes: Path, view: Path, picture: Path | None, format: output.JsonOrTable) -> None:
    """Print the budget that each wish needs."""
    from hdpview.pview import PView
    from hdpview.query.present.plots import save
    from hdpview.refine.forecast import estimate_wishes
    from hdpview.wishes import Wishes

    needs = estimate_wishes(PView.open(view), Wishes.load(wishes))
    if picture is not None:
        save(needs.chart(), picture)
    if format == "json":
        output.print_json({"wishes": needs.rows(), "epsilon": needs.epsilons, "reach": needs.reach.tolist()})
        return
    words = {None: f"more than {needs.epsilons[-1]:g}", 0.0: "met"}
    rows = [{**row, "epsilon": words.get(row["epsilon"], row["epsilon"])} for row in needs.rows()]
    output.print_table(["where", "within", "now", "epsilon"], rows)
    typer.echo(
        "now: half-width of the 95% interval, in records. epsilon: needed by `hdpview refine --wishes`."
    )
