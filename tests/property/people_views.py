"""Small views of a table of people, and conditions on them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from cells import mixture_view, view_of
from hdpview.domain import Boolean, Category, Integer, Schema
from hdpview.pview import PView
from hdpview.view.blocks import Blocks

REGIONS = ("North", "South", "East", "West", "O'Hara.*")
PEOPLE = Schema(
    [
        Integer(name="age", min=0, max=9, nullable=True),
        Category(name="region", values=REGIONS, nullable=True),
        Boolean(name="smoker", nullable=True),
        Integer(name="children", min=-2, max=2),
        Boolean(name="urban"),
        Category(name="sex", values=("F", "M")),
    ]
)
Bounds = tuple[int, ...]


Cut = Callable[[Bounds, Bounds], tuple[int, int] | None]


def tree(lower: Bounds, upper: Bounds, cut: Cut, depth: int = 1) -> list[tuple[Bounds, Bounds, int]]:
    """Leaves, in depth-first order, of the tree of cuts that `cut` chooses: attribute and cut point, or None
    for a leaf.
    """
    chosen = cut(lower, upper)
    if chosen is None:
        return [(lower, upper, depth)]
    a, at = chosen
    left, right = (*upper[:a], at, *upper[a + 1 :]), (*lower[:a], at, *lower[a + 1 :])
    return tree(lower, left, cut, depth + 1) + tree(right, upper, cut, depth + 1)


def blocks_of(
    leaves: list[tuple[Bounds, Bounds, int]], counts: NDArray[np.int64], noise_scale: float = 10.0
) -> Blocks:
    lower, upper, depth = (np.array(column, np.int32) for column in zip(*leaves, strict=True))
    return Blocks(lower, upper, counts.astype(np.int64), depth, noise_scale)


def halve(lower: Bounds, upper: Bounds) -> tuple[int, int] | None:
    """Cut the widest attribute in the middle, until there are only single cells."""
    widths = [high - low for low, high in zip(lower, upper, strict=True)]
    a = int(np.argmax(widths))
    return (a, lower[a] + widths[a] // 2) if widths[a] > 1 else None


def cell_view(schema: Schema, tensor: NDArray[np.int64], noise_scale: float = 10.0) -> PView:
    """A view with a block per cell that holds its exact count."""
    leaves = tree((0,) * len(schema), schema.sizes, halve)
    counts = np.array([tensor[lower] for lower, _, _ in leaves])
    return view_of(schema, blocks_of(leaves, counts, noise_scale))


def random_view(seed: int) -> PView:
    """A view over the people's schema: blocks for even seeds, a mixture with its tables for odd ones."""
    return mixture_view(PEOPLE, seed) if seed % 2 else block_view(seed)


def block_view(seed: int) -> PView:
    """A few dozen random cuts of the people's domain with random counts, negative ones too."""
    rng = np.random.default_rng(seed)

    def cut(lower: Bounds, upper: Bounds) -> tuple[int, int] | None:
        a = int(rng.integers(len(lower)))
        share = np.prod(np.subtract(upper, lower) / PEOPLE.sizes)
        if upper[a] - lower[a] < 2 or rng.random() > 20 * share + 0.3:
            return None
        return a, int(rng.integers(lower[a] + 1, upper[a]))

    leaves = tree((0,) * len(PEOPLE), PEOPLE.sizes, cut)
    counts = rng.integers(-40, 80, len(leaves)) * rng.integers(0, 2, len(leaves))
    return view_of(PEOPLE, blocks_of(leaves, counts))


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
            "smoker",
            "urban",
            "NOT smoker",
            "urban = FALSE",
            "smoker <> true",
            "sex = 'F'",
            "sex != 'M'",
            "TRUE",
            "FALSE",
            "NULL",
        ]
    ),
)
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
