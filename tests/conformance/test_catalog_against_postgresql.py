"""The catalogue beside that of a real PostgreSQL with a table of the same shape: clients see no
difference."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import psycopg
import pytest

from cells import noiseless_view
from hdpview.domain import Boolean, Category, Datetime, Integer, Real, Schema
from hdpview.explore.postgres import PostgresServer, ServerSettings

SCHEMA = Schema(
    [
        Integer(name="age", min=0, max=99),
        Integer(name="Long Number", min=0, max=2**40, every=2**35),
        Real(name="weight", min=0.0, max=1.0, bins=4, nullable=True),
        Category(name="region", values=("North", "South"), nullable=True),
        Boolean(name="smoker"),
        Datetime(name="day", min="2024-01-01", max="2024-01-31", every="1d"),
        Datetime(name="at", min="2024-01-01", max="2024-01-02", every="1h"),
    ]
)
TABLE = """CREATE TABLE "People" (age integer NOT NULL, "Long Number" bigint NOT NULL,
        weight double precision,
    region text, smoker boolean NOT NULL, day date NOT NULL, at timestamp NOT NULL)"""
STATEMENTS = [
    (
        "SELECT table_schema, table_name, table_type FROM information_schema.tables WHERE table_schema = "
        "'public'"
    ),
    (
        "SELECT column_name, ordinal_position, is_nullable, data_type, udt_name, numeric_precision, "
        "numeric_scale, "
        "datetime_precision FROM information_schema.columns WHERE table_name = 'People' ORDER BY "
        "ordinal_position"
    ),
    (
        "SELECT a.attname, a.attnum, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attlen, "
        "t.typname, t.typcategory "
        "FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid WHERE a.attrelid = "
        "'\"People\"'::regclass AND attnum > 0 "
        "ORDER BY attnum"
    ),
    "SELECT relname, relkind, relnatts, relhasindex, relispartition FROM pg_class WHERE relname = 'People'",
    (
        "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE relkind = 'r' "
        "AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_toast'"
    ),
    "SELECT '\"People\"'::regclass::text, 'int4'::regtype, 23::regtype::text, to_regclass('nosuch') IS NULL",
    (
        "SELECT oid, typname, typlen, typtype, typcategory, typelem, typarray FROM pg_type "
        "WHERE typname IN ('int4', 'text', 'float8', 'bool', 'date', 'timestamp', '_text', 'oid', "
        "'name') ORDER BY oid"
    ),
    (
        "SELECT nspname FROM pg_namespace WHERE nspname IN ('public', 'pg_catalog', 'information_schema') "
        "ORDER BY 1"
    ),
    (
        "SELECT 1, 1.5, 'a', true, NULL, 1 + 1, 7 / 2, 'a' || 'b', 2 > 1, 'x' LIKE 'X', 'x' ILIKE 'X', "
        "upper('a')"
    ),
    "SELECT CASE WHEN 1 = 1 THEN 'yes' END, coalesce(NULL, 'b'), nullif(1, 1), '5'::int + 1, length('abc')",
    "SELECT i FROM generate_series(2, 4) AS g(i)",
    "SELECT 'b' = ANY(ARRAY['a', 'b']), 3 <> ALL(ARRAY[1, 2]), array_to_string(ARRAY['a', 'b'], '-')",
    "SELECT quote_ident('a b'), quote_ident('plain'), split_part('a.b', '.', 2), strpos('abc', 'c')",
    "VALUES (1, 'a'), (2, 'b')",
    (
        "SELECT attrelid::regclass::text, count(*) FROM pg_attribute WHERE attrelid = 'pg_am'::regclass "
        "AND attnum > 0 GROUP BY 1"
    ),
    "SELECT x.a FROM (SELECT 3 AS a UNION ALL SELECT 1 UNION ALL SELECT 2) x ORDER BY 1 DESC LIMIT 2",
    (
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 4) SELECT sum(n), max(n) "
        "FROM t"
    ),
    (
        "SELECT EXISTS (SELECT 1 FROM pg_class WHERE relname = 'People'), 'People' IN (SELECT relname FROM "
        "pg_class)"
    ),
    "SHOW standard_conforming_strings",
    "SELECT has_table_privilege('\"People\"', 'SELECT'), pg_table_is_visible('\"People\"'::regclass)",
]


@pytest.fixture(scope="module")
def both(postgres_url: str) -> Iterator[tuple[psycopg.Connection, psycopg.Connection]]:
    view = noiseless_view(SCHEMA, np.zeros((3, len(SCHEMA)), dtype=np.int64))
    with psycopg.connect(postgres_url, autocommit=True) as maker:
        maker.execute("DROP DATABASE IF EXISTS catalogue")
        maker.execute("CREATE DATABASE catalogue")
    with (
        PostgresServer({"People": view}, ServerSettings(port=0)) as server,
        psycopg.connect(postgres_url, dbname="catalogue", autocommit=True) as real,
        psycopg.connect(f"postgresql://x@127.0.0.1:{server.port}/hdpview", autocommit=True) as ours,
    ):
        real.execute(TABLE)
        yield real, ours


@pytest.mark.parametrize("sql", STATEMENTS, ids=range(len(STATEMENTS)))
def test_the_catalogue_answers_as_postgresql_does(
    both: tuple[psycopg.Connection, psycopg.Connection], sql: str
) -> None:
    """Same names, same values; and the same types where they are those of tables."""
    real, ours = (connection.execute(sql.encode()) for connection in both)
    assert [column.name for column in ours.description or ()] == [
        column.name for column in real.description or ()
    ]
    assert [_loose(row) for row in ours.fetchall()] == [_loose(row) for row in real.fetchall()]


def _loose(row: tuple[object, ...]) -> list[object]:
    """Decimal numbers and floats as one."""
    return [float(value) if type(value).__name__ == "Decimal" else value for value in row]
