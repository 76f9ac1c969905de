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
    blocks = cell_blocks(np.argwhere(np.ones(tensor.shape)), tensor.shape, noise_scale)
    return view_of(schema, replace(blocks, noisy_counts=tensor[tuple(blocks.lower.T)]))


def random_view(seed: int) -> PView:
    """A view over the people's schema: blocks for even seeds, a mixture with its tables for odd ones."""
    return mixture_view(PEOPLE, seed) if seed % 2 else block_view(seed)


def block_view(seed: int) -> PView:
    return noisy_view(PEOPLE, seed)


def written(form: str, *parts: Any) -> st.SearchStrategy[str]:
    """Conditions of a form, whose parts are drawn: strategies, or lists of texts."""
    drawn = [st.sampled_from(part) if isinstance(part, list) else part for part in parts]
    return st.tuples(*drawn).map(lambda values: form.format(*values))


numbers = st.integers(-3, 12).map(str) | st.sampled_from(
    ["2.5", "-0.5", "1 + 2", "7 / 2", "(3 - 5)", "2 * 3.5", "1e2", "-1e300"]
)
number_or_null = st.one_of(numbers, numbers, numbers, numbers, st.just("NULL"))
some_numbers = st.lists(number_or_null, min_size=1, max_size=4).map(", ".join)
ordered_names, signs = ["age", "children", '"age"', "AGE"], ["=", "<>", "!=", "<", "<=", ">", ">="]
texts = ["'" + region.replace("'", "''") + "'" for region in REGIONS]
some_texts = st.lists(st.sampled_from(texts), min_size=1, max_size=3).map(", ".join)
PATTERNS = "N%|%th|_est|%||%o%t%|north|%''%|%.*|____|W.st"
patterns = [f"'{each}'" for each in PATTERNS.split("|")]
maybe_not = ["", "", "NOT "]
OTHERS = (
    "smoker; urban; NOT smoker; urban = FALSE; smoker <> true; sex = 'F'; sex != 'M'; TRUE; FALSE; NULL; "
    "abs(children) = 1; age % 3 = 0; upper(region) LIKE '%TH'; coalesce(age, 5) > 4; length(region) <> 5; "
    "children * 2 - 1 >= 1 OR children IS DISTINCT FROM -1; CASE WHEN age > 3 THEN age < 6 END"
)
leaves = st.one_of(
    written("{} {} {}", ordered_names, signs, number_or_null),
    written("{2} {1} {0}", ordered_names, signs, numbers),
    written("{} {}BETWEEN {} AND {}", ordered_names, maybe_not, numbers, numbers),
    written("{} {}IN ({})", ordered_names, maybe_not, some_numbers),
    written("region {} {}", ["=", "<>"], st.sampled_from(texts) | st.just("NULL")),
    written("region {}IN ({})", maybe_not, some_texts),
    written("{}region {} {}", maybe_not, ["LIKE", "ILIKE"], patterns),
    written("{} IS {}NULL", list(PEOPLE.names), maybe_not),
    written("{} IS {}{}", ["smoker", "urban"], maybe_not, ["TRUE", "FALSE"]),
    written("{}", OTHERS.split("; ")),
)
predicates = st.recursive(
    leaves,
    lambda inner: st.one_of(
        written("({}) AND ({})", inner, inner),
        written("({}) OR ({})", inner, inner),
        written("NOT ({})", inner),
        written("{} AND {} OR {}", leaves, leaves, inner),
    ),
    max_leaves=6,
)
