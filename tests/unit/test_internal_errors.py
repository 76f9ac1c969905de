"""Bugs are reported as bugs, and incomplete statements are refused on purpose."""

import contextlib
import random
import subprocess
import sys

import pytest

import hdpview as hv
from hdpview.query.evaluate import execute
from hdpview_bench import fuzz

VIEW = fuzz._views()[0]


@pytest.mark.parametrize("error", [AttributeError, TypeError, KeyError, IndexError, ValueError])
def test_a_mistake_of_ours_is_no_question_of_style(error, monkeypatch):
    def broken(*_: object) -> None:
        raise error("ours")

    monkeypatch.setattr(execute, "Statement", broken)
    with pytest.raises(
        hv.InternalError, match=rf"bug in hdpview, not in your statement \({error.__name__}\)"
    ):
        VIEW.sql("SELECT COUNT(*) + 1 FROM view")


# Incomplete statements, and types that do not fit.
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT SUM() FROM view",
        "SELECT AVG() AS a FROM view GROUP BY sex",
        "SELECT COUNT(*) FROM view WHERE age BETWEEN 3 AND",
        "SELECT CASE WHEN THEN 1 END FROM view",
        "SELECT YEAR() FROM view",
        "SELECT CAST(age AS) FROM view",
        *[
            f"SELECT COUNT(*) FROM view WHERE {wrong} = 1"
            for wrong in (
                "YEAR(1)", "YEAR(age)", "YEAR(ill)", "date_trunc('month', 0.5)", "UPPER(1)", "'a' + 1",
            )
        ],
        "SELECT COUNT(*) FROM view WHERE GREATEST(1, 'a') = 1",
        "SELECT COUNT(*) FROM view WHERE LEFT('a', 'b') = 1",
    ],
)  # fmt: skip
def test_incomplete_and_ill_typed_statements_are_refused(statement):
    with pytest.raises(hv.QueryError):
        VIEW.sql(statement)


FUNCTIONS = (
    "COUNT SUM AVG MEDIAN MIN MAX ROUND FLOOR ABS LEFT SUBSTRING COALESCE NULLIF GREATEST YEAR DATE_TRUNC IF "
    "MOD"
)
ARGUMENTS = "|*|age|sex|admitted|ill|NULL|'x'|1|age, 1|'month', admitted|DISTINCT age"
SHAPES = (
    "SELECT {0} FROM view",
    "SELECT COUNT(*) FROM view WHERE {0} > 1",
    "SELECT {0} AS g, COUNT(*) FROM view GROUP BY g",
)


def test_no_function_with_odd_arguments_is_a_mistake_of_ours():
    rng = random.Random(5)
    for _ in range(400):
        call = f"{rng.choice(FUNCTIONS.split())}({rng.choice(ARGUMENTS.split('|'))})"
        with contextlib.suppress(hv.HdpviewError):
            try:
                VIEW.sql(rng.choice(SHAPES).format(call))
            except hv.InternalError:
                pytest.fail(call)


def test_the_command_ends_with_70_and_says_how_to_report(tmp_path):
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
