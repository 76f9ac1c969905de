"""psycopg, asyncpg, SQLAlchemy, pandas and Polars against a server of views."""

import asyncio
from datetime import date, datetime

import asyncpg
import pandas as pd
import polars as pl
import psycopg
import pytest
import sqlalchemy as sa
from analyst import QUESTIONS, assert_same
from psycopg.types import TypeInfo


@pytest.mark.parametrize("binary", [False, True])
def test_psycopg_gets_the_numbers_of_python(served, binary, expected):
    with psycopg.connect(served.url) as connection:
        for ours, question in zip(expected, QUESTIONS, strict=True):
            theirs = connection.execute(question, binary=binary).fetchall()
            assert_same(ours, [list(row) for row in theirs], question)


def test_values_have_the_types_of_their_columns(served):
    columns = "age, cost, smoker, admitted, ward, date_trunc('month', admitted), extract(year FROM admitted)"
    sql = f"SELECT {columns} FROM admissions WHERE smoker IS NOT NULL LIMIT 20"
    with psycopg.connect(served.url) as connection:
        text, binary = (connection.execute(sql, binary=each).fetchall() for each in (False, True))
    assert text == binary
    day = {"date": date, "timestamp": datetime}[served.day_type]
    assert [type(value) for value in text[0]] == [int, float, bool, day, str, datetime, int]


def test_every_aggregate_of_a_view_is_a_number_here_too(served):
    wanted = (
        "odds_ratio(readmitted, smoker), risk_ratio(readmitted, smoker), "
        "risk_difference(readmitted, smoker), mean(age), quantile_cont(age, 0.5), "
        "quantile_disc(age, 0.5), stddev(age), variance(age), corr(age, cost)"
    )
    with psycopg.connect(served.url) as connection:
        for groups in ("", " GROUP BY ward"):
            rows = connection.execute(f"SELECT {wanted} FROM admissions{groups}").fetchall()
            assert all(type(value) is float for row in rows for value in row)
            first = served.view.sql(f"SELECT {wanted} FROM view{groups}", as_="pyarrow").column(0)
            assert [row[0] for row in rows] == pytest.approx(first.to_pylist())
        years = connection.execute("SELECT year(admitted), COUNT(*) FROM admissions GROUP BY 1").fetchall()
    assert {type(year) for year, _ in years} == {int}


def test_parameters_of_every_type(served):
    with psycopg.connect(served.url) as connection:
        for condition, value, written in (
            ("age > %s", 65, "age > 65"),
            ("cost >= %s", 1500.0, "cost >= 1500"),
            ("ward = %s", "surgery", "ward = 'surgery'"),
            ("ward = ANY(%s)", ["surgery", "oncology"], "ward IN ('surgery', 'oncology')"),
            ("age = ANY(%s)", [70, 71], "age IN (70, 71)"),
            ("readmitted = %s", True, "readmitted = TRUE"),
            ("admitted >= %s", date(2023, 3, 1), "admitted >= DATE '2023-03-01'"),
            ("admitted < %s", datetime(2023, 3, 1), "admitted < DATE '2023-03-01'"),
            ("age BETWEEN %s::int AND 70", 60, "age BETWEEN 60 AND 70"),
            ("ward LIKE %s", "s%", "ward LIKE 's%'"),
            ("age > %s", -5, "TRUE"),
            ("age > %s AND ward = ANY('{surgery}'::text[])", 65, "age > 65 AND ward = 'surgery'"),
        ):
            (n,) = connection.execute(
                f"SELECT count(*) FROM admissions WHERE {condition}", [value]
            ).fetchone()
            assert n == pytest.approx(served.view.count(written).estimate, rel=1e-9)


def test_cursors_copies_pipelines_and_types_of_psycopg(served):
    with psycopg.connect(served.url) as connection:
        with connection.cursor(name="some") as cursor:
            cursor.itersize = 10
            cursor.execute("SELECT age FROM admissions LIMIT 35")
            assert len(cursor.fetchall()) == 35
        copy_of = connection.cursor().copy
        with copy_of("COPY (SELECT ward, count(*) AS n FROM admissions GROUP BY 1) TO STDOUT") as copy:
            assert len(list(copy.rows())) == 8
        with copy_of("COPY admissions (age, ward) TO STDOUT (FORMAT binary)") as copy:
            copy.set_types(["int4", "text"])
            assert {type(row[0]) for row in copy.rows()} == {int}
        with copy_of("COPY (SELECT NULL, '', 'a,\"b') TO STDOUT (FORMAT csv)") as copy:
            assert b"".join(copy) == b',"","a,""b"\n'
        sql = "SELECT count(*) FROM admissions WHERE age > %s"
        with connection.pipeline():
            answers = [connection.execute(sql, [n]) for n in range(5)]
        assert answers[0].fetchone() is not None
        for n in range(8):
            connection.execute(sql, [n], prepare=True).fetchall()
        type_info = TypeInfo.fetch(connection, "int4")
        assert (type_info.oid, type_info.array_oid) == (23, 1007)
        assert TypeInfo.fetch(connection, "hstore") is None


def test_cursors_go_forward_only(served):
    with psycopg.connect(served.url, autocommit=True) as connection:
        ages = [row[0] for row in connection.execute("SELECT age FROM admissions LIMIT 9").fetchall()]
        connection.execute("DECLARE c NO SCROLL CURSOR FOR SELECT age FROM admissions LIMIT 9")
        steps = {"NEXT": 1, "2": 3, "FORWARD": 4, "FORWARD 3": 7, "ALL": 9, "FORWARD ALL": 9}
        for (step, end), start in zip(steps.items(), [0, *steps.values()], strict=False):
            fetched = connection.execute(f"FETCH {step} FROM c".encode()).fetchall()
            assert [row[0] for row in fetched] == ages[start:end], step
        for refused in ("FETCH PRIOR FROM c", "MOVE 1 FROM c", "DECLARE d SCROLL CURSOR FOR SELECT 1"):
            with pytest.raises(psycopg.errors.SyntaxError):
                connection.execute(refused.encode())


def test_transactions_fail_and_recover_as_in_postgresql(served):
    errors = psycopg.errors
    with psycopg.connect(served.url) as connection:
        with pytest.raises(errors.FeatureNotSupported) as refusal:
            connection.execute("SELECT max(age) FROM admissions")
        assert "percentile_cont" in str(refusal.value.diag.message_hint)
        for refused in ("SELECT 1", "FETCH 1 FROM c", "DECLARE c CURSOR FOR SELECT 1"):
            with pytest.raises(errors.InFailedSqlTransaction):
                connection.execute(refused.encode())
        connection.rollback()
        for statement, kind in {
            "SELECT nosuch FROM admissions": errors.UndefinedColumn,
            "SELECT 1 FROM nosuch": errors.UndefinedTable,
            "SELEC 1": errors.SyntaxError,
            "SELECT age, count(*) FROM admissions": errors.GroupingError,
            "DELETE FROM admissions": errors.ReadOnlySqlTransaction,
            "SELECT nosuch(1)": errors.UndefinedFunction,
            "SET hdpview.confidence = 2": errors.InvalidParameterValue,
            "SET hdpview.intervals = maybe": errors.InvalidParameterValue,
            "SET hdpview.nosuch = 1": errors.UndefinedObject,
            "SHOW nosuch": errors.UndefinedObject,
            "SELECT set_config('hdpview.intervals', 'on', false)": errors.FeatureNotSupported,
            "DECLARE c BINARY CURSOR FOR SELECT 1": errors.SyntaxError,
            "COPY (SELECT 1) TO STDOUT (FORMAT csv, QUOTE '|')": errors.FeatureNotSupported,
            "SELECT * INTO copied FROM admissions": errors.ReadOnlySqlTransaction,
            "SELECT count(*) FROM admissions WHERE age = 'many'": errors.InvalidTextRepresentation,
            "SELECT count(*) FROM admissions TABLESAMPLE SYSTEM (1)": errors.FeatureNotSupported,
            'SELECT a.age FROM admissions a JOIN "Odd View" b ON true': errors.FeatureNotSupported,
        }.items():
            with pytest.raises(kind):
                connection.execute(statement)
            connection.rollback()
        assert connection.execute("SELECT 1, ';', 'a;b'").fetchone() == (1, ";", "a;b")


def test_intervals_follow_each_aggregate_on_request(served, expected):
    sql = "SELECT sex, count(*) AS n, avg(age) FROM admissions GROUP BY sex ORDER BY sex"
    with psycopg.connect(served.url, autocommit=True) as connection:
        plain = connection.execute(sql)
        assert [column.name for column in plain.description or ()] == ["sex", "n", "avg"]
        connection.execute("SET hdpview.intervals = on")
        connection.execute("SET hdpview.confidence = 0.8")
        assert connection.execute("SHOW hdpview.confidence").fetchone() == ("0.8",)
        assert ("hdpview.confidence", "0.8") in [row[:2] for row in connection.execute("SHOW ALL").fetchall()]
        wide = connection.execute(sql)
        names = [column.name for column in wide.description or ()]
        assert names == ["sex", "n", "n_lower", "n_upper", "avg", "avg_lower", "avg_upper"]
        statement = sql.replace("FROM admissions", "FROM view")
        expected = served.view.sql(statement, dialect="postgres", confidence=0.8, as_="pyarrow").to_pylist()
        for ours, theirs in zip(expected, wide.fetchall(), strict=True):
            assert list(theirs)[1:5] == pytest.approx(list(ours.values())[1:5], rel=1e-9)
            assert theirs[5] <= theirs[4] <= theirs[6]


def test_asyncpg_prepares_fetches_and_looks_at_types(served):
    async def ask() -> None:
        connection = await asyncpg.connect(served.url)
        sql = (
            "SELECT ward, count(*) AS n FROM admissions WHERE age > $1 AND ward = ANY($2::text[]) GROUP BY 1"
        )
        fetched = await connection.fetch(sql, 65, ["surgery"])
        expected = served.view.count("age > 65 AND ward = 'surgery'").estimate
        assert fetched[0]["n"] == pytest.approx(expected, rel=1e-9)
        statement = await connection.prepare("SELECT age, smoker, admitted FROM admissions LIMIT $1")
        kinds = [attribute.type.name for attribute in statement.get_attributes()]
        assert kinds == ["int4", "bool", served.day_type]
        assert len(await statement.fetch(3)) == 3
        async with connection.transaction():
            cursor = await connection.cursor("SELECT age FROM admissions LIMIT 30")
            assert len(await cursor.fetch(20)) == 20
        with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
            await connection.execute("DROP TABLE admissions")
        await connection.reset()
        await connection.close()
        async with asyncpg.create_pool(served.url, min_size=2, max_size=4) as pool:
            asked = (pool.fetchval("SELECT count(*) FROM admissions") for _ in range(8))
            counts = await asyncio.gather(*asked)
        assert counts == pytest.approx([served.view.count(None).estimate] * 8, rel=1e-9)

    asyncio.run(ask())


def test_sqlalchemy_pandas_and_polars_write_questions_that_are_answered(served):
    """What SQLAlchemy reflects is compared with that of PostgreSQL elsewhere."""
    engine = sa.create_engine(served.url.replace("postgresql://", "postgresql+psycopg://"))
    table = sa.Table("admissions", sa.MetaData(), autoload_with=engine)
    wanted = table.c.age.between(20, 40), table.c.ward.in_(["surgery", "oncology"])
    question = sa.select(table.c.ward, sa.func.count().label("n")).where(*wanted).group_by(table.c.ward)
    sql = "SELECT ward, count(*) AS n FROM admissions GROUP BY ward ORDER BY n DESC"
    counts = served.view.sql(sql.replace("FROM admissions", "FROM view"), as_="pyarrow")["n"].to_pylist()
    with engine.connect() as connection:
        rows = connection.execute(question.order_by(sa.desc("n"))).all()
        assert pl.read_database(sql, connection)["n"].to_list() == pytest.approx(counts, rel=1e-9)
    expected = served.view.count("age BETWEEN 20 AND 40 AND ward = 'surgery'").estimate
    assert rows[0].n == pytest.approx(expected, rel=1e-9)
    assert pd.read_sql(sql, engine)["n"].tolist() == pytest.approx(counts, rel=1e-9)
    records = pd.read_sql_table("admissions", engine)
    assert len(records) == min(50_000, round(served.view.count(None).estimate))
    assert records["age"].between(0, 95).all()
    engine.dispose()
