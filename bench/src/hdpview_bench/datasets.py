"""The paper's datasets with the paper's discretisation, for reproducing its figures.

That discretisation takes bounds and categories from the data, so it is NOT PRIVATE: schemas made here are
    marked, and so is every
view built on them. Tables are read from a folder of Parquet files named after the dataset, or fetched where
they are published.
"""

from __future__ import annotations

from collections.abc import Callable
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
from hdpview_bench.originals import fetched

HOSPITAL = "hospital"


@dataclass(frozen=True)
class Dataset:
    """How the paper prepared a table: which columns, how many bins for a number with many values, what else.

    most_rows: a larger table is cut down to so many rows, by a fixed lot, after its bins are known.
    """

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


def _text_to_null(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.if_else(pc.match_substring_regex(column, r"^-?[0-9.]+(e[+-]?[0-9]+)?$"), column, None)


DATASETS = {
    "adult": Dataset("adult", 100),
    "small-adult": Dataset("adult", 100, ("age", "workclass", "race", "capital-gain")),
    "numerical-adult": Dataset(
        "adult",
        100,
        ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week", "income"),
    ),
    "traffic": Dataset("traffic", 100, dropped=("weather_description",), prepare=_with_time_as_seconds),
    "electricity": Dataset("electricity", 100, dropped=("day",), prepare=_with_ranked_period),
    "phoneme": Dataset("phoneme", 10),
    "jm1": Dataset("jm1", 10, prepare=_without_nulls),
    "bitcoin": Dataset("bitcoin", 30, dropped=("address",), prepare=_with_two_labels, most_rows=500_000),
    "gowalla": Dataset("gowalla", 1000, ("lat", "lon"), prepare=_on_earth),
}


def dataset_counts(name: str, data_dir: Path | None) -> SparseCounts:
    """Occupied cells of a dataset; the invented hospital is always there. `adult@4` is Adult's first four
    columns.
    """
    whole, at, n_columns = name.partition("@")
    if whole == HOSPITAL:
        from hdpview.counts.ingest import read_counts
        from hdpview.demo import hospital_schema, hospital_table

        counts = read_counts(hospital_table(), hospital_schema())
    else:
        counts = load(whole, data_dir)
    return first_columns(counts, n_columns) if at else counts


def first_columns(counts: SparseCounts, n_columns: str) -> SparseCounts:
    """The same records seen through their first columns alone."""
    d = len(counts.schema)
    if not n_columns.isdecimal() or not 1 <= int(n_columns) <= d:
        raise DataError(f"After @ stands how many columns to keep, from 1 to {d}, not {n_columns!r}.")
    n = int(n_columns)
    schema = Schema(counts.schema.attributes[:n], learnt_from_data=counts.schema.learnt_from_data)
    codes, place = np.unique(counts.exact_codes[:, :n].astype(code_type(schema)), axis=0, return_inverse=True)
    sums = np.bincount(place.reshape(-1), counts.exact_counts, len(codes)).astype(np.int64)
    return SparseCounts(schema, np.ascontiguousarray(codes), sums)


def load(name: str, data_dir: Path | None) -> SparseCounts:
    """Occupied cells of a dataset as the paper saw them, from a folder of Parquet files or, without one,
    fetched where it is published.
    """
    if name not in DATASETS:
        raise DataError(unknown_name("dataset", name, [HOSPITAL, *DATASETS], "The datasets are"))
    dataset = DATASETS[name]
    path = fetched(dataset.file) if data_dir is None else data_dir / f"{dataset.file}.parquet"
    if not path.is_file():
        raise DataError(f"{str(path)!r} does not exist. Give the folder that holds it with --data-dir.")
    table = dataset.prepare(pq.read_table(path, columns=list(dataset.columns) if dataset.columns else None))
    return discretise(table.drop_columns(list(dataset.dropped)), dataset.bins, dataset.most_rows)


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
