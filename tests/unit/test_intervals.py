"""Intervals, comparisons and the paper's bound."""

import math
import os
import subprocess
import sys
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

import hdpview as hv
from cells import mixture_view
from hdpview.demo import hospital_schema, hospital_table
from hdpview.query.bounds.paper import error_bound
from hdpview.query.errors.closed import covariances
from hdpview.query.errors.ends import typical_tail
from hdpview.query.evaluate import run
from hdpview.query.interval.statistics import value_shares
from hdpview.query.question.quantities import Part, Values, count_of
from hdpview.query.question.where import boxes_of

QUESTIONS = [
    "age >= 80", "sex = 'Female' AND age < 20", "admission = 'emergency' OR smoker",
    "cost BETWEEN 1200 AND 7000", "age > 200",
]  # fmt: skip


@pytest.fixture(scope="module")
def papers_view() -> hv.PView:
    return hv.build(
        hospital_table()[:20_000], hospital_schema(), 1.0, method="hdpview", test_key=b"intervals"
    )


@pytest.fixture(scope="module", params=["blocks", "mixture"])
def view(request: pytest.FixtureRequest, papers_view: hv.PView) -> hv.PView:
    return papers_view if request.param == "blocks" else mixture_view(hospital_schema(), 3)


def test_shares_and_their_differences_stay_within_what_is_possible(view):
    share = "COUNT(*) FILTER (WHERE smoker) / COUNT(*)"
    other = "COUNT(*) FILTER (WHERE smoker AND sex = 'Male') / COUNT(*) FILTER (WHERE sex = 'Male')"
    ratio = "COUNT(*) / COUNT(*) FILTER (WHERE smoker)"
    table = view.sql(
        f"SELECT age, {share} AS s, 100 * ({share}) AS p, 100.0 * {share} AS q, {share} - {other} AS d, "
        f"{ratio} AS r FROM view WHERE admission = 'emergency' AND age > 90 GROUP BY age",
        as_="pyarrow",
    )
    limits = {"s": (0, 1), "p": (0, 100), "q": (0, 100), "d": (-1, 1)}
    for name, (least, greatest) in limits.items():
        low, high = (np.array(table[f"{name}{end}"].to_pylist(), float) for end in ("_lower", "_upper"))
        assert np.nanmin(low, initial=greatest) >= least, name
        assert np.nanmax(high, initial=least) <= greatest, name
    assert np.nanmax(np.array(table["r_upper"].to_pylist(), float)) > 1


def test_a_question_along_block_borders_has_no_aggregation_error(papers_view):
    """For the whole table all three intervals are the noise's, but for the tails they use: guaranteed ones
    use a fiftieth of the chance to fail."""
    answer, surer = (papers_view.count(None, counts="raw", confidence=level) for level in (0.95, 0.999))
    assert tuple(answer.guaranteed) == pytest.approx(tuple(surer.noise))
    typical, noise = (each.upper - answer.estimate for each in (answer.typical, answer.noise))
    assert typical == pytest.approx(noise, rel=0.25)


def test_differences_are_as_sure_as_what_two_counts_do_not_share(view, papers_view):
    """All records against few differ clearly, two halves of a bin do not. Shared noise cancels."""
    assert view.compare(None, "age > 90").is_real
    halves = papers_view.compare("cost BETWEEN 1000 AND 1250", "cost BETWEEN 1250 AND 1500")
    assert not halves.is_real
    assert "not distinguishable" in str(halves)
    itself = view.compare("age >= 60", "age >= 60")
    assert itself.difference_interval == pytest.approx((0.0, 0.0), abs=1e-3)
    assert not itself.is_real
    nearly = view.compare("age >= 40", "age >= 42")
    apart = sum(answer.upper - answer.lower for answer in (nearly.first, nearly.second))
    assert nearly.difference_interval.upper - nearly.difference_interval.lower < apart


@pytest.mark.parametrize(
    "halves", [("dose < 1.5", "dose >= 1.5"), ("dose BETWEEN 1 AND 1.4999", "dose >= 1.5 AND dose < 2")]
)
def test_nothing_is_known_inside_a_bin(halves):
    """Halves of a bin may hold all or none of its records: neither their difference nor one of them is a
    fact."""
    schema = hv.Schema([hv.Real(name="dose", min=0.0, max=4.0, bins=4)])
    sharp = mixture_view(schema, 1)
    whole, one = sharp.count("dose >= 1 AND dose < 2"), sharp.count(f"dose >= 1 AND dose < 2 AND {halves[0]}")
    assert one.guaranteed.lower == 0
    assert one.guaranteed.upper >= whole.estimate
    assert one.upper - one.lower > 0.9 * whole.estimate
    assert (whole.basis, one.basis) == ("measured", "model")
    inside = [f"dose >= 1 AND dose < 2 AND {half}" for half in halves]
    assert not sharp.compare(*inside).is_real
    assert not sharp.compare(*reversed(inside)).is_real


def test_typical_tail_is_that_of_students_distribution():
    """The quantile with seven degrees of freedom, against SciPy's."""
    from scipy import stats

    for confidence in (0.5, 0.8, 0.95, 0.999):
        assert typical_tail(confidence) == pytest.approx(stats.t.ppf((1 + confidence) / 2, 7), rel=1e-6)


def test_the_only_possible_value_has_a_share_of_exactly_one(view):
    for where in ("sex = 'Female' AND age < 20", "sex = 'Male' AND smoker AND cost < 7000"):
        ends = np.stack(value_shares(view, "sex", where))
        assert set(ends.reshape(-1).tolist()) == {0.0, 1.0}
        assert (ends == ends[0]).all()


def test_comparisons_take_what_counts_take(view):
    for counts, interval in product(("consistent", "raw"), ("typical", "guaranteed", "noise")):
        comparison = view.compare("age >= 40", "age < 60", counts=counts, interval=interval)
        alone = view.count("age >= 40", counts=counts, interval=interval)
        ours = comparison.first.lower, comparison.first.upper
        assert ours == pytest.approx((alone.lower, alone.upper))
        for value, (low, high) in (
            (comparison.difference, comparison.difference_interval),
            (comparison.ratio, comparison.ratio_interval),
        ):
            assert low <= value <= high
        assert "typical" in str(comparison)


def test_ratio_has_infinite_reach_where_its_base_may_be_nothing(view):
    assert view.compare("age >= 40", "age > 200").ratio_interval == (0.0, math.inf)
    safe = view.compare("age >= 60", None)
    assert 0 < safe.ratio_interval.lower < safe.ratio < safe.ratio_interval.upper < 2


def test_the_papers_bound_is_its_formula_at_the_best_t(papers_view):
    """Against a direct evaluation on a fine grid of t: never worse, and equal to it to within the grid."""
    where, mu, xi, p = "age BETWEEN 30 AND 50", 0.05, 1.0, papers_view.manifest.parameters
    schema, blocks = papers_view.schema, papers_view.blocks
    low_age, high_age = np.searchsorted(schema["age"].edges, (30, 50), side="right") - 1
    asked = np.arange(schema["age"].size)
    inside = ((asked >= low_age) & (asked <= high_age))[None].astype(float)
    weights = blocks.factors(schema.index("age"), inside)[0]
    w, k = weights[weights > 0], blocks.depth[weights > 0]
    epsilon, scale = p["epsilon_counts"], p["converge_noise_scale"]
    fixed = (xi * w * (k * p["converge_bias_per_level"] + p["converge_threshold"])).sum()
    most_t = epsilon / w.max(), min(epsilon / w.max(), 1 / (xi * w.max() * scale))

    def log_noise(rates, t):
        return np.log1p(-((np.outer(t, rates)) ** 2)).sum(axis=1)

    low_t, high_t = (np.linspace(1e-4, 1 - 1e-9, 20_000) * most for most in most_t)
    low = ((math.log(mu) + log_noise(w / epsilon, low_t)) / low_t).max()
    both = math.log(mu) + log_noise(w / epsilon, high_t) + log_noise(xi * w * scale, high_t)
    high = (fixed - both / high_t).min()
    least, most = error_bound(papers_view, where, mu, xi)
    assert low - 1e-6 <= least == pytest.approx(low, rel=1e-3)
    assert high + 1e-6 >= most == pytest.approx(high, rel=1e-3)


def test_the_papers_bound_refuses_what_it_has_no_meaning_for(papers_view):
    for arguments in ({"mu": 0.0}, {"mu": 1.0}, {"xi": 0.0}, {"xi": math.inf}):
        with pytest.raises(hv.QueryError):
            papers_view.error_bound("age > 3", **arguments)
    assert papers_view.error_bound("age > 200") == (0.0, 0.0)


def test_estimates_alone_are_those_that_come_with_intervals(view):
    """A statement whose intervals nobody looks at has no ends; what uses ends has them."""
    columns = (
        "sex, COUNT(*) AS n, AVG(cost) AS cost, MEDIAN(age) AS age, SUM(stay_days) / COUNT(*) AS stay, "
        "COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS share"
    )
    rest = "FROM view WHERE age > 40 GROUP BY sex HAVING COUNT(*) > 1 ORDER BY n"
    with_low = f"SELECT {columns}, DP_INTERVAL_LOW(COUNT(*)) AS low {rest}"
    full = run(view, with_low).to_rows()
    assert run(view, with_low, with_intervals=False).to_rows() == full
    alone = run(view, f"SELECT {columns} {rest}", with_intervals=False).to_rows()
    for row, expected in zip(alone, full, strict=True):
        assert [*row] == ["sex", "n", "cost", "age", "stay", "share"]
        assert [*row.values()][1:] == pytest.approx([expected[name] for name in [*row][1:]])


@pytest.mark.parametrize(
    ("expression", "factor"),
    [("AVG(systolic_bp)", 1), ("AVG(2 * systolic_bp)", 2), ("AVG(-systolic_bp)", -1)],
)
def test_means_stay_within_the_schemas_bounds_where_values_may_be_missing(view, expression, factor):
    """Where too few records are known to be there, anything between the bounds is possible, and nothing else:
    a missing value is not a 0."""
    attribute = view.schema["systolic_bp"]
    ends = sorted((factor * attribute.edges[0], factor * attribute.edges[-1]))
    where = "age = 95 AND stay_days = 59 AND cost > 40000"
    (row,) = run(view, f"SELECT {expression} AS x FROM view WHERE {where}").to_rows()
    assert ends[0] <= row["x_lower"] < row["x_upper"] <= ends[1]


def test_arithmetic_of_a_quantile_keeps_both_sides_of_its_interval(view):
    """A median near one end of its interval stays there in expressions of it; what lies between the ends
    counts."""
    m = "MEDIAN(age)"
    columns = f"{m} AS x, {m} / 2.0 AS half, 10 - {m} AS less, {m} + COUNT(*) AS more"
    (row,) = run(view, f"SELECT {columns} FROM view WHERE smoker").to_rows()
    low, high = row["x_lower"], row["x_upper"]
    assert [row["half_lower"], row["half_upper"]] == pytest.approx([low / 2, high / 2])
    assert [row["less_lower"], row["less_upper"]] == pytest.approx([10 - high, 10 - low])
    assert row["more_lower"] < row["more"] - (row["x"] - low)
    assert row["more_upper"] > row["more"] + (high - row["x"])


def test_answers_do_not_depend_on_the_order_of_sets(tmp_path):
    """Draws follow the text of the statement, in every process."""
    mixture_view(hospital_schema(), 3).save(tmp_path / "v.pview")
    program = "import sys, hdpview\nprint(hdpview.open(sys.argv[1]).correlation('age', 'cost'))"
    command = [sys.executable, "-c", program, str(tmp_path / "v.pview")]
    environments = [{**os.environ, "PYTHONHASHSEED": seed} for seed in "123"]
    assert len({subprocess.check_output(command, env=each) for each in environments}) == 1


def test_errors_of_quantities_that_may_be_negative_do_not_depend_on_their_sign():
    """Records up to a value, less half of all, err as much as the rest of all less half."""
    view = mixture_view(hospital_schema(), 3)
    a = view.schema.names.index("age")
    codes = np.arange(view.schema.sizes[a])
    steps = np.where(codes <= codes[:, None], 0.5, -0.5)
    for where in QUESTIONS[1:4]:
        boxes = boxes_of(where, view.schema)
        counts = [count_of(boxes)] * len(steps)
        sides = [
            [[Part(box, (Values(a, own, own, own),)) for box in boxes] for own in sign * steps]
            for sign in (1, -1)
        ]
        one, other = (covariances(view, [side, counts])[1][0, 0] for side in sides)
        assert one == pytest.approx(other)


def test_intervals_reach_over_what_cells_allow_where_expressions_tie_attributes():
    """The view knows cells of many values; what a difference or a product depends on lies inside them."""
    rng = np.random.default_rng(5)
    start = rng.integers(0, 300, 4_000)
    end, other = start + 3 + rng.poisson(2, 4_000), rng.integers(0, 300, 4_000)
    names = ("start", "finish", "other")
    schema = hv.Schema([hv.Integer(name=name, min=0, max=330) for name in names])
    table = pa.table(dict(zip(names, (start, end, other), strict=True)))
    view = hv.build(table, schema, 1.0, test_key=b"ties of attributes inside cells!", ledger=False)
    (late,) = run(view, "SELECT COUNT(*) AS n FROM view WHERE finish - start > 12").to_rows()
    assert late["n_lower"] <= np.count_nonzero(end - start > 12) <= late["n_upper"]
    (tie,) = run(view, "SELECT CORR(start, finish) AS c, CORR(start, other) AS none FROM view").to_rows()
    assert tie["c_lower"] <= np.corrcoef(start, end)[0, 1] <= tie["c_upper"]
    assert tie["none_upper"] - tie["none_lower"] < 0.5


@pytest.mark.parametrize("where", ["hours >= 40", "hours < 40", "bonus > 0", "bonus <= 0"])
def test_intervals_cover_a_bin_whose_records_all_lie_at_the_bounds(where: str) -> None:
    """Most work the most hours that the schema allows, and many get no bonus."""
    rng = np.random.default_rng(6)
    hours, bonus = rng.choice([40, 38, 22], 4_000, p=[0.7, 0.15, 0.15]), rng.choice([0, 40, 900], 4_000)
    reals = [hv.Real(name=name, min=0, max=most, bins=8) for name, most in (("hours", 40), ("bonus", 4_000))]
    schema = hv.Schema([*reals, hv.Boolean(name="sick")])
    table = pa.table({"hours": hours, "bonus": bonus, "sick": rng.random(4_000) < 0.1})
    view = hv.build(table, schema, 1.0, test_key=b"records at the bounds of bins!!!", ledger=False)
    truth = {"hours >= 40": hours >= 40, "hours < 40": hours < 40, "bonus > 0": bonus > 0}
    share = truth.get(where, bonus <= 0).mean()
    count = view.count(where)
    assert count.lower <= 4_000 * share <= count.upper <= 4_100
    assert view.rate(where).lower <= share <= view.rate(where).upper
    low, high = view.compare(where, f"NOT ({where})").difference_interval
    assert low <= 4_000 * (2 * share - 1) <= high
    (row,) = run(view, f"SELECT AVG(({where})::INT) AS r FROM view WHERE NOT sick").to_rows()
    assert row["r_lower"] <= share <= row["r_upper"]
