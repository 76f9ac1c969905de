"""Statistical tests that can fail: each states its false-alarm rate, and rejects what is 5% off."""

import math
from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

FALSE_ALARM = 1e-6  # per test: a right implementation fails one run in a million
Floats = NDArray[np.float64]


def laplace_probability(z: NDArray[np.int64], scale: float) -> Floats:
    """P(z) ∝ exp(−|z|/scale) on whole numbers."""
    q = math.exp(-1 / scale)
    return (1 - q) / (1 + q) * q ** np.abs(z)


def laplace_scale_is_rejected(sample: NDArray[np.int64], scale: float) -> bool:
    """A two-sided z-test of the mean of |z| with its exact variance under discrete Laplace noise of this
    scale.

    The standard deviation of |z| is about its mean, so n draws tell scales 5% apart by 0.05·√n standard
    errors."""
    q = math.exp(-1 / scale)
    mean = 2 * q / (1 - q * q)
    variance = 2 * q / (1 - q) ** 2 - mean**2
    return _is_far(np.abs(sample).mean() - mean, math.sqrt(variance / len(sample)))


def laplace_shape_is_rejected(sample: NDArray[np.int64], scale: float) -> bool:
    """A chi-square test of the whole distribution, over runs of neighbouring values that are expected at
    least 50 times each."""
    q = math.exp(-1 / scale)

    def at_most(z: int) -> float:
        return 1 - q ** (z + 1) / (1 + q) if z >= 0 else q ** (-z) / (1 + q)

    ends, covered = [], 0.0
    for z in range(int(-50 * scale) - 50, int(50 * scale) + 50):
        if (at_most(z) - covered) * len(sample) >= 50 and (1 - at_most(z)) * len(sample) >= 50:
            ends.append(z)
            covered = at_most(z)
    probabilities = np.diff([0.0, *map(at_most, ends), 1.0])
    observed = np.bincount(np.searchsorted(ends, sample, side="left"), minlength=len(ends) + 1)
    return frequencies_are_rejected(observed, probabilities)


def frequencies_are_rejected(observed: NDArray[np.int64], probabilities: Floats) -> bool:
    """A chi-square test of counts against probabilities. Every outcome must be expected at least 20 times."""
    expected = observed.sum() * probabilities
    assert expected.min() >= 20, "too few draws for a chi-square test"
    assert abs(probabilities.sum() - 1) < 1e-9
    statistic = ((observed - expected) ** 2 / expected).sum()
    return bool(stats.chi2.sf(statistic, len(observed) - 1) < FALSE_ALARM)


def mean_score_is_rejected(observed: NDArray[np.int64], probabilities: Floats, scores: Floats) -> bool:
    """A z-test of the mean score of the outcomes: for exponential families it is the sharpest test of their
    parameter."""
    mean = (probabilities * scores).sum()
    variance = (probabilities * (scores - mean) ** 2).sum()
    n = observed.sum()
    return _is_far((observed * scores).sum() / n - mean, math.sqrt(variance / n))


def frequency_is_rejected(n_hits: int, n: int, probability: float) -> bool:
    return _is_far(n_hits / n - probability, math.sqrt(probability * (1 - probability) / n))


def _is_far(difference: float, standard_error: float) -> bool:
    return abs(difference) / standard_error > stats.norm.isf(FALSE_ALARM / 2)


def absolute_error(x: NDArray[np.int64]) -> float:
    return float(np.abs(x - x.mean()).sum())


def cut_scores(x: NDArray[np.int64]) -> Floats:
    """−(AE_L + AE_R) of every cut of a dense block, by really splitting it."""
    cuts = [(a, v) for a, width in enumerate(x.shape) for v in range(1, width)]
    return np.array([-sum(absolute_error(side) for side in np.split(x, [v], axis=a)) for a, v in cuts])


def cut_probabilities(x: NDArray[np.int64], epsilon: float) -> Floats:
    """The exponential mechanism: P ∝ exp(ε·score / 2Δ) with Δ = 2·Δ_AE = 4(1 − 1/|B|)."""
    weights = np.exp(epsilon / (8 * (1 - 1 / x.size)) * (cut_scores(x) - cut_scores(x).max()))
    return weights / weights.sum()


def samples_differ(one: Sequence[Hashable], other: Sequence[Hashable]) -> bool:
    """A chi-square test that two samples have one law. Outcomes seen fewer than 40 times are taken as one."""
    first, second = Counter(one), Counter(other)
    common = [outcome for outcome in first | second if first[outcome] + second[outcome] >= 40]
    assert len(common) >= 4, "too few common outcomes to tell laws apart"
    table = np.array(
        [
            [each[outcome] for outcome in common] + [each.total() - sum(each[o] for o in common)]
            for each in (first, second)
        ]
    )
    return bool(stats.chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue < FALSE_ALARM)
