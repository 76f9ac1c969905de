"""Pairs of neighbouring tables that would reveal a leak: small domains, with one person more in one table.

The auditor is the strongest possible adversary: they know both tables and every setting, and must decide
which table a view came from. For each decision of a build there is a pair on which one record changes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hdpview.counts.sparse import SparseCounts, code_type
from hdpview.domain import Integer, Schema
from hdpview.domain.table_shapes import TableShape
from hdpview.partition.parameters import PartitionParameters, PartitionSettings
from hdpview.privacy.exact import unprotected

Cells = NDArray[np.int64]

# Two attributes, found by search: of all small tables tried, the one whose first two cuts together reveal
# most.
CONTRAST = [[0, 0, 2, 2, 4, 1], [0, 0, 2, 2, 2, 2], [0, 0, 2, 2, 2, 5]]
# One attribute, found by search: one more record in the third code moves the best cut by a code.
UNDECIDED_CUT = [9, 7, 11, 16, 14]
# Records in each cell of a crowd, so that tables are as large as typical ones.
CROWD = 1_000
PERSON = "person"


@dataclass(frozen=True)
class PersonsFile:
    """A Parquet file with one row per line and a column that identifies the person. `max_rows` of each person
    count.
    """

    path: Path
    schema: Schema
    max_rows: int


Source = SparseCounts | PersonsFile


@dataclass(frozen=True)
class Neighbours:
    """Two tables that differ by the records of one person, all of them in the canary's cell.

    without, with_canary: the inputs of builds. exact_without, exact_with: their exact counts, after bounding
    contributions. turns_quality: whether the record may change what a build measures of its own errors.
    """

    name: str
    without: Source
    with_canary: Source
    canary: tuple[int, ...]
    exact_without: SparseCounts
    exact_with: SparseCounts
    turns_quality: bool = False
    _known: dict[tuple[object, ...], tuple[Cells, Cells]] = field(default_factory=dict, repr=False)

    def exact_tables(self, shape: TableShape) -> tuple[Cells, Cells]:
        """Exact counts of a released table's cells, without and with the canary."""
        key = (shape.attributes, *(bins.tobytes() for bins in shape.bin_of_code))
        if key not in self._known:
            exact, exact_more = (
                unprotected(counts.exact_tables([shape])[0])
                for counts in (self.exact_without, self.exact_with)
            )
            self._known[key] = exact, exact_more
        return self._known[key]


def neighbours(method: str, epsilon: float, max_rows: int = 1) -> Iterator[Neighbours]:
    """The pairs to try for a method and a budget, which determines how many records are barely noticeable.
    max_rows: records of the person that only one of the tables has.
    """
    yield pair("nobody or one person", np.zeros(4, np.int64), (1,), max_rows)
    yield from (
        table_neighbours(epsilon, max_rows) if method == "mixture" else block_neighbours(epsilon, max_rows)
    )


def table_neighbours(epsilon: float, max_rows: int = 1) -> Iterator[Neighbours]:
    """Pairs for builds that release histograms and tables."""
    yield pair("one of a crowd", np.full(4, CROWD), (1,), max_rows)
    yield pair("one of a crowd with two attributes", np.full((2, 2), CROWD), (0, 1), max_rows)
    # A table of seven attributes is released, and at ε = 1 a delta of 10⁻⁹ helps.
    yield pair("one of a crowd with seven attributes", np.full((2,) * 7, CROWD), (1,) * 7, max_rows)
    yield undecided_quality(epsilon, max_rows)


def block_neighbours(epsilon: float, max_rows: int = 1) -> Iterator[Neighbours]:
    """Pairs for builds that release blocks."""
    verge = max(1, round(5 / epsilon)) * max_rows
    yield pair("nobody or one person in a large domain", np.zeros((2,) * 8, np.int64), (0,) * 8, max_rows)
    yield pair("a path to one crowded cell", _single((2,) * 7, (1,) * 7, verge), (1,) * 7, max_rows)
    yield pair("a hole in a dense block", _holed((4, 4), (1, 1), max_rows), (1, 1), max_rows)
    yield pair("a corner between full and empty", np.array(CONTRAST, np.int64) * max_rows, (1, 1), max_rows)
    yield undecided_cut(max_rows)
    yield undecided_stop(epsilon, max_rows)
    yield equal_halves(epsilon, max_rows)


def undecided_quality(epsilon: float, max_rows: int = 1) -> Neighbours:
    """Two attributes that are nearly independent: possible error sizes lie a few records apart."""
    cells = np.array([[4.0, 3.96], [3.96, 4.0]]) * CROWD * max_rows / epsilon
    neighbours = pair("errors between two sizes", np.rint(cells).astype(np.int64), (0, 0), max_rows)
    return replace(neighbours, turns_quality=True)


def undecided_cut(max_rows: int = 1) -> Neighbours:
    """The record moves the best cut."""
    return pair(
        "two cuts to choose from", np.array(UNDECIDED_CUT, np.int64) * max_rows + CROWD, (2,), max_rows
    )


def undecided_stop(epsilon: float, max_rows: int = 1) -> Neighbours:
    """The whole domain is at the threshold of random converge, and beyond it with the record."""
    cells = _at_threshold(epsilon, max_rows, depth=1)
    return pair("on the threshold", cells + CROWD, (0,), max_rows)


def equal_halves(epsilon: float, max_rows: int = 1) -> Neighbours:
    """Two halves that differ by a constant, which does not affect decisions: they see the same in both."""
    half = _at_threshold(epsilon, max_rows, depth=2)
    return pair("two equal halves", np.concatenate([half, half + 10 * CROWD]), (0,), max_rows)


def _at_threshold(epsilon: float, max_rows: int, depth: int) -> Cells:
    """Four cells, one with so many more records that the deviation is just below the paper's threshold."""
    n_cells = 4 * depth
    parameters = PartitionParameters.choose(PartitionSettings(), Fraction(epsilon) / max_rows, n_cells)
    limit = parameters.converge_threshold + depth * parameters.converge_bias_per_level
    # The deviation of (n, 0, 0, 0) is 2·(n − n/4).
    return np.array([int(limit / 1.5), 0, 0, 0], np.int64)


def pair(name: str, exact_cells: Cells, canary: tuple[int, ...], rows: int = 1) -> Neighbours:
    """The table with these counts, and the same table with `rows` more in the canary's cell."""
    exact_more = exact_cells.copy()
    exact_more[canary] += rows
    tables = sparse(exact_cells), sparse(exact_more)
    return Neighbours(name, *tables, canary, *tables)


def persons(folder: Path, max_rows: int) -> Neighbours:
    """Two files: persons with one row each, and the same with one person who has more rows than may count."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    exact_cells, canary = np.full(2, CROWD, np.int64), (1,)
    counted = pair("one of a crowd in a file", exact_cells, canary, max_rows)
    schema, files = counted.exact_without.schema, []
    for n_rows in (0, 10 * max_rows):
        value = [*np.repeat([0, 1], CROWD).tolist(), *[1] * n_rows]
        who = [*map(str, range(2 * CROWD)), *["canary"] * n_rows]
        path = folder / f"{n_rows} rows of the canary.parquet"
        parquet.write_table(pa.table({schema.attributes[0].name: value, PERSON: who}), path)
        files.append(PersonsFile(path, schema, max_rows))
    return Neighbours(counted.name, files[0], files[1], canary, counted.exact_without, counted.exact_with)


def sparse(exact_cells: Cells) -> SparseCounts:
    """Counts of all cells of a small domain as occupied cells."""
    schema = Schema(
        [Integer(name=f"attribute {a}", min=0, max=size - 1) for a, size in enumerate(exact_cells.shape)]
    )
    occupied = np.argwhere(exact_cells > 0)
    codes = np.ascontiguousarray(occupied.astype(code_type(schema)))
    return SparseCounts(schema, codes, exact_cells[tuple(occupied.T)].astype(np.int64), threads=1)


def _single(sizes: tuple[int, ...], cell: tuple[int, ...], records: int) -> Cells:
    cells = np.zeros(sizes, np.int64)
    cells[cell] = records
    return cells


def _holed(sizes: tuple[int, ...], hole: tuple[int, ...], records: int) -> Cells:
    cells = np.full(sizes, records, np.int64)
    cells[hole] = 0
    return cells
