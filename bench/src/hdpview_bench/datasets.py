"""The paper's datasets with the paper's discretisation, for reproducing its figures, and two larger ones.

That discretisation takes bounds and categories from the data, so it is NOT PRIVATE: these schemas are marked,
and so is every view built on them. Tables come from a folder of Parquet files named after the datasets, or
are downloaded from their publishers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hdpview.counts.sparse import SparseCounts, code_type
from hdpview.domain import Attribute, Category, Integer, Schema
from hdpview.errors import DataError, unknown_name
from hdpview_bench.extremes import EXTREMES, extreme_counts
from hdpview_bench.originals import fetched

HOSPITAL = "hospital"
# Number of bins for numbers with many values in a user's own table.
OWN_BINS = 100
OWN_FILE = ".parquet"
_INVENTED = {HOSPITAL: "Hospital (invented)"}


@dataclass(frozen=True)
class Dataset:
    """The paper's preparation of a table: its columns, bins of numbers with many values, and other steps.

    title: the display name.
    most_rows: larger tables are reduced to a fixed random sample of this size after binning.
    """

    title: str
    file: str
    bins: int
    columns: tuple[str, ...] | None = None
    dropped: tuple[str, ...] = ()
    prepare: Callable[[pa.Table], pa.Table] = field(default=lambda table: table)
    most_rows: int | None = None


def _with_time_as_seconds(table: pa.Table) -> pa.Table:
    at = table.schema.get_field_index("date_time")
    seconds = pc.cast(pc.strptime(table["date_time"], format="%Y-%m-%d %H:%M:%S", unit="s"), pa.int64())
    return table.set_column(at, "date_time", seconds)


def _with_ranked_period(table: pa.Table) -> pa.Table:
    at = table.schema.get_field_index("period")
    _, rank = np.unique(table["period"].to_numpy(), return_inverse=True)
    return table.set_column(at, "period", pa.array(rank))


def _without_nulls(table: pa.Table) -> pa.Table:
    numbers = [
        pc.cast(_text_to_null(column), pa.float64()) if pa.types.is_string(column.type) else column
        for column in table.columns[:-1]
    ]
    return pa.table([*numbers, table.columns[-1]], names=table.column_names).drop_null()


def _with_two_labels(table: pa.Table) -> pa.Table:
    at = table.schema.get_field_index("label")
    return table.set_column(at, "label", pc.if_else(pc.equal(table["label"], "white"), "white", "black"))


def _on_earth(table: pa.Table) -> pa.Table:
    return table.filter(pc.less_equal(table["lat"], 90.0))


def _with_nulls_below(table: pa.Table) -> pa.Table:
    """Nulls of numbers become -99, which is below all of them here: cancelled flights have no delay."""
    filled = [
        pc.fill_null(column, -99.0) if pa.types.is_floating(column.type) else column
        for column in table.columns
    ]
    return pa.table(filled, names=table.column_names)


def _text_to_null(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.if_else(pc.match_substring_regex(column, r"^-?[0-9.]+(e[+-]?[0-9]+)?$"), column, None)


def _with_gaps_below(table: pa.Table) -> pa.Table:
    """Prepare any table: dates and booleans become numbers, and missing numbers go one bin below the
    lowest.
    """
    columns = []
    for column in table.columns:
        if pa.types.is_temporal(column.type):
            column = pc.cast(pc.cast(column, pa.timestamp("s"), safe=False), pa.int64())
        elif pa.types.is_boolean(column.type):
            column = pc.cast(column, pa.int64())
        elif pa.types.is_decimal(column.type):
            column = pc.cast(column, pa.float64())
        elif pa.types.is_dictionary(column.type):
            column = pc.cast(column, column.type.value_type)
        if pa.types.is_floating(column.type):
            column = pc.if_else(pc.is_finite(column), column, None)
        is_number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
        if column.null_count and is_number:
            ends = pc.min_max(column).as_py()
            low, high = ends["min"] or 0, ends["max"] or 0
            gap = max((high - low) / OWN_BINS, 1)
            column = pc.fill_null(
                column, low - (gap if pa.types.is_floating(column.type) else math.ceil(gap))
            )
        columns.append(column)
    return pa.table(columns, names=table.column_names)


# In the order of the paper's figures, with many attributes first; then datasets that the paper does not have.
DATASETS = {
    "jm1": Dataset("Jm1", "jm1", 10, prepare=_without_nulls),
    "adult": Dataset("Adult", "adult", 100),
    "traffic": Dataset(
        "Traffic", "traffic", 100, dropped=("weather_description",), prepare=_with_time_as_seconds
    ),
    "electricity": Dataset("Electricity", "electricity", 100, dropped=("day",), prepare=_with_ranked_period),
    "bitcoin": Dataset(
        "Bitcoin", "bitcoin", 30, dropped=("address",), prepare=_with_two_labels, most_rows=500_000
    ),
    "numerical-adult": Dataset(
        "Numerical-adult",
        "adult",
        100,
        ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week", "income"),
    ),
    "small-adult": Dataset("Small-adult", "adult", 100, ("age", "workclass", "race", "capital-gain")),
    "phoneme": Dataset("Phoneme", "phoneme", 10),
    "gowalla": Dataset("Gowalla", "gowalla", 1000, ("lat", "lon"), prepare=_on_earth),
    "nycflights": Dataset("NYC flights", "nycflights", 100, prepare=_with_nulls_below),
    "kddcup99_10pct": Dataset(
        "KDD Cup 1999, 10%", "kddcup99_10pct", 100, dropped=("num_outbound_cmds", "is_host_login")
    ),
    # Tables of 17 to 41 columns.
    "heart": Dataset("Heart", "heart", OWN_BINS, prepare=_with_gaps_below),
    "bank": Dataset("Bank", "bank", OWN_BINS, prepare=_with_gaps_below),
    "fars": Dataset("Fars", "fars", OWN_BINS, prepare=_with_gaps_below),
    "census": Dataset("Census-Income", "census", OWN_BINS, prepare=_with_gaps_below),
}


def dataset_title(name: str) -> str:
    """The display name of a dataset, or of some of its rows or columns."""
    whole, at, n_columns = name.partition("@")
    whole, hash_sign, n_rows = whole.partition("#")
    if whole.endswith(OWN_FILE):
        title = Path(whole).stem
    else:
        title = DATASETS[whole].title if whole in DATASETS else _INVENTED.get(whole, whole)
    rows = f", {int(n_rows):,} rows" if hash_sign else ""
    return title + rows + (f", first {n_columns} columns" if at else "")


def in_order(names: Iterable[str]) -> list[str]:
    """The distinct datasets, by either name, in the order of `DATASETS`; others follow."""
    known = [*DATASETS, *(dataset.title for dataset in DATASETS.values())]
    return sorted(dict.fromkeys(names), key=lambda name: known.index(name) if name in known else len(known))


def dataset_counts(name: str, data_dir: Path | None) -> SparseCounts:
    """Occupied cells of a dataset. Invented datasets need no files.

    `adult@4` is Adult's first four columns, `adult#3000` a random 3,000 of its records, the same in each run.
    A name that ends in `.parquet` is a table of your own: the path of its file.
    """
    whole, at, n_columns = name.partition("@")
    whole, hash_sign, n_rows = whole.partition("#")
    if whole == HOSPITAL:
        from hdpview.counts.ingest import read_counts
        from hdpview.demo import hospital_schema, hospital_table

        counts = read_counts(hospital_table(), hospital_schema())
    elif whole in EXTREMES:
        counts = extreme_counts(whole)
    else:
        counts = load(whole, data_dir)
    counts = some_rows(counts, n_rows) if hash_sign else counts
    return first_columns(counts, n_columns) if at else counts


def some_rows(counts: SparseCounts, n_rows: str) -> SparseCounts:
    """A sample of the records, drawn without replacement. Bins stay those of the whole table."""
    n_records = int(counts.exact_counts.sum())
    if not n_rows.isdecimal() or not 1 <= int(n_rows) <= n_records:
        raise DataError(f"# must be followed by a number of rows to keep, 1 to all, not {n_rows!r}.")
    order = np.lexsort(counts.exact_codes.T)
    drawn = np.random.default_rng(0).multivariate_hypergeometric(
        counts.exact_counts[order], int(n_rows), method="marginals"
    )
    codes = counts.exact_codes[order[drawn > 0]].astype(code_type(counts.schema))
    return SparseCounts(counts.schema, np.ascontiguousarray(codes), drawn[drawn > 0])


def first_columns(counts: SparseCounts, n_columns: str) -> SparseCounts:
    """The same records, restricted to their first columns."""
    d = len(counts.schema)
    if not n_columns.isdecimal() or not 1 <= int(n_columns) <= d:
        raise DataError(f"@ must be followed by a number of columns to keep, 1 to {d}, not {n_columns!r}.")
    n = int(n_columns)
    schema = Schema(counts.schema.attributes[:n], learnt_from_data=counts.schema.learnt_from_data)
    codes, place = np.unique(counts.exact_codes[:, :n].astype(code_type(schema)), axis=0, return_inverse=True)
    sums = np.bincount(place.reshape(-1), counts.exact_counts, len(codes)).astype(np.int64)
    return SparseCounts(schema, np.ascontiguousarray(codes), sums)


def load(name: str, data_dir: Path | None) -> SparseCounts:
    """Occupied cells of a dataset as in the paper, from a folder of Parquet files or, without one,
    downloaded.
    """
    if name.endswith(OWN_FILE):
        return discretise(_with_gaps_below(_read(Path(name))), OWN_BINS)
    if name not in DATASETS:
        raise DataError(unknown_name("dataset", name, [HOSPITAL, *EXTREMES, *DATASETS], "The datasets are"))
    dataset = DATASETS[name]
    path = fetched(dataset.file) if data_dir is None else data_dir / f"{dataset.file}.parquet"
    table = dataset.prepare(_read(path, dataset.columns))
    return discretise(table.drop_columns(list(dataset.dropped)), dataset.bins, dataset.most_rows)


def _read(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    if not path.is_file():
        raise DataError(f"{str(path)!r} does not exist. Give the folder that holds it with --data-dir.")
    try:
        return pq.read_table(path, columns=list(columns) if columns else None)
    except pa.ArrowException as problem:
        raise DataError(f"{str(path)!r} cannot be read as Parquet: {problem}") from None


def discretise(table: pa.Table, bins: int, most_rows: int | None = None) -> SparseCounts:
    """The paper's codes. Texts become sorted ordinals; whole numbers with max − min ≤ bins keep their values;
    any other number x becomes ⌊bins·(x − min)/(max + 0.1 − min)⌋.
    """
    codes: list[NDArray[np.int64]] = []
    attributes: list[Attribute] = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        values = column.to_numpy()
        if values.dtype.kind not in "iuf":
            labels, code = np.unique(values.astype(str), return_inverse=True)
            attributes.append(Category(name=name, values=tuple(labels.tolist())))
        else:
            code, size = _number_codes(values, bins)
            attributes.append(Integer(name=name, min=0, max=size - 1))
        codes.append(code)
    schema = Schema(attributes, learnt_from_data=True)
    rows = np.stack(codes, axis=1).astype(code_type(schema))
    if most_rows is not None and len(rows) > most_rows:
        rows = rows[np.random.default_rng(0).choice(len(rows), most_rows, replace=False)]
    cells, counts = np.unique(rows, axis=0, return_counts=True)
    return SparseCounts(schema, np.ascontiguousarray(cells), counts.astype(np.int64))


def _number_codes(values: NDArray[np.generic], bins: int) -> tuple[NDArray[np.int64], int]:
    low, high = values.min(), values.max()
    if values.dtype.kind in "iu" and high - low <= bins:
        return (values - low).astype(np.int64), int(high - low) + 1
    return (bins * (values - low) / (high + 0.1 - low)).astype(np.int64), bins
