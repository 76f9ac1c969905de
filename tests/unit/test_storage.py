"""The .pview file: what is written is read back, and whatever else a file holds is refused in words."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hdpview.domain import Boolean, Category, Integer, Real, Schema
from hdpview.errors import ViewFileError
from hdpview.pview import PView
from hdpview.view import manifest as manifest_module
from hdpview.view.blocks import Blocks
from hdpview.view.manifest import Manifest, Spending
from hdpview.view.storage import MANIFEST_KEY, column_types

SCHEMA = Schema(
    [
        Integer(name="age", min=0, max=7, nullable=True),
        Category(name="odd name.with dots", values=("a", "b")),
        Integer(name="wide", min=0, max=999),
        Real(name="x", min=0, max=1, bins=2),
        Boolean(name="flag"),
    ]
)
LOWER = [[0, 0, 0, 0, 0], [4, 0, 0, 0, 0], [4, 0, 300, 0, 0]]
UPPER = [[4, 2, 1000, 2, 2], [9, 2, 300, 2, 2], [9, 2, 1000, 2, 2]]
DEPTH = [2, 3, 3]
COUNTS = [100, -7, 2**40]


def manifest_of(schema: Schema, **changes: Any) -> Manifest:
    facts: dict[str, Any] = {
        "schema": schema,
        "method": "hdpview",
        "epsilon": Fraction(1, 10),
        "spending": (Spending("choose cuts", Fraction(1, 300), 24), Spending("noise on counts", Fraction(1, 50), 1)),
        "noise_scale": 50.0,
        "settings": {"bias_ratio": 1.6},
        "parameters": {"epsilon_cut": 0.25, "n_private_cut_levels": 24},
        "library_version": "0.1.0",
        "not_private_because": ("built with a test key",),
    }
    return Manifest(**{**facts, **changes})


def a_view(**changes: Any) -> PView:
    blocks = Blocks(np.array(LOWER, np.int32), np.array(UPPER, np.int32), np.array(COUNTS), np.array(DEPTH, np.int32))
    return PView(manifest_of(SCHEMA, **changes), blocks)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "v.pview"
    a_view().save(target)
    return target


@pytest.fixture(scope="module")
def smallest() -> bytes:
    """The bytes of a very small file: one attribute, two blocks."""
    import tempfile

    schema = Schema([Boolean(name="f")])
    lower = np.array([[0], [1]], np.int32)
    view = PView(manifest_of(schema), Blocks(lower, lower + 1, np.array([3, 4]), np.array([2, 2], np.int32)))
    with tempfile.TemporaryDirectory() as folder:
        view.save(Path(folder) / "v")
        return (Path(folder) / "v").read_bytes()


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
    """Any Parquet reader finds `<attr>_lo` and `<attr>_hi` as inclusive codes, the noisy count and the depth, and no other column."""
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
        "private",
        "not_private_because",
        "epsilon",
        "delta",
        "neighbours",
        "privacy_unit",
        "max_rows",
        "count_column",
        "spending",
        "noise",
        "method",
        "schema",
    }
    assert content["epsilon"] == "1/10"
    assert not any(word in json.dumps(content).lower() for word in ("exact", "secret", "seed"))


def test_a_file_cut_short_anywhere_is_refused(tmp_path: Path, smallest: bytes) -> None:
    """For every length short of the whole, opening raises ViewFileError and nothing else."""
    target = tmp_path / "v"
    for length in range(len(smallest)):
        target.write_bytes(smallest[:length])
        with pytest.raises(ViewFileError):
            PView.open(target)
    target.write_bytes(smallest)
    assert len(PView.open(target).blocks) == 2


def use(view: PView) -> None:
    """Everything a reader does first with a view that was opened."""
    view.info()
    repr(view)
    view.count(None)
    view.count(f"{view.schema.names[0]} IS NOT NULL" if " " not in view.schema.names[0] else None)


def open_and_use(target: Path) -> bool:
    """Whether a file is opened as a view; then it can be used. Anything but ViewFileError is raised."""
    try:
        view = PView.open(target)
    except ViewFileError:
        return False
    use(view)
    return True


@settings(max_examples=1500, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(1, 255)), min_size=1, max_size=3))
def test_flipped_bytes_give_a_view_or_a_refusal(tmp_path: Path, smallest: bytes, flips: list[tuple[int, int]]) -> None:
    """After any few bytes changed, a file is refused by ViewFileError or is a valid view that can be used; nothing else happens."""
    damaged = bytearray(smallest)
    for place, mask in flips:
        damaged[place % len(damaged)] ^= mask
    (tmp_path / "v").write_bytes(bytes(damaged))
    open_and_use(tmp_path / "v")


@pytest.mark.parametrize("mask", [0xFF, 0x01, 0x80])
def test_every_single_flipped_byte_gives_a_view_or_a_refusal(tmp_path: Path, smallest: bytes, mask: int) -> None:
    """Flipping each byte of a file in turn gives a refusal or a valid view; most are refused."""
    opened = 0
    for place in range(len(smallest)):
        damaged = bytearray(smallest)
        damaged[place] ^= mask
        (tmp_path / "v").write_bytes(bytes(damaged))
        opened += open_and_use(tmp_path / "v")
    assert opened < 0.9 * len(smallest)


def rewrite(
    path: Path, change_table: Callable[[pa.Table], pa.Table] | None = None, change: Callable[[dict[str, Any]], Any] | None = None
) -> None:
    """Write a file again with another table or another manifest."""
    table = pq.read_table(path)
    content = json.loads(table.schema.metadata[MANIFEST_KEY])
    if change_table is not None:
        table = change_table(table)
    if change is not None:
        content = change(content)
    metadata = content if isinstance(content, bytes) else json.dumps(content).encode()
    pq.write_table(table.replace_schema_metadata({MANIFEST_KEY: metadata}), path)


def with_values(name: str, values: list[Any]) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        at = table.column_names.index(name)
        return table.set_column(at, pa.field(name, table.column(name).type), pa.array(values, table.column(name).type))

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_values("age_hi", [4, 8, 8]), "two halves of a block do not fit together|overlap or leave a gap"),
        (with_values("age_lo", [1, 4, 4]), "do not fit|overlap|cover"),
        (with_values("age_hi", [3, 9, 9]), "empty or reaches outside the domain"),
        (with_values("wide_hi", [999, 298, 999]), "overlap or leave a gap"),
        (with_values("wide_lo", [0, 300, 300]), "empty or reaches outside"),
        (with_values("depth", [2, 2, 3]), "the depths do not form a tree"),
        (with_values("depth", [0, 3, 3]), "a depth is below 1"),
        (with_values("count", [2**60, 0, 0]), "a count is beyond any table's"),
        (with_values("count", [-(2**63), 0, 0]), "a count is beyond any table's"),
        (with_values("count", [None, 0, 0]), "values are missing"),
        (with_values("age_lo", [0, None, 4]), "values are missing"),
        (lambda table: table.slice(0, 2), "the depths do not form a tree"),
        (lambda table: table.slice(0, 0), "there are no blocks"),
        (lambda table: pa.concat_tables([table, table.slice(2)]), "the depths do not form a tree"),
        (lambda table: table.take([0, 2, 1]), "overlap or leave a gap"),
        (lambda table: table.drop_columns(["depth"]), "its columns are not those of its schema"),
        (lambda table: table.append_column("exact", pa.array([1, 2, 3])), "its columns are not those of its schema"),
        (lambda table: table.append_column("count", pa.array([1, 2, 3])), "its columns are not those of its schema|damaged"),
        (lambda table: table.rename_columns(["age", *table.column_names[1:]]), "its columns are not those of its schema"),
        (lambda table: table.set_column(0, "age_lo", pa.array([0, 4, 4], pa.int64())), "its columns are not those of its schema"),
        (lambda table: table.set_column(0, "age_lo", pa.array(["0", "4", "4"])), "its columns are not those of its schema"),
        (lambda table: table.set_column(0, "age_lo", pa.array([[0], [4], [4]])), "its columns are not those of its schema"),
    ],
)
def test_blocks_that_do_not_tile_and_foreign_columns_are_refused(path: Path, change: Callable[[pa.Table], pa.Table], message: str) -> None:
    """Blocks that overlap, leave gaps or reach outside, missing values and columns of other names or types are refused by name."""
    rewrite(path, change)
    with pytest.raises(ViewFileError, match=message):
        PView.open(path)


def put(*keys: str, value: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def change(content: dict[str, Any]) -> dict[str, Any]:
        place = content
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = value
        return content

    return change


def without(key: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda content: {name: value for name, value in content.items() if name != key}


HUGE = "9" * 999


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("format_version", value=5), r"format version 5; this hdpview reads 1 to 4\..*newer hdpview"),
        (put("format_version", value=2), "a field is missing"),
        (put("format_version", value="1"), "damaged|format version"),
        (put("format_version", value=None), "format version None"),
        (without("format_version"), "format version None"),
        (lambda content: [content], "format version None"),
        (lambda content: b"null", "format version None"),
        (lambda content: b"{", "not valid JSON"),
        (lambda content: b"\xff\xfe\x00", "not valid JSON"),
        (lambda content: b"[" * 200_000, "not valid JSON"),
        (lambda content: b'{"format_version": 1, "schema": ' + b"[" * 900 + b"]" * 900 + b"}", "damaged"),
        (lambda content: b'{"format_version": ' + b"9" * 10_000 + b"}", "not valid JSON|format version"),
        (without("schema"), "a field is missing or of the wrong type"),
        (without("spending"), "a field is missing"),
        (without("private"), "a field is missing"),
        (put("schema", value={"attributes": {}}), "at least one attribute"),
        (put("schema", value=[]), "damaged"),
        (put("schema", "attributes", "age", "type", value="intger"), "Did you mean 'integer'"),
        (put("schema", "attributes", "age", "max", value=90), "a block|cover|columns"),
        (put("schema", "attributes", "x", "max", value=10**400), "damaged"),
        (put("schema", "attributes", "extra", value={"type": "boolean"}), "its columns are not those of its schema"),
        (put("private", value=True), "wrong type|damaged"),
        (put("private", value=0), "wrong type|damaged"),
        (put("not_private_because", value=[]), "wrong type|damaged"),
        (put("neighbours", value="tables that differ by one value"), "damaged"),
        (put("delta", value=1e-9), "damaged"),
        (put("epsilon", value="1/5"), "damaged"),
        (put("epsilon", value="0"), "damaged"),
        (put("epsilon", value=0.1), "damaged"),
        (put("epsilon", value="1/0"), "damaged"),
        (put("epsilon", value="1e999999999"), "damaged"),
        (put("epsilon", value="nan"), "damaged"),
        (put("spending", value={}), "damaged"),
        (put("spending", value=[{"purpose": 1, "epsilon": "1/10", "times": 1}]), "damaged"),
        (put("spending", value=[{"purpose": "x", "epsilon": "1/10", "times": -1}]), "damaged"),
        (
            put("spending", value=[{"purpose": "x", "epsilon": "-1/10", "times": 1}, {"purpose": "y", "epsilon": "2/10", "times": 1}]),
            "damaged",
        ),
        (put("noise", "scale", value=0), "damaged"),
        (put("noise", "scale", value=-1.0), "damaged"),
        (put("noise", "scale", value=True), "damaged"),
        (put("noise", "scale", value="1"), "damaged"),
        (put("noise", "scale", value=float("nan")), "damaged"),
        (put("noise", "scale", value=float("inf")), "damaged"),
        (put("noise", "scale", value=10**400), "damaged"),
        (put("method", value="hdpview"), "damaged"),
        (put("method", "settings", value=[1]), "damaged"),
        (put("method", "settings", value={"a": "b"}), "damaged"),
        (put("method", "name", value="x" * 1_001), "damaged"),
    ],
)
def test_manifests_that_do_not_hold_are_refused(path: Path, change: Callable[[dict[str, Any]], Any], message: str) -> None:
    """Later versions, broken JSON, fields that are missing, of a wrong type or at odds with each other: each is refused in words."""
    rewrite(path, change=change)
    with pytest.raises(ViewFileError, match=message):
        PView.open(path)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            lambda c: {**c, "epsilon": HUGE, "spending": [{"purpose": "x", "epsilon": HUGE, "times": 1}]}, id="epsilon of 999 digits"
        ),
        pytest.param(
            lambda c: {**c, "epsilon": f"1/{HUGE}", "spending": [{"purpose": "x", "epsilon": f"1/{HUGE}", "times": 1}]}, id="epsilon near 0"
        ),
        pytest.param(put("noise", "scale", value=1e300), id="noise of 1e300"),
        pytest.param(put("noise", "scale", value=1e17), id="noise of 1e17"),
        pytest.param(put("noise", "scale", value=1e-300), id="noise of 1e-300"),
        pytest.param(put("noise", "scale", value=1e-3), id="noise of 1e-3"),
        pytest.param(put("method", "settings", value={"a": 10**300}), id="setting of 300 digits"),
        pytest.param(put("count_column", value="\ud800\x1b[31m"), id="strange text"),
    ],
)
def test_what_is_opened_can_be_used(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """A manifest with extreme but well-formed numbers is refused, or its view answers questions and shows itself."""
    rewrite(path, change=change)
    open_and_use(path)


def test_a_giant_manifest_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A manifest larger than the limit is refused before it is parsed."""
    monkeypatch.setattr(manifest_module, "MAX_MANIFEST_BYTES", 100)
    with pytest.raises(ViewFileError, match=r"The manifest is larger than .* MB; this is not a file that hdpview wrote"):
        PView.open(path)


def test_a_footer_larger_than_the_file_is_refused(path: Path) -> None:
    """A footer length beyond the file is refused before Parquet's parser sees it."""
    content = path.read_bytes()
    path.write_bytes(content[:-8] + b"\xff\xff\xff\x7f" + content[-4:])
    with pytest.raises(ViewFileError, match="damaged or cut short"):
        PView.open(path)


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    """Parquet of something else, text, an empty file, a folder and no file at all are each refused in words."""
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


def test_a_write_that_cannot_start_leaves_nothing(tmp_path: Path) -> None:
    """Where the folder is missing or the target is a folder, the write is refused and no file is left behind."""
    with pytest.raises(ViewFileError, match=r"Cannot write .*: No such file or directory"):
        a_view().save(tmp_path / "missing" / "v.pview")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ViewFileError, match="Cannot write"):
        a_view().save(tmp_path / "folder")
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize("step", ["fsync", "replace", "chmod"])
def test_a_full_disk_leaves_the_old_file_and_no_other(path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """Where the disk is full half-way, the error says so, the old file is untouched and no temporary file stays."""
    before = path.read_bytes()

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, step, full)
    with pytest.raises(ViewFileError, match="No space left on device"):
        a_view(library_version="2").save(path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_an_interrupted_write_leaves_the_old_file_and_no_other(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C during the write passes through, and leaves the old file alone in its folder."""

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pq, "write_table", interrupt)
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
    assert len(column_types(Schema([Boolean(name=name) for name in names]))) == 2 * len(names) + 2
