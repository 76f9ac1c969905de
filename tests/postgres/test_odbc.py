"""The ODBC driver, as Excel, Power BI and Tableau use it."""

from collections.abc import Iterator

import pyodbc
import pytest
from analyst import QUESTIONS, assert_same
from served import Served

DRIVER = "DRIVER={PostgreSQL Unicode};SERVER=127.0.0.1;DATABASE=hdpview;UID=analyst;BoolsAsChar=0;"


@pytest.fixture
def cursor(served: Served) -> Iterator[pyodbc.Cursor]:
    if "PostgreSQL Unicode" not in pyodbc.drivers():
        pytest.fail("The ODBC driver is not installed. Run `make test`, which installs it.")
    connection = pyodbc.connect(f"{DRIVER}PORT={served.port}", autocommit=True)
    yield connection.cursor()
    connection.close()


def test_odbc_gets_the_numbers_of_python(cursor, served, expected):
    for ours, question in zip(expected, QUESTIONS, strict=True):
        assert_same(ours, [list(row) for row in cursor.execute(question).fetchall()], question)


def test_parameters_and_declared_cursors(cursor, served):
    sql = "SELECT count(*) FROM admissions WHERE age > ? AND sex = ?"
    found = cursor.execute(sql, 65, "Female").fetchone()
    assert found[0] == pytest.approx(served.view.count("age > 65 AND sex = 'Female'").estimate, rel=1e-9)
    reader = pyodbc.connect(f"{DRIVER}PORT={served.port};UseDeclareFetch=1;Fetch=10")
    assert len(reader.cursor().execute("SELECT age FROM admissions LIMIT 35").fetchall()) == 35
    reader.close()
