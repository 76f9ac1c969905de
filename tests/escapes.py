"""Statements that try to leave a view: each must be refused by `view.sql` and by the PostgreSQL server."""

# Files and the network; settings, other tables and the process itself; memory and time.
ESCAPES = """
SELECT * FROM read_csv('/etc/passwd')
SELECT COUNT(*) FROM '/etc/passwd'
SELECT * FROM "/etc/passwd"
SELECT read_text('/etc/passwd')
SELECT * FROM read_blob('/etc/passwd')
SELECT (SELECT content FROM read_blob('/etc/shadow'))
SELECT * FROM glob('/*')
SELECT COUNT(*) FROM read_parquet('https://example.org/x.parquet')
SELECT COUNT(*) FROM view WHERE region = (SELECT content FROM read_text('/etc/passwd'))
SELECT 1 FROM pg_class WHERE EXISTS (SELECT * FROM read_csv('/etc/passwd'))
SELECT x FROM (SELECT 1 AS x) t, LATERAL read_csv('x')
SELECT * FROM postgres_scan('x')
COPY (SELECT COUNT(*) FROM view) TO '/tmp/escaped.csv'
ATTACH '/tmp/escaped.db' AS x
EXPORT DATABASE '/tmp/escaped'
INSTALL httpfs
LOAD httpfs
PRAGMA database_list
SET enable_external_access = true; SELECT * FROM read_csv('/etc/passwd')
CREATE TABLE t AS SELECT 1
DROP TABLE view
INSERT INTO view VALUES (1, 'North', TRUE)
UPDATE view SET age = 1
DELETE FROM view
SELECT COUNT(*) FROM view; DROP TABLE view
CALL pragma_version()
SELECT current_setting('memory_limit')
SELECT getenv('HOME')
SELECT getvariable('settings')
SELECT nextval('s')
SELECT COUNT(*) FROM duckdb_settings()
SELECT * FROM duckdb_secrets()
SELECT * FROM duckdb_tables
SELECT * FROM sqlite_master
SELECT * FROM pragma_version()
SELECT * FROM pragma_database_list
SELECT * FROM system.main.duckdb_settings
SELECT * FROM memory.main.relation_names
SELECT (WITH duckdb_tables AS (SELECT 1) SELECT 1), t.* FROM duckdb_tables t
SELECT * FROM query('SELECT 1')
SELECT query('SELECT 1')
SELECT COUNT(*) FROM query_table('view')
SELECT json_execute_serialized_sql('x')
SELECT write_log('x'), COUNT(*) FROM view
SELECT COUNT(*) FROM view TABLESAMPLE 10%
SELECT sleep_ms(100000), COUNT(*) FROM view
SELECT repeat('x', 2000000000)
SELECT length(repeat('x', COUNT(*)::INT * 1000000000)) FROM view
SELECT lpad('x', 2000000000, 'y')
SELECT range(1000000000)
SELECT list_sum(range(1000000000)), COUNT(*) FROM view
SELECT count(*) FROM generate_series(1, 1000000000000)
SELECT array_agg(i) FROM generate_series(1, 1000000000) AS i
SELECT * FROM generate_series(1, 9999) a, generate_series(1, 9999) b, generate_series(1, 9999) c
SELECT unnest(generate_series(DATE '1990-01-01', DATE '2020-01-01', INTERVAL 1 SECOND)) AS s
WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t
WITH RECURSIVE t AS (SELECT 'x' AS s UNION ALL SELECT s || s FROM t) SELECT max(length(s)) FROM t
SELECT 1 FROM pg_attribute a, pg_attribute b, pg_attribute c WHERE a.attname || c.attname ~ '!'
SELECT length(string_agg(a.attname, '')) FROM pg_attribute a, pg_attribute b, pg_attribute c
SELECT format('{:>1000000000}', 'x'), COUNT(*) FROM view
SELECT printf('%1000000000d', 1), COUNT(*) FROM view
""".strip().splitlines()
ESCAPES += [
    f"SELECT format('{'{:999}' * 1_000}', {', '.join(['age'] * 1_000)}) AS t, COUNT(*) FROM view GROUP BY 1",
    "SELECT " + "(" * 3_000 + "1" + ")" * 3_000,
]
