"""The schema: every type of attribute, its file, its labels, and how a wrong one is refused."""

from __future__ import annotations

import math
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hdpview.domain import Attribute, Boolean, Category, Datetime, Integer, Real, Schema
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
            name="at",
            min="2024-02-28T23:30:00",
            max=datetime(2024, 3, 1, 0, 15),
            every="15min",
            nullable=True,
        ),
        Integer(name="odd name.with \"dots\" and 'quotes'", min=0, max=0),
        Integer(name="Ünï", min=0, max=1),
    ]
)


def test_every_type_survives_toml(tmp_path: Path) -> None:
    """A schema with every type, odd names and odd texts is the same after TOML."""
    EVERY_TYPE.save(tmp_path / "s.toml")
    (tmp_path / "marked.toml").write_bytes(b"\xef\xbb\xbf" + (tmp_path / "s.toml").read_bytes())
    assert Schema.load(tmp_path / "marked.toml") == EVERY_TYPE  # as some editors on Windows write it
    assert Schema.load(tmp_path / "s.toml") == EVERY_TYPE


def test_a_span_tells_both_bounds() -> None:
    """The code of missing values, which is the last, does not hide the largest value."""
    assert Integer(name="x", min=2, max=9, nullable=True).span() == "2 … 9, or missing"
    assert Integer(name="x", min=2, max=9).span() == "2 … 9"
    assert Integer(name="x", min=2, max=2, nullable=True).span() == "2, or missing"


def test_every_type_survives_plain_data() -> None:
    """A schema is the same after plain JSON types, and after JSON itself."""
    import json

    assert Schema.from_dict(EVERY_TYPE.to_dict()) == EVERY_TYPE
    assert Schema.from_dict(json.loads(json.dumps(EVERY_TYPE.to_dict()))) == EVERY_TYPE


def test_the_mark_of_a_learnt_schema_survives(tmp_path: Path) -> None:
    """That a schema was drawn from the data is kept in its file and in its dictionary."""
    learnt = Schema(EVERY_TYPE.attributes, learnt_from_data=True)
    learnt.save(tmp_path / "s.toml")
    assert Schema.load(tmp_path / "s.toml").learnt_from_data
    assert Schema.from_dict(learnt.to_dict()).learnt_from_data
    assert not Schema.from_dict(EVERY_TYPE.to_dict()).learnt_from_data


def test_the_schema_file_of_the_design_loads(tmp_path: Path) -> None:
    """The file as documented is read with the sizes it states."""
    (tmp_path / "s.toml").write_text(
        """
        [attributes.age]
        type = "integer"
        min = 17
        max = 90
        [attributes.income]
        type = "real"
        min = 0.0
        max = 1e6
        bins = 100
        [attributes.sex]
        type = "category"
        values = ["Female", "Male"]
        [attributes.admitted]
        type = "datetime"
        min = 2020-01-01
        max = 2025-01-01
        every = "1mo"
        [attributes.diabetic]
        type = "boolean"
        nullable = true
        """
    )
    schema = Schema.load(tmp_path / "s.toml")
    assert schema.names == ("age", "income", "sex", "admitted", "diabetic")
    assert schema.sizes == (74, 100, 2, 61, 3)
    assert schema.n_cells == 74 * 100 * 2 * 61 * 3


@pytest.mark.parametrize(
    ("attribute", "labels"),
    [
        (Integer(name="x", min=8, max=11), ["8", "9", "10", "11"]),
        (Integer(name="x", min=0, max=24, every=10, nullable=True), ["0–9", "10–19", "20–24", "(missing)"]),
        (Integer(name="x", min=0, max=10, every=10), ["0–9", "10"]),
        (Real(name="x", min=0, max=1, bins=2), ["[0, 0.5)", "[0.5, 1]"]),
        (Real(name="x", explicit_edges=(0, 0.1, 5), nullable=True), ["[0, 0.1)", "[0.1, 5]", "(missing)"]),
        (Category(name="x", values=("b", "a"), other="rest", nullable=True), ["b", "a", "rest", "(missing)"]),
        (Category(name="x", values=("b", "a"), other="a"), ["b", "a"]),
        (Category(name="x", values=(1, True)), ["1", "true"]),
        (Boolean(name="x", nullable=True), ["false", "true", "(missing)"]),
        (
            Datetime(name="x", min="2023-12-15", max="2024-02-01", every="1mo"),
            ["2023-12", "2024-01", "2024-02"],
        ),
        (Datetime(name="x", min="2023-01-15", max="2024-03-01", every="1y"), ["2023", "2024"]),
        (Datetime(name="x", min="2020-05-01", max="2022-03-01", every="1y"), ["2020-05", "2021-05"]),
        (
            Datetime(name="x", min="2024-02-28", max="2024-03-01", every="1d"),
            ["2024-02-28", "2024-02-29", "2024-03-01"],
        ),
        (
            Datetime(name="x", min="2024-01-01", max="2024-01-01", every="12h"),
            ["2024-01-01 00:00:00", "2024-01-01 12:00:00"],
        ),
    ],
)
def test_labels_are_what_a_reader_expects(attribute: Attribute, labels: list[str]) -> None:
    """Every code has a readable name, in code order, and there are as many as codes."""
    assert attribute.labels() == labels
    assert attribute.size == len(labels)


def test_every_label_list_has_the_size() -> None:
    """For every type the number of labels is the number of codes, and edges rise."""
    for attribute in EVERY_TYPE:
        assert len(attribute.labels()) == attribute.size
        if hasattr(attribute, "edges"):
            assert (np.diff(attribute.edges) > 0).all()
            assert len(attribute.edges) == attribute.n_values + 1


def test_bin_places_follow_the_edges() -> None:
    """An edge's place is its number, the middle of a bin lies half-way, and beyond the ends there is nothing
    more.
    """
    age = Integer(name="x", min=10, max=34, every=10)
    places = [age.bin_of(at) for at in (-5, 10, 15, 20, 30, 32.5, 35, 99, -math.inf, math.inf)]
    assert [i + below for i, below, _ in places] == [0, 0, 0.5, 1, 2, 2.5, 3, 3, 0, 3]
    assert [is_cut for _, _, is_cut in places] == [
        False,
        False,
        True,
        False,
        False,
        True,
        False,
        False,
        False,
        False,
    ]


def test_a_place_ever_so_near_to_an_edge_is_no_edge() -> None:
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
def test_every_undeclared_and_missing_value_has_a_code(
    attribute: Category, unknown: int, missing: int
) -> None:
    """Undeclared values go to `other`, else to missing, else to the first value; missing values likewise."""
    assert (attribute.unknown_code, attribute.missing_code) == (unknown, missing)
    assert max(unknown, missing) < attribute.size


def test_very_large_domains_are_counted_exactly() -> None:
    """A domain of 10^300 cells and one of 200 attributes are fine, and their cells are an exact whole
    number.
    """
    schema = Schema([Integer(name=f"a{i}", min=0, max=9) for i in range(300)])
    assert schema.n_cells == 10**300
    assert Schema([Boolean(name=f"a{i}") for i in range(200)]).n_cells == 2**200


def test_one_cell_more_than_the_limit_is_refused() -> None:
    """More than 10^300 cells are refused with what to do."""
    with pytest.raises(
        SchemaError, match=r"more than 10\^300 cells\. Leave out attributes or use wider bins"
    ):
        Schema([Integer(name=f"a{i}", min=0, max=9) for i in range(301)])


def test_attributes_of_65536_values_are_the_limit() -> None:
    """65,536 codes are fine, the one for missing values included; one more is refused with what to do."""
    assert Integer(name="x", min=1, max=65_536).size == 65_536
    assert Integer(name="x", min=1, max=65_535, nullable=True).size == 65_536
    assert Category(name="x", values=tuple(map(str, range(65_000)))).size == 65_000
    assert Real(name="x", min=0, max=1, bins=65_536).size == 65_536
    with pytest.raises(SchemaError, match=r"'x' has 65,537 values; the limit is 65,536\. Use wider bins"):
        Integer(name="x", min=1, max=65_536, nullable=True)
    with pytest.raises(SchemaError, match="fewer categories with `other`"):
        Category(name="x", values=tuple(map(str, range(65_537))))


def test_too_many_attributes_are_refused() -> None:
    """More than 1,000 attributes are refused."""
    with pytest.raises(SchemaError, match=r"at most 1,000 attributes; this one has 1,001"):
        Schema([Integer(name=f"a{i}", min=0, max=0) for i in range(1_001)])


@pytest.mark.parametrize(("first", "second"), [("age", "age"), ("age", "AGE"), ("straße", "STRASSE")])
def test_names_that_sql_cannot_tell_apart_are_refused(first: str, second: str) -> None:
    """Two attributes may not have names that differ by letter case alone."""
    with pytest.raises(SchemaError, match=f"'{first}' and '{second}' have the same name"):
        Schema([Boolean(name=first), Boolean(name=second)])


def test_names_are_found_by_any_case_and_suggested_when_wrong() -> None:
    """A name is found whatever its case; an unknown one brings the nearest."""
    assert EVERY_TYPE["AGE"].name == "age"
    assert EVERY_TYPE.index("hours") == 1
    with pytest.raises(SchemaError, match=r"Unknown attribute 'incme'\. Did you mean 'income'\?"):
        EVERY_TYPE["incme"]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            {"type": "integer", "min": 9, "max": 1},
            r"'x': bounds must satisfy min ≤ max within 64 bits; got 9 and 1",
        ),
        ({"type": "integer", "min": 0.5, "max": 1}, r"min must be a whole number, not 0\.5"),
        ({"type": "integer", "min": True, "max": 1}, r"min must be a whole number, not True"),
        ({"type": "integer", "min": "0", "max": 1}, r"min must be a whole number, not '0'"),
        ({"type": "integer", "min": math.nan, "max": 1}, r"min must be a whole number, not nan"),
        ({"type": "integer", "min": 0, "max": 1, "every": 0}, r"every must be at least 1, not 0"),
        ({"type": "integer", "min": 0, "max": 10**6}, r"makes more than 65,536 bins; raise `every`"),
        ({"type": "integer", "min": 0, "max": 2**63}, r"within 64 bits"),
        ({"type": "integer", "min": -(10**400), "max": 10**400}, r"within 64 bits"),
        ({"type": "integer", "min": 0}, r"'x' of type integer needs max"),
        (
            {"type": "integer", "min": 0, "max": 5, "step": 2},
            r"Unknown key 'step'.* The type integer has: min, max, every, edges, nullable, missing",
        ),
        (
            {"type": "integer", "min": 0, "max": 5, "nulable": True},
            r"Unknown key 'nulable'\. Did you mean 'nullable'\?",
        ),
        ({"type": "integer", "min": 0, "max": 5, "nullable": "yes"}, r"nullable is true or false, not 'yes'"),
        (
            {"type": "real", "min": math.nan, "max": 1, "bins": 2},
            r"min must be a number within ±1e\+300, not nan",
        ),
        (
            {"type": "real", "min": 0, "max": math.inf, "bins": 2},
            r"max must be a number within ±1e\+300, not inf",
        ),
        ({"type": "real", "min": 0, "max": 10**400, "bins": 2}, r"max must be a number within ±1e\+300"),
        (
            {"type": "real", "min": -1.7e308, "max": 1.7e308, "bins": 2},
            r"min must be a number within ±1e\+300",
        ),
        (
            {"type": "real", "min": 1, "max": 1, "bins": 2},
            r"bounds must satisfy min < max; got 1\.0 and 1\.0",
        ),
        ({"type": "real", "min": 2, "max": 1, "bins": 2}, r"bounds must satisfy min < max"),
        ({"type": "real", "min": 0, "max": 1}, r"give `min`, `max` and `bins`, or `edges`"),
        ({"type": "real"}, r"give `min`, `max` and `bins`, or `edges`"),
        (
            {"type": "real", "min": 0, "max": 1, "bins": 0},
            r"bins must be a whole number from 1 to 65,536, not 0",
        ),
        ({"type": "real", "min": 0, "max": 1, "bins": 2.0}, r"bins must be a whole number"),
        (
            {"type": "real", "min": 1, "max": 1 + 1e-15, "bins": 100},
            r"finer than floating-point numbers; use fewer",
        ),
        ({"type": "real", "edges": [0, 1], "bins": 1}, r"give `edges` alone"),
        ({"type": "real", "edges": [0]}, r"edges must list 2 to 1,001 numbers"),
        ({"type": "real", "edges": list(range(1_002))}, r"edges must list 2 to 1,001 numbers"),
        ({"type": "real", "edges": [0, 0]}, r"edges must rise"),
        ({"type": "real", "edges": [0, math.nan]}, r"edges must be a number within ±1e\+300, not nan"),
        ({"type": "real", "edges": 5}, r"edges must be a list, not 5"),
        ({"type": "category"}, r"'x' of type category needs values"),
        ({"type": "category", "values": []}, r"values must list the categories; at least one"),
        ({"type": "category", "values": "ab"}, r"values must be a list, not 'ab'"),
        ({"type": "category", "values": ["a", "b", "a"]}, r"values lists 'a' twice"),
        ({"type": "category", "values": ["1", 1]}, r"values lists '1' twice"),
        ({"type": "category", "values": [1.5]}, r"values must be texts or whole numbers, not 1\.5"),
        ({"type": "category", "values": ["a"], "other": 3}, r"other must be a text, not 3"),
        ({"type": "boolean", "values": [1]}, r"Unknown key 'values'"),
        (
            {"type": "datetime", "min": "2024-01-01", "max": "2023-01-01", "every": "1d"},
            r"bounds must satisfy min ≤ max",
        ),
        (
            {"type": "datetime", "min": "yesterday", "max": "2023-01-01", "every": "1d"},
            r"'yesterday' is not a date\. Write it as 2024-01-31",
        ),
        (
            {"type": "datetime", "min": 5, "max": "2023-01-01", "every": "1d"},
            r"min must be a date such as 2024-01-31, not 5",
        ),
        (
            {"type": "datetime", "min": "2023-01-01", "max": "2023-01-02", "every": "1 fortnight"},
            r"is not a step of time\..*'15min' or '1mo'",
        ),
        (
            {"type": "datetime", "min": "2023-01-01", "max": "2023-01-02", "every": "0d"},
            r"is not a step of time",
        ),
        (
            {"type": "datetime", "min": "2023-01-01", "max": "2023-01-02", "every": 5},
            r"every must be a step such as '1d' or '1mo', not 5",
        ),
        (
            {"type": "datetime", "min": "0001-01-01", "max": "9999-12-31", "every": "1s"},
            r"makes more than 65,536 bins; use a longer step",
        ),
        (
            {"type": "datetime", "min": "0001-01-01T00:00:00+14:00", "max": "2023-01-02", "every": "1y"},
            r"date",
        ),
        (
            {"type": "datetime", "min": "2023-01-01", "max": "9999-12-31T23:59:59-14:00", "every": "1y"},
            r"date",
        ),
        (
            {"type": "intger", "min": 0, "max": 1},
            r"Unknown type 'intger'\. Did you mean 'integer'\? The types are: integer, real,",
        ),
        ({"min": 0, "max": 1}, r"'x' needs a type: one of integer, real, category, boolean, datetime"),
        ({"type": 5}, r"'x' needs a type"),
        ("integer", r"'x' needs a type"),
    ],
)
def test_wrong_entries_are_refused_with_the_way_out(entry: Any, message: str) -> None:
    """Each kind of wrong entry is refused by name, with what is allowed."""
    with pytest.raises(SchemaError, match=message):
        Schema.from_dict({"attributes": {"x": entry}})


@pytest.mark.parametrize("name", ["", "x" * 201, 5, None])
def test_bad_names_are_refused(name: Any) -> None:
    """Names are texts of 1 to 200 characters."""
    with pytest.raises(SchemaError, match="Attribute names are texts of 1 to 200 characters"):
        Boolean(name=name)


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ({}, r"A schema is a table `attributes`"),
        ({"attributes": 5}, r"A schema is a table `attributes`"),
        ({"attributes": {}}, r"A schema needs at least one attribute"),
        ({"attribute": {}}, r"Unknown key 'attribute'\. Did you mean 'attributes'\?"),
    ],
)
def test_wrong_outer_shapes_are_refused(description: Any, message: str) -> None:
    """A schema is a table `attributes` with at least one entry, and nothing else."""
    with pytest.raises(SchemaError, match=message):
        Schema.from_dict(description)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[attributes", r"is not valid TOML"),
        (b"\xff\xfe", r"is not valid TOML"),
        pytest.param(b"a = " + b"[" * 100_000, r"is not valid TOML", id="100,000 brackets"),
        (
            b'[attributes.x]\ntype = "datetime"\nmin = 12:00:00\nmax = 2024-01-01\nevery = "1d"',
            r"min must be a date",
        ),
        (b"x = 1", r"Unknown key 'x'"),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    """A file that is no TOML, or TOML of something else, is refused in words."""
    (tmp_path / "s.toml").write_bytes(content)
    with pytest.raises(SchemaError, match=message):
        Schema.load(tmp_path / "s.toml")


def test_a_missing_or_giant_file_is_refused(tmp_path: Path) -> None:
    """A file that is not there, a folder and a file of many megabytes are refused before anything is
    parsed.
    """
    with pytest.raises(SchemaError, match="No such file"):
        Schema.load(tmp_path / "none.toml")
    with pytest.raises(SchemaError, match="Cannot read the schema"):
        Schema.load(tmp_path)
    (tmp_path / "giant.toml").write_bytes(b"#" * (MAX_SCHEMA_BYTES + 1))
    with pytest.raises(SchemaError, match="larger than 16 MB"):
        Schema.load(tmp_path / "giant.toml")


def test_a_schema_cannot_be_changed() -> None:
    """Attributes and schemas are values: no field can be set."""
    with pytest.raises(AttributeError):
        EVERY_TYPE.attributes = ()  # type: ignore[misc]
    with pytest.raises(AttributeError):
        EVERY_TYPE.attributes[0].min = 3  # type: ignore[misc, attr-defined]


def test_times_with_a_zone_are_moved_to_utc() -> None:
    """A bound with a time zone is kept in UTC; one without stays as it stands, whatever the machine's
    zone.
    """
    assert (
        Datetime(name="x", min="2024-01-01T02:00:00+02:00", max="2024-01-02", every="1d").min
        == "2024-01-01T00:00:00"
    )
    assert (
        Datetime(name="x", min="2024-01-01T02:00:00", max="2024-01-02", every="1d").min
        == "2024-01-01T02:00:00"
    )
