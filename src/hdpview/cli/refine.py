"""The command `hdpview refine`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hdpview.cli import output
from hdpview.cli.build import (
    AcceptLosses,
    Engine,
    Epsilon,
    Focus,
    Force,
    MemoryLimit,
    NoLedger,
    NoPerson,
    Resume,
    TestKey,
    Threads,
    WishFile,
    end_if_elsewhere,
    tell_warning,
)
from hdpview.cli.options import LedgerFile, TableName
from hdpview.cli.progress import ProgressBar


def refine(
    view: Annotated[Path, typer.Argument(help="The .pview file to refine; it stays as it is.")],
    data: Annotated[str, typer.Option(help="The table that the view was built from.", show_default=False)],
    epsilon: Epsilon,
    output_path: Annotated[
        Path, typer.Option("-o", "--output", help="The .pview file to write.", show_default=False)
    ],
    focus: Focus = None,
    wishes: WishFile = None,
    no_person: NoPerson = None,
    engine: Engine = "local",
    ledger: LedgerFile = None,
    table: TableName = None,
    no_ledger: NoLedger = False,
    force: Force = False,
    threads: Threads = None,
    memory_limit: MemoryLimit = None,
    test_key: TestKey = None,
    accept_losses: AcceptLosses = False,
    resume: Resume = False,
) -> None:
    """Spend EPSILON more on a view: less noise in all its answers, and most of it for the focus.

    Example: hdpview refine adult.pview --data adult.parquet --epsilon 0.5 --focus age,hours -o finer.pview
    """
    from hdpview.build import account_of, budget_line
    from hdpview.privacy.budget import exact_epsilon
    from hdpview.privacy.ledger import name_of
    from hdpview.pview import open_view
    from hdpview.refine import refine as refine_view
    from hdpview.view.save import Saver
    from hdpview.wishes import Wishes

    saver = Saver(output_path)
    saver.check(force)
    coarse = open_view(view)
    kept: Any = False if no_ledger else ledger
    table = table or coarse.manifest.table
    account = account_of(data, kept, table, is_test=test_key is not None)
    name = None if account is None else table or name_of(data)
    typer.echo(budget_line(account, name, None if resume else exact_epsilon(epsilon)), err=True)
    with ProgressBar() as progress:
        finer = refine_view(
            coarse,
            data,
            epsilon,
            focus=[tuple(output.names_in(names)) for names in focus or ()],
            wishes=None if wishes is None else Wishes.load(wishes),
            no_person=no_person or (),
            engine=engine,
            ledger=kept,
            table=table,
            threads=threads,
            memory_limit=memory_limit,
            test_key=None if test_key is None else test_key.encode(),
            accept_losses=accept_losses,
            resume=resume,
            progress=progress,
            on_warning=tell_warning,
            on_charge=saver.keep,
        )
        progress(None, "writing the view")
        elsewhere = saver.save(finer)
    typer.echo(budget_line(account, name, None), err=True)
    end_if_elsewhere(elsewhere)
    typer.echo(f"Wrote {output_path} ({output_path.stat().st_size / 1000:,.0f} kB)\n{finer!r}")
