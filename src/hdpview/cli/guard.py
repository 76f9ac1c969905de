"""Commands that guard a budget: what has been spent on which table, and whether builds keep their promise."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hdpview.cli import output
from hdpview.cli.options import Format
from hdpview.cli.progress import ProgressBar

if TYPE_CHECKING:
    from hdpview.audit.run import Audit
    from hdpview.privacy.ledger import Ledger

# OpenDP certifies down to 2⁻⁵³, of which a thousand columns of texts get a share each.
_LEAST_LEARNT_DELTA = Fraction(1, 10**12)
LedgerFile = Annotated[
    Path | None,
    typer.Option(
        "--ledger",
        help="The ledger's file; else $HDPVIEW_LEDGER, or hdpview-ledger.sqlite here.",
        show_default=False,
    ),
]
Table = Annotated[
    str, typer.Argument(metavar="TABLE", help="The table's name in the ledger.", show_default=False)
]


def show(ledger: LedgerFile = None, format: Format = output.JsonOrTable.table) -> None:
    """Tell what has been spent on each table, on what, and what is left.

    Example: hdpview ledger show --ledger budget.sqlite
    """
    from hdpview.privacy.ledger import Ledger, default_ledger

    account = _existing(Ledger(ledger or default_ledger()))
    limits, charges = account.limits(), account.charges()
    tables = sorted({*limits, *(charge.table for charge in charges)})
    totals = []
    for name in tables:
        limit, spent, delta = account.limit(name), account.spent(name), account.spent_delta(name)
        totals.append(
            {
                "table": name,
                "spent": float(spent),
                "limit": None if limit.epsilon is None else float(limit.epsilon),
                "left": None if limit.epsilon is None else float(limit.epsilon - spent),
                "delta": float(delta),
                "delta limit": float(limit.delta),
            }
        )
    rows = [
        {
            "table": charge.table,
            "epsilon": float(charge.epsilon),
            "delta": float(charge.delta),
            "spent on": charge.purpose,
            "protects": charge.privacy_unit
            if charge.max_rows == 1
            else f"{charge.privacy_unit} (up to {charge.max_rows} rows)",
            "when": charge.charged_at,
            "state": charge.state,
            "private": "yes" if charge.not_private is None else f"NO: {charge.not_private}",
            "view": charge.view or "",
        }
        for charge in charges
    ]
    if format == output.JsonOrTable.json:
        output.print_json({"tables": totals, "charges": rows})
        return
    shown = [{name: "none" if value is None else value for name, value in row.items()} for row in totals]
    output.print_table(list(totals[0]) if totals else ["table"], shown)
    if rows:
        typer.echo()
        output.print_table(
            list(rows[0]), [{**row, "when": str(row["when"])[:16].replace("T", " ")} for row in rows]
        )


def limit(
    table: Table,
    epsilon: Annotated[
        str, typer.Argument(metavar="EPSILON", help="What may be spent on it in all.", show_default=False)
    ],
    delta: Annotated[
        str | None,
        typer.Option(help="What of delta may be spent in all; 1e-6 by default.", show_default=False),
    ] = None,
    ledger: LedgerFile = None,
) -> None:
    """State what may be spent on a table in all. Builds that would exceed it are refused.

    Example: hdpview ledger limit admissions 3.0 --ledger budget.sqlite
    """
    from hdpview.privacy.budget import exact_delta, exact_epsilon
    from hdpview.privacy.ledger import Ledger, default_ledger

    account = Ledger(ledger or default_ledger())
    account.set_limit(table, exact_epsilon(epsilon), None if delta is None else exact_delta(delta))
    typer.echo(f"{float(account.spent(table)):g} of {epsilon} spent on {table} so far.")


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
    """Build views of neighbouring tables again and again, and tell what epsilon they show at least. Needs no
    data.

    Example: hdpview audit --method mixture --epsilon 1.0 --runs 2000
    """
    from hdpview.audit.run import audit as run

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
        typer.echo(_told(found))
    if not found.passed:
        words = "MORE THAN IT CLAIMS: the promise is broken. Please report this; see SECURITY.md."
        typer.secho(words, fg="red", bold=True, err=True)
        raise typer.Exit(1)


def _told(found: Audit) -> str:
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
    return "\n".join(lines)


def learnt_schema(
    data: str,
    epsilon: str,
    delta: str | None,
    unit: str | None,
    max_rows: int,
    ledger: Path | None,
    table: str | None,
    columns: list[str],
    exclude: list[str],
) -> str:
    """A schema learnt privately: charged before a value is looked at, whatever comes of it."""
    from hdpview.counts.contributions import EACH_ROW_UNIT, Contributions
    from hdpview.counts.draft import learnable_columns
    from hdpview.counts.draft import learnt_schema as learn
    from hdpview.errors import BudgetError
    from hdpview.privacy.budget import exact_delta, exact_epsilon
    from hdpview.privacy.ledger import Ledger, default_ledger, ledger_for, name_of

    budget, limits = exact_epsilon(epsilon), Contributions(unit, max_rows)
    slack = Fraction(0) if delta is None else exact_delta(delta)
    if delta is not None and slack < _LEAST_LEARNT_DELTA:
        raise BudgetError(
            f"Categories are learnt for a delta of {float(_LEAST_LEARNT_DELTA):g} or more, such as "
            f"1e-9, not {delta!r}."
        )
    kinds = learnable_columns(data, columns, exclude, unit)
    account = Ledger(ledger or ledger_for(data, table) or default_ledger())
    name = table or name_of(data)
    with account.charged(name, budget, "learn bounds", unit or EACH_ROW_UNIT, max_rows, slack):
        return learn(data, kinds, budget, slack, limits)


def warn_if_view_beside_table(data: str, view: Path) -> None:
    """Warn where a view lies beside the table it protects and more people may read it."""
    table = Path(data)
    if (
        table.exists()
        and table.resolve().parent == view.resolve().parent
        and view.stat().st_mode & ~table.stat().st_mode & 0o044
    ):
        typer.secho(
            f"Note: {view.name} may be read by more people than {table.name}, and lies in the same "
            "folder. Move it to one of its own.",
            fg="yellow",
            err=True,
        )
    elif table.is_file() and table.stat().st_mode & 0o004:
        typer.secho(
            f"Note: every user of this machine may read {table.name}. Consider: chmod o-r {table.name}",
            fg="yellow",
            err=True,
        )


def _existing(account: Ledger) -> Ledger:
    from hdpview.errors import BudgetError

    if not account.path.exists():
        raise BudgetError(
            f"There is no ledger {str(account.path)!r}. A build makes it, or: hdpview ledger limit "
            "TABLE EPSILON."
        )
    return account
