"""The curator's path on the command line, from a raw file to a published page."""

import json
import random
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest
from people import write_people

from clinic import write_clinic
from command_line import run
from hdpview.build import build
from hdpview.cli import build_command
from hdpview.counts.draft import draft_schema
from hdpview.counts.losses import SchemaWarning
from hdpview.domain import Schema
from hdpview.errors import LossError
from hdpview.privacy.ledger import Ledger
from published_text import text_of

N_ROWS = 1_500


@dataclass(frozen=True)
class Table:
    """A file and what its curator knows of it. known: answers to the draft's questions, by column; mistaken:
    answers given first; complaint: what must be said about them before anything is paid."""

    lines: list[str]
    known: Mapping[str, str]
    mistaken: Mapping[str, str]
    complaint: str
    encoding: str = "utf-8"
    unit: list[str] = field(default_factory=list)
    secret: str = "no such text"  # stands in rows only


def _visits() -> Table:
    rng = random.Random(1)
    lines = ["Patient_id;age;sex;admitted;cost"]
    for i in range(N_ROWS):
        cost = f"{rng.randint(100, 9_999):,}".replace(",", ".") + ",50"
        day = f"{rng.randint(1, 28):02}.{rng.randint(1, 12):02}.{rng.randint(2020, 2023)}"
        lines.append(f"QX{i // 2:05};{rng.choice([*range(18, 95), 'n/a'])};{rng.choice('wm')};{day};{cost}")
    return Table(
        lines,
        {
            "admitted": 'min = 2020-01-01, max = 2023-12-31, every = "1mo"',
            "cost": "min = 0, max = 10000, bins = 20",
        },
        {"cost": "min = 0, max = 1000, bins = 20"},
        r"cost: (many|nearly all) values lie above max = 1,000",
        unit=["--privacy-unit", "Patient_id", "--max-rows", "2"],
        secret="QX00",
    )


def _orders() -> Table:
    rng = random.Random(2)
    lines = ["amount\tchannel\tpaid"]
    for _ in range(N_ROWS):
        amount = rng.randint(-200, 900)
        shown = f"(${-amount}.00)" if amount < 0 else f"${amount}.00"
        lines.append(f"{shown}\t{rng.choice(['Web', 'Store', 'Phone'])}\t{rng.choice(['yes', 'no', ''])}")
    return Table(
        lines,
        {"amount": "min = -200, max = 1000, every = 50", "channel": 'values = ["Web", "Store", "Phone"]'},
        {"channel": 'values = ["web", "store", "phone"]'},
        r"channel: nearly all values match no declared value.*(case|Aa)",
        encoding="utf-16",
    )


def _meters() -> Table:
    rng = random.Random(3)
    lines = ["region,load,valid"]
    lines += [f"{rng.choice('NESW')},{rng.gauss(50, 12):.1f},{rng.choice([0, 1])}" for _ in range(N_ROWS)]
    return Table(
        lines,
        {
            "region": 'values = ["N", "E", "S", "W"]',
            "load": "min = 0, max = 100, bins = 25",
            "valid": "min = 0, max = 1",
        },
        {"load": "min = 0, max = 40, bins = 10"},
        r"load: (many|nearly all) values lie above max = 40",
    )


@pytest.mark.usefixtures("same_noise")
@pytest.mark.parametrize("table", [_visits(), _orders(), _meters()], ids=["visits", "orders", "meters"])
def test_from_a_messy_file_to_a_published_page(table, tmp_path):
    (tmp_path / "table.csv").write_text("\n".join(table.lines) + "\n", encoding=table.encoding)
    drafted = run("schema", "draft", "table.csv", "-o", "table.toml", cwd=tmp_path)
    assert (drafted.returncode, "schema check table.toml table.csv" in drafted.stderr) == (0, True)
    draft = (tmp_path / "table.toml").read_text("utf-8")

    def fill(answers: Mapping[str, str]) -> None:
        text = draft
        for name, answer in answers.items():
            pattern = rf'(?m)^({name} = {{ type = "\w+"), .*\?.*$'
            text = re.sub(pattern, lambda line, a=answer: f"{line[1]}, {a} }}", text)
        (tmp_path / "table.toml").write_text(text, "utf-8")

    fill({**table.known, **table.mistaken})
    checked = run("schema", "check", "table.toml", "table.csv", *table.unit, cwd=tmp_path)
    assert checked.returncode == 1, checked.stdout + checked.stderr
    assert re.search(table.complaint, checked.stdout), checked.stdout
    assert run("ledger", "limit", "table.csv", "1.5", cwd=tmp_path).returncode == 0
    build = ["build", "table.csv", "-s", "table.toml", "-e", "1", *table.unit, "-o"]
    refused = run(*build, "table.pview", cwd=tmp_path)
    assert (refused.returncode, "Nothing was spent" in refused.stderr) == (2, True)

    fill(table.known)
    assert run("schema", "check", "table.toml", "table.csv", *table.unit, cwd=tmp_path).returncode == 0
    built = run(*build, "table.pview", cwd=tmp_path)
    assert built.returncode == 0, built.stderr
    assert re.search(r"Risk: .* 73\.1% sure", built.stderr)
    assert "charges epsilon 1 to 'table'; 0 spent so far, 1.5 of 1.5 left. Ledger: " in built.stderr
    assert "Budget: epsilon 1 spent on 'table' in total, 0.5 of 1.5 left. Ledger: " in built.stderr
    assert "Warning: " not in built.stdout + built.stderr, built.stdout + built.stderr
    ledger = Ledger(tmp_path / "hdpview-ledger.sqlite")
    assert [float(charge.epsilon) for charge in ledger.charges("table")] == [1.0]
    assert "0.5 of 1.5. Spend at most that" in run(*build, "again.pview", cwd=tmp_path).stderr
    unrecorded = run(*build, "again.pview", "--no-ledger", cwd=tmp_path)
    assert "Budget: this build of epsilon 1 is not recorded in a ledger." in unrecorded.stderr

    card = run("info", "table.pview", "--card", cwd=tmp_path).stdout
    assert "epsilon 1:" in card
    assert (f"'{table.unit[1]}'" if table.unit else "each record") in card
    published = run("publish", "table.pview", "-o", "page.html", cwd=tmp_path)
    page = text_of((tmp_path / "page.html").read_text("utf-8"))
    assert published.returncode == 0
    assert all(name in page for name in table.known)
    assert table.secret not in page


@pytest.fixture
def clinic(tmp_path: Path) -> Path:
    write_clinic(tmp_path / "clinic.csv")
    return tmp_path / "clinic.csv"


def test_a_draft_has_a_line_per_column_and_tells_no_value(clinic):
    text = draft_schema(clinic)
    lines = text.splitlines()
    assert len(lines) < 60
    assert sum(line.startswith("Code") for line in lines) == 27
    source = tomllib.loads(text.replace("?,", "0,").replace("? }", "0 }").replace("[?]", '["x"]'))["source"]
    told = [source[key] for key in ("separator", "decimal", "thousands", "encoding", "dates")]
    assert told == [";", ",", ".", "cp1252", ["%d.%m.%Y"]]
    for name, entry in {
        "age": 'type = "integer", bins = "age"', "Anteil_percent": 'type = "integer", bins = "percent"',
        "Altersgruppe": 'type = "category", values = [?], other = "other"',
        '"Größe"': 'type = "real", min = ?, max = ?, bins = 100',
        "Kosten": 'type = "real", min = ?, max = ?, bins = 100',
        "Aufnahme": 'type = "datetime", min = ?, max = ?, every = "1mo"',
        "Tage": 'type = "integer", min = ?, max = ?', "Notfall": 'type = "boolean"',
    }.items():  # fmt: skip
        assert f"{name} = {{ {entry} }}" in lines, text
    assert any(line.startswith("# Patient_id = ") and "--privacy-unit Patient_id" in line for line in lines)
    assert "They show the format only, not the values" in text
    assert not re.search(r"Chirurgie|Innere|2019|2023|428", text)


def test_losses_stop_a_build_until_they_are_accepted(clinic, monkeypatch):
    source = '[source]\nseparator = ";"\nencoding = "cp1252"\nmissing = ["?"]\n'
    bands = '[attributes.Altersgruppe]\ntype = "integer"\nmin = 0\nmax = 100\nmissing = 0\n'
    folder = clinic.parent
    (folder / "s.toml").write_text(source + bands)
    before = sorted(folder.iterdir())
    checked = run("schema", "check", "s.toml", "clinic.csv", "--format", "json", cwd=folder)
    assert [warning["is_blocking"] for warning in json.loads(checked.stdout)["warnings"]] == [True]
    words = ["build", "clinic.csv", "-s", "s.toml", "-e", "1", "--method", "hdpview", "-o", "v.pview"]
    refused = run(*words, cwd=folder)
    assert (refused.returncode, sorted(folder.iterdir())) == (2, before)
    assert re.search("Nothing was spent.*--accept-losses", refused.stderr, re.DOTALL)
    asked: list[int] = []

    def decline(losses: Sequence[SchemaWarning]) -> bool:
        asked.append(len(losses))
        return False

    with pytest.raises(LossError):
        build(clinic, Schema.load(folder / "s.toml"), 1, accept_losses=decline)
    assert asked == [1]
    # On a terminal the command asks.
    questions: list[str] = []
    terminal = SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True))
    with monkeypatch.context() as patched:
        patched.setattr(build_command, "sys", terminal)
        patched.setattr(build_command.typer, "confirm", lambda text, **_: questions.append(text) is None)
        confirmed = run(*words, "--test-key", "k", cwd=folder)
    assert (confirmed.returncode, questions) == (0, ["Nothing was spent. Build anyway?"])
    accepted = run(*words, "--force", "--accept-losses", "--test-key", "k", cwd=folder)
    assert accepted.returncode == 0, accepted.stderr
    assert "Warning: Altersgruppe: 100% of records are counted as '0'" in accepted.stdout


def test_import_writes_a_schema_and_check_reads_it(tmp_path):
    write_people(tmp_path / "people.csv")
    ddl = (
        "CREATE TABLE people (age int CHECK (age BETWEEN 17 AND 90), education text CHECK (education IN "
        "('School', 'Bachelor', 'Master', 'Doctorate', 'Diploma')))"
    )
    (tmp_path / "people.sql").write_text(ddl)
    done = run("schema", "import", "people.sql", "-o", "people.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Review it; then run: hdpview schema check people.toml" in done.stderr
    assert run("schema", "check", "people.toml", "people.csv", cwd=tmp_path).returncode == 0
    again = run("schema", "import", "people.sql", "-o", "people.toml", cwd=tmp_path)
    assert (again.returncode, "a draft does not replace it" in again.stderr) == (2, True)
