"""`hdpview bench refine`."""

from __future__ import annotations

from typing import Annotated

import typer

from hdpview.cli import output
from hdpview.cli.options import option
from hdpview.cli.progress_bar import ProgressBar
from hdpview_bench.cli.shared import DataDir, Shape, print_rows


def refine(
    datasets: Annotated[
        str | None, option("Names or Parquet files, comma-separated; adult, bank, heart by default.")
    ] = None,
    epsilon: Annotated[str, typer.Option(help="Budget of the first build.")] = "1.0",
    more: Annotated[str, typer.Option(help="Budget spent by refining.")] = "0.5",
    trials: Annotated[int, typer.Option(min=1, help="Views of each kind, each with fresh noise.")] = 3,
    data_dir: DataDir = None,
    format: Shape = "table",
) -> None:
    """Refine views, and compare them with the view before and with one built with both budgets.

    Example: hdpview bench refine --datasets adult,bank,heart --data-dir data
    """
    from hdpview.privacy.budget import exact_epsilon
    from hdpview_bench.refine import DATASETS, refine_rows

    with ProgressBar() as progress:
        rows = refine_rows(
            tuple(output.names_in(datasets)) or DATASETS,
            exact_epsilon(epsilon),
            exact_epsilon(more),
            trials,
            data_dir,
            progress,
        )
    print_rows(rows, format)
