"""Numbers of persons: who is counted, what one of them can change, and what is answered from it. [P18]"""

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hdpview as hv
from hdpview.counts.contributions import Contributions
from hdpview.counts.ingest import ReadOptions
from hdpview.counts.person_counts import person_counts
from hdpview.privacy.exact import unprotected
from hdpview_bench.replay import small_fits

SCHEMA = hv.Schema(
    [hv.Category(name="ward", values=("a", "b", "c")), hv.Integer(name="year", min=2020, max=2023)]
)
ROWS = st.lists(
    st.tuples(st.sampled_from("pqrs"), st.sampled_from("abc"), st.integers(2020, 2023)), max_size=30
)


def table(rows: list[Any]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    kinds = {"who": pa.string(), "ward": pa.string(), "year": pa.int64()}
    return pa.table({n: pa.array(c, k) for (n, k), c in zip(kinds.items(), columns, strict=True)})


def persons_of(rows: list[Any], k: int) -> list[np.ndarray]:
    options = ReadOptions(Contributions("who", k), "salt", threads=1)
    return [unprotected(each) for each in person_counts(table(rows), SCHEMA, options, ["ward", "year"])]


@given(ROWS)
@settings(max_examples=15)
def test_each_person_counts_once_per_value(rows):
    everybody, wards, years = persons_of(rows, 4)
    assert everybody.tolist() == [len({who for who, *_ in rows})]
    assert wards.tolist() == [len({who for who, ward, _ in rows if ward == w}) for w in "abc"]
    assert years.tolist() == [len({who for who, _, year in rows if year == y}) for y in range(2020, 2024)]


@given(ROWS, st.integers(1, 3))
@settings(max_examples=25)
def test_a_person_changes_each_number_by_one_and_k_of_them(rows, k):
    with_p, without = persons_of(rows, k), persons_of([row for row in rows if row[0] != "p"], k)
    for i, (more, less) in enumerate(zip(with_p, without, strict=True)):
        change = more - less
        assert set(change.tolist()) <= {0, 1}
        assert change.sum() <= (1 if i == 0 else k)


def built(**options: Any) -> hv.PView:
    rng = np.random.default_rng(0)
    rows = [
        (f"p{rng.integers(300)}", "abc"[rng.integers(3)], 2020 + int(rng.integers(4))) for _ in range(900)
    ]
    ready = {"privacy_unit": "who", "max_rows": 2, "people": ["ward"], "ledger": False, "test_key": b"k"}
    with small_fits():
        return hv.build(table(rows), SCHEMA, 50, **{**ready, **options})


def test_numbers_of_persons_are_charged_and_kept(tmp_path):
    view = built(quality=False)
    everybody, wards = view.parts[0].people
    assert 1 / everybody.scale == pytest.approx(2.5)
    assert 1 / wards.scale == pytest.approx(2.5 / 2)
    assert sum(each.epsilon * each.times for each in view.manifest.spending) == Fraction(50)
    view.save(tmp_path / "v.pview")
    again = hv.open(tmp_path / "v.pview")
    assert [t.counts.tolist() for t in again.parts[0].people] == [
        everybody.counts.tolist(), wards.counts.tolist()
    ]  # fmt: skip
    assert again.info()["people"] == ["ward"]


def test_sql_counts_persons():
    view = built()
    everybody, wards = view.parts[0].people

    def ask(sql: str) -> list[dict[str, Any]]:
        return view.sql(sql, as_="pyarrow").to_pylist()

    (row,) = ask("SELECT COUNT(DISTINCT who) AS n FROM view")
    assert row["n"] == everybody.counts[0]
    assert row["n_lower"] < row["n"] < row["n_upper"]
    groups = ask("SELECT ward, COUNT(DISTINCT who) AS n FROM view GROUP BY ward ORDER BY n DESC")
    assert [g["n"] for g in groups] == sorted(wards.counts.tolist(), reverse=True)
    (one,) = ask("SELECT COUNT(DISTINCT who) FROM view WHERE ward = 'b'")
    assert one["count(DISTINCT who)"] == wards.counts[1]


def test_other_numbers_of_persons_are_refused_with_the_reason():
    counted, uncounted = built(), built(people=[])
    for sql in OTHERS:
        with pytest.raises(hv.QueryError, match="person may"):
            counted.sql(f"SELECT {sql}")
        with pytest.raises(hv.QueryError, match="nowhere in this view"):
            uncounted.sql(f"SELECT {sql}")


@pytest.mark.parametrize(
    "wrong", [{"people": ["age"]}, {"people": "ward"}, {"privacy_unit": None, "max_rows": 1}]
)
def test_wrong_requests_are_refused_before_anything_is_read(wrong):
    with pytest.raises(hv.DataError, match="people"):
        built(**wrong)


OTHERS = [
    "COUNT(DISTINCT who) FROM view WHERE ward IN ('a', 'b')", "COUNT(DISTINCT who) + 1 AS n FROM view",
    "year, COUNT(DISTINCT who) FROM view GROUP BY year", "COUNT(DISTINCT who) / COUNT(*) AS n FROM view",
    "ward, COUNT(DISTINCT who) FROM view WHERE year = 2020 GROUP BY ward",
    "COUNT(DISTINCT who) FROM view WHERE ward = 'a' OR year = 2020",
]  # fmt: skip
