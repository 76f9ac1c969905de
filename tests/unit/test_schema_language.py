"""Abbreviations in schema files: presets, lists, files, defaults, labels; and saving files."""

import itertools
import json
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from hdpview.domain import Boolean, Category, Datetime, Integer, Real, Schema, TextFormat
from hdpview.domain.schema import _CLASSES
from hdpview.errors import SchemaError

ICD = """\
chapter,block,code
Heart,Ischaemia,410
Heart,Ischaemia,411
Heart,Stroke,430
Lungs,Flu,487
"""
JSON_SCHEMA = json.loads((resources.files("hdpview.domain") / "schema.json").read_text(encoding="utf-8"))


def one(tmp_path: Path, fields: str, above: str = "") -> Any:
    (tmp_path / "icd.csv").write_text(ICD, encoding="utf-8")
    text = f"{above}\n[attributes.x]\n{fields}\n"
    jsonschema.validate(tomllib.loads(text), JSON_SCHEMA)
    (tmp_path / "s.toml").write_text(text, encoding="utf-8")
    return Schema.load(tmp_path / "s.toml")["x"]


@pytest.mark.parametrize(
    ("fields", "labels"),
    [
        ('type = "integer"\nmin = 0\nmax = 9\nbins = 2', ["0–4", "5–9"]),
        ('type = "integer"\nmin = 0\nmax = 10\nbins = 4', ["0–2", "3–5", "6–8", "9–10"]),
        ('type = "integer"\nedges = [0, 1, 5, 10]', ["0", "1–4", "5–10"]),
        ('type = "integer"\nmin = 17\nmax = 33\nbins = "age"', ["17–19", "20–24", "25–29", "30–33"]),
        ('type = "integer"\nmin = -3\nmax = 12\nbins = "log"',
            ["-3", "-2", "-1", "0", "1", "2–4", "5–9", "10–12"]),
        ('type = "real"\nmin = 0.0\nmax = 1.0\nevery = 0.25',
            ["[0, 0.25)", "[0.25, 0.5)", "[0.5, 0.75)", "[0.75, 1]"]),
        ('type = "real"\nmin = 0\nmax = 1\nevery = 0.4', ["[0, 0.4)", "[0.4, 0.8)", "[0.8, 1]"]),
        ('type = "real"\nmin = 0.5\nmax = 20\nbins = "log"',
            ["[0.5, 1)", "[1, 2)", "[2, 5)", "[5, 10)", "[10, 20]"]),
    ],
)  # fmt: skip
def test_bins_are_stated_by_width_number_edges_or_preset(tmp_path, fields, labels):
    assert one(tmp_path, fields).labels() == labels


def test_presets_need_no_bounds(tmp_path):
    age = one(tmp_path, 'type = "integer"\nbins = "age"')
    assert (age.labels()[0], age.labels()[-1], age.size) == ("0–4", "85–120", 18)
    share = one(tmp_path, 'type = "real"\nbins = "percent"')
    assert (share.edges[0], share.edges[-1], share.size) == (0, 100, 20)
    assert one(tmp_path, 'type = "integer"\nbins = "percent"').labels()[-1] == "95–100"


def test_a_width_in_decimals_is_exact(tmp_path):
    """0.1 ten times is 1: widths are read as the decimals that were written."""
    assert one(tmp_path, 'type = "real"\nmin = 0\nmax = 1\nevery = 0.1') == Real(
        name="x", min=0, max=1, bins=10
    )


def test_lists_are_shared_and_read_from_files(tmp_path):
    shared = '[lists]\nanswers = ["yes", "no"]\ncodes = "@icd.csv:code"'
    assert one(tmp_path, 'type = "category"\nvalues = "@answers"', shared).values == ("yes", "no")
    assert one(tmp_path, 'type = "category"\nvalues = "@codes"', shared).values[1:] == ("411", "430", "487")
    assert one(tmp_path, 'type = "category"\nvalues = "@icd.csv"').values == ("Heart", "Lungs")


def test_groupings_and_aliases_come_from_columns(tmp_path):
    code = one(tmp_path, 'type = "category"\nvalues = "@icd.csv:code"\ngroups = ["chapter", "block"]')
    assert code.groups["chapter"] == ("Heart", "Heart", "Heart", "Lungs")
    assert [i for i, block in enumerate(code.groups["block"]) if block == "Ischaemia"] == [0, 1]
    chapter = one(tmp_path, 'type = "category"\nvalues = "@icd.csv:chapter"\naliases = "@icd.csv:code"')
    assert dict(chapter.spellings()) == {"Heart": 0, "Lungs": 1, "410": 0, "411": 0, "430": 0, "487": 1}


def test_defaults_hold_where_nothing_else_is_said(tmp_path):
    above = '[defaults]\nnullable = true\nother = "rest"'
    assert one(tmp_path, 'type = "category"\nvalues = ["a"]', above).labels() == ["a", "rest", "(missing)"]
    assert not one(tmp_path, 'type = "boolean"\nnullable = false', above).nullable
    assert not one(tmp_path, 'type = "boolean"\nmissing = false', above).nullable


@pytest.mark.parametrize(
    ("attribute", "code"),
    [
        (Integer(name="x", min=10, max=19, every=5, missing=17), 1),
        (Integer(name="x", explicit_edges=(0, 1, 9), missing=9), 1),
        (Real(name="x", min=0, max=1, bins=4, missing=1.0), 3),
        (Category(name="x", values=("a", "b"), missing="b"), 1),
        (Category(name="x", values=("a", "b"), other="c", missing="a"), 0),
        (Category(name="x", values=("a", "b"), other="c"), 2),
        (Boolean(name="x", missing=True), 1),
        (Datetime(name="x", min="2020-01-01", max="2020-12-31", every="1mo", missing="2020-03-05"), 2),
        (Integer(name="x", min=10, max=19), 0),
    ],
)
def test_missing_values_go_where_the_schema_says(attribute, code):
    assert attribute.missing_code == code
    assert Schema.from_toml(Schema([attribute]).to_toml())["x"].missing_code == code


def test_labels_do_not_keep_attributes_apart():
    assert Boolean(name="x", label="Smokes") == Boolean(name="x")
    assert Boolean(name="x", missing=True) != Boolean(name="x")


COMMENTED = """\
# Our hospital's schema
[source]
separator = ";"     # as the registry exports it

[defaults]
nullable = true

[attributes.age]    # at admission
type = "integer"
bins = "age"        # five-year groups
label = "Age"

# a line about sex
[attributes.sex]
type = "category"
values = ["F", "M"]  # as on the form

[attributes]
stay = { type = "integer", min = 0, max = 90 }   # days
"""


def test_saving_leaves_a_file_that_states_the_same_schema(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(COMMENTED)
    before = Schema.load(path)
    before.save(path)
    assert path.read_text() == COMMENTED
    after = Schema([*before.attributes, Boolean(name="new")], source=before.source)
    after.save(path)
    assert path.read_text() == after.to_toml()
    assert Schema.load(path).to_dict() == after.to_dict()


WRONG = {
    "preset": ('type = "integer"\nbins = "ages"', "line 4: .*Did you mean 'age'"),
    "log without bounds": ('type = "real"\nbins = "log"', "needs min and max"),
    "two ways to bin": ('type = "integer"\nmin = 0\nmax = 9\nevery = 2\nbins = 3', "Keep one of them"),
    "preset and edges": ('type = "integer"\nedges = [0, 1]\nbins = "age"', "Keep one of them"),
    "a preset with fractions": ('type = "integer"\nmin = 0.5\nmax = 9\nbins = "log"',
        "must be whole numbers"),
    "width of nothing": ('type = "real"\nmin = 0\nmax = 1\nevery = 0', "every > 0"),
    "many narrow bins": ('type = "real"\nmin = 0\nmax = 1\nevery = 0.0003', "Use `bins`"),
    "no such list": ('type = "category"\nvalues = "@nothing"', "Unknown list 'nothing'"),
    "no such file": ('type = "category"\nvalues = "@no.csv"', "in the folder of the schema: No such file"),
    "no such column": ('type = "category"\nvalues = "@icd.csv:cod"', "Did you mean 'code'"),
    "no reference": ('type = "category"\nvalues = "icd.csv"', 'name one with an @: "@codes.csv"'),
    "groups without a file": ('type = "category"\nvalues = ["a"]\ngroups = ["b"]', "name columns only if"),
    "groups of another length": ('type = "category"\nvalues = ["a"]\ngroups = { g = ["x", "y"] }',
        "one per value"),
    "alias of nothing": ('type = "category"\nvalues = ["a"]\naliases = { b = ["c"] }', "'b' is not declared"),
    "alias that is a value": ('type = "category"\nvalues = ["a", "b"]\naliases = { a = ["b"] }',
        "already in use"),
    "missing beside nullable": ('type = "boolean"\nnullable = true\nmissing = true',
        "line 4: .*code of their own"),
    "missing beyond the bounds": ('type = "integer"\nmin = 0\nmax = 9\nmissing = 10',
        r"one of 0 … 9, not 10"),
    "missing of another type": ('type = "boolean"\nmissing = "no"', "one of false … true, not 'no'"),
    "label": ('type = "boolean"\nlabel = 5', "label must be a text"),
    "ordered": ('type = "category"\nvalues = ["a"]\nordered = 1', "ordered must be true or false"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_words_are_refused_with_line_and_way_out(tmp_path, case):
    fields, message = WRONG[case]
    (tmp_path / "icd.csv").write_text(ICD)
    (tmp_path / "s.toml").write_text(f"# a comment\n[attributes.x]\n{fields}\n")
    with pytest.raises(SchemaError, match=message) as caught:
        Schema.load(tmp_path / "s.toml")
    assert str(caught.value).startswith("s.toml, line "), caught.value


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ('separator = ";;"', "separator must be one character"),
        ('decimal = ";"', 'decimal must be "." or ","'),
        ('decimal = ","\nthousands = ","', "other than decimal"),
        ('encoding = "klingon"', "must be a text encoding such as utf-8"),
        ('encoding = "rot13"', "must be a text encoding"),
        ('dates = ["%d.%m"]', "year, month and day once each"), ('dates = ["%d.%m.%Y %Q"]', "has %Q"),
        ('dates = ["%d.%m.%Y %M"]', "minutes without hours"), ('dates = "%d.%m.%Y"', "list of texts"),
        ('seperator = ";"', "Did you mean 'separator'"),
        ('columns = ["a", "A"]', "must name each column of the file once"),
    ],
)  # fmt: skip
def test_wrong_sources_are_refused_with_the_way_out(source, message):
    with pytest.raises(SchemaError, match=message):
        Schema.from_toml(f'[source]\n{source}\n[attributes.x]\ntype = "boolean"\n')


def test_open_places_of_a_draft_are_named_by_their_lines():
    text = '[attributes]\nage = { type = "integer", min = ? }\nsex = { type = "category", values = [?] }\n'
    with pytest.raises(SchemaError, match=r"a \? stands in lines 2, 3\. Replace each by what is known"):
        Schema.from_toml(text)


def test_a_description_from_elsewhere_reads_no_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "icd.csv").write_text(ICD)
    with pytest.raises(SchemaError, match="values must be a list"):
        Schema.from_dict({"attributes": {"x": {"type": "category", "values": "@icd.csv"}}})


def test_the_json_schema_has_the_keys_of_the_code():
    also = {"integer": {"bins"}, "real": {"every"}}  # what only a file says
    for kind, attribute in _CLASSES.items():
        offered = set(JSON_SCHEMA["definitions"][kind]["properties"])
        assert offered == {"type", *attribute.keys(), *also.get(kind, set())}, kind
    assert set(JSON_SCHEMA["definitions"]["source"]["properties"]) == set(TextFormat.__dataclass_fields__)


@pytest.mark.parametrize(
    "entry",
    [
        {"type": "integer", "min": 0},
        {"type": "integer", "min": 0.5, "max": 1},
        {"type": "real", "min": 0, "max": 1},
        {"type": "category"},
        {"type": "category", "values": []},
        {"type": "boolean", "values": ["a"]},
        {"type": "datetime", "min": "2020-01-01", "max": "2020-01-02", "every": "1 fortnight"},
        {"type": "text"},
        {"min": 0, "max": 1},
        {"type": "integer", "bins": "log"},
    ],
)  # fmt: skip
def test_editors_and_the_reader_refuse_the_same(entry):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"attributes": {"x": entry}}, JSON_SCHEMA)
    lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in entry.items())
    with pytest.raises(SchemaError):
        Schema.from_toml(f"[attributes.x]\n{lines}\n")


def test_the_example_of_the_reference_is_valid(tmp_path):
    page = (Path(__file__).parents[2] / "docs/schema.md").read_text(encoding="utf-8")
    text = page.split("```toml\n", 1)[1].split("```", 1)[0]
    (tmp_path / "icd9.csv").write_text(ICD)
    (tmp_path / "s.toml").write_text(text, encoding="utf-8")
    jsonschema.validate(json.loads(json.dumps(tomllib.loads(text), default=str)), JSON_SCHEMA)
    schema = Schema.load(tmp_path / "s.toml")
    assert schema["diagnosis"].size == 4
    assert schema["weight"].size == 61
    schema.save(tmp_path / "s.toml")
    assert (tmp_path / "s.toml").read_text(encoding="utf-8") == text


def test_the_reference_names_every_key():
    page = (Path(__file__).parents[2] / "docs/schema.md").read_text(encoding="utf-8")
    keys = {*itertools.chain(*(each.keys() for each in _CLASSES.values())), *TextFormat.__dataclass_fields__}
    assert not {key for key in keys if f"`{key}" not in page}


def test_ranges_of_ordered_categories():
    from hdpview.errors import QueryError
    from hdpview.query.question.conditions import Condition, between, code_shares, compare

    bands = Category(name="x", values=("young", "middle", "old"), ordered=True, other="unknown")
    for condition, codes in (
        (compare(bands, ">=", "middle"), [0, 1, 1, 0]),
        (compare(bands, "<", "middle"), [1, 0, 0, 0]),
        (between(bands, "young", "middle"), [1, 1, 0, 0]),
        (between(bands, "middle", None), [0, 1, 1, 0]),
    ):
        assert code_shares(bands, condition).tolist() == codes
    assert compare(bands, ">", "unknown") == Condition()
    assert bands.has_order
    with pytest.raises(QueryError, match="has no order"):
        compare(Category(name="x", values=("a", "b")), "<", "b")


@pytest.mark.parametrize("listed", ["[[]]", "[{}]", "5", "[1.5]", '["a", "a"]', "[1, true, 1]"])
def test_lists_of_something_else_are_refused(listed):
    with pytest.raises(SchemaError, match=r"line [46]|lists"):
        Schema.from_toml(f'[lists]\nx = {listed}\n\n[attributes.a]\ntype = "category"\nvalues = "@x"\n')
