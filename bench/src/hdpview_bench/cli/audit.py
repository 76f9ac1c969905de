"""The command `hdpview audit`: test whether builds keep their privacy guarantee."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from hdpview.cli import output
from hdpview.cli.options import Format, option
from hdpview.cli.progress_bar import ProgressBar

if TYPE_CHECKING:
    from hdpview_bench.audit.run import Audit


def audit(
    method: Annotated[str, typer.Option(help="The method to audit.")] = "mixture",
    epsilon: Annotated[str, typer.Option("--epsilon", "-e", help="The epsilon that it claims.")] = "1.0",
    delta: Annotated[str | None, option("The delta that it claims, such as 1e-6.")] = None,
    runs: Annotated[int, typer.Option(help="Builds of each table for the bound.")] = 2_000,
    max_rows: Annotated[int, typer.Option(min=1, help="Rows of one person, by which the tables differ.")] = 1,
    from_files: Annotated[
        bool, option("Build from files in which persons have several rows.", "--from-files")
    ] = False,
    fits: Annotated[bool, option("Fit components too; their inputs reveal no less.", "--fits")] = False,
    confidence: Annotated[float, typer.Option(help="Confidence of the bound.")] = 0.999,
    format: Format = "table",
) -> None:
    """Build views of neighbouring tables many times, and print a lower bound on their epsilon. Needs no data.

    Example: hdpview audit --method mixture --epsilon 1.0 --runs 2000
    """
    from hdpview_bench.audit.run import audit as run

    with ProgressBar() as progress:
        result = run(
            method,
            epsilon,
            delta=delta,
            runs=runs,
            max_rows=max_rows,
            from_files=from_files,
            fits=fits,
            confidence=confidence,
            progress=progress,
        )
    if format == "json":
        output.print_json({**dataclasses.asdict(result), "passed": result.passed})
    else:
        typer.echo(_summary(result))
    if not result.passed:
        words = "GUARANTEE BROKEN: builds reveal more than they claim. Please report this; see SECURITY.md."
        typer.secho(words, fg="red", bold=True, err=True)
        raise typer.Exit(1)


def _summary(result: Audit) -> str:
    claimed = f"epsilon {result.claimed:g}" + (f" and delta {result.delta:g}" if result.delta else "")
    shown = f"reveals an epsilon of at least {result.lower_bound:.3g} ({result.confidence:.1%} sure)"
    lines = [f"{result.method}: claims {claimed}, {shown}"]
    if result.claimed_rho is not None:
        lines.append(
            f"Composed in rho: claims {result.claimed_rho:.3g}, reveals at least {result.rho_lower_bound:.3g}"
        )
    lines.append(
        f"{result.runs:,} builds of each table of the pair {result.table!r}; "
        f"hits {result.hits[0]:,} and {result.hits[1]:,} of: {result.event}"
    )
    lines.append(f"This many builds can reveal an epsilon of at most {result.visible:.2g}.")
    lines.append(f"They would detect: {'; '.join(result.kinds_seen) or 'no bug; increase --runs'}.")
    if result.kinds_missed:
        lines.append(f"They would miss: {'; '.join(result.kinds_missed)}.")
    return "\n".join(lines)
