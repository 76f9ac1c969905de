"""Codes computed in the database equal NumPy's on the attribute's edges, for any values."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hdpview.domain import Datetime, Integer, Ordered, Real
from hdpview.domain.calendar import microseconds
from hdpview.errors import SchemaError

RowCodes = Callable[..., NDArray[np.int64]]
few = settings(max_examples=25, deadline=None)
int64 = st.integers(-(2**63), 2**63 - 1)
finite = st.floats(-1e300, 1e300)
moments = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))


def by_edges(attribute: Ordered, positions: list[Any]) -> list[int]:
    """The bin of each position by NumPy; None and NaN are missing."""
    missing = np.array([position is None or position != position for position in positions], bool)
    kept = np.where(missing, attribute.edges[0], positions).astype(attribute.edges.dtype)
    codes = np.searchsorted(attribute.edges[1:-1], kept, side="right")
    return np.where(missing, attribute.missing_code, codes).tolist()


def beside(edges: NDArray[np.float64], chosen: list[int]) -> list[float]:
    picked = edges[np.array(chosen, dtype=np.int64) % len(edges)]
    return [*picked.tolist(), *np.nextafter(picked, -np.inf).tolist(), *np.nextafter(picked, np.inf).tolist()]


def codes_of(row_codes: RowCodes, attribute: Ordered, column: pa.Array) -> list[int]:
    table = pa.table({"row": np.arange(len(column)), attribute.name: column})
    codes: list[int] = row_codes(table, attribute, n_rows=len(column))[:, 0].tolist()
    return codes


def as_text(values: list[Any], write: Callable[[Any], str]) -> pa.Array:
    return pa.array([None if value is None else write(value) for value in values], pa.string())


@few
@given(
    low=finite, high=finite, bins=st.integers(1, 65_000), values=st.lists(st.none() | st.floats()),
    edges=st.lists(st.integers(0, 65_000), min_size=1),
)  # fmt: skip
def test_equal_bins_match_edges(row_codes, low, high, bins, values, edges):
    try:
        attribute = Real(name="x", min=low, max=high, bins=bins, nullable=True)
    except SchemaError:
        assume(False)
    column = [*values, *beside(attribute.edges, edges)]
    assert codes_of(row_codes, attribute, pa.array(column, pa.float64())) == by_edges(attribute, column)
    written = [value for value in column if value is None or value == 0 or 1e-307 < abs(value) < 1e308]
    assert codes_of(row_codes, attribute, as_text(written, repr)) == by_edges(attribute, written)


@few
@given(
    start=st.floats(-1e6, 1e6), bins=st.integers(2, 300), values=st.lists(st.floats(-1e6, 1e6)),
    edges=st.lists(st.integers(0, 300), min_size=1),
)  # fmt: skip
def test_narrowest_bins_match_edges(row_codes, start, bins, values, edges):
    stop = start
    for _ in range(bins):
        stop = float(np.nextafter(stop, np.inf))
    try:
        attribute = Real(name="x", min=start, max=stop, bins=bins)
    except SchemaError:
        assume(False)
    column = [*values, *beside(attribute.edges, edges)]
    assert codes_of(row_codes, attribute, pa.array(column, pa.float64())) == by_edges(attribute, column)


@few
@given(
    edges=st.lists(finite, min_size=2, max_size=40, unique=True).map(sorted),
    values=st.lists(st.none() | st.floats()),
)
def test_explicit_edges_match(row_codes, edges, values):
    assume(all(low < high for low, high in pairwise(edges)))
    attribute = Real(name="x", explicit_edges=tuple(edges), nullable=True)
    column = [*values, *beside(attribute.edges, list(range(len(edges))))]
    assert codes_of(row_codes, attribute, pa.array(column, pa.float64())) == by_edges(attribute, column)


@few
@given(
    low=int64, n_bins=st.integers(1, 60_000), every=st.integers(1, 2**48), extra=st.integers(0, 2**48),
    values=st.lists(st.none() | int64),
)  # fmt: skip
def test_integers_match_edges(row_codes, low, n_bins, every, extra, values):
    high = low + (n_bins - 1) * every + extra % every
    assume(high < 2**63 - 1 and high - low < 2**63 - 1)
    attribute = Integer(name="x", min=low, max=high, every=every, nullable=True)
    around = [
        edge + step for edge in attribute.edges[:: max(1, n_bins // 20)].tolist() for step in (-1, 0, 1)
    ]
    column = [*values, *(number for number in around if -(2**63) <= number < 2**63)]
    clamped = [None if number is None else min(max(number, low), high) for number in column]
    expected = [attribute.missing_code if number is None else (number - low) // every for number in clamped]
    assert codes_of(row_codes, attribute, pa.array(column, pa.int64())) == expected
    assert codes_of(row_codes, attribute, as_text(column, str)) == expected


@few
@given(
    bounds=st.lists(moments, min_size=2, max_size=2).map(sorted),
    every=st.sampled_from(["1mo", "5mo", "1q", "1y", "7y", "400d", "3w", "11h", "1234567s"]),
    values=st.lists(st.none() | moments),
    offset=st.integers(-14 * 60, 14 * 60),
)
def test_moments_match_edges(row_codes, bounds, every, values, offset):
    try:
        attribute = Datetime(name="x", min=bounds[0], max=bounds[1], every=every, nullable=True)
    except SchemaError:
        assume(False)
    epoch, edges = datetime(1970, 1, 1), attribute.edges[:: max(1, attribute.n_values // 10)].tolist()
    near = [epoch + timedelta(microseconds=edge + step) for edge in edges for step in (-1, 0, 1)]
    column, shift = [*values, *near], timedelta(minutes=offset)
    expected = by_edges(attribute, [None if moment is None else microseconds(moment) for moment in column])

    def elsewhere(at: datetime) -> str:
        return (at + shift).replace(tzinfo=timezone(shift)).isoformat()

    ways = {"moment": pa.array(column, pa.timestamp("us")), "text": as_text(column, str)}
    ways["offset"] = as_text(column, elsewhere)
    table = pa.table({"row": np.arange(len(column)), **ways})
    codes = row_codes(table, *(replace(attribute, name=way) for way in ways), n_rows=len(column))
    assert codes.T.tolist() == [expected] * len(ways)
