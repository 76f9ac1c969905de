"""Texts in declared spellings have the same codes in DuckDB, in PostgreSQL and on Spark."""

from pathlib import Path
from typing import Any

import ibis
import psycopg
import pyarrow as pa
import pytest

from hdpview.counts.ingest import read_counts
from hdpview.domain import Category, Datetime, Integer, Real, Schema, TextFormat
from hdpview.domain.table_shapes import TableShape
from hdpview.privacy.exact import unprotected
from sparks import ONE_WORKER

TEXT = TextFormat(
    separator=";", encoding="latin-1", decimal=",", thousands=".",
    dates=("%d.%m.%Y", "%m/%d/%y %I:%M %p", "%d-%b-%Y"), missing=("?", "k. A."),
)  # fmt: skip
NUMBERS = ["1,5", "1.234,5", "2.5", "?", " k. A. ", "", "-3", "12.34", None, "x"]
MOMENTS = [
    "03.01.2020", "01/03/20 12:30 AM", "3-Jan-2020", "31.02.2020", "?", "2020-01-04", None, "4.1.2020",
    "13/13/20 1:00 PM", "",
]  # fmt: skip
WORDS = ["Köln", "K", "?", "Bonn", "", None, "köln", "k. A.", "Essen", "E"]
SCHEMA = Schema(
    [
        Integer(name="row", min=0, max=9),
        Real(name="n", min=0.0, max=2_000.0, bins=20, nullable=True),
        Integer(name="m", explicit_edges=(0, 1, 5, 2_000), nullable=True),
        Datetime(name="at", min="2020-01-01", max="2020-01-05", every="1d", nullable=True),
        Category(
            name="city", values=("Köln", "Essen"), aliases={"Köln": ("K",), "Essen": ("E",)}, other="other",
            nullable=True,
        ),
    ],
    source=TEXT,
)  # fmt: skip
EXPECTED = [
    [0, 0, 1, 2, 0], [1, 12, 2, 2, 0], [2, 20, 3, 2, 3], [3, 20, 3, 5, 2], [4, 20, 3, 5, 3],
    [5, 20, 3, 3, 3], [6, 0, 0, 5, 2], [7, 20, 3, 3, 3], [8, 20, 3, 5, 1], [9, 20, 3, 5, 1],
]  # fmt: skip


def columns() -> dict[str, list[Any]]:
    return {"row": list(range(10)), "n": NUMBERS, "m": NUMBERS, "at": MOMENTS, "city": WORDS}


def codes(source: Any) -> list[list[int]]:
    found = read_counts(source, SCHEMA)
    assert (found.exact_counts == 1).all()
    return sorted(found.exact_codes.tolist())


def csv_file(path: Path) -> Path:
    lines = [";".join(columns())]
    lines += [
        ";".join("" if cell is None else str(cell) for cell in row)
        for row in zip(*columns().values(), strict=True)
    ]
    path.write_bytes("\r\n".join(lines).encode("latin-1"))
    return path


def test_frames_and_files_agree(tmp_path):
    assert codes(pa.table(columns())) == EXPECTED
    assert codes(csv_file(tmp_path / "a.csv")) == EXPECTED


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_postgresql_agrees(postgres_url):
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE spelled (row int, n text, m text, at text, city text)")
        with connection.cursor() as cursor:
            rows = list(zip(*columns().values(), strict=True))
            cursor.executemany("INSERT INTO spelled VALUES (%s, %s, %s, %s, %s)", rows)
        backend = ibis.connect(postgres_url)
        try:
            assert codes(backend.table("spelled")) == EXPECTED
        finally:
            backend.disconnect()
            connection.execute("DROP TABLE spelled")


@ONE_WORKER
def test_spark_agrees(spark, tmp_path):
    from hdpview.spark.counts import distributed_rows

    shapes = [TableShape.of_codes((0, i), SCHEMA.sizes) for i in range(1, len(SCHEMA))]
    for source in (spark.createDataFrame(pa.table(columns())), csv_file(tmp_path / "a.csv")):
        with distributed_rows(source, SCHEMA) as counts:
            tables = [unprotected(table) for table in counts.exact_tables(shapes)]
        assert [[row, *(int(table[row].argmax()) for table in tables)] for row in range(10)] == EXPECTED
