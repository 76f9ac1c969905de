"""A server of two views on a free port: the demo's hospital, and one with names that need quotes."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from analyst import Answers, python_answers
from served import Served

from hdpview.build import build
from hdpview.demo import hospital_schema, hospital_table
from hdpview.domain import Category, Datetime, Integer, Real, Schema
from hdpview.explore import child
from hdpview.explore.postgres import PostgresServer, ServerSettings, client_session, listener
from hdpview.pview import PView


@pytest.fixture(scope="session", autouse=True)
def patience() -> Iterator[None]:
    """Answers are limited in processor time; by the clock they may take longer on a busy machine. One child
    process a server starts in half the time of two, which the command's own tests start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(child, "SECONDS", 120.0)
        patch.setattr(listener, "_PROCESSES", 1)
        patch.setattr(client_session, "ANSWER_SECONDS", 120.0)
        patch.setattr(client_session, "LOGIN_SECONDS", 60.0)
        yield


@pytest.fixture(scope="session")
def hospital_view() -> PView:
    return build(hospital_table(), hospital_schema(), 1.0, test_key=b"postgres")


@pytest.fixture(scope="session")
def odd_view() -> PView:
    schema = Schema(
        [
            Category(name='The "Kind"', values=["it's", "a b", "ü"], nullable=True),
            Integer(name="Size", min=0, max=99, every=10),
            Real(name="weight", min=0.0, max=10.0, bins=4),
            Datetime(name="at", min="2024-01-01", max="2024-01-02", every="6h"),
        ]
    )
    n = 400
    rows = {
        'The "Kind"': [["it's", "a b", "ü", None][i % 4] for i in range(n)],
        "Size": [i % 100 for i in range(n)],
        "weight": [i % 10 for i in range(n)],
        "at": [f"2024-01-0{1 + i % 2} 0{i % 10}:00:00" for i in range(n)],
    }
    return build(pa.table(rows), schema, 20.0, test_key=b"odd")


@pytest.fixture(scope="session")
def served(hospital_view: PView, odd_view: PView) -> Iterator[Served]:
    views = {"admissions": hospital_view, "Odd View": odd_view}
    with PostgresServer(views, ServerSettings(port=0)) as server:
        server.warm_up()
        yield Served(hospital_view, server, server.port)


@pytest.fixture(scope="session")
def expected(hospital_view: PView) -> Answers:
    return python_answers(hospital_view)
