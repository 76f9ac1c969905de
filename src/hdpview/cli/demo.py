"""The demo: admissions of a fictitious hospital, a view of them, and answers beside the truth."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hdpview.cli import output
from hdpview.cli.progress import ProgressBar
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
    """Build a view of a made-up hospital's admissions and ask it questions. Takes a few seconds.

    Example: hdpview demo
    """
    import pyarrow.parquet as pq

    check_installed("opendp", "vl_convert")
    from hdpview.build import build
    from hdpview.demo import hospital_schema, hospital_schema_text, hospital_table

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
        view = build(table, schema, _EPSILON, ledger=False, progress=progress)
    view.save(directory / "admissions.pview")
    typer.echo("   " + repr(view).replace("\n", "\n   "))
    typer.secho("3. Answers with 95% intervals beside the truth, which only this demo can look up", bold=True)
    _ask(view, table)
    typer.secho("4. A picture", bold=True)
    _draw(view, table, directory / "age.png")
    typer.echo(f"   {directory / 'age.png'}: admissions by age, the view's bars and the truth as dots")
    typer.secho("5. Try it yourself", bold=True)
    hdpview, shown = _command(), directory / "admissions.pview"
    for arguments in (
        f"info {shown}",
        f"query {shown} \"SELECT COUNT(*) FROM view WHERE age >= 80 AND admission = 'emergency'\"",
        f'query {shown} "SELECT region, COUNT(*) AS n FROM view WHERE smoker GROUP BY region"',
        f"explore {shown}",
        f"publish {shown} -o {directory / 'admissions.html'}",
        "schema draft your-table.parquet -o your-table.toml",
    ):
        typer.echo(f"   {hdpview} {arguments}")


def _command() -> str:
    """How to call this program again: by name if the shell finds it, else as it was called now."""
    import shlex
    import shutil
    import sys

    called, known = Path(sys.argv[0]), shutil.which("hdpview")
    if called.name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m hdpview"
    if known is None or Path(known).resolve() != called.resolve():
        return shlex.quote(str(called))
    return "hdpview"


def _truth(table: pa.Table, where: str) -> int:
    import duckdb

    with duckdb.connect() as connection:
        connection.register("admissions", table)
        rows = connection.execute(f"SELECT COUNT(*) FROM admissions WHERE {where}").fetchall()
    return int(rows[0][0])


def _ask(view: PView, table: pa.Table) -> None:
    from hdpview.demo import QUESTIONS

    answers = view.count_many([question.where for question in QUESTIONS])
    rows: list[dict[str, Any]] = [
        {
            "question": question.text,
            "view": round(answer.estimate),
            "from": round(answer.lower),
            "to": round(answer.upper),
            "truth": _truth(table, question.where),
        }
        for question, answer in zip(QUESTIONS, answers, strict=True)
    ]
    output.print_table(["question", "view", "from", "to", "truth"], rows)
    inside, surely = (
        sum(end.lower <= row["truth"] <= end.upper for end, row in zip(ends, rows, strict=True))
        for ends in ([answer.typical for answer in answers], [answer.guaranteed for answer in answers])
    )
    typer.echo(
        f"   {inside} of {len(rows)} truths lie in these typical intervals, {surely} in the wider "
        "guaranteed ones."
    )
    if inside < len(rows):
        typer.echo(
            "   Typical intervals can miss if attributes depend on each other in ways that no released "
            "table shows."
        )


def _draw(view: PView, table: pa.Table, path: Path) -> None:
    import altair as alt
    import numpy as np

    from hdpview.domain import Integer

    age = view.schema["age"]
    assert isinstance(age, Integer)
    codes = (np.clip(table.column("age").to_numpy(), age.min, age.max) - age.min) // age.every
    truth = np.bincount(codes, minlength=age.size)
    dots = alt.Chart(
        alt.Data(
            values=[{"label": label, "truth": int(n)} for label, n in zip(age.labels(), truth, strict=True)]
        )
    )
    chart = view.plot.histogram("age") + dots.mark_point(color="#e45756", filled=True).encode(
        x=alt.X("label:N", sort=age.labels()), y="truth:Q"
    )
    chart.properties(title="Admissions by age: view (bars) and truth (dots)").save(path, scale_factor=1.5)
