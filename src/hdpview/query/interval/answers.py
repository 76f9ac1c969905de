"""Counts with their intervals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from hdpview.domain import Schema
from hdpview.errors import QueryError
from hdpview.query.bounds.guaranteed import guaranteed
from hdpview.query.bounds.noise import NoiseLaw, check_confidence, half_width
from hdpview.query.errors.closed import Evaluation, evaluate, rests_on_tables
from hdpview.query.errors.ends import typical_tail, usefulness
from hdpview.query.question import conditions
from hdpview.query.question.batch import Batch, pack
from hdpview.query.question.boxes import Box, reaching, subtract
from hdpview.query.question.quantities import count_of
from hdpview.query.question.where import Where, boxes_of
from hdpview.view.blocks import Blocks
from hdpview.view.data import ViewData

Floats = NDArray[np.float64]
CountKind = Literal["consistent", "raw"]
IntervalKind = Literal["typical", "guaranteed", "noise"]
MAX_NESTED = 200  # maximum number of questions for which a part is compared with its whole


class QueryOptions(TypedDict, total=False):
    """Options of a question, shared by most verbs; `PView` explains them."""

    confidence: float
    counts: CountKind
    interval: IntervalKind


class Interval(NamedTuple):
    """A range that holds the true count, both ends included."""

    lower: float
    upper: float


@dataclass(frozen=True)
class Answer:
    """A count with its intervals at a level of confidence.

    estimate: the count; never negative for consistent counts.
    typical: noise, and the error of the model, whose size was measured. Its coverage is measured, not proven.
    guaranteed: holds for any data: noise, and the worst case of everything that was not counted.
    noise: the effect of noise alone.
    lower, upper: the ends of the requested interval, by default the typical one.
    basis: `measured` if the answer follows from released counts, `model` if the view had to infer it.
    notes: sentences on limits of the schema that affect the question, such as values beyond its bounds.
    usefulness: `useful` if the interval reaches at most 10% of the estimate, or 1% of all records, to either
        side; `unknown` if it reaches further than the estimate and than 10% of all records; else `rough`.
    """

    estimate: float
    confidence: float
    typical: Interval
    guaranteed: Interval
    noise: Interval
    interval: IntervalKind = "typical"
    basis: Literal["measured", "model"] = "model"
    notes: tuple[str, ...] = ()
    usefulness: str = "rough"

    @property
    def lower(self) -> float:
        return float(getattr(self, self.interval).lower)

    @property
    def upper(self) -> float:
        return float(getattr(self, self.interval).upper)

    def __str__(self) -> str:
        return (
            f"{self.estimate:,.0f} ({self.confidence:.0%} {self.interval}: {self.lower:,.0f} to "
            f"{self.upper:,.0f}, {self.usefulness})" + "".join(f"\n{note}" for note in self.notes)
        )


@dataclass(frozen=True, eq=False, repr=False)
class Answers(Sequence[Answer]):
    """Many answers, as columns. Intervals have shape (n, 2), lower and upper ends, made when asked for."""

    view: ViewData
    boxes: Sequence[Sequence[Box]]
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
        ends, schema = typical_ends(self.evaluation, self.confidence, self.counts), self.view.schema
        # If conditions are open, ends include all records that may satisfy them.
        rows = [i for i, own in enumerate(self.boxes) if reaching(own, schema, upper=True) is not None]
        for side in (0, 1) if rows else ():
            wider = [count_of(reaching(self.boxes[i], schema, bool(side)) or []) for i in rows]
            evaluation = evaluate(self.view, pack(wider, schema))
            ends[side][rows] = typical_ends(evaluation, self.confidence, self.counts)[side]
        return self._around(*ends)

    @cached_property
    def noise(self) -> Floats:
        return self._around(*noise_ends(self.evaluation, self.confidence))

    @cached_property
    def guaranteed(self) -> Floats:
        return self._around(*guaranteed(self.view, self.boxes, self.confidence).T)

    def _nest(self, ends: Floats) -> None:
        """If a part and its whole are asked together, neither end of the whole's interval is below the
        part's.
        """
        if len(self) > MAX_NESTED:
            return
        # Compare with the original ends, so that a change is passed on along a whole chain.
        own = ends.copy()
        less = self.estimate[:, None] <= self.estimate[None, :] + 1e-6  # equal up to rounding
        for part, whole in np.argwhere(less & (own[:, None] > own[None, :]).any(axis=2)).tolist():
            if part != whole and not subtract(self.boxes[part], self.boxes[whole], self.view.schema):
                ends[whole, 0] = max(ends[whole, 0], own[part, 0])
                ends[part, 1] = min(ends[part, 1], own[whole, 1])

    def _around(self, lower: Floats, upper: Floats) -> Floats:
        """Ends of intervals that contain their estimates and, for consistent counts, are never below 0."""
        floor = 0.0 if self.counts == "consistent" else -np.inf
        lower, upper = (np.maximum(end, floor) for end in (lower, upper))
        ends = np.stack([np.minimum(lower, self.estimate), np.maximum(upper, self.estimate)], axis=1)
        self._nest(ends)
        return ends

    @cached_property
    def measured(self) -> NDArray[np.bool_]:
        """Whether each answer follows from released counts alone, shape (n,)."""
        measured = np.ones(len(self), dtype=bool)
        for part in self.view.parts:
            if isinstance(part.components, Blocks):
                measured &= self.evaluation.raw_variance <= self.evaluation.noise * (1 + 1e-9)
            else:
                measured &= rests_on_tables(part, self.batch)
        return measured

    @property
    def lower(self) -> Floats:
        return np.asarray(getattr(self, self.interval)[:, 0])

    @property
    def upper(self) -> Floats:
        return np.asarray(getattr(self, self.interval)[:, 1])

    def __len__(self) -> int:
        return len(self.boxes)

    def __repr__(self) -> str:
        more = [f"… and {len(self) - 10:,} more"] if len(self) > 10 else []
        return "\n".join([*map(str, self[:10]), *more])

    def __iter__(self) -> Iterator[Answer]:
        return (self[i] for i in range(len(self)))

    @cached_property
    def usefulness(self) -> NDArray[np.str_]:
        """Whether each interval is narrow enough to act on: `useful`, `rough` or `unknown`, shape (n,)."""
        n_records = sum(float(part.components.weight.sum()) for part in self.view.parts)
        return usefulness(self.estimate, self.lower, self.upper, n_records)

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
            notes_on(self.boxes[i], self.view.schema),
            str(self.usefulness[i]),
        )


def count_many(view: ViewData, wheres: Sequence[Where], **how: Unpack[QueryOptions]) -> Answers:
    """Answer many counting questions at once."""
    if isinstance(wheres, (str, Mapping)) or not isinstance(wheres, Iterable):
        raise QueryError("count_many takes a list of conditions; for one condition use count.")
    return answer(view, [boxes_of(where, view.schema) for where in wheres], **how)


def answer(
    view: ViewData,
    boxes: Sequence[Sequence[Box]],
    confidence: float = 0.95,
    counts: CountKind = "consistent",
    interval: IntervalKind = "typical",
) -> Answers:
    """Numbers of records in disjoint boxes, with intervals."""
    check_confidence(confidence)
    check_kinds(counts, interval)
    batch = pack(list(map(count_of, boxes)), view.schema)
    return Answers(view, boxes, evaluate(view, batch), batch, confidence, counts, interval)


def typical_ends(of: Evaluation, confidence: float, counts: CountKind) -> tuple[Floats, Floats]:
    """Estimate ± a multiple of the expected error."""
    estimate, variance = (of.raw, of.raw_variance) if counts == "raw" else (of.estimate, of.variance)
    width = typical_tail(confidence) * np.sqrt(variance)
    return estimate - width, estimate + width


def noise_ends(of: Evaluation, confidence: float) -> tuple[Floats, Floats]:
    """The interval around the raw estimate that covers noise alone."""
    law = NoiseLaw(float(of.scale.max(initial=0.0)))
    width = half_width(of.noise, of.fourth, of.largest, law, confidence)
    return of.raw - width, of.raw + width


def notes_on(boxes: Sequence[Box], schema: Schema) -> tuple[str, ...]:
    """Notes on conditions that cut bins or affect values that the schema groups, without duplicates."""
    met = dict.fromkeys((a, condition) for box in boxes[:100] for a, condition in box.items())
    notes = (note for a, condition in met for note in conditions.notes_on(schema.attributes[a], condition))
    return tuple(dict.fromkeys(notes))


def check_kinds(counts: CountKind, interval: IntervalKind) -> None:
    """Raise a QueryError if either word is unknown."""
    if counts not in ("consistent", "raw"):
        raise QueryError(f"counts must be 'consistent' (never negative) or 'raw' (unbiased), not {counts!r}.")
    if interval not in ("typical", "guaranteed", "noise"):
        raise QueryError(f"interval must be 'typical', 'guaranteed' or 'noise', not {interval!r}.")
