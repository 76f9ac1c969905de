"""DuckDB's extension for PostgreSQL, which attaches a view as a database of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from analyst import QUESTIONS, assert_same
from served import Served

FOLDER = Path(sys.prefix) / "duckdb-postgres"
_PROGRAM = """
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


def ask(served: Served, statements: list[str]) -> list[list[Any]]:
    """Rows of each statement, from a process with the DuckDB that the extension belongs to."""
    if not FOLDER.exists():
        pytest.fail("DuckDB's extension is not installed. Run `make test`, which installs it.")
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(FOLDER), str(served.port)],
        input=json.dumps(statements),
        env={**os.environ, "PYTHONPATH": str(FOLDER)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    found: list[list[Any]] = json.loads(done.stdout)
    return found


def test_duckdb_attaches_a_view_and_gets_the_numbers_of_python(served, expected):
    passed = [each.replace("'", "''") for each in QUESTIONS]
    tables, old, n, *answers = ask(
        served,
        [
            "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'admissions' LIMIT 4",
            "SELECT min(age), bool_and(smoker), count(*) FROM served.admissions WHERE age > 65 AND smoker",
            "SELECT count(*) FROM served.public.admissions",
            *(f"SELECT * FROM postgres_query('served', '{question}')" for question in passed),
        ],
    )
    assert tables == [
        ["age", "INTEGER"], ["sex", "VARCHAR"], ["region", "VARCHAR"], ["admitted", served.day_type.upper()],
    ]  # fmt: skip
    assert old[0][:2] == [66, True]
    assert 0 < old[0][2] < n[0][0] == min(50_000, round(served.view.count(None).estimate))
    for ours, theirs, question in zip(expected, answers, QUESTIONS, strict=True):
        assert_same(ours, theirs, question)
