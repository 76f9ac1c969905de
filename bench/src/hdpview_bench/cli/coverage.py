"""`hdpview bench coverage`."""

from __future__ import annotations

from typing import Annotated

import typer

from hdpview.cli import output
from hdpview.cli.progress import ProgressBar
from hdpview_bench.cli.options import DataDir, Shape


def coverage(
    datasets: Annotated[
        str, typer.Option(help="Names, comma-separated: hospital is built in; the others need --data-dir.")
    ] = "hospital",
    data_dir: DataDir = None,
    workloads: Annotated[
        str | None, typer.Option(help="Names, comma-separated; all eight of the paper by default.")
    ] = None,
    epsilon: Annotated[str, typer.Option(help="The privacy budget.")] = "1.0",
    trials: Annotated[int, typer.Option(min=1, help="Builds per dataset, each with fresh noise.")] = 20,
    questions: Annotated[int, typer.Option(min=1, help="Questions per workload and build.")] = 1000,
    confidence: Annotated[float, typer.Option(help="Confidence of the intervals.")] = 0.95,
    method: Annotated[str, typer.Option(help="How to build.")] = "calibrated",
    format: Shape = output.JsonOrTable.table,
) -> None:
    """Measure how often each interval holds the true count, and how wide it is beside the actual error.

    Example: hdpview bench coverage --datasets adult,traffic --data-dir data
    """
    from hdpview.query.workloads import WORKLOADS
    from hdpview_bench.coverage import coverage_rows

    names = output.names_in(datasets) or ["hospital"]
    chosen = output.names_in(workloads) or list(WORKLOADS)
    with ProgressBar() as progress:
        rows = list(
            coverage_rows(names, data_dir, chosen, epsilon, trials, questions, confidence, method, progress)
        )
    if format == output.JsonOrTable.json:
        output.print_json(rows)
    else:
        output.print_table(list(rows[0]), rows)
