"""The demo: admissions of a fictitious hospital, a view of them, and answers beside the truth."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hdpview.cli import output
from hdpview.cli.progress_bar import ProgressBar
from hdpview.errors import check_installed

if TYPE_CHECKING:
    import pyarrow as pa

    from hdpview.pview import PView

_EPSILON = 1.0


def demo(
    directory: Annotated[
        Path, typer.Option("-d", "--directory", help="Folder for the table, schema, view and picture.")
    ] = Path("hdpview-demo"),
) -> None:
    """Build a view of a fictitious hospital's admissions and query it. Takes a few seconds.

    Example: hdpview demo
    """
    import pyarrow.parquet as pq

    check_installed("opendp", "vl_convert")
    from hdpview.build import build
    from hdpview.demo import hospital_schema, hospital_schema_text, hospital_table
    from hdpview.query.present.plots import save

    directory.mkdir(parents=True, exist_ok=True)
    table, schema = hospital_table(), hospital_schema()
    pq.write_table(table, directory / "admissions.parquet")
    (directory / "admissions.toml").write_text(hospital_schema_text(), encoding="utf-8")
    typer.secho("1. A sensitive table", bold=True)
    typer.echo(
        f"   {table.num_rows:,} admissions of a hospital that does not exist: "
        f"{directory / 'admissions.parquet'}"
    )
    typer.secho("2. Its view, built once at epsilon 1 (the first build compiles the kernels)", bold=True)
    with ProgressBar() as progress:
        view = build(table, schema, _EPSILON, ledger=False, progress=progress, on_warning=str)
    view.save(directory / "admissions.pview")
    typer.echo("   " + repr(view).replace("\n", "\n   "))
    typer.secho("3. Answers with 95% intervals beside the truth, which only this demo can look up", bold=True)
    _ask(view, table)
    typer.secho("4. A picture", bold=True)
    save(view.plot.histogram("age"), directory / "age.png")
    typer.echo(f"   {directory / 'age.png'}: admissions by age, as the view has them")
    typer.secho("5. Try it yourself", bold=True)
    hdpview, view_file = _command(), directory / "admissions.pview"
    for arguments in (
        f"info {view_file}",
        f"query {view_file} \"SELECT COUNT(*) FROM view WHERE age >= 80 AND admission = 'emergency'\"",
        f'query {view_file} "SELECT region, COUNT(*) AS n FROM view WHERE smoker GROUP BY region"',
        f"explore {view_file}",
        f"publish {view_file} -o {directory / 'admissions.html'}",
        "schema draft your-table.parquet -o your-table.toml",
    ):
        typer.echo(f"   {hdpview} {arguments}")


def _command() -> str:
    """The command that runs this program again: its name if it is on the path, else as it was called."""
    import shlex
    import shutil
    import sys

    called, known = Path(sys.argv[0]), shutil.which("hdpview")
    if called.name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m hdpview"
    if known is None or Path(known).resolve() != called.resolve():
        return shlex.quote(str(called))
    return "hdpview"


def _ask(view: PView, table: pa.Table) -> None:
    import duckdb

    from hdpview.demo import QUESTIONS

    answers = view.count_many([question.where for question in QUESTIONS])
    counts = ", ".join(f"COUNT(*) FILTER ({question.where})" for question in QUESTIONS)
    with duckdb.connect() as connection:
        connection.register("admissions", table)
        truths = connection.execute(f"SELECT {counts} FROM admissions").fetchall()[0]
    rows: list[dict[str, Any]] = [
        {
            "question": question.text,
            "view": round(answer.estimate),
            "from": round(answer.lower),
            "to": round(answer.upper),
            "truth": truth,
        }
        for question, answer, truth in zip(QUESTIONS, answers, truths, strict=True)
    ]
    output.print_table(["question", "view", "from", "to", "truth"], rows)
    inside, surely = (
        sum(interval.lower <= truth <= interval.upper for interval, truth in zip(kind, truths, strict=True))
        for kind in ([answer.typical for answer in answers], [answer.guaranteed for answer in answers])
    )
    typer.echo(
        f"   {inside} of {len(rows)} true counts lie in these typical intervals, {surely} in the wider "
        "guaranteed intervals."
    )
    if inside < len(rows):
        typer.echo(
            "   Typical intervals can miss if attributes depend on each other in ways that no released "
            "table shows."
        )
