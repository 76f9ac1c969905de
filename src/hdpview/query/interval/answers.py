"""Counts with the intervals that hold around them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.errors import QueryError
from hdpview.query.bounds.guaranteed import guaranteed
from hdpview.query.bounds.noise import check_confidence
from hdpview.query.errors.closed import Evaluation, evaluate, rests_on_tables
from hdpview.query.errors.ends import typical_tail
from hdpview.query.question.batch import Batch, pack
from hdpview.query.question.boxes import Box, subtract
from hdpview.query.question.conditions import note_on
from hdpview.query.question.quantities import Quantity, count_of, reaching_bins
from hdpview.query.question.where import Where, boxes_of
from hdpview.view.blocks import Blocks
from hdpview.view.data import ViewData

Floats = NDArray[np.float64]
CountKind = Literal["consistent", "raw"]
IntervalKind = Literal["typical", "guaranteed", "noise"]
Basis = Literal["measured", "model"]
MAX_NESTED = 200  # questions asked together up to which parts are compared with wholes


class Interval(NamedTuple):
    """A range that holds the true count, both ends included."""

    lower: float
    upper: float


@dataclass(frozen=True)
class Answer:
    """A count, and what is known of the truth around it at a level of confidence.

    estimate: the count; never negative in the consistent reading.
    typical: noise, and the error of the model, whose size was measured. Its coverage is measured, not proven.
    guaranteed: holds whatever the data: noise, and the worst case of everything that was not counted.
    noise: how far noise alone reaches.
    lower, upper: the ends of the interval that was asked for, typical by default.
    basis: `measured` if the question rests on counts that were released, `model` if the view had to infer it.
    notes: sentences on what the question meets in the schema, such as values beyond its bounds.
    """

    estimate: float
    confidence: float
    typical: Interval
    guaranteed: Interval
    noise: Interval
    interval: IntervalKind = "typical"
    basis: Basis = "model"
    notes: tuple[str, ...] = ()

    @property
    def lower(self) -> float:
        chosen: Interval = getattr(self, self.interval)
        return chosen.lower

    @property
    def upper(self) -> float:
        chosen: Interval = getattr(self, self.interval)
        return chosen.upper

    def __str__(self) -> str:
        return (
            f"{self.estimate:,.0f} ({self.confidence:.0%} {self.interval}: {self.lower:,.0f} to "
            f"{self.upper:,.0f})" + "".join(f"\n{note}" for note in self.notes)
        )


@dataclass(frozen=True, eq=False)
class Answers(Sequence[Answer]):
    """Many answers, as columns. Intervals have shape (n, 2), lower and upper ends, made when asked for."""

    view: ViewData
    quantities: Sequence[Quantity]
    evaluation: Evaluation
    batch: Batch
    confidence: float
    counts: CountKind = "consistent"
    interval: IntervalKind = "typical"

    @property
    def estimate(self) -> Floats:
        return self.evaluation.raw if self.counts == "raw" else self.evaluation.estimate

    @cached_property
    def typical(self) -> Floats:
        lower, upper = typical_ends(self.evaluation, self.confidence, self.counts)
        schema = self.view.schema
        wider = ((i, reaching_bins(quantity, schema)) for i, quantity in enumerate(self.quantities))
        beyond = {i: quantity for i, quantity in wider if quantity is not None}
        if beyond:
            of_bins = evaluate(self.view, pack(list(beyond.values()), schema))
            reached = typical_ends(of_bins, self.confidence, self.counts)[1]
            upper[list(beyond)] = np.maximum(upper[list(beyond)], reached)
        ends = self._around(lower, upper)
        self._nest(ends)
        return ends

    def _nest(self, ends: Floats) -> None:
        """Part and whole asked together: the interval of the whole is nowhere below that of the part."""
        if len(self) > MAX_NESTED:
            return
        less = self.estimate[:, None] <= self.estimate[None, :]
        for part, whole in np.argwhere(less & (ends[:, None] > ends[None, :]).any(axis=2)).tolist():
            inner, outer = ([own.box for own in self.quantities[i]] for i in (part, whole))
            if part != whole and not subtract(inner, outer, self.view.schema):
                ends[whole, 0] = max(ends[whole, 0], ends[part, 0])
                ends[part, 1] = min(ends[part, 1], ends[whole, 1])

    @cached_property
    def noise(self) -> Floats:
        width = self.evaluation.noise.half_width(self.confidence)
        return self._around(self.evaluation.raw - width, self.evaluation.raw + width)

    @cached_property
    def guaranteed(self) -> Floats:
        return self._around(*guaranteed(self.view, self.quantities, self.confidence).T)

    def _around(self, lower: Floats, upper: Floats) -> Floats:
        """In the consistent reading nothing lies below 0; an interval always holds its estimate."""
        floor = 0.0 if self.counts == "consistent" else -np.inf
        lower, upper = (np.maximum(end, floor) for end in (lower, upper))
        return np.stack([np.minimum(lower, self.estimate), np.maximum(upper, self.estimate)], axis=1)

    @cached_property
    def measured(self) -> NDArray[np.bool_]:
        """Whether each answer rests on released counts alone, shape (n,)."""
        measured = np.ones(len(self), dtype=bool)
        for part in self.view.parts:
            if isinstance(part.components, Blocks):
                measured &= self.evaluation.raw_variance <= self.evaluation.noise.variance * (1 + 1e-9)
            else:
                measured &= rests_on_tables(part, self.batch)
        return measured

    @property
    def lower(self) -> Floats:
        chosen: Floats = getattr(self, self.interval)
        return chosen[:, 0]

    @property
    def upper(self) -> Floats:
        chosen: Floats = getattr(self, self.interval)
        return chosen[:, 1]

    def __len__(self) -> int:
        return len(self.quantities)

    def __iter__(self) -> Iterator[Answer]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return [self[j] for j in range(*i.indices(len(self)))]
        columns = (self.typical, self.guaranteed, self.noise)
        typical, guaranteed, noise = (Interval(*map(float, rows[i])) for rows in columns)
        return Answer(
            float(self.estimate[i]),
            self.confidence,
            typical,
            guaranteed,
            noise,
            self.interval,
            "measured" if self.measured[i] else "model",
            notes_on([part.box for part in self.quantities[i]], self.view),
        )


def count_many(
    view: ViewData,
    wheres: Sequence[Where],
    confidence: float = 0.95,
    counts: CountKind = "consistent",
    interval: IntervalKind = "typical",
) -> Answers:
    """Answer many counting questions at once."""
    if isinstance(wheres, (str, Mapping)):
        raise QueryError("count_many takes a list of conditions; for one condition use count.")
    quantities = [count_of(boxes_of(where, view.schema)) for where in wheres]
    return answer(view, quantities, confidence, counts, interval)


def answer(
    view: ViewData,
    quantities: Sequence[Quantity],
    confidence: float,
    counts: CountKind = "consistent",
    interval: IntervalKind = "typical",
) -> Answers:
    """Estimates of quantities, with intervals."""
    check_confidence(confidence)
    check_kinds(counts, interval)
    batch = pack(quantities, view.schema)
    return Answers(view, quantities, evaluate(view, batch), batch, confidence, counts, interval)


def typical_ends(of: Evaluation, confidence: float, counts: CountKind) -> tuple[Floats, Floats]:
    """Estimate ± a multiple of the error to expect."""
    estimate, variance = (of.raw, of.raw_variance) if counts == "raw" else (of.estimate, of.variance)
    width = typical_tail(confidence) * np.sqrt(variance)
    return estimate - width, estimate + width


def notes_on(boxes: Sequence[Box], view: ViewData) -> tuple[str, ...]:
    """Sentences on conditions that meet values which the schema gathers, each once."""
    attributes = view.schema.attributes
    notes = [note_on(attributes[a], condition) for box in boxes[:100] for a, condition in box.items()]
    return tuple(dict.fromkeys(note for note in notes if note is not None))


def check_kinds(counts: CountKind, interval: IntervalKind) -> None:
    """Raise a QueryError where either is not one of the words for it."""
    if counts not in ("consistent", "raw"):
        raise QueryError(f"counts is 'consistent' (never negative) or 'raw' (unbiased), not {counts!r}.")
    if interval not in ("typical", "guaranteed", "noise"):
        raise QueryError(f"interval is 'typical', 'guaranteed' or 'noise', not {interval!r}.")
