"""Strangers get nowhere: requests that the explorer's server refuses, and restrictions in every answer."""

import http.client
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from fastapi.testclient import TestClient
from questions import GETS, HOME, POSTS, refused

from hdpview.explore import page_server
from hdpview.explore.page_server import MAX_BODY_BYTES, create_app


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
        ("/api/histograms", {"view": "../../etc/passwd"}, "hospital.pview"),
        ("/api/pairs", {"first": "age", "second": "age"}, "two different"),
        ("/api/compare", {"first": "nobody = 1"}, "nobody"),
        ("/api/table", {"sql": "SELECT"}, ""),
        ("/api/sql", {"sql": "SELECT COUNT(*) FROM view", "view": "other.pview"}, "hospital.pview"),
    ],
)
def test_bad_questions_are_refused_in_words(client, path, body, word):
    told = refused(client, path, **body)
    assert len(told) > 10
    assert word in told
    assert "Traceback" not in told


def test_long_bodies_are_refused_before_they_are_read(client):
    assert client.post("/api/sql", content=b"x" * (MAX_BODY_BYTES + 1)).status_code == 413
    assert client.post("/api/sql", content=iter([b"{}"])).status_code == 413
    assert client.post("/api/sql", content=b"{}", headers={"content-length": "-5"}).status_code == 413


def test_foreign_hosts_are_refused(client):
    assert client.get("/api/views", headers={"host": "evil.example"}).status_code == 400
    for host in ("127.0.0.1:1234", "localhost", "localhost:8765"):
        assert client.get("/api/views", headers={"host": host}).status_code == 200


def test_only_the_methods_listed(client):
    for path in POSTS:
        for method in ("GET", "PUT", "DELETE", "PATCH"):
            assert client.request(method, path).status_code in (404, 405)
    for path in [*GETS, "/", "/app.js"]:
        for method in ("POST", "PUT", "DELETE"):
            assert client.request(method, path).status_code == 405


def test_every_answer_carries_the_security_headers(client):
    for path in ("/", "/app.js", "/style.css", "/api/views", "/nothing", "/api/schema?view=x"):
        headers = client.get(path).headers
        assert "default-src 'self'" in headers["content-security-policy"]
        assert "frame-ancestors 'self'" in headers["content-security-policy"]
        assert "unsafe-eval" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers


def test_files_beside_the_page_stay_hidden(explorer):
    up = ("/../", "/..%2f", "/%2e%2e/", "/static/../../", "/..%5c")
    for path in (*(f"{way}page_server.py" for way in up), "//etc/passwd", "/%2fetc%2fpasswd", "/app.js%00"):
        connection = http.client.HTTPConnection(urlsplit(explorer.url).netloc, timeout=60)
        connection.request("GET", path)  # as it stands: clients would tidy it up
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        assert answer.status in (400, 404)
        assert b"import" not in text
        assert b"root:" not in text


def test_there_are_no_pages_from_elsewhere(client):
    assert client.get("/docs").status_code == client.get("/redoc").status_code == 404
    for file in (Path(page_server.__file__).parent / "static").iterdir():
        assert not any(part in file.read_text() for part in ("https://", "http://cdn", "//unpkg"))


def test_a_token_opens_by_link_cookie_or_header(hospital):
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


def test_slow_questions_end_in_words(hospital, monkeypatch):
    monkeypatch.setattr(page_server, "ANSWER_SECONDS", 1e-9)
    with TestClient(create_app({"v": hospital}), HOME) as client:
        slow = client.post("/api/histograms", json={"where": "age > 3"})
        assert slow.status_code == 503
        assert "longer" in slow.json()["error"]
        monkeypatch.setattr(page_server, "ANSWER_SECONDS", 20.0)
        assert client.post("/api/histograms", json={"where": "age > 3"}).status_code == 200
