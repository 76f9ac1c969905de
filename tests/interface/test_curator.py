"""The curator's path: from a raw export of 40 columns to a view, and each silent mistake caught."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import jsonschema
import pytest
from people import write_people

from clinic import write_clinic
from command_line import run
from hdpview import preview
from hdpview.counts.draft import draft_schema
from hdpview.domain import Schema
from hdpview.errors import DataError

PEOPLE = """
[attributes.age]
type = "integer"
bins = "age"
missing = 17
[attributes.education]
type = "category"
values = ["School", "Bachelor", "Master", "Doctorate"]
other = "other"
"""


@pytest.fixture
def clinic(tmp_path: Path) -> Path:
    """The raw export, in a folder of its own."""
    write_clinic(tmp_path / "clinic.csv")
    return tmp_path / "clinic.csv"


def test_a_draft_has_a_line_per_column_and_tells_no_value(clinic: Path) -> None:
    """Types, signs, encoding and dates are found by format; ages and percentages need nothing more;
    identifiers stay out; no value or bound of the table is in it.
    """
    text = draft_schema(clinic)
    lines = text.splitlines()
    assert len(lines) < 60
    assert sum(line.startswith("Code") for line in lines) == 27
    source = tomllib.loads(text.replace("?,", "0,").replace("? }", "0 }").replace("[?]", '["x"]'))["source"]
    assert (source["separator"], source["decimal"], source["thousands"]) == (";", ",", ".")
    assert (source["encoding"], source["dates"]) == ("cp1252", ["%d.%m.%Y"])
    for line in (
        'age = { type = "integer", bins = "age" }',
        'Anteil_percent = { type = "integer", bins = "percent" }',
        'Altersgruppe = { type = "category", values = [?], other = "other" }',
        '"Größe" = { type = "real", min = ?, max = ?, bins = 100 }',
        'Kosten = { type = "real", min = ?, max = ?, bins = 100 }',
        'Aufnahme = { type = "datetime", min = ?, max = ?, every = "1mo" }',
        'Tage = { type = "integer", min = ?, max = ? }',
        'Notfall = { type = "boolean" }',
    ):
        assert line in lines, text
    assert any(line.startswith("# Patient_id = ") and "--privacy-unit Patient_id" in line for line in lines)
    assert "They show the format only, not the values" in text
    assert not re.search(r"Chirurgie|Innere|2019|2023|428", text)


def test_columns_are_chosen_by_name(clinic: Path) -> None:
    """--columns and --exclude choose; an unknown name is suggested."""
    text = draft_schema(clinic, columns=["age", "Tage", "Notfall"], exclude=["Tage"])
    assert [line.split(" =")[0] for line in text.split("[attributes]\n")[1].splitlines()] == [
        "age",
        "Notfall",
    ]
    with pytest.raises(DataError, match="Did you mean 'Tage'"):
        draft_schema(clinic, columns=["Tag"])


def test_from_a_raw_export_to_a_view(clinic: Path) -> None:
    """Draft, fill in, check, build: the schema has under 60 lines, editors accept it, and nothing is left to
    say.
    """
    folder = clinic.parent
    assert run("schema", "draft", "clinic.csv", "-o", "clinic.toml", cwd=folder).returncode == 0
    refused = run("schema", "check", "clinic.toml", cwd=folder)
    assert refused.returncode == 2
    assert "a ? stands in lines" in refused.stderr
    text = (folder / "clinic.toml").read_text()
    answers = {
        "Altersgruppe": 'values = ["[0-10)", "[10-20)", "[50-60)", "[70-80)", "[80-90)"], ordered = true',
        "Geschlecht": 'values = ["w", "m"]',
        "Größe": "min = 100, max = 220, every = 5",
        "Kosten": 'min = 0, max = 100000, bins = "log"',
        "Aufnahme": 'min = 2019-01-01, max = 2023-12-31, every = "1mo"',
        "Tage": "min = 1, max = 60",
        "Diagnose": 'values = ["410", "428", "486", "250.6"], other = "other"',
        "Fachrichtung": 'values = ["Chirurgie", "Innere", "Gynäkologie", "HNO"], other = "other"',
        **{f"Code{i:02d}": 'values = "@abc"' for i in range(27)},
    }
    for name, answer in answers.items():
        key = name if name.isascii() else f'"{name}"'
        text = re.sub(
            rf'(?m)^({key} = {{ type = "\w+"), .*(\?|\]).*}}.*$',
            lambda line, a=answer: f"{line[1]}, {a} }}",
            text,
        )
    text = text.replace("[attributes]", '[lists]\nabc = ["A", "B", "C"]\n[attributes]')
    (folder / "clinic.toml").write_text(text)
    schema = Schema.load(folder / "clinic.toml")
    assert len(schema) == 38
    assert len(text.splitlines()) < 60
    described = json.loads(run("schema", "json-schema", cwd=folder).stdout)
    jsonschema.validate(json.loads(json.dumps(tomllib.loads(text), default=str)), described)
    checked = run("schema", "check", "clinic.toml", "clinic.csv", cwd=folder)
    assert checked.returncode == 0
    assert "The schema is valid: 38 attributes" in checked.stdout
    words = ["build", "clinic.csv", "-s", "clinic.toml", "-e", "1", "--method", "hdpview", "--test-key", "k"]
    done = run(*words, "-o", "clinic.pview", cwd=folder)
    assert done.returncode == 0, done.stderr


MISTAKES = {
    "age bands declared as numbers": (
        '[attributes.Altersgruppe]\ntype = "integer"\nmin = 0\nmax = 100\nmissing = 0',
        r"nearly all values are unreadable as integer, shape '\[99-99\)', and would be counted as '0'",
    ),
    "German dates": (
        ('[attributes.Aufnahme]\ntype = "datetime"\nmin = 2019-01-01\nmax = 2023-12-31\nevery = '
        '"1mo"\nnullable = true'),
        r"nearly all values are unreadable as datetime, shape '99\.99\.9999', .* as '\(missing\)'.*dates = ",
    ),
    "decimal commas": (
        '[attributes."Größe"]\ntype = "real"\nmin = 0\nmax = 200\nbins = 10\nnullable = true',
        r"nearly all values are unreadable as real, shape '999,9'.*\[source\]: decimal",
    ),
    "other words for the same categories": (
        '[attributes.Geschlecht]\ntype = "category"\nvalues = ["female", "male"]\nother = "other"',
        r"nearly all values match no declared value, shape 'a', and would be counted as 'other'",
    ),
    "words that are no truth": (
        '[attributes.Fachrichtung]\ntype = "boolean"\nnullable = true',
        r"nearly all values are unreadable as boolean, shape 'Aa+'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MISTAKES)
def test_silent_mistakes_are_refused_before_anything_is_spent(clinic: Path, case: str) -> None:
    """A column that cannot be read at all stops a build that nobody can answer for, in words without a value;
    check says the same; --accept-losses goes on.
    """
    fields, message = MISTAKES[case]
    source = '[source]\nseparator = ";"\nencoding = "cp1252"\nmissing = ["?"]\n'
    (clinic.parent / "s.toml").write_text(source + fields + "\n")
    (warning,) = preview(clinic, Schema.load(clinic.parent / "s.toml"))
    assert warning.is_blocking
    assert re.search(message, warning.sentence), warning.sentence
    assert not re.search(
        r"Chirurgie|70|2019|2023", warning.sentence.replace("2019-01-01", "").replace("2023-12-31", "")
    )


def test_builds_ask_or_need_losses_to_be_accepted(clinic: Path) -> None:
    """Where nobody sits at the terminal, a build that cannot read a column is refused with exit code 2 and
    spends nothing; --accept-losses builds it, and the diagnosis says what came of it.
    """
    folder = clinic.parent
    source = '[source]\nseparator = ";"\nencoding = "cp1252"\nmissing = ["?"]\n'
    (folder / "s.toml").write_text(source + MISTAKES["age bands declared as numbers"][0] + "\n")
    before = sorted(path.name for path in folder.iterdir())
    words = ["build", "clinic.csv", "-s", "s.toml", "-e", "1", "--method", "hdpview", "-o", "v.pview"]
    done = run(*words, cwd=folder)
    assert done.returncode == 2
    assert "Nothing was spent" in done.stderr
    assert "--accept-losses" in done.stderr
    assert sorted(path.name for path in folder.iterdir()) == before
    checked = json.loads(
        run("schema", "check", "s.toml", "clinic.csv", "--format", "json", cwd=folder).stdout
    )
    assert [warning["is_blocking"] for warning in checked["warnings"]] == [True]
    done = run(*words, "--accept-losses", "--test-key", "k", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert (
        "Look: Altersgruppe: 100% of records are counted as '0', where missing and unreadable ones go"
        in done.stdout
    )


def test_every_build_says_what_is_charged_and_what_is_left(tmp_path: Path) -> None:
    """One line at the start and one at the end: the charge, what was spent, what is left, and the ledger's
    file."""
    write_people(tmp_path / "people.csv")
    (tmp_path / "s.toml").write_text(PEOPLE)
    words = ["build", "people.csv", "-s", "s.toml", "-e", "0.5", "--method", "hdpview"]
    first = run(*words, "-o", "one.pview", cwd=tmp_path)
    assert (
        "Budget: this build charges epsilon 0.5 to 'people'; 0 spent so far, no limit is set." in first.stderr
    )
    assert "Budget: epsilon 0.5 spent on 'people' in all, no limit is set. Ledger: " in first.stderr
    assert (
        run("ledger", "limit", "people", "1.5", "--ledger", "hdpview-ledger.sqlite", cwd=tmp_path).returncode
        == 0
    )
    second = run(*words, "-o", "two.pview", cwd=tmp_path)
    assert "0.5 spent so far, 1 of 1.5 left. Ledger: " in second.stderr
    assert "Budget: epsilon 1 spent on 'people' in all, 0.5 of 1.5 left." in second.stderr
    third = run(*words, "-o", "three.pview", "--no-ledger", cwd=tmp_path)
    assert "Budget: no ledger is kept of this build of epsilon 0.5." in third.stderr


def test_import_writes_a_schema_and_check_reads_it(tmp_path: Path) -> None:
    """The command writes a draft beside its description, never over a file, and says what comes next."""
    write_people(tmp_path / "people.csv")
    ddl = (
        "CREATE TABLE people (age int CHECK (age BETWEEN 17 AND 90), education text CHECK (education IN "
        "('School', 'Bachelor', 'Master', 'Doctorate', 'Diploma')))"
    )
    (tmp_path / "people.sql").write_text(ddl)
    done = run("schema", "import", "people.sql", "-o", "people.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Look it through; then run: hdpview schema check people.toml" in done.stderr
    assert run("schema", "check", "people.toml", "people.csv", cwd=tmp_path).returncode == 0
    again = run("schema", "import", "people.sql", "-o", "people.toml", cwd=tmp_path)
    assert (again.returncode, "is there already" in again.stderr) == (2, True)
