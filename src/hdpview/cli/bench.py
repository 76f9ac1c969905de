"""Benchmarks from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hdpview.cli import output
from hdpview.cli.progress import ProgressBar

DataDir = Annotated[Path | None, typer.Option(help="Folder with the datasets as Parquet files.")]


def speed(
    datasets: Annotated[str, typer.Option(help="Names, comma-separated: hospital is built in; the others need --data-dir.")] = "hospital",
    data_dir: DataDir = None,
    trials: Annotated[int, typer.Option(min=1, help="Builds per dataset.")] = 20,
    naive_seconds: Annotated[
        float, typer.Option(help="CPU seconds the plain implementation may take per dataset; 0 leaves it out.")
    ] = 60.0,
    large_rows: Annotated[int, typer.Option(help="Also build a Parquet file of this many random rows.")] = 0,
    memory_limit: Annotated[str | None, typer.Option(help="For the large file: memory of the embedded database.")] = None,
    format: Annotated[output.JsonOrTable, typer.Option(help="table for people, json for programs.")] = output.JsonOrTable.table,
) -> None:
    """Time builds against the paper's method written plainly, then answers, start-up and, if asked, a large file.

    Example: hdpview bench speed --datasets small-adult,numerical-adult,adult --data-dir data
    """
    from hdpview.bench import speed as measure

    names = [name.strip() for name in datasets.split(",") if name.strip()]
    builds = []
    for row in measure.build_rows(names, data_dir, trials, naive_seconds):
        builds.append(row)
        typer.echo(f"measured {row['dataset']}", err=True)
    answers = list(measure.answer_rows(names[-1], data_dir))
    large = [measure.large_table_row(large_rows, memory_limit=memory_limit)] if large_rows else []
    if format == output.JsonOrTable.json:
        output.print_json({"builds": builds, "answers": answers, "large": large})
        return
    for rows in (builds, answers, large):
        if rows:
            output.print_table(list(rows[0]), rows)
            typer.echo()


def coverage(
    datasets: Annotated[str, typer.Option(help="Names, comma-separated: hospital is built in; the others need --data-dir.")] = "hospital",
    data_dir: DataDir = None,
    workloads: Annotated[str | None, typer.Option(help="Names, comma-separated; all eight of the paper by default.")] = None,
    epsilon: Annotated[str, typer.Option(help="The privacy budget.")] = "1.0",
    trials: Annotated[int, typer.Option(min=1, help="Builds per dataset, each with fresh noise.")] = 20,
    questions: Annotated[int, typer.Option(min=1, help="Questions per workload and build.")] = 1000,
    confidence: Annotated[float, typer.Option(help="Confidence of the intervals.")] = 0.95,
    method: Annotated[str, typer.Option(help="How to build.")] = "hdpview",
    format: Annotated[output.JsonOrTable, typer.Option(help="table for people, json for programs.")] = output.JsonOrTable.table,
) -> None:
    """Measure how often each interval holds the true count, and how wide it is beside the actual error.

    Example: hdpview bench coverage --datasets adult,traffic --data-dir data
    """
    from hdpview.bench.coverage import coverage_rows
    from hdpview.query.workloads import WORKLOADS

    names = [name.strip() for name in datasets.split(",") if name.strip()]
    chosen = list(WORKLOADS) if workloads is None else [name.strip() for name in workloads.split(",")]
    with ProgressBar() as progress:
        rows = list(coverage_rows(names, data_dir, chosen, epsilon, trials, questions, confidence, method, progress))
    if format == output.JsonOrTable.json:
        output.print_json(rows)
    else:
        output.print_table(list(rows[0]), rows)


def serve(
    view: Annotated[Path | None, typer.Argument(metavar="[VIEW]", help="A .pview file; the demo's by default.", show_default=False)] = None,
    users: Annotated[int, typer.Option(min=1, max=200, help="People brushing at the same time.")] = 50,
    seconds: Annotated[float, typer.Option(min=1, max=3600, help="For how long.")] = 60.0,
    gesture: Annotated[
        bool,
        typer.Option("--gesture", help="Instead: one hand in headless Chromium, from a move of the mouse to all other charts redrawn."),
    ] = False,
    format: Annotated[output.JsonOrTable, typer.Option(help="table for people, json for programs.")] = output.JsonOrTable.table,
) -> None:
    """Let many people brush at once in an explorer on this machine: times of answers, errors and the server's memory.

    With --gesture one hand brushes in a real browser, and the times are those until the charts follow.

    Example: hdpview bench serve adult.pview --users 50 --seconds 60
    """
    import tempfile

    from hdpview.bench.gesture import gesture_row
    from hdpview.bench.serve import serve_row

    with tempfile.TemporaryDirectory(prefix="hdpview-serve-") as folder:
        if view is None:
            from hdpview.demo import hospital_schema, hospital_table
            from hdpview.door import build

            view = Path(folder) / "admissions.pview"
            build(hospital_table(), hospital_schema(), 1.0).save(view)
        row = gesture_row(view) if gesture else serve_row(view, users, seconds)
    if format == output.JsonOrTable.json:
        output.print_json(row)
    else:
        output.print_table(list(row), [row])
