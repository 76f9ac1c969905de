"""Error against the size of the table and against the budget, from subsamples of one table and several ε."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hdpview.progress import Progress
from hdpview_bench import cells as store
from hdpview_bench import figures
from hdpview_bench.accuracy import DEFAULT_LIMITS, Plan, run, summary
from hdpview_bench.datasets import dataset_counts
from hdpview_bench.page import svg
from hdpview_bench.workers import Limits

if TYPE_CHECKING:
    import altair as alt

Row = dict[str, Any]
ROWS = (3_000, 10_000, 30_000, 100_000, 300_000)
EPSILONS = ("0.1", "0.3", "1.0", "3.0", "10.0")
WORKLOADS = ("random-2d", "random-3d", "populated-2")
FIGURE = "growth.svg"


def growth_plans(whole: Plan, steps: Sequence[int]) -> tuple[Plan, Plan]:
    """Two plans: subsamples of the dataset up to all of it, at ε = 1; and the plan itself, over all ε."""
    (dataset,) = whole.datasets
    n_records = _n_records(dataset, whole.data_dir)
    parts = [f"{dataset}#{n}" for n in steps if n < n_records]
    return replace(whole, datasets=(*parts, dataset), epsilons=("1.0",)), whole


def growth_rows(
    plans: tuple[Plan, Plan],
    folder: Path,
    limits: Limits = DEFAULT_LIMITS,
    n_workers: int | None = None,
    progress: Progress | None = None,
) -> list[Row]:
    """Measure what the folder lacks, draw the figure there, and return the rows of both plans.

    Rows are those of `bench accuracy`, with what varies (`rows` or `epsilon`), the number of records, and the
    RMSE in percent of them.
    """
    known = store.load(folder)
    run(plans, folder, known, limits, n_workers, progress)
    data_dir = plans[0].data_dir
    sizes = {name: _n_records(name, data_dir) for name in plans[0].datasets}
    rows = [
        {"varying": varying, "rows": sizes[row["dataset"]], **row, **_percent(row, sizes[row["dataset"]])}
        for varying, plan in zip(("rows", "epsilon"), plans, strict=True)
        for row in summary(plan, known)
    ]
    if any(row.get("rmse") for row in rows):
        (folder / FIGURE).write_bytes(svg(growth_chart(rows)))
    return rows


def _n_records(name: str, data_dir: Path | None) -> int:
    """The name of a subsample ends in its size."""
    _, hash_sign, n_rows = name.partition("#")
    return int(n_rows) if hash_sign else int(dataset_counts(name, data_dir).exact_counts.sum())


def _percent(row: Row, n_records: int) -> Row:
    rmse = row.get("rmse")
    return {"rmse_percent": None if rmse is None else 100 * rmse / n_records}


def growth_chart(rows: Sequence[Row]) -> alt.VConcatChart:
    """Error in percent of the rows against rows, and against ε; a panel per workload, a line per method."""
    import altair as alt

    against_rows, against_epsilon = (
        [row for row in rows if row["varying"] == v] for v in ("rows", "epsilon")
    )
    return alt.vconcat(
        figures.error_lines(against_rows, "rows", "records"),
        figures.error_lines(against_epsilon, "epsilon", "ε"),
    )
