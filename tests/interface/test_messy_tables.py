"""Messy files, each with the warnings due before anything is paid. Python, the command line and the page give
the same ones, and no column loses more than a fifth without a warning."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import hdpview as hv
from hdpview.cli.main import app
from hdpview.curate.curation import Curation
from hdpview.privacy.ledger import Ledger

N = 400
AGE = 'age = { type = "integer", min = 0, max = 120, nullable = true }'
SEX = 'sex = { type = "category", values = ["F", "M"], nullable = true }'
PAY = 'pay = { type = "real", min = 0, max = 10000, bins = 10, nullable = true }'
DAY = 'day = { type = "datetime", min = 2019-01-01, max = 2024-12-31, every = "1mo", nullable = true }'


def ages(i: int) -> str:
    return str(20 + i % 60)


def sexes(i: int) -> str:
    return "FM"[i % 2]


def table(**columns: Callable[[int], str]) -> str:
    lines = [",".join(columns), *(",".join(make(i) for make in columns.values()) for i in range(N))]
    return "\n".join(lines) + "\n"


def quoted(text: str) -> str:
    return f'"{text}"'


@dataclass(frozen=True)
class Mess:
    """A file, its schema, and what must be said of it.

    says: a pattern per warning that has to be there. stops: whether a build has to be confirmed."""

    text: str | bytes
    attributes: str
    says: tuple[str, ...]
    stops: bool = True
    source: str = ""
    name: str = "table.csv"
    others: dict[str, str] = field(default_factory=dict)


def spoilt(good: Callable[[int], str], bad: Callable[[int], str], per_cent: int) -> Callable[[int], str]:
    return lambda i: bad(i) if i % 100 < per_cent else good(i)


MESSES: dict[str, Mess] = {
    "no rows": Mess("age\n", AGE, ("The table has no rows",)),
    # bounds
    "all above": Mess(table(pay=lambda i: str(50_000 + i)), PAY,
        ("pay: nearly all values lie above max = 10,000",)),
    "all below": Mess(table(age=lambda i: str(-1 - i)), AGE, ("age: nearly all values lie below min = 0",)),
    "a third above": Mess(table(age=spoilt(ages, lambda i: str(900 + i), 33)), AGE,
        ("age: many values lie above max = 120",)),
    "a tenth above": Mess(table(age=spoilt(ages, lambda i: str(900 + i), 10)), AGE,
        ("age: few values lie above max",), stops=False),
    "a tenth below, a tenth unreadable": Mess(
        table(age=lambda i: {0: "-5", 1: "old"}.get(i % 10, ages(i))), AGE,
        ("age: few values lie below", "age: few values are unreadable")),
    "dates beyond": Mess(table(day=lambda i: f"19{i % 90 + 10}-01-01"), DAY,
        ("day: nearly all values lie below min",)),
    # numbers
    "98 per cent unreadable": Mess(table(age=spoilt(ages, lambda i: f"~{ages(i)}", 98)), AGE,
        ("age: nearly all values are unreadable as integer, shape '~99'",)),
    "money": Mess(table(pay=lambda i: f"${i}.50"), PAY,
        (r"pay: nearly all .* unreadable as real, shape '\$999.99'.*strip",)),
    "thousands": Mess(table(pay=lambda i: quoted(f"{1 + i % 9},{100 + i}")), PAY,
        (r"pay: nearly all .*thousands",)),
    "blanks between thousands": Mess(table(pay=lambda i: f"{1 + i % 9} {100 + i}"), PAY,
        ("pay: nearly all .*thousands",)),
    "apostrophes": Mess(table(pay=lambda i: f"{1 + i % 9}'{100 + i}.93"), PAY,
        ("pay: nearly all .*thousands",)),
    "decimal commas": Mess(table(pay=lambda i: quoted(f"{i},5")), PAY,
        (r"pay: nearly all .*\[source\]: decimal",)),
    "parentheses": Mess(table(pay=lambda i: f"({i}.00)"), PAY.replace("min = 0", "min = -1000"),
        ("pay: nearly all .*negative",)),
    "percent signs": Mess(table(pay=lambda i: f"{i % 100}%"), PAY,
        (r"pay: nearly all .*shape '99%'.*strip",)),
    "a unit": Mess(table(age=lambda i: f"{ages(i)} years"), AGE,
        ("age: nearly all .*shape '99 aaaaa'.*strip",)),
    "codes for numbers": Mess(table(age=lambda i: ["low", "high"][i % 2]), AGE,
        ("age: nearly all .*unreadable",)),
    "marks for missing": Mess(table(age=spoilt(ages, lambda i: "NA", 30)), AGE,
        ("age: many values are unreadable as integer, shape 'AA'.*missing",)),
    # dates
    "German dates": Mess(table(day=lambda i: f"{i % 28 + 1:02}.05.2021"), DAY,
        (r"day: nearly all .*shape '99\.99\.9999'.*dates",)),
    "American dates": Mess(table(day=lambda i: f"05/{i % 28 + 1:02}/2021"), DAY,
        ("day: nearly all .*dates",)),
    "seconds since 1970": Mess(table(day=lambda i: str(1_600_000_000 + i)), DAY,
        ("day: nearly all .*epoch",)),
    "no seconds since 1970": Mess(
        table(day=spoilt(lambda i: str(1_600_000_000 + i * 99_999), lambda i: "soon", 30)), DAY,
        ("day: many values are unreadable as datetime, shape 'aaaa'",), source='epoch = "s"'),
    "two-digit years": Mess(table(day=lambda i: f"{i % 28 + 1:02}-05-21"), DAY, ("day: nearly all .*dates",)),
    "births in two digits": Mess(table(day=lambda i: f"{i % 28 + 1:02}-05-65"), DAY,
        ("day: nearly all values lie above max .*read as 1969 to 2068",), source='dates = ["%d-%m-%y"]'),
    "time zones": Mess(table(day=lambda i: f"2021-05-01T{i % 24:02}:00:00+02:00"), DAY,
        ("day: times with a time zone are counted in UTC",), stops=False),
    # categories
    "other letters": Mess(table(sex=lambda i: sexes(i).lower()), SEX,
        ("sex: nearly all values match no declared value, shape 'a'.*letter case",)),
    "blanks around": Mess(table(sex=lambda i: f"{sexes(i)} "), SEX,
        ("sex: nearly all .*without the blanks",)),
    "other words": Mess(table(sex=lambda i: "12"[i % 2]), SEX,
        ("sex: nearly all values match no declared value, shape '9'.*aliases",)),
    "one match in fifty": Mess(table(sex=lambda i: "F" if i % 50 == 0 else "X"), SEX,
        ("sex: nearly all values match no declared value",)),
    "most are other": Mess(table(sex=lambda i: "F" if i % 5 == 0 else "X"), SEX.replace("nullable = true",
        'other = "other"'), ("sex: many .*'other'",)),
    "words for truth": Mess(table(smoker=lambda i: ["ja", "nein"][i % 2]),
        'smoker = { type = "boolean", nullable = true }', ("smoker: nearly all .*boolean",)),
    # columns
    "all empty": Mess(table(age=ages, pay=lambda i: ""), f"{AGE}\n{PAY}", ("pay: all values are empty",),
        stops=False),
    "constant": Mess(table(age=lambda i: "7"), AGE, ("age: all values fall into the same bin",), stops=False),
    "amounts in another notation": Mess(table(pay=lambda i: f"{i} EUR"), PAY,
        ("pay: nearly all values are unreadable as real, .*missing\\.$",)),
    "an identifier": Mess(table(number=lambda i: str(100_000 + 37 * i)),
        'number = { type = "integer", min = 0, max = 999999, every = 1000, nullable = true }',
        ("number: nearly all values differ",), stops=False),
    "a person": Mess(table(surname=lambda i: f"N{i}"),
        'surname = { type = "category", values = ["N0"], nullable = true }',
        ("surname: nearly all .*nearly all values differ", "surname: its name suggests")),
    "missing counted as zero": Mess(table(age=spoilt(ages, lambda i: "", 30), sex=sexes),
        f"{AGE.replace(', nullable = true', '')}\n{SEX}",
        ("age: many values are missing, and would be counted as '0'",)),
    # structure
    "an unclosed quotation mark": Mess(table(age=ages, sex=lambda i: '"F' if i == 20 else sexes(i)),
        f"{AGE}\n{SEX}", ("a quotation mark .* is not closed; nearly all lines",)),
    "short lines": Mess("age,sex\n" + "20\n21,F\n" * N, f"{AGE}\n{SEX}", ("many lines have fewer fields",)),
    "long lines": Mess("age,sex\n" + "20,Smith, John\n21,F\n" * N, f"{AGE}\n{SEX}",
        ("many lines have more fields",)),
    "lines that end in two ways": Mess("age,sex\n" + "20,F\r\n21,M\n" * N, f"{AGE}\n{SEX}",
        ("lines end in different ways",), stops=False),
    "the header named again": Mess(table(age=ages, sex=sexes), f"{AGE}\n{SEX}", ("the first line repeats",),
        stops=False, source='columns = ["age", "sex"]'),
    "UTF-16 with its mark": Mess(table(age=spoilt(ages, lambda i: "alt", 50)).encode("utf-16"), AGE,
        ("age: many values are unreadable",), source='encoding = "utf-16"'),
    "JSON lines": Mess('{"age": "?", "sex": "F"}\n{"age": 20, "sex": "M"}\n' * N, f"{AGE}\n{SEX}",
        ("age: many values are unreadable",), name="table.jsonl"),
    "a BOM and Latin-1": Mess(table(sex=lambda i: ["männlich", "weiblich"][i % 2]).encode("cp1252"), SEX,
        ("sex: nearly all",), source='encoding = "cp1252"'),
}  # fmt: skip


def prepared(folder: Path, mess: Mess) -> tuple[Path, Path]:
    data, schema = folder / mess.name, folder / "s.toml"
    data.write_bytes(mess.text if isinstance(mess.text, bytes) else mess.text.encode())
    source = f"[source]\n{mess.source}\n" if mess.source else ""
    schema.write_text(f"{source}[attributes]\n{mess.attributes}\n", encoding="utf-8")
    return data, schema


@pytest.mark.parametrize("case", MESSES)
def test_losses_are_said_before_anything_is_paid(tmp_path, case):
    mess = MESSES[case]
    data, schema = prepared(tmp_path, mess)
    loaded = hv.Schema.load(schema)
    warnings = hv.preview(str(data), loaded)
    words = "\n".join(map(str, warnings))
    for pattern in mess.says:
        assert re.search(pattern, words), words
    assert any(each.is_blocking for each in warnings) == mess.stops, words
    assert not re.search(r"Smith|John|männlich|N\d|[2-9]\d\.0[1-9]", words)
    run = CliRunner()
    checked = run.invoke(app, ["schema", "check", str(schema), str(data), "--format", "json"])
    assert checked.exit_code == int(mess.stops)
    assert [each["sentence"] for each in json.loads(checked.stdout)["warnings"]] == [
        each.sentence for each in warnings
    ]
    page = Curation(str(data), tmp_path)
    assert sorted(map(str, page.warnings_about(loaded))) == sorted(map(str, warnings))
    if mess.stops:
        with pytest.raises(hv.LossError, match="Nothing was spent") as refused:
            hv.build(str(data), loaded, 1.0)
        assert list(refused.value.warnings) == warnings
        assert not (tmp_path / "hdpview-ledger.sqlite").exists()


READABLE = {
    "money": (table(pay=lambda i: f"${i}.50"), PAY, 'strip = "$€%"'),
    "more money": (table(pay=lambda i: quoted(f"$1,{100 + i}.99")), PAY, 'strip = "$"\nthousands = ","'),
    "euro": (table(pay=lambda i: f"€ 1 {100 + i}.99"), PAY, 'strip = "€"\nthousands = " "'),
    "French": (table(pay=lambda i: quoted(f"1\u202f{100 + i},30")), PAY, 'decimal = ","\nthousands = " "'),
    "Swiss": (table(pay=lambda i: f"1'{100 + i}.93"), PAY, 'thousands = "\'"'),
    "parentheses": (table(pay=lambda i: f"({i}.00)"), PAY.replace("min = 0", "min = -1000"),
        'negative = "parentheses"'),
    "units": (table(age=lambda i: f"{ages(i)} years"), AGE, 'strip = ["years"]'),
    "seconds": (table(day=lambda i: str(1_600_000_000 + i)), DAY, 'epoch = "s"'),
    "milliseconds": (table(day=lambda i: str(1_600_000_000_000 + i)), DAY, 'epoch = "ms"'),
    "blanks": (table(sex=lambda i: f"{sexes(i)} "), SEX, "trim = true"),
    "two-digit years": (table(day=lambda i: f"{i % 28 + 1:02}-05-21"), DAY, 'dates = ["%d-%m-%y"]'),
}  # fmt: skip


@pytest.mark.parametrize("case", READABLE)
def test_what_is_declared_is_read(tmp_path, case):
    text, attributes, source = READABLE[case]
    data, schema = prepared(tmp_path, Mess(text, attributes, (), source=source))
    loaded = hv.Schema.load(schema)
    assert [each for each in hv.preview(str(data), loaded) if "same" not in each.sentence] == []
    view = hv.build(str(data), loaded, 8, test_key=b"k", method="hdpview")
    assert view.count("TRUE").estimate > N / 2
    assert view.count(f"{loaded.names[0]} IS NULL").estimate < N / 4


def test_the_privacy_unit_is_questioned(tmp_path):
    data, schema = prepared(
        tmp_path, Mess(table(age=ages, sex=sexes, who=lambda i: f"p{i}" if i % 3 == 0 else ""), AGE, ())
    )
    loaded = hv.Schema.load(schema)
    (few,) = hv.preview(str(data), loaded, privacy_unit="sex")
    assert few.is_blocking
    assert "so few distinct values" in few.sentence
    (nameless,) = hv.preview(str(data), loaded, privacy_unit="who")
    assert nameless.is_blocking
    assert "many rows name no person" in nameless.sentence


def test_a_paid_check_answers_from_noisy_counts_and_is_charged(tmp_path):
    text = table(age=spoilt(ages, lambda i: "900", 50), sex=lambda i: sexes(i).lower(), pay=lambda i: "5")
    data, schema = prepared(tmp_path, Mess(text, f"{AGE}\n{SEX}\n{PAY}", ()))
    run, words = CliRunner(), ["schema", "check", str(schema), str(data)]
    checked = run.invoke(app, [*words, "--epsilon", "6", "--format", "json"])
    assert checked.exit_code == 1
    warnings = {each["attribute"]: each["sentence"] for each in json.loads(checked.stdout)["warnings"]}
    assert "many values lie above max = 120" in warnings["age"]
    assert "nearly all values match no declared value, and would" in warnings["sex"]
    assert "pay" not in warnings
    ledger = Ledger(tmp_path / "hdpview-ledger.sqlite")
    assert [(float(each.epsilon), each.purpose) for each in ledger.charges("table")][-1] == (
        6.0,
        "check of the schema",
    )
    faint = run.invoke(app, [*words, "--epsilon", "0.01"])
    assert "shows only losses of about 100%" in faint.stdout
    ledger.set_limit("table", Fraction(10))
    refused = run.invoke(app, [*words, "--epsilon", "5"])
    assert isinstance(refused.exception, hv.BudgetError)


def test_files_that_differ_are_told_apart(tmp_path):
    pq.write_table(pa.table({"age": [1, 2], "pay": [1.0, 2.0]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"age": [1, 2]}), tmp_path / "b.parquet")
    schema = hv.Schema([hv.Integer(name="age", min=0, max=9), hv.Real(name="pay", min=0.0, max=9.0, bins=3)])
    (first, *_) = hv.preview(str(tmp_path / "*.parquet"), schema)
    assert first.is_blocking
    assert "'b.parquet' of the 2 files lack this column" in first.sentence


REFUSED = {
    "a title above": ("Report of May\n\n" + table(age=ages, sex=sexes, pay=ages), "t.csv",
        "looks like a title"),
    "no header": ("\n".join(f"{ages(i)},{sexes(i)},2021-01-0{i % 9 + 1}" for i in range(50)), "t.csv",
        "looks like a record"),
    "names as a header": ("\n".join(f"{sexes(i)},x{i}" for i in range(50)), "t.csv", "looks like a record"),
    "columns of one name": ("age,age\n1,2\n", "t.csv", "two columns named 'age'"),
    "Excel": ("PK", "t.xlsx", r"Save it as CSV .*pandas\.read_excel"),
    "SQLite": ("SQLite", "t.db", r"pandas\.read_sql"),
    "JSON": ("[]", "t.json", r"one object per line"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_table_is_refused_with_the_way_out(tmp_path, case):
    text, name, words = REFUSED[case]
    (tmp_path / name).write_text(text)
    drafted = CliRunner().invoke(app, ["schema", "draft", str(tmp_path / name)])
    assert isinstance(drafted.exception, hv.DataError)
    assert re.search(words, str(drafted.exception)), drafted.exception
