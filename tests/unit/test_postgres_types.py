"""How values travel to PostgreSQL's clients and back."""

import contextlib
import math
from datetime import date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdpview.errors import QueryError
from hdpview.explore.postgres import types as t
from hdpview.explore.postgres.types import PgType
from hdpview.explore.postgres.values import BINARY_FORMAT, TEXT_FORMAT, decode, encode

_TEXT = st.text("abNUL{}, \\\"'\n\tä€😀", max_size=20)
VALUES: dict[PgType, st.SearchStrategy[Any]] = {
    t.BOOL: st.booleans(),
    t.INT2: st.integers(-(2**15), 2**15 - 1),
    t.INT4: st.integers(-(2**31), 2**31 - 1),
    t.INT8: st.integers(-(2**63), 2**63 - 1),
    t.FLOAT8: st.floats(allow_nan=False),
    t.TEXT: _TEXT,
    t.DATE: st.dates(),
    t.TIMESTAMP: st.datetimes(),
    t.array_of(t.TEXT): st.lists(st.none() | _TEXT.filter(lambda text: text == text.strip()), max_size=5),
    t.array_of(t.INT4): st.lists(st.none() | st.integers(-(2**31), 2**31 - 1), max_size=5),
}


@pytest.mark.parametrize("format_code", [TEXT_FORMAT, BINARY_FORMAT])
@given(data=st.data())
def test_values_come_back_as_they_went(format_code, data):
    kind = data.draw(st.sampled_from(list(VALUES)))
    value = data.draw(VALUES[kind])
    assert decode(encode(value, kind, format_code), kind, format_code) == value


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (True, t.BOOL, b"t"),
        (16195.0, t.FLOAT8, b"16195"),
        (0.1, t.FLOAT8, b"0.1"),
        (math.inf, t.FLOAT8, b"Infinity"),
        (date(2024, 1, 31), t.TIMESTAMP, b"2024-01-31 00:00:00"),
        (datetime(2024, 1, 31, 5), t.DATE, b"2024-01-31"),
        (["a", 'b"c', None, "", "null"], t.array_of(t.TEXT), b'{a,"b\\"c",NULL,"","null"}'),
        (None, t.TEXT, None),
    ],
)
def test_texts_are_those_of_postgresql(value, kind, text):
    assert encode(value, kind, TEXT_FORMAT) == text


@given(
    st.binary(max_size=40),
    st.sampled_from(list(t.BY_OID.values())),
    st.sampled_from([TEXT_FORMAT, BINARY_FORMAT]),
)
def test_any_bytes_are_a_value_or_refused(content, kind, format_code):
    with contextlib.suppress(QueryError):
        decode(content, kind, format_code)
