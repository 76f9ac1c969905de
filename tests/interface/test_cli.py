"""The command line as a person or a program meets it."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from people import write_people
from typer.testing import CliRunner

import hdpview
from command_line import run
from hdpview.cli import output
from hdpview.cli.main import app, main
from hdpview.errors import HdpviewError

SCHEMA = """
[attributes.age]
type = "integer"
min = 17
max = 90
[attributes.education]
type = "category"
values = ["School", "Bachelor", "Master", "Doctorate"]
other = "other"
[attributes.member]
type = "boolean"
nullable = true
"""
BUILD = ("build", "people.csv", "--schema", "people.toml", "-e", "1")


def on_terminal(*words: object, cwd: Path, columns: int = 80, **environment: str) -> str:
    """What a command shows on a screen of that many columns."""
    ours, theirs = pty.openpty()
    variables = {
        **{k: v for k, v in os.environ.items() if k != "NO_COLOR"},
        "TERM": "xterm",
        "COLUMNS": str(columns),
        **environment,
    }
    command = [sys.executable, "-m", "hdpview", *map(str, words)]
    with subprocess.Popen(
        command, cwd=cwd, env=variables, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
    ) as running:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # how Linux says that nobody writes there any more
            while part := os.read(ours, 65_536):
                shown += part
    os.close(ours)
    assert running.returncode == 0, shown
    return shown.decode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table, its schema and its view."""
    path = tmp_path_factory.mktemp("cli")
    write_people(path / "people.csv")
    (path / "people.toml").write_text(SCHEMA)
    done = run(*BUILD, "-o", "people.pview", cwd=path)
    assert done.returncode == 0, done.stderr
    return path


def refused(*words: object, cwd: Path) -> str:
    """The one sentence with which bad input is refused."""
    done = run(*words, cwd=cwd)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a folder, the ledger among them."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def commands(group: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command there is, as the words that call it."""
    yield words
    if hasattr(group, "list_commands"):
        for name in group.list_commands(None):
            yield from commands(group.get_command(None, name), (*words, name))


COMMANDS = list(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help(command: tuple[str, ...]) -> None:
    """--help explains each command, and each one that does something shows an example."""
    done = CliRunner().invoke(app, [*command, "--help"])
    assert done.exit_code == 0
    assert "Usage" in done.stdout
    is_group = any(other[: len(command)] == command for other in COMMANDS if other != command)
    assert is_group or "Example: hdpview " + " ".join(command) in " ".join(done.stdout.split())


def test_the_version_is_told_without_a_command() -> None:
    """--version stands by itself."""
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"hdpview {hdpview.__version__}\n")


def test_numbers_and_names_of_columns_are_never_folded(folder: Path) -> None:
    """However many columns there are and however narrow the screen, each row of numbers is a line of as many
    words; texts may be folded.
    """
    names = ["n", *(f"a_rather_long_name_{i}" for i in range(9))]
    sql = f"SELECT {', '.join(f'COUNT(*) * 1000000 AS {name}' for name in names)} FROM view"
    into_a_file = run("query", "people.pview", sql, cwd=folder).stdout
    on_a_screen = on_terminal("query", "people.pview", sql, cwd=folder, columns=40)
    for text in (into_a_file, on_a_screen):
        header, row = (line.split() for line in re.sub(r"\x1b\[\d*m", "", text).splitlines())
        assert header == [name + end for name in names for end in ("", "_lower", "_upper")]
        assert len(row) == len(header)
        assert all(re.fullmatch(r"[\d,]+", number) for number in row)


def test_colours_are_left_out_on_request(folder: Path) -> None:
    """NO_COLOR takes the red from the warning, which stands there all the same."""
    run(*BUILD, "--test-key", "k", "-o", "red.pview", cwd=folder)
    for environment, is_red in (({}, True), ({"NO_COLOR": "1"}, False)):
        text = on_terminal("query", "red.pview", "SELECT COUNT(*) FROM view", cwd=folder, **environment)
        assert "This view is NOT PRIVATE" in text
        assert ("\x1b[31m" in text) == is_red


def test_a_full_disk_and_a_folder_for_a_picture_are_told_in_a_sentence(folder: Path) -> None:
    """What the operating system refuses is one line, not a traceback."""
    (folder / "folder.png").mkdir()
    assert "Is a directory" in refused("plot", "people.pview", "member", "-o", "folder.png", cwd=folder)
    (folder / "folder.png").rmdir()
    with open("/dev/full", "w") as full:
        words = [sys.executable, "-m", "hdpview", "info", "people.pview"]
        done = subprocess.run(words, cwd=folder, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (2, "Error: Cannot read or write: No space left on device.\n")


def test_an_interrupt_inside_compiled_code_is_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba hands Ctrl-C on as the cause of a SystemError: the command ends with 130 as elsewhere; any other
    SystemError is shown.
    """

    def interrupted(cause: BaseException | None) -> Any:
        def stop(**_: Any) -> None:
            raise SystemError("a result with an exception set") from cause

        return stop

    monkeypatch.setitem(main.__globals__, "app", interrupted(KeyboardInterrupt()))
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    monkeypatch.setitem(main.__globals__, "app", interrupted(None))
    with pytest.raises(SystemError):
        main()


def test_query_prints_json_for_programs(folder: Path) -> None:
    """The shape of --format json is the documented one."""
    sql = "SELECT COUNT(*) AS n FROM view WHERE age >= 40"
    done = run("query", "people.pview", sql, "--format", "json", "--confidence", "0.9", cwd=folder)
    found = json.loads(done.stdout)
    assert found["columns"] == ["n", "n_lower", "n_upper"]
    assert found["confidence"] == 0.9
    assert found["epsilon"] == 1.0
    (row,) = found["rows"]
    assert 0 <= row["n_lower"] <= row["n"] <= row["n_upper"]


def test_query_prints_csv_and_tables(folder: Path) -> None:
    """CSV has a header and a row; the table is for people."""
    lines = run(
        "query", "people.pview", "SELECT COUNT(*) FROM view", "--format", "csv", cwd=folder
    ).stdout.splitlines()
    assert lines[0] == "count_star(),count_star()_lower,count_star()_upper"
    assert len(lines) == 2
    assert (
        "count_star()_upper" in run("query", "people.pview", "SELECT COUNT(*) FROM view", cwd=folder).stdout
    )
    grouped = "SELECT 1000 + age // 10 * 10 AS key, COUNT(*) FROM view GROUP BY 1 ORDER BY 1"
    table = run("query", "people.pview", grouped, cwd=folder).stdout.splitlines()
    assert table[2].split()[0] == "1020"


def test_tables_for_people_show_no_more_digits_than_intervals_allow(folder: Path) -> None:
    """Numbers of records have no fractions, means two digits of their interval's half width; programs get all
    digits.
    """
    sql = "SELECT education, COUNT(*) AS n, AVG(age) AS age FROM view WHERE member GROUP BY 1 ORDER BY 1"
    header, *lines = run("query", "people.pview", sql, cwd=folder).stdout.splitlines()
    shown = [dict(zip(header.split(), line.split(), strict=True)) for line in lines]
    full = json.loads(run("query", "people.pview", sql, "--format", "json", cwd=folder).stdout)["rows"]
    assert [row["education"] for row in shown] == [row["education"] for row in full]
    assert any(row["n"] % 1 for row in full)
    for row, told in zip(full, shown, strict=True):
        for name in ("n", "age"):
            half = (row[f"{name}_upper"] - row[f"{name}_lower"]) / 2
            for end in ("", "_lower", "_upper"):
                number = float(told[name + end].replace(",", ""))
                assert number == pytest.approx(row[name + end], abs=max(0.1 * half, float(name == "n")))
        assert all("." not in told[f"n{end}"] for end in ("", "_lower", "_upper"))
    union = run("query", "people.pview", "SELECT COUNT(*) AS n FROM view UNION ALL SELECT 3", cwd=folder)
    assert union.returncode == 0, union.stderr


@pytest.mark.parametrize(
    ("estimate", "least", "expected"),
    [
        ((76.34, 71.9, 80.2), 1.0, ["76", "72", "80"]),
        ((24_459.4, 24_271.2, 24_647.0), 1.0, ["24,460", "24,270", "24,650"]),
        ((12.0, 0.4, 230.0), 1.0, ["10", "10", "230"]),
        ((5.6712, 5.031, 6.3), 0.0, ["5.67", "5.03", "6.30"]),
        ((-0.2, -0.6, 0.3), 1.0, ["0", "-1", "0"]),
        ((76.34, 76.34, 76.34), 1.0, ["76", "76", "76"]),
    ],
)
def test_estimates_are_rounded_as_on_the_page(
    estimate: tuple[float, float, float], least: float, expected: list[str]
) -> None:
    """What `rounded` of the explorer's parts.js shows of the same numbers."""
    names = ["x", "x_lower", "x_upper"]
    row = dict(zip(names, estimate, strict=True))
    assert [output.rounded_row(row, [names], ["x"] if least else [])[name] for name in names] == expected


def test_info_tells_what_is_protected(folder: Path) -> None:
    """Budget, unit, neighbours and attributes are shown, in words and in JSON."""
    text = run("info", "people.pview", cwd=folder).stdout
    assert "epsilon 1 for one row (add or remove one record)" in text
    assert "education" in text
    facts = json.loads(run("info", "people.pview", "--format", "json", cwd=folder).stdout)
    assert facts["private"] is True
    assert sum(facts["spending"].values()) == pytest.approx(1.0)


def test_info_tells_how_far_answers_are_off(folder: Path) -> None:
    """By kind of question, with what was counted together: in words and in JSON."""
    text = run("info", "people.pview", "--quality", cwd=folder).stdout
    assert "are within ±" in text
    found = json.loads(run("info", "people.pview", "--quality", "--format", "json", cwd=folder).stdout)
    assert found["n_pairs"] > 0
    assert all(error > 0 for error in found["within"].values())


def test_query_says_what_the_schema_gathers(folder: Path) -> None:
    """A condition beyond the bounds is answered in words too: beside the table, and within the JSON."""
    sql = "SELECT COUNT(*) AS n FROM view WHERE age > 1000"
    assert "beyond the schema's bounds" in run("query", "people.pview", sql, cwd=folder).stderr
    found = json.loads(run("query", "people.pview", sql, "--format", "json", cwd=folder).stdout)
    assert any("beyond the schema's bounds" in note for note in found["notes"])


def test_a_test_key_is_shown_wherever_the_view_is(folder: Path) -> None:
    """A view with a known key is repeatable, and says on every occasion that it is not private."""
    for name in ("a", "b"):
        assert "NOT PRIVATE" in run(*BUILD, "--test-key", "k", "-o", f"{name}.pview", cwd=folder).stdout
    assert (folder / "a.pview").read_bytes() == (folder / "b.pview").read_bytes()
    assert "NOT PRIVATE" in run("info", "a.pview", cwd=folder).stdout
    assert "NOT PRIVATE" in run("query", "a.pview", "SELECT COUNT(*) FROM view", cwd=folder).stderr


def test_estimate_judges_a_budget_with_a_delta(folder: Path) -> None:
    """--delta goes to the budget, as in build: it is printed with it, and refused by a method that has no use
    for it.
    """
    (folder / "wide.toml").write_text("".join(f'[attributes.a{i}]\ntype = "boolean"\n' for i in range(24)))
    words = ["estimate", "-s", "wide.toml", "--rows", "500", "-e", "1", "--delta", "1e-6"]
    done = run(*words, "--format", "json", cwd=folder)
    assert json.loads(done.stdout)["delta"] == 1e-6, done.stderr
    assert "cannot use a delta" in refused(*words, "--method", "hdpview", cwd=folder)


def test_two_builds_without_a_key_differ(folder: Path) -> None:
    """There is no seed by default."""
    for name in ("c", "d"):
        run(*BUILD, "-o", f"{name}.pview", cwd=folder)
    assert (folder / "c.pview").read_bytes() != (folder / "d.pview").read_bytes()


def test_schema_draft_leaves_knowledge_open_and_check_says_what_is_missing(folder: Path) -> None:
    """A draft names columns and types; unfilled, it is refused with what it needs."""
    run("schema", "draft", "people.csv", "-o", "draft.toml", cwd=folder)
    text = (folder / "draft.toml").read_text()
    assert 'education = { type = "category", values = [?], other = "other" }' in text
    assert "Bachelor" not in text
    assert "a ? stands in line" in refused("schema", "check", "draft.toml", cwd=folder)


BAD_DRAFTS = {
    "missing folder": (["people.csv", "-o", "nowhere/x.toml"], "does not exist"),
    "a schema written by hand": (["people.csv", "-o", "people.toml"], "is there already"),
    "the table": (["people.csv", "-o", "people.csv"], "is there already"),
    "an unknown column": (
        ["people.csv", "--learn-bounds-epsilon", "0.5", "--columns", "agee"],
        "Did you mean 'age'",
    ),
    "missing table to learn from": (["nothing.parquet", "--learn-bounds-epsilon", "0.5"], "There is no file"),
    "delta without a budget": (["people.csv", "--learn-delta", "1e-9"], "--learn-bounds-epsilon"),
    "both free and paid": (
        ["people.csv", "--from-data-not-private", "--learn-bounds-epsilon", "1"],
        "Give one",
    ),
}


@pytest.mark.parametrize("case", BAD_DRAFTS)
def test_bad_drafts_are_refused_in_a_sentence_and_cost_nothing(folder: Path, case: str) -> None:
    """What can be refused without a look at values is: no file is written or written over, no budget
    spent.
    """
    words, expected = BAD_DRAFTS[case]
    before = contents(folder)
    assert expected in refused("schema", "draft", *words, cwd=folder)
    assert contents(folder) == before


def test_columns_that_cannot_be_read_are_left_out_of_drafts(tmp_path: Path) -> None:
    """A draft names lists and bytes in a comment only, and a schema filled in from the data can be built on
    at once.
    """
    odd = {"age": [30, 40], "list": [[1], [2]], "raw": [b"a", b"b"], "place": [{"x": 1}, {"x": 2}]}
    pq.write_table(pa.table(odd), tmp_path / "odd.parquet")
    text = run("schema", "draft", "odd.parquet", cwd=tmp_path).stdout
    assert list(tomllib.loads(text)["attributes"]) == ["age"]
    assert all(f"# {name} is left out" in text for name in ("list", "raw", "place"))
    run("schema", "draft", "odd.parquet", "--from-data-not-private", "-o", "odd.toml", cwd=tmp_path)
    assert run("schema", "check", "odd.toml", "odd.parquet", cwd=tmp_path).returncode == 0


def test_schema_drawn_from_data_is_marked_down_to_the_view(folder: Path) -> None:
    """--from-data-not-private fills everything in, and the view built on it is stamped."""
    run("schema", "draft", "people.csv", "--from-data-not-private", "-o", "drawn.toml", cwd=folder)
    assert "NOT PRIVATE" in run("schema", "check", "drawn.toml", "people.csv", cwd=folder).stdout
    done = run("build", "people.csv", "-s", "drawn.toml", "-e", "1", "-o", "drawn.pview", cwd=folder)
    assert "NOT PRIVATE" in done.stdout, done.stderr


BAD_BUILDS = {
    "missing table": (["nothing.csv"], "nothing.csv"),
    "zero budget": (["people.csv", "-e", "0"], "positive number"),
    "budget that is no number": (["people.csv", "-e", "nan"], "positive number"),
    "unknown method": (["people.csv", "--method", "hdpviw"], "Did you mean 'hdpview'?"),
    "unknown engine": (["people.csv", "--engine", "lokal"], "Did you mean 'local'?"),
    "missing folder": (["people.csv", "-o", "nowhere/x.pview"], "does not exist"),
    "name too long": (["people.csv", "-o", "x" * 300 + ".pview"], "File name too long"),
    "the table as output": (["people.csv", "-o", "people.csv"], "is not a view"),
    "the schema as output": (["people.csv", "-o", "people.toml"], "is not a view"),
    "a folder as output": (["people.csv", "-o", "."], "is not a view"),
    "missing schema": (["people.csv", "-s", "nothing.toml"], "Cannot read the schema"),
    "memory limit without unit": (["people.csv", "--memory-limit", "lots"], "such as '4GB'"),
}


@pytest.mark.parametrize("case", BAD_BUILDS)
def test_bad_builds_are_refused_in_a_sentence_and_leave_nothing(folder: Path, case: str) -> None:
    """Exit code 2, the way out in words, no file half-written or written over, and no budget spent."""
    words, expected = BAD_BUILDS[case]
    defaults = [
        option
        for option in (("-s", "people.toml"), ("-e", "1"), ("-o", "bad.pview"))
        if option[0] not in words
    ]
    before = contents(folder)
    message = refused("build", *words, *(word for option in defaults for word in option), cwd=folder)
    assert expected in message
    assert contents(folder) == before


def test_bad_questions_are_refused_with_the_way_out(folder: Path) -> None:
    """A statement that cannot be answered ends with code 2 and the library's own message."""
    message = refused("query", "people.pview", "SELECT COUNT(*) FROM view WHERE agee > 3", cwd=folder)
    assert "Did you mean 'age'?" in message


def test_files_that_are_no_views_are_refused(folder: Path) -> None:
    """A CSV file, a truncated view and a missing file each get a sentence."""
    (folder / "cut.pview").write_bytes((folder / "people.pview").read_bytes()[:-20])
    for name in ("people.csv", "cut.pview", "missing.pview"):
        assert name in refused("info", name, cwd=folder)


def test_files_that_cannot_be_written_are_named(folder: Path) -> None:
    """One sentence with the name of the file, whatever was to be written."""
    assert "people.csv" in refused("demo", "-d", "people.csv/demo", cwd=folder)


@pytest.mark.parametrize("group", [(), ("schema",)], ids=str)
def test_a_file_in_the_place_of_a_command_is_told_which_one_takes_it(
    folder: Path, group: tuple[str, ...]
) -> None:
    """Neither a table nor a schema nor a view is a command; what to run is named."""
    assert "hdpview schema draft people.csv" in refused(*group, "people.csv", cwd=folder)
    assert "hdpview schema check people.toml" in refused(*group, "people.toml", cwd=folder)
    assert "hdpview explore people.pview" in refused(*group, "people.pview", cwd=folder)


def test_a_draft_is_not_written_into_a_file_named_like_another_format(folder: Path) -> None:
    """A schema file is TOML: a .yaml would be refused by whoever believes its name."""
    said = refused("schema", "draft", "people.csv", "-o", "people.yaml", cwd=folder)
    assert "TOML" in said
    assert "people.toml" in said
    assert not (folder / "people.yaml").exists()


def test_interrupting_a_build_leaves_nothing_behind(tmp_path: Path) -> None:
    """Ctrl-C in the middle: exit code 130, no view, no temporary file or folder."""
    write_people(tmp_path / "people.csv", n_rows=200_000)
    (tmp_path / "people.toml").write_text(SCHEMA)
    spill = tmp_path / "spill"
    spill.mkdir()
    command = [sys.executable, "-m", "hdpview", *BUILD, "-o", "x.pview"]
    environment = {**os.environ, "TMPDIR": str(spill)}
    building = subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while not list(spill.glob("hdpview-*")) and building.poll() is None:
        time.sleep(0.005)
    building.send_signal(signal.SIGINT)
    _, errors = building.communicate(timeout=60)
    assert building.returncode == 130, errors
    assert "Nothing was written" in errors
    assert sorted(path.name for path in tmp_path.iterdir()) == ["people.csv", "people.toml", "spill"]
    assert not list(spill.glob("hdpview-*"))


def test_without_the_bench_package_its_commands_say_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """`audit` and `bench` and their help name what to install; the list of commands leaves them out."""
    listed = CliRunner().invoke(app, ["--help"]).stdout
    assert "│ audit " in listed
    assert "│ bench " in listed
    monkeypatch.setattr("hdpview.cli.groups.entry_points", lambda group: ())
    for words in (["bench", "--help"], ["bench", "accuracy"], ["bench"], ["audit", "--epsilon", "1"]):
        done = CliRunner().invoke(app, words)
        assert isinstance(done.exception, HdpviewError)
        assert "pip install ./bench" in str(done.exception)
        assert not done.stdout
    listed = CliRunner().invoke(app, ["--help"])
    assert listed.exit_code == 0
    assert "audit" not in listed.stdout
    assert "bench" not in listed.stdout
