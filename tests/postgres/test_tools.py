"""Statements of the kind that tools write by themselves, replayed: dashboards and spreadsheets must find a
database that behaves.

The statements are ours, written after what these tools are known to send."""

import re

import psycopg
import pytest
from analyst import assert_same, python_rows

_TABLE = '"public"."admissions"'
ANSWERED = {
    # Metabase: every name in full, questions on top of questions, dates cut and cast
    "metabase count": f'SELECT COUNT(*) AS "count" FROM {_TABLE}',
    "metabase breakout": f'SELECT {_TABLE}."sex" AS "sex", COUNT(*) AS "count" FROM {_TABLE} '
    f'GROUP BY {_TABLE}."sex" ORDER BY {_TABLE}."sex" ASC',
    "metabase month": f"""SELECT CAST(DATE_TRUNC('month', {_TABLE}."admitted") AS date) AS "admitted", COUNT(*) AS "count"
        FROM {_TABLE} WHERE ({_TABLE}."admitted" >= date '2023-01-01') AND ({_TABLE}."admitted" < date '2023-07-01')
        GROUP BY CAST(DATE_TRUNC('month', {_TABLE}."admitted") AS date)
        ORDER BY CAST(DATE_TRUNC('month', {_TABLE}."admitted") AS date) ASC""",
    "metabase nested": f"""SELECT "source"."ward" AS "ward", AVG("source"."cost") AS "avg" FROM
        (SELECT {_TABLE}."ward" AS "ward", {_TABLE}."cost" AS "cost" FROM {_TABLE} WHERE {_TABLE}."age" > 30) AS "source"
        GROUP BY "source"."ward" ORDER BY "avg" DESC, "source"."ward" ASC""",
    "metabase bins": f"""SELECT FLOOR((({_TABLE}."systolic_bp" - 60.0) / 20.0)) * 20.0 + 60.0 AS "bp", COUNT(*) AS "count"
        FROM {_TABLE} GROUP BY FLOOR((({_TABLE}."systolic_bp" - 60.0) / 20.0)) * 20.0 + 60.0 ORDER BY 1 ASC""",
    "metabase share": f"""SELECT CAST(SUM(CASE WHEN {_TABLE}."readmitted" = TRUE THEN 1 ELSE 0.0 END) AS float)
        / NULLIF(COUNT(*), 0) AS "share" FROM {_TABLE}""",
    "metabase rows": f'SELECT {_TABLE}."age" AS "age", {_TABLE}."sex" AS "sex" FROM {_TABLE} LIMIT 2000',
    "metabase values": f'SELECT {_TABLE}."ward" AS "ward" FROM {_TABLE} GROUP BY {_TABLE}."ward" ORDER BY {_TABLE}."ward" LIMIT 1000',
    "metabase relative date": f"""SELECT COUNT(*) AS "count" FROM {_TABLE}
        WHERE {_TABLE}."admitted" >= DATE_TRUNC('month', (NOW() + (INTERVAL '-120 month')))""",
    # Superset: virtual tables, moments through to_timestamp, a limit on everything
    "superset trend": """SELECT DATE_TRUNC('month', admitted) AS __timestamp, count(*) AS count FROM public.admissions
        WHERE admitted >= TO_TIMESTAMP('2023-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
        AND admitted < TO_TIMESTAMP('2024-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
        GROUP BY DATE_TRUNC('month', admitted) ORDER BY count DESC LIMIT 50000""",
    "superset virtual": """SELECT ward AS ward, count(*) AS count, AVG(cost) AS "AVG(cost)" FROM
        (SELECT * FROM admissions WHERE age > 18) AS virtual_table WHERE sex IN ('Female') GROUP BY ward
        ORDER BY count DESC LIMIT 1000 OFFSET 0""",
    "superset series limit": """SELECT DATE_TRUNC('month', admitted) AS __timestamp, ward AS ward, count(*) AS count
        FROM public.admissions JOIN (SELECT ward AS ward__, count(*) AS mme_inner__ FROM public.admissions
        GROUP BY ward ORDER BY mme_inner__ DESC LIMIT 2) AS anon_1 ON ward = ward__
        GROUP BY DATE_TRUNC('month', admitted), ward ORDER BY count DESC LIMIT 50000""",
    "superset row count": """SELECT COUNT(*) AS rowcount FROM
        (SELECT ward AS ward, count(*) AS count FROM public.admissions GROUP BY ward) AS rowcount_qry LIMIT 50000""",
    "superset columns": "SELECT * FROM (SELECT * FROM admissions) AS virtual_table LIMIT 0",
    "superset lab": "SELECT * FROM (SELECT ward, count(*) AS n FROM admissions GROUP BY ward LIMIT 100) AS inner_qry LIMIT 1001",
    # Tableau: SUM(1) for rows, HAVING to see whether there are any, casts and aliases on everything
    "tableau rows": f'SELECT SUM(1) AS "cnt:admissions:ok" FROM {_TABLE} "admissions" HAVING (COUNT(1) > 0)',
    "tableau groups": f"""SELECT "admissions"."ward" AS "ward", SUM("admissions"."cost") AS "sum:cost:ok"
        FROM {_TABLE} "admissions" GROUP BY 1""",
    "tableau month": f"""SELECT DATE_TRUNC('MONTH', CAST("admissions"."admitted" AS DATE)) AS "tmn:admitted:ok",
        AVG(CAST("admissions"."stay_days" AS DOUBLE PRECISION)) AS "avg:stay_days:ok" FROM {_TABLE} "admissions" GROUP BY 1""",
    "tableau year": f"""SELECT CAST(EXTRACT(YEAR FROM "admissions"."admitted") AS INTEGER) AS "yr:admitted:ok",
        COUNT(1) AS "n" FROM {_TABLE} "admissions" GROUP BY 1 ORDER BY 1""",
    "tableau probe": f'SELECT * FROM {_TABLE} "admissions" WHERE (1 = 0)',
    # Power BI: everything inside subqueries, limits just above a round number
    "power bi": """select "_"."ward" as "c1", "_"."a0" as "a0" from
        (select "rows"."ward" as "ward", count(*) as "a0" from
        (select "_"."ward" as "ward", "_"."age" as "age" from "public"."admissions" "_" where "_"."age" >= 40) "rows"
        group by "ward") "_" where not "_"."a0" is null limit 1000001""",
    "power bi preview": """select "$Table"."age" as "age", "$Table"."admitted" as "admitted"
        from "public"."admissions" "$Table" limit 1000""",
    # Grafana: moments between two others
    "grafana": """SELECT date_trunc('week', admitted) AS "time", count(*) AS "value" FROM admissions
        WHERE admitted BETWEEN '2023-01-01T00:00:00Z' AND '2023-12-31T23:59:59.999Z' GROUP BY 1 ORDER BY 1""",
    "grafana table": "SELECT ward AS metric, avg(cost) AS value FROM admissions WHERE $__all = 1 GROUP BY ward".replace(
        "$__all = 1", "1 = 1"
    ),
    # Excel and Spark: probes, quotes, casts
    "excel": f'SELECT "admissions"."sex", COUNT("admissions"."age") FROM {_TABLE} "admissions" GROUP BY "admissions"."sex"',
    "spark schema": "SELECT * FROM admissions WHERE 1=0",
    "spark rows": 'SELECT "age","sex" FROM admissions WHERE ("age" IS NOT NULL) AND ("age" > 65)',
    # Words of PostgreSQL, in questions and over rows
    "months as text": "SELECT to_char(admitted, 'YYYY-MM') AS month, count(*) FROM admissions GROUP BY 1 ORDER BY 1",
    "pattern": "SELECT ward, count(*) FROM admissions WHERE ward ~* 'SURG|onc' GROUP BY ward ORDER BY 1",
    "not all": "SELECT count(*) FROM admissions WHERE ward <> ALL(ARRAY['surgery', 'oncology'])",
    "with totals": "SELECT ward, sex, count(*), grouping(sex) FROM admissions GROUP BY ROLLUP (ward, sex) ORDER BY 1, 2",
    "shuffled": "SELECT age, ward FROM admissions ORDER BY random() LIMIT 5",
}
CATALOGUE = {
    "connection test": "SELECT 1",
    "jdbc keep-alive": "/* ping */ SELECT 'OK'",
    "version": "SELECT version(), current_database(), current_schema(), current_user, pg_backend_pid()",
    "search path": "SELECT current_schemas(true), current_setting('search_path')",
    "timezone": "SHOW TIME ZONE",
    "isolation": "SHOW TRANSACTION ISOLATION LEVEL",
    "dbeaver database": """SELECT db.oid, db.* FROM pg_catalog.pg_database db WHERE 1 = 1 AND db.datallowconn
        AND NOT db.datistemplate ORDER BY db.datname""",
    "dbeaver schemas": """SELECT n.oid, n.*, d.description FROM pg_catalog.pg_namespace n
        LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = n.oid AND d.objsubid = 0 AND d.classoid = 'pg_namespace'::regclass
        ORDER BY nspname""",
    "dbeaver tables": """SELECT c.oid, c.*, d.description, pg_catalog.pg_get_expr(c.relpartbound, c.oid) AS partition_expr,
        pg_catalog.pg_get_partkeydef(c.oid) AS partition_key FROM pg_catalog.pg_class c
        LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = c.oid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass
        WHERE c.relnamespace = 2200 AND c.relkind NOT IN ('i', 'I', 'c')""",
    "dbeaver columns": """SELECT c.relname, a.*, pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) AS def_value, dsc.description
        FROM pg_catalog.pg_attribute a INNER JOIN pg_catalog.pg_class c ON (a.attrelid = c.oid)
        LEFT OUTER JOIN pg_catalog.pg_attrdef ad ON (a.attrelid = ad.adrelid AND a.attnum = ad.adnum)
        LEFT OUTER JOIN pg_catalog.pg_description dsc ON (c.oid = dsc.objoid AND a.attnum = dsc.objsubid)
        WHERE NOT a.attisdropped AND c.oid = 'admissions'::regclass ORDER BY a.attnum""",
    "metabase tables": """SELECT n.nspname AS schema, c.relname AS name, CASE c.relkind WHEN 'r' THEN 'TABLE' ELSE 'VIEW' END AS type,
        d.description AS description, stat.n_live_tup AS estimated_row_count FROM pg_catalog.pg_class AS c
        INNER JOIN pg_catalog.pg_namespace AS n ON c.relnamespace = n.oid
        LEFT JOIN pg_catalog.pg_description AS d ON c.oid = d.objoid AND d.objsubid = 0 AND d.classoid = CAST('pg_class' AS REGCLASS)
        LEFT JOIN pg_stat_user_tables AS stat ON n.nspname = stat.schemaname AND c.relname = stat.relname
        WHERE c.relnamespace = n.oid AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
        AND c.relkind IN ('r', 'p', 'v', 'f', 'm') AND n.nspname IN ('public') ORDER BY type, schema, name""",
    "metabase privileges": """WITH table_privileges AS (SELECT NULL AS role, t.schemaname AS schema, t.objectname AS table,
        pg_catalog.has_any_column_privilege(current_user, '"' || REPLACE(t.schemaname, '"', '""') || '"' || '.' ||
        '"' || REPLACE(t.objectname, '"', '""') || '"', 'select') AS select FROM
        (SELECT schemaname, tablename AS objectname FROM pg_catalog.pg_tables UNION
        SELECT schemaname, viewname AS objectname FROM pg_views) AS t
        WHERE t.schemaname !~ '^pg_' AND t.schemaname <> 'information_schema')
        SELECT t.* FROM table_privileges t""",
    "superset tables": """SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p')""",
    "power bi tables": """select TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE from INFORMATION_SCHEMA.tables
        where TABLE_SCHEMA not in ('information_schema', 'pg_catalog') order by TABLE_SCHEMA, TABLE_NAME""",
    "power bi columns": """select COLUMN_NAME, ORDINAL_POSITION, IS_NULLABLE, case when (data_type like '%unsigned%')
        then DATA_TYPE || ' unsigned' else DATA_TYPE end as DATA_TYPE from INFORMATION_SCHEMA.columns
        where TABLE_SCHEMA = 'public' and TABLE_NAME = 'admissions' order by TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION""",
    "power bi keys": """select ii.COLUMN_NAME, ii.ORDINAL_POSITION, i.CONSTRAINT_NAME from INFORMATION_SCHEMA.table_constraints i
        inner join INFORMATION_SCHEMA.key_column_usage ii on i.CONSTRAINT_SCHEMA = ii.CONSTRAINT_SCHEMA
        and i.CONSTRAINT_NAME = ii.CONSTRAINT_NAME where i.TABLE_NAME = 'admissions' and i.CONSTRAINT_TYPE = 'PRIMARY KEY'""",
    "grafana tables": """SELECT CASE WHEN quote_ident(table_schema) IN (SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user
        ELSE trim(s[i]) END FROM generate_series(1, 1) AS i, (SELECT current_schemas(false) AS s) AS t)
        THEN quote_ident(table_name) ELSE quote_ident(table_schema) || '.' || quote_ident(table_name) END AS "table"
        FROM information_schema.tables WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog')""",
    "grafana columns": """SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM information_schema.columns
        WHERE quote_ident(table_name) = 'admissions'""",
    "tableau types": """SELECT typname, oid FROM pg_type WHERE typname IN ('text', 'int4', 'float8') ORDER BY 1""",
    "series of days": "SELECT d::date FROM generate_series('2024-01-01'::date, '2024-01-05', '1 day') AS d",
    "a day ago": "SELECT now() - interval '1 day' < now()",
    "extensions": "SELECT extname FROM pg_extension",
    "roles": "SELECT rolname, rolsuper FROM pg_roles WHERE rolname = current_user OR true",
    "enums": "SELECT t.typname, e.enumlabel FROM pg_type t JOIN pg_enum e ON t.oid = e.enumtypid",
}


# These give synthetic records.
OF_ROWS = {
    "metabase rows", "superset columns", "tableau probe", "power bi preview", "spark schema", "spark rows",
    "shuffled",
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERED)
def test_questions_that_tools_write_have_the_answers_of_python(served, name):
    question = ANSWERED[name]
    with psycopg.connect(served.url, autocommit=True) as connection:
        plain = connection.execute(question.encode())
        names = [column.name for column in plain.description or ()]
        rows = plain.fetchall()
        prepared = connection.execute(question.replace("%", "%%").encode(), (), prepare=True, binary=True)
        assert [column.name for column in prepared.description or ()] == names
        assert prepared.fetchall() == rows
    if name not in OF_ROWS:
        written = re.sub(
            r'(?<=FROM )admissions|(?<=JOIN )admissions|"?public"?\."?admissions"?', "view", question
        )
        assert_same(python_rows(served.view, written), [list(row) for row in rows], question)
        assert rows


@pytest.mark.parametrize("name", CATALOGUE)
def test_questions_of_the_catalogue_are_answered(served, name):
    with psycopg.connect(served.url, autocommit=True) as connection:
        rows = connection.execute(CATALOGUE[name].encode()).fetchall()
    empty = {"extensions", "enums", "power bi keys"}
    assert bool(rows) != (name in empty)
    if "tables" in name or name == "metabase privileges":
        assert any("admissions" in str(row) for row in rows)
