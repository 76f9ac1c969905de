"""`hdpview bench coverage`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hdpview.cli import output
from hdpview.cli.options import option
from hdpview.cli.progress_bar import ProgressBar
from hdpview_bench.cli.shared import DataDir, Shape, Workers, print_rows

if TYPE_CHECKING:
    from hdpview_bench.coverage import CoveragePlan

_MOST_LINES = 30
_QUICK_TRIALS = 1
_QUICK_QUESTIONS = 60


def _leave_one_out(plan: CoveragePlan, workers: int | None, format: output.JsonOrTable) -> None:
    from hdpview_bench.constants import left_out_rows

    with ProgressBar() as progress:
        rows, problems = left_out_rows(plan, n_workers=workers, progress=progress)
    for problem in problems:
        typer.echo(problem, err=True)
    print_rows(rows, format)


def coverage(
    datasets: Annotated[
        str | None,
        option(
            "Names, comma-separated; simulated tables by default, with --data-dir also "
            "public ones. Paths of your own Parquet files work too."
        ),
    ] = None,
    methods: Annotated[str | None, option("Names, comma-separated; all that make views by default.")] = None,
    workloads: Annotated[
        str | None,
        option(
            "Kinds of question, comma-separated; all by default: count-all, range-1 to range-4, cell-1 to "
            "cell-4, populated-1 to populated-4, mean, rate, difference, sum, median, share, rank; or sql "
            "for those whose intervals come from draws.",
            "--workloads",
            "--kinds",
        ),
    ] = None,
    epsilon: Annotated[
        str | None, option("Privacy budgets, comma-separated; 0.1,0.5,1,2,10 by default.")
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="Builds of each, with fresh noise.")] = 5,
    questions: Annotated[int, typer.Option(min=1, help="Questions of each kind per build, about.")] = 200,
    confidence: Annotated[float, typer.Option(help="Confidence of the intervals.")] = 0.95,
    data_dir: DataDir = None,
    quick: Annotated[
        bool, typer.Option(help="One build of each at ε = 1, with 60 questions of each kind.")
    ] = False,
    leave_one_out: Annotated[
        bool,
        option(
            "Choose every constant of typical intervals again without each table, and say how "
            "intervals then do on it. For the default method, at ε = 1 by default; writes no folder.",
            "--leave-one-out",
        ),
    ] = False,
    refine: Annotated[str | None, option("Budget that each view is refined by before it is asked.")] = None,
    workers: Workers = None,
    format: Shape = "table",
    out: Annotated[
        Path | None,
        option("Folder for coverage.md and every finished build; a stopped run resumes.", "--output", "-o"),
    ] = None,
) -> None:
    """Measure how often each interval holds the true answer, by kind of question, the worst first.

    Widths are multiples of ±1.96 RMSE.

    Example: hdpview bench coverage --datasets adult,nycflights --epsilon 1 --data-dir data -o coverage
    """
    from hdpview_bench import coverage as measure
    from hdpview_bench.asked import KINDS, SQL_KINDS

    budgets = output.names_in(epsilon)
    kinds = [k for name in output.names_in(workloads) for k in (SQL_KINDS if name == "sql" else (name,))]
    plan = measure.CoveragePlan(
        datasets=tuple(output.names_in(datasets)) or measure.default_datasets(data_dir),
        methods=tuple(output.names_in(methods)) or measure.view_methods(),
        kinds=tuple(kinds) or tuple(KINDS),
        epsilons=tuple(budgets) or (("1.0",) if quick or leave_one_out else measure.EPSILONS),
        trials=min(trials, _QUICK_TRIALS) if quick else trials,
        n_questions=min(questions, _QUICK_QUESTIONS) if quick else questions,
        confidence=confidence,
        data_dir=data_dir,
        refine=refine,
    )
    if leave_one_out:
        _leave_one_out(plan, workers, format)
        return
    with ProgressBar() as progress:
        rows, problems = measure.coverage_rows(plan, out, n_workers=workers, progress=progress)
    for problem in problems:
        typer.echo(problem, err=True)
    if out is not None and rows:
        (out / "coverage.md").write_text(measure.report(rows), encoding="utf-8")
    if format == "json" or not rows:
        print_rows(rows, format)
    else:
        for sentence in measure.lead(rows):
            typer.echo(sentence)
        typer.echo()
        print_rows(rows[:_MOST_LINES], format)
        if len(rows) > _MOST_LINES:
            typer.echo(
                f"… and {len(rows) - _MOST_LINES} more: use --format json, or -o for the whole report."
            )
