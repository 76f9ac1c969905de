"""Budgets with a δ: accounting against direct formulas, the messages of such views, and refusals."""

import dataclasses
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stored import rewrite

import hdpview as hv
from cells import noisy_view
from hdpview.errors import BudgetError, MethodError, ViewFileError
from hdpview.methods import METHODS
from hdpview.privacy.budget import exact_delta
from hdpview.privacy.noise import delta_of_one_record, gaussian_scale, rho_of
from hdpview.pview import PView
from hdpview.view.manifest import Spending

N_ATTRIBUTES = 3
WITH_DELTA = "tables with Gaussian noise"
SCHEMA = hv.Schema([hv.Integer(name=f"a{i}", min=0, max=3) for i in range(N_ATTRIBUTES)])
DELTA = Fraction(1, 10**9)
FEW = settings(max_examples=40, deadline=None)
epsilons = st.integers(-80, 20).map(lambda tenths: Fraction(10) ** (tenths // 10) * (1 + tenths % 10))
deltas = st.integers(3, 200).map(lambda digits: Fraction(1, 10**digits))


def table(n: int = 4000) -> pa.Table:
    rng = np.random.default_rng(8)
    columns = {f"a{i}": np.minimum(rng.geometric(0.5, n) - 1, 3) for i in range(N_ATTRIBUTES)}
    return pa.table({**columns, "who": rng.integers(0, n // 2, n)})


@cache
def a_view(epsilon: object = 1, delta: object = DELTA, n_cuts: int = 8) -> PView:
    epsilon, delta = Fraction(str(epsilon)), exact_delta(delta or 0)
    spending = (Spending(WITH_DELTA, epsilon / 2, 1, delta), Spending("noise on counts", epsilon / 2, 1))
    plain = noisy_view(SCHEMA, 2, n_cuts=n_cuts)
    manifest = dataclasses.replace(plain.manifest, epsilon=epsilon, delta=delta, spending=spending)
    return PView(manifest, plain.parts)


def log_delta_of(rho: float, epsilon: float) -> float:
    """The published bound on ln δ of a ρ-zCDP mechanism, by the best α of a fine grid."""
    excess = np.exp(np.linspace(-20, 60, 40_001))
    return float(
        (excess * ((1 + excess) * rho - epsilon) - (1 + excess) * np.log1p(1 / excess) - np.log(excess)).min()
    )


@FEW
@given(epsilons, deltas)
def test_rho_is_the_largest_that_the_published_bound_allows(epsilon, delta):
    rho, wanted = float(rho_of(epsilon, delta)), -math.log(delta.denominator)
    assert log_delta_of(rho, float(epsilon)) <= wanted * (
        1 - 1e-5
    )  # the grid misses the best α by a thousandth
    assert log_delta_of(rho * 1.01, float(epsilon)) > wanted
    simple = (math.sqrt(float(epsilon) - wanted) - math.sqrt(-wanted)) ** 2
    assert rho >= simple * (1 - 1e-3)


@pytest.mark.parametrize(("epsilon", "delta"), [("0.7", "1e-9"), ("0.05", "1e-6"), ("6", "1e-5")])
def test_gaussian_noise_of_that_rho_really_has_that_delta(epsilon, delta):
    """Summed over all outcomes, P exceeds e^ε times its neighbour Q by at most δ, for σ² = 1/2ρ."""
    scale = gaussian_scale(rho_of(Fraction(epsilon), Fraction(delta)))
    z = np.arange(-math.ceil(40 * scale), math.ceil(40 * scale))
    p, q = (np.exp(-((z - shift) ** 2) / (2 * scale**2)) for shift in (0, 1))
    excess = np.maximum(0.0, p - math.exp(float(epsilon)) * q).sum() / p.sum()
    assert 0.01 * float(delta) < excess <= float(delta)


@FEW
@given(st.integers(2, 200), deltas, st.integers(1, 500).map(lambda n: Fraction(n, 10)))
def test_a_chain_of_records_adds_up_to_delta_at_most(k, delta, epsilon):
    share = delta_of_one_record(delta, epsilon, k) / delta
    assert sum(math.exp(float(epsilon) * i / k) for i in range(k)) * float(share) <= 1
    assert delta_of_one_record(delta, epsilon, 1) == delta


@pytest.mark.parametrize("wrong", [-1e-9, 0.01, 1, "abc", None, True, math.nan, "1e-9999", [1]])
def test_wrong_deltas_are_refused_in_words(wrong):
    with pytest.raises(BudgetError, match="delta must be 0, or a small number such as 1e-9"):
        exact_delta(wrong)


@pytest.mark.parametrize("name", [name for name in METHODS if name != "mixture"])
def test_other_methods_refuse_a_delta(name):
    with pytest.raises(
        MethodError, match=f"The method {name} satisfies pure differential privacy .*method='mixture'"
    ):
        hv.build(table(5), SCHEMA, 1, delta=1e-9, method=name)
    if name == "hdpview":
        assert hv.build(table(5), SCHEMA, 1, delta=0, method=name).manifest.delta == 0


@pytest.mark.parametrize(
    "change",
    [
        {"delta": 0}, {"delta": "0"}, {"delta": "2"}, {"delta": "-1/1000000000"}, {"delta": 1e-9},
        {"delta": "1/1000000001"},
        {"delta": None}, {"spending": []},
    ],
)  # fmt: skip
def test_files_that_misstate_their_delta_are_refused(change, tmp_path):
    a_view().save(tmp_path / "x.pview")
    assert hv.open(tmp_path / "x.pview").manifest == a_view().manifest
    rewrite(tmp_path / "x.pview", change=lambda content: {**content, **change})
    with pytest.raises(ViewFileError, match="damaged"):
        hv.open(tmp_path / "x.pview")


def test_merged_views_cost_the_largest_delta_or_the_sum(tmp_path):
    views = [a_view(2, None), a_view(1, "1e-9", 7), a_view(1, "3e-9", 6)]
    disjoint, overlapping = hv.merge(views), hv.merge(views, overlapping=True)
    assert (disjoint.manifest.epsilon, disjoint.manifest.delta) == (2, 3 * DELTA)
    assert (overlapping.manifest.epsilon, overlapping.manifest.delta) == (4, 4 * DELTA)
    assert hv.merge(views[1:]).manifest.spending == views[2].manifest.spending
    for merged in (disjoint, overlapping):
        merged.save(tmp_path / "merged.pview")
        opened = hv.open(tmp_path / "merged.pview").manifest
        assert opened == merged.manifest
        assert [part.delta for part in opened.parts] == [0, DELTA, 3 * DELTA]


def test_whoever_reads_of_epsilon_reads_of_delta():
    view, pure = a_view(), a_view(delta=None)
    card = view.privacy_card().text
    for words in ("epsilon 1 and delta 1e-09", "plus 1e-09", WITH_DELTA, "and delta 1e-09"):
        assert words in card
    assert "Pure" not in card
    assert "epsilon 1 and delta 1e-09 (adding" in repr(view)
    assert view.info()["delta"] == 1e-9
    assert "may fail with probability 1e-09" in view.info()["risk"]
    assert "Pure" in pure.privacy_card().text
