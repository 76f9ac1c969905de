"""What the blocks say to questions about sums of values, and answers from it. How it is added up is in
`sums`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdpview.query import intervals
from hdpview.query.answers import Answers, around
from hdpview.query.intervals import Kind, Reading
from hdpview.query.noise_width import NoiseLaw
from hdpview.query.summary import Summary

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SumSummary(Summary):
    """The fields of `Summary` for sums: weights are in units of value, and may be negative.

    full_sum, touched_sum: the least and the greatest sum that the counts allow; n_full, n_touched: squares of
        their weights, summed.
    least_fourths, least_largest, greatest_fourths, greatest_largest: of the same weights.
    n_records: consistent count of the records summed over; non_negative: whether no value is negative.
    """

    least_fourths: Floats
    least_largest: Floats
    greatest_fourths: Floats
    greatest_largest: Floats
    n_records: Floats
    non_negative: bool


def scaled(of: Summary, values: Floats) -> SumSummary:
    """Sums where all records of a question have the same value: counts times values, shape (n,)."""
    least = np.where(values >= 0, of.full_sum, of.touched_sum), np.where(values >= 0, of.n_full, of.n_touched)
    greatest = (
        np.where(values >= 0, of.touched_sum, of.full_sum),
        np.where(values >= 0, of.n_touched, of.n_full),
    )
    size = np.abs(values)
    return SumSummary(
        raw=of.raw * values,
        consistent=of.consistent * values,
        squares=of.squares * values**2,
        fourths=of.fourths * values**4,
        largest=of.largest * size,
        full_sum=least[0] * values,
        n_full=least[1] * values**2,
        touched_sum=greatest[0] * values,
        n_touched=greatest[1] * values**2,
        spread=of.spread * size,
        coarser_estimates=of.coarser_estimates * values,
        coarser_spreads=of.coarser_spreads * size,
        **of.of_base.scaled(values)._asdict(),
        least_fourths=least[1] * values**4,
        least_largest=np.minimum(least[1], 1.0) * size,
        greatest_fourths=greatest[1] * values**4,
        greatest_largest=np.minimum(greatest[1], 1.0) * size,
        n_records=of.consistent,
        non_negative=bool((values >= 0).all()),
    )


def with_sum_intervals(
    of: SumSummary, law: NoiseLaw, confidence: float, counts: Reading, interval: Kind
) -> Answers:
    """Answers from sums of values, with the three intervals that counts have."""
    estimate = of.raw if counts == "raw" else of.consistent
    least = law.half_width(of.n_full, of.least_fourths, of.least_largest, confidence)
    greatest = law.half_width(of.n_touched, of.greatest_fourths, of.greatest_largest, confidence)
    guaranteed = np.stack([of.full_sum - least, of.touched_sum + greatest], axis=1)
    typical = intervals.typical_interval(of, law, confidence, counts, guaranteed)
    noise = intervals.noise_interval(of, law, confidence)
    lowest = 0.0 if counts == "consistent" and of.non_negative else -np.inf
    typical, guaranteed, noise = (
        around(np.maximum(found, lowest), estimate) for found in (typical, guaranteed, noise)
    )
    return Answers(estimate, confidence, typical, guaranteed, noise, interval)


def take(of: Summary, rows: NDArray[np.int64]) -> Summary:
    """Some questions of a summary."""
    fields = {f.name: getattr(of, f.name) for f in dataclasses.fields(of)}
    return dataclasses.replace(
        of, **{name: value[..., rows] for name, value in fields.items() if isinstance(value, np.ndarray)}
    )
