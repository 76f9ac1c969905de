"""The command `hdpview refine`."""

from __future__ import annotations

from functools import partial
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
    built_and_saved,
)
from hdpview.cli.options import LedgerFile, TableName


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
    from hdpview.pview import open_view
    from hdpview.refine import refine as refine_view
    from hdpview.view.save import Saver
    from hdpview.wishes import Wishes

    saver = Saver(output_path)
    saver.check(force)
    coarse = open_view(view)
    options: dict[str, Any] = {
        "focus": [tuple(output.names_in(names)) for names in focus or ()],
        "ledger": False if no_ledger else ledger,
        "table": table or coarse.manifest.table,
        "test_key": None if test_key is None else test_key.encode(),
        "engine": engine,
        "threads": threads,
        "memory_limit": memory_limit,
        "accept_losses": accept_losses,
        "resume": resume,
        "no_person": no_person or (),
        "wishes": None if wishes is None else Wishes.load(wishes),
    }
    finer = built_and_saved(saver, data, epsilon, options, partial(refine_view, coarse, data, epsilon))
    typer.echo(f"Wrote {output_path} ({output_path.stat().st_size / 1000:,.0f} kB)\n{finer!r}")
