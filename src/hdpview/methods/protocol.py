"""What a method is: from exact counts to a release, within a budget. The one protocol for ours and for every
baseline.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from hdpview.counts.sparse import SparseCounts
from hdpview.domain import Schema
from hdpview.errors import MethodError
from hdpview.partition.grow import ExactBlocks
from hdpview.partition.parameters import Growth
from hdpview.privacy.budget import Budget, Charge, exact_delta
from hdpview.privacy.randomness import Randomness
from hdpview.progress import Progress as Progress  # methods take it from here
from hdpview.query.cover import group_estimates
from hdpview.query.summary import summarise
from hdpview.query.workloads import CodeBoxes, as_questions
from hdpview.view.blocks import Blocks
from hdpview.view.mixture import Mixture
from hdpview.view.tables import Table

Floats = NDArray[np.float64]
# Boxes that a mixture answers together: a number per box and component is held at a time.
_BOXES_AT_ONCE = 1024


class Engine(Protocol):
    """Where exact statistics are computed and partitions grown. Engines differ in speed and reach, never in
    what they build.
    """

    def histograms(self, counts: SparseCounts, progress: Progress | None = None) -> list[NDArray[np.int64]]:
        """Exact counts per code of each attribute, shapes (size,)."""
        ...

    def pair_tables(
        self, counts: SparseCounts, bin_of_code: Sequence[NDArray[np.int32]], progress: Progress | None = None
    ) -> dict[tuple[int, int], NDArray[np.int64]]:
        """Exact counts per pair of bins, for all pairs of attributes a < b: shapes (bins of a, bins of b)."""
        ...

    def grow(
        self, counts: SparseCounts, parameters: Growth, key: NDArray[np.uint32], progress: Progress | None
    ) -> ExactBlocks:
        """The leaves, in depth-first order."""
        ...


class Release(Protocol):
    """What a method gives away. It answers any box, and all cells of a marginal at once; both in its unbiased
    or its fitted reading.
    """

    def answer(self, boxes: CodeBoxes) -> Floats:
        """Estimated records in each box, shape (n,)."""
        ...

    def marginal(self, attributes: Sequence[int]) -> Floats:
        """Estimated records per combination of codes of these attributes, shape (size of each)."""
        ...


@dataclass(frozen=True)
class BlockRelease:
    """Blocks, and the public facts about how they came about."""

    blocks: Blocks
    noise_scale: float
    parameters: Mapping[str, float]

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(int(size) for size in self.blocks.upper.max(axis=0))

    @property
    def _counts(self) -> Floats:
        """The reading that benchmarks use: fitted where a method fits, else noisy."""
        return (
            self.blocks.noisy_counts.astype(np.float64) if self.blocks.fitted is None else self.blocks.fitted
        )

    def answer(self, boxes: CodeBoxes) -> Floats:
        found = summarise(self.blocks, as_questions(boxes, self.sizes))
        return found.raw if self.blocks.fitted is None else found.consistent

    def marginal(self, attributes: Sequence[int]) -> Floats:
        return group_estimates(self.blocks, self.sizes, attributes, self._counts)


@dataclass(frozen=True, eq=False)
class MixtureRelease:
    """Components fitted to noisy tables, those tables, and the public facts about how they came about."""

    mixture: Mixture
    tables: tuple[Table, ...]
    parameters: Mapping[str, float]

    def answer(self, boxes: CodeBoxes) -> Floats:
        answers = np.empty(len(boxes))
        for start in range(0, len(boxes), _BOXES_AT_ONCE):
            rows = slice(start, start + _BOXES_AT_ONCE)
            answers[rows] = self._answer(boxes.attribute[rows], boxes.lower[rows], boxes.upper[rows])
        return answers

    def _answer(
        self, attribute: NDArray[np.int64], lower: NDArray[np.int64], upper: NDArray[np.int64]
    ) -> Floats:
        records = np.repeat(self.mixture.weight[None], len(attribute), axis=0)
        for column in range(attribute.shape[1]):
            for a in np.unique(attribute[:, column]):
                rows = np.flatnonzero(attribute[:, column] == a)
                code = np.arange(self.mixture.sizes[a])
                asked = (code >= lower[rows, column, None]) & (code < upper[rows, column, None])
                records[rows] *= self.mixture.factors(int(a), asked.astype(np.float64))
        found: Floats = records.sum(axis=1)
        return found

    def marginal(self, attributes: Sequence[int]) -> Floats:
        return self.mixture.grid(attributes, self.mixture.weight)


class Method(Protocol):
    """A way to build a view. Its settings are fields of a frozen object."""

    @property
    def name(self) -> str: ...

    @property
    def makes_views(self) -> bool:
        """Whether it releases a view; the others are here to be compared with."""
        ...

    @property
    def supports_spark(self) -> bool:
        """Whether it looks at no cell itself, so that cells may be spread over machines."""
        ...

    def settings(self) -> Mapping[str, float]:
        """What the curator chose, for the manifest."""
        ...

    def why_infeasible(self, schema: Schema, epsilon: float) -> str | None:
        """Why this method cannot build a view of this domain with this budget, and what can; None if it
        can.
        """
        ...

    def release(
        self,
        counts: SparseCounts,
        budget: Budget,
        randomness: Randomness,
        engine: Engine,
        progress: Progress | None = None,
    ) -> Release:
        """Release what it releases, spending all of the budget. Rows of `counts` may be reordered, nothing
        else.
        """
        ...


class Common:
    """What most methods have in common, to inherit from. The settings are the numbers among a method's
    fields.
    """

    name: ClassVar[str]
    makes_views: ClassVar[bool] = False
    supports_spark: ClassVar[bool] = False

    def settings(self) -> Mapping[str, float]:
        return {name: value for name, value in vars(self).items() if isinstance(value, (int, float))}

    def why_infeasible(self, schema: Schema, epsilon: float) -> str | None:
        return None


@runtime_checkable
class KnownError(Protocol):
    """A method whose expected error is known exactly, even where its release would be too large to make."""

    def expected_rmse(self, workload: str, schema: Schema, epsilon: float) -> float:
        """Root of the mean expected squared error over the questions of a workload."""
        ...


def delta_of(method: Method) -> Fraction:
    """The δ of a method's budget: 0 for all that know none."""
    return exact_delta(getattr(method, "delta", 0))


def with_delta(method: Method, delta: Fraction) -> Method:
    """The method with this δ in its budget; refused where it has no use for one."""
    if delta == delta_of(method):
        return method
    if not hasattr(method, "delta"):
        raise MethodError(
            f"The method {method.name} is purely private and has no use for a delta. Leave delta out, or use method='calibrated'."
        )
    changed: Method = dataclasses.replace(method, delta=delta)  # type: ignore[type-var]
    return changed


def release_with(
    method: Method,
    counts: SparseCounts,
    epsilon: Fraction,
    randomness: Randomness,
    engine: Engine,
    progress: Progress | None = None,
) -> tuple[Release, tuple[Charge, ...]]:
    """Run a method on a budget of its own; returns what it spent too."""
    budget = Budget(epsilon, delta=delta_of(method))
    released = method.release(counts, budget, randomness, engine, progress)
    return released, budget.close()
