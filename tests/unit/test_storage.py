"""The .pview file: a written view is read back unchanged, and a failed write leaves the old file."""

import dataclasses
import errno
import json
import os
from typing import Any
from unittest.mock import Mock, patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stored import COUNTS, SCHEMA, a_mixture, a_view

from hdpview.domain import Boolean, Schema
from hdpview.errors import ViewFileError
from hdpview.pview import PView, merge
from hdpview.view.contents import SHARE_UNITS, column_types, quantised
from hdpview.view.file import MANIFEST_KEY


@pytest.mark.parametrize("n_parts", [1, 3])
@pytest.mark.parametrize("make", [a_view, a_mixture])
def test_a_view_is_the_same_after_its_file(tmp_path, make, n_parts):
    views = [make(library_version=str(i)) for i in range(n_parts)]
    view = views[0] if n_parts == 1 else merge(views, overlapping=True)
    view.save(tmp_path / "m.pview")
    opened = PView.open(tmp_path / "m.pview")
    assert opened.manifest == view.manifest
    for before, after in zip(view.parts, opened.parts, strict=True):
        assert after.quality == before.quality
        assert contents(after.components) == contents(before.components)
        assert [*map(contents, after.tables)] == [*map(contents, before.tables)]
    question = "wide < 450 AND age >= 3"
    assert opened.count(question) == view.count(question)
    assert opened.info() == view.info()
    assert opened.privacy_card() == view.privacy_card()


def contents(owner: Any) -> Any:
    """All fields, arrays as their type and their numbers."""
    if isinstance(owner, np.ndarray):
        return owner.dtype, owner.tolist()
    if isinstance(owner, tuple):
        return [contents(each) for each in owner]
    if dataclasses.is_dataclass(owner):
        return [contents(getattr(owner, field.name)) for field in dataclasses.fields(owner)]
    return owner


def test_columns_are_inclusive_bounds_in_the_smallest_type(path):
    table = pq.read_table(path)
    names = [f"{attribute.name}_{end}" for attribute in SCHEMA for end in ("lo", "hi")]
    assert table.column_names == [*names, "count", "depth"]
    assert (table["wide_lo"].type, table["age_hi"].type) == (pa.uint16(), pa.uint8())
    assert table["age_hi"].to_pylist() == [3, 8, 8]
    assert table["count"].to_pylist() == COUNTS


def test_the_manifest_is_in_the_file_once_and_holds_public_facts_only(path):
    assert set(pq.ParquetFile(path).metadata.metadata) == {MANIFEST_KEY}
    content = json.loads(pq.read_schema(path).metadata[MANIFEST_KEY])
    assert {*content} == {*MANIFEST.split()}
    assert content["epsilon"] == "1/10"
    assert not any(word in json.dumps(content).lower() for word in ("exact", "secret", "seed"))


MANIFEST = """format_version library_version created checksum components parts table spent_on_table private
    not_private_because epsilon delta neighbours privacy_unit max_rows count_column choice
    spending method schema"""


def test_a_write_that_cannot_start_leaves_nothing(tmp_path):
    with pytest.raises(ViewFileError, match=r"Cannot write .*: No such file or directory"):
        a_view().save(tmp_path / "missing" / "v.pview")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ViewFileError, match="Cannot write"):
        a_view().save(tmp_path / "folder")
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize(
    ("place", "name", "problem", "raised"),
    [
        *[(os, name, OSError(errno.ENOSPC, "full"), ViewFileError) for name in ("fsync", "replace", "chmod")],
        (pq.ParquetWriter, "write_table", KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_a_full_disk_or_an_interrupt_leaves_the_old_file_and_no_other(
    path, monkeypatch, place, name, problem, raised
):
    before = path.read_bytes()
    monkeypatch.setattr(place, name, Mock(side_effect=problem))
    with pytest.raises(raised, match="No space left" if raised is ViewFileError else None):
        a_view(library_version="2").save(path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_file_that_cannot_be_read_back_leaves_the_old_one(path):
    before = path.read_bytes()
    with patch("hdpview.view.file.read", side_effect=ViewFileError("damaged")), pytest.raises(ViewFileError):
        a_view(library_version="2").save(path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_saving_replaces_a_view_and_gives_it_the_usual_rights(path):
    a_view(library_version="9.9").save(path)
    assert PView.open(path).manifest.library_version == "9.9"
    (path.parent / "other").write_text("")
    assert path.stat().st_mode == (path.parent / "other").stat().st_mode


def test_a_view_opens_by_a_name_that_its_locale_cannot_write(path):
    """As names with an umlaut are in the locale C."""
    odd = path.with_name(os.fsdecode(b"\xfc.pview"))
    path.rename(odd)
    PView.open(odd).save(odd)
    assert PView.open(odd).manifest == a_view().manifest


def test_column_names_never_clash():
    names = ["count", "depth", "count_lo", "count_lo_lo", "a", "a_hi"]
    schema = Schema([Boolean(name=name) for name in [*names, "weight", "member", "part", "part_share"]])
    assert len(column_types(schema, "blocks", 2)) == 2 * len(schema) + 3
    assert len(column_types(schema, "mixture", 2)) == len(schema) + 3


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 300), st.integers(1, 12), st.sampled_from([0.05, 1.0, 30.0]))
def test_quantised_shares_add_up_to_one_exactly(seed, n_bins, n, evenness):
    rng = np.random.default_rng(seed)
    share = rng.dirichlet(np.full(n_bins, evenness), n).T
    rounded = quantised(share)
    units = np.rint(rounded * SHARE_UNITS)
    assert (units.sum(axis=0) == SHARE_UNITS).all()
    assert (units >= 0).all()
    assert np.abs(rounded * SHARE_UNITS - units).max() < 1e-9
    assert np.abs(rounded - share).max() < 1 / SHARE_UNITS + 1e-12
    assert (quantised(rounded) == rounded).all()
