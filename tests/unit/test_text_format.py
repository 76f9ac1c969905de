"""CSV files in practice: separators, decimal commas, encodings, dates, marks, odd lines."""

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hdpview.counts import files
from hdpview.counts.ingest import ReadOptions, column_types, read_counts
from hdpview.domain import Attribute, Category, Datetime, Integer, Real, Schema, TextFormat
from hdpview.errors import DataError

RowCodes = Callable[..., NDArray[np.int64]]
whole = Integer(name="x", min=0, max=9, nullable=True)
real = Real(name="x", min=0.0, max=10.0, bins=10, nullable=True)
days = Datetime(name="x", min="2020-01-01", max="2020-12-31", every="1d", nullable=True)
hours = Datetime(name="x", min="2020-01-03", max="2020-01-03", every="1h", nullable=True)
bands = Category(name="x", values=("low", "high"), other="rest", aliases={"low": ("L", "1")}, nullable=True)


def codes(attribute: Attribute, text: TextFormat, *texts: str | None) -> list[int]:
    rows = Integer(name="row", min=0, max=max(len(texts) - 1, 0))
    table = pa.table({"row": range(len(texts)), "x": pa.array(texts, pa.string())})
    counts = read_counts(table, Schema([rows, attribute], source=text), ReadOptions(threads=1))
    assert (counts.exact_counts == 1).all()
    return [int(code) for _, code in sorted(counts.exact_codes.tolist())]


def test_decimal_commas_and_signs_of_thousands():
    comma = TextFormat(decimal=",")
    assert codes(real, comma, "1,5", " 7,25 ", "3", "-1,0", "2.5", "1,2,3", ",5") == [1, 7, 3, 0, 10, 10, 0]
    grouped = TextFormat(decimal=",", thousands=".")
    large = Real(name="x", min=0.0, max=10_000.0, bins=10, nullable=True)
    assert codes(large, grouped, "1.234,5", "9.999", "12.34", "2345,0", "1.234.567") == [1, 9, 10, 2, 9]
    assert codes(large, TextFormat(thousands="'"), "1'234.5", "1234") == [1, 1]
    assert codes(whole, comma, "7,9", "7") == [7, 7]


def test_dates_in_declared_formats():
    text = TextFormat(dates=("%d.%m.%Y", "%m/%d/%y", "%d-%b-%Y"))
    read = "03.01.2020|3.1.2020|01/03/20|3-Jan-2020|03-January-2020|2020-01-03| 03.01.2020 "
    assert set(codes(days, text, *read.split("|"))) == {2}
    unread = "31.02.2020|03.13.2020|3-Foo-2020|03.01.20|03.01.2020 10:00||x"
    assert set(codes(days, text, *unread.split("|"))) == {days.missing_code}


def test_times_of_both_clocks():
    text = TextFormat(dates=("%m/%d/%Y %I:%M %p", "%d.%m.%Y %H:%M:%S"))
    read = "1/3/2020 12:05 AM|01/03/2020 1:05 pm|01/03/2020 12:00 p.m.|3.1.2020 23:59:59|3.1.2020 7:00:00"
    assert codes(hours, text, *read.split("|")) == [0, 13, 12, 23, 7]
    assert codes(hours, text, "1/3/2020 13:05 PM", "3.1.2020 24:00:01", "1/3/2020 0:05 AM") == [24] * 3


def test_two_digit_years_have_a_century():
    century = Datetime(name="x", min="1900-01-01", max="2099-12-31", every="1y")
    text = TextFormat(dates=("%d.%m.%y",))
    assert codes(century, text, "01.01.68", "01.01.69", "01.01.00") == [168, 69, 100]


def test_marks_for_missing_values():
    text = TextFormat(missing=("?", "NA", "-9"))
    assert codes(whole, text, "?", " NA ", "-9", "na", "5") == [10, 10, 10, 10, 5]
    assert codes(bands, text, "?", "NA", "low", "zzz", "") == [3, 3, 0, 2, 3]
    assert codes(Category(name="x", values=("NA", "DE"), nullable=True), text, "NA", "?") == [0, 2]
    assert codes(Integer(name="x", min=0, max=9, missing=4), text, "?", "", "x", "7") == [4, 4, 4, 7]


def test_aliases_count_as_their_values():
    assert codes(bands, TextFormat(), "L", "low", "1", "l", "high") == [0, 0, 0, 2, 1]
    many = {"low": tuple(f"L{i}" for i in range(200))}
    long = Category(name="x", values=("low", "high"), aliases=many, other="rest")
    assert codes(long, TextFormat(), "L0", "L199", "L200", "high") == [0, 0, 2, 1]
    numbers = read_counts(pa.table({"x": [1, 1, 2]}), Schema([bands]))
    assert sorted(zip(numbers.exact_codes[:, 0], numbers.exact_counts, strict=True)) == [(0, 2), (2, 1)]


def test_unequal_bins_of_whole_numbers():
    bins = Integer(name="x", explicit_edges=(0, 1, 5, 10), nullable=True)
    texts = ("-3", "0", "1", "4", "5", "9", "10", "99", "4.9", None)
    assert codes(bins, TextFormat(), *texts) == [0, 0, 1, 1, 2, 2, 2, 2, 1, 3]
    ends = Integer(name="x", explicit_edges=(-(2**62), -1, 0, 2**61))
    assert codes(ends, TextFormat(), str(-(2**63)), "-2", "-1", "0", str(2**63 - 1)) == [0, 0, 1, 2, 2]


def cells(path: Path, content: bytes, text: TextFormat, *attributes: Attribute) -> dict[tuple[int, ...], int]:
    pack = {".gz": gzip.compress, ".zst": lambda text: pa.compress(text, "zstd", asbytes=True)}
    path.write_bytes(pack.get(path.suffix, bytes)(content))
    counts = read_counts(path, Schema(attributes, source=text))
    return dict(zip(map(tuple, counts.exact_codes.tolist()), counts.exact_counts.tolist(), strict=True))


cities = Category(name="Größe", values=("Köln", "Łódź"), other="other", nullable=True)


@pytest.mark.parametrize(
    ("encoding", "known"), [("cp1252", 1), ("latin-1", 1), ("utf-16", 2), ("utf-8", 2), ("iso8859-2", 2)]
)
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".csv.zst"])
def test_encodings(tmp_path, encoding, known, suffix):
    lines = ["Größe;y", "Köln;1", "Łódź;2"][: 1 + known]
    content = "\r\n".join(lines).encode(encoding)
    found = cells(tmp_path / f"a{suffix}", content, TextFormat(separator=";", encoding=encoding), cities)
    assert found == {(code,): 1 for code in range(known)}


def test_bytes_of_another_encoding_lose_no_line(tmp_path):
    y = Integer(name="y", min=0, max=9, nullable=True)
    content = b"x,y\nlow,1\n" + b"K\xf6ln,2\n\xff\xfe,\xff\n" + b"high,3\n"
    expected = {(0, 1): 1, (2, 2): 1, (2, 10): 1, (1, 3): 1}
    assert cells(tmp_path / "a.csv", content, TextFormat(), bands, y) == expected


@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_only_overlong_lines_are_left_out(tmp_path, monkeypatch, ending, suffix):
    monkeypatch.setattr(files, "LONGEST_LINE", 50)
    fields = [b"1" * 40, b"2" * 80, b'"' + b"3" * 400 + b'"', b"4" * 47, b"5"]
    lines = [b"x,y", *(b"low," + field for field in fields), b"high," + b"6" * 50]
    content = ending.join([*lines, b""])
    assert cells(tmp_path / f"a{suffix}", content, TextFormat(), bands) == {(0,): 2}


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.binary(max_size=6).filter(lambda line: not set(line) & set(b'\r\n"')), min_size=1, max_size=8)
)
def test_every_line_is_counted_once(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("lines") / "a.csv"
    content = b"x,y\n" + b"".join(b"a" + line + b"\n" for line in lines)
    assert sum(cells(path, content, TextFormat(separator=","), bands).values()) == len(lines)


def test_quotes_mean_nothing_where_the_schema_says_so(tmp_path):
    content = b'x,y\nlow,"1\nhigh,2\n'
    assert sum(cells(tmp_path / "a.csv", content, TextFormat(quote=""), bands).values()) == 2


def test_files_without_a_header_line(tmp_path):
    text = TextFormat(columns=("x", "y"))
    assert cells(tmp_path / "a.csv", b"low,1\nhigh,2\n", text, bands) == {(0,): 1, (1,): 1}


@pytest.mark.parametrize(
    ("content", "text", "words"),
    [
        (b"x,y\n1,2\n", {"separator": ";"}, r"is not split by the schema's separator ';', but by ','"),
        (b"x,y\n1,2\n", {"columns": ("x", "y", "z")}, r"has 2 fields, but \[source\] columns names 3"),
        ("größe,y\n1,2\n".encode("latin-1"), {}, r"as utf-8\. .*encoding = \"cp1252\""),
        (b"", {}, r"no header line.*\[source\] columns"),
    ],
)
def test_headers_that_do_not_fit_are_refused(tmp_path, content, text, words):
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    for look in (
        lambda: column_types(path, TextFormat(**text)),
        lambda: read_counts(path, Schema([whole], source=TextFormat(**text))),
    ):
        with pytest.raises(DataError, match=words):
            look()
