"""Benchmarks from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hdpview.cli import output
from hdpview.cli.progress import ProgressBar

_MOST_COLUMNS = 12
DataDir = Annotated[Path | None, typer.Option(help="Folder with the datasets as Parquet files.")]


def speed(
    datasets: Annotated[
        str, typer.Option(help="Names, comma-separated: hospital is built in; the others need --data-dir.")
    ] = "hospital",
    data_dir: DataDir = None,
    trials: Annotated[int, typer.Option(min=1, help="Builds per dataset.")] = 20,
    naive_seconds: Annotated[
        float,
        typer.Option(help="CPU seconds the plain implementation may take per dataset; 0 leaves it out."),
    ] = 60.0,
    trees: Annotated[
        bool, typer.Option("--trees", help="Instead: against LightGBM growing one tree with as many leaves.")
    ] = False,
    methods: Annotated[
        bool,
        typer.Option(
            "--methods", help="Instead: the default method against the paper's, to build and to ask."
        ),
    ] = False,
    profile: Annotated[bool, typer.Option("--profile", help="Instead: time per stage of a build.")] = False,
    scaling: Annotated[
        bool,
        typer.Option("--scaling", help="Instead: time over rows, attributes and depth; a picture with -o."),
    ] = False,
    cluster: Annotated[
        bool,
        typer.Option("--cluster", help="Instead: what a cluster would exchange, simulated and on paper."),
    ] = False,
    large_rows: Annotated[
        int, typer.Option(help="Instead: build a Parquet file of this many random rows.")
    ] = 0,
    memory_limit: Annotated[
        str | None, typer.Option(help="For the large file: memory of the embedded database.")
    ] = None,
    rows: Annotated[
        int, typer.Option(min=10_000, help="Rows of the random table of --trees, --profile and --cluster.")
    ] = 2_000_000,
    folder: Annotated[Path | None, typer.Option("-o", help="Folder for the picture of --scaling.")] = None,
    format: Annotated[
        output.JsonOrTable, typer.Option(help="table for people, json for programs.")
    ] = output.JsonOrTable.table,
) -> None:
    """Time builds against the paper's method written plainly, then answers and start-up; or one of the longer
    measurements.

    Example: hdpview bench speed --datasets small-adult,numerical-adult,adult --data-dir data
    """
    found: dict[str, list[dict[str, Any]]] = {}
    names = output.names_in(datasets) or ["hospital"]
    if methods:
        from hdpview.bench.beside import beside_rows

        with ProgressBar() as progress:
            found["methods"] = list(beside_rows(names, data_dir, trials, progress))
    if trees:
        from hdpview.bench.trees import tree_rows

        found["trees"] = list(tree_rows(rows, naive_limit_s=naive_seconds))
    if profile:
        from hdpview.bench.stages import stage_rows

        found["stages"] = stage_rows(rows)
    if scaling:
        found["scaling"] = _scaling(folder)
    if cluster:
        found |= _cluster(rows)
    if large_rows:
        from hdpview.bench.large import large_table_row

        found["large"] = [large_table_row(large_rows, memory_limit=memory_limit)]
    if not found:
        found = _builds_and_answers(names, data_dir, trials, naive_seconds)
    if format == output.JsonOrTable.json:
        output.print_json(found)
        return
    for measured in found.values():
        if (
            len(measured) == 1 or len(measured[0]) > _MOST_COLUMNS
        ):  # too wide for a screen: one line per figure
            measured = [
                {"what": name, **{f"{i}": row[name] for i, row in enumerate(measured, 1)}}
                for name in measured[0]
            ]
        output.print_table(list(measured[0]), measured)
        typer.echo()


def _builds_and_answers(
    names: list[str], data_dir: Path | None, trials: int, naive_seconds: float
) -> dict[str, list[dict[str, Any]]]:
    from hdpview.bench import speed as measure

    builds = []
    for row in measure.build_rows(names, data_dir, trials, naive_seconds):
        builds.append(row)
        typer.echo(f"measured {row['dataset']}", err=True)
    return {"builds": builds, "answers": list(measure.answer_rows(names[-1], data_dir))}


def _scaling(folder: Path | None) -> list[dict[str, Any]]:
    from hdpview.bench.scaling import draw_scaling, scaling_rows

    measured = list(scaling_rows())
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        draw_scaling(measured, folder / "scaling.svg")
        typer.echo(f"wrote {folder / 'scaling.svg'}", err=True)
    return measured


def _cluster(n_rows: int) -> dict[str, list[dict[str, Any]]]:
    """A simulated exchange on a table in memory, and the same arithmetic for larger ones from constants
    measured here.
    """
    import dataclasses

    from hdpview.bench.exchange import Cluster, cluster_row, measured_constants, simulate
    from hdpview.bench.stages import read_ns_per_row
    from hdpview.bench.trees import random_counts

    levels, _ = simulate(
        random_counts(n_rows // 10, 10), n_partitions=32, rows_per_machine=n_rows // 10 // 64
    )
    constants = measured_constants(n_rows, read_ns_per_row(n_rows))
    clusters = [
        cluster_row(n, Cluster(machines), constants)
        for n, machines in ((1e10, 10), (1e10, 100), (1e12, 1000))
    ]
    rounded = {name: round(value, 2) for name, value in dataclasses.asdict(constants).items()}
    return {
        "exchange": [dataclasses.asdict(level) for level in levels],
        "constants": [rounded],
        "clusters": clusters,
    }


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
    format: Annotated[
        output.JsonOrTable, typer.Option(help="table for people, json for programs.")
    ] = output.JsonOrTable.table,
) -> None:
    """Measure how often each interval holds the true count, and how wide it is beside the actual error.

    Example: hdpview bench coverage --datasets adult,traffic --data-dir data
    """
    from hdpview.bench.coverage import coverage_rows
    from hdpview.query.workloads import WORKLOADS

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


def serve(
    view: Annotated[
        Path | None,
        typer.Argument(metavar="[VIEW]", help="A .pview file; the demo's by default.", show_default=False),
    ] = None,
    users: Annotated[int, typer.Option(min=1, max=200, help="People brushing at the same time.")] = 50,
    seconds: Annotated[float, typer.Option(min=1, max=3600, help="For how long.")] = 60.0,
    gesture: Annotated[
        bool,
        typer.Option(
            "--gesture",
            help="Instead: one hand in headless Chromium, from a move of the mouse to all other charts redrawn.",
        ),
    ] = False,
    format: Annotated[
        output.JsonOrTable, typer.Option(help="table for people, json for programs.")
    ] = output.JsonOrTable.table,
) -> None:
    """Let many people brush at once in an explorer on this machine: times of answers, errors and the server's
    memory.

    With --gesture one hand brushes in a real browser, and the times are those until the charts follow.

    Example: hdpview bench serve adult.pview --users 50 --seconds 60
    """
    import tempfile

    from hdpview.bench.gesture import gesture_row
    from hdpview.bench.serve import serve_row

    with tempfile.TemporaryDirectory(prefix="hdpview-serve-") as folder:
        if view is None:
            from hdpview.build import build
            from hdpview.demo import hospital_schema, hospital_table

            view = Path(folder) / "admissions.pview"
            build(hospital_table(), hospital_schema(), 1.0, ledger=False).save(view)
        row = gesture_row(view) if gesture else serve_row(view, users, seconds)
    if format == output.JsonOrTable.json:
        output.print_json(row)
    else:
        output.print_table(list(row), [row])
