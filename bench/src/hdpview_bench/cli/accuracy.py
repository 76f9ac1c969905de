"""`hdpview bench accuracy`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hdpview.cli import output
from hdpview.cli.options import option
from hdpview.cli.progress_bar import ProgressBar
from hdpview_bench.cli.shared import DataDir, MemoryLimit, RowSeconds, Seconds, Shape, Workers

# Columns shown besides those that differ between rows.
_SHOWN = {"dataset", "method", "workload", "rmse", "relative_rmse", "blocks", "build_s"}
_SHOWN |= {"slope_median", "slopes_above_half", "variance_recovered_median"}
_QUICK_TRIALS = 2
_QUICK_WORKLOADS = ["range-1d", "marginal-2", "prefix-2d", "random-2d"]


def accuracy(
    datasets: Annotated[
        str,
        typer.Option(
            help="Names, comma-separated: hospital is built in; adult@4 is Adult's first four columns, "
            "adult#3000 some of its rows; or paths of your own Parquet files."
        ),
    ] = "hospital",
    methods: Annotated[
        str | None,
        option(
            "Names, comma-separated, with settings as in hdpview:bias_ratio=1.8; `all` by default. "
            "Also peers: mst, dpmm-mst."
        ),
    ] = None,
    workloads: Annotated[
        str | None,
        option(
            "Names, comma-separated; all eight of the paper by default. Also range-1 to range-4, cell-1 "
            "to cell-3 (at the place of a record), relations."
        ),
    ] = None,
    epsilon: Annotated[str, typer.Option(help="Privacy budgets, comma-separated.")] = "1.0",
    trials: Annotated[
        int, typer.Option(min=1, help="Releases per dataset, method and budget, each with fresh noise.")
    ] = 10,
    data_dir: DataDir = None,
    quick: Annotated[
        bool,
        typer.Option(help="Two trials of the workloads of one and two attributes, unless stated otherwise."),
    ] = False,
    seconds: Seconds = 300.0,
    row_seconds: RowSeconds = 400.0,
    memory_limit: MemoryLimit = "6GB",
    workers: Workers = None,
    test_key: Annotated[str | None, option("For tests alone: makes the noise repeatable.")] = None,
    format: Shape = "table",
    out: Annotated[
        Path | None,
        option("Folder for finished cells, so that a stopped run can resume.", "--output", "-o"),
    ] = None,
) -> None:
    """Measure the error of methods on the paper's workloads, over all their questions, relative to the
    paper's method.

    The RMSE of a row is the mean over trials of the RMSE over all questions of the workload, as in the paper.

    Example: hdpview bench accuracy --datasets adult,jm1 --methods hdpview,identity --data-dir data -o results
    """
    from hdpview_bench.accuracy import Plan, accuracy_rows
    from hdpview_bench.contenders import with_all
    from hdpview_bench.workers import Limits, memory_bytes
    from hdpview_bench.workload_errors import PAPER_WORKLOADS

    plan = Plan(
        datasets=tuple(output.names_in(datasets)),
        methods=with_all(output.names_in(methods)),
        workloads=tuple(output.names_in(workloads))
        or (tuple(_QUICK_WORKLOADS) if quick else PAPER_WORKLOADS),
        epsilons=tuple(output.names_in(epsilon)),
        trials=min(trials, _QUICK_TRIALS) if quick else trials,
        data_dir=data_dir,
        test_key=None if test_key is None else test_key.encode(),
        row_seconds=row_seconds,
    )
    with ProgressBar() as progress:
        rows = accuracy_rows(plan, out, Limits(seconds, memory_bytes(memory_limit)), workers, progress)
    if format == "json":
        output.print_json(rows)
    else:
        for measured in ([row for row in rows if name in row] for name in ("rmse", "slope_median")):
            _print(measured)
        for reason in dict.fromkeys(
            f"{row['method']} on {row['dataset']}: {row['reason']}" for row in rows if row["reason"]
        ):
            typer.echo(reason)


def _print(rows: list[dict[str, Any]]) -> None:
    """Print rows with the same columns, without columns that are constant."""
    if rows:
        columns = [
            column
            for column in rows[0]
            if column in _SHOWN or (column != "reason" and len({row[column] for row in rows}) > 1)
        ]
        output.print_table(columns, rows)
        typer.echo()
