"""No value of one record can refuse a build or change how another is read."""

import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hdpview as hv
from hdpview.counts.contributions import EACH_ROW, Contributions
from hdpview.counts.ingest import ReadOptions, read_counts

CALENDAR = hv.Schema([hv.Datetime(name="x", min="2020-01-01", max="2020-12-31", every="1mo", nullable=True)])
SEXES = hv.Schema([hv.Category(name="x", values=("a", "b"), other="other", nullable=True)])
MISSING_MONTH, OTHER, MISSING = 12, 2, 3
JULY = 1_593_561_600  # seconds
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def texts(*values: bytes) -> pa.Array:
    offsets = [sum(map(len, values[:i])) for i in range(len(values) + 1)]
    buffers = struct.pack(f"<{len(offsets)}i", *offsets), b"".join(values)
    return pa.StringArray.from_buffers(len(values), *map(pa.py_buffer, buffers))


def written(table: pa.Table, folder: Path) -> Path:
    pq.write_table(table, folder / "table.parquet")
    return folder / "table.parquet"


SOURCES: dict[str, Callable[[pa.Table, Path], Any]] = {
    "parquet": written, "arrow": lambda table, _: table, "reader": lambda table, _: table.to_reader(),
}  # fmt: skip


def cells(source: Any, schema: hv.Schema, limits: Contributions = EACH_ROW) -> Counter[int]:
    exact = read_counts(source, schema, ReadOptions(threads=1, limits=limits, salt="s"))
    return Counter(dict(zip(exact.exact_codes[:, 0].tolist(), exact.exact_counts.tolist(), strict=True)))


@pytest.mark.parametrize("kind", ["plain", "large", "dictionary", "view"])
@pytest.mark.parametrize("source", SOURCES)
def test_text_that_is_no_utf8_counts_as_missing_or_unknown(source, kind, tmp_path):
    column = texts(b"a", b"\xff\xfe", b"b")
    if kind == "dictionary":
        column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), column)
    elif kind != "plain":
        column = column.cast(pa.large_string() if kind == "large" else pa.string_view())
    occupied = cells(SOURCES[source](pa.table({"x": column}), tmp_path), SEXES)
    assert occupied == Counter({0: 1, 1: 1, OTHER if source == "parquet" else MISSING: 1})


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
@pytest.mark.parametrize("unit", PER_SECOND)
@pytest.mark.parametrize("source", SOURCES)
def test_moments_beyond_a_database_are_missing_or_clamped(source, unit, zone, tmp_path):
    far = [2**62, -(2**62), 2**63 - 1, -(2**63) + 1]
    if unit == "s" and source == "parquet":
        far = [2**53, -(2**53)]  # more of them do not fit into the milliseconds of a file
    column = pa.array([JULY * PER_SECOND[unit], *far], pa.int64()).cast(pa.timestamp(unit, zone))
    occupied = cells(SOURCES[source](pa.table({"x": column}), tmp_path), CALENDAR)
    assert occupied.pop(6) == 1
    assert occupied.total() == len(far)
    assert set(occupied) <= ({MISSING_MONTH} if unit in ("s", "ms") else {0, 11, MISSING_MONTH})


@pytest.mark.parametrize("source", SOURCES)
def test_persons_whose_name_is_no_utf8_are_nobody(source, tmp_path):
    """With ? in place of the bytes, two of them would be one person, or the person `a?`."""
    who = texts(b"a?", b"a\xff", b"a\xfe", b"b")
    table = pa.table({"who": who, "x": ["a", "b", "b", "b"]})
    occupied = cells(SOURCES[source](table, tmp_path), SEXES, Contributions("who", 1))
    assert occupied == Counter({0: 1, 1: 1})
