"""The catalogue beside that of a real PostgreSQL with a table of the same shape."""

import itertools
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import psycopg
import pyodbc
import pytest
import sqlalchemy as sa
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from cells import noiseless_view
from hdpview.domain import Boolean, Category, Datetime, Integer, Real, Schema
from hdpview.explore.postgres import PostgresServer, ServerSettings
from hdpview.explore.postgres.catalog.layout import column_type

SCHEMA = Schema(
    [
        Integer(name="age", min=0, max=99), Integer(name="Long Number", min=0, max=2**40, every=2**35),
        Real(name="weight", min=0.0, max=1.0, bins=4, nullable=True),
        Category(name="region", values=("North", "South"), nullable=True), Boolean(name="smoker"),
        Datetime(name="day", min="2024-01-01", max="2024-01-31", every="1d"),
        Datetime(name="at", min="2024-01-01", max="2024-01-02", every="1h"),
    ]
)  # fmt: skip
TABLE = f"""CREATE TABLE "People" (age integer NOT NULL, "Long Number" bigint NOT NULL,
    weight double precision, region text, smoker boolean NOT NULL,
    day {column_type(SCHEMA["day"]).name} NOT NULL, at timestamp NOT NULL)"""
COMMENTS = """SELECT 'TABLE', NULL, obj_description('"People"'::regclass) UNION ALL
    SELECT 'COLUMN', attname, col_description(attrelid, attnum) FROM pg_attribute
    WHERE attrelid = '"People"'::regclass"""
STATEMENTS = r"""
SELECT table_schema, table_name, table_type FROM information_schema.tables WHERE table_schema = 'public';
SELECT column_name, ordinal_position, is_nullable, data_type, udt_name, numeric_precision,
    numeric_scale, datetime_precision FROM information_schema.columns WHERE table_name = 'People' ORDER
    BY ordinal_position;
SELECT a.attname, a.attnum, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attlen, t.typname,
    t.typcategory FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid WHERE a.attrelid =
    '"People"'::regclass AND attnum > 0 ORDER BY attnum;
SELECT relname, relkind, relnatts, relhasindex, relispartition FROM pg_class WHERE relname = 'People';
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE relkind
    = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_toast';
SELECT '"People"'::regclass::text, 'int4'::regtype, 23::regtype::text, to_regclass('nosuch') IS NULL;
SELECT oid, typname, typlen, typtype, typcategory, typelem, typarray FROM pg_type WHERE typname IN
    ('int4', 'text', 'float8', 'bool', 'date', 'timestamp', '_text', 'oid', 'name') ORDER BY oid;
SELECT nspname FROM pg_namespace WHERE nspname IN ('public', 'pg_catalog', 'information_schema') ORDER
    BY 1;
SELECT 1, 1.5, 'a', true, NULL, 1 + 1, 7 / 2, 'a' || 'b', 2 > 1, 'x' LIKE 'X', 'x' ILIKE 'X', upper('a');
SELECT CASE WHEN 1 = 1 THEN 'yes' END, coalesce(NULL, 'b'), nullif(1, 1), '5'::int + 1, length('abc');
SELECT i FROM generate_series(2, 4) AS g(i);
SELECT 'b' = ANY(ARRAY['a', 'b']), 3 <> ALL(ARRAY[1, 2]), array_to_string(ARRAY['a', 'b'], '-');
SELECT quote_ident('a b'), quote_ident('plain'), split_part('a.b', '.', 2), strpos('abc', 'c');
VALUES (1, 'a'), (2, 'b');
SELECT attrelid::regclass::text, count(*) FROM pg_attribute WHERE attrelid = 'pg_am'::regclass AND
    attnum > 0 GROUP BY 1;
SELECT x.a FROM (SELECT 3 AS a UNION ALL SELECT 1 UNION ALL SELECT 2) x ORDER BY 1 DESC LIMIT 2;
WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 4) SELECT sum(n), max(n) FROM t;
SELECT EXISTS (SELECT 1 FROM pg_class WHERE relname = 'People'), 'People' IN (SELECT relname FROM
    pg_class);
SHOW standard_conforming_strings;
SELECT has_table_privilege('"People"', 'SELECT'), pg_table_is_visible('"People"'::regclass)
"""


# Commands of psql that show nothing of what only a whole PostgreSQL has: sizes, functions, other databases.
COMMANDS = r"""
\d
\d "People"
\d+ "People"
\dC public.*
\dF public.*
\dt \\ \dv \\ \di \\ \ds \\ \dm \\ \dE \\ \dp \\ \z \\ \dd \\ \df \\ \da \\ \dT \\ \dD \\ \dO \\ \do \\ \dy
\des \\ \deu \\ \det \\ \dew \\ \dRp \\ \dRs \\ \dX \\ \dP \\ \ddp
"""


@dataclass(frozen=True)
class Pair:
    """A real PostgreSQL and a server of a view, each with a table of the same shape; real comes first."""

    urls: tuple[str, str]
    connections: tuple[psycopg.Connection, psycopg.Connection]


@pytest.fixture(scope="module")
def both(postgres_url: str) -> Iterator[Pair]:
    view = noiseless_view(SCHEMA, np.zeros((3, len(SCHEMA)), dtype=np.int64))
    with psycopg.connect(postgres_url, autocommit=True) as maker:
        maker.execute("CREATE ROLE hdpview SUPERUSER LOGIN")
        maker.execute("CREATE DATABASE hdpview OWNER hdpview")
    with PostgresServer({"People": view}, ServerSettings(port=0)) as server:
        url = postgres_url.replace("postgres://tester@/postgres", "postgresql://hdpview@/hdpview")
        urls = (url, f"postgresql://hdpview@127.0.0.1:{server.port}/hdpview")
        with (
            psycopg.connect(urls[0], autocommit=True) as real,
            psycopg.connect(urls[1], autocommit=True) as ours,
        ):
            real.execute(TABLE)
            for kind, name, text in ours.execute(COMMENTS).fetchall():
                target = sql.SQL(".").join(map(sql.Identifier, ["People", *([name] if name else [])]))
                real.execute(sql.SQL(f"COMMENT ON {kind} {{}} IS {{}}").format(target, sql.Literal(text)))
            yield Pair(urls, (real, ours))


@pytest.mark.parametrize("statement", STATEMENTS.split(";\n"), ids=itertools.count())
def test_the_catalogue_answers_as_postgresql_does(both, statement):
    real, ours = (connection.execute(statement.encode()) for connection in both.connections)
    assert [column.name for column in ours.description or ()] == [
        column.name for column in real.description or ()
    ]
    assert [_loose(row) for row in ours.fetchall()] == [_loose(row) for row in real.fetchall()]


def _loose(row: tuple[object, ...]) -> list[object]:
    """Decimal numbers and floats as one."""
    return [float(value) if type(value).__name__ == "Decimal" else value for value in row]


def test_psql_prints_the_same(both):
    real, ours = (
        subprocess.run(["psql", "-X", url], input=COMMANDS, capture_output=True, text=True, timeout=240)
        for url in both.urls
    )
    assert (ours.stdout.splitlines(), ours.stderr) == (real.stdout.splitlines(), real.stderr)


def test_sqlalchemy_reflects_the_same(both):
    real, ours = (sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:")) for url in both.urls)
    looks = ("pk_constraint", "foreign_keys", "indexes", "unique_constraints", "check_constraints")
    found = []
    for engine in (real, ours):
        look = sa.inspect(engine)
        facts = [look.get_table_names(), look.get_view_names(), look.has_table("People")]
        facts += [
            getattr(look, f"get_{name}")("People") for name in (*looks, "table_comment", "table_options")
        ]
        facts += [{**column, "type": str(column["type"])} for column in look.get_columns("People")]
        found.append(facts)
        engine.dispose()
    assert found[1] == found[0]


@pytest.mark.parametrize("look", ["tables", "columns", "primaryKeys", "statistics"])
def test_odbc_lists_the_same(both, look):
    listed = []
    for url, connection in zip(both.urls, both.connections, strict=True):
        oid = connection.execute("SELECT oid FROM pg_class WHERE relname = 'People'").fetchall()[0][0]
        facts = conninfo_to_dict(url)
        place = f"SERVER={facts['host']};PORT={facts.get('port', 5432)};UID=hdpview;DATABASE=hdpview"
        client = pyodbc.connect(f"DRIVER={{PostgreSQL Unicode}};{place}", autocommit=True)
        rows = getattr(client.cursor(), look)("People").fetchall()
        listed.append([[value for value in row if value != oid] for row in rows])
        client.close()
    assert listed[1] == listed[0]
