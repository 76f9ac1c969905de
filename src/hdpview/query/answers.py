"""Counts with the intervals that hold around them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.errors import QueryError
from hdpview.query.boxes import Box, pack
from hdpview.query.noise_width import NoiseLaw, check_confidence
from hdpview.query.predicates import boxes_of
from hdpview.query.summary import Summary, summarise
from hdpview.view.data import ViewData

Where = str | Mapping[str, Any] | None
Reading = Literal["consistent", "raw"]
Floats = NDArray[np.float64]


class Interval(NamedTuple):
    """A range that holds the true count, both ends included."""

    lower: float
    upper: float


@dataclass(frozen=True)
class Answer:
    """A count, and what is known of the truth around it at a level of confidence.

    estimate: the count; never negative in the consistent reading.
    guaranteed: holds whatever the data: noise, and the worst case inside blocks that the question cuts through.
    noise: holds for the estimate of a question that follows block borders; it leaves out how records lie inside blocks.
    lower, upper: the guaranteed interval.
    """

    estimate: float
    confidence: float
    guaranteed: Interval
    noise: Interval

    @property
    def lower(self) -> float:
        return self.guaranteed.lower

    @property
    def upper(self) -> float:
        return self.guaranteed.upper

    def __str__(self) -> str:
        return f"{self.estimate:,.0f} ({self.confidence:.0%} between {self.lower:,.0f} and {self.upper:,.0f})"


@dataclass(frozen=True, eq=False)
class Answers(Sequence[Answer]):
    """Many answers, as columns. `noise` and `guaranteed` have shape (n, 2): lower and upper ends."""

    estimate: Floats
    confidence: float
    guaranteed: Floats
    noise: Floats

    @property
    def lower(self) -> Floats:
        return self.guaranteed[:, 0]

    @property
    def upper(self) -> Floats:
        return self.guaranteed[:, 1]

    def __len__(self) -> int:
        return len(self.estimate)

    def __iter__(self) -> Iterator[Answer]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return [self[j] for j in range(*i.indices(len(self)))]
        ends = (Interval(*map(float, rows[i])) for rows in (self.guaranteed, self.noise))
        return Answer(float(self.estimate[i]), self.confidence, *ends)


def count_many(view: ViewData, wheres: Sequence[Where], confidence: float = 0.95, counts: Reading = "consistent") -> Answers:
    """Answer many counting questions at once."""
    if isinstance(wheres, (str, Mapping)):
        raise QueryError("count_many takes a list of conditions; for one condition use count.")
    return answer(view, [boxes_of(where, view.schema) for where in wheres], confidence, counts)


def answer(view: ViewData, questions: Sequence[Sequence[Box]], confidence: float, counts: Reading = "consistent") -> Answers:
    """Answer questions given as lists of disjoint boxes."""
    check_confidence(confidence)
    if counts not in ("consistent", "raw"):
        raise QueryError(f"counts is 'consistent' (never negative) or 'raw' (unbiased), not {counts!r}.")
    summary = summarise(view.blocks, pack(questions, view.schema))
    return _with_intervals(summary, NoiseLaw(view.manifest.noise_scale), confidence, counts)


def _with_intervals(of: Summary, law: NoiseLaw, confidence: float, counts: Reading) -> Answers:
    estimate = of.raw if counts == "raw" else of.consistent
    noise_width = law.half_width(of.squares, of.fourths, of.largest, confidence)
    full_width = law.half_width(of.n_full, of.n_full, np.minimum(of.n_full, 1.0), confidence)
    touched_width = law.half_width(of.n_touched, of.n_touched, np.minimum(of.n_touched, 1.0), confidence)
    noise = np.stack([of.raw - noise_width, of.raw + noise_width], axis=1)
    # The blocks inside hold at least their own records; the truth holds at most all records of the blocks it touches.
    guaranteed = np.stack([of.full_sum - full_width, of.touched_sum + touched_width], axis=1)
    if counts == "consistent":
        noise, guaranteed = np.maximum(noise, 0.0), np.maximum(guaranteed, 0.0)
    return Answers(estimate, confidence, _around(guaranteed, estimate), _around(noise, estimate))


def _around(interval: Floats, estimate: Floats) -> Floats:
    """The interval, stretched where the estimate would fall outside: widening cannot make it hold less often."""
    return np.stack([np.minimum(interval[:, 0], estimate), np.maximum(interval[:, 1], estimate)], axis=1)
