"""No statement leaves the view: files, settings, other tables and endless work are refused or stopped."""

import time

import numpy as np
import pytest

from cells import noiseless_view
from escapes import ESCAPES
from hdpview.domain import Boolean, Category, Integer, Schema
from hdpview.errors import HdpviewError, InternalError
from hdpview.query.evaluate import run

SCHEMA = Schema(
    [
        Integer(name="age", min=0, max=99),
        Category(name="region", values=("North", "South")),
        Boolean(name="ill"),
    ]
)
VIEW = noiseless_view(SCHEMA, np.array([[1, 0, 0], [2, 1, 1], [50, 0, 1]]))
SLOWEST_SECONDS = 20.0  # a stopped statement ends long before; machines that run tests may be slow


# The server has a catalogue, settings that clients set without effect, and synthetic records in any order.
OF_VIEWS = [
    "SET memory_limit = '100GB'", "RESET lock_configuration",
    "SELECT COUNT(*) FROM information_schema.tables", "SELECT COUNT(*) FROM pg_catalog.pg_class",
    "SELECT random(), COUNT(*) FROM view GROUP BY 1",
]  # fmt: skip


ENDLESS = [
    "WITH t AS (SELECT age, ill, COUNT(*) FROM view GROUP BY ALL) SELECT COUNT(*) FROM t a, t b, t c, t d",
    "WITH a AS (SELECT repeat('x', 1000) AS s), " + ", ".join(
        f"{new} AS (SELECT s || s || s || s || s || s || s || s AS s FROM {old})"
        for old, new in zip("abcdefghi", "bcdefghij", strict=True)
    ) + " SELECT length(s) FROM j",
    "SELECT COUNT(*) FROM view WHERE " + "(" * 3_000 + "age = 1" + ")" * 3_000,
    "SELECT COUNT(*) FROM " + "(SELECT * FROM " * 300 + "view" + ")" * 300,
    f"SELECT COUNT(*) FROM view WHERE region = '{'x' * 300_000}'",
    "SELECT 9 ** 9 ** 9 ** 9, COUNT(*) FROM view",
]  # fmt: skip


@pytest.mark.parametrize("sql", [*ESCAPES, *OF_VIEWS])
def test_escapes_are_refused(sql):
    with pytest.raises(HdpviewError) as refusal:
        run(VIEW, sql)
    assert not isinstance(refusal.value, InternalError), refusal.value.__cause__
    assert len(str(refusal.value)) < 500


@pytest.mark.parametrize("sql", ENDLESS)
def test_endless_work_is_stopped(sql, monkeypatch):
    monkeypatch.setattr("hdpview.query.evaluate.deadline.CPU_SECONDS", 1.0)
    start = time.process_time()
    try:
        run(VIEW, sql)
    except InternalError as problem:
        pytest.fail(repr(problem.__cause__))
    except HdpviewError:
        pass
    assert time.process_time() - start < SLOWEST_SECONDS


def test_answers_go_on_after_a_statement_was_stopped():
    assert run(VIEW, "SELECT COUNT(*) AS n FROM view").to_rows()[0]["n"] == pytest.approx(3.0)


def test_internal_tables_cannot_be_named():
    from hdpview.query.evaluate.database import SECRET

    for name in (f"{SECRET}_points0", f"{SECRET}_b0", "points0"):
        with pytest.raises(HdpviewError):
            run(VIEW, f"SELECT COUNT(*) FROM {name}")
