"""The schema: every type of attribute, its file, its labels, and how a wrong one is refused."""

import json
import math
from datetime import date, datetime
from typing import Any

import numpy as np
import pytest

from hdpview.domain import Boolean, Category, Datetime, Integer, Real, Schema
from hdpview.domain.schema import MAX_SCHEMA_BYTES
from hdpview.errors import SchemaError

EVERY_TYPE = Schema(
    [
        Integer(name="age", min=17, max=90),
        Integer(name="hours", min=-5, max=99, every=10, nullable=True),
        Integer(name="big", min=-(2**63), max=-(2**63) + 9),
        Real(name="income", min=0.0, max=1e6, bins=100),
        Real(name="score", explicit_edges=(-1.5, 0.0, 0.1, 1e300), nullable=True),
        Category(name="sex", values=("Female", "Male")),
        Category(
            name="job",
            values=("clerk", 'it\'s "quoted"', "tab\tnewline\n", "émoji 🙂", "\x7f\\", ""),
            other="else",
            nullable=True,
        ),
        Category(name="code", values=(1, 2, True), other="2"),
        Boolean(name="diabetic", nullable=True),
        Boolean(name="alive"),
        Datetime(name="admitted", min=date(2020, 1, 1), max="2025-01-01", every="1mo"),
        Datetime(
            name="at", min="2024-02-28T23:30:00", max=datetime(2024, 3, 1, 0, 15), every="15min",
            nullable=True,
        ),
        Integer(name="odd name.with \"dots\" and 'quotes'", min=0, max=0),
        Integer(name="Ünï", min=0, max=1),
    ]
)  # fmt: skip


def test_every_type_survives_its_files(tmp_path):
    EVERY_TYPE.save(tmp_path / "s.toml")
    (tmp_path / "marked.toml").write_bytes(b"\xef\xbb\xbf" + (tmp_path / "s.toml").read_bytes())
    assert Schema.load(tmp_path / "marked.toml") == EVERY_TYPE  # as some editors on Windows write it
    assert Schema.load(tmp_path / "s.toml") == EVERY_TYPE
    assert Schema.from_dict(json.loads(json.dumps(EVERY_TYPE.to_dict()))) == EVERY_TYPE
    learnt = Schema(EVERY_TYPE.attributes, learnt_from_data=True)
    assert Schema.from_toml(learnt.to_toml()) == learnt != EVERY_TYPE


LABELS = [
    (Integer(name="x", min=8, max=11), "8|9|10|11"),
    (Integer(name="x", min=0, max=24, every=10, nullable=True), "0–9|10–19|20–24|(missing)"),
    (Integer(name="x", min=0, max=10, every=10), "0–9|10"),
    (Real(name="x", min=0, max=1, bins=2), "[0, 0.5)|[0.5, 1]"),
    (Real(name="x", explicit_edges=(0, 0.1, 5), nullable=True), "[0, 0.1)|[0.1, 5]|(missing)"),
    (Category(name="x", values=("b", "a"), other="rest", nullable=True), "b|a|rest|(missing)"),
    (Category(name="x", values=("b", "a"), other="a"), "b|a"),
    (Category(name="x", values=(1, True)), "1|true"),
    (Boolean(name="x", nullable=True), "false|true|(missing)"),
    (Datetime(name="x", min="2023-12-15", max="2024-02-01", every="1mo"), "2023-12|2024-01|2024-02"),
    (Datetime(name="x", min="2023-01-15", max="2024-03-01", every="1y"), "2023|2024"),
    (Datetime(name="x", min="2020-05-01", max="2022-03-01", every="1y"), "2020-05|2021-05"),
    (Datetime(name="x", min="2024-02-28", max="2024-03-01", every="1d"), "2024-02-28|2024-02-29|2024-03-01"),
    (Datetime(name="x", min="2024-01-01", max="2024-01-01", every="12h"),
        "2024-01-01 00:00:00|2024-01-01 12:00:00"),
]  # fmt: skip


@pytest.mark.parametrize(("attribute", "labels"), LABELS)
def test_labels_are_what_a_reader_expects(attribute, labels):
    assert attribute.labels() == labels.split("|")
    assert attribute.size == len(attribute.labels())


def test_bin_places_follow_the_edges():
    age = Integer(name="x", min=10, max=34, every=10)
    places = [age.bin_of(at) for at in (-5, 10, 15, 20, 30, 32.5, 35, 99, -math.inf, math.inf)]
    assert [i + below for i, below, _ in places] == [0, 0, 0.5, 1, 2, 2.5, 3, 3, 0, 3]
    assert [at for at, (_, _, is_cut) in enumerate(places) if is_cut] == [2, 5]


def test_a_place_ever_so_near_to_an_edge_is_no_edge():
    """One value of a bin of 10^17 cuts it, though its fraction rounds to 0 or 1."""
    wide = Integer(name="x", min=0, max=10**18 - 1, every=10**17)
    assert wide.bin_of(10**17) == (1, 0.0, False)
    assert wide.bin_of(10**17 + 1) == (1, pytest.approx(0.0, abs=1e-16), True)
    assert wide.bin_of(2 * 10**17 - 1) == (1, pytest.approx(1.0), True)


@pytest.mark.parametrize(
    ("attribute", "unknown", "missing"),
    [
        (Category(name="x", values=("a", "b")), 0, 0),
        (Category(name="x", values=("a", "b"), nullable=True), 2, 2),
        (Category(name="x", values=("a", "b"), other="z"), 2, 2),
        (Category(name="x", values=("a", "b"), other="b"), 1, 1),
        (Category(name="x", values=("a", "b"), other="z", nullable=True), 2, 3),
    ],
)
def test_every_undeclared_and_missing_value_has_a_code(attribute, unknown, missing):
    assert (attribute.unknown_code, attribute.missing_code) == (unknown, missing)
    assert max(unknown, missing) < attribute.size


def test_domains_have_up_to_10_to_the_300_cells_counted_exactly():
    digits = [Integer(name=f"a{i}", min=0, max=9) for i in range(301)]
    assert Schema(digits[:300]).n_cells == 10**300
    with pytest.raises(SchemaError, match=r"more than 10\^300 cells\. Leave out attributes"):
        Schema(digits)


def test_attributes_of_65536_values_are_the_limit():
    assert Integer(name="x", min=1, max=65_536).size == 65_536
    assert Integer(name="x", min=1, max=65_535, nullable=True).size == 65_536
    assert Category(name="x", values=tuple(map(str, range(65_000)))).size == 65_000
    assert Real(name="x", min=0, max=1, bins=65_536).size == 65_536
    with pytest.raises(SchemaError, match=r"'x': 65,537 values are more than the limit of 65,536\. Use"):
        Integer(name="x", min=1, max=65_536, nullable=True)
    with pytest.raises(SchemaError, match="fewer categories with `other`"):
        Category(name="x", values=tuple(map(str, range(65_537))))


def test_too_many_attributes_are_refused():
    with pytest.raises(SchemaError, match=r"can have 1,000 attributes; this one has 1,001"):
        Schema([Integer(name=f"a{i}", min=0, max=0) for i in range(1_001)])


@pytest.mark.parametrize(("first", "second"), [("age", "age"), ("age", "AGE"), ("straße", "STRASSE")])
def test_names_that_sql_cannot_tell_apart_are_refused(first, second):
    with pytest.raises(SchemaError, match=f"'{first}' and '{second}' have the same name"):
        Schema([Boolean(name=first), Boolean(name=second)])


def test_names_are_found_by_any_case_and_suggested_when_wrong():
    assert EVERY_TYPE["AGE"].name == "age"
    assert EVERY_TYPE.index("hours") == 1
    with pytest.raises(SchemaError, match=r"Unknown attribute 'incme'\. Did you mean 'income'\?"):
        EVERY_TYPE["incme"]


DAYS = {"type": "datetime", "min": "2023-01-01", "max": "2023-01-02", "every": "1d"}
WRONG: list[tuple[Any, str]] = [
    ({"type": "integer", "min": 9, "max": 1}, r"'x': .* min ≤ max within 64 bits; got 9 and 1"),
    *(({"type": "integer", "min": low, "max": 1}, rf"min must be a whole number, not {low!r}")
      for low in (0.5, True, "0", math.nan)),
    ({"type": "integer", "min": 0, "max": 1, "every": 0}, r"every must be at least 1, not 0"),
    ({"type": "integer", "min": 0, "max": 10**6}, r"makes more than 65,536 bins; raise `every`"),
    ({"type": "integer", "min": 0, "max": 2**63}, r"within 64 bits"),
    ({"type": "integer", "min": -(10**400), "max": 10**400}, r"within 64 bits"),
    ({"type": "integer", "min": 0}, r"'x' of type integer needs max"),
    ({"type": "integer", "min": 0, "max": 5, "step": 2},
        r"Unknown key 'step'.* The type integer has: min, max, every, edges, nullable, missing"),
    ({"type": "integer", "min": 0, "max": 5, "nulable": True}, r"Did you mean 'nullable'\?"),
    ({"type": "integer", "min": 0, "max": 5, "nullable": "yes"}, "nullable must be true or false, not 'yes'"),
    *(({"type": "real", "min": low, "max": 1, "bins": 2}, r"min must be a number within ±1e\+300")
      for low in (math.nan, -1.7e308)),
    *(({"type": "real", "min": 0, "max": high, "bins": 2}, r"max must be a number within ±1e\+300")
      for high in (math.inf, 10**400)),
    ({"type": "real", "min": 1, "max": 1, "bins": 2}, r"bounds must satisfy min < max; got 1\.0 and 1\.0"),
    ({"type": "real", "min": 0, "max": 1}, r"give `min`, `max` and `bins`, or `edges`"),
    ({"type": "real", "min": 0, "max": 1, "bins": 0}, r"bins must be a whole number from 1 to 65,536, not 0"),
    ({"type": "real", "min": 0, "max": 1, "bins": 2.0}, r"bins must be a whole number"),
    ({"type": "real", "min": 1, "max": 1 + 1e-15, "bins": 100}, r"finer than floating-point numbers"),
    ({"type": "real", "edges": [0, 1], "bins": 1}, r"give `edges` alone"),
    *(({"type": "real", "edges": edges}, r"edges must list 2 to 1,001 numbers")
      for edges in ([0], list(range(1_002)))),
    ({"type": "real", "edges": [0, 0]}, r"edges must rise"),
    ({"type": "real", "edges": [0, math.nan]}, r"edges must be a number within ±1e\+300, not nan"),
    ({"type": "real", "edges": 5}, r"edges must be a list, not 5"),
    ({"type": "category"}, r"'x' of type category needs values"),
    ({"type": "category", "values": []}, r"values must list at least one category"),
    ({"type": "category", "values": "ab"}, r"values must be a list, not 'ab'"),
    ({"type": "category", "values": ["a", "b", "a"]}, r"values lists 'a' twice"),
    ({"type": "category", "values": ["1", 1]}, r"values lists '1' twice"),
    ({"type": "category", "values": [1.5]}, r"values must be texts or whole numbers, not 1\.5"),
    ({"type": "category", "values": ["a"], "other": 3}, r"other must be a text, not 3"),
    ({"type": "boolean", "values": [1]}, r"Unknown key 'values'"),
    (DAYS | {"min": "2024-01-01"}, r"bounds must satisfy min ≤ max"),
    (DAYS | {"min": "yesterday"}, r"'yesterday' is not a date\. Write it as 2024-01-31"),
    (DAYS | {"min": 5}, r"min must be a date such as 2024-01-31, not 5"),
    *((DAYS | {"every": step}, r"is not a step of time\..*'15min'") for step in ("1 fortnight", "0d")),
    (DAYS | {"every": 5}, r"every must be a step such as '1d' or '1mo', not 5"),
    (DAYS | {"min": "0001-01-01", "max": "9999-12-31", "every": "1s"}, r"65,536 bins; use a longer"),
    (DAYS | {"min": "0001-01-01T00:00:00+14:00", "every": "1y"}, r"within the years 1 to 9999"),
    (DAYS | {"max": "9999-12-31T23:59:59-14:00", "every": "1y"}, r"within the years 1 to 9999"),
    ({"type": "intger", "min": 0}, r"Did you mean 'integer'\? The types are: integer, real,"),
    ({"min": 0, "max": 1}, r"'x' needs a type: one of integer, real, category, boolean, datetime"),
    ({"type": 5}, r"'x' needs a type"),
    ("integer", r"'x' needs a type"),
]  # fmt: skip


@pytest.mark.parametrize(("entry", "message"), WRONG)
def test_wrong_entries_are_refused_with_the_way_out(entry, message):
    with pytest.raises(SchemaError, match=message):
        Schema.from_dict({"attributes": {"x": entry}})


def test_numbers_and_arrays_of_numpy_are_those_of_python():
    low, high = np.int64(0), np.float32(9)
    assert Integer(name="x", min=low, max=np.uint8(9)) == Integer(name="x", min=0, max=9)
    assert Real(name="x", min=low, max=high, bins=np.int32(3)).max == 9.0
    named = Category(name="x", values=np.array(["a", "b"]))
    assert named == Category(name="x", values=("a", "b"))


@pytest.mark.parametrize("stray", [["age"], [None]])
def test_schemas_hold_attributes_only(stray):
    with pytest.raises(SchemaError, match="A schema must be a list of attributes"):
        Schema(stray)
    with pytest.raises(SchemaError, match="A schema must have a table `attributes`"):
        Schema.from_dict(stray)


@pytest.mark.parametrize("name", ["", "x" * 201, 5, None])
def test_bad_names_are_refused(name):
    with pytest.raises(SchemaError, match="Attribute names must be texts of 1 to 200 characters"):
        Boolean(name=name)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"A schema must have a table `attributes`"),
        (b"attributes = 5", r"A schema must have a table `attributes`"),
        (b"[attributes]", r"A schema needs at least one attribute"),
        (b"[attribute]", r"Unknown key 'attribute'\. Did you mean 'attributes'\?"),
        (b"[attributes", r"is not valid TOML"),
        (b"\xff\xfe", r"is not valid TOML"),
        pytest.param(b"a = " + b"[" * 100_000, r"is not valid TOML", id="100,000 brackets"),
        (b'[attributes.x]\ntype = "datetime"\nmin = 12:00:00\nmax = 2024-01-01\nevery = "1d"', r"be a date"),
    ],
)
def test_wrong_files_are_refused(tmp_path, content, message):
    (tmp_path / "s.toml").write_bytes(content)
    with pytest.raises(SchemaError, match=message):
        Schema.load(tmp_path / "s.toml")


def test_a_missing_or_giant_file_is_refused(tmp_path):
    with pytest.raises(SchemaError, match="No such file"):
        Schema.load(tmp_path / "none.toml")
    with pytest.raises(SchemaError, match="Cannot read the schema"):
        Schema.load(tmp_path)
    (tmp_path / "giant.toml").write_bytes(b"#" * (MAX_SCHEMA_BYTES + 1))
    with pytest.raises(SchemaError, match="larger than 16 MB"):
        Schema.load(tmp_path / "giant.toml")


@pytest.mark.parametrize(("zone", "hour"), [("+02:00", "00"), ("", "02")])
def test_times_with_a_zone_are_moved_to_utc(zone, hour):
    day = Datetime(name="x", min=f"2024-01-01T02:00:00{zone}", max="2024-01-02", every="1d")
    assert day.min == f"2024-01-01T{hour}:00:00"
