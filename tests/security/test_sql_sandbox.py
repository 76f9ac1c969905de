"""No statement leaves the view: files, settings, other tables and endless work are refused or stopped."""

import time

import numpy as np
import pytest

from cells import noiseless_view
from hdpview.domain import Boolean, Category, Integer, Schema
from hdpview.errors import HdpviewError, InternalError
from hdpview.query.evaluate import run

SCHEMA = Schema(
    [
        Integer(name="age", min=0, max=99),
        Category(name="region", values=("North", "South")),
        Boolean(name="ill"),
    ]
)
VIEW = noiseless_view(SCHEMA, np.array([[1, 0, 0], [2, 1, 1], [50, 0, 1]]))
SLOWEST_SECONDS = 20.0  # a stopped statement ends long before; machines that run tests may be slow
ESCAPES = [
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT COUNT(*) FROM read_csv('/etc/passwd')",
    "SELECT COUNT(*) FROM '/etc/passwd'",
    "SELECT COUNT(*) FROM glob('/**')",
    "SELECT COUNT(*) FROM read_parquet('https://example.org/x.parquet')",
    "COPY (SELECT COUNT(*) FROM view) TO '/tmp/escaped.csv'",
    "ATTACH '/tmp/escaped.db' AS x",
    "INSTALL httpfs",
    "LOAD httpfs",
    "PRAGMA database_list",
    "SET memory_limit = '100GB'",
    "RESET lock_configuration",
    "CREATE TABLE t AS SELECT 1",
    "DROP TABLE view",
    "INSERT INTO view VALUES (1, 'North', TRUE)",
    "UPDATE view SET age = 1",
    "DELETE FROM view",
    "EXPORT DATABASE '/tmp/escaped'",
    "CALL pragma_version()",
    "SELECT current_setting('memory_limit')",
    "SELECT getenv('HOME')",
    "SELECT COUNT(*) FROM duckdb_settings()",
    "SELECT COUNT(*) FROM duckdb_tables()",
    "SELECT COUNT(*) FROM information_schema.tables",
    "SELECT COUNT(*) FROM pg_catalog.pg_class",
    "SELECT COUNT(*) FROM sqlite_master",
    "SELECT query('SELECT 1')",
    "SELECT COUNT(*) FROM query('SELECT 1')",
    "SELECT COUNT(*) FROM query_table('view')",
    "SELECT getvariable('x') FROM view",
    "SELECT nextval('s')",
    "SELECT random(), COUNT(*) FROM view GROUP BY 1",
    "SELECT repeat('x', 2000000000)",
    "SELECT length(repeat('x', COUNT(*)::INT * 1000000000)) FROM view",
    "SELECT lpad('x', 2000000000, 'y')",
    "SELECT COUNT(*) FROM range(1000000000000)",
    "SELECT COUNT(*) FROM generate_series(1, 1000000000000)",
    "SELECT list_sum(range(1000000000)), COUNT(*) FROM view",
    "SELECT * FROM generate_series(1, 9999) a, generate_series(1, 9999) b, generate_series(1, 9999) c",
    "SELECT unnest(generate_series(DATE '1990-01-01', DATE '2020-01-01', INTERVAL 1 SECOND)) AS s",
    f"SELECT format('{'{:999}' * 1_000}', {', '.join(['age'] * 1_000)}) AS t, COUNT(*) FROM view GROUP BY 1",
    "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT COUNT(*) FROM t",
    "SELECT COUNT(*) FROM view; DROP TABLE view",
    "SELECT COUNT(*) FROM view TABLESAMPLE 10%",
    "SELECT (SELECT content FROM read_blob('/etc/shadow'))",
    "SELECT COUNT(*) FROM view WHERE region = (SELECT content FROM read_text('/etc/passwd'))",
    "SELECT sleep_ms(100000), COUNT(*) FROM view",
    "SELECT write_log('x'), COUNT(*) FROM view",
    "SELECT format('{:>1000000000}', 'x'), COUNT(*) FROM view",
    "SELECT printf('%1000000000d', 1), COUNT(*) FROM view",
]
ENDLESS = [
    "WITH t AS (SELECT age, ill, COUNT(*) FROM view GROUP BY ALL) SELECT COUNT(*) FROM t a, t b, t c, t d",
    "WITH a AS (SELECT repeat('x', 1000) AS s), " + ", ".join(
        f"{new} AS (SELECT s || s || s || s || s || s || s || s AS s FROM {old})"
        for old, new in zip("abcdefghi", "bcdefghij", strict=True)
    ) + " SELECT length(s) FROM j",
    "SELECT COUNT(*) FROM view WHERE " + "(" * 3_000 + "age = 1" + ")" * 3_000,
    "SELECT COUNT(*) FROM " + "(SELECT * FROM " * 300 + "view" + ")" * 300,
    f"SELECT COUNT(*) FROM view WHERE region = '{'x' * 300_000}'",
    "SELECT 9 ** 9 ** 9 ** 9, COUNT(*) FROM view",
]  # fmt: skip


@pytest.mark.parametrize("sql", ESCAPES)
def test_escapes_are_refused(sql):
    with pytest.raises(HdpviewError) as refusal:
        run(VIEW, sql)
    assert not isinstance(refusal.value, InternalError), refusal.value.__cause__
    assert len(str(refusal.value)) < 500


@pytest.mark.parametrize("sql", ENDLESS)
def test_endless_work_is_stopped(sql, monkeypatch):
    monkeypatch.setattr("hdpview.query.evaluate.deadline.CPU_SECONDS", 1.0)
    start = time.process_time()
    try:
        run(VIEW, sql)
    except InternalError as problem:
        pytest.fail(repr(problem.__cause__))
    except HdpviewError:
        pass
    assert time.process_time() - start < SLOWEST_SECONDS


def test_answers_go_on_after_a_statement_was_stopped():
    assert run(VIEW, "SELECT COUNT(*) AS n FROM view").to_rows()[0]["n"] == pytest.approx(3.0)


def test_internal_tables_cannot_be_named():
    from hdpview.query.evaluate.database import SECRET

    for name in (f"{SECRET}_points0", f"{SECRET}_b0", "points0"):
        with pytest.raises(HdpviewError):
            run(VIEW, f"SELECT COUNT(*) FROM {name}")
