"""`hdpview bench growth`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from hdpview.cli import output
from hdpview.cli.options import option
from hdpview.cli.progress_bar import ProgressBar
from hdpview_bench.cli.shared import DataDir, MemoryLimit, RowSeconds, Seconds, Shape, Workers

_SHOWN = ("varying", "rows", "epsilon", "method", "workload", "rmse", "rmse_percent", "build_s")
_QUICK_TRIALS = 1


def growth(
    datasets: Annotated[str, typer.Option(help="The table to draw subsamples from.")] = "nycflights",
    methods: Annotated[
        str | None, option("Names, comma-separated; `all` by default. With peers: all,mst,aim.")
    ] = None,
    workloads: Annotated[
        str | None, option("Names, comma-separated; by default random-2d, random-3d and populated-2.")
    ] = None,
    epsilon: Annotated[
        str | None, option("Budgets for the whole table, comma-separated; 0.1 to 10 by default.")
    ] = None,
    rows: Annotated[
        str | None, option("Sizes of the subsamples, comma-separated; 3,000 to 300,000 by default.")
    ] = None,
    trials: Annotated[
        int, typer.Option(min=1, help="Releases per subsample, method and budget, each with fresh noise.")
    ] = 3,
    data_dir: DataDir = None,
    quick: Annotated[bool, typer.Option(help="One trial, every second subsample and budget.")] = False,
    seconds: Seconds = 300.0,
    row_seconds: RowSeconds = 400.0,
    memory_limit: MemoryLimit = "6GB",
    workers: Workers = None,
    format: Shape = "table",
    out: Annotated[
        Path | None,
        option("Folder for growth.svg and every finished cell; a stopped run resumes.", "--output", "-o"),
    ] = None,
) -> None:
    """Measure the error against the number of rows and against the budget, and draw both.

    Parts of a table are drawn once; all methods see the same ones, with the bins of the whole table.

    Example: hdpview bench growth --methods hdpview,histograms --data-dir data -o growth
    """
    from hdpview.errors import DataError
    from hdpview_bench import growth as measure
    from hdpview_bench.accuracy import Plan
    from hdpview_bench.contenders import with_all
    from hdpview_bench.workers import Limits, memory_bytes

    names = output.names_in(datasets)
    if len(names) != 1:
        raise DataError("bench growth needs exactly one dataset.")
    written = output.names_in(rows)
    if not all(text.isdecimal() for text in written):
        raise DataError("Rows are whole numbers, such as --rows 3000,30000.")
    steps, budgets = (
        [int(text) for text in written] or measure.ROWS,
        output.names_in(epsilon) or measure.EPSILONS,
    )
    whole = Plan(
        datasets=tuple(names),
        methods=with_all(output.names_in(methods)),
        workloads=tuple(output.names_in(workloads)) or measure.WORKLOADS,
        epsilons=tuple(budgets[::2] if quick else budgets),
        trials=min(trials, _QUICK_TRIALS) if quick else trials,
        data_dir=data_dir,
        row_seconds=row_seconds,
    )
    plans = measure.growth_plans(whole, steps[::2] if quick else steps)
    with tempfile.TemporaryDirectory(prefix="hdpview-growth-") as temporary, ProgressBar() as progress:
        limits = Limits(seconds, memory_bytes(memory_limit))
        measured = measure.growth_rows(plans, out or Path(temporary), limits, workers, progress)
    if format == "json":
        output.print_json(measured)
        return
    output.print_table(_SHOWN, [row for row in measured if "rmse" in row])
    for reason in dict.fromkeys(f"{row['method']}: {row['reason']}" for row in measured if row["reason"]):
        typer.echo(reason)
    if out is not None:
        typer.echo(f"Wrote {out / measure.FIGURE}.")
