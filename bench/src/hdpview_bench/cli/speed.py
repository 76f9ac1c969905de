"""`hdpview bench speed`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hdpview.cli import output
from hdpview_bench.cli.options import DataDir, Shape

_MOST_COLUMNS = 12


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
    answers: Annotated[
        bool,
        typer.Option("--answers", help="Instead: only answers and start-up, of the last dataset's views."),
    ] = False,
    fits: Annotated[
        bool,
        typer.Option("--fits", help="Instead: the default method's fits, and their share of the BLAS bound."),
    ] = False,
    trees: Annotated[
        bool, typer.Option("--trees", help="Instead: against LightGBM growing one tree with as many leaves.")
    ] = False,
    scaling: Annotated[
        bool,
        typer.Option("--scaling", help="Instead: time over rows, attributes and depth; a picture with -o."),
    ] = False,
    large_rows: Annotated[
        int, typer.Option(help="Instead: build a Parquet file of this many random rows.")
    ] = 0,
    tables: Annotated[
        bool, typer.Option("--tables", help="For the large file: passes over rows instead of a view.")
    ] = False,
    memory_limit: Annotated[
        str | None, typer.Option(help="For the large file: memory of the embedded database.")
    ] = None,
    rows: Annotated[int, typer.Option(min=10_000, help="Rows of the random table of --trees.")] = 2_000_000,
    folder: Annotated[Path | None, typer.Option("-o", help="Folder for the picture of --scaling.")] = None,
    format: Shape = output.JsonOrTable.table,
) -> None:
    """Time builds against the paper's method written plainly, then answers and start-up; or one of the longer
    measurements.

    Example: hdpview bench speed --datasets small-adult,numerical-adult,adult --data-dir data
    """
    found: dict[str, list[dict[str, Any]]] = {}
    names = output.names_in(datasets) or ["hospital"]
    if answers:
        from hdpview_bench.speed import answer_rows

        found["answers"] = list(answer_rows(names[-1], data_dir))
    if fits:
        from hdpview_bench.speed import fit_row

        found["fits"] = [fit_row(name, data_dir) for name in names]
    if trees:
        from hdpview_bench.trees import tree_rows

        found["trees"] = list(tree_rows(rows, naive_limit_s=naive_seconds))
    if scaling:
        found["scaling"] = _scaling(folder)
    if large_rows:
        from hdpview_bench.large import large_table_row
        from hdpview_bench.passes import passes_row

        found["large"] = [(passes_row if tables else large_table_row)(large_rows, memory_limit=memory_limit)]
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
    from hdpview_bench import speed as measure

    builds = []
    for row in measure.build_rows(names, data_dir, trials, naive_seconds):
        builds.append(row)
        typer.echo(f"measured {row['dataset']}", err=True)
    return {"builds": builds, "answers": list(measure.answer_rows(names[-1], data_dir))}


def _scaling(folder: Path | None) -> list[dict[str, Any]]:
    from hdpview_bench.scaling import draw_scaling, scaling_rows

    measured = list(scaling_rows())
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        draw_scaling(measured, folder / "scaling.svg")
        typer.echo(f"wrote {folder / 'scaling.svg'}", err=True)
    return measured
