"""Blocks of releases as boxes: they tile the domain, and each record lies in its own."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hdpview.errors import MethodError
from hdpview.privacy.randomness import Randomness
from hdpview_bench import experiments
from hdpview_bench.contenders import contender
from hdpview_bench.datasets import dataset_counts
from hdpview_bench.leaves import leaves_of


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    rng = np.random.default_rng(3)
    codes = np.minimum(rng.exponential(2, (900, 4)), 9).astype(int) * np.array([1, 1, 0, 1]) + np.array(
        [0, 0, 1, 0]
    )
    pq.write_table(pa.table({f"V{i}": codes[:, i] for i in range(4)}), tmp_path / "phoneme.parquet")
    return tmp_path


@pytest.mark.parametrize("method", ["hdpview", "privtree", "privtree:n_cut_attributes=1"])
def test_boxes_tile_the_domain_and_hold_their_records(method, data_dir):
    counts = dataset_counts("phoneme", data_dir)
    release = contender(method).release(counts, Fraction(1), Randomness.from_test_key(b"leaves"))
    leaves = leaves_of(release)
    lower, upper = leaves.boxes()
    codes = counts.exact_codes.astype(np.int64)
    place, volume, n_leaves = leaves.locate(codes)
    assert n_leaves == len(lower) > 1
    assert (upper - lower).prod(axis=1).sum() == counts.schema.n_cells
    around = ((codes[:, None] >= lower) & (codes[:, None] < upper)).all(axis=2)
    assert (around.sum(axis=1) == 1).all()
    box = around.argmax(axis=1)
    assert (volume == (upper - lower).prod(axis=1)[box]).all()
    assert (
        len(set(zip(place.tolist(), box.tolist(), strict=True)))
        == len(set(place.tolist()))
        == len(set(box.tolist()))
    )


def test_deviations_are_those_of_the_definition(data_dir, monkeypatch):
    monkeypatch.setattr(experiments.Randomness, "fresh", lambda: Randomness.from_test_key(b"deviations"))
    found, n_empty = experiments.deviations("hdpview", "phoneme", data_dir)
    counts, leaves = experiments.one_release("hdpview", "phoneme", data_dir)
    cube = np.zeros(counts.schema.sizes)
    cube[tuple(counts.exact_codes.T)] = counts.exact_counts
    expected = []
    for low, high in zip(*leaves.boxes(), strict=True):
        block = cube[tuple(slice(a, b) for a, b in zip(low, high, strict=True))]
        expected.append(np.abs(block - block.mean()).sum() if block.any() else None)
    assert n_empty == sum(value is None for value in expected)
    assert np.sort(found) == pytest.approx(np.sort([value for value in expected if value is not None]))


def test_releases_without_blocks_are_refused(data_dir):
    counts = dataset_counts("phoneme", data_dir)
    with pytest.raises(MethodError, match="has no blocks to show"):
        leaves_of(contender("histograms").release(counts, Fraction(1), Randomness.fresh()))
