"""The commands `hdpview ledger …`: the budget spent on each table, and its limit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hdpview.cli import output
from hdpview.cli.options import Format, argument, option

if TYPE_CHECKING:
    from hdpview.privacy.ledger import Ledger

LedgerFile = Annotated[
    Path | None,
    option("The ledger file; by default $HDPVIEW_LEDGER, or hdpview-ledger.sqlite here.", "--ledger"),
]
_TABLE = "The table: the path of its data, or its name in the ledger."


def show(
    table: Annotated[str | None, argument(_TABLE + " All tables by default.", metavar="[TABLE]")] = None,
    ledger: LedgerFile = None,
    format: Format = "table",
) -> None:
    """List the budget spent on each table, by build, and what is left.

    Example: hdpview ledger show --ledger budget.sqlite
    """
    from hdpview.errors import BudgetError, unknown_name
    from hdpview.privacy.ledger import Ledger, default_ledger

    kept, only = (Ledger(ledger or default_ledger()), None) if table is None else _named(table, ledger)
    if not kept.path.exists():
        raise BudgetError(
            f"There is no ledger {str(kept.path)!r}. A build creates it; so does: hdpview ledger limit TABLE "
            "EPSILON."
        )
    names = kept.tables()
    if only is not None:
        if not kept.knows(only):
            raise BudgetError(unknown_name("table", only, names, f"{str(kept.path)!r} has"))
        names = [only]
    charges, totals = kept.charges(only), []
    for name in names:
        limit, spent = kept.limit(name), kept.spent(name)
        most = None if limit.epsilon is None else float(limit.epsilon)
        left = None if limit.epsilon is None else float(limit.epsilon - spent)
        delta = float(sum(charge.delta for charge in charges if charge.table == name))
        totals.append({"table": name, "spent": float(spent), "limit": most, "left": left})
        totals[-1] |= {"delta": delta, "delta limit": float(limit.delta)}
    rows = [
        {
            "table": charge.table,
            "epsilon": float(charge.epsilon),
            "delta": float(charge.delta),
            "spent on": charge.purpose,
            "protects": charge.privacy_unit
            + (f" (up to {charge.max_rows} rows)" if charge.max_rows > 1 else ""),
            "when": charge.charged_at,
            "state": charge.state,
            "private": "yes" if charge.not_private is None else f"NO: {charge.not_private}",
            "view": charge.view or "",
        }
        for charge in charges
    ]
    if format == "json":
        output.print_json({"tables": totals, "charges": rows})
        return
    table_rows = [{name: "none" if value is None else value for name, value in row.items()} for row in totals]
    output.print_table(list(totals[0]) if totals else ["table"], table_rows)
    for name in names:
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
    table: Annotated[str, argument(_TABLE, metavar="TABLE")],
    epsilon: Annotated[str, argument("Maximum epsilon to spend on the table in total.", metavar="EPSILON")],
    delta: Annotated[str | None, option("Maximum delta to spend in total; 1e-6 by default.")] = None,
    ledger: LedgerFile = None,
) -> None:
    """Set the total budget of a table. Builds that would exceed it are refused.

    Example: hdpview ledger limit admissions.csv 3.0
    """
    from hdpview.privacy.budget import exact_delta, exact_epsilon

    kept, name = _named(table, ledger)
    is_known = kept.knows(name)
    kept.set_limit(name, exact_epsilon(epsilon), None if delta is None else exact_delta(delta))
    typer.echo(f"{float(kept.spent(name)):g} of {epsilon} spent on {name} so far. Ledger: {kept.path}")
    if not is_known:
        typer.secho(
            f"This ledger has no charge on {name!r}. If that is unexpected, check the name and the file.",
            fg="yellow",
            err=True,
        )


def _named(table: str, ledger: Path | None) -> tuple[Ledger, str]:
    """The ledger of a table, and the table's name in it."""
    from hdpview.counts.files import files_of, kind_of_file
    from hdpview.privacy.ledger import Ledger, default_ledger, ledger_for, name_of

    kept = Ledger(ledger or default_ledger())
    if not Path(table).exists() and (not kind_of_file(Path(table)) or kept.knows(table)):
        return kept, table
    # A misspelt path must not become a name: the limit would hold for no build.
    files_of(table)
    return Ledger(ledger or ledger_for(table, None) or default_ledger()), name_of(table)
