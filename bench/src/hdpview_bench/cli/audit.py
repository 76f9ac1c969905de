"""The command `hdpview audit`: whether builds keep their promise."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from hdpview.cli import output
from hdpview.cli.options import Format
from hdpview.cli.progress import ProgressBar

if TYPE_CHECKING:
    from hdpview_bench.audit.run import Audit


def audit(
    method: Annotated[str, typer.Option(help="The method to audit.")] = "mixture",
    epsilon: Annotated[str, typer.Option("--epsilon", "-e", help="The budget it claims to keep.")] = "1.0",
    delta: Annotated[
        str | None, typer.Option(help="The delta it claims to keep, such as 1e-6.", show_default=False)
    ] = None,
    runs: Annotated[int, typer.Option(help="Builds of each table that the bound rests on.")] = 2_000,
    max_rows: Annotated[
        int, typer.Option(min=1, help="Rows of one person: the tables then differ by that many.")
    ] = 1,
    from_files: Annotated[
        bool, typer.Option("--from-files", help="Build from files in which persons have several rows.")
    ] = False,
    fits: Annotated[
        bool, typer.Option("--fits", help="Fit components too; the numbers they are fitted to tell no less.")
    ] = False,
    confidence: Annotated[float, typer.Option(help="With which the bound holds.")] = 0.999,
    format: Format = output.JsonOrTable.table,
) -> None:
    """Build views of neighbouring tables many times, and tell what epsilon they show at least. Needs no data.

    Example: hdpview audit --method mixture --epsilon 1.0 --runs 2000
    """
    from hdpview_bench.audit.run import audit as run

    with ProgressBar() as progress:
        found = run(
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
    if format == output.JsonOrTable.json:
        output.print_json({**dataclasses.asdict(found), "passed": found.passed})
    else:
        typer.echo(_summary(found))
    if not found.passed:
        words = "MORE THAN IT CLAIMS: the promise is broken. Please report this; see SECURITY.md."
        typer.secho(words, fg="red", bold=True, err=True)
        raise typer.Exit(1)


def _summary(found: Audit) -> str:
    claimed = f"epsilon {found.claimed:g}" + (f" and delta {found.delta:g}" if found.delta else "")
    shown = f"shows epsilon {found.lower_bound:.3g} at least ({found.confidence:.1%} sure)"
    lines = [f"{found.method}: claims {claimed}, {shown}"]
    if found.claimed_rho is not None:
        lines.append(
            f"It keeps accounts in rho: claims {found.claimed_rho:.3g}, shows {found.rho_lower_bound:.3g} at "
            "least"
        )
    lines.append(
        f"{found.runs:,} builds of each table of the pair {found.table!r}; "
        f"hits {found.hits[0]:,} and {found.hits[1]:,} of: {found.event}"
    )
    lines.append(f"So many builds show an epsilon of {found.visible:.2g} at most.")
    lines.append(f"They would show: {'; '.join(found.kinds_seen) or 'no bug at all. Run more'}.")
    if found.kinds_missed:
        lines.append(f"They would not show: {'; '.join(found.kinds_missed)}.")
    return "\n".join(lines)
