"""From conditions to boxes, and refusals of all other texts."""

import contextlib
import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from calls import n_calls
from hdpview.domain import Boolean, Category, Datetime, Integer, Real, Schema
from hdpview.errors import QueryError
from hdpview.query.question import conditions
from hdpview.query.question.conditions import code_shares
from hdpview.query.question.where import MAX_TEXT, boxes_of, tree_of

SCHEMA = Schema(
    [
        Integer(name="age", min=0, max=65_000, nullable=True),
        Integer(name="hours", min=0, max=60_000),
        Real(name="income", min=0, max=100, bins=10),
        Category(name="education", values=("None", "School", "College"), other="Other"),
        Boolean(name="smoker", nullable=True),
        Datetime(name="admitted", min="2020-01-01", max="2024-12-31", every="1d"),
        Category(name="marital status", values=("single", "a" * 40)),
    ]
)


def codes(where: Any, attribute: str) -> list[float]:
    """Weights of the codes of one attribute, summed over boxes that restrict it alone."""
    a = SCHEMA.index(attribute)
    total = np.zeros(SCHEMA.sizes[a])
    for box in boxes_of(where, SCHEMA):
        assert set(box) <= {a}
        total += code_shares(SCHEMA.attributes[a], box[a]) if box else 1.0
    return total.tolist()


# The text, the attribute it is about, and which of its codes it holds for.
# tests/property/test_logic.py compares random conditions with DuckDB.
MEANINGS = [
    ("education = 'School'", "education", [0, 1, 0, 0]),
    ("education NOT IN ('None', 'Other')", "education", [0, 1, 1, 0]),
    ("education ILIKE '%O%'", "education", [1, 1, 1, 0]),
    ("education NOT LIKE '_o__'", "education", [0, 1, 1, 1]),
    ("'School' = \"Education\" -- a comment", "education", [0, 1, 0, 0]),
    ("education IS NULL", "education", [0, 0, 0, 0]), ("smoker = 'true'", "smoker", [0, 1, 0]),
    ("smoker IN (TRUE, FALSE)", "smoker", [1, 1, 0]), ("NOT COALESCE(smoker, FALSE)", "smoker", [1, 0, 1]),
    ("\"marital status\" = 'single'", "marital status", [1, 0]),
    ("income * 2 >= 40", "income", [0, 0, 1, 1, 1, 1, 1, 1, 1, 1]),
    ("income < 10 + 10", "income", [1, 1, 0, 0, 0, 0, 0, 0, 0, 0]),
]  # fmt: skip


SAME = [
    (None, "TRUE"), ("TRUE", "1 < 2"), ("FALSE", "age < 5 AND age > 9"),
    ("age < 40 OR age >= 40", "age IS NOT NULL"),
    ("age BETWEEN SYMMETRIC 5 AND 1", "age BETWEEN 1 AND 5"),
    ("(age < 40 AND smoker) OR (smoker AND age BETWEEN 30 AND 50)", "age <= 50 AND smoker"),
]  # fmt: skip


def test_conditions_hold_for_these_codes_in_as_few_boxes_as_can_be():
    for text, attribute, expected in MEANINGS:
        assert codes(text, attribute) == expected, text
    for one, other in SAME:
        assert boxes_of(one, SCHEMA) == boxes_of(other, SCHEMA), one
    assert (boxes_of(None, SCHEMA), boxes_of("FALSE", SCHEMA)) == ([{}], [])
    assert len(boxes_of(" OR ".join(f"age = {3 * i}" for i in range(300)), SCHEMA)) == 1


def test_undeclared_values_may_satisfy_what_looks_inside_them():
    """What is in `other` is unknown to a pattern, but not to a comparison."""
    patterns = {"education LIKE 'S%'": True, "education NOT LIKE 'S%'": True, "education <> 'None'": False}
    for text, is_open in patterns.items():
        (box,) = boxes_of(text, SCHEMA)
        reached = conditions.reach(SCHEMA.attributes[3], box[3])
        assert (box[3].open is not None) == is_open
        assert (reached.possible[3], reached.certain[3]) == (True, not is_open)


REFUSED = {
    "educaton = 'School'": r"Unknown attribute 'educaton'\. Did you mean 'education'\? This view has: age",
    "education = 'Scool'": r"Unknown value 'Scool'\. Did you mean 'School'\?.*as 'Other'",
    "education < 'School'": r"'education' has no order, so < has no meaning for it\. Use = or IN",
    "education = School": r"'School' is not an attribute. Write a text in single quotes: 'School'",
    "age = hours": r"age = hours combines attributes.* Ask view.sql",
    "age = 'old'": r"'age' is compared with a number, not with 'old'",
    "admitted > 5": r"'admitted' is compared with a date such as DATE '2024-01-31'",
    "admitted > '2024-02-30'": r"'admitted' is compared with a date",
    "income = 5": r"a single value cannot be counted\. Use a range, such as income BETWEEN 5 AND 15",
    "age LIKE '1%'": r"age LIKE '1%' is not a condition on records",
    "smoker = 'maybe'": r"'smoker' is true or false, not 'maybe'",
    "age <": r"Not valid SQL: a part is missing. Line 1, Col: 5.",
    "sex = 'x": r"Not valid SQL: a quotation or comment has no end.",
    "age < 5)": r"Not valid SQL",
    "  \n": r"The condition is empty\. Leave it out to count everything",
    "age < 5; age > 3": r"exactly one SQL condition",
    "age < 1 / 0": r"1 / 0 has no value",
    "age IN (SELECT 1)": r"cannot be part of a condition on records\. Use view\.sql",
    "age > AVG(age)": r"AVG\(age\) cannot be part of a condition",
    "DROP TABLE view": r"DROP is not supported",
    "age < length(repeat('x', 2000000000))": r"REPEAT, LPAD and RPAD take a plain number",
    "age < (SELECT count(*) FROM read_csv('/etc/passwd'))": r"cannot be part of|not supported|only table",
}


# Texts of up to 200,000 characters, nested as deeply as possible.
LONG = [
    "(" * 90_000 + "age < 3" + ")" * 90_000, "NOT " * 49_000 + "age < 3", "age < " + "- " * 90_000 + "3",
    " OR ".join(["age < 3"] * 18_000), " AND ".join(["age < 3"] * 16_500),
    "age < " + "+".join(["1"] * 90_000),
    "[" * 199_000, "CASE WHEN " * 19_000, "'" + "x" * 199_000, "x" * 199_000, "x" * (MAX_TEXT + 1),
]  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_answered_is_refused_with_a_way_out(text):
    with pytest.raises(QueryError, match=REFUSED[text]):
        boxes_of(text, SCHEMA)


@pytest.mark.parametrize("text", LONG, ids=range(len(LONG)))
def test_long_and_deep_texts_are_refused_with_little_work(text):
    """In some millions of calls."""

    def refused():
        with pytest.raises(QueryError):
            boxes_of(text, SCHEMA)

    assert n_calls(refused) < 20_000_000


def test_strange_values_never_raise_anything_but_a_query_error():
    for where in (
        # beyond doubles and the calendar
        "age < 1" + "0" * 350, "income < 1" + "0" * 350, "age < " + "*".join(["9" * 399] * 3),
        "admitted > '0001-01-01T00:00:00+14:00'", "admitted < '9999-12-31T23:59:59-14:00'",
        {"age": 10**400}, {"income": (0, 10**400)}, {"smoker": {"a": 1}}, {3: 3}, {"age": (1, 2, 3)},
        {"age": float("nan")}, {"age": object()}, ["age < 5"], b"age < 5", "age < \x00",
        "education = '\ud800'",
    ):  # fmt: skip
        with contextlib.suppress(QueryError):
            assert isinstance(boxes_of(where, SCHEMA), list)


@pytest.mark.parametrize("value", ["2024-12-30", date(2024, 12, 30), datetime(2024, 12, 30)])
def test_dates_in_all_forms(value):
    expected = [0.0] * 1825 + [1.0, 0.0]
    next_day = datetime(2024, 12, 30, 23, 59, 59, 999_999)
    assert codes({"admitted": (value, next_day)}, "admitted") == pytest.approx(expected)


def test_a_long_list_of_values_costs_what_its_values_cost():
    """10,000 values take four times the calls of 2,500, not sixteen times."""

    def asked(n: int) -> None:
        boxes = boxes_of("age IN (" + ",".join(str(value) for value in range(0, 2 * n, 2)) + ")", SCHEMA)
        assert len(boxes[0][0].ranges) == n

    asked(10)  # what is loaded once
    assert n_calls(lambda: asked(10_000)) < 6 * n_calls(lambda: asked(2_500))


def test_too_many_boxes_are_refused_in_words():
    def pairs(first: str, second: str) -> str:
        return " OR ".join(f"({first} = {7 * i} AND {second} = {i})" for i in range(70))

    with pytest.raises(QueryError, match="more than 4,096 boxes"):
        boxes_of(f"({pairs('age', 'hours')}) AND ({pairs('hours', 'age')})", SCHEMA)


def test_a_long_unknown_name_is_not_echoed_in_full():
    long = "x" * 5_000
    for where in (f"{long} < 3", f"education = '{long}'", {"age": long}, {long: 3}, f"age = {long}"):
        with pytest.raises(QueryError) as problem:
            boxes_of(where, SCHEMA)
        assert len(str(problem.value)) < 400


def test_numpy_scalars_are_values_like_any_other():
    moments = np.datetime64("2024-12-30"), np.datetime64("2024-12-31T00:00:00", "ns")
    for given, meant in (
        ({"age": np.int64(3)}, {"age": 3}),
        ({"age": (np.float64(2.5), np.int8(9))}, {"age": (2.5, 9)}),
        ({"age": [np.int64(3), np.int64(5)]}, {"age": [3, 5]}),
        ({"smoker": np.True_}, {"smoker": True}),
        ({"education": np.str_("School")}, {"education": "School"}),
        ({"admitted": moments}, {"admitted": ("2024-12-30", "2024-12-31T00:00:00")}),
        ({"age": [3, None]}, "age = 3 OR age IS NULL"),
        ({"education": ["None", None]}, {"education": "None"}),
    ):
        assert boxes_of(given, SCHEMA) == boxes_of(meant, SCHEMA)


def test_edges_of_a_real_axis_belong_to_the_bin_above_and_its_upper_end_to_the_last():
    """A condition about records at exactly 20 cuts through the bin from 20. The last bin also holds records
    at its upper end and beyond, so `< 100` does not cover it."""
    for text, expected in {
        "income < 20": [1, 1, 0], "income <= 20": [1, 1, "cut"], "income > 20": [0, 0, "cut"],
        "income >= 20": [0, 0, 1], "income BETWEEN 0 AND 100": [1, 1, 1],
        "income <= -5": [0, 0, 0],
    }.items():  # fmt: skip
        shares = codes(text, "income")[:3]
        assert ["cut" if 0 < share < 1 else share for share in shares] == expected
        assert shares == pytest.approx([round(share) for share in shares], abs=1e-6)
    last = {text: codes(f"income {text} 100", "income")[-1] for text in ("<", "<=", ">", ">=")}
    assert 0 < last[">="] < 1e-5 < 1 - 1e-5 < last["<"] < 1
    assert (last["<="], last[">"]) == (1, 0)


def test_shares_of_codes_add_up_exactly():
    """Otherwise rounding could decide whether a block is covered or missed."""
    schema = Schema([Integer(name="a", min=0, max=65_535 * 7, every=7)])
    (box,) = boxes_of(
        "a IN (" + ",".join(map(str, range(0, 65_535 * 7, 21))) + ") OR a BETWEEN 20000 AND 300001", schema
    )
    shares = code_shares(schema.attributes[0], box[0])
    prefix = np.concatenate([[0.0], np.cumsum(shares)])
    assert (np.cumsum(shares[::-1]) == prefix[-1] - prefix[:-1][::-1]).all()
    assert shares[2858:42857].tolist() == [1.0] * (42857 - 2858)
    assert 0 < shares[2857] < 1


def test_ranges_have_the_same_shares_one_by_one_and_all_at_once():
    rng = np.random.default_rng(5)
    real, whole = (
        Real(name="x", min=-3.0, max=17.3, bins=37),
        Integer(name="n", min=-50, max=50, every=7, nullable=True),
    )
    for attribute in (real, whole):
        places = [-math.inf, math.inf, *attribute.edges.tolist(), *rng.uniform(-80, 80, 60).tolist()]
        pairs = [sorted(rng.choice(places, 2).tolist()) for _ in range(2_000)]
        if attribute.whole:
            pairs = [[p if math.isinf(p) else int(p) for p in pair] for pair in pairs]
        pairs = [pair for pair in pairs if pair[0] < pair[1]]
        asked = [
            conditions.compare(attribute, ">=", low) & conditions.compare(attribute, "<", high)
            for low, high in pairs
        ]
        together = conditions.shares_of(attribute, asked)
        assert (together == np.stack([code_shares(attribute, own) for own in asked])).all()
        edges = attribute.edges
        for (low, high), shares in zip(pairs, together, strict=True):
            inside = np.clip(np.minimum(edges[1:], high) - np.maximum(edges[:-1], low), 0, None)
            assert shares[: attribute.n_values] == pytest.approx(inside / np.diff(edges), abs=2e-6)


def test_hours_of_an_hourly_attribute_are_whole_bins() -> None:
    hourly = Datetime(name="t", min="2021-01-01", max="2021-01-03", every="1h")
    (box,) = boxes_of("hour(t) IN (3, 4)", Schema([hourly]))
    hours = np.arange(hourly.size) % 24
    assert (code_shares(hourly, box[0]) == np.isin(hours, (3, 4))).all()


def test_values_of_a_very_wide_bin_stay_apart() -> None:
    wide = Integer(name="n", min=0, max=2**45 - 1, every=2**44)
    for value in (0, 1, 2, 2**44 - 1, 2**44):
        equal = conditions.compare(wide, "=", value)
        assert 0 < code_shares(wide, equal)[value // 2**44] < 1e-5
        assert conditions.is_open(wide, equal)
        assert not equal & conditions.compare(wide, "<", value)


def test_a_midnight_compared_with_days_is_that_day():
    for day in ("2024-12-30", date(2024, 12, 30), datetime(2024, 12, 30), np.datetime64("2024-12-30T00:00")):
        assert boxes_of({"admitted": day}, SCHEMA) == boxes_of("admitted = '2024-12-30'", SCHEMA)
    assert set(codes("admitted <= TIMESTAMP '2024-12-30 00:00:00'", "admitted")) == {0.0, 1.0}


def test_decimals_are_numbers_and_conditions_become_sql():
    assert boxes_of({"income": (Decimal("3.5"), 5)}, SCHEMA) == boxes_of({"income": (3.5, 5)}, SCHEMA)
    with pytest.raises(QueryError, match="must be SQL text or a dictionary, not int"):
        tree_of(5, SCHEMA)
    tree = tree_of({"income": (-math.inf, 5)}, SCHEMA)
    assert tree is not None
    assert "CAST('-inf' AS DOUBLE)" in tree.sql("duckdb")
