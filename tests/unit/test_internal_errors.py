"""Mistakes of our own are seen as such, and incomplete statements are refused on purpose."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

import hdpview as hv
from hdpview.query.evaluate import execute
from hdpview_bench import fuzz

VIEW = fuzz._views()[0]


@pytest.mark.parametrize("error", [AttributeError, TypeError, KeyError, IndexError, ValueError])
def test_a_mistake_of_ours_is_no_question_of_style(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, it was told as "the statement is not complete"."""

    def broken(*_: object) -> None:
        raise error("ours")

    monkeypatch.setattr(execute, "Statement", broken)
    with pytest.raises(
        hv.InternalError, match=rf"bug in hdpview, not in your statement \({error.__name__}\)"
    ):
        VIEW.sql("SELECT COUNT(*) + 1 FROM view")


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT SUM() FROM view",
        "SELECT AVG() AS a FROM view GROUP BY sex",
        "SELECT COUNT(*) FROM view WHERE age BETWEEN 3 AND",
        "SELECT CASE WHEN THEN 1 END FROM view",
        "SELECT YEAR() FROM view",
        "SELECT CAST(age AS) FROM view",
    ],
)
def test_incomplete_statements_are_refused(statement: str) -> None:
    """In words about the statement."""
    with pytest.raises(hv.QueryError):
        VIEW.sql(statement)


@pytest.mark.parametrize(
    "expression",
    [
        "YEAR(1)",
        "YEAR(age)",
        "YEAR(ill)",
        "date_trunc('month', 0.5)",
        "UPPER(1)",
        "'a' + 1",
        "GREATEST(1, 'a')",
        "LEFT('a', 'b')",
    ],
)
def test_types_that_do_not_fit_are_refused(expression: str) -> None:
    """By values that are there, not by mistakes of ours."""
    with pytest.raises(hv.QueryError):
        VIEW.sql(f"SELECT COUNT(*) FROM view WHERE {expression} = 1")


def test_no_function_with_odd_arguments_is_a_mistake_of_ours() -> None:
    """Functions of SQL with arguments of any number and kind are answered or refused: 400 of them, by a fixed
    seed."""
    rng = random.Random(5)
    functions = """COUNT SUM AVG MEDIAN MIN MAX ROUND FLOOR ABS LEFT SUBSTRING COALESCE NULLIF GREATEST YEAR
        DATE_TRUNC IF MOD""".split()  # noqa: SIM905 a list would be ten times as long
    arguments = [
        "",
        "*",
        "age",
        "sex",
        "admitted",
        "ill",
        "NULL",
        "'x'",
        "1",
        "age, 1",
        "'month', admitted",
        "DISTINCT age",
    ]
    shapes = [
        "SELECT {0} FROM view",
        "SELECT COUNT(*) FROM view WHERE {0} > 1",
        "SELECT {0} AS g, COUNT(*) FROM view GROUP BY g",
    ]
    for _ in range(400):
        call = f"{rng.choice(functions)}({rng.choice(arguments)})"
        try:
            VIEW.sql(rng.choice(shapes).format(call))
        except hv.InternalError:
            pytest.fail(call)
        except hv.HdpviewError:
            pass


def test_the_fuzzer_takes_a_mistake_of_ours_for_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is one of our own errors, and still no refusal."""

    def broken(*_: object) -> None:
        raise AttributeError("ours")

    monkeypatch.setattr(execute, "Statement", broken)
    lines: list[str] = []
    assert fuzz.fuzz(40, 1, "question", lines.append) > 0
    assert any("InternalError" in line for line in lines)


def test_the_command_ends_with_70_and_says_how_to_report(tmp_path: Path) -> None:
    """As programs that call it expect of an internal error."""
    VIEW.save(tmp_path / "v.pview")
    program = (
        "import sys, hdpview.query.evaluate.execute as execute\n"
        "def broken(*_): raise AttributeError('ours')\n"
        "execute.Statement = broken\n"
        "from hdpview.cli.main import main\n"
        "sys.argv = ['hdpview', 'query', 'v.pview', 'SELECT COUNT(*) + 1 FROM view']\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 70
    assert "Please report it" in done.stderr
