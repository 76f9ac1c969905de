"""PostgreSQL's own client against a server of views."""

import csv
import io
import re
import subprocess

from analyst import QUESTIONS, SCRIPT, assert_same
from served import Served


def psql(served: Served, *arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    place = f"host=127.0.0.1 port={served.port} user=analyst dbname=hdpview"
    command = ["psql", "-X", place, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, input=text)


def test_tables_are_listed_and_described(served):
    listed = psql(served, "-c", r"\d", "-c", r"\dt+", "-c", r"\d+ admissions", "-c", r'\d "Odd View"')
    assert not listed.stderr
    for expected in (
        "admissions",
        "Odd View",
        "Differentially private view",
        "synthetic records",
        "weight",
        "systolic_bp | double precision",
        "a group is named by the start of its bin",
    ):
        assert expected in listed.stdout
    # Commands whose output need not be that of PostgreSQL, which others are compared with.
    commands = r"\l \\ \dn \\ \du \\ \dx \\ \db \\ \conninfo \\ \dS+ \\ \dn+ \\ \dL \\ \d pg_class"
    assert "ERROR" not in psql(served, text=commands).stderr


def test_names_are_quoted_bins_are_their_starts_and_rows_are_computed(served):
    def told(sql: str) -> list[str]:
        answer = psql(served, "-At", "-c", sql)
        assert not answer.stderr.replace("NOTICE:  These are synthetic records", "").count("ERROR")
        return answer.stdout.splitlines()

    columns = '"The ""Kind""", "Size", weight, at'
    (row,) = told(f'SELECT {columns}, count(*) FROM public."Odd View" GROUP BY 1, 2, 3, 4 LIMIT 1')
    assert re.fullmatch(r"(it's|a b|ü|)\|\d+\|[\d.]+\|2024-01-0\d \d\d:00:00\|[\d.e-]+", row)
    for sql in (
        'SELECT "Size" AS s, count(*) FROM "Odd View" GROUP BY 1 ORDER BY 1',
        'SELECT * FROM (SELECT o."Size", count(*) FROM "Odd View" o GROUP BY o."Size") t ORDER BY 1',
        'WITH c(s, n) AS (SELECT "Size", count(*) FROM "Odd View" GROUP BY 1) SELECT s, n FROM c ORDER BY s',
    ):
        assert [line.partition("|")[0] for line in told(sql)] == [str(i) for i in range(0, 100, 10)]
    tens = "age / 10 = trunc(age / 10.0), to_char(admitted, 'YYYY \"Q\"Q')"
    lines = told(f"SELECT {tens} FROM admissions LIMIT 50")
    assert len(lines) == 50
    assert all(re.fullmatch(r"t\|20\d\d Q[1-4]", line) for line in lines)


def test_the_analysts_script_gives_the_numbers_of_python(served, expected):
    separator = "next question"
    script = SCRIPT.read_text(encoding="utf-8").replace(";\n", f";\n\\echo {separator}\n")
    result = psql(served, "-At", "--csv", "-f", "-", text=script)
    assert all("NOTICE:  Relationships that were not counted" in line for line in result.stderr.splitlines())
    answers = [list(csv.reader(io.StringIO(part.strip("\n")))) for part in result.stdout.split(separator)]
    answers = [answer for answer in answers if answer]
    assert len(answers) == len(QUESTIONS) == 22
    for ours, theirs, question in zip(expected, answers, QUESTIONS, strict=True):
        assert_same(ours, theirs, question)


def test_rows_are_synthetic_and_said_to_be(served):
    first, second = (psql(served, "-At", "-c", "SELECT * FROM admissions LIMIT 5") for _ in range(2))
    assert "NOTICE:  These are synthetic records" in first.stderr
    assert first.stdout == second.stdout
    assert len(first.stdout.splitlines()) == 5


def test_refusals_carry_the_nearest_question_as_a_hint(served):
    result = psql(served, "-v", "VERBOSITY=verbose", "-c", "SELECT max(age) FROM admissions")
    assert "ERROR:  0A000: MAX(age)" in result.stderr
    hint = re.search(r"percentile_cont\(.*?\(.*?\)", result.stderr)
    again = psql(served, "-At", "-c", f"SELECT {hint[0]} FROM admissions")
    assert 80 < float(again.stdout) <= 96


def test_several_statements_settings_and_copies(served):
    text = (
        "SET hdpview.intervals = on; BEGIN; SELECT count(*) AS n FROM admissions; COMMIT;\n"
        "SELECT dp_interval_low(count(*)) FROM admissions;\n"
        "\\copy (SELECT ward, count(*) AS n FROM admissions GROUP BY 1) TO STDOUT WITH (FORMAT csv, HEADER)\n"
    )
    result = psql(served, "--csv", "-f", "-", text=text)
    assert not result.stderr
    assert "n,n_lower,n_upper" in result.stdout
    assert result.stdout.count("surgery,") == 1
