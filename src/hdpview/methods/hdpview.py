"""HDPView, the paper's method: recursive bisection with random converge and cut, and noisy leaf counts."""

from __future__ import annotations

from dataclasses import dataclass

from hdpview.counts.exact_statistics import Counts, as_cells
from hdpview.domain import Schema
from hdpview.methods.protocol import Engine, Method, Progress, ViewRelease
from hdpview.partition.parameters import PartitionParameters, PartitionSettings
from hdpview.privacy.budget import exact_epsilon
from hdpview.privacy.mechanism import Mechanism
from hdpview.privacy.noise import laplace_scale
from hdpview.view.blocks import Blocks

_CELLS_THAT_MAY_ALL_BE_LEAVES = 2**24
_MOST_RECORDS_IN_CELLS = 2**61


@dataclass(frozen=True)
class Hdpview(PartitionSettings, Method):
    """The paper's method. `partition/parameters.py` maps its settings to the paper's symbols."""

    name = "hdpview"
    makes_views = True
    supports_spark = True

    def why_infeasible(self, schema: Schema, epsilon: float) -> str | None:
        """If δ ≤ 2, empty blocks are cut more often than kept, so the tree grows down to single cells."""
        parameters = PartitionParameters.choose(self, exact_epsilon(epsilon), schema.n_cells)
        if parameters.chance_to_stop_when_empty > 0.5 or schema.n_cells <= _CELLS_THAT_MAY_ALL_BE_LEAVES:
            return None
        largest = epsilon * parameters.converge_bias_per_level / 2
        return (
            f"With epsilon {epsilon:g}, random converge would keep cutting empty blocks until it reaches the "
            "single cells of this large domain. "
            f"Use an epsilon below {largest:.3g}, or a bias_ratio above {self.bias_ratio:g}."
        )

    def why_not_this_table(self, counts: Counts) -> str | None:
        """Sums of 64 bits over blocks must not wrap around. [P7]"""
        if as_cells(counts).exact_total <= _MOST_RECORDS_IN_CELLS:
            return None
        return "The table counts more records than the paper's method can add up. Use the method mixture."

    def release(
        self, counts: Counts, mechanism: Mechanism, engine: Engine, progress: Progress | None = None
    ) -> ViewRelease:
        parameters = PartitionParameters.choose(self, mechanism.total, counts.schema.n_cells)
        lower, upper, noisy, depth = mechanism.grow(as_cells(counts), parameters, engine, progress)
        blocks = Blocks(lower, upper, noisy, depth, laplace_scale(parameters.epsilon_counts))
        return ViewRelease(blocks, partition=parameters)
