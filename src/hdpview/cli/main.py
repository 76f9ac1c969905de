"""The `hdpview` command.

Exit codes: 0 success, 2 bad input (with a message), 3 view written to another place than requested, 70 bug in
hdpview, 130 Ctrl-C.
"""

from __future__ import annotations

import io
import os
import sys
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from hdpview._version import __version__
from hdpview.cli import build_command, demo, ledger_commands, query, schema_commands, serve
from hdpview.errors import HdpviewError, InternalError, missing_extra

INTERNAL_ERROR = 70  # exit code, as in sysexits.h
_UsageError: Any = typer.BadParameter.__base__
FROM_BENCH = ("audit", "bench")
# The command to suggest for a file, by its ending; files with other endings count as tables.
_TABLE = "hdpview schema draft {0}, or on a page: hdpview curate {0}"
_TAKEN_BY = {".toml": "hdpview schema check {0}", ".pview": "hdpview info {0}, or: hdpview explore {0}"}


class Commands(TyperGroup):
    """A group that suggests a command if it gets a file name instead of one."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        if self.get_command(ctx, name) is None and Path(name).suffix:
            suggestion = _TAKEN_BY.get(Path(name).suffix.lower(), _TABLE).format(name)
            raise HdpviewError(f"{name!r} is a file, not a command. Run: {suggestion}")
        return super().resolve_command(ctx, args)


class AllCommands(Commands):
    """Our own commands and those that packages add by an entry point in the group `hdpview.commands`."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Refuse misspelt options and wrong values in one sentence, like all bad input."""
        try:
            exit_code = super().main(*args, **{**extra, "standalone_mode": False})
        except typer.Abort:
            typer.echo("Aborted.", err=True)
            exit_code = 1
        except _UsageError as problem:
            if reason := problem.format_message():
                reason = reason.replace("Value error, ", "").replace("Input should", "it should")
                reason += "" if reason.endswith((".", "?")) else "."
                command = "hdpview" if problem.ctx is None else problem.ctx.command_path
                raise HdpviewError(f"{reason} See: {command} --help") from None
            exit_code = 2  # without arguments, help was printed
        sys.exit(exit_code or 0)

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *sorted(self._added)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command_of_ours = super().get_command(ctx, cmd_name)
        if command_of_ours is not None or cmd_name not in self._added:
            return command_of_ours
        command = typer.main.get_command(self._added[cmd_name].load())
        command.name = cmd_name
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] in FROM_BENCH and self.get_command(ctx, args[0]) is None:
            raise HdpviewError(
                f"`hdpview {args[0]}` needs the package hdpview-bench, which is not installed. Install it "
                "from a clone of the repository: pip install ./bench (or: pip install hdpview-bench)."
            )
        return super().resolve_command(ctx, args)

    @cached_property
    def _added(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group="hdpview.commands")}


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
schema_app.command("draft")(schema_commands.draft)
schema_app.command("import")(schema_commands.import_schema)
schema_app.command("check")(schema_commands.check)
schema_app.command("json-schema")(schema_commands.json_schema)
app.command("curate")(serve.curate)
app.command("build")(build_command.build)
app.command("refine")(build_command.refine)
app.command("estimate")(build_command.estimate)
app.add_typer(ledger_app, name="ledger")
ledger_app.command("show")(ledger_commands.show)
ledger_app.command("limit")(ledger_commands.limit)
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
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # an arrow must not end a command in a Latin-1 terminal
    try:
        app(**({"color": False} if os.environ.get("NO_COLOR") else {}))
    except InternalError as problem:
        _end(INTERNAL_ERROR, f"Internal error: {problem}")
    except HdpviewError as problem:
        _end(2, f"Error: {problem}")
    except ModuleNotFoundError as problem:
        if (without_extra := missing_extra(problem)) is None:
            raise
        _end(2, f"Error: {without_extra}")
    except BrokenPipeError:
        sys.stderr.close()  # the reader closed the pipe, as `head` does
        sys.exit(0)
    except OSError as problem:  # a full disk, a folder where a file should be
        place = "" if problem.filename is None else f" {str(problem.filename)!r}"
        _end(2, f"Error: Cannot read or write{place}: {problem.strerror or problem}.")
    except SystemError as problem:
        # Compiled code turns Ctrl-C into this.
        if not isinstance(problem.__cause__, KeyboardInterrupt):
            raise
        sys.exit(130)


def _end(code: int, message: str) -> NoReturn:
    typer.echo(message, err=True)
    sys.exit(code)
