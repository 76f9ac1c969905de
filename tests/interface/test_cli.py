"""The command line, for people and programs."""

import contextlib
import json
import os
import pty
import re
import shlex
import subprocess
import sys
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
    ours, theirs = pty.openpty()
    variables = {
        **{k: v for k, v in os.environ.items() if k != "NO_COLOR"}, "TERM": "xterm", "COLUMNS": str(columns),
        **environment,
    }  # fmt: skip
    command = [sys.executable, "-m", "hdpview", *map(str, words)]
    with subprocess.Popen(
        command, cwd=cwd, env=variables, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
    ) as running:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # Linux's error after the other side closed the terminal
            while part := os.read(ours, 65_536):
                shown += part
    os.close(ours)
    assert running.returncode == 0, shown
    return shown.decode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli")
    write_people(path / "people.csv")
    (path / "people.toml").write_text(SCHEMA)
    done = run(*BUILD, "-o", "people.pview", cwd=path)
    assert done.returncode == 0, done.stderr
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def commands(group: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield words
    if hasattr(group, "list_commands"):
        for name in group.list_commands(None):
            yield from commands(group.get_command(None, name), (*words, name))


COMMANDS = list(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_an_example(command):
    done = CliRunner().invoke(app, [*command, "--help"])
    assert done.exit_code == 0
    assert "Usage" in done.stdout
    is_group = any(other[: len(command)] == command for other in COMMANDS if other != command)
    assert is_group or "Example: hdpview " + " ".join(command) in " ".join(done.stdout.split())


def test_the_version_is_told_without_a_command():
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"hdpview {hdpview.__version__}\n")


def test_numbers_and_names_of_columns_are_never_folded(folder):
    names = ["n", *(f"a_rather_long_name_{i}" for i in range(9))]
    sql = f"SELECT {', '.join(f'COUNT(*) * 1000000 AS {name}' for name in names)} FROM view"
    into_a_file = run("query", "people.pview", sql, cwd=folder).stdout
    on_a_screen = on_terminal("query", "people.pview", sql, cwd=folder, columns=40)
    for text in (into_a_file, on_a_screen):
        header, row = (line.split() for line in re.sub(r"\x1b\[\d*m", "", text).splitlines())
        assert header == [name + end for name in names for end in ("", "_lower", "_upper")]
        assert len(row) == len(header)
        assert all(re.fullmatch(r"[\d,]+", number) for number in row)


def test_colours_are_left_out_on_request(folder):
    run(*BUILD, "--test-key", "k", "-o", "red.pview", cwd=folder)
    for environment, is_red in (({}, True), ({"NO_COLOR": "1"}, False)):
        text = on_terminal("query", "red.pview", "SELECT COUNT(*) FROM view", cwd=folder, **environment)
        assert "This view is NOT PRIVATE" in text
        assert ("\x1b[31m" in text) == is_red


def test_a_full_disk_and_a_narrow_encoding_end_in_words(folder):
    words = [sys.executable, "-m", "hdpview", "schema", "check", "people.toml"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(words, cwd=folder, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (2, "Error: Cannot read or write: No space left on device.\n")
    latin = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(words, cwd=folder, env=latin, capture_output=True, text=True, encoding="latin-1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "nearest bin" in done.stdout


def test_an_interrupt_inside_compiled_code_is_an_interrupt(monkeypatch):
    """Numba raises Ctrl-C as the cause of a SystemError."""

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


def as_json(*words: object, cwd: Path) -> Any:
    done = run(*words, "--format", "json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_query_prints_json_csv_and_tables(folder):
    ask = ["query", "people.pview", "SELECT COUNT(*) AS n FROM view WHERE age > 1000"]
    answer = as_json(*ask, "--confidence", "0.9", cwd=folder)
    assert set(answer) == {"columns", "rows", "confidence", "epsilon", "delta", "notes"}
    assert (answer["columns"], answer["confidence"], answer["epsilon"]) == (["n", *ENDS], 0.9, 1.0)
    (row,) = answer["rows"]
    assert 0 <= row["n_lower"] <= row["n"] <= row["n_upper"]
    # The schema gathers what lies beyond its bounds.
    assert any("beyond the schema's bounds" in note for note in answer["notes"])
    assert "beyond the schema's bounds" in run(*ask, cwd=folder).stderr
    lines = run(*ask, "--format", "csv", cwd=folder).stdout.splitlines()
    assert (lines[0], len(lines)) == (",".join(["n", *ENDS]), 2)
    grouped = "SELECT 1000 + age // 10 * 10 AS key, COUNT(*) FROM view GROUP BY 1 ORDER BY 1"
    table = run("query", "people.pview", grouped, cwd=folder).stdout.splitlines()
    assert table[2].split()[0] == "1020"


ENDS = ["n_lower", "n_upper"]


@pytest.mark.parametrize(
    ("estimate", "least", "expected"),
    [
        ((76.34, 71.9, 80.2), 1.0, ["76", "72", "80"]),
        ((24_459.4, 24_271.2, 24_647.0), 1.0, ["24,460", "24,270", "24,650"]),
        ((12.0, 0.4, 230.0), 1.0, ["10", "10", "230"]), ((5.6712, 5.031, 6.3), 0.0, ["5.67", "5.03", "6.30"]),
        ((-0.2, -0.6, 0.3), 1.0, ["0", "-1", "0"]), ((76.34, 76.34, 76.34), 1.0, ["76", "76", "76"]),
    ],
)  # fmt: skip
def test_estimates_are_rounded_as_on_the_page(estimate, least, expected):
    names = ["x", "x_lower", "x_upper"]
    row = dict(zip(names, estimate, strict=True))
    assert [output.rounded_row(row, [names], ["x"] if least else [])[name] for name in names] == expected


def test_info_states_what_is_protected_and_how_far_answers_are_off(folder):
    text = run("info", "people.pview", cwd=folder).stdout
    assert "epsilon 1 for one row (add or remove one record)" in text
    assert "education" in text
    facts = as_json("info", "people.pview", cwd=folder)
    assert facts["private"] is True
    assert sum(facts["spending"].values()) == pytest.approx(1.0)
    assert "are within ±" in run("info", "people.pview", "--quality", cwd=folder).stdout
    quality = as_json("info", "people.pview", "--quality", cwd=folder)
    assert quality["n_pairs"] > 0
    assert all(error > 0 for error in quality["within"].values())


def test_a_test_key_is_shown_wherever_the_view_is(folder):
    for name in ("a", "b"):
        assert "NOT PRIVATE" in run(*BUILD, "--test-key", "k", "-o", f"{name}.pview", cwd=folder).stdout
    run(*BUILD, "-o", "c.pview", cwd=folder)
    first, same, other = ((folder / f"{name}.pview").read_bytes() for name in "abc")
    assert first == same
    assert other != (folder / "people.pview").read_bytes()
    assert "NOT PRIVATE" in run("info", "a.pview", cwd=folder).stdout
    assert "NOT PRIVATE" in run("query", "a.pview", "SELECT COUNT(*) FROM view", cwd=folder).stderr


def test_columns_that_cannot_be_read_are_left_out_of_drafts(tmp_path):
    odd = {"age": [30, 40], "list": [[1], [2]], "raw": [b"a", b"b"], "place": [{"x": 1}, {"x": 2}]}
    pq.write_table(pa.table(odd), tmp_path / "odd.parquet")
    text = run("schema", "draft", "odd.parquet", cwd=tmp_path).stdout
    assert list(tomllib.loads(text)["attributes"]) == ["age"]
    assert all(f"# {name} is left out" in text for name in ("list", "raw", "place"))
    run("schema", "draft", "odd.parquet", "--from-data-not-private", "-o", "odd.toml", cwd=tmp_path)
    assert run("schema", "check", "odd.toml", "odd.parquet", cwd=tmp_path).returncode == 0


def test_schema_drawn_from_data_is_marked_down_to_the_view(folder):
    run("schema", "draft", "people.csv", "--from-data-not-private", "-o", "drawn.toml", cwd=folder)
    assert "NOT PRIVATE" in run("schema", "check", "drawn.toml", "people.csv", cwd=folder).stdout
    done = run("build", "people.csv", "-s", "drawn.toml", "-e", "1", "-o", "drawn.pview", cwd=folder)
    assert "NOT PRIVATE" in done.stdout, done.stderr


BUILD_PEOPLE = "build people.csv -s people.toml -e 1 -o"
REFUSED = {
    # files in the place of a command
    "people.csv": "hdpview schema draft people.csv",
    "schema people.toml": "hdpview schema check people.toml",
    "people.pview": "hdpview explore people.pview",
    # misspelt options and wrong values
    "buidl": "Did you mean 'build'? See: ",
    "info people.pview --crad": "No such option: --crad (Possible options: --card). See: ",
    "sample people.pview": "Missing option '-n'",
    "estimate -s people.toml --rows some": "it should be a valid integer",
    "explore people.pview --host 0.0.0.0": "needs an access token",
    # drafts
    "schema check draft.toml": "a ? stands in line",
    "schema draft people.csv -o people.toml": "a draft does not replace it",
    "schema draft people.csv -o people.csv": "a draft does not replace it",
    "schema draft people.csv -o people.yaml": "Write 'people.toml' instead",
    "schema draft people.csv -o people.toml/x.toml": "The folder of 'people.toml/x.toml' does not exist",
    "schema draft people.csv --learn-bounds-epsilon 0.5 --columns agee": "Did you mean 'age'",
    "schema draft nothing.parquet --learn-bounds-epsilon 0.5": "There is no file",
    "schema draft people.csv --learn-delta 1e-9": "--learn-bounds-epsilon",
    "schema draft people.csv --from-data-not-private --learn-bounds-epsilon 1": "Give one",
    "schema import people.toml": "hdpview schema check people.toml",
    # builds
    "build nothing.csv -s people.toml -e 1 -o bad.pview": "nothing.csv",
    "build people.csv -s people.toml -e 0 -o bad.pview": "positive number",
    "build people.csv -s people.toml -e nan -o bad.pview": "positive number",
    f"{BUILD_PEOPLE} bad.pview --method hdpviw": "Did you mean 'hdpview'?",
    f"{BUILD_PEOPLE} bad.pview --engine lokal": "Did you mean 'local'?",
    f"{BUILD_PEOPLE} bad.pview --memory-limit lots": "such as '4GB'",
    f"{BUILD_PEOPLE} nowhere/x.pview": "does not exist",
    f"{BUILD_PEOPLE} {'x' * 300}.pview": "File name too long",
    f"{BUILD_PEOPLE} people.csv": "is not a view",
    f"{BUILD_PEOPLE} people.toml": "is not a view",
    f"{BUILD_PEOPLE} .": "is not a view",
    f"{BUILD_PEOPLE} people.pview": "already exists",
    "build people.csv -s nothing.toml -e 1 -o bad.pview": "Cannot read the schema",
    # views: what they cannot answer, files that are none, and views that were paid for
    "query people.pview 'SELECT COUNT(*) FROM view WHERE agee > 3'": "Did you mean 'age'?",
    "query people.pview 'SELECT COUNT(*) FROM view WHERE Alter > 3'": 'write "Alter" in double quotes',
    "wishes people.pview --where 'Comment IS NULL' --within 5": 'write "Comment" in double quotes',
    "info people.csv": "people.csv",
    "info cut.pview": "cut.pview",
    "info missing.pview": "missing.pview",
    "info people.pview --card -o people.pview": "it is a view",
    "publish people.pview -o people.pview": "it is a view",
    "publish people.pview -o nowhere/x.html": "No such file",
    "sample people.pview -n 3 -o nowhere/x.csv": "No such file",
    "sample people.pview -n 3 -o x.xlsx": "Use .csv or .parquet",
    "plot people.pview member -o folder.png": "Is a directory",
    "estimate -s people.toml --rows 9 -e 1 --plan people.pview": "it is a view",
    "estimate -s people.toml --rows 9 -e 1 --delta 1e-6 --method hdpview": "cannot use a delta",
    "estimate -s people.toml --rows 9 --error 0": "a number of records above 0",
    "wishes copy.pview": "Add one with --where and --within",
    "merge people.pview copy.pview --overlapping -o people.pview": "already exists",
    "demo -d people.csv/demo": "people.csv",
    # ledgers: a misspelt path must not become the name of a table
    "ledger limit peeple.csv 3": "There is no file 'peeple.csv'",
    "ledger show peeple.csv": "There is no file 'peeple.csv'",
    "ledger show peeple": "Did you mean 'people'?",
    "ledger limit people.csv 0.5": "its limit cannot be 0.5",
}


@pytest.mark.parametrize("words", REFUSED)
def test_wrong_input_is_refused_in_a_sentence_and_leaves_nothing(folder, words, monkeypatch, capsys):
    view = (folder / "people.pview").read_bytes()
    (folder / "folder.png").mkdir(exist_ok=True)
    (folder / "draft.toml").write_text("[attributes]\nage = { type = 'integer', min = ?, max = 90 }")
    (folder / "cut.pview").write_bytes(view[:-20])
    (folder / "copy.pview").write_bytes(view)
    before = contents(folder)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["hdpview", *shlex.split(words)])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().err
    assert (ended.value.code, REFUSED[words] in said, "Traceback" in said) == (2, True, False), said
    assert contents(folder) == before


def test_interrupting_a_build_leaves_nothing_behind(tmp_path):
    """Ctrl-C arrives while rows are being read."""
    write_people(tmp_path / "people.csv")
    (tmp_path / "people.toml").write_text(SCHEMA)
    (tmp_path / "spill").mkdir()
    program = (
        "import os, signal, sys, hdpview.progress as progress\n"
        "right = progress.in_background\n"
        "def interrupted(work, report, stop):\n"
        "    assert os.listdir('spill')\n"
        "    return right(work, lambda: os.kill(os.getpid(), signal.SIGINT), stop)\n"
        "progress.in_background = interrupted\n"
        "from hdpview.cli.main import main\n"
        "sys.argv[0] = 'hdpview'\n"
        "main()\n"
    )
    command = [sys.executable, "-c", program, *BUILD, "-o", "x.pview"]
    environment = {**os.environ, "TMPDIR": str(tmp_path / "spill")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 130, done.stderr
    assert "Nothing was written" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["people.csv", "people.toml", "spill"]
    assert not list((tmp_path / "spill").glob("hdpview-*"))


def test_without_the_bench_package_its_commands_say_how_to_get_it(monkeypatch):
    listed = CliRunner().invoke(app, ["--help"]).stdout
    assert "│ audit " in listed
    assert "│ bench " in listed
    monkeypatch.setitem(main.__globals__, "entry_points", lambda group: ())
    for words in (["bench", "--help"], ["bench", "accuracy"], ["bench"], ["audit", "--epsilon", "1"]):
        done = CliRunner().invoke(app, words)
        assert isinstance(done.exception, HdpviewError)
        assert "pip install ./bench" in str(done.exception)
        assert not done.stdout
    listed = CliRunner().invoke(app, ["--help"])
    assert listed.exit_code == 0
    assert "audit" not in listed.stdout
    assert "bench" not in listed.stdout
