"""Rows that are read once and scanned often: their storage and its lifetime."""

import errno
import itertools
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hdpview as hv
from hdpview.counts.exact_statistics import as_cells
from hdpview.counts.ingest import ReadOptions, read_counts
from hdpview.counts.rows import Decoder, RowLayout, Rows
from hdpview.counts.sparse import local_cells
from hdpview.counts.stream import StoredRows, streamed_counts
from hdpview.domain.table_shapes import TableShape
from hdpview.privacy.exact import unprotected

AGE = hv.Schema([hv.Integer(name="age", min=0, max=99)])
OF_AGE = TableShape.of_codes((0,), AGE.sizes)


@pytest.mark.parametrize("read", [read_counts, streamed_counts])
def test_interruption_stops_an_endless_table(read, private_tmp):
    batch = pa.record_batch({"age": pa.array(range(1000))})
    endless = pa.RecordBatchReader.from_batches(batch.schema, iter(lambda: batch, None))
    polls = iter(range(3))

    def interrupt(fraction: float | None, text: str) -> None:
        if next(polls, None) is None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), read(endless, AGE, ReadOptions(progress=interrupt)):
        pytest.fail("an endless table has ended")


def test_interruption_stops_an_endless_pass(monkeypatch):
    table = pa.table({"age": np.arange(400_000) % 100})
    with streamed_counts(table, AGE, ReadOptions(threads=2)) as counts:
        polls = iter(range(2))

        def interrupt(fraction: float | None, text: str) -> None:
            if next(polls, None) is None:
                raise KeyboardInterrupt

        part = next(iter(counts.exact_rows))
        with monkeypatch.context() as patch:
            patch.setattr(StoredRows, "__iter__", lambda _: itertools.repeat(part))
            with pytest.raises(KeyboardInterrupt):
                counts.exact_tables([OF_AGE], interrupt)
        assert unprotected(counts.exact_tables([OF_AGE])[0]).tolist() == [4000] * 100


def test_rows_past_the_limit_go_to_a_file_without_a_name(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("hdpview.counts.stream._BYTES_IN_MEMORY", 1000)
    table = pa.table({"age": np.arange(400_000) % 100})
    with streamed_counts(table, AGE) as counts:
        file: Any = counts.exact_rows._file._file
        assert isinstance(file.fileno(), int)
        assert not [path for path in tmp_path.rglob("*") if path.is_file()]
        assert unprotected(counts.exact_tables([OF_AGE])[0]).tolist() == [4000] * 100
    assert file.closed


def test_a_full_disk_is_told(monkeypatch):
    def full(self: StoredRows, rows: Rows) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(StoredRows, "append", full)
    with (
        pytest.raises(hv.DataError, match="set TMPDIR to a folder with more"),
        streamed_counts(pa.table({"age": [1]}), AGE),
    ):
        pytest.fail("there was room")


def test_batches_are_let_go_of_one_by_one():
    alive: list[weakref.ref[Any]] = []
    most = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal most
        for _ in range(50):
            batch = pa.record_batch({"o_0": np.zeros(1000, np.uint8)})
            alive.append(weakref.ref(batch))
            most = max(most, sum(one() is not None for one in alive))
            yield batch
            del batch

    with closing(StoredRows(RowLayout((100,)))) as stored:
        stored.extend(batches(), Decoder(AGE))
        assert len(stored) == 50
    assert most <= 2


def test_a_row_takes_a_byte_or_two_per_code():
    assert RowLayout((2, 256, 257, 65_536)).row_bytes == 1 + 1 + 2 + 2
    assert RowLayout((2, 256), has_counts=True).row_bytes == 2 + 8


@pytest.mark.parametrize("method", ["mixture", "hdpview"])
def test_the_form_that_is_read_follows_from_the_method(method):
    told: list[str] = []
    options = {"method": method, "test_key": b"k", "progress": lambda _, text: told.append(text)}
    hv.build(pa.table({"age": [5] * 3000}), AGE, 1.0, **options)
    read = ["Reading rows" in told, "Counting occupied cells" in told]
    assert read == [method == "mixture", method == "hdpview"]


def test_rows_are_refused_where_cells_are_needed():
    with streamed_counts(pa.table({"age": [5] * 30}), AGE) as counts:
        with pytest.raises(hv.MethodError, match="`reads` must be 'cells'"):
            as_cells(counts)
        with pytest.raises(hv.MethodError, match="engine='local'"):
            local_cells(counts)
        assert repr(counts) == "StreamedCounts(exact)"
