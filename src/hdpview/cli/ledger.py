"""The commands `hdpview ledger …`: what has been spent on which table, and what may be."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hdpview.cli import output
from hdpview.cli.options import Format

if TYPE_CHECKING:
    from hdpview.privacy.ledger import Ledger

LedgerFile = Annotated[
    Path | None,
    typer.Option(
        "--ledger",
        help="The ledger's file; else $HDPVIEW_LEDGER, or hdpview-ledger.sqlite here.",
        show_default=False,
    ),
]
Table = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="The table: the path of its data, or its name in the ledger.",
        show_default=False,
    ),
]


def show(ledger: LedgerFile = None, format: Format = output.JsonOrTable.table) -> None:
    """Tell what has been spent on each table, on what, and what is left.

    Example: hdpview ledger show --ledger budget.sqlite
    """
    from hdpview.privacy.ledger import Ledger, default_ledger

    account = _existing(Ledger(ledger or default_ledger()))
    charges, totals = account.charges(), []
    for name in account.tables():
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
    for name in [str(row["table"]) for row in totals]:
        units = sorted({charge.privacy_unit for charge in charges if charge.table == name})
        if len(units) > 1:
            typer.secho(
                f"Charges on {name!r} protect different units ({', '.join(units)}). Their sum holds for "
                "single rows; for a person with several rows, charges per row count several times.",
                fg="yellow",
            )
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

    Example: hdpview ledger limit admissions.csv 3.0
    """
    from hdpview.privacy.budget import exact_delta, exact_epsilon
    from hdpview.privacy.ledger import Ledger, default_ledger, ledger_for, name_of

    is_data = Path(table).exists()
    name = name_of(table) if is_data else table
    account = Ledger(ledger or (ledger_for(table, None) if is_data else None) or default_ledger())
    is_known = bool(account.charges(name)) or account.limit(name).epsilon is not None
    account.set_limit(name, exact_epsilon(epsilon), None if delta is None else exact_delta(delta))
    typer.echo(f"{float(account.spent(name)):g} of {epsilon} spent on {name} so far. Ledger: {account.path}")
    if not is_known:
        typer.secho(
            f"Nothing has been spent on {name!r} by this ledger. If that is unexpected, check the name and "
            "the ledger's file.",
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
