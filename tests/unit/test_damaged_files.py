"""Files that are cut short, changed or of another kind: each gives a valid view or is refused in words."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stored import a_mixture, manifest_of, open_and_use, rewrite

from hdpview.domain import Boolean, Schema
from hdpview.errors import ViewFileError
from hdpview.pview import PView, merge
from hdpview.view.blocks import Blocks
from hdpview.view.data import ViewPart
from hdpview.view.quality import prior_quality

KINDS = ["blocks", "mixture", "merged"]


SMALL = Schema([Boolean(name="f")])


def two_blocks() -> PView:
    lower = np.array([[0], [1]], np.int32)
    blocks = Blocks(lower, lower + 1, np.array([3, 4]), np.array([2, 2], np.int32), 50.0)
    return PView(manifest_of(SMALL), (ViewPart(blocks, prior_quality(blocks)),))


def two_views() -> PView:
    return merge([two_blocks(), two_blocks()], overlapping=True)


@pytest.fixture(scope="module", params=[two_blocks, partial(a_mixture, SMALL), two_views], ids=KINDS)
def smallest(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a very small file of one attribute."""
    target = tmp_path_factory.mktemp("small") / "v"
    request.param().save(target)
    return target.read_bytes()


def test_a_file_cut_short_anywhere_is_refused(tmp_path: Path, smallest: bytes) -> None:
    """For every seventh length short of the whole, opening raises ViewFileError and nothing else."""
    target = tmp_path / "v"
    for length in range(0, len(smallest), 7):
        target.write_bytes(smallest[:length])
        with pytest.raises(ViewFileError):
            PView.open(target)
    target.write_bytes(smallest)
    assert PView.open(target).n_components in (2, 4, 10)


@settings(
    max_examples=200,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(1, 255)), min_size=1, max_size=3))
def test_flipped_bytes_give_a_view_or_a_refusal(
    tmp_path: Path, smallest: bytes, flips: list[tuple[int, int]]
) -> None:
    """After any few bytes changed, a file is refused by ViewFileError or is a view that can be used; nothing
    else happens.
    """
    damaged = bytearray(smallest)
    for place, mask in flips:
        damaged[place % len(damaged)] ^= mask
    (tmp_path / "v").write_bytes(bytes(damaged))
    open_and_use(tmp_path / "v")


def answers(view: PView) -> list[Any]:
    """What a reader may learn from a small view."""
    wheres = [None, "f", "NOT f"]
    return [view.count(where, counts=reading) for where in wheres for reading in ("raw", "consistent")]


def test_no_flipped_bit_changes_an_answer(tmp_path: Path, smallest: bytes) -> None:
    """Each of 200 single bits, spread over the file by a fixed rule: the file is refused, or answers the
    same.
    Bits that Parquet does not read, such as statistics that nobody uses, may differ.
    """
    target = tmp_path / "v"
    target.write_bytes(smallest)
    expected, card = answers(PView.open(target)), PView.open(target).privacy_card().text
    refused = 0
    for bit in np.linspace(0, 8 * len(smallest) - 1, 200).astype(int).tolist():
        damaged = bytearray(smallest)
        damaged[bit // 8] ^= 1 << bit % 8
        target.write_bytes(bytes(damaged))
        try:
            found = PView.open(target)
        except ViewFileError:
            refused += 1
            continue
        assert answers(found) == expected, bit
        assert found.privacy_card().text == card, bit
    assert refused > 100


def with_values(name: str, values: list[Any]) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        at = table.column_names.index(name)
        return table.set_column(
            at, pa.field(name, table.column(name).type), pa.array(values, table.column(name).type)
        )

    return change


FOREIGN = "its columns are not those of its schema"


# Faults of tilings are told apart in tests/property/test_blocks.py.
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_values("age_lo", [1, 4, 4]), "do not fit|overlap|cover"),
        (with_values("depth", [2, 2, 3]), "the depths do not form a tree"),
        (with_values("count", [2**60, 0, 0]), "a count is larger than any table"),
        (with_values("count", [-(2**63), 0, 0]), "a count is larger than any table"),
        (with_values("count", [None, 0, 0]), "values are missing"),
        (with_values("age_lo", [0, None, 4]), "values are missing"),
        (lambda table: table.slice(0, 0), "its parts are not those that the manifest lists"),
        (lambda table: pa.concat_tables([table, table.slice(2)]), "the depths do not form a tree"),
        (lambda table: table.take([0, 2, 1]), "overlap or leave a gap"),
        (lambda table: table.drop_columns(["depth"]), FOREIGN),
        (lambda table: table.append_column("exact", pa.array([1, 2, 3])), FOREIGN),
        (lambda table: table.append_column("count", pa.array([1, 2, 3])), f"{FOREIGN}|damaged"),
        (lambda table: table.rename_columns(["age", *table.column_names[1:]]), FOREIGN),
        (lambda table: table.set_column(0, "age_lo", pa.array([0, 4, 4], pa.int64())), FOREIGN),
        (lambda table: table.set_column(0, "age_lo", pa.array(["0", "4", "4"])), FOREIGN),
        (lambda table: table.set_column(0, "age_lo", pa.array([[0], [4], [4]])), FOREIGN),
    ],
)
def test_blocks_that_do_not_tile_and_foreign_columns_are_refused(
    path: Path, change: Callable[[pa.Table], pa.Table], message: str
) -> None:
    """Blocks that overlap, leave gaps or reach outside, missing values and columns of other names or types
    are refused by name.
    """
    rewrite(path, change)
    with pytest.raises(ViewFileError, match=message):
        PView.open(path)


def test_a_footer_larger_than_the_file_is_refused(path: Path) -> None:
    """A footer length beyond the file is refused before Parquet's parser sees it."""
    content = path.read_bytes()
    path.write_bytes(content[:-8] + b"\xff\xff\xff\x7f" + content[-4:])
    with pytest.raises(ViewFileError, match="damaged or cut short"):
        PView.open(path)


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    """Parquet of something else, text, an empty file, a folder and no file at all are each refused in
    words.
    """
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "other.parquet")
    (tmp_path / "text").write_text("hello, world: this is not Parquet")
    (tmp_path / "empty").write_bytes(b"")
    for name, message in [
        ("other.parquet", "is a Parquet file but not a .pview"),
        ("text", "not a .pview file"),
        ("empty", "not a .pview file"),
        ("missing", "No such file"),
        (".", "Cannot read"),
    ]:
        with pytest.raises(ViewFileError, match=message):
            PView.open(tmp_path / name)
