"""The arithmetic behind docs/scale.md, against brute force on small tables."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from hdpview.bench.exchange import Cluster, Constants, cluster_row, message_bytes, plan, simulate
from hdpview.bench.large import bytes_in
from hdpview.bench.scaling import draw_scaling
from hdpview.bench.stages import stage_rows, tree_of
from hdpview.bench.trees import epsilon_for, random_counts, tree_rows
from hdpview.engine.local import LocalEngine
from hdpview.errors import MethodError
from hdpview.methods import Hdpview
from hdpview.partition.parameters import PartitionParameters
from hdpview.privacy.randomness import Randomness


def test_the_random_table_loses_no_row_and_has_each_cell_once() -> None:
    """Counts add up to the rows, and no two cells are equal."""
    counts = random_counts(3000, 2, size=20)
    assert counts.exact_counts.sum() == 3000
    assert len({tuple(cell) for cell in counts.exact_codes.tolist()}) == len(counts.exact_counts)


@pytest.mark.parametrize("n_partitions", [1, 3, 8])
def test_histograms_added_over_partitions_cut_as_the_whole_table_would(n_partitions: int) -> None:
    """Blocks at the end have the rows that halving the whole table at its medians gives, for any number of
    partitions.
    """
    counts = random_counts(2000, 3, size=16)
    _, finished = simulate(counts, n_partitions, rows_per_machine=300)
    expected: list[int] = []
    work = [(counts.exact_codes, 0)]
    while work:
        rows, level = work.pop(0)
        a = level % 3
        values = np.sort(rows[:, a])
        cut = int(values[int(np.ceil(len(values) / 2)) - 1]) + 1 if len(values) else 0
        if len(rows) <= 300 or cut >= 16:
            expected.append(len(rows))
        else:
            work += [(rows[rows[:, a] < cut], level + 1), (rows[rows[:, a] >= cut], level + 1)]
    assert sorted(finished.tolist()) == sorted(expected)
    assert finished.sum() == len(counts.exact_counts)


def test_bytes_of_an_exchange_are_those_of_the_arrays_sent() -> None:
    """Per level, what came in is senders × blocks × (2 + 2 per value) whole numbers of 8 bytes; the plan says
    the same before.
    """
    counts = random_counts(4096, 2, size=64)
    levels, _ = simulate(counts, n_partitions=4, rows_per_machine=600)
    for level in levels:
        assert (
            level.bytes_in
            == 4 * message_bytes(level.blocks, (64, 64))
            == 4 * level.blocks * (2 + 2 * 128) * 8
        )
    planned = plan(4096, (64, 64), senders=4, rows_per_machine=600)
    assert [level.blocks for level in planned] == [1, 2, 4]
    assert [level.bytes_in for level in planned] == [level.bytes_in for level in levels[:3]]


def test_a_cluster_on_paper_follows_from_its_constants() -> None:
    """Worked out by hand: 2³⁰ rows on 4 machines of 2 cores, 16 blocks to grow, so 4 exchanges."""
    row = cluster_row(
        2**30,
        Cluster(4, cores=2, bytes_per_second=1e9),
        Constants(100.0, 1.0, 10.0, 1.0, 2**20),
        n_attributes=2,
        size=5,
    )
    assert row["exchanges"] == 4
    assert row["driver_in_mb"] == round(4 * (1 + 2 + 4 + 8) * (2 + 20) * 8 / 1e6)
    assert row["read_s"] == round(2**30 * 100e-9 / 8)
    assert row["levels_per_row"] == 20.0
    assert row["grow_s"] == round(2**30 * 2 * (20 - 4) * 1e-9 / 8)
    assert row["shuffle_s"] == round(2 * 2**30 * 10 / 4 / 1e9)


def test_a_tree_is_found_again_from_its_leaves() -> None:
    """Nodes come out depth-first: each cut's halves are its bounds cut there, and the leaves are those that
    were given.
    """
    counts = random_counts(3000, 3, size=30)
    parameters = PartitionParameters.choose(Hdpview(), Fraction(1), counts.schema.n_cells)
    leaves = LocalEngine(1).grow(counts, parameters, Randomness.from_test_key(b"tree").root_key("partition"))
    nodes = tree_of(leaves)
    ends = nodes.attribute < 0
    assert nodes.lower[ends].tolist() == leaves.lower.tolist()
    assert nodes.upper[ends].tolist() == leaves.upper.tolist()
    expected = [([0, 0, 0], [30, 30, 30], 1)]
    for a, cut, lower, upper, depth in zip(*(array.tolist() for array in nodes), strict=True):
        assert expected.pop() == (lower, upper, depth)
        if a >= 0:
            left, right = list(upper), list(lower)
            left[a] = right[a] = cut
            expected += [(right, upper, depth + 1), (lower, left, depth + 1)]
    assert not expected


def test_every_stage_of_a_build_is_timed() -> None:
    """Shares of the stages add up to the whole, and all seven are there."""
    rows = stage_rows(20_000, n_attributes=3, trials=1)
    assert len(rows) == 7
    assert sum(int(row["share"].rstrip("%")) for row in rows) == pytest.approx(100, abs=4)


def test_spilled_bytes_are_what_the_disk_holds(tmp_path: Path) -> None:
    """Two files of 8 kB take at least that, in folders of any depth."""
    (tmp_path / "a").mkdir()
    for path in (tmp_path / "x", tmp_path / "a" / "y"):
        path.write_bytes(bytes(8192))
    files = sum(path.stat().st_blocks * 512 for path in (tmp_path / "x", tmp_path / "a" / "y"))
    assert bytes_in(tmp_path) == files + (tmp_path / "a").stat().st_blocks * 512
    assert files >= 2 * 8192


def test_a_missing_peer_is_named_with_the_way_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without LightGBM the comparison says what to install."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MethodError, match=r"pip install 'hdpview\[peers\]'"):
        next(tree_rows(1000))


def test_a_budget_is_found_for_a_number_of_leaves() -> None:
    """The budget found makes about as many blocks as wanted: a fresh growth at it is within a third."""
    counts = random_counts(20_000, 6)
    epsilon, found = epsilon_for(counts, 500)
    assert 0 < epsilon < Fraction("2.7")
    parameters = PartitionParameters.choose(Hdpview(), epsilon, counts.schema.n_cells)
    again = len(
        LocalEngine(1).grow(counts, parameters, Randomness.from_test_key(b"again").root_key("partition"))
    )
    assert 2 / 3 < found / 500 < 3 / 2
    assert 2 / 3 < again / 500 < 3 / 2


def test_the_picture_of_scaling_is_a_whole_svg(tmp_path: Path) -> None:
    """Every measurement is a point in it."""
    rows = [
        {"changing": "rows", "cell_attribute_levels": 10.0**k, "cpu_s": 2e-9 * 10**k} for k in range(6, 9)
    ]
    draw_scaling(rows, tmp_path / "scaling.svg")
    drawn = (tmp_path / "scaling.svg").read_text(encoding="utf-8")
    assert drawn.startswith("<svg")
    assert drawn.rstrip().endswith("</svg>")
    assert drawn.count('aria-roledescription="point"') == 3
    assert "2.00 ns" in drawn
