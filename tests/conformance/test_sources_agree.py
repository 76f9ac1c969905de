"""The same awkward columns give the same codes from every source: those of the rules in NumPy and Python."""

import csv
import itertools
import math
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import ibis
import numpy as np
import pandas as pd
import polars as pl
import psycopg
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from hdpview import preview
from hdpview.counts import postgresql
from hdpview.counts.contributions import EACH_ROW, Contributions
from hdpview.counts.encode import NOT_TEXT
from hdpview.counts.exact_statistics import Counts
from hdpview.counts.ingest import ReadOptions, read_counts
from hdpview.counts.stream import streamed_counts
from hdpview.domain import Attribute, Boolean, Category, Datetime, Integer, Real, Schema
from hdpview.domain.calendar import microseconds
from hdpview.domain.table_shapes import CodeBoxes, TableShape
from hdpview.domain.text_format import PLAIN
from hdpview.privacy.exact import unprotected
from hdpview.spark.open_table import pieces_of

RowCodes = Callable[..., NDArray[np.int64]]
Postgres = tuple[psycopg.Connection[Any], Any]

MANY = (*(f"value {number}" for number in range(300)), "é", "日本")
ATTRIBUTES: tuple[Attribute, ...] = (
    Integer(name="whole", min=-7, max=90, every=5, nullable=True),
    Integer(name="extreme", min=-(2**63), max=-2, every=2**48, nullable=True),
    Real(name="real", min=0.0, max=1.0, bins=10, nullable=True),
    Real(
        name="edged",
        explicit_edges=(-1e300, -0.0, 5e-324, 1e-300, 1 / 3, 0.30000000000000004 + 0.1, 1e300),
        nullable=True,
    ),
    Real(name="single", min=-1.0, max=1.0, bins=7),
    Category(
        name="word", values=("a", "A", "é", "日本", 'quote\'s, "x"', "b\\\\s"), other="other", nullable=True
    ),
    Category(name="many", values=MANY, nullable=True),
    Category(name="number", values=("1", "2", "-3", "x"), other="other", nullable=True),
    Boolean(name="truth", nullable=True),
    Datetime(name="day", min="1950-01-15", max="2030-06-30", every="1mo", nullable=True),
    Datetime(name="moment", min="1969-12-31T12:00:00", max="1970-01-02", every="1h", nullable=True),
    Datetime(name="aware", min="1900-01-01", max="2100-12-31", every="1y", nullable=True),
)
PARIS = timezone(timedelta(hours=2))
_edges = Real(name="real", min=0.0, max=1.0, bins=10).edges
VALUES: dict[str, list[Any]] = {
    "whole": [None, -(2**63), 2**63 - 1, -8, -7, -3, -2, 0, 89, 90, 91],
    "extreme": [None, -(2**63), -(2**63) + 1, 2**63 - 1, -(2**63) + 2**48 - 1, -(2**63) + 2**48,
        -(2**62) - 1, -3, -2, 0],
    "real": [None, math.nan, math.inf, -math.inf, -0.0, 0.0, *_edges, *np.nextafter(_edges, -1),
        *np.nextafter(_edges, 2)],
    "edged": [None, math.nan, math.inf, -0.0, 0.0, -1e-310, 1e-300, 1 / 3, float(np.nextafter(1 / 3, 0)),
        0.4, 1e300, 1.7e308, -1.7e308],
    "single": [None, -1.0, 0.5, math.inf, math.nan, float(np.float32(-5 / 7)), float(np.float32(1 / 7))],
    "word": [None, "", "a", "A", "a ", "é", "É", "日本", "quote's, \"x\"", "line\nbreak", "NULL", "nan",
        "b\\\\s", "b\\s"],
    "many": [None, "", "value 0", "value 299", "value 300", "Value 1", "é", "日本"],
    "number": [None, 1, 2, -3, 4, 2**63 - 1],
    "truth": [None, True, False],
    "day": [
        None, date(1, 1, 1), date(1950, 1, 14), date(1950, 1, 31), date(1950, 2, 1), date(1969, 12, 31),
        date(2000, 2, 29),
        date(9999, 12, 31),
    ],
    "moment": [
        None, datetime(1, 1, 1), datetime(1969, 12, 31, 11, 59, 59, 999_999), datetime(1969, 12, 31, 13),
        datetime(1970, 1, 1),
        datetime(1969, 12, 31, 23, 59, 59, 999_999), datetime(1970, 1, 2, 23, 59, 59, 999_999),
        datetime(1970, 1, 3),
        datetime(9999, 12, 31, 23),
    ],
    "aware": [
        None, datetime(1969, 12, 31, 23, 30, tzinfo=UTC), datetime(1970, 1, 1, 1, 59, tzinfo=PARIS),
        datetime(2000, 1, 1, 3, tzinfo=PARIS),
    ],
}  # fmt: skip
TYPES = {
    "whole": (pa.int64(), "bigint"), "extreme": (pa.int64(), "bigint"), "real": (pa.float64(), "float8"),
    "edged": (pa.float64(), "float8"),
    "single": (pa.float32(), "real"), "word": (pa.string(), "text"), "many": (pa.string(), "varchar"),
    "number": (pa.int64(), "bigint"),
    "truth": (pa.bool_(), "boolean"), "day": (pa.date32(), "date"),
    "moment": (pa.timestamp("us"), "timestamp"),
    "aware": (pa.timestamp("us", "Europe/Paris"), "timestamptz"),
}  # fmt: skip
POSTGRES_TYPES = {"row": "bigint", **{name: kind for name, (_, kind) in TYPES.items()}}
N_ROWS = max(map(len, VALUES.values()))


def padded() -> dict[str, list[Any]]:
    return {
        "row": list(range(N_ROWS)),
        **{name: [values[i % len(values)] for i in range(N_ROWS)] for name, values in VALUES.items()},
    }


def arrow_table() -> pa.Table:
    types = {"row": pa.int64(), **{name: arrow for name, (arrow, _) in TYPES.items()}}
    return pa.table({name: pa.array(values, types[name]) for name, values in padded().items()})


def expected_code(attribute: Attribute, value: Any) -> int:
    """The rules, once more, for one value in plain Python."""
    if isinstance(attribute, Category):
        text = None if value is None else str(value)
        known: dict[str | None, int] = {known: code for code, known in enumerate(attribute.values)}
        return known.get(text, attribute.missing_code if text in (None, "") else attribute.unknown_code)
    if value is None or value != value:
        return attribute.missing_code
    if isinstance(attribute, Boolean):
        return int(value)
    position = microseconds(value) if isinstance(attribute, Datetime) else value
    return int(
        np.searchsorted(attribute.edges[1:-1], np.asarray(position, attribute.edges.dtype), side="right")
    )


def expected() -> list[list[int]]:
    columns = padded()
    codes = [[expected_code(each, value) for value in columns[each.name]] for each in ATTRIBUTES]
    return np.transpose(codes).tolist()


def write_csv(path: Path) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)  # None is written as nothing
        writer.writerow(padded())
        writer.writerows(zip(*padded().values(), strict=True))
    return path


def write_parquet(path: Path) -> Path:
    pq.write_table(arrow_table(), path, row_group_size=7)
    return path


def as_folder(path: Path) -> Path:
    path.mkdir()
    table = arrow_table()
    for part, start in enumerate(range(0, N_ROWS, 10)):
        pq.write_table(table.slice(start, 10), path / f"part-{part}.parquet")
    return path


def pandas_of_objects() -> pd.DataFrame:
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in padded().items()})


def ibis_on_duckdb() -> ibis.Table:
    connection = ibis.duckdb.connect()
    connection.con.register("given", arrow_table())
    connection.con.execute("CREATE TABLE made AS SELECT * FROM given")
    return connection.table("made")


SOURCES: dict[str, Callable[[Path], Any]] = {
    "csv": lambda folder: write_csv(folder / "table.csv"),
    "parquet": lambda folder: str(write_parquet(folder / "table.parquet")),
    "folder of parquet": lambda folder: as_folder(folder / "parts"),
    "glob of parquet": lambda folder: str(as_folder(folder / "parts") / "*.parquet"),
    "pandas": lambda _: arrow_table().to_pandas(types_mapper=pd.ArrowDtype),
    "pandas of objects": lambda _: pandas_of_objects(),
    "polars": lambda _: pl.from_arrow(arrow_table()),
    "polars lazy": lambda _: pl.from_arrow(arrow_table()).lazy(),
    "arrow table": lambda _: arrow_table(),
    "arrow reader": lambda _: arrow_table().to_reader(max_chunksize=5),
    "arrow dataset": lambda folder: pads.dataset(write_parquet(folder / "table.parquet")),
    "duckdb relation": lambda _: duckdb.from_arrow(arrow_table()),
    "ibis on duckdb": lambda _: ibis_on_duckdb(),
    "ibis memtable": lambda _: ibis.memtable(arrow_table()),
}


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")  # by Ibis in the test's set-up
def test_every_source_gives_the_same_codes(kind, row_codes, tmp_path):
    codes = row_codes(SOURCES[kind](tmp_path), *ATTRIBUTES, n_rows=N_ROWS)
    assert codes.tolist() == expected()


@pytest.mark.parametrize(
    "kind", ["csv", "parquet", "folder of parquet", "pandas of objects", "polars", "arrow reader"]
)
def test_pieces_for_workers_give_the_same_codes(kind, row_codes, tmp_path):
    pieces, columns, read = pieces_of(SOURCES[kind](tmp_path), list(padded()), PLAIN, [])
    rows = pa.RecordBatchReader.from_batches(columns, read(iter(pieces.to_batches(max_chunksize=1))))
    assert row_codes(rows, *ATTRIBUTES, n_rows=N_ROWS).tolist() == expected()


def test_pieces_of_json_lines_have_the_keys_of_all_files(tmp_path):
    (tmp_path / "1.jsonl").write_text('{"a": 1}\n')
    (tmp_path / "2.jsonl").write_text('{"b": "x"}\n')
    pieces, columns, read = pieces_of(tmp_path, ["a", "b"], PLAIN, [])
    rows = pa.Table.from_batches(read(iter(pieces.to_batches())), columns)
    assert rows.to_pylist() == [{"a": "1", "b": None}, {"a": None, "b": "x"}]


def test_a_person_who_is_an_attribute_too_has_the_same_codes():
    limits = Contributions("number", 1_000_000)
    schema = Schema([attribute for attribute in ATTRIBUTES if attribute.name == "number"])
    both_counts = [
        read_counts(source, schema, ReadOptions(limits=limits, salt="s"))
        for source in (pandas_of_objects(), arrow_table())
    ]
    shape = TableShape.of_codes((0,), schema.sizes)
    of_objects, of_numbers = (unprotected(next(iter(counts.exact_tables([shape])))) for counts in both_counts)
    assert of_objects.tolist() == of_numbers.tolist()


LIMITS = {
    "each row": EACH_ROW, "persons": Contributions("number", 2), "aggregated": Contributions(count="row"),
    "persons, aggregated": Contributions("number", 40, "row"),
}  # fmt: skip


def statistics_of(counts: Counts) -> list[list[int]]:
    """Tables of one, two and three attributes, with a bin per code and with few bins, and counts of boxes."""
    rng, sizes = np.random.default_rng(3), counts.schema.sizes
    shapes = [TableShape.of_codes((a,), sizes) for a in range(len(sizes))]
    shapes += [
        TableShape(attributes, tuple(np.arange(sizes[a], dtype=np.int32) * 7 // sizes[a] for a in attributes))
        for n in (2, 3)
        for attributes in itertools.combinations(range(0, len(sizes), 1 + (len(sizes) > 3)), n)
    ]
    attribute = rng.integers(0, len(sizes), (60, 2))
    ends = np.sort(rng.integers(0, np.array(sizes)[attribute] + 1, (2, 60, 2)), axis=0)
    statistics = [*counts.exact_tables(shapes), counts.exact_box_counts(CodeBoxes(attribute, *ends))]
    return [unprotected(exact).reshape(-1).tolist() for exact in statistics]


@cache
def statistics_of_cells(limits: Contributions, is_marked: bool = False) -> list[list[int]]:
    """Those of the occupied cells of an Arrow table. is_marked: whether persons are called as objects are."""
    table = arrow_table()
    if is_marked:
        persons = [None if n is None else f"{n}{NOT_TEXT[True]}" for n in table["number"].to_pylist()]
        table = table.set_column(table.column_names.index("number"), "number", pa.array(persons))
    return statistics_of(read_counts(table, Schema(ATTRIBUTES), ReadOptions(limits=limits, salt="s")))


def assert_streamed_as_cells(source: Any, limits: Contributions, is_marked: bool = False) -> None:
    wanted = statistics_of_cells(limits, is_marked)
    with streamed_counts(source, Schema(ATTRIBUTES), ReadOptions(limits=limits, salt="s")) as counts:
        assert statistics_of(counts) == wanted
        assert statistics_of(counts) == wanted, "a second pass saw other rows"
    assert sum(wanted[0]) > 0


@pytest.mark.parametrize(
    ("kind", "limits"),
    [
        *((kind, "persons, aggregated") for kind in SOURCES), ("csv", "each row"), ("parquet", "persons"),
        ("pandas", "aggregated"), ("arrow reader", "each row"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")
def test_every_source_has_the_same_statistics(kind, limits, tmp_path):
    """Which rows of a person are chosen depends on the person's name; among objects, 1 differs from "1"."""
    assert_streamed_as_cells(SOURCES[kind](tmp_path), LIMITS[limits], kind == "pandas of objects")


@pytest.fixture
def postgres(postgres_url: str) -> Iterator[Postgres]:
    backend = ibis.connect(postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection, backend
    backend.disconnect()


def fill(
    connection: psycopg.Connection[Any], name: str, columns: dict[str, str], rows: Iterable[Sequence[Any]]
) -> None:
    connection.execute(f"DROP TABLE IF EXISTS {name}")
    connection.execute(
        f"CREATE TABLE {name} ({', '.join(f'{column} {kind}' for column, kind in columns.items())})"
    )
    with connection.cursor() as cursor, cursor.copy(f"COPY {name} FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)


@pytest.mark.parametrize("as_text", [False, True])
def test_postgresql_gives_the_same_codes(row_codes, postgres, as_text):
    connection, backend = postgres
    columns = padded()
    if as_text:
        columns = {
            name: [None if cell is None else str(cell) for cell in cells] for name, cells in columns.items()
        }
        here = pa.table({name: pa.array(cells, pa.string()) for name, cells in columns.items()})
        assert row_codes(here, *ATTRIBUTES, n_rows=N_ROWS).tolist() == expected()
    kinds = {name: "text" if as_text else kind for name, kind in POSTGRES_TYPES.items()}
    fill(connection, "awkward", kinds, zip(*columns.values(), strict=True))
    assert row_codes(backend.table("awkward"), *ATTRIBUTES, n_rows=N_ROWS).tolist() == expected()


@pytest.mark.parametrize("limits", LIMITS)
def test_postgresql_has_the_same_statistics(limits, postgres, monkeypatch):
    monkeypatch.setattr(postgresql, "_ROWS_PER_PART", 7)
    connection, backend = postgres
    fill(connection, "awkward", POSTGRES_TYPES, zip(*padded().values(), strict=True))
    assert_streamed_as_cells(backend.table("awkward"), LIMITS[limits])


def test_postgresql_numbers_without_bounds(row_codes, postgres):
    numbers = ["NaN", "Infinity", "-1e400", "1e-400", "0.35", "9e30", None]
    moments = ["infinity", "-infinity", "1970-01-01", "294276-01-01", None, "4713-01-01 BC", "2001-01-01"]
    connection, backend = postgres
    kinds = {"row": "int", "real": "numeric", "whole": "numeric", "at": "timestamp"}
    fill(connection, "numbers", kinds, zip(range(7), numbers, numbers, moments, strict=True))
    real = Real(name="real", min=0.0, max=1.0, bins=10, nullable=True)
    at = Datetime(name="at", min="1970-01-01", max="2000-12-31", every="1y", nullable=True)
    codes = row_codes(
        backend.table("numbers"), real, Integer(name="whole", min=0, max=9, nullable=True), at, n_rows=7
    )
    expected = [[10, 10, 30], [9, 9, 0], [0, 0, 0], [0, 0, 30], [3, 0, 31], [9, 9, 0], [10, 10, 30]]
    assert codes.tolist() == expected


def test_decimals_are_numbers(row_codes):
    table = pa.table({
        "row": [0, 1, 2],
        "wide": pa.array([Decimal(10**37), Decimal(-(10**37)), Decimal(5)], pa.decimal128(38, 0)),
        "fine": pa.array([Decimal("9.99"), Decimal("-9.99"), Decimal("0.50")], pa.decimal128(3, 2)),
        "unsigned": pa.array([2**64 - 1, 0, None], pa.uint64()),
    })  # fmt: skip
    attributes = [Integer(name=name, min=-20, max=20, every=1) for name in ("wide", "fine", "unsigned")]
    assert row_codes(table, *attributes, n_rows=3).tolist() == [[40, 29, 40], [0, 10, 20], [25, 20, 0]]


def test_every_source_is_checked_alike(postgres_url, tmp_path):
    ages = ["~20", "~30", "40", "500"] * 25
    rows = pa.table({"age": ages, "sex": ["f", "m"] * 50, "day": ["2020-01-01", "1.1.2020"] * 50})
    pq.write_table(rows, tmp_path / "t.parquet")
    schema = Schema(
        [
            Integer(name="age", min=0, max=120, nullable=True),
            Category(name="sex", values=("F", "M"), nullable=True),
            Datetime(name="day", min="2019-01-01", max="2021-12-31", every="1y", nullable=True),
        ]
    )
    backend = ibis.connect(postgres_url)
    name = f"checked_{secrets.token_hex(4)}"
    try:
        table = backend.create_table(name, rows)
        warnings = [preview(source, schema) for source in (str(tmp_path / "t.parquet"), rows, table)]
    finally:
        backend.disconnect()
    assert warnings[0] == warnings[1] == warnings[2]
    assert [each.attribute for each in warnings[0] if each.is_blocking] == ["age", "age", "sex", "day"]
