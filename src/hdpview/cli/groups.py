"""Groups of commands: our own and those that installed packages add."""

from __future__ import annotations

from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from hdpview.errors import HdpviewError

FROM_BENCH = ("audit", "bench")
# The command to suggest for a file, by its ending; any other ending is taken for a table.
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

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *sorted(self._added)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        own = super().get_command(ctx, cmd_name)
        if own is not None or cmd_name not in self._added:
            return own
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
