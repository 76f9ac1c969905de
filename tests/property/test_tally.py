"""Tables and counts of boxes equal NumPy's definition, whatever the parts and threads."""

import gc
import itertools
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dense import Ints, seeds
from hdpview.counts import tally
from hdpview.counts.exact_statistics import LocalCounts
from hdpview.counts.rows import Parts, RowLayout, Rows
from hdpview.counts.stream import StoredRows
from hdpview.domain.table_shapes import CodeBoxes, TableShape
from hdpview.privacy.exact import unprotected

SOME = settings(max_examples=60, deadline=None)
sizes_of_domains = st.lists(st.sampled_from([1, 2, 7, 60, 256, 257, 1000]), min_size=1, max_size=5).map(tuple)
# past what a kernel takes at once, and at its edges
numbers_of_rows = st.sampled_from([0, 1, 63, 64, 65, 500, 8192, 8193, 20_000])


@dataclass(repr=False)
class Local(LocalCounts):
    """Counts of given rows."""

    exact_rows: Parts
    threads: int | None


def some_rows(sizes: tuple[int, ...], n: int, rng: np.random.Generator, most: int) -> tuple[Ints, Ints]:
    codes = np.stack([rng.integers(0, size, n) // rng.integers(1, 4, n) for size in sizes], axis=1)
    return codes.astype(np.int64), rng.integers(0, most + 1, n)


def as_rows(sizes: tuple[int, ...], codes: Ints, counts: Ints | None) -> Rows:
    """Contiguous columns of the smallest types, or columns of a matrix where counts are given, as cells
    have."""
    if counts is None:
        columns = [codes[:, a].astype(np.uint8 if size <= 256 else np.uint16) for a, size in enumerate(sizes)]
        return Rows(tuple(columns))
    matrix = np.ascontiguousarray(codes.astype(np.uint8 if max(sizes) <= 256 else np.uint16))
    return Rows(tuple(matrix.T), counts)


def in_parts(rows: Rows, n_parts: int) -> list[Rows]:
    def part(a: int, b: int) -> Rows:
        counts = None if rows.exact_counts is None else rows.exact_counts[a:b]
        return Rows(tuple(column[a:b] for column in rows.exact_columns), counts)

    return [part(*ends) for ends in itertools.pairwise(np.linspace(0, len(rows), n_parts + 1).astype(int))]


@SOME
@given(sizes_of_domains, numbers_of_rows, seeds, st.booleans(), st.integers(1, 3))
def test_tables_are_those_of_numpy(sizes, n, seed, counted, threads):
    rng = np.random.default_rng(seed)
    codes, counts = some_rows(sizes, n, rng, 5)
    shapes = []
    for _ in range(6):
        attributes = np.sort(rng.choice(len(sizes), rng.integers(0, min(4, len(sizes)) + 1), replace=False))
        # as many bins as there are codes, or few; numbered without gaps, in any order
        bins = [
            np.unique(rng.integers(0, rng.integers(1, min(sizes[a], 30) + 1), sizes[a]), return_inverse=True)[
                1
            ]
            for a in attributes
        ]
        shapes.append(TableShape(tuple(attributes.tolist()), tuple(own.astype(np.int32) for own in bins)))
    shapes.append(TableShape.of_codes((len(sizes) - 1,), sizes))
    rows = as_rows(sizes, codes, counts if counted else None)
    summed = [unprotected(table) for table in Local(in_parts(rows, 5), threads).exact_tables(shapes)]
    for shape, table in zip(shapes, summed, strict=True):
        wanted = np.zeros(shape.shape, np.int64)
        own = tuple(bins[codes[:, a]] for a, bins in zip(shape.attributes, shape.bin_of_code, strict=True))
        if own:
            np.add.at(wanted, own, counts if counted else 1)
        else:
            wanted += counts.sum() if counted else n
        assert table.dtype == np.int64
        assert np.array_equal(table, wanted)


@SOME
@given(sizes_of_domains, numbers_of_rows, seeds, st.sampled_from([0, 1, 5, 2**40]), st.integers(1, 3))
def test_boxes_are_those_of_numpy(sizes, n, seed, most, threads):
    rng = np.random.default_rng(seed)
    codes, counts = some_rows(sizes, n, rng, most)
    n_boxes, k = int(rng.integers(0, 40)), int(rng.integers(0, 5))
    attribute = rng.integers(0, len(sizes), (n_boxes, k))
    ends = rng.integers(0, np.array(sizes)[attribute] + 1, (2, n_boxes, k))
    boxes = CodeBoxes(attribute, ends[0], ends[1])
    rows = as_rows(sizes, codes, counts if most else None)
    summed = unprotected(Local(in_parts(rows, 4), threads).exact_box_counts(boxes))
    asked = codes[:, attribute]
    inside = ((asked >= boxes.lower) & (asked < boxes.upper)).all(axis=2)
    truth = (counts if most else np.ones(n, np.int64)) @ inside
    assert summed.tolist() == np.minimum(truth, tally.MOST_RECORDS).tolist()


def test_sums_are_held_at_a_bound():
    huge = Rows((np.zeros(1000, np.uint8),), np.full(1000, 2**40))
    shapes, box = [TableShape.of_codes((0,), (2,))], CodeBoxes(*np.array([[[0]], [[0]], [[1]]]))
    for threads in (1, 3):
        many = [huge] * 9000
        assert unprotected(Local(many, threads).exact_tables(shapes)[0]).tolist() == [tally.MOST_RECORDS, 0]
        assert unprotected(Local(many, threads).exact_box_counts(box)).tolist() == [tally.MOST_RECORDS]


@SOME
@given(sizes_of_domains, st.lists(st.integers(0, 300), max_size=4), seeds, st.booleans(), st.booleans())
def test_kept_rows_come_back_as_often_as_asked(sizes, lengths, seed, counted, on_disk):
    rng = np.random.default_rng(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hdpview.counts.stream._BYTES_IN_MEMORY", 50 if on_disk else 1 << 30)
        stored = StoredRows(RowLayout(sizes, counted))
    parts = [some_rows(sizes, n, rng, 2**40) for n in lengths]
    for codes, counts in parts:
        columns = as_rows(sizes, codes, None).exact_columns
        stored.append(Rows(columns, counts if counted else None))
    for _ in range(2):
        read_rows = list(stored)
        assert len(stored) == len(read_rows) == len(parts)
        for rows, (codes, counts) in zip(read_rows, parts, strict=True):
            assert np.stack(rows.exact_columns, axis=1).tolist() == codes.tolist()
            assert rows.exact_counts is None if not counted else rows.exact_counts.tolist() == counts.tolist()
    stored.close()


@dataclass
class Watched:
    """Parts that are created on request, and counted while they are in use."""

    n_parts: int
    alive: int = 0
    most_alive: int = 0
    given: int = field(default=0)

    def __len__(self) -> int:
        return self.n_parts

    def __iter__(self) -> Iterator[Rows]:
        for _ in range(self.n_parts):
            rows = Rows((np.zeros(2000, np.uint8),))
            self.alive, self.given = self.alive + 1, self.given + 1
            self.most_alive = max(self.most_alive, self.alive)
            weakref.finalize(rows, self._gone)
            yield rows
            del rows

    def _gone(self) -> None:
        self.alive -= 1


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_few_parts_are_held_at_a_time(threads):
    gc.disable()  # parts that only the garbage collector frees would count against the bound
    try:
        parts = Watched(200)
        Local(parts, threads).exact_tables([TableShape.of_codes((0,), (3,))])
        assert parts.given == 200
        assert parts.alive == 0
        assert parts.most_alive <= threads + 2
    finally:
        gc.enable()


def test_an_error_in_a_thread_ends_the_sums(monkeypatch):
    def failing(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(tally.TableTally, "add", failing)
    rows = in_parts(as_rows((3,), np.zeros((90, 1), np.int64), None), 9)
    with pytest.raises(MemoryError):
        Local(rows, 2).exact_tables([TableShape.of_codes((0,), (3,))])
