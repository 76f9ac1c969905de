"""Counts with the intervals that hold around them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.errors import QueryError
from hdpview.query import intervals
from hdpview.query.boxes import Box, pack
from hdpview.query.intervals import Kind, Reading
from hdpview.query.noise_width import NoiseLaw
from hdpview.query.predicates import boxes_of
from hdpview.query.summary import Summary, summarise
from hdpview.view.data import ViewData

Where = str | Mapping[str, Any] | None
Floats = NDArray[np.float64]


class Interval(NamedTuple):
    """A range that holds the true count, both ends included."""

    lower: float
    upper: float


@dataclass(frozen=True)
class Answer:
    """A count, and what is known of the truth around it at a level of confidence.

    estimate: the count; never negative in the consistent reading.
    typical: noise, and how unevenly records seem to lie inside blocks. A model: its coverage is measured, not
        proven.
    guaranteed: holds whatever the data: noise, and the worst case inside blocks that the question cuts
        through.
    noise: how far noise alone reaches; all there is for a question that follows block borders.
    lower, upper: the ends of the interval that was asked for, typical by default.
    """

    estimate: float
    confidence: float
    typical: Interval
    guaranteed: Interval
    noise: Interval
    interval: Kind = "typical"

    @property
    def lower(self) -> float:
        chosen: Interval = getattr(self, self.interval)
        return chosen.lower

    @property
    def upper(self) -> float:
        chosen: Interval = getattr(self, self.interval)
        return chosen.upper

    def __str__(self) -> str:
        return f"{self.estimate:,.0f} ({self.confidence:.0%} {self.interval}: {self.lower:,.0f} to {self.upper:,.0f})"


@dataclass(frozen=True, eq=False)
class Answers(Sequence[Answer]):
    """Many answers, as columns. Intervals have shape (n, 2): lower and upper ends."""

    estimate: Floats
    confidence: float
    typical: Floats
    guaranteed: Floats
    noise: Floats
    interval: Kind = "typical"

    @property
    def lower(self) -> Floats:
        chosen: Floats = getattr(self, self.interval)
        return chosen[:, 0]

    @property
    def upper(self) -> Floats:
        chosen: Floats = getattr(self, self.interval)
        return chosen[:, 1]

    def __len__(self) -> int:
        return len(self.estimate)

    def __iter__(self) -> Iterator[Answer]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return [self[j] for j in range(*i.indices(len(self)))]
        typical, guaranteed, noise = (
            Interval(*map(float, rows[i])) for rows in (self.typical, self.guaranteed, self.noise)
        )
        return Answer(float(self.estimate[i]), self.confidence, typical, guaranteed, noise, self.interval)


def count_many(
    view: ViewData,
    wheres: Sequence[Where],
    confidence: float = 0.95,
    counts: Reading = "consistent",
    interval: Kind = "typical",
) -> Answers:
    """Answer many counting questions at once."""
    if isinstance(wheres, (str, Mapping)):
        raise QueryError("count_many takes a list of conditions; for one condition use count.")
    return answer(view, [boxes_of(where, view.schema) for where in wheres], confidence, counts, interval)


def answer(
    view: ViewData,
    questions: Sequence[Sequence[Box]],
    confidence: float,
    counts: Reading = "consistent",
    interval: Kind = "typical",
) -> Answers:
    """Answer questions given as lists of disjoint boxes."""
    summary = summarise(view.blocks, pack(questions, view.schema))
    return with_intervals(summary, NoiseLaw(view.manifest.noise_scale), confidence, counts, interval)


def with_intervals(
    of: Summary, law: NoiseLaw, confidence: float, counts: Reading = "consistent", interval: Kind = "typical"
) -> Answers:
    """Answers from sums over blocks. In the consistent reading nothing lies below 0."""
    check_reading(counts, interval)
    estimate = of.raw if counts == "raw" else of.consistent
    guaranteed = intervals.guaranteed_interval(of, law, confidence)
    typical = intervals.typical_interval(of, law, confidence, counts, guaranteed)
    noise = intervals.noise_interval(of, law, confidence)
    floor = 0.0 if counts == "consistent" else -np.inf
    typical, guaranteed, noise = (
        around(np.maximum(found, floor), estimate) for found in (typical, guaranteed, noise)
    )
    return Answers(estimate, confidence, typical, guaranteed, noise, interval)


def check_reading(counts: Reading, interval: Kind) -> None:
    """Raise a QueryError where either is not one of the words for it."""
    if counts not in ("consistent", "raw"):
        raise QueryError(f"counts is 'consistent' (never negative) or 'raw' (unbiased), not {counts!r}.")
    if interval not in ("typical", "guaranteed", "noise"):
        raise QueryError(f"interval is 'typical', 'guaranteed' or 'noise', not {interval!r}.")


def around(interval: Floats, estimate: Floats) -> Floats:
    """The interval, stretched where the estimate would fall outside: widening cannot make it hold less
    often.
    """
    return np.stack([np.minimum(interval[:, 0], estimate), np.maximum(interval[:, 1], estimate)], axis=1)
