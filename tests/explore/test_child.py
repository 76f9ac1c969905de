"""The child processes of servers: what they return, raise and may use."""

from collections.abc import Iterator

import pytest

from hdpview.errors import QueryError, ViewFileError
from hdpview.explore.child import Child, ChildError
from hdpview.explore.postgres.sqlstates import SqlState, as_pg_error


@pytest.fixture
def child() -> Iterator[Child]:
    """A child that serves Python's own functions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hdpview.explore.child.SECONDS", 60.0)
        made = Child("importlib", "import_module", "builtins")
        yield made
        made.close()


def test_results_and_errors_come_back(child):
    assert child.ask("sorted", [3, 1, 2]) == [1, 2, 3]
    with pytest.raises(ChildError, match="ZeroDivisionError"):
        child.ask("divmod", 1, 0)
    assert child.ask("sum", [1, 2]) == 3


def test_work_that_takes_too_long_is_ended(child, monkeypatch):
    child.start()
    with monkeypatch.context() as patch:
        patch.setattr("hdpview.explore.child.SECONDS", 0.3)
        with pytest.raises(QueryError, match="time limit") as refusal:
            child.ask("sum", range(10**12))
    assert as_pg_error(refusal.value).code == SqlState.QUERY_CANCELED
    assert child.ask("sum", [1, 2]) == 3


def test_memory_is_limited(child):
    with pytest.raises(QueryError, match="memory limit") as refusal:
        child.ask("bytearray", 3 * 2**30)
    assert as_pg_error(refusal.value).code == SqlState.TOO_COMPLEX
    assert len(child.ask("bytearray", 2**20)) == 2**20


def test_an_object_that_cannot_be_made_says_why():
    child = Child("hdpview.explore.postgres.answerer", "Answerer", {"x": "/nowhere.pview"})
    with pytest.raises(ViewFileError):
        child.ask("describe", "SELECT 1", None)
    child.close()
