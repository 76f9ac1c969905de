"""Drafts of text files: what the first lines show for certain, and what a person is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hdpview.counts.draft import draft_schema
from hdpview.counts.guess import Guess, guess_format


def guess(folder: Path, fields: list[str], separator: str = ",", name: str = "x") -> Guess:
    """What is guessed of a file of one column of these fields beside another one."""
    sign = separator
    lines = [f"{name}{sign}other", *(f'"{each}"{sign}a{i % 3}' for i, each in enumerate(fields))]
    (folder / "t.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return guess_format(folder / "t.csv")


KINDS: list[tuple[list[str], str, str, str, dict[str, Any]]] = [
    (["1", "25", "300"], ",", "x", "integer", {}),
    (["1.5", "25.25"], ",", "x", "real", {}),
    (["1,5", "25,25"], ";", "x", "real", {"decimal": ","}),
    (["1.234,5", "25,25"], ";", "x", "real", {"decimal": ",", "thousands": "."}),
    (["1,234.50", "25.25"], ",", "x", "real", {"thousands": ","}),
    (["1,234,567", "25"], ",", "x", "integer", {"thousands": ","}),
    (["966 038,30", "12,10"], ";", "x", "real", {"decimal": ",", "thousands": " "}),
    (["494'225.93", "12.10"], ",", "x", "real", {"thousands": "'"}),
    (["(468.00)", "12.10"], ",", "x", "real", {"negative": "parentheses"}),
    (["$9,999.99", "$5.00"], ",", "x", "real", {"strip": ("$",), "thousands": ","}),
    (["99%", "5%"], ",", "x", "integer", {"strip": ("%",)}),
    (["€ 9 999.99", "€ 5.00"], ",", "x", "real", {"strip": ("€",), "thousands": " "}),
    (["3 days", "12 days"], ",", "x", "integer", {"strip": ("days",)}),
    (["3 days", "12 h"], ",", "x", "category", {}),
    (["007", "012"], ",", "x", "category", {}),
    (["yes", "no"], ",", "x", "boolean", {}),
    (["yes", "yes"], ",", "x", "category", {}),
    (["31.12.2020", "01.02.2021"], ",", "x", "datetime", {"dates": ("%d.%m.%Y",)}),
    (["12/31/2020", "01/02/2021"], ",", "x", "datetime", {"dates": ("%m/%d/%Y",)}),
    (["31-Dec-20", "01-Feb-21"], ",", "x", "datetime", {"dates": ("%d-%b-%y",)}),
    (["2020-12-31", "2021-02-01"], ",", "x", "datetime", {}),
    (["1600000000", "1600000001"], ",", "created_at", "datetime", {"epoch": "s"}),
    (["1600000000000", "1600000000001"], ",", "timestamp", "datetime", {"epoch": "ms"}),
    (["1600000000", "1600000001"], ",", "x", "integer", {}),
]


@pytest.mark.parametrize(("fields", "separator", "name", "kind", "text"), KINDS, ids=str)
def test_what_is_certain_is_guessed(
    tmp_path: Path, fields: list[str], separator: str, name: str, kind: str, text: dict[str, Any]
) -> None:
    """Types and signs, and no question."""
    guessed = guess(tmp_path, fields, separator, name)
    assert guessed.kinds[name] == kind
    assert {key: getattr(guessed.text, key) for key in text} == text
    unsaid = {"decimal": ".", "thousands": None, "strip": (), "dates": (), "epoch": None, "negative": "-"}
    assert all(getattr(guessed.text, key) == value for key, value in unsaid.items() if key not in text)
    assert guessed.questions == {}


@pytest.mark.parametrize(
    ("fields", "separator", "key"),
    [
        (["5.500", "1.250"], ";", "decimal"),
        (["191,153", "204,000"], ",", "decimal"),
        (["01/02/2024", "03/04/2024"], ",", "dates"),
        (["01-02-03", "04-05-06"], ",", "dates"),
    ],
)
def test_two_readings_are_a_question(tmp_path: Path, fields: list[str], separator: str, key: str) -> None:
    """The draft has a ? that has to be answered, and shows no value."""
    assert list(guess(tmp_path, fields, separator).questions) == [key]
    draft = draft_schema(tmp_path / "t.csv")
    (line,) = [line for line in draft.splitlines() if line.startswith(f"{key} = ")]
    assert "?" in line
    assert not any(field in draft for field in fields)


def test_later_lines_decide_between_day_and_month(tmp_path: Path) -> None:
    """A day above 12 far below the first lines."""
    fields = ["01/02/2024"] * 500 + ["01/31/2024"] * 20
    guessed = guess(tmp_path, fields)
    assert guessed.text.dates == ("%m/%d/%Y",)
    assert guessed.questions == {}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_encodings_are_found(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "t.csv").write_bytes("größe,ort\n1,Köln\n2,Bonn\n".encode(encoding))
    guessed = guess_format(tmp_path / "t.csv")
    assert guessed.kinds == {"größe": "integer", "ort": "category"}


@pytest.mark.parametrize("name", ["VIN", "Patient ID", "customerId", "email", "case_no", "surname", "code"])
def test_identifiers_are_left_out(tmp_path: Path, name: str) -> None:
    """By their names, or because all first values differ."""
    guess(tmp_path, [f"Q{i * 37}" for i in range(60)], name=name)
    assert "left out: " in draft_schema(tmp_path / "t.csv")


def test_lines_of_json_have_types(tmp_path: Path) -> None:
    records = [{"age": 20 + i, "born": "2001-05-01", "ill": i % 2 == 0, "city": "Rome"} for i in range(5)]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, records)))
    kinds = guess_format(tmp_path / "t.jsonl").kinds
    assert kinds == {"age": "integer", "born": "datetime", "ill": "boolean", "city": "category"}
