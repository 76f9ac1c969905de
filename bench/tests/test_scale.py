"""The arithmetic behind docs/scale.md, against brute force on small tables."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from hdpview.errors import MethodError
from hdpview.methods import Hdpview
from hdpview.partition.local import LocalEngine
from hdpview.partition.parameters import PartitionParameters
from hdpview.privacy.randomness import Randomness
from hdpview_bench.large import bytes_in
from hdpview_bench.scaling import draw_scaling
from hdpview_bench.trees import epsilon_for, random_counts, tree_rows


def test_the_random_table_loses_no_row_and_has_each_cell_once() -> None:
    """Counts add up to the rows, and no two cells are equal."""
    counts = random_counts(3000, 2, size=20)
    assert counts.exact_counts.sum() == 3000
    assert len({tuple(cell) for cell in counts.exact_codes.tolist()}) == len(counts.exact_counts)


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
    with pytest.raises(MethodError, match=r"pip install 'hdpview-bench\[peers\]'"):
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
