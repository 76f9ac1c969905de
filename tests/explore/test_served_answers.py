"""The explorer's server answers what the view answers."""

import io

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from questions import GETS, POSTS, asked

from hdpview.explore.cache import LruCache

WHERE = "age >= 65 AND sex = 'Female'"


def test_views_and_schema_are_the_public_facts(client, hospital):
    views, schema = client.get("/api/views").json(), client.get("/api/schema").json()
    assert [(view["name"], view["private"]) for view in views] == [
        ("hospital.pview", True), ("hostile.pview", False),
    ]  # fmt: skip
    facts, keys = hospital.info(), ("epsilon", "spending", "method", "risk")
    assert [schema[key] for key in keys] == [facts[key] for key in keys]
    assert [a["name"] for a in schema["attributes"]] == list(hospital.schema.names)
    assert all(a["labels"] == hospital.schema[a["name"]].labels() for a in schema["attributes"])
    assert client.get("/api/schema", params={"view": "hostile.pview"}).json()["private"] is False


def test_answers_are_the_views(client, hospital):
    aggregates = "COUNT(*) AS n, AVG(age) AS mean_age"
    statement = f"SELECT region, {aggregates} FROM view WHERE {WHERE} GROUP BY region ORDER BY n DESC"
    answer = asked(client, "/api/sql", sql=statement, confidence=0.9)
    assert answer["rows"] == hospital.sql(statement, confidence=0.9, as_="pyarrow").to_pylist()
    assert (answer["columns"][:2], answer["aggregates"]) == (["region", "n"], ["n", "mean_age"])
    assert (answer["confidence"], answer["epsilon"]) == (0.9, 1.0)
    own = {"age": "sex = 'Female'", "sex": "age >= 65"}
    answer = asked(client, "/api/histograms", where=WHERE, own=own)
    count, ends = hospital.count(WHERE), ("estimate", "lower", "upper")
    told = [answer["count"][end] for end in ends]
    assert told == pytest.approx([getattr(count, end) for end in ends], rel=1e-12)  # in another order
    assert set(answer["histograms"]) == set(hospital.schema.names)
    for name, histogram in answer["histograms"].items():
        table = hospital.histogram(name, own.get(name, WHERE), as_="pyarrow")
        for end, theirs in zip(ends, table.column_names[-3:], strict=True):
            assert histogram[end] == pytest.approx(table[theirs].to_pylist(), abs=1e-3)
    answer = asked(client, "/api/pairs", first="admission", second="age", where="sex = 'Male'")
    table = hospital.marginal(["admission", "age"], "sex = 'Male'", as_="pyarrow")
    flat = [value for row in answer["estimate"] for value in row]
    assert flat == pytest.approx(table[table.column_names[2]].to_pylist(), abs=0.01)
    answer = asked(client, "/api/compare", first="age < 40", second="age >= 40")
    comparison = hospital.compare("age < 40", "age >= 40")
    assert answer["difference_interval"] == list(comparison.difference_interval)
    assert (answer["difference"], answer["is_real"]) == (comparison.difference, comparison.is_real)
    of_views = [
        asked(client, "/api/histograms", view=f"{name}.pview")["count"]
        for name in ("hospital", "hostile") * 2
    ]
    assert of_views[0] == of_views[2] != of_views[1] == of_views[3]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files_hold_the_result_with_its_intervals(client, hospital, kind):
    statement = "SELECT sex, COUNT(*) AS n FROM view GROUP BY sex ORDER BY sex"
    answer = client.post("/api/table", json={"sql": statement, "format": kind})
    assert answer.status_code == 200
    assert f"result.{kind}" in answer.headers["content-disposition"]
    read = pa_csv.read_csv if kind == "csv" else pq.read_table
    table, expected = read(io.BytesIO(answer.content)), hospital.sql(statement, as_="pyarrow")
    assert isinstance(table, pa.Table)
    assert table.to_pylist() == expected.to_pylist()
    assert {"n_lower", "n_upper"} <= set(table.column_names)


def test_recent_answers_are_the_same_and_few():
    recent = LruCache(10)
    for key in "abc":
        recent.keep(key, b"1234", 4)
    assert (recent.get("a"), recent.get("b"), recent.get("c")) == (None, b"1234", b"1234")
    recent.get("b")
    recent.keep("d", b"12", 2)
    recent.keep("e", b"1", 1)
    assert (recent.get("b"), recent.get("c")) == (b"1234", None)
    recent.keep("huge", b"x" * 11, 11)
    assert recent.get("huge") is None


def test_the_description_lists_every_endpoint(client):
    paths = client.get("/api/openapi.json").json()["paths"]
    assert set(paths) == {*POSTS, *GETS}
    for methods in paths.values():
        (description,) = methods.values()
        assert description["summary"]
        assert {"200", "400"} <= set(description["responses"])
