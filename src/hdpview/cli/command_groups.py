"""Groups of commands: our own and those that installed packages add."""

from __future__ import annotations

import sys
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from hdpview.errors import HdpviewError

_UsageError: Any = typer.BadParameter.__base__
FROM_BENCH = ("audit", "bench")
# The command to suggest for a file, by its ending; files with other endings count as tables.
_TABLE = "hdpview schema draft {0}, or on a page: hdpview curate {0}"
_TAKEN_BY = {".toml": "hdpview schema check {0}", ".pview": "hdpview info {0}, or: hdpview explore {0}"}


class Commands(TyperGroup):
    """A group that recognises a file name given instead of a command, by the dot in it."""

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
