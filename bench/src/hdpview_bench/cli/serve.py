"""`hdpview bench serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hdpview.cli import output
from hdpview.cli.options import argument, option
from hdpview_bench.cli.shared import Shape


def serve(
    view: Annotated[Path | None, argument("A .pview file; the demo's by default.", metavar="[VIEW]")] = None,
    users: Annotated[int, typer.Option(min=1, max=200, help="People who brush at the same time.")] = 50,
    seconds: Annotated[float, typer.Option(min=1, max=3600, help="For how long.")] = 60.0,
    gesture: Annotated[
        bool,
        option(
            "Measure one gesture in headless Chromium: from a mouse move until all other charts are redrawn.",
            "--gesture",
        ),
    ] = False,
    format: Shape = "table",
) -> None:
    """Let many people brush at once in an explorer on this machine: times of answers, errors and the server's
    memory.

    With --gesture, one person brushes in a real browser; times are until the charts are redrawn.

    Example: hdpview bench serve adult.pview --users 50 --seconds 60
    """
    import tempfile

    from hdpview_bench.gesture import gesture_row
    from hdpview_bench.serve import serve_row

    with tempfile.TemporaryDirectory(prefix="hdpview-serve-") as folder:
        if view is None:
            from hdpview.build import build
            from hdpview.demo import hospital_schema, hospital_table

            view = Path(folder) / "admissions.pview"
            build(hospital_table(), hospital_schema(), 1.0).save(view)
        row = gesture_row(view) if gesture else serve_row(view, users, seconds)
    if format == "json":
        output.print_json(row)
    else:
        output.print_table(list(row), [row])
