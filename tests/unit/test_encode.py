"""Reading tables: one example per rule of encoding, odd column types, and sources that cannot be read."""

import gzip
import warnings
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from hdpview.counts.draft import draft_schema
from hdpview.counts.ingest import ReadOptions, check_columns, column_types, read_counts
from hdpview.domain import Attribute, Boolean, Category, Datetime, Integer, Real, Schema
from hdpview.errors import DataError

RowCodes = Callable[..., NDArray[np.int64]]
# Ibis calls DuckDB by names that DuckDB has renamed.
OLD_NAMES = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")
AGE = Schema([Integer(name="age", min=0, max=99)])
whole = Integer(name="x", min=0, max=9, nullable=True)
real = Real(name="x", min=0.0, max=1.0, bins=10, nullable=True)
sexes = Category(name="x", values=("Female", "Male"), nullable=True)
truth = Boolean(name="x", nullable=True)
days = Datetime(name="x", min="2020-01-01", max="2020-01-10", every="1d", nullable=True)


def text_codes(row_codes: RowCodes, attribute: Attribute, *texts: str | None) -> list[int]:
    return column_codes(row_codes, attribute, pa.array(texts, pa.string()))


def column_codes(row_codes: RowCodes, attribute: Attribute, column: Any) -> list[int]:
    codes: list[int] = row_codes(
        pa.table({"row": range(len(column)), "x": column}), attribute, n_rows=len(column)
    )[:, 0].tolist()
    return codes


def test_text_is_read_as_numbers(row_codes):
    texts = f"7| 7 |+7|-7|7.9|70e-1|7.|.7e1|007|{'9' * 60}|-{'9' * 25}|inf|-Infinity".split("|")
    assert text_codes(row_codes, whole, *texts) == [7, 7, 7, 0, 7, 7, 7, 7, 7, 9, 0, 9, 0]
    unread = "| |nan|seven|7 7|0x7|7e|--7|+-7|7,5|1_0|.|e5|٣|1e1000x|7\n"
    assert set(text_codes(row_codes, whole, None, *unread.split("|"))) == {whole.missing_code}


def test_far_exponents_in_text_are_numbers(row_codes):
    sides = Real(name="x", explicit_edges=(-1e300, -1e-300, 0.0, 1e-300, 1e300), nullable=True)
    assert text_codes(
        row_codes, sides, "1e400", "-1.5E+999", "5e-324", "-5e-324", "1e-307", "2.5e200", "-0.0"
    ) == [3, 0, 2, 1, 2, 3, 2]


def test_missing_values_have_a_code(row_codes):
    reals = pa.array([None, float("nan"), 0.95])
    other = Category(name="x", values=("a",), other="o", nullable=True)
    for attribute, column, expected in (
        (real, reals, [10, 10, 9]), (Real(name="x", min=0.5, max=1.0, bins=5), reals, [0, 0, 4]),
        (truth, pa.nulls(2), [2, 2]), (other, pa.nulls(1), [2]),
    ):  # fmt: skip
        assert column_codes(row_codes, attribute, column) == expected


def test_long_lists_of_declared_values_hold_any_text(row_codes):
    values = ("a\0b", "", "it's", "é", *(f"value {i}" for i in range(65_000)))
    many = Category(name="x", values=values, other="rest")
    odd = ["a\0b", "", "it's", "é", "VALUE 1"]
    wanted = np.random.default_rng(0).integers(0, 65_000, 2_000)
    codes = text_codes(row_codes, many, *odd, *(f"value {i}" for i in wanted))
    assert codes == [0, 1, 2, 3, many.unknown_code, *(wanted + 4).tolist()]


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
def test_not_a_number_in_parquet_is_missing(tmp_path, kind, statistics):
    """Parquet's statistics ignore NaN."""
    file, expected = tmp_path / "reals.parquet", {0: 1, 9: 1, 10: 5}
    for ends in ([float("-inf"), float("inf")], [0.05, 0.95]):
        reals = pa.table({"x": pa.array([*ends, *[float("nan")] * 5], kind)})
        pq.write_table(reals, file, write_statistics=statistics)
        assert _counted(file) == expected
    with duckdb.connect() as connection, warnings.catch_warnings():
        # Ibis 12 calls DuckDB by names that DuckDB 2 has renamed.
        warnings.simplefilter("ignore", DeprecationWarning)
        connection.execute(f"CREATE VIEW reals AS SELECT * FROM read_parquet('{file}')")
        assert _counted(ibis.duckdb.from_connection(connection).table("reals")) == expected


def _counted(source: Any) -> dict[int, int]:
    exact = read_counts(source, Schema([real]))
    return dict(sorted(zip(exact.exact_codes[:, 0].tolist(), exact.exact_counts.tolist(), strict=True)))


def test_categories_by_number_and_truth(row_codes):
    short = Category(name="x", values=("1", "2.5", "true", "false", "-7"), other="rest", nullable=True)
    long = replace(short, values=(*short.values, *(f"filler {i}" for i in range(100))))
    for attribute in (short, long):
        rest, missing = attribute.unknown_code, attribute.missing_code
        for column, expected in (
            (pa.array([1, -7, 2, None]), [0, 4, rest, missing]),
            (pa.array([1.0, 2.5, -7.0, 2.4999, float("nan")]), [0, 1, 4, rest, missing]),
            (pa.array([True, False, None]), [2, 3, missing]),
            (pa.array(["1", "1.0", None]).dictionary_encode(), [0, rest, missing]),
        ):
            assert column_codes(row_codes, attribute, column) == expected


def test_declared_numbers_match_however_they_are_spelled(row_codes):
    spelled = Category(name="x", values=("007", "+1.0", "2.50", "-3."), other="rest")
    assert column_codes(row_codes, spelled, pa.array([7.0, 1.0, 2.5, -3.0, 4.0])) == [0, 1, 2, 3, 4]
    assert column_codes(row_codes, spelled, pa.array([7, 1, -3, 4])) == [0, 1, 3, 4]
    assert text_codes(row_codes, spelled, "007", "7", "2.50") == [0, 4, 2]


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (pd.DataFrame({0: [1]}), "must be texts, but one is 0"),
        (pd.DataFrame({("a", "b"): [1]}), r"one is \('a', 'b'\)"),
        (pd.DataFrame([[1, 2]], columns=["age", "age"]), "two columns named 'age'"),
        (pd.DataFrame(), "no columns"),
    ],
)
def test_frames_whose_columns_cannot_be_named_are_refused_in_words(frame, words):
    with pytest.raises(DataError, match=words):
        read_counts(frame, AGE)


@OLD_NAMES
@pytest.mark.parametrize("n_more", [10, 70])
def test_a_database_that_sees_no_case_counts_each_row_once(n_more):
    """Where `a` equals `A`, a row must not match both categories."""
    connection = ibis.duckdb.connect()
    connection.raw_sql("CREATE TABLE t (b VARCHAR COLLATE NOCASE)")
    connection.raw_sql("INSERT INTO t VALUES ('a'), ('A'), ('A'), ('V3'), ('?')")
    values = ("a", "A", *(f"{letter}{i}" for i in range(n_more) for letter in "vV"))
    counts = read_counts(connection.table("t"), Schema([Category(name="b", values=values, other="other")]))
    assert counts.exact_counts.sum() == 5
    connection.disconnect()


def test_truth_in_many_spellings(row_codes):
    words = "TRUE|t|Yes|y|1|False|f|no|N|0|maybe||"
    assert text_codes(row_codes, truth, *words.split("|"), None) == [1] * 5 + [0] * 5 + [2] * 4
    numbers = pa.array([0.0, -0.0, 0.5, float("nan"), float("inf")])
    assert column_codes(row_codes, truth, numbers) == [0, 0, 1, 2, 1]


def test_moments_in_text(row_codes):
    read = (
        "2020-01-03| 2020-01-03 |2020-01-03T23:59|2020-01-03 23:59:59.999999999|2020-01-03t23:30:01,5 z|"
        "2020-01-04T01:30:00+02:00|2020-01-03T23:30Z|2020-01-02T24:00|2020-01-02T23:30-0100|1850-02-28|9999-12-31"
    )
    assert text_codes(row_codes, days, *read.split("|")) == [2] * 9 + [0, 9]
    unread = (
        "2020-02-30|2021-02-29|2020-13-01|2020-00-10|0000-01-01|2020-01-03T24:01|2020-1-3|03/01/2020|"
        "2020-01-03T|2020-01-03T23|x|"
    )
    assert set(text_codes(row_codes, days, *unread.split("|"))) == {days.missing_code}


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Europe/Paris"])
def test_moments_of_every_unit(row_codes, unit, zone, tmp_path):
    at = [datetime(2020, 1, 1), datetime(2020, 1, 3, 23, 59, 59), datetime(1700, 1, 1), None]
    table = pa.table({"row": range(4), "x": pa.array(at, pa.timestamp(unit, zone))})
    pq.write_table(table, tmp_path / "moments.parquet")
    for source in (table, tmp_path / "moments.parquet"):
        assert row_codes(source, days, n_rows=4)[:, 0].tolist() == [0, 2, 0, 10]


def test_nanoseconds_are_rounded_down(row_codes):
    attribute = Datetime(name="x", min="1969-12-31", max="1970-01-01", every="1d")
    moments = pa.array([-1, 0, 86_399_999_999_999], pa.timestamp("ns"))
    assert column_codes(row_codes, attribute, moments) == [0, 1, 1]


def test_odd_column_types(row_codes):
    assert column_codes(row_codes, whole, pa.array([1.5, 99.0], pa.float16())) == [1, 9]
    uuid, largest = "12345678-1234-5678-1234-567812345678", 2**128 - 1
    for attribute, query, code in (
        (whole, f"SELECT {largest}::UHUGEINT AS x", 10), (whole, "SELECT 3::UHUGEINT AS x", 3),
        (whole, "SELECT sum(x) AS x FROM range(4) t(x)", 6),
        (Category(name="x", values=("a", uuid)), f"SELECT '{uuid}'::UUID AS x", 1),
    ):  # fmt: skip
        relation = duckdb.sql(f"SELECT 0 AS row, x FROM ({query})")
        assert row_codes(relation, attribute, n_rows=1).tolist() == [[code]]


def test_objects_are_read_one_by_one(row_codes):
    values = [3, "4", 5.0, None, pd.NA, float("nan"), True, "x", pd.Timestamp("2020-01-02")]
    frame = pd.DataFrame({"row": range(len(values)), "x": pd.Series(values, dtype=object)})
    assert row_codes(frame, whole, n_rows=len(values))[:, 0].tolist() == [3, 4, 5, 10, 10, 10, 10, 10, 10]
    # pandas infers types from the first rows only
    late = pd.DataFrame({"row": range(200), "x": pd.Series(["1"] * 199 + [2], dtype=object)})
    assert row_codes(late, whole, n_rows=200)[:, 0].tolist() == [1] * 199 + [2]


def test_two_hundred_attributes():
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 30, 200)
    values = np.array([rng.integers(0, size, 50) for size in sizes]).T
    schema = Schema(Integer(name=f"c{i}", min=0, max=int(size) - 1) for i, size in enumerate(sizes))
    counts = read_counts(pa.table({f"c{i}": values[:, i] for i in range(200)}), schema)
    assert counts.exact_codes.flags.c_contiguous
    assert counts.exact_codes.dtype == np.uint8
    assert sorted(counts.exact_codes.tolist()) == sorted(values.tolist())


def test_equal_rows_are_one_cell():
    counts = read_counts(pa.table({"age": [5, 5, 7, 5, None]}), AGE)
    cells = dict(zip(counts.exact_codes[:, 0].tolist(), counts.exact_counts.tolist(), strict=True))
    assert cells == {5: 3, 7: 1, 0: 1}
    empty = read_counts(pa.table({"age": pa.array([], pa.int64())}), AGE)
    assert empty.exact_codes.shape == (0, 1)
    assert empty.exact_counts.dtype == np.int64


def csv_counts(path: Path, content: bytes) -> dict[tuple[int, ...], int]:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    counts = read_counts(path, Schema([whole, Integer(name="y", min=0, max=9, nullable=True)]))
    return dict(zip(map(tuple, counts.exact_codes.tolist()), counts.exact_counts.tolist(), strict=True))


@pytest.mark.parametrize(
    "content",
    [
        b"x,y\n1,2\n3,\n", b'\xef\xbb\xbfx,y\r\n1,2\r\n3,""\r\n', b"y;x\n2;1\n;3\n",
        b'"x",y,z\n1,2\n3,,,,,\n', b"x\ty\n1\t2\n3",
    ],
)  # fmt: skip
def test_csv_in_many_shapes(tmp_path, content):
    suffix = ".tsv.gz" if b"\t" in content else ".csv"
    assert csv_counts(tmp_path / f"a[1]{suffix}", content) == {(1, 2): 1, (3, 10): 1}


def test_odd_csv_lines_do_not_raise(tmp_path):
    assert csv_counts(tmp_path / "a.csv", b'x,y\n1,"2\n2"\n3\n') == {(1, 10): 1, (3, 10): 1}
    assert csv_counts(tmp_path / "b.csv", b"x,y\n1,\xff\n3,4\n") == {(1, 10): 1, (3, 4): 1}


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("absent.parquet", None, "no file"), ("table.xlsx", b"", "not a table"),
        ("empty.csv", b"", "no header"), ("broken.csv.gz", b"not gzip", "not a complete file packed by gzip"),
        ("zipped.csv", b"PK\x03\x04\x14\x00\xff", "an Excel or ZIP file"),
        ("titled.csv", b"Report\na,b\n1,2\n", "looks like a title"),
        ("stated.csv", b"sep=;\na;b\n1;2\n", "only states the separator"),
        ("twice.csv", b"a,A\n1,2\n", "two columns named 'a'"),
        ("broken.parquet", b"PAR1 secret PAR1", "refused to read"),
        ("list.jsonl", b"[{}]", "one JSON object per line"), ("empty.jsonl", b"", "one JSON object per line"),
        ("folder", None, "contains no table"),
    ],
)  # fmt: skip
def test_sources_that_cannot_be_read(private_tmp, tmp_path, name, content, words):
    path = tmp_path / name
    if name == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    for read in (lambda: read_counts(path, AGE), lambda: column_types(str(path)), lambda: draft_schema(path)):
        with pytest.raises(DataError, match=words) as caught:
            read()
        assert "secret" not in str(caught.value)


def test_a_packed_file_without_its_end_is_refused(tmp_path):
    lines = b"age\n" + b"".join(b"%d\n" % (i * i % 9973) for i in range(100_000))
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(lines)[:100_000])
    with pytest.raises(DataError, match="ends too early"):
        read_counts(tmp_path / "cut.csv.gz", AGE)


@pytest.mark.parametrize("odd", ["[1]", "{oops", '"x"', "3", ""])
def test_an_odd_line_of_json_changes_no_other(tmp_path, odd):
    (tmp_path / "t.jsonl").write_text('{"x": 1}\n{"x": 2}\n' + odd + "\n")
    counts = read_counts(tmp_path / "t.jsonl", Schema([Integer(name="x", min=0, max=2, nullable=True)]))
    assert sorted(counts.exact_codes[:, 0].tolist()) == ([1, 2, 3] if odd else [1, 2])


def test_what_is_no_table_is_refused():
    with pytest.raises(DataError, match=r"ibis\.connect") as caught:
        column_types("postgres://me:secret@host/db")
    assert "secret" not in str(caught.value)
    with pytest.raises(DataError, match="'list' is not a table"):
        read_counts([1, 2], AGE)
    with pytest.raises(DataError, match="'4GB'"):
        read_counts(pa.table({"age": [1]}), AGE, ReadOptions(memory_limit="a lot"))


def test_files_read_together_need_one_header(tmp_path):
    (tmp_path / "a.csv").write_text("age\n1\n")
    (tmp_path / "b.csv").write_text("years\n1\n")
    with pytest.raises(DataError, match="same header"):
        read_counts(tmp_path / "*.csv", AGE)
    pq.write_table(pa.table({"age": [1]}), tmp_path / "c.parquet")
    with pytest.raises(DataError, match="mixes"):
        read_counts(tmp_path, AGE)


def test_columns_are_checked_by_name_and_type():
    with pytest.raises(DataError, match="Did you mean 'Age'"):
        read_counts(pd.DataFrame({"Age": [1], "other": [2]}), AGE)
    with pytest.raises(DataError, match=r"timestamp.*cannot be read as integer"):
        check_columns({"age": "timestamp with time zone"}, AGE)
    with pytest.raises(DataError, match="cannot be read as datetime"):
        check_columns({"x": "bigint"}, Schema([days]))
    assert column_types(pa.table({"age": [1], "name": ["x"]})) == {"age": "bigint", "name": "varchar"}


@OLD_NAMES
def test_errors_of_the_database_quote_no_value():
    backend = ibis.duckdb.connect()
    backend.con.execute("CREATE TABLE people AS SELECT 'secret' AS age")
    people = backend.table("people")
    with pytest.raises(DataError) as caught:
        read_counts(people.mutate(age=people.age.cast("int64")), AGE)
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


def test_large_tables_spill_and_report(private_tmp, tmp_path):
    path, seen = tmp_path / "large.parquet", []
    duckdb.sql("SELECT i % 50000 AS a, i // 50000 AS b FROM range(1500000) t(i)").write_parquet(str(path))
    schema = Schema([Integer(name="a", min=0, max=49_999), Integer(name="b", min=0, max=29)])
    options = ReadOptions(memory_limit="60MB", threads=2, progress=lambda share, _: seen.append(share))
    counts = read_counts(path, schema, options)
    assert counts.exact_counts.sum() == len(counts.exact_counts) == 1_500_000
    assert counts.exact_codes.dtype == np.uint16
    assert all(share is None or 0 <= share <= 1 for share in seen)
