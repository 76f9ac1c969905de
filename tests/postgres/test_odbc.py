"""The ODBC driver, as Excel, Power BI and Tableau use it."""

from __future__ import annotations

from collections.abc import Iterator

import pyodbc
import pytest
from analyst import QUESTIONS, assert_same, python_answers
from served import Served

DRIVER = "DRIVER={PostgreSQL Unicode};SERVER=127.0.0.1;DATABASE=hdpview;UID=analyst;BoolsAsChar=0;"


@pytest.fixture
def cursor(served: Served) -> Iterator[pyodbc.Cursor]:
    if "PostgreSQL Unicode" not in pyodbc.drivers():
        pytest.fail("The ODBC driver is not installed. Run `make test`, which installs it.")
    connection = pyodbc.connect(f"{DRIVER}PORT={served.port}", autocommit=True)
    yield connection.cursor()
    connection.close()


def test_tables_and_columns_are_listed(cursor: pyodbc.Cursor) -> None:
    """SQLTables, SQLColumns, SQLPrimaryKeys and SQLStatistics."""
    assert sorted(row.table_name for row in cursor.tables(schema="public")) == ["Odd View", "admissions"]
    columns = [(row.column_name, row.type_name) for row in cursor.columns(table="admissions")]
    assert columns[:2] == [("age", "int4"), ("sex", "text")]
    assert list(cursor.primaryKeys("admissions")) == []
    assert list(cursor.statistics("admissions")) == []


def test_odbc_gets_the_numbers_of_python(cursor: pyodbc.Cursor, served: Served) -> None:
    """All questions of the analyst, value by value."""
    for ours, question in zip(python_answers(served.view), QUESTIONS, strict=True):
        assert_same(ours, [list(row) for row in cursor.execute(question).fetchall()], question)


def test_parameters_and_declared_cursors(cursor: pyodbc.Cursor, served: Served) -> None:
    """Parameters of two types; and a connection that reads through DECLARE and FETCH."""
    sql = "SELECT count(*) FROM admissions WHERE age > ? AND sex = ?"
    found = cursor.execute(sql, 65, "Female").fetchone()
    assert found[0] == pytest.approx(served.view.count("age > 65 AND sex = 'Female'").estimate, rel=1e-9)
    reader = pyodbc.connect(f"{DRIVER}PORT={served.port};UseDeclareFetch=1;Fetch=10")
    assert len(reader.cursor().execute("SELECT age FROM admissions LIMIT 35").fetchall()) == 35
    reader.close()


def test_refusals_have_their_sqlstate(cursor: pyodbc.Cursor) -> None:
    """A question that cannot be answered is an error with its SQLSTATE."""
    with pytest.raises(pyodbc.Error) as refusal:
        cursor.execute("SELECT max(age) FROM admissions")
    assert refusal.value.args[0] == "0A000"
