"""Rows read once and passed over often: what is kept of them, where, and for how long."""

from __future__ import annotations

import errno
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hdpview as hv
from hdpview.counts import stream
from hdpview.counts.ingest import ReadOptions
from hdpview.counts.protocol import CellCounts, Counts, as_cells
from hdpview.counts.rows import Decoder, RowLayout, Rows
from hdpview.counts.sparse import local_cells
from hdpview.counts.stream import StoredRows, streamed_counts
from hdpview.domain.tables import TableShape
from hdpview.methods.protocol import Engine, Method, Progress, ViewRelease
from hdpview.privacy.exact import unprotected
from hdpview.privacy.mechanism import Mechanism
from hdpview.privacy.noise import laplace_scale
from hdpview.view.blocks import Blocks

AGE = hv.Schema([hv.Integer(name="age", min=0, max=99)])
OF_AGE = TableShape.of_codes((0,), AGE.sizes)


def test_interruption_stops_an_endless_table(private_tmp: Path) -> None:
    """Ctrl-C ends the reading of a table without an end at once; nothing is left on the disk."""
    batch = pa.record_batch({"age": pa.array(range(1000))})
    endless = pa.RecordBatchReader.from_batches(batch.schema, iter(lambda: batch, None))
    polls = iter(range(3))

    def interrupt(fraction: float | None, text: str) -> None:
        if next(polls, None) is None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), streamed_counts(endless, AGE, ReadOptions(progress=interrupt)):
        pytest.fail("an endless table has ended")


def test_interruption_stops_a_pass() -> None:
    """Ctrl-C during a pass over rows ends it; another pass over the same rows is whole again."""
    table = pa.table({"age": np.arange(400_000) % 100})
    with streamed_counts(table, AGE, ReadOptions(threads=2)) as counts:
        polls = iter(range(2))

        def interrupt(fraction: float | None, text: str) -> None:
            if next(polls, None) is None:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            counts.exact_tables([OF_AGE], interrupt)
        assert unprotected(counts.exact_tables([OF_AGE])[0]).tolist() == [4000] * 100


def test_rows_past_the_limit_go_to_a_file_without_a_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Many rows are kept on the disk, where no name leads to them, and let go of at the end."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(stream, "_BYTES_IN_MEMORY", 1000)
    table = pa.table({"age": np.arange(400_000) % 100})
    with streamed_counts(table, AGE) as counts:
        file: Any = counts.exact_rows._file._file
        assert isinstance(file.fileno(), int)
        assert not [path for path in tmp_path.rglob("*") if path.is_file()]
        assert unprotected(counts.exact_tables([OF_AGE])[0]).tolist() == [4000] * 100
    assert file.closed


def test_a_full_disk_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no room for encoded rows, the message says what to do and nothing of the rows."""

    def full(self: StoredRows, rows: Rows) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(StoredRows, "append", full)
    with (
        pytest.raises(hv.DataError, match="set TMPDIR to a folder with more"),
        streamed_counts(pa.table({"age": [1]}), AGE),
    ):
        pytest.fail("there was room")


def test_batches_are_let_go_of_one_by_one() -> None:
    """While rows are stored, one batch of the source is held and no more: memory does not grow with the
    table."""
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

    stored = stream._stored(batches(), RowLayout((100,)), Decoder(AGE), stream.Event())
    assert len(stored) == 50
    assert most <= 2
    stored.close()


def test_a_row_takes_a_byte_or_two_per_code() -> None:
    """Encoded rows are as small as their codes allow, whatever type the source had."""
    assert RowLayout((2, 256, 257, 65_536)).row_bytes == 1 + 1 + 2 + 2
    assert RowLayout((2, 256), has_counts=True).row_bytes == 2 + 8


@dataclass(frozen=True)
class OneBlock(Method):
    """A method for this test: one block with a noisy count, from a table of counts alone."""

    name = "one block"
    makes_views = True
    supports_spark = True
    reads = "tables"

    def settings(self) -> Mapping[str, float]:
        return {}

    def release(
        self, counts: Counts, mechanism: Mechanism, engine: Engine, progress: Progress | None = None
    ) -> ViewRelease:
        assert not isinstance(counts, CellCounts)
        total = counts.exact_tables([TableShape.of_codes((0,), counts.schema.sizes)], progress)[0].total()
        noisy = mechanism.noisy("noise on counts", total, mechanism.total)
        lower = np.zeros((1, len(counts.schema)), np.int32)
        upper = np.array([counts.schema.sizes], np.int32)
        blocks = Blocks(lower, upper, noisy, np.ones(1, np.int32), laplace_scale(mechanism.total))
        return ViewRelease(blocks)


def test_the_form_that_is_read_follows_from_the_method() -> None:
    """A method that reads tables is given rows that were never grouped; cells are refused it in words."""
    table, told = pa.table({"age": [5] * 3000}), list[str]()
    view = hv.build(
        table, AGE, 1.0, method=OneBlock(), test_key=b"k", progress=lambda _, text: told.append(text)
    )
    assert view.blocks.noisy_counts[0] == pytest.approx(3000, abs=40)
    assert "Reading rows" in told
    assert "Counting occupied cells" not in told
    with streamed_counts(table, AGE) as counts:
        with pytest.raises(hv.MethodError, match="`reads` must be 'cells'"):
            as_cells(counts)
        with pytest.raises(hv.MethodError, match="engine='local'"):
            local_cells(counts)
        assert repr(counts) == "StreamedCounts(exact)"
