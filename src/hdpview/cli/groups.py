"""Groups of commands: ours, and those that another package brings."""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from hdpview.errors import HdpviewError

BENCH = "hdpview_bench"
# What takes a file of each kind: for tables, which have many endings, what takes any other.
_TABLE = "hdpview schema draft {0}, or on a page: hdpview curate {0}"
_TAKEN_BY = {".toml": "hdpview schema check {0}", ".pview": "hdpview info {0}, or: hdpview explore {0}"}


class Commands(TyperGroup):
    """Commands of which none has a point in its name: what has one is a file."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        if self.get_command(ctx, name) is None and Path(name).suffix:
            way_out = _TAKEN_BY.get(Path(name).suffix.lower(), _TABLE).format(name)
            raise HdpviewError(f"{name!r} is a file, not a command. Run: {way_out}")
        return super().resolve_command(ctx, args)


class BenchCommands(TyperGroup):
    """The commands of the package hdpview-bench, loaded when one of them is asked for."""

    @cached_property
    def _installed(self) -> TyperGroup:
        if find_spec(BENCH) is None:
            raise HdpviewError(
                "Benchmarks are a package of their own, which is not installed. Install it from a clone of "
                "the repository: pip install ./bench (or: pip install hdpview-bench)."
            )
        return typer.main.get_group(import_module(f"{BENCH}.cli").app)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        # Before any help is printed.
        assert self._installed is not None
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        return self._installed.list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return self._installed.get_command(ctx, cmd_name)
