"""Drafts from existing descriptions hold the facts of each format, and leave the rest open."""

import copy
import csv
import io
import json
import random
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from hdpview.domain import Category, Schema, TextFormat
from hdpview.domain.importing import import_description
from hdpview.errors import DataError, SchemaError


def attributes(text: str) -> dict[str, Any]:
    """The entries of a draft, with open places as the text OPEN."""
    closed = text.replace("= ?", '= "OPEN"').replace("[?]", '["OPEN"]')
    entries: dict[str, Any] = tomllib.loads(closed)["attributes"]
    return entries


def described(tmp_path: Path, name: str, content: str, **options: Any) -> str:
    (tmp_path / name).write_text(content, encoding="utf-8")
    return import_description(str(tmp_path / name), **options)


PACKAGE = {
    "name": "ward",
    "resources": [
        {
            "name": "stays",
            "path": "stays.csv",
            "encoding": "windows-1252",
            "dialect": {"delimiter": ";"},
            "schema": {
                "missingValues": ["", "-"],
                "fields": [
                    {"name": "age", "type": "integer", "title": "Age",
                        "constraints": {"minimum": 0, "maximum": 110}},
                    {"name": "weight", "type": "number", "decimalChar": ",", "constraints": {"minimum": 0.5}},
                    {"name": "sex", "type": "string", "constraints": {"enum": ["F", "M"]}},
                    {"name": "grade", "type": "integer",
                        "categories": [{"value": 1, "label": "low"}, {"value": 2, "label": "high"}],
                        "categoriesOrdered": True},
                    {"name": "admitted", "type": "date", "format": "%d.%m.%Y",
                        "constraints": {"minimum": "2020-01-01", "maximum": "2024-12-31"}},
                    {"name": "alive", "type": "boolean"},
                    {"name": "place", "type": "geopoint"},
                ],
            },
        },
        {"name": "wards", "schema": {"fields": [{"name": "ward", "type": "string"}]}},
    ],
}  # fmt: skip


def test_frictionless_packages(tmp_path):
    text = described(tmp_path, "datapackage.json", json.dumps(PACKAGE), table="stays")
    drafted = attributes(text)
    assert drafted["age"] == {"type": "integer", "min": 0, "max": 110, "label": "Age"}
    assert drafted["weight"] == {"type": "real", "max": "OPEN", "bins": 100, "min": 0.5}
    assert drafted["sex"] == {"type": "category", "values": ["F", "M"]}
    assert drafted["grade"] == {
        "type": "category", "values": ["low", "high"], "ordered": True,
        "aliases": {"low": ["1"], "high": ["2"]},
    }  # fmt: skip
    assert drafted["alive"] == {"type": "boolean"}
    assert "place" not in drafted
    assert "# place is left out: its type geopoint" in text
    assert str(drafted["admitted"]["min"]) == "2020-01-01"
    filled = Schema.from_toml(text.replace("max = ?", "max = 300.0"))
    assert all(attribute.nullable for attribute in filled)
    assert filled.source == TextFormat(
        separator=";", decimal=",", encoding="windows-1252", dates=("%d.%m.%Y",), missing=("", "-")
    )


def test_frictionless_schemas_alone(tmp_path):
    year = {"name": "x", "type": "year", "constraints": {"minimum": "1990", "maximum": "2020"}}
    expected = {"type": "integer", "min": 1990, "max": 2020}
    for name, write in (("x.schema.json", json.dumps), ("x.yaml", yaml.safe_dump)):
        assert attributes(described(tmp_path, name, write({"fields": [year]})))["x"] == expected


def test_one_of_several_tables_is_chosen(tmp_path):
    with pytest.raises(SchemaError, match=r"several: stays, wards\. Choose one with --table"):
        described(tmp_path, "datapackage.json", json.dumps(PACKAGE))


DDL = """
CREATE TYPE triage AS ENUM ('red', 'yellow', 'green');
CREATE TABLE clinic.visits (
  visit_id  bigserial PRIMARY KEY,
  years     smallint NOT NULL CHECK (years BETWEEN 0 AND 120),
  stay      integer CHECK (stay > 0 AND stay < 100),
  weight    numeric(5, 2),
  sex       char(1) CHECK (sex IN ('F', 'M')),
  ward      text CHECK (ward::text = ANY ((ARRAY['a'::character varying, 'b'::character varying])::text[])),
  colour    triage,
  admitted  timestamp with time zone CHECK (admitted >= '2020-01-01'),
  alive     boolean,
  raw       bytea,
  CONSTRAINT heavy CHECK (weight >= 0.5 AND 400 >= weight)
);
"""


def test_sql_of_postgresql(tmp_path):
    text = described(tmp_path, "visits.sql", DDL)
    drafted = attributes(text)
    assert drafted["years"] == {"type": "integer", "min": 0, "max": 120}
    assert drafted["stay"] == {"type": "integer", "min": 1, "max": 99}
    assert drafted["weight"] == {"type": "real", "bins": 100, "min": 0.5, "max": 400.0}
    assert drafted["sex"] == {"type": "category", "values": ["F", "M"]}
    assert drafted["ward"] == {"type": "category", "values": ["a", "b"]}
    assert drafted["colour"] == {"type": "category", "values": ["red", "yellow", "green"]}
    assert str(drafted["admitted"]["min"]) == "2020-01-01"
    assert drafted["admitted"]["max"] == "OPEN"
    assert drafted["alive"] == {"type": "boolean"}
    assert "raw is left out" in text


def test_sql_of_mysql(tmp_path):
    ddl = (
        "CREATE TABLE `t` (`a` ENUM('x','y') NOT NULL COMMENT 'The letter', `b` int unsigned, `c` double) "
        "ENGINE=InnoDB;"
    )
    drafted = attributes(described(tmp_path, "t.sql", ddl))
    assert drafted["a"] == {"type": "category", "values": ["x", "y"], "label": "The letter"}
    assert (drafted["b"]["type"], drafted["c"]["type"]) == ("integer", "real")


def test_alternatives_in_a_check_bound_nothing(tmp_path):
    ddl = "CREATE TABLE t (a int CHECK (a < 5 OR a > 100), b int CHECK (NOT (b > 3)))"
    drafted = attributes(described(tmp_path, "t.sql", ddl))
    assert drafted["a"] == {"type": "integer", "min": "OPEN", "max": "OPEN"}
    assert drafted["b"] == {"type": "integer", "min": "OPEN", "max": 3}


REDCAP = [
    ["Variable / Field Name", "Form Name", "Field Type", "Field Label",
        "Choices, Calculations, OR Slider Labels",
     "Text Validation Type OR Show Slider Number", "Text Validation Min", "Text Validation Max",
     "Identifier?"],
    ["record_id", "base", "text", "Record", "", "", "", "", ""],
    ["patient", "base", "text", "Name", "", "", "", "", "y"],
    ["age", "base", "text", "Age", "", "integer", "18", "99", ""],
    ["bmi", "base", "calc", "BMI", "[w]/([h]*[h])", "", "", "", ""],
    ["sex", "base", "radio", "Sex", "1, Female | 2, Male | 9, Not known, not asked", "", "", "", ""],
    ["drug", "base", "checkbox", "Drugs", "1, Aspirin | 2, Other", "", "", "", ""],
    ["seen", "base", "text", "Seen on", "", "date_dmy", "2020-01-01", "2024-12-31", ""],
    ["smokes", "base", "yesno", "<b>Smokes?</b>", "", "", "", "", ""],
    ["pain", "base", "slider", "Pain", "none | half | all", "number", "", "", ""],
    ["story", "base", "notes", "Story", "", "", "", "", ""],
]  # fmt: skip


def test_redcap_dictionaries(tmp_path):
    written = io.StringIO()
    csv.writer(written).writerows(REDCAP)
    text = described(tmp_path, "dictionary.csv", written.getvalue())
    drafted = attributes(text)
    assert drafted["age"] == {"type": "integer", "min": 18, "max": 99, "label": "Age"}
    assert drafted["bmi"]["type"] == "real"
    assert drafted["sex"]["values"] == ["Female", "Male", "Not known, not asked"]
    assert drafted["sex"]["aliases"] == {"Female": ["1"], "Male": ["2"], "Not known, not asked": ["9"]}
    assert drafted["drug___1"] == {"type": "boolean", "label": "Drugs: Aspirin"}
    assert drafted["smokes"] == {"type": "boolean", "label": "Smokes?"}
    assert drafted["pain"] == {"type": "integer", "min": 0, "max": 100, "label": "Pain"}
    assert str(drafted["seen"]["max"]) == "2024-12-31"
    assert "# patient is left out: it is marked as an identifier" in text
    assert "story" not in drafted


def test_plain_dictionaries(tmp_path):
    content = (
        "Name;Type;Min;Max;Values;Label\nage;integer;0;120;;Age\nsex;categorical;;;F|M;\nbmi;float;10;60;;\n"
    )
    drafted = attributes(described(tmp_path, "dictionary.csv", content))
    assert drafted["age"] == {"type": "integer", "min": 0, "max": 120, "label": "Age"}
    assert drafted["sex"] == {"type": "category", "values": ["F", "M"]}
    assert drafted["bmi"] == {"type": "real", "bins": 100, "min": 10.0, "max": 60.0}


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.json", "{", "not valid JSON"), ("x.yml", "a: [", "not valid YAML"),
        ("x.json", "{}", "Name its kind: --kind frictionless"), ("x.sql", "SELECT 1", "CREATE TABLE"),
        ("x.csv", "a,b\n1,2\n", "header line with 'Variable / Field Name'"), ("x.csv", "", "header line"),
        ("x.json", '{"fields": []}', "describes no columns"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_with_the_way_out(tmp_path, name, content, words):
    with pytest.raises(SchemaError, match=words):
        described(tmp_path, name, content)


def test_columns_are_chosen_and_make_a_valid_schema_once_filled_in(tmp_path):
    text = described(tmp_path, "v.sql", DDL, columns=["years", "sex", "colour", "weight", "alive"])
    schema = Schema.from_toml(text)
    assert schema.names == ("years", "weight", "sex", "colour", "alive")
    assert isinstance(schema["colour"], Category)
    assert "sex" not in attributes(described(tmp_path, "v.sql", DDL, exclude=["sex"]))
    with pytest.raises(DataError, match="Did you mean 'years'"):
        described(tmp_path, "v.sql", DDL, columns=["year"])


JUNK = (
    None, 5, -1.5, True, "x", "", [], ["a"], [1, None], {}, {"a": 1}, [{}], [[]], "2020-13-45", {"value": 3},
)  # fmt: skip


def mutated(described: Any, rng: random.Random) -> Any:
    described = copy.deepcopy(described)
    for _ in range(rng.randint(1, 3)):
        parent, key = described, rng.choice(list(described))
        while isinstance(parent[key], (dict, list)) and parent[key] and rng.random() < 0.8:
            parent = parent[key]
            key = rng.choice(list(parent)) if isinstance(parent, dict) else rng.randrange(len(parent))
        parent[key] = copy.deepcopy(rng.choice(JUNK))
    return described


def test_broken_descriptions_are_read_or_refused(tmp_path):
    rng = random.Random(3)
    n_read = 0
    for _ in range(300):
        try:
            described(tmp_path, "x.json", json.dumps(mutated(PACKAGE, rng)), table="stays")
            n_read += 1
        except SchemaError:
            pass
    assert 50 < n_read < 300
