"""Strangers get nowhere: what the explorer's server refuses, in words, and what every answer forbids."""

from __future__ import annotations

import http.client
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from fastapi.testclient import TestClient
from questions import GETS, HOME, POSTS, refused

from hdpview.explore import notebook, server
from hdpview.explore.server import MAX_BODY_BYTES, create_app
from hdpview.pview import PView


@pytest.mark.parametrize(
    ("path", "body", "word"),
    [
        ("/api/sql", {"sql": "SELEC 1"}, "Not valid SQL"),
        ("/api/sql", {"sql": "SELECT COUNT(*) FROM view WHERE agee > 3"}, "Did you mean 'age'"),
        ("/api/sql", {"sql": "DROP TABLE view"}, "SELECT"),
        ("/api/sql", {"sql": "SELECT * FROM read_csv('/etc/passwd')"}, "view"),
        ("/api/sql", {"sql": "COPY view TO '/tmp/x'"}, "SELECT"),
        ("/api/histograms", {"where": "age >"}, ""),
        ("/api/histograms", {"own": {"nothing": None}}, "nothing"),
        ("/api/histograms", {"view": "../../etc/passwd"}, "view"),
        ("/api/pairs", {"first": "age", "second": "age"}, "two different"),
        ("/api/compare", {"first": "nobody = 1"}, "nobody"),
        ("/api/table", {"sql": "SELECT"}, ""),
        ("/api/sql", {"sql": "SELECT COUNT(*) FROM view", "view": "other.pview"}, "hospital.pview"),
    ],
)
def test_bad_questions_are_refused_in_words(
    client: TestClient, path: str, body: dict[str, Any], word: str
) -> None:
    """Whatever cannot be answered is refused with status 400 and a sentence, never a traceback."""
    told = refused(client, path, **body)
    assert len(told) > 10
    assert word in told
    assert "Traceback" not in told


def test_misshapen_questions_are_refused_in_words(client: TestClient) -> None:
    """Bodies of another form get status 422 and a sentence that does not repeat what was sent."""
    one = {"sql": "SELECT 1"}
    for body in ({}, {"sql": 3}, {"sql": "x" * 100_001}, one | {"confidence": 2}, one | {"extra": 1}):
        answer = client.post("/api/sql", json=body)
        assert answer.status_code == 422
        assert 10 < len(answer.json()["error"]) < 600


def test_endless_conditions_end(client: TestClient) -> None:
    """Conditions nested or repeated thousands of times are answered or refused in words, and never bring the
    server down.
    """
    for where in (
        "(" * 9_000 + "age = 1" + ")" * 9_000,
        "NOT " * 20_000 + "age = 1",
        "age = " + "-" * 9_000 + "1",
        " OR ".join(["age = 1"] * 9_000),
        "\x00",
        "'",
    ):
        answer = client.post("/api/histograms", json={"where": where})
        assert answer.status_code in (200, 400)
        assert answer.status_code == 200 or len(answer.json()["error"]) > 10
    nested = client.post(
        "/api/histograms", content=b"[" * 90_000, headers={"content-type": "application/json"}
    )
    assert nested.status_code in (400, 422)
    assert nested.json()["error"]


def test_unknown_view_names_those_served(client: TestClient) -> None:
    """A view that is not served is refused; so is a path."""
    for name in ("other.pview", "/etc/passwd", "../hospital.pview"):
        answer = client.get("/api/schema", params={"view": name})
        assert answer.status_code == 400
        assert "hospital.pview" in answer.json()["error"]


def test_long_bodies_are_refused_before_they_are_read(client: TestClient) -> None:
    """A body over the limit, of no stated length or of a false one gets 413."""
    assert client.post("/api/sql", content=b"x" * (MAX_BODY_BYTES + 1)).status_code == 413
    assert client.post("/api/sql", content=iter([b"{}"])).status_code == 413
    assert client.post("/api/sql", content=b"{}", headers={"content-length": "-5"}).status_code == 413


def test_foreign_hosts_are_refused(client: TestClient) -> None:
    """A page elsewhere that points its own name to this machine is not answered."""
    assert client.get("/api/views", headers={"host": "evil.example"}).status_code == 400
    for host in ("127.0.0.1:1234", "localhost", "localhost:8765"):
        assert client.get("/api/views", headers={"host": host}).status_code == 200


def test_only_the_methods_listed(client: TestClient) -> None:
    """Other methods than an endpoint's own are refused."""
    for path in POSTS:
        for method in ("GET", "PUT", "DELETE", "PATCH"):
            assert client.request(method, path).status_code in (404, 405)
    for path in [*GETS, "/", "/app.js"]:
        for method in ("POST", "PUT", "DELETE"):
            assert client.request(method, path).status_code == 405


def test_every_answer_carries_the_security_headers(client: TestClient) -> None:
    """Pages, files, answers and errors alike forbid foreign scripts, frames, sniffing, referrers and
    caching.
    """
    for path in ("/", "/app.js", "/style.css", "/api/views", "/nothing", "/api/schema?view=x"):
        headers = client.get(path).headers
        assert "default-src 'self'" in headers["content-security-policy"]
        assert "frame-ancestors 'self'" in headers["content-security-policy"]
        assert "unsafe-eval" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers


def test_files_beside_the_page_stay_hidden(explorer: notebook.Explorer) -> None:
    """No spelling of a path leads out of the page's own folder."""
    up = ("/../", "/..%2f", "/%2e%2e/", "/static/../../", "/..%5c")
    for path in (*(f"{way}server.py" for way in up), "//etc/passwd", "/%2fetc%2fpasswd", "/app.js%00"):
        connection = http.client.HTTPConnection(urlsplit(explorer.url).netloc, timeout=60)
        connection.request("GET", path)  # as it stands: clients would tidy it up
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        assert answer.status in (400, 404)
        assert b"import" not in text
        assert b"root:" not in text


def test_there_are_no_pages_from_elsewhere(client: TestClient) -> None:
    """The documentation pages that would load scripts from a CDN are off, and no file of the page names
    another server.
    """
    assert client.get("/docs").status_code == client.get("/redoc").status_code == 404
    for file in (Path(server.__file__).parent / "static").iterdir():
        assert not {"https://", "http://cdn", "//unpkg"} & {
            part for part in ("https://", "http://cdn", "//unpkg") if part in file.read_text()
        }


def test_a_token_opens_by_link_cookie_or_header(hospital: PView) -> None:
    """With a token, nothing is served without it; the printed link, the cookie it sets and a header open
    it.
    """
    app = create_app({"hospital.pview": hospital}, token="s3cret-ü")
    with TestClient(app, HOME) as client:
        for path in ("/", "/app.js", "/api/views", "/api/openapi.json"):
            assert client.get(path).status_code == 401
            assert client.get(path, params={"token": "wrong"}).status_code == 401
        assert client.get("/api/views", headers={"authorization": "Bearer no"}).status_code == 401
        assert client.post("/api/sql", json=POSTS["/api/sql"]).status_code == 401
        opened = client.get("/", params={"token": "s3cret-ü"})
        assert opened.status_code == 200
        assert "httponly" in opened.headers["set-cookie"].lower()
        assert "samesite=strict" in opened.headers["set-cookie"].lower()
        assert client.get("/api/views").status_code == 200  # the cookie
    with TestClient(create_app({"hospital.pview": hospital}, token="plain"), HOME) as client:
        assert client.get("/api/views", headers={"authorization": "Bearer plain"}).status_code == 200


def test_slow_questions_end_in_words(hospital: PView, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question that takes longer than allowed is answered 503 with a sentence, and the server goes on."""
    monkeypatch.setattr(server, "ANSWER_SECONDS", 1e-9)
    with TestClient(create_app({"v": hospital}), HOME) as client:
        slow = client.post("/api/histograms", json={"where": "age > 3"})
        assert slow.status_code == 503
        assert "longer" in slow.json()["error"]
        monkeypatch.setattr(server, "ANSWER_SECONDS", 20.0)
        assert client.post("/api/histograms", json={"where": "age > 3"}).status_code == 200
