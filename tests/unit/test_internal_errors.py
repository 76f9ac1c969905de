"""Bugs are reported as bugs, and incomplete statements are refused on purpose."""

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


INCOMPLETE = [
    "SUM() FROM view", "AVG() AS a FROM view GROUP BY sex", "COUNT(*) FROM view WHERE age BETWEEN 3 AND",
    "CASE WHEN THEN 1 END FROM view", "YEAR() FROM view", "CAST(age AS) FROM view",
]  # fmt: skip
ILL_TYPED = [
    "YEAR(1)", "YEAR(age)", "YEAR(ill)", "date_trunc('month', 0.5)", "UPPER(1)", "'a' + 1",
    "GREATEST(1, 'a')", "LEFT('a', 'b')",
]  # fmt: skip
INCOMPLETE += [f"COUNT(*) FROM view WHERE {wrong} = 1" for wrong in ILL_TYPED]


@pytest.mark.parametrize("rest", INCOMPLETE)
def test_incomplete_and_ill_typed_statements_are_refused(rest):
    with pytest.raises(hv.QueryError):
        VIEW.sql(f"SELECT {rest}")


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
