"""Peers: their budget, their time limit, their results, and the message if they are missing."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize

from hdpview.counts.sparse import SparseCounts
from hdpview.domain import Integer, Schema
from hdpview.errors import MethodError
from hdpview_bench import peers
from hdpview_bench.peer_process import drawn_given, zcdp_budget
from hdpview_bench.peers import _PROGRAM


def some_counts() -> SparseCounts:
    schema = Schema([Integer(name="a", min=0, max=4), Integer(name="b", min=0, max=3)])
    cells = np.array([[0, 0], [1, 3], [4, 2]], dtype=np.uint8)
    return SparseCounts(schema, cells, np.array([300, 200, 500], dtype=np.int64))


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-9), (0.1, 1e-6), (5.0, 1e-12)])
def test_the_budget_in_rho_is_the_largest_allowed(epsilon, delta):
    rho = zcdp_budget(epsilon, delta)
    assert least_delta(rho, epsilon) == pytest.approx(delta, rel=1e-4)
    assert least_delta(1.01 * rho, epsilon) > delta


def stand_in(tmp_path: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "stand_in.py"
    program.write_text("import sys\nimport numpy as np\n" + body)
    monkeypatch.setattr(peers, "_PROGRAM", program)
    monkeypatch.setenv("HDPVIEW_PEERS_PYTHON", sys.executable)


def test_records_go_out_and_synthetic_ones_come_back(tmp_path, monkeypatch):
    body = (
        "given = np.load(sys.argv[1])\nassert given['codes'].shape == (1000, 2) and str(given['name']) "
        "== 'mst'\n"
        "assert given['sizes'].tolist() == [5, 4] and given['epsilon'] == 2.0 and given['delta'] == 1e-9\n"
        "np.savez(sys.argv[2], codes=given['codes'].T[:, ::2], weight=2.0)\n"
    )
    stand_in(tmp_path, body, monkeypatch)
    release = peers.peer_release("mst", some_counts(), 2.0)
    assert release.marginal([1]).tolist() == [300, 0, 500, 200]


def test_time_limits_failures_and_absence_are_told_in_words(tmp_path, monkeypatch):
    def told(name: str, words: str, seconds: float = 60.0) -> str:
        with pytest.raises(MethodError, match=words) as caught:
            peers.peer_release(name, some_counts(), 1.0, seconds=seconds)
        return str(caught.value)

    stand_in(tmp_path, "import time\ntime.sleep(600)\n", monkeypatch)
    told("aim", r"aim \(δ = 1e-09\) did not finish within 0\.5 seconds", seconds=0.1)
    stand_in(tmp_path, "raise SystemExit('300 records')\n", monkeypatch)
    assert "300" not in told("aim", "failed with exit code 1")
    limit = (
        f"import runpy\nrunpy.run_path({str(_PROGRAM)!r})['_limit_computing'](1.0)\nwhile True:\n    pass\n"
    )
    stand_in(tmp_path, limit, monkeypatch)
    told("mst", "needed more computing time than the limit allows")
    monkeypatch.delenv("HDPVIEW_PEERS_PYTHON")
    monkeypatch.setattr(peers, "find_spec", lambda name: None)
    told("aim", r"aim \(δ = 1e-09\): .* pip install 'hdpview-bench\[peers\]'.* HDPVIEW_PEERS_PYTHON")
    told("dpmm-aim", r"dpmm-aim \(δ = 1e-09\): .* pip install dpmm .* HDPVIEW_DPMM_PYTHON")
    told("mts", "Did you mean 'mst'")


def test_records_are_drawn_as_the_tables_say_and_tied_to_nothing_else():
    rng = np.random.default_rng(4)
    n, table = 60_000, rng.random((3, 2, 5)) * [1, 1, 0, 1, 5]
    parents = [rng.integers(0, 3, n), rng.integers(0, 2, n)]
    children = [drawn_given(parents, table, n, rng) for _ in range(2)]
    for a, b in np.ndindex(3, 2):
        of_group = (parents[0] == a) & (parents[1] == b)
        expected = table[a, b] / table[a, b].sum() * of_group.sum()
        together = np.zeros((5, 5))
        np.add.at(together, (children[0][of_group], children[1][of_group]), 1)
        assert np.abs(together.sum(axis=1) - expected).max() <= 1
        assert np.abs(together.sum(axis=0) - expected).max() <= 1
        product = np.outer(expected, expected) / of_group.sum()
        assert (np.abs(together - product) <= 6 * np.sqrt(product) + 1).all()
    (alone,) = np.bincount(drawn_given([], np.array([1.0, 3.0]), 1000, rng))[1:]
    assert abs(alone - 750) <= 1


@pytest.mark.parametrize("name", ["mst", "dpmm-mst", "dpmm-aim"])
def test_peers_themselves_find_what_is_there(name):
    if peers.package_of(name).interpreter() is None:
        pytest.skip(peers.package_of(name).how_to_install)
    schema = Schema([*some_counts().schema.attributes, Integer(name="c", min=7, max=7)])
    cells = np.hstack([some_counts().exact_codes, np.zeros((3, 1), dtype=np.uint8)])
    release = peers.peer_release(name, SparseCounts(schema, cells, some_counts().exact_counts), 50.0, 1e-6)
    expected = np.zeros((5, 4, 1))
    expected[0, 0], expected[1, 3], expected[4, 2] = 300, 200, 500
    np.testing.assert_allclose(release.marginal([0, 1, 2]), expected, atol=50)


def least_delta(rho, epsilon):
    """By SciPy, over all orders."""

    def log_delta(log_order):
        alpha = 1 + math.exp(log_order)
        return (alpha - 1) * (alpha * rho - epsilon) + alpha * math.log1p(-1 / alpha) - math.log(alpha - 1)

    found = optimize.minimize_scalar(log_delta, bounds=(-5, 15), method="bounded", options={"xatol": 1e-10})
    return math.exp(found.fun)
