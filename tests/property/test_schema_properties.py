"""Schemas survive their files, and texts are read as Python reads them."""

import json
import pickle
import tomllib
from datetime import datetime
from importlib import resources
from typing import Any

import jsonschema
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from hdpview.counts.ingest import ReadOptions, read_counts
from hdpview.domain import Attribute, Boolean, Category, Datetime, Integer, Real, Schema, TextFormat

JSON_SCHEMA = json.loads((resources.files("hdpview.domain") / "schema.json").read_text(encoding="utf-8"))
texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=8)
labels = st.none() | texts.filter(bool)


@st.composite
def categories(draw: Any, name: str) -> Category:
    words = draw(st.lists(texts, min_size=1, max_size=12, unique=True))
    n_values = draw(st.integers(1, len(words)))
    values, spare = tuple(words[:n_values]), words[n_values:]
    aliases = {values[i % n_values]: (text,) for i, text in enumerate(spare[:n_values])}
    groups = {"g": tuple(draw(texts) for _ in values)} if draw(st.booleans()) else {}
    nullable = draw(st.booleans())
    missing = None if nullable else draw(st.none() | st.sampled_from(values))
    return Category(
        name=name, values=values, aliases=aliases, groups=groups, nullable=nullable, missing=missing,
        ordered=draw(st.booleans()), other=draw(st.none() | st.just("oth") | st.sampled_from(values)),
        label=draw(labels), unit=draw(labels),
    )  # fmt: skip


@st.composite
def numbers(draw: Any, name: str) -> Attribute:
    nullable = draw(st.booleans())
    common: dict[str, Any] = {"name": name, "nullable": nullable, "label": draw(labels)}
    low = draw(st.integers(-1000, 1000))
    if draw(st.booleans()):
        edges = tuple(sorted(draw(st.sets(st.integers(-(2**40), 2**40), min_size=2, max_size=9))))
        return Integer(explicit_edges=edges, missing=None if nullable else edges[0], **common)
    if draw(st.booleans()):
        return Integer(min=low, max=low + draw(st.integers(0, 500)), every=draw(st.integers(1, 50)), **common)
    return Real(min=low / 8, max=low / 8 + draw(st.integers(1, 99)), bins=draw(st.integers(1, 60)), **common)


@st.composite
def schemas(draw: Any) -> Schema:
    names = draw(st.lists(texts.filter(bool), min_size=1, max_size=5, unique_by=str.casefold))
    others = [
        lambda name: st.builds(Boolean, name=st.just(name), nullable=st.booleans(), label=labels),
        lambda name: st.just(Datetime(name=name, min="2020-01-01", max="2020-03-01", every="1w",
            missing="2020-01-05")),
        categories,
        numbers,
    ]  # fmt: skip
    source = TextFormat(
        separator=draw(st.sampled_from([None, ";", "\t"])), decimal=draw(st.sampled_from([".", ","])),
        missing=tuple(draw(st.lists(texts, max_size=3))),
        dates=draw(st.sampled_from([(), ("%d.%m.%y", "%b %d, %Y")])),
    )  # fmt: skip
    return Schema([draw(draw(st.sampled_from(others))(name)) for name in names], source=source)


@given(schemas())
@settings(deadline=None)
def test_schemas_survive_files_json_and_pickle_and_suit_editors(schema):
    text = schema.to_toml()
    for copy in (
        Schema.from_toml(text),
        Schema.from_dict(json.loads(json.dumps(schema.to_dict()))),
        pickle.loads(pickle.dumps(schema)),
    ):
        assert copy == schema
        assert (copy.to_dict(), copy.to_toml()) == (schema.to_dict(), text)
    jsonschema.validate(json.loads(json.dumps(tomllib.loads(text), default=str)), JSON_SCHEMA)


@given(
    st.lists(st.datetimes(datetime(1970, 1, 1), datetime(2068, 12, 30)), min_size=20, max_size=40),
    st.sampled_from(["%d.%m.%Y", "%m/%d/%y", "%d-%b-%Y", "%Y/%m/%d %H:%M", "%b %d, %Y %I:%M %p"]),
)
@settings(max_examples=6, deadline=None)
def test_dates_are_read_as_python_reads_them(moments, date_format):
    written = [moment.strftime(date_format) for moment in moments]
    days = Datetime(name="x", min="1970-01-01", max="2068-12-31", every="1d", nullable=True)
    schema = Schema(
        [Integer(name="row", min=0, max=len(written) - 1), days], source=TextFormat(dates=(date_format,))
    )
    counts = read_counts(pa.table({"row": range(len(written)), "x": written}), schema, ReadOptions(threads=1))
    expected = [(datetime.strptime(text, date_format) - datetime(1970, 1, 1)).days for text in written]
    assert [int(code) for _, code in sorted(counts.exact_codes.tolist())] == expected
