"""Files that are cut short, changed or of another kind: each gives a valid view or is refused in words."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from stored import a_mixture, a_view, manifest_of, rewrite

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
    target = tmp_path_factory.mktemp("small") / "v"
    request.param().save(target)
    return target.read_bytes()


def test_a_file_cut_short_anywhere_is_refused(tmp_path, smallest):
    target = tmp_path / "v"
    for length in range(0, len(smallest), 7):
        target.write_bytes(smallest[:length])
        with pytest.raises(ViewFileError):
            PView.open(target)
    target.write_bytes(smallest)
    assert PView.open(target).n_components in (2, 4, 10)


def answers(view: PView) -> list[Any]:
    wheres = [None, "f", "NOT f"]
    return [view.count(where, counts=reading) for where in wheres for reading in ("raw", "consistent")]


def test_no_flipped_bit_changes_an_answer(tmp_path, smallest):
    """200 single bits by a fixed rule. Bits that Parquet ignores, such as unused statistics, may differ."""
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


FOREIGN = "its columns are not those of its schema"


BEYOND, MISSING = "a count is larger than any table", "values are missing"
NO_WEIGHT, FITS = "a weight is not a number of records", "the fits are not numbered from 0"
SHARES = "flag_share"


def column(name: str, values: Callable[[int], list[Any]] | list[Any]) -> Callable[[pa.Table], pa.Table]:

    def change(table: pa.Table) -> pa.Table:
        at, kind = table.column_names.index(name), table.schema.field(name).type
        new = values(len(table)) if callable(values) else values
        return table.set_column(at, pa.field(name, kind), pa.array(new, kind))

    return change


# Faults of tilings are told apart in tests/property/test_blocks.py.
OF_BLOCKS: list[tuple[Callable[[pa.Table], pa.Table], str]] = [
    (column("age_lo", [1, 4, 4]), "do not fit|overlap|cover"),
    (column("depth", [2, 2, 3]), "the depths do not form a tree"),
    (column("count", [2**60, 0, 0]), BEYOND),
    (column("count", [-(2**63), 0, 0]), BEYOND),
    (column("count", [None, 0, 0]), MISSING),
    (column("age_lo", [0, None, 4]), MISSING),
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
]
OF_A_MIXTURE: list[tuple[Callable[[pa.Table], pa.Table], str]] = [
    (column("weight", lambda n: [-1.0] * n), NO_WEIGHT),
    (column("weight", lambda n: [math.nan] * n), NO_WEIGHT),
    (column("weight", lambda n: [math.inf] * n), NO_WEIGHT),
    (column("weight", lambda n: [1e300] * n), "larger than any table"),
    (column("member", lambda n: [1] * n), FITS),
    (column("member", lambda n: list(range(n))[::-1]), FITS),
    (column(SHARES, lambda n: [[65_535] * 9] * n), "wrong number of shares"),
    (column(SHARES, lambda n: [[]] * n), "wrong number of shares"),
    (lambda t: column(SHARES, [[0] * len(row) for row in t[SHARES].to_pylist()])(t), "do not add up to 1"),
    (lambda table: table.slice(0, 0), "parts are not those"),
    (lambda table: table.drop_columns(["member"]), "columns are not those"),
]


@pytest.mark.parametrize(
    ("make", "change", "message"),
    [(make, *case) for make, cases in ((a_view, OF_BLOCKS), (a_mixture, OF_A_MIXTURE)) for case in cases],
)
def test_wrong_components_and_foreign_columns_are_refused(tmp_path, make, change, message):
    make().save(tmp_path / "v.pview")
    rewrite(tmp_path / "v.pview", change)
    with pytest.raises(ViewFileError, match=message):
        PView.open(tmp_path / "v.pview")


def test_a_footer_larger_than_the_file_is_refused(path):
    content = path.read_bytes()
    for length in (len(content) - 11, 2**31 - 1):
        path.write_bytes(content[:-8] + length.to_bytes(4, "little") + content[-4:])
        with pytest.raises(ViewFileError, match="damaged or cut short"):
            PView.open(path)


def test_foreign_files_are_refused(tmp_path):
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "other.parquet")
    (tmp_path / "text").write_text("hello, world: this is not Parquet")
    (tmp_path / "empty").write_bytes(b"")
    refused = {"other.parquet": "is a Parquet file but not a .pview", "text": "not a .pview file"}
    refused |= {"empty": "not a .pview file", "missing": "No such file", ".": "Cannot read"}
    for name, message in refused.items():
        with pytest.raises(ViewFileError, match=message):
            PView.open(tmp_path / name)
