"""A scripted visitor goes from a messy file to a published page, and reads only what the commands print."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from command_line import run
from hdpview.privacy.ledger import Ledger

N_ROWS = 1_500


@dataclass(frozen=True)
class Table:
    """A file and what its curator knows of it. known: answers to the draft's questions, by column; mistaken:
    answers given first; complaint: what must be said about them before anything is paid.
    """

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


@pytest.mark.parametrize("table", [_visits(), _orders(), _meters()], ids=["visits", "orders", "meters"])
def test_from_a_messy_file_to_a_published_page(table: Table, tmp_path: Path) -> None:
    """Every mistake is named before it costs anything; a view that is built has nothing left to say; the page
    holds the columns and no row.
    """
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
    assert "Look: " not in built.stdout + built.stderr, built.stdout + built.stderr
    ledger = Ledger(tmp_path / "hdpview-ledger.sqlite")
    assert [float(charge.epsilon) for charge in ledger.charges("table")] == [1.0]
    assert "0.5 of 1.5. Spend at most that" in run(*build, "again.pview", cwd=tmp_path).stderr

    card = run("info", "table.pview", "--card", cwd=tmp_path).stdout
    assert "epsilon 1:" in card
    assert (f"'{table.unit[1]}'" if table.unit else "each record") in card
    published = run("publish", "table.pview", "-o", "page.html", cwd=tmp_path)
    page = (tmp_path / "page.html").read_text("utf-8")
    assert published.returncode == 0
    assert all(name in page for name in table.known)
    assert table.secret not in page
