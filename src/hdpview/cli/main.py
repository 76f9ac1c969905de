"""The `hdpview` command.

Exit codes: 0 success, 2 bad input (with a message), 3 view written to another place than requested, 70 bug in
hdpview, 130 Ctrl-C.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from hdpview._version import __version__
from hdpview.cli import build, curate, demo, ledger, query, refine, schema, serve
from hdpview.cli.groups import AllCommands, Commands
from hdpview.errors import HdpviewError, InternalError, missing_extra

INTERNAL_ERROR = 70  # exit code, as in sysexits.h

app = typer.Typer(
    cls=AllCommands,
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,  # a traceback with local variables could show exact values
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""\
Explore a sensitive table freely, under differential privacy, after paying the privacy budget once.

A curator runs [bold]hdpview build[/bold]; analysts then run [bold]hdpview query[/bold] as often as they like.

Example: hdpview demo""",
)
schema_app = typer.Typer(
    cls=Commands, no_args_is_help=True, help="Write and check schemas: the public description of a table."
)
ledger_app = typer.Typer(no_args_is_help=True, help="Track the budget spent on each table.")
app.add_typer(schema_app, name="schema")
schema_app.command("draft")(schema.draft)
schema_app.command("import")(schema.import_schema)
schema_app.command("check")(schema.check)
schema_app.command("json-schema")(schema.json_schema)
app.command("curate")(curate.open_page)
app.command("build")(build.build)
app.command("refine")(refine.refine)
app.command("estimate")(build.estimate)
app.add_typer(ledger_app, name="ledger")
ledger_app.command("show")(ledger.show)
ledger_app.command("limit")(ledger.limit)
app.command("info")(query.info)
app.command("query")(query.query)
app.command("plot")(query.plot)
app.command("wishes")(query.wishes)
app.command("sample")(query.sample)
app.command("merge")(query.merge)
app.command("explore")(serve.explore)
app.command("serve")(serve.serve)
app.command("publish")(serve.publish)
app.command("demo")(demo.demo)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hdpview {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_show_version, help="Print the version and exit."),
    ] = False,
) -> None:
    """Options of `hdpview` itself."""


def main() -> None:
    """Run the command line."""
    try:
        app(**({"color": False} if os.environ.get("NO_COLOR") else {}))
    except InternalError as problem:
        typer.echo(f"Internal error: {problem}", err=True)
        sys.exit(INTERNAL_ERROR)
    except HdpviewError as problem:
        typer.echo(f"Error: {problem}", err=True)
        sys.exit(2)
    except ModuleNotFoundError as problem:
        without_extra = missing_extra(problem)
        if without_extra is None:
            raise
        typer.echo(f"Error: {without_extra}", err=True)
        sys.exit(2)
    except BrokenPipeError:
        sys.stderr.close()  # the reader closed the pipe, as `head` does
        sys.exit(0)
    except OSError as problem:  # a full disk, a folder where a file should be
        place = "" if problem.filename is None else f" {str(problem.filename)!r}"
        typer.echo(f"Error: Cannot read or write{place}: {problem.strerror or problem}.", err=True)
        sys.exit(2)
    except SystemError as problem:
        # Compiled code turns Ctrl-C into this.
        if not isinstance(problem.__cause__, KeyboardInterrupt):
            raise
        sys.exit(130)
