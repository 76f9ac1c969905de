"""The .pview file: what is written is read back, and a write that fails leaves what was there."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from stored import COUNTS, SCHEMA, a_mixture, a_view

from hdpview.domain import Boolean, Schema
from hdpview.errors import ViewFileError
from hdpview.pview import PView, merge
from hdpview.view.contents import SHARE_UNITS, column_types, quantised
from hdpview.view.file import MANIFEST_KEY


def test_a_view_is_the_same_after_its_file(path: Path) -> None:
    """Blocks, manifest and answers survive a file, to the bit."""
    opened, view = PView.open(path), a_view()
    assert opened.manifest == view.manifest
    for name in ("lower", "upper", "noisy_counts", "depth"):
        before, after = getattr(view.blocks, name), getattr(opened.blocks, name)
        assert after.dtype == before.dtype
        assert after.tolist() == before.tolist()
    question = "wide < 450 AND age >= 3"
    assert opened.count(question) == view.count(question)
    assert opened.info() == view.info()


def test_columns_are_inclusive_bounds_in_the_smallest_type(path: Path) -> None:
    """Any Parquet reader finds `<attr>_lo` and `<attr>_hi` as inclusive codes, the noisy count and the depth,
    and no other column.
    """
    table = pq.read_table(path)
    names = [f"{attribute.name}_{end}" for attribute in SCHEMA for end in ("lo", "hi")]
    assert table.column_names == [*names, "count", "depth"]
    assert table.column("wide_lo").type == pa.uint16()
    assert table.column("age_hi").type == pa.uint8()
    assert table.column("age_hi").to_pylist() == [3, 8, 8]
    assert table.column("count").to_pylist() == COUNTS


def test_the_file_holds_nothing_but_noisy_values(path: Path) -> None:
    """The manifest has the documented keys and no key that speaks of exact values, keys or noise drawn."""
    content = json.loads(pq.read_schema(path).metadata[MANIFEST_KEY])
    assert set(content) == {
        "format_version",
        "library_version",
        "created",
        "checksum",
        "components",
        "parts",
        "table",
        "spent_on_table",
        "private",
        "not_private_because",
        "epsilon",
        "delta",
        "neighbours",
        "privacy_unit",
        "max_rows",
        "count_column",
        "choice",
        "spending",
        "method",
        "schema",
    }
    assert content["epsilon"] == "1/10"
    assert not any(word in json.dumps(content).lower() for word in ("exact", "secret", "seed"))


def test_a_write_that_cannot_start_leaves_nothing(tmp_path: Path) -> None:
    """Where the folder is missing or the target is a folder, the write is refused and no file is left
    behind.
    """
    with pytest.raises(ViewFileError, match=r"Cannot write .*: No such file or directory"):
        a_view().save(tmp_path / "missing" / "v.pview")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ViewFileError, match="Cannot write"):
        a_view().save(tmp_path / "folder")
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize("step", ["fsync", "replace", "chmod"])
def test_a_full_disk_leaves_the_old_file_and_no_other(
    path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Where the disk is full half-way, the error says so, the old file is untouched and no temporary file
    stays.
    """
    before = path.read_bytes()

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, step, full)
    with pytest.raises(ViewFileError, match="No space left on device"):
        a_view(library_version="2").save(path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_an_interrupted_write_leaves_the_old_file_and_no_other(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C during the write passes through, and leaves the old file alone in its folder."""

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pq.ParquetWriter, "write_table", interrupt)
    before = path.read_bytes()
    with pytest.raises(KeyboardInterrupt):
        a_view().save(path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_saved_file_has_the_usual_rights(path: Path) -> None:
    """The file is readable as the user's other new files are, not as a temporary file is."""
    (path.parent / "other").write_text("")
    assert path.stat().st_mode == (path.parent / "other").stat().st_mode


def test_saving_replaces_a_view_whole(path: Path) -> None:
    """Saving over an older view leaves the new one."""
    a_view(library_version="9.9").save(path)
    assert PView.open(path).manifest.library_version == "9.9"


def test_column_names_never_clash() -> None:
    """Attributes named like columns of the file still have columns of their own."""
    names = ["count", "depth", "count_lo", "count_lo_lo", "a", "a_hi"]
    schema = Schema([Boolean(name=name) for name in [*names, "weight", "member", "part", "part_share"]])
    assert len(column_types(schema, "blocks", 2)) == 2 * len(schema) + 3
    assert len(column_types(schema, "mixture", 2)) == len(schema) + 3


def test_the_manifest_is_in_the_file_once(path: Path) -> None:
    """Parquet's own copy of an Arrow schema, which would hold it again and longer, is left out."""
    found = pq.ParquetFile(path).metadata.metadata
    assert set(found) == {b"hdpview"}


@pytest.mark.parametrize("n_parts", [1, 3])
def test_a_mixture_is_the_same_after_its_file(tmp_path: Path, n_parts: int) -> None:
    """Components, tables, quality, manifest and answers of a mixture survive a file, to the bit; so do merged
    ones."""
    views = [a_mixture(seed=seed) for seed in range(n_parts)]
    view = views[0] if n_parts == 1 else merge(views)
    view.save(tmp_path / "m.pview")
    opened = PView.open(tmp_path / "m.pview")
    assert opened.manifest == view.manifest
    for before, after in zip(view.parts, opened.parts, strict=True):
        assert after.quality == before.quality
        for name in ("weight", "fit_index"):
            assert_same(getattr(after.components, name), getattr(before.components, name))
        for name in ("bin_of_code", "within_bin_share", "share"):
            for one, other in zip(
                getattr(after.components, name), getattr(before.components, name), strict=True
            ):
                assert_same(one, other)
        for one, other in zip(after.tables, before.tables, strict=True):
            assert (one.attributes, one.noise, one.scale) == (other.attributes, other.noise, other.scale)
            assert_same(one.counts, other.counts)
            for bins, other_bins in zip(one.shape.bin_of_code, other.shape.bin_of_code, strict=True):
                assert_same(bins, other_bins)
    question = "wide < 450 AND age >= 3"
    assert opened.count(question) == view.count(question)
    assert opened.info() == view.info()
    assert opened.privacy_card() == view.privacy_card()


def assert_same(one: NDArray[Any], other: NDArray[Any]) -> None:
    assert one.dtype == other.dtype
    assert one.tolist() == other.tolist()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 300), st.integers(1, 12), st.sampled_from([0.05, 1.0, 30.0]))
def test_quantised_shares_add_up_to_one_exactly(seed: int, n_bins: int, n: int, evenness: float) -> None:
    """Whole units that add up to SHARE_UNITS, none negative, each less than a unit from what it was;
    quantising again changes nothing.
    """
    rng = np.random.default_rng(seed)
    share = rng.dirichlet(np.full(n_bins, evenness), n).T
    found = quantised(share)
    units = np.rint(found * SHARE_UNITS)
    assert (units.sum(axis=0) == SHARE_UNITS).all()
    assert (units >= 0).all()
    assert np.abs(found * SHARE_UNITS - units).max() < 1e-9
    assert np.abs(found - share).max() < 1 / SHARE_UNITS + 1e-12
    assert (quantised(found) == found).all()
