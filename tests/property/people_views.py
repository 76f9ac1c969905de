"""Small views of a table of people, and conditions on them."""

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from cells import cell_blocks, mixture_view, noisy_view, view_of
from hdpview.domain import Boolean, Category, Integer, Schema
from hdpview.pview import PView

REGIONS = ("North", "South", "East", "West", "O'Hara.*")
PEOPLE = Schema(
    [
        Integer(name="age", min=0, max=9, nullable=True),
        Category(name="region", values=REGIONS, nullable=True), Boolean(name="smoker", nullable=True),
        Integer(name="children", min=-2, max=2), Boolean(name="urban"),
        Category(name="sex", values=("F", "M")),
    ]
)  # fmt: skip
# The value of each code.
VALUES: dict[str, list[Any]] = {
    "age": [*range(10), None], "region": [*REGIONS, None], "smoker": [False, True, None],
    "children": [*range(-2, 3)], "urban": [False, True], "sex": ["F", "M"],
}  # fmt: skip


def cell_view(schema: Schema, tensor: NDArray[np.int64], noise_scale: float = 10.0) -> PView:
    """A view with a block per cell that holds its exact count."""
    blocks = cell_blocks(np.argwhere(np.ones(tensor.shape)), tensor.shape, noise_scale)
    return view_of(schema, replace(blocks, noisy_counts=tensor[tuple(blocks.lower.T)]))


def random_view(seed: int) -> PView:
    """A view over the people's schema: blocks for even seeds, a mixture with its tables for odd ones."""
    return mixture_view(PEOPLE, seed) if seed % 2 else block_view(seed)


def block_view(seed: int) -> PView:
    return noisy_view(PEOPLE, seed)


numbers = st.one_of(
    st.integers(-3, 12).map(str),
    st.sampled_from(["2.5", "-0.5", "1 + 2", "7 / 2", "(3 - 5)", "2 * 3.5", "1e2", "-1e300"]),
)
number_or_null = st.one_of(numbers, numbers, numbers, numbers, st.just("NULL"))
ordered_names = st.sampled_from(["age", "children", '"age"', "AGE"])
comparisons = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="])
negations = st.sampled_from(["", "", "NOT "])
texts = st.sampled_from([*("'" + region.replace("'", "''") + "'" for region in REGIONS)])
patterns = st.sampled_from(
    ["'N%'", "'%th'", "'_est'", "'%'", "''", "'%o%t%'", "'north'", "'%''%'", "'%.*'", "'____'", "'W.st'"]
)
leaves = st.one_of(
    st.builds(lambda name, sign, value: f"{name} {sign} {value}", ordered_names, comparisons, number_or_null),
    st.builds(lambda name, sign, value: f"{value} {sign} {name}", ordered_names, comparisons, numbers),
    st.builds(
        lambda n, neg, low, high: f"{n} {neg}BETWEEN {low} AND {high}",
        ordered_names,
        negations,
        numbers,
        numbers,
    ),
    st.builds(
        lambda n, neg, values: f"{n} {neg}IN ({', '.join(values)})",
        ordered_names,
        negations,
        st.lists(number_or_null, min_size=1, max_size=4),
    ),
    st.builds(
        lambda sign, value: f"region {sign} {value}",
        st.sampled_from(["=", "<>"]),
        st.one_of(texts, st.just("NULL")),
    ),
    st.builds(
        lambda neg, values: f"region {neg}IN ({', '.join(values)})",
        negations,
        st.lists(texts, min_size=1, max_size=3),
    ),
    st.builds(
        lambda neg, how, p: f"{neg}region {how} {p}", negations, st.sampled_from(["LIKE", "ILIKE"]), patterns
    ),
    st.builds(lambda name, neg: f"{name} IS {neg}NULL", st.sampled_from([*PEOPLE.names]), negations),
    st.builds(
        lambda n, neg, what: f"{n} IS {neg}{what}",
        st.sampled_from(["smoker", "urban"]),
        negations,
        st.sampled_from(["TRUE", "FALSE"]),
    ),
    st.sampled_from(
        [
            "smoker", "urban", "NOT smoker", "urban = FALSE", "smoker <> true", "sex = 'F'", "sex != 'M'",
            "TRUE", "FALSE", "NULL", "abs(children) = 1", "age % 3 = 0", "upper(region) LIKE '%TH'",
            "coalesce(age, 5) > 4", "length(region) <> 5",
            "children * 2 - 1 >= 1 OR children IS DISTINCT FROM -1", "CASE WHEN age > 3 THEN age < 6 END",
        ]
    ),
)  # fmt: skip
predicates = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(lambda a, b: f"({a}) AND ({b})", inner, inner),
        st.builds(lambda a, b: f"({a}) OR ({b})", inner, inner),
        st.builds(lambda a: f"NOT ({a})", inner),
        st.builds(lambda a, b, c: f"{a} AND {b} OR {c}", leaves, leaves, inner),
    ),
    max_leaves=6,
)
