"""Mistakes in a schema that released histograms reveal, and those that they do not."""

import numpy as np
import pytest

from hdpview.domain import Attribute, Boolean, Category, Integer, Real, Schema
from hdpview.view.diagnosis import Finding, Histogram, diagnose, in_brief


def findings(attribute: Attribute, counts: list[float], half_width: float = 10.0) -> list[str]:
    histogram = Histogram(np.array(counts, float), np.full(len(counts), half_width))
    return [finding.kind for finding in diagnose(Schema([attribute]), lambda _: histogram)]


ten = Integer(name="x", min=0, max=9)
nullable = Integer(name="x", min=0, max=9, nullable=True)
above = Integer(name="x", min=10, max=19, nullable=True)


@pytest.mark.parametrize(
    ("attribute", "counts", "kinds"),
    [
        (ten, [1000, *[0] * 9], ["missing"]),
        (nullable, [*[2] * 10, 990], ["missing"]),
        (ten, [100] * 10, []),
        (nullable, [*[100] * 9, 900, 0], ["bound"]),
        (above, [900, *[100] * 9, 0], ["bound"]),
        # many zeros, as amounts have them, and a column that hardly varies
        (nullable, [900, *[100] * 9, 0], []),
        (above, [9900, 30, *[10] * 8, 0], []),
        (nullable, [1000, 1000, 800, 600, 400, 200, 100, 60, 30, 120, 0], ["bound"]),
        (nullable, [300, 280, 260, 200, 150, 100, 80, 60, 50, 40, 0], []),
        # few records beyond the bound, in a bin that towers above its neighbours
        (nullable, [30_000, 20_000, 9_000, 4_000, 900, 300, 60, 20, 5, 250, 0], ["bound"]),
        # a heap at the last bin above empty ones: the bound is too tight, and not too wide
        (nullable, [900, 300, 2, 0, 1, -3, 0, 2, 1, 120, 0], ["bound"]),
        (Integer(name="x", explicit_edges=(0, 5, 10, 100), nullable=True), [300, 100, 600, 0], []),
        (nullable, [*[400, 300, 250, 200], *[3, -2, 0, 4, 1, -5], 0], ["empty"]),
        (nullable, [*[0, 2, 1, -3, 0, 4], *[400, 300, 250, 200], 0], ["empty"]),
        (Category(name="x", values=("a", "b"), other="o"), [200, 100, 700], ["other"]),
        (Category(name="x", values=("a", "b"), other="o", nullable=True), [200, 100, 700, 0], ["other"]),
        (Category(name="x", values=("a", "b"), other="o", nullable=True), [500, 400, 100, 0], []),
        (Category(name="x", values=tuple("abcdefgh")), [500, 400, 3, 2, 0, -4, 9, 1], ["empty"]),
        (Boolean(name="x", nullable=True), [500, 3, 0], []),
        (Boolean(name="x"), [990, 10], ["missing"]),
        (Real(name="x", min=0, max=1, bins=1), [1000], []),
    ],
)  # fmt: skip
def test_each_mistake_is_found_and_nothing_else(attribute, counts, kinds):
    assert findings(attribute, counts) == kinds


@pytest.mark.parametrize(
    ("attribute", "counts", "half_width"),
    [
        (nullable, [*[2] * 10, 990], 900),
        (Category(name="x", values=("a", "b"), other="o", nullable=True), [200, 100, 700, 0], 600),
        (nullable, [400, 300, 250, 200, 3, -2, 0, 4, 1, -5, 0], 60),
        (ten, [0] * 10, 10),
    ],
)
def test_nothing_is_said_of_what_noise_can_explain(attribute, counts, half_width):
    assert findings(attribute, counts, half_width) == []


def test_sentences_name_the_attribute_the_share_and_the_way_out():
    histogram = Histogram(np.array([10.0, 20, 600]), np.ones(3))
    (finding,) = diagnose(
        Schema([Category(name="specialty", values=("a", "b"), other="other", missing="a")]),
        lambda _: histogram,
    )
    assert str(finding).startswith("specialty: 95% of records are 'other'. Frequent values are undeclared")


def test_many_findings_of_a_kind_are_told_in_brief():
    findings = [Finding(f"a{i}", "bound", "too tight.") for i in range(20)]
    told = in_brief([*findings, Finding("b", "other", "much is not declared.")])
    assert told[:3] == ["a0: too tight.", "a1: too tight.", "a2: too tight."]
    assert told[3].startswith("17 more attributes have this problem: a3, a4, ")
    assert told[3].endswith(", a14, …")
    assert told[4:] == ["b: much is not declared."]
    assert in_brief(findings[:3]) == [str(each) for each in findings[:3]]
