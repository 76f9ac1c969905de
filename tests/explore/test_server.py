"""The explorer's server: its answers are the view's, and strangers get nowhere."""

from __future__ import annotations

import http.client
import io
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient

from hdpview.bench.serve import serve_row
from hdpview.explore import notebook, server
from hdpview.explore.recent import Recent
from hdpview.explore.server import MAX_BODY_BYTES, create_app
from hdpview.pview import PView

WHERE = "age >= 65 AND sex = 'Female'"
HOME = "http://127.0.0.1"
POSTS: dict[str, dict[str, Any]] = {
    "/api/sql": {"sql": "SELECT COUNT(*) FROM view"},
    "/api/histograms": {},
    "/api/pairs": {"first": "sex", "second": "age"},
    "/api/blocks": {"first": "sex", "second": "age"},
    "/api/compare": {"first": "age < 30", "second": "age >= 30"},
    "/api/table": {"sql": "SELECT sex, COUNT(*) AS n FROM view GROUP BY sex"},
}
GETS = ["/api/views", "/api/schema"]


@pytest.fixture(scope="module")
def client(hospital: PView, hostile: PView) -> Iterator[TestClient]:
    with TestClient(create_app({"hospital.pview": hospital, "hostile.pview": hostile}), HOME, raise_server_exceptions=False) as made:
        yield made


def asked(client: TestClient, path: str, **body: Any) -> dict[str, Any]:
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()  # type: ignore[no-any-return]


def refused(client: TestClient, path: str, **body: Any) -> str:
    answer = client.post(path, json=body)
    assert answer.status_code == 400
    return str(answer.json()["error"])


def test_views_and_schema_are_the_public_facts(client: TestClient, hospital: PView) -> None:
    """The list of views and the schema say what `view.info()` says, and name every attribute with all its labels."""
    views, schema = client.get("/api/views").json(), client.get("/api/schema").json()
    assert [view["name"] for view in views] == ["hospital.pview", "hostile.pview"]
    assert [view["private"] for view in views] == [True, False]
    facts = hospital.info()
    assert {key: schema[key] for key in ("epsilon", "spending", "method", "risk")} == {
        key: facts[key] for key in ("epsilon", "spending", "method", "risk")
    }
    assert [a["name"] for a in schema["attributes"]] == list(hospital.schema.names)
    assert all(a["labels"] == hospital.schema[a["name"]].labels() for a in schema["attributes"])
    assert client.get("/api/schema", params={"view": "hostile.pview"}).json()["private"] is False


def test_sql_answers_are_the_views(client: TestClient, hospital: PView) -> None:
    """Rows, columns and intervals of a statement are those of `view.sql`, at the confidence asked for."""
    statement = f"SELECT region, COUNT(*) AS n, AVG(age) AS mean_age FROM view WHERE {WHERE} GROUP BY region ORDER BY n DESC"
    answer = asked(client, "/api/sql", sql=statement, confidence=0.9)
    assert answer["rows"] == hospital.sql(statement, confidence=0.9, as_="pyarrow").to_pylist()
    assert answer["columns"][:2] == ["region", "n"]
    assert answer["aggregates"] == ["n", "mean_age"]
    assert (answer["confidence"], answer["epsilon"]) == (0.9, 1.0)


def test_histograms_and_count_are_the_views(client: TestClient, hospital: PView) -> None:
    """The count and every histogram under a condition are the view's; an attribute in `own` follows its own condition."""
    answer = asked(client, "/api/histograms", where=WHERE, own={"age": "sex = 'Female'", "sex": "age >= 65"})
    count = hospital.count(WHERE)
    assert [answer["count"][key] for key in ("estimate", "lower", "upper")] == [count.estimate, count.lower, count.upper]
    assert set(answer["histograms"]) == set(hospital.schema.names)
    for name, found in answer["histograms"].items():
        table = hospital.histogram(name, {"age": "sex = 'Female'", "sex": "age >= 65"}.get(name, WHERE), as_="pyarrow")
        for ours, theirs in zip(("estimate", "lower", "upper"), table.column_names[-3:], strict=True):
            assert found[ours] == pytest.approx(table[theirs].to_pylist(), abs=1e-3)


def test_pairs_are_the_marginal(client: TestClient, hospital: PView) -> None:
    """The heatmap's numbers are those of a group-by over the two attributes."""
    answer = asked(client, "/api/pairs", first="admission", second="age", where="sex = 'Male'")
    table = hospital.marginal(["admission", "age"], "sex = 'Male'", as_="pyarrow")
    flat = [value for row in answer["estimate"] for value in row]
    assert flat == pytest.approx(table[table.column_names[2]].to_pylist(), abs=0.01)


def test_blocks_are_the_views_own(client: TestClient, hospital: PView) -> None:
    """Projected blocks are blocks of the view, each once, the largest first, as many as asked for."""
    answer = asked(client, "/api/blocks", first="age", second="stay_days", limit=50)
    a, b = hospital.schema.index("age"), hospital.schema.index("stay_days")
    real = {
        (*map(int, (low[a], high[a])), *map(int, (low[b], high[b])))
        for low, high in zip(hospital.blocks.lower, hospital.blocks.upper, strict=True)
    }
    drawn = [tuple(block) for block in answer["blocks"]]
    assert answer["of"] == len(real)
    assert len(drawn) == min(50, len(real)) == len(set(drawn))
    assert set(drawn) <= real
    areas = [(x2 - x1) * (y2 - y1) for x1, x2, y1, y2 in drawn]
    assert areas == sorted(areas, reverse=True)


def test_comparison_is_the_views(client: TestClient, hospital: PView) -> None:
    """Two conditions compared give the view's difference, its interval and its verdict."""
    answer = asked(client, "/api/compare", first="age < 40", second="age >= 40")
    found = hospital.compare("age < 40", "age >= 40")
    assert answer["difference"] == found.difference
    assert answer["difference_interval"] == list(found.difference_interval)
    assert answer["is_real"] == found.is_real


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files_hold_the_result_with_its_intervals(client: TestClient, hospital: PView, kind: str) -> None:
    """CSV and Parquet to take away hold what `view.sql` gives, intervals included."""
    statement = "SELECT sex, COUNT(*) AS n FROM view GROUP BY sex ORDER BY sex"
    answer = client.post("/api/table", json={"sql": statement, "format": kind})
    assert answer.status_code == 200
    assert f"result.{kind}" in answer.headers["content-disposition"]
    read = pa_csv.read_csv if kind == "csv" else pq.read_table
    table, expected = read(io.BytesIO(answer.content)), hospital.sql(statement, as_="pyarrow")
    assert isinstance(table, pa.Table)
    assert table.to_pylist() == expected.to_pylist()
    assert {"n_lower", "n_upper"} <= set(table.column_names)


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
        ("/api/blocks", {"first": "age", "second": "agee"}, "Did you mean 'age'"),
        ("/api/compare", {"first": "nobody = 1"}, "nobody"),
        ("/api/table", {"sql": "SELECT"}, ""),
        ("/api/sql", {"sql": "SELECT COUNT(*) FROM view", "view": "other.pview"}, "hospital.pview"),
    ],
)
def test_bad_questions_are_refused_in_words(client: TestClient, path: str, body: dict[str, Any], word: str) -> None:
    """Whatever cannot be answered is refused with status 400 and a sentence, never a traceback."""
    told = refused(client, path, **body)
    assert len(told) > 10
    assert word in told
    assert "Traceback" not in told


@pytest.mark.parametrize(
    "body",
    [
        {"sql": 3},
        {"sql": "SELECT 1", "confidence": 2},
        {"sql": "SELECT 1", "extra": 1},
        {},
        {"sql": "x" * 100_001},
        {"sql": "SELECT 1", "confidence": None},
    ],
)
def test_misshapen_questions_are_refused_in_words(client: TestClient, body: dict[str, Any]) -> None:
    """Bodies of another form get status 422 and a sentence that does not repeat what was sent."""
    answer = client.post("/api/sql", json=body)
    assert answer.status_code == 422
    assert 10 < len(answer.json()["error"]) < 600


@pytest.mark.parametrize(
    "where",
    [
        "(" * 9_000 + "age = 1" + ")" * 9_000,
        "NOT " * 20_000 + "age = 1",
        "age = " + "-" * 9_000 + "1",
        " OR ".join(["age = 1"] * 9_000),
        "\x00",
        "'",
    ],
)
def test_endless_conditions_end(client: TestClient, where: str) -> None:
    """Conditions nested or repeated thousands of times are answered or refused in words, and never bring the server down."""
    answer = client.post("/api/histograms", json={"where": where})
    assert answer.status_code in (200, 400)
    assert answer.status_code == 200 or len(answer.json()["error"]) > 10
    nested = client.post("/api/histograms", content=b"[" * 90_000, headers={"content-type": "application/json"})
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


@pytest.mark.parametrize("path", ["/", "/app.js", "/style.css", "/api/views", "/nothing", "/api/schema?view=x"])
def test_every_answer_carries_the_security_headers(client: TestClient, path: str) -> None:
    """Pages, files, answers and errors alike forbid foreign scripts, frames, sniffing, referrers and caching."""
    headers = client.get(path).headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "frame-ancestors 'self'" in headers["content-security-policy"]
    assert "unsafe-eval" not in headers["content-security-policy"]
    assert (headers["x-content-type-options"], headers["referrer-policy"], headers["cache-control"]) == (
        "nosniff",
        "no-referrer",
        "no-store",
    )
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    "path",
    [
        "/../server.py",
        "/..%2fserver.py",
        "/%2e%2e/server.py",
        "/static/../../server.py",
        "/..%5cserver.py",
        "//etc/passwd",
        "/%2fetc%2fpasswd",
        "/app.js%00",
    ],
)
def test_files_beside_the_page_stay_hidden(explorer: notebook.Explorer, path: str) -> None:
    """No spelling of a path leads out of the page's own folder."""
    connection = http.client.HTTPConnection(urlsplit(explorer.url).netloc, timeout=10)
    connection.request("GET", path)  # as it stands: clients would tidy it up
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    assert answer.status in (400, 404)
    assert b"import" not in text
    assert b"root:" not in text


def test_the_description_lists_every_endpoint(client: TestClient) -> None:
    """The OpenAPI document names every endpoint with a summary and what it may answer."""
    paths = client.get("/api/openapi.json").json()["paths"]
    assert set(paths) == {*POSTS, *GETS}
    for path, methods in paths.items():
        (description,) = methods.values()
        assert description["summary"]
        assert path == "/api/views" or {"200", "400"} <= set(description["responses"])


def test_there_are_no_pages_from_elsewhere(client: TestClient) -> None:
    """The documentation pages that would load scripts from a CDN are off, and no file of the page names another server."""
    assert client.get("/docs").status_code == client.get("/redoc").status_code == 404
    for file in (Path(server.__file__).parent / "static").iterdir():
        assert not {"https://", "http://cdn", "//unpkg"} & {
            part for part in ("https://", "http://cdn", "//unpkg") if part in file.read_text()
        }


def test_a_token_opens_by_link_cookie_or_header(hospital: PView) -> None:
    """With a token, nothing is served without it; the printed link, the cookie it sets and a header open it."""
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


def test_recent_answers_are_the_same_and_few() -> None:
    """The cache gives back what was kept, lets the oldest go first, and never holds more than it may."""
    recent = Recent(10)
    for key in "abc":
        recent.keep(key, b"1234")
    assert (recent.get("a"), recent.get("b"), recent.get("c")) == (None, b"1234", b"1234")
    recent.get("b")
    recent.keep("d", b"12")
    recent.keep("e", b"1")
    assert (recent.get("b"), recent.get("c")) == (b"1234", None)
    recent.keep("huge", b"x" * 11)
    assert recent.get("huge") is None


def test_views_do_not_share_answers(client: TestClient) -> None:
    """The same question to two views gives two answers, first time and again."""
    first, second = (
        [asked(client, "/api/histograms", view=name)["count"] for _ in range(2)] for name in ("hospital.pview", "hostile.pview")
    )
    assert first[0] == first[1] != second[0] == second[1]


@pytest.mark.parametrize("module", ["hdpview.explore.server", "hdpview.explore.notebook"])
def test_the_server_never_loads_the_private_side(module: str) -> None:
    """A process that serves a view has no code loaded that touches tables, noise or budgets."""
    program = f"import sys, {module}\nprint(*(name for name in sys.modules if name.startswith('hdpview.')))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60).stdout.split()
    private = {"privacy", "counts", "partition", "engine", "methods", "door"}
    assert "hdpview.explore.answers" in loaded
    assert not {name for name in loaded if name.split(".")[1] in private}


def test_beyond_this_machine_the_command_asks_for_a_token(tmp_path: Path, hospital: PView) -> None:
    """Listening on another address than this machine's own is refused without a token; so are views that share a name."""
    hospital.save(tmp_path / "a.pview")
    command = [sys.executable, "-m", "hdpview", "explore", str(tmp_path / "a.pview"), "--no-open", "--port", "0"]
    done = subprocess.run([*command, "--host", "0.0.0.0"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "--token" in done.stderr
    twice = subprocess.run([*command, str(tmp_path / "a.pview")], capture_output=True, text=True, timeout=60)
    assert twice.returncode == 2
    assert "Rename one" in twice.stderr


def test_a_notebook_shows_it_in_a_frame(explorer: notebook.Explorer, hospital: PView) -> None:
    """In a notebook the explorer is a frame that local notebooks may show; stopped, it answers no more."""
    assert explorer.url in explorer._repr_html_()
    running = notebook.explore(hospital)
    address = urlsplit(running.url)
    assert address.hostname == "127.0.0.1"
    connection = http.client.HTTPConnection(address.netloc, timeout=10)
    connection.request("GET", "/")
    answer = connection.getresponse()
    assert b"hdpview" in answer.read()
    assert "http://localhost:*" in (answer.getheader("content-security-policy") or "")
    connection.close()
    running.stop()
    with pytest.raises(ConnectionRefusedError):
        http.client.HTTPConnection(address.netloc, timeout=10).request("GET", "/")


def test_many_people_are_measured(tmp_path: Path, hospital: PView) -> None:
    """The bench lets people brush against a server of its own and reports requests without errors, times and memory."""
    hospital.save(tmp_path / "a.pview")
    row = serve_row(tmp_path / "a.pview", users=3, seconds=2)
    assert row["requests"] > 10
    assert row["errors"] == 0
    assert 0 < row["p50_ms"] <= row["p95_ms"] <= row["p99_ms"]
    assert row["server_rss_after_mb"] is None or row["server_rss_after_mb"] > 10


def test_a_view_opens_the_explorer_on_itself(hospital: PView) -> None:
    """view.explore() serves the page and its answers on this machine until it is stopped."""
    running = hospital.explore()
    try:
        with urllib.request.urlopen(f"{running.url}api/views") as answer:
            assert json.load(answer)[0]["n_blocks"] == len(hospital.blocks)
    finally:
        running.stop()
