"""Drafts of text files: facts that the first lines prove, and questions for a person."""

import json
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from hdpview.counts.draft import draft_of, draft_schema
from hdpview.counts.guess import USUAL_MARKS, guessed_draft
from hdpview.domain import TextFormat
from hdpview.domain.drafting import Draft
from hdpview.errors import DataError


def guess(folder: Path, fields: list[str], separator: str = ",", name: str = "x") -> Draft:
    sign = separator
    lines = [f"{name}{sign}other", *(f'"{each}"{sign}a{i % 3}' for i, each in enumerate(fields))]
    (folder / "t.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return guessed_draft(folder / "t.csv")


SEPARATORS = {",": None, ";": ";"}  # as guessed, by the file's


def kinds(draft: Draft) -> dict[str, str | None]:
    return {column.name: column.kind for column in draft.columns}


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
    (["3 days", "12 days"], ",", "delivery_time", "integer", {"strip": ("days",)}),
    (["3 days", "12 h"], ",", "x", "category", {}),
    (["007", "012"], ",", "x", "category", {}),
    (["yes", "no"], ",", "x", "boolean", {}),
    (["yes", "yes"], ",", "x", "category", {}),
    (["31.12.2020", "01.02.2021"], ",", "x", "datetime", {"dates": ("%d.%m.%Y",)}),
    (["12/31/2020", "01/02/2021"], ",", "x", "datetime", {"dates": ("%m/%d/%Y",)}),
    (["31-Dec-20", "01-Feb-21"], ",", "x", "datetime", {"dates": ("%d-%b-%y",)}),
    (["2020-12-31", "2021-02-01"], ",", "x", "datetime", {}),
    (["2020-12-31", "31.12.2020"], ",", "x", "datetime", {"dates": ("%d.%m.%Y",)}),
    (["0.5", "#DIV/0!", "0.7"], ",", "x", "real", {}),
    (["1600000000", "1600000001"], ",", "created_at", "datetime", {"epoch": "s"}),
    (["1600000000000", "1600000000001"], ",", "timestamp", "datetime", {"epoch": "ms"}),
    (["1600000000000", "1600000000001"], ",", "booked_ms", "datetime", {"epoch": "ms"}),
    (["1600000000", "1600000001"], ",", "x", "integer", {}),
    (["20221231", "20230201"], ",", "x", "datetime", {"dates": ("%Y%m%d",)}),
    (["123456", "20230101"], ",", "x", "integer", {}),
]


@pytest.mark.parametrize(("fields", "separator", "name", "kind", "text"), KINDS, ids=str)
def test_what_is_certain_is_guessed(tmp_path, fields, separator, name, kind, text):
    draft = guess(tmp_path, fields, separator, name)
    assert kinds(draft)[name] == kind
    assert draft.source == TextFormat(**text, separator=SEPARATORS[separator], missing=USUAL_MARKS)
    assert draft.questions == {}


@pytest.mark.parametrize(
    ("fields", "separator", "key"),
    [
        (["5.500", "1.250"], ";", "decimal"), (["191,153", "204,000"], ",", "decimal"),
        (["01/02/2024", "03/04/2024"], ",", "dates"), (["01-02-03", "04-05-06"], ",", "dates"),
    ],
)  # fmt: skip
def test_two_readings_are_a_question(tmp_path, fields, separator, key):
    assert list(guess(tmp_path, fields, separator).questions) == [key]
    draft = draft_schema(tmp_path / "t.csv")
    (line,) = [line for line in draft.splitlines() if line.startswith(f"{key} = ")]
    assert "?" in line
    assert not any(field in draft for field in fields)


def test_later_lines_decide_between_day_and_month(tmp_path):
    fields = ["01/02/2024"] * 500 + ["01/31/2024"] * 20
    draft = guess(tmp_path, fields)
    assert draft.source.dates == ("%m/%d/%Y",)
    assert draft.questions == {}


def test_doubts_are_noted_behind_the_line(tmp_path):
    guess(tmp_path, ["18", "19", "~20", "21", "~34", "44", "~55", "60"], name="age")
    assert "mostly numbers, but some look like '~99'" in draft_schema(tmp_path / "t.csv")
    guess(tmp_path, ["13/05/65", "14/05/99"], name="born")
    assert "two-digit years are read as 1969 to 2068" in draft_schema(tmp_path / "t.csv")


def test_blanks_around_names_of_columns_are_dropped(tmp_path):
    (tmp_path / "t.csv").write_text(" age , city\n20,Rome\n")
    assert list(kinds(guessed_draft(tmp_path / "t.csv"))) == ["age", "city"]


@pytest.mark.parametrize("other", ["size,city\n1,Rome\n", "age;city\n1;Rome\n", "city,age\nRome,1\n"])
def test_files_that_differ_have_no_draft(tmp_path, other):
    (tmp_path / "a.csv").write_text("age,city\n20,Rome\n")
    (tmp_path / "b.csv").write_text(other)
    with pytest.raises(DataError, match="need the same header line"):
        draft_schema(tmp_path)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_encodings_are_found(tmp_path, encoding):
    (tmp_path / "t.csv").write_bytes("größe,ort\n1,Köln\n2,Bonn\n".encode(encoding))
    assert kinds(guessed_draft(tmp_path / "t.csv")) == {"größe": "integer", "ort": "category"}


@pytest.mark.parametrize("name", ["VIN", "Patient ID", "customerId", "email", "case_no", "surname", "code"])
def test_identifiers_are_left_out(tmp_path, name):
    guess(tmp_path, [f"Q{i * 37}" for i in range(60)], name=name)
    assert "left out: " in draft_schema(tmp_path / "t.csv")


def test_dates_in_a_column_of_objects():
    days = [date(2024, 1, 31), None, datetime(2024, 2, 1, 12, 30)]
    frame = pd.DataFrame({"day": pd.Series(days, dtype=object), "code": ["2024-01-31", "a", "b"]})
    assert kinds(draft_of(frame)) == {"day": "datetime", "code": "category"}


def test_lines_of_json_have_types(tmp_path):
    records = [{"age": 20 + i, "born": "2001-05-01", "ill": i % 2 == 0, "city": "Rome"} for i in range(5)]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, records)))
    draft = guessed_draft(tmp_path / "t.jsonl")
    assert kinds(draft) == {"age": "integer", "born": "datetime", "ill": "boolean", "city": "category"}
