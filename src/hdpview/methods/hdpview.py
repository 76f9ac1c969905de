"""HDPView, the paper's method: recursive bisection with random converge and cut, noise on leaves."""

from __future__ import annotations

from dataclasses import dataclass

from hdpview.counts.protocol import Counts, as_cells
from hdpview.domain import Schema
from hdpview.methods.protocol import Engine, Method, Progress, ViewRelease
from hdpview.partition.parameters import PartitionParameters, PartitionSettings
from hdpview.privacy.budget import exact_epsilon
from hdpview.privacy.mechanism import Mechanism
from hdpview.privacy.noise import laplace_scale
from hdpview.view.blocks import Blocks

_CELLS_THAT_MAY_ALL_BE_LEAVES = 2**24


@dataclass(frozen=True)
class Hdpview(PartitionSettings, Method):
    """The method of the paper with its parameters; see `partition/parameters.py` for their names there."""

    name = "hdpview"
    makes_views = True
    supports_spark = True

    def why_infeasible(self, schema: Schema, epsilon: float) -> str | None:
        """Where δ ≤ 2, an empty block is rather cut than left, and the tree ends only at single cells."""
        parameters = PartitionParameters.choose(self, exact_epsilon(epsilon), schema.n_cells)
        if parameters.chance_to_stop_when_empty > 0.5 or schema.n_cells <= _CELLS_THAT_MAY_ALL_BE_LEAVES:
            return None
        largest = epsilon * parameters.converge_bias_per_level / 2
        return (
            f"With epsilon {epsilon:g} random converge would go on cutting empty blocks down to single "
            "cells of this large domain. "
            f"Use an epsilon below {largest:.3g}, or a bias_ratio above {self.bias_ratio:g}."
        )

    def release(
        self, counts: Counts, mechanism: Mechanism, engine: Engine, progress: Progress | None = None
    ) -> ViewRelease:
        parameters = PartitionParameters.choose(self, mechanism.total, counts.schema.n_cells)
        blocks = mechanism.grow(as_cells(counts), parameters, engine, progress)
        return ViewRelease(Blocks(*blocks, laplace_scale(parameters.epsilon_counts)), partition=parameters)
