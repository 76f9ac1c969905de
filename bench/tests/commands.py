"""`hdpview bench` on the command line."""

import json
from typing import Any

from click.testing import Result
from typer.testing import CliRunner

from hdpview.cli.main import app


def bench(words: str, *more: object) -> Result:
    return CliRunner().invoke(app, ["bench", *words.split(), *map(str, more)])


def rows_of(words: str, *more: object) -> list[dict[str, Any]]:
    done = bench(words, *more, "--format", "json")
    assert done.exit_code == 0, done.output
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows
