"""The protocol of methods: from exact counts to a release, within a budget."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from hdpview.counts.exact_statistics import CellCounts, Counts
from hdpview.domain import Schema
from hdpview.domain.table_shapes import CodeBoxes
from hdpview.errors import MethodError
from hdpview.partition.grow import ExactBlocks
from hdpview.partition.parameters import PartitionParameters
from hdpview.privacy.budget import exact_delta
from hdpview.privacy.mechanism import NOTHING, Charge, Mechanism, Outcomes
from hdpview.privacy.randomness import Randomness
from hdpview.progress import Progress as Progress  # re-exported for methods
from hdpview.query.estimate.estimates import sums_over_components
from hdpview.query.question.batch import pack_boxes
from hdpview.view.blocks import Blocks
from hdpview.view.mixture import Mixture
from hdpview.view.released_tables import Table

Floats = NDArray[np.float64]
Reads = Literal["cells", "tables"]
_CUT_FACTS = ("epsilon_counts", "epsilon_cut", "n_private_cut_levels")
_CONVERGE_FACTS = ("converge_noise_scale", "converge_bias_per_level", "converge_threshold")


class Engine(Protocol):
    """Grows partitions. Engines differ in speed and capacity, never in the result."""

    def grow(
        self,
        counts: CellCounts,
        parameters: PartitionParameters,
        key: NDArray[np.uint32],
        progress: Progress | None,
    ) -> ExactBlocks:
        """The leaves, in depth-first order."""
        ...


class Release(Protocol):
    """The output of a method. It answers boxes and marginals, unbiased or fitted."""

    def answer(self, boxes: CodeBoxes) -> Floats:
        """Estimated records in each box, shape (n,)."""
        ...

    def marginal(self, attributes: Sequence[int]) -> Floats:
        """Estimated records per combination of codes of these attributes, shape (size of each)."""
        ...


@dataclass(frozen=True)
class ViewRelease:
    """A release that can be a view: components, the tables behind them, and the parameters of a partition."""

    components: Blocks | Mixture
    tables: tuple[Table, ...] = ()
    partition: PartitionParameters | None = None

    @property
    def parameters(self) -> dict[str, float]:
        """Public facts for the manifest, listed by name so that no further field is published by accident."""
        if self.partition is not None:
            return {name: float(getattr(self.partition, name)) for name in (*_CUT_FACTS, *_CONVERGE_FACTS)}
        if isinstance(self.components, Blocks):
            return {}
        cells = [table.counts.size for table in self.tables if len(table.shape.attributes) > 1]
        return {
            "n_tables": float(len(cells)),
            "n_cells": float(sum(cells)),
            "n_components": float(len(self.components)),
            "n_fits": float(self.components.fit_index.max() + 1),
        }

    def answer(self, boxes: CodeBoxes) -> Floats:
        """Raw counts of blocks, as in the paper; estimates of a mixture."""
        return sums_over_components(
            self.components, pack_boxes(boxes, self.components.sizes), self.components.raw_weight
        )

    def marginal(self, attributes: Sequence[int]) -> Floats:
        return self.components.grid(attributes, self.components.raw_weight)


class Method(Protocol):
    """Base class of methods. Settings are fields of a frozen dataclass.

    makes_views: whether the method releases a view; those that do not serve as baselines.
    supports_spark: True if the method also runs on Spark, because the engine computes all exact statistics.
    reads: input that the method needs: `cells` (all occupied cells) or `tables` (counts only).
    """

    name: ClassVar[str]
    makes_views: ClassVar[bool] = False
    supports_spark: ClassVar[bool] = False
    reads: ClassVar[Reads] = "cells"

    def settings(self) -> Mapping[str, float]:
        """The curator's choices for the manifest: all numeric fields."""
        return {name: value for name, value in vars(self).items() if isinstance(value, (int, float))}

    def why_infeasible(self, schema: Schema, epsilon: float) -> str | None:
        """The reason why this method cannot build a view of this domain with this budget; None if it can."""
        return None

    def why_not_this_table(self, counts: Counts) -> str | None:
        """For the curator, before the charge: the reason why this is the wrong table, or None."""
        return None

    def release(
        self, counts: Counts, mechanism: Mechanism, engine: Engine, progress: Progress | None = None
    ) -> Release:
        """Make the release, spending all of the mechanism's budget. Rows of `counts` may be reordered."""
        ...


def delta_of(method: Method) -> Fraction:
    """The δ of a method's budget; 0 if the method has none."""
    return exact_delta(getattr(method, "delta", 0))


def with_delta(method: Method, delta: Fraction) -> Method:
    """The method with this δ in its budget; refused if the method cannot use one."""
    if delta == delta_of(method):
        return method
    if not hasattr(method, "delta"):
        raise MethodError(
            f"The method {method.name} satisfies pure differential privacy and cannot use a delta. "
            "Omit delta, or use method='mixture'."
        )
    changed: Method = dataclasses.replace(method, delta=delta)  # type: ignore[type-var]
    return changed


def release_with(
    method: Method,
    counts: Counts,
    epsilon: Fraction,
    randomness: Randomness,
    engine: Engine,
    progress: Progress | None = None,
    *,
    max_rows: int = 1,
    outcomes: Outcomes | None = None,
) -> tuple[Release, tuple[Charge, ...]]:
    """Run a method on its own budget; also returns the charges."""
    before = getattr(method, "before", NOTHING)
    mechanism = Mechanism(
        epsilon, randomness, delta=delta_of(method), max_rows=max_rows, before=before, outcomes=outcomes
    )
    released = method.release(counts, mechanism, engine, progress)
    return released, mechanism.close()
