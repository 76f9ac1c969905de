"""`hdpview bench speed`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hdpview.cli import output
from hdpview.cli.options import option
from hdpview_bench.cli.shared import DataDir, Shape

_MOST_COLUMNS = 12


def speed(
    datasets: Annotated[
        str, typer.Option(help="Names, comma-separated: hospital is built in; the others need --data-dir.")
    ] = "hospital",
    data_dir: DataDir = None,
    trials: Annotated[int, typer.Option(min=1, help="Builds per dataset.")] = 20,
    naive_seconds: Annotated[
        float,
        typer.Option(help="CPU seconds allowed for the plain implementation per dataset; 0 skips it."),
    ] = 60.0,
    answers: Annotated[
        bool, option("Measure only answers and start-up, on the last dataset's views.", "--answers")
    ] = False,
    fits: Annotated[
        bool, option("Measure the default method's fits and their share of the BLAS bound.", "--fits")
    ] = False,
    trees: Annotated[
        bool, option("Compare with LightGBM growing one tree with as many leaves.", "--trees")
    ] = False,
    scaling: Annotated[
        bool, option("Measure time by rows, attributes and depth; draw it with -o.", "--scaling")
    ] = False,
    large_rows: Annotated[int, typer.Option(help="Build a Parquet file of this many random rows.")] = 0,
    tables: Annotated[
        bool, option("For the large file: passes over rows instead of a view.", "--tables")
    ] = False,
    memory_limit: Annotated[
        str | None, option("For the large file: memory of the embedded database.")
    ] = None,
    rows: Annotated[int, typer.Option(min=10_000, help="Rows of the random table of --trees.")] = 2_000_000,
    folder: Annotated[Path | None, option("Folder for the picture of --scaling.", "-o")] = None,
    format: Shape = "table",
) -> None:
    """Time builds against the paper's method written plainly, then answers and start-up; or one of the longer
    measurements.

    Example: hdpview bench speed --datasets small-adult,numerical-adult,adult --data-dir data
    """
    parts: dict[str, list[dict[str, Any]]] = {}
    names = output.names_in(datasets) or ["hospital"]
    if answers:
        from hdpview_bench.speed import answer_rows

        parts["answers"] = list(answer_rows(names[-1], data_dir))
    if fits:
        from hdpview_bench.speed import fit_row

        parts["fits"] = [fit_row(name, data_dir) for name in names]
    if trees:
        from hdpview_bench.growing import tree_rows

        parts["trees"] = list(tree_rows(rows, naive_limit_s=naive_seconds))
    if scaling:
        parts["scaling"] = _scaling(folder)
    if large_rows:
        from hdpview_bench.large import large_table_row, passes_row

        parts["large"] = [(passes_row if tables else large_table_row)(large_rows, memory_limit=memory_limit)]
    if not parts:
        parts = _builds_and_answers(names, data_dir, trials, naive_seconds)
    if format == "json":
        output.print_json(parts)
        return
    for measured in parts.values():
        # If a row is too wide for a screen, print a line per figure.
        if len(measured) == 1 or len(measured[0]) > _MOST_COLUMNS:
            measured = [
                {"what": name, **{f"{i}": row[name] for i, row in enumerate(measured, 1)}}
                for name in measured[0]
            ]
        output.print_table(list(measured[0]), measured)
        typer.echo()


def _builds_and_answers(
    names: list[str], data_dir: Path | None, trials: int, naive_seconds: float
) -> dict[str, list[dict[str, Any]]]:
    from hdpview_bench.growing import build_rows
    from hdpview_bench.speed import answer_rows

    builds = []
    for row in build_rows(names, data_dir, trials, naive_seconds):
        builds.append(row)
        typer.echo(f"measured {row['dataset']}", err=True)
    return {"builds": builds, "answers": list(answer_rows(names[-1], data_dir))}


def _scaling(folder: Path | None) -> list[dict[str, Any]]:
    from hdpview_bench.growing import draw_scaling, scaling_rows

    measured = list(scaling_rows())
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        draw_scaling(measured, folder / "scaling.svg")
        typer.echo(f"wrote {folder / 'scaling.svg'}", err=True)
    return measured
