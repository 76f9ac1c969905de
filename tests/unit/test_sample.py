"""Synthetic records: of the schema's types, repeatable with a seed, and spread as the view says."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from calls import n_calls
from cells import mixture_view, noiseless_view, noisy_view
from hdpview.domain import Boolean, Category, Datetime, Integer, Real, Schema
from hdpview.errors import QueryError
from hdpview.pview import PView
from hdpview.query.interval.statistics import histograms

SCHEMA = Schema(
    [
        Integer(name="age", min=-3, max=12),
        Integer(name="size", min=0, max=95, every=10, nullable=True),
        Real(name="pressure", min=0.0, max=8.0, bins=4, nullable=True),
        Datetime(name="day", min="2023-01-01", max="2024-12-31", every="1mo"),
        Category(name="region", values=("North", "South"), other="elsewhere"),
        Boolean(name="smoker", nullable=True),
    ]
)
N = 200_000


@pytest.mark.parametrize("make", [noisy_view, mixture_view])
@pytest.mark.parametrize("seed", range(2))
def test_records_are_spread_as_the_view_says(seed: int, make: Callable[[Schema, int], PView]) -> None:
    """Each value's share of 200,000 records lies within 6 standard errors of the view's consistent share.

    16 + 11 + 5 + 24 + 3 + 3 values and 4 views make 248 comparisons; by chance one fails once in 2 million
    runs.
    """
    view = make(SCHEMA, seed)
    table = view.sample(N, seed=seed, as_="pyarrow")
    for histogram in histograms(view):
        attribute = histogram.attribute
        share = histogram.estimate / histogram.estimate.sum()
        codes = _codes(table.column(attribute.name), attribute)
        found = np.bincount(codes, minlength=attribute.size) / N
        assert (np.abs(found - share) <= 6 * np.sqrt(share * (1 - share) / N) + 1e-9).all(), attribute.name


def _codes(column: pa.ChunkedArray, attribute: Integer | Real | Datetime | Category | Boolean) -> np.ndarray:
    """The code of each value, by the schema's own edges and labels."""
    values = column.to_pylist() if attribute.kind in ("category", "boolean") else None
    if values is not None:
        names = [False, True] if attribute.kind == "boolean" else attribute.value_labels()
        return np.array([attribute.null_code if value is None else names.index(value) for value in values])
    missing = (
        column.is_null().to_numpy(zero_copy_only=False)
        if isinstance(column, pa.Array)
        else column.combine_chunks().is_null().to_numpy(False)
    )
    number = (
        column.combine_chunks().cast(pa.int64() if attribute.whole else pa.float64()).fill_null(0).to_numpy()
    )
    codes = np.searchsorted(attribute.edges, number, side="right") - 1
    assert (missing | ((codes >= 0) & (codes < attribute.n_values))).all()
    return np.where(missing, attribute.size - 1, codes)


@pytest.mark.parametrize("make", [noisy_view, mixture_view])
def test_pairs_of_values_are_spread_as_the_view_says(make: Callable[[Schema, int], PView]) -> None:
    """Records keep what the components know of two attributes together, not only of each alone."""
    view = make(SCHEMA, 4)
    cells = view.marginal(["region", "smoker"], as_="pyarrow").to_pylist()
    records = view.sample(N, seed=1, as_="pyarrow").select(["region", "smoker"]).to_pylist()
    total = sum(cell["count"] for cell in cells)
    counted: dict[tuple[object, object], int] = {}
    for record in records:
        key = (record["region"], record["smoker"])
        counted[key] = counted.get(key, 0) + 1
    for cell in cells:
        share = cell["count"] / total
        found = counted.get((cell["region"], cell["smoker"]), 0) / N
        assert abs(found - share) <= 6 * np.sqrt(share * (1 - share) / N) + 1e-9


def test_records_have_the_schemas_columns_and_types() -> None:
    """Whole numbers, reals, moments, texts and truths; whole numbers anywhere in their bin; missing values
    are null.
    """
    table = noisy_view(SCHEMA, 1).sample(5_000, as_="pyarrow")
    assert table.column_names == list(SCHEMA.names)
    assert [field.type for field in table.schema] == [
        pa.int64(),
        pa.int64(),
        pa.float64(),
        pa.timestamp("us"),
        pa.string(),
        pa.bool_(),
    ]
    sizes = [size for size in table.column("size").to_pylist() if size is not None]
    assert {size % 10 for size in sizes} == set(range(10))
    assert max(sizes) <= 95
    assert table.column("smoker").null_count > 0


def test_a_seed_repeats_the_records_and_none_does_not() -> None:
    """Equal seeds give equal tables; without a seed two draws differ."""
    view = noisy_view(SCHEMA, 2)
    assert view.sample(500, seed=9, as_="pyarrow").equals(view.sample(500, seed=9, as_="pyarrow"))
    assert not view.sample(500, as_="pyarrow").equals(view.sample(500, as_="pyarrow"))


def test_only_occupied_cells_are_drawn() -> None:
    """Blocks without records never appear: of a single record, every copy is that record's cell."""
    view = noiseless_view(SCHEMA, np.array([[5, 10, 2, 7, 1, 2]]))
    table = view.sample(1_000, seed=0, as_="pyarrow")
    assert set(table.column("age").to_pylist()) == {2}
    assert table.column("size").null_count == 1_000
    assert all(4.0 <= value < 6.0 for value in table.column("pressure").to_pylist())
    assert {value.strftime("%Y-%m") for value in table.column("day").to_pylist()} == {"2023-08"}


def test_values_stay_in_their_bin_where_doubles_are_coarse() -> None:
    """At 10¹⁵ doubles lie 1/8 apart: a value of the bin [10¹⁵, 10¹⁵ + 1) is never rounded up into the next
    one.
    """
    schema = Schema([Real(name="x", min=1e15, max=1e15 + 4, bins=4)])
    values = (
        noiseless_view(schema, np.zeros((10, 1), np.int64))
        .sample(1_000, seed=0, as_="pyarrow")
        .column("x")
        .to_numpy()
    )
    assert 1e15 <= values.min() < values.max() < 1e15 + 1


@pytest.mark.parametrize("seed", [-1, 0.5, True, "a"])
def test_seeds_are_checked(seed: object) -> None:
    """Anything but a whole number from 0 is refused in words."""
    with pytest.raises(QueryError, match="seed must be a non-negative integer"):
        noisy_view(SCHEMA, 0).sample(1, seed=seed)  # type: ignore[arg-type]


@pytest.mark.parametrize("n", [-1, 2.5, True, "many", 10**12])
def test_numbers_of_records_are_checked(n: object) -> None:
    """Anything but a whole number within reason is refused."""
    with pytest.raises(QueryError, match="integer"):
        noisy_view(SCHEMA, 0).sample(n)  # type: ignore[arg-type]


def test_an_empty_view_has_nothing_to_draw() -> None:
    """Counts that add up to nothing are refused in words; no records of it are no rows."""
    empty = noiseless_view(SCHEMA, np.zeros((0, len(SCHEMA)), np.int64))
    assert empty.sample(0, as_="pyarrow").num_rows == 0
    with pytest.raises(QueryError, match="none can be drawn"):
        empty.sample(1)


def test_records_are_not_drawn_one_by_one() -> None:
    """A million records of fifteen attributes take hardly more calls than ten thousand."""
    wide = Schema([Integer(name=f"a{i}", min=0, max=99) for i in range(15)])
    view = noisy_view(wide, 0, n_cuts=2_000)

    def drawn(n: int) -> None:
        assert view.sample(n, seed=0, as_="pyarrow").num_rows == n

    drawn(10)  # what is loaded once
    assert n_calls(lambda: drawn(1_000_000)) < 2 * n_calls(lambda: drawn(10_000))
