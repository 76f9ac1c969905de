"""Intervals, comparisons and the paper's bound."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hdpview.query.compare import _fieller
from hdpview.query.intervals import error_left, typical_tail
from hdpview.query.summary import block_weights

import hdpview as hv
from hdpview.demo import hospital_schema, hospital_table
from hdpview.query.interval.paper_bound import error_bound
from hdpview.query.question.boxes import pack
from hdpview.query.question.where import boxes_of

QUESTIONS = [
    "age >= 80",
    "sex = 'Female' AND age < 20",
    "admission = 'emergency' OR smoker",
    "cost BETWEEN 1200 AND 7000",
    "age > 200",
]


@pytest.fixture(scope="module", params=["calibrated", "hdpview"])
def view(request: pytest.FixtureRequest) -> hv.PView:
    return hv.build(
        hospital_table(20_000), hospital_schema(), 1.0, method=request.param, test_key=b"intervals"
    )


@pytest.fixture(scope="module")
def papers_view() -> hv.PView:
    return hv.build(hospital_table(20_000), hospital_schema(), 1.0, method="hdpview", test_key=b"intervals")


def test_typical_lies_inside_guaranteed_and_both_hold_the_estimate(view: hv.PView) -> None:
    """lower ≤ estimate ≤ upper for every interval, and the typical one is never the wider."""
    for answer in view.count_many(QUESTIONS):
        for kind in ("typical", "guaranteed", "noise"):
            low, high = getattr(answer, kind)
            assert 0 <= low <= answer.estimate <= high
        assert answer.guaranteed.lower <= answer.typical.lower
        assert answer.typical.upper <= answer.guaranteed.upper


def test_intervals_grow_with_confidence(view: hv.PView) -> None:
    """More confidence, wider intervals, for all kinds."""
    for kind in ("typical", "guaranteed", "noise"):
        widths = []
        for confidence in (0.5, 0.8, 0.95, 0.99, 0.999):
            found = view.count("age >= 60", confidence=confidence, counts="raw", interval=kind)
            widths.append(found.upper - found.lower)
        assert widths == sorted(widths)
        assert widths[0] < widths[-1]


def test_the_interval_asked_for_is_the_one_given(view: hv.PView) -> None:
    """lower and upper are the ends of the interval named; an unknown name is refused."""
    for kind in ("typical", "guaranteed", "noise"):
        answer = view.count("age >= 60", interval=kind)
        assert (answer.lower, answer.upper) == getattr(answer, kind)
    with pytest.raises(hv.QueryError, match="'typical', 'guaranteed' or 'noise'"):
        view.count("age >= 60", interval="exact")  # type: ignore[arg-type]


def test_a_question_along_block_borders_has_no_aggregation_error(view: hv.PView) -> None:
    """For the whole table all three intervals are the noise's, but for the tails they use."""
    answer = view.count(None, counts="raw")
    assert answer.guaranteed == pytest.approx(answer.noise)
    assert answer.typical.upper - answer.estimate == pytest.approx(
        answer.noise.upper - answer.estimate, rel=0.15
    )


def test_few_and_many_questions_get_the_same_answers(view: hv.PView) -> None:
    """The NumPy path and the kernel agree on estimates and all intervals."""
    wheres = [{"age": (low, low + width)} for low in range(0, 60, 4) for width in (3, 17, 30)]
    many = view.count_many(wheres)
    for where, expected in zip(wheres, many, strict=True):
        single = view.count(where)
        for kind in ("typical", "guaranteed", "noise"):
            assert getattr(single, kind) == pytest.approx(getattr(expected, kind), rel=1e-9, abs=1e-6)


def test_error_left_extrapolates_a_multiple_of_the_spread() -> None:
    """Where the error is a fixed multiple of the spread at every level, that is exactly what is found."""
    spreads = np.array([[10.0], [25.0], [70.0], [90.0]])
    estimates = 500.0 + 0.7 * spreads
    assert error_left(estimates, spreads) == pytest.approx([7.0])


def test_error_left_without_levels_to_learn_from_is_the_spread() -> None:
    """A view of one block tells nothing of itself; the spread stands in."""
    assert error_left(np.full((5, 1), 40.0), np.full((5, 1), 12.0)) == pytest.approx([12.0])


def test_error_left_does_not_learn_from_rounding() -> None:
    """Spreads that differ in their last digits alone tell nothing, whatever the estimates do there."""
    spreads = np.full((5, 1), 12.0) * (1 + np.arange(5)[:, None] * 2e-16)
    assert error_left(np.array([[40.0], [40.0], [40.0 + 1e-13], [40.0], [40.0]]), spreads) == pytest.approx(
        [12.0]
    )


def test_typical_tail_is_that_of_students_distribution() -> None:
    """0.83 times the quantile with five degrees of freedom, against SciPy's."""
    from scipy import stats

    for confidence in (0.5, 0.8, 0.95, 0.999):
        assert typical_tail(confidence) == pytest.approx(
            0.83 * stats.t.ppf((1 + confidence) / 2, 5), rel=1e-6
        )


def test_comparing_a_count_with_itself_finds_no_difference(view: hv.PView) -> None:
    """Shared noise cancels to nothing."""
    found = view.compare("age >= 60", "age >= 60")
    assert found.difference_interval == pytest.approx((0.0, 0.0), abs=1e-6)
    assert not found.is_real


def test_a_clear_difference_is_called_real_and_a_faint_one_is_not(view: hv.PView) -> None:
    """All against few differs; two halves of a bin do not."""
    assert view.compare(None, "age > 90").is_real
    assert not view.compare("cost BETWEEN 1000 AND 1250", "cost BETWEEN 1250 AND 1500").is_real
    assert "not distinguishable" in str(
        view.compare("cost BETWEEN 1000 AND 1250", "cost BETWEEN 1250 AND 1500")
    )


def test_difference_of_overlapping_counts_is_sharper_than_of_unrelated_ones(view: hv.PView) -> None:
    """What two questions share does not blur their difference: A against A-and-a-little-less, beside the two
    widths alone.
    """
    found = view.compare("age >= 40", "age >= 42")
    apart = sum(answer.upper - answer.lower for answer in (found.first, found.second))
    assert found.difference_interval.upper - found.difference_interval.lower < apart


def test_ratio_has_infinite_reach_where_its_base_may_be_nothing(view: hv.PView) -> None:
    """Dividing by a count that cannot be told from 0 bounds nothing; a safe base does."""
    assert view.compare("age >= 40", "age > 200").ratio_interval == (0.0, math.inf)
    safe = view.compare("age >= 60", None)
    assert 0 < safe.ratio_interval.lower < safe.ratio < safe.ratio_interval.upper < 2


def test_ratios_of_large_counts_keep_their_interval() -> None:
    """Two counts of a billion, known to within a few records: Fieller's ends, as exact fractions give them,
    and not anything at all.
    """
    a, b, variances, tail = 3_000_000_019, 1_000_000_007, (40, 50, 10), 2
    found = _fieller(float(a), float(b), *map(float, variances), float(tail))
    two, one, zero = (
        b**2 - tail**2 * variances[1],
        a * b - tail**2 * variances[2],
        a**2 - tail**2 * variances[0],
    )
    with localcontext(prec=60):
        root = (Decimal(one) ** 2 - Decimal(two) * Decimal(zero)).sqrt()
        ends = [float((Decimal(one) + sign * root) / Decimal(two)) for sign in (-1, 1)]
    assert list(found) == pytest.approx(ends, rel=1e-15)
    assert found.upper - found.lower == pytest.approx(ends[1] - ends[0], rel=1e-4)


def test_two_counts_are_compared_up_to_a_stated_confidence(view: hv.PView) -> None:
    """Both guaranteed intervals together need more confidence than each: what can be had is told."""
    assert view.compare("age >= 60", None, confidence=0.9998).confidence == 0.9998
    with pytest.raises(hv.QueryError, match=r"0\.9998 at most, not 0\.9999"):
        view.compare("age >= 60", None, confidence=0.9999)


@pytest.mark.parametrize("sql", ["SELECT AVG(age) FROM view", "SELECT COUNT(*) / SUM(age) FROM view"])
def test_what_has_to_hold_at_once_is_never_less_sure_than_asked(view: hv.PView, sql: str) -> None:
    """A guaranteed mean, and an expression of two aggregates, need two intervals that are surer than the
    whole.
    """
    assert view.sql(sql, confidence=0.9998, interval="guaranteed") is not None
    with pytest.raises(hv.QueryError, match=r"0\.9998 at most, not 0\.9999"):
        view.sql(sql, confidence=0.9999, interval="guaranteed")


def test_the_papers_bound_is_its_formula_at_the_best_t(papers_view: hv.PView) -> None:
    """Against a direct evaluation on a fine grid of t: never worse, and equal to it to within the grid."""
    where, mu, xi = "age BETWEEN 30 AND 50", 0.05, 1.0
    p = papers_view.manifest.parameters
    weights = block_weights(
        papers_view.blocks.levels[0], pack([boxes_of(where, papers_view.schema)], papers_view.schema), 0
    )
    w, k = weights[weights > 0], papers_view.blocks.depth[weights > 0]
    epsilon, scale = p["epsilon_counts"], p["converge_noise_scale"]
    fixed = (xi * w * (k * p["converge_bias_per_level"] + p["converge_threshold"])).sum()
    ends = epsilon / w.max(), min(epsilon / w.max(), 1 / (xi * w.max() * scale))
    low, high = [], []
    for step in np.linspace(1e-4, 1 - 1e-9, 20_000):
        t = step * ends[0]
        low.append((math.log(mu) + np.log1p(-((w / epsilon * t) ** 2)).sum()) / t)
        t = step * ends[1]
        high.append(
            fixed
            - (
                math.log(mu)
                + np.log1p(-((w / epsilon * t) ** 2)).sum()
                + np.log1p(-((xi * w * scale * t) ** 2)).sum()
            )
            / t
        )
    least, most = error_bound(papers_view, where, mu, xi)
    assert least >= max(low) - 1e-6
    assert least == pytest.approx(max(low), rel=1e-3)
    assert most <= min(high) + 1e-6
    assert most == pytest.approx(min(high), rel=1e-3)


def test_the_papers_bound_refuses_what_it_has_no_meaning_for(papers_view: hv.PView) -> None:
    """μ outside (0, 1) and ξ not above 0 are refused; a question that touches nothing has no error."""
    for arguments in ({"mu": 0.0}, {"mu": 1.0}, {"xi": 0.0}, {"xi": math.inf}):
        with pytest.raises(hv.QueryError):
            papers_view.error_bound("age > 3", **arguments)
    assert papers_view.error_bound("age > 200") == (0.0, 0.0)
