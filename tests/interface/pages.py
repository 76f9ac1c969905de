"""Runs what a page of the documentation shows: files, commands, programs, and the output printed below them.

A block under `<!-- file: NAME -->` is written to a file; one under `<!-- run -->` is run, a program in the
same Python process as the programs above it; one under `<!-- output -->` is what the block above it prints.

Commands `hdpview …` run in this process, which saves starting Python for each; all others in a shell. Noise
is the same each time (tests/repeatable.py).

    python tests/interface/pages.py README.md docs/tutorials/curators.md     # runs them, renews their outputs
    python tests/interface/pages.py examples/explore.ipynb                   # the same for a notebook"""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

BLOCK = re.compile(
    r"<!-- (?P<kind>run|output|file: (?P<name>\S+)) -->\n```(?P<language>\w+)\n(?P<text>.*?)```", re.DOTALL
)
_NUMBER = re.compile(r"[-−]?\d+(,\d{3})*(\.\d+)?(e[-+]?\d+)?%?")
_OPERATORS = {"|", "||", "&&", "&", ">", "<", "2>&1"}
# Executes programs one after another, each a line of JSON, and answers with a line of JSON for each.
_DRIVER = """
import contextlib, io, json, sys
scope = {"__name__": "__main__"}
for line in sys.stdin:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(json.loads(line), "page", "exec"), scope)
    print(json.dumps(printed.getvalue()), flush=True)
"""


@dataclass(frozen=True)
class Output:
    """A block's output on the page, and its output now. `span` is its place in the page's text."""

    shown: str
    printed: str
    span: tuple[int, int]


def run_page(text: str, folder: Path) -> list[Output]:
    """Run the blocks of a page in a folder, in order. Raises if one fails."""
    from repeatable import repeatable_noise

    outputs: list[Output] = []
    printed = ""
    with repeatable_noise(), _python(folder) as execute:
        for block in BLOCK.finditer(text):
            if block["name"]:
                (folder / block["name"]).write_text(block["text"], encoding="utf-8")
            elif block["kind"] == "output":
                outputs.append(Output(block["text"], printed, block.span("text")))
            elif block["language"] == "python":
                printed = execute(block["text"])
            else:
                printed = _shell(block["text"], folder)
    return outputs


def structure(text: str) -> str:
    """A text without what noise changes: numbers, truth values, words on usefulness, widths of columns."""
    masked = re.sub(r"\b(True|False|useful|rough|unknown)\b", "?", _NUMBER.sub("#", text))
    return re.sub(r"[ \t─=-]+", " ", masked).replace(" \n", "\n").strip()


def renewed(text: str, outputs: list[Output]) -> str:
    for output in reversed(outputs):
        start, end = output.span
        text = text[:start] + output.printed.rstrip() + "\n" + text[end:]
    return text


def _environment() -> dict[str, str]:
    import repeatable

    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**repeatable.environment(), "PATH": path, "COLUMNS": "110", "NO_COLOR": "1"}


def _commands(text: str) -> list[list[str]]:
    """The words of each command; one may reach over lines within quotes or after a backslash."""
    commands, pending = [], ""
    for line in text.replace("\\\n", " ").splitlines():
        pending += line + "\n"
        try:
            words = shlex.split(pending, comments=True)
        except ValueError:  # an open quotation mark
            continue
        commands += [words] if words else []
        pending = ""
    return commands


def _shell(text: str, folder: Path) -> str:
    import command_line

    commands = _commands(text)
    if all(command[0] == "hdpview" and not _OPERATORS & {*command} for command in commands):
        with patch.dict(os.environ, _environment()):
            done = [command_line.run(*command[1:], cwd=folder) for command in commands]
    else:
        bash = ["bash", "-euo", "pipefail", "-c", text]
        done = [subprocess.run(bash, cwd=folder, env=_environment(), capture_output=True, text=True)]
    for one in done:
        if one.returncode:
            raise AssertionError(text + one.stdout + one.stderr)
    return re.sub(r"[ \t]+$", "", "".join(one.stdout for one in done), flags=re.MULTILINE)


@contextmanager
def _python(folder: Path) -> Iterator[Callable[[str], str]]:
    with (
        tempfile.TemporaryFile("w+") as complaints,
        subprocess.Popen(
            [sys.executable, "-c", _DRIVER],
            cwd=folder, env=_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints,
            text=True,
        ) as process,
    ):  # fmt: skip

        def execute(program: str) -> str:
            assert process.stdin is not None
            process.stdin.write(json.dumps(program) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            if not line:
                complaints.seek(0)
                raise AssertionError(program + complaints.read())
            return str(json.loads(line))

        yield execute


def execute_notebook(path: Path, folder: Path) -> Any:
    import nbformat
    from nbclient import NotebookClient

    import repeatable

    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources=resources, record_timing=False
    )
    with patch.dict(os.environ, repeatable.environment()):
        client.execute()
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


def _renew(page: Path, folder: Path) -> None:
    if page.suffix == ".ipynb":
        import nbformat

        nbformat.write(execute_notebook(page, folder), page)
        return
    before = page.read_text(encoding="utf-8")
    if "people.csv" in before:
        from people import write_people

        write_people(folder / "people.csv")
    page.write_text(renewed(before, run_page(before, folder)), encoding="utf-8")


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[1]))
    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as place:
            _renew(Path(name), Path(place))
