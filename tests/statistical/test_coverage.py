"""Intervals hold as often as they say, over builds with fresh noise of a table that is not tuned for them."""

from __future__ import annotations

import numpy as np
import pytest

from hdpview.bench.coverage import one_build
from hdpview.counts.answers import exact_answers
from hdpview.query.workloads import WORKLOADS, draw, pack_boxes

TRIALS, QUESTIONS = 6, 300


Found = list[dict[str, dict[str, float]]]


@pytest.fixture(scope="module", params=["hdpview"])
def method(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def builds(method: str) -> Found:
    return [
        one_build("hospital", None, list(WORKLOADS), "1.0", QUESTIONS, 0.95, method, trial)
        for trial in range(TRIALS)
    ]


def test_guaranteed_intervals_hold_at_least_as_often_as_promised(builds: Found) -> None:
    """Per workload, over 1,800 questions. Questions of one build share noise, so a single build may miss
    many: hence the pooled bound.
    """
    for workload in WORKLOADS:
        assert np.mean([build[workload]["guaranteed_inside"] for build in builds]) >= 0.95


def test_typical_intervals_hold_about_as_often_as_they_say(builds: Found, method: str) -> None:
    """At 95 %, on data that played no part in choosing the model: 90 % per workload, and never many times the
    error wide.

    The paper's method: 94 to 99 % measured, but 90 % on cells of three-way tables: many are impossible, such
    as pregnant men, and blocks do not know.
    """
    for workload in WORKLOADS:
        held = np.mean([build[workload]["typical_inside"] for build in builds])
        assert held >= (0.82 if (method, workload) == ("hdpview", "marginal-3") else 0.90), workload
        error = np.mean([build[workload]["squared_error"] for build in builds]) ** 0.5
        assert np.mean([build[workload]["typical_width"] for build in builds]) <= 3 * 2 * 1.96 * error


def test_noise_intervals_alone_do_not_hold_in_high_dimensions(builds: Found) -> None:
    """The reason for the others: leaving out aggregation error misses most true counts."""
    assert np.mean([build["random-2d"]["noise_inside"] for build in builds]) < 0.7


def test_workloads_ask_what_they_say() -> None:
    """Ranges have the right numbers of attributes and lie within the domain; counts agree with a direct look
    at the cells.
    """
    from hdpview.bench.datasets import dataset_counts

    counts = dataset_counts("hospital", None)
    sizes, rng = np.array(counts.schema.sizes), np.random.default_rng(0)
    for workload in WORKLOADS:
        boxes = draw(workload, counts.schema.sizes, 50, rng)
        assert boxes is not None
        assert boxes.attribute.shape[1] == int(workload.split("-")[1][0])
        assert (boxes.lower >= 0).all()
        assert (boxes.lower < boxes.upper).all()
        assert (boxes.upper <= sizes[boxes.attribute]).all()
        for q, found in enumerate(exact_answers(counts, boxes.attribute, boxes.lower, boxes.upper)[:5]):
            codes = counts.exact_codes[:, boxes.attribute[q]]
            inside = ((codes >= boxes.lower[q]) & (codes < boxes.upper[q])).all(axis=1)
            assert found == counts.exact_counts[inside].sum()
        assert len(pack_boxes(boxes, counts.schema.sizes)) == 50


def test_a_workload_with_more_attributes_than_the_domain_is_left_out() -> None:
    """Four-attribute ranges of a three-attribute domain do not exist."""
    assert draw("random-4d", (3, 3, 3), 10, np.random.default_rng(0)) is None
