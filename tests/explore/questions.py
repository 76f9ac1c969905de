"""Questions to the explorer's server without a network."""

from typing import Any

from fastapi.testclient import TestClient

HOME = "http://127.0.0.1"
POSTS: dict[str, dict[str, Any]] = {
    "/api/sql": {"sql": "SELECT COUNT(*) FROM view"},
    "/api/histograms": {},
    "/api/pairs": {"first": "sex", "second": "age"},
    "/api/compare": {"first": "age < 30", "second": "age >= 30"},
    "/api/shares": {"first": "age < 30", "second": "age >= 30", "attribute": "sex"},
    "/api/table": {"sql": "SELECT sex, COUNT(*) AS n FROM view GROUP BY sex"},
}
GETS = ["/api/views", "/api/schema", "/api/content"]


def asked(client: TestClient, path: str, **body: Any) -> dict[str, Any]:
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(client: TestClient, path: str, **body: Any) -> str:
    answer = client.post(path, json=body)
    assert answer.status_code == 400
    return str(answer.json()["error"])
