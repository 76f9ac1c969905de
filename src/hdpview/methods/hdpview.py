"""HDPView, the paper's method: recursive bisection with random converge and cut, noise on leaves."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from hdpview.counts.protocol import Counts, as_cells
from hdpview.domain import Schema
from hdpview.methods.protocol import Engine, Method, Progress, ViewRelease
from hdpview.partition.parameters import PartitionParameters, PartitionSettings
from hdpview.privacy.budget import Budget, exact_epsilon
from hdpview.privacy.noise import laplace_scale, noisy_counts
from hdpview.privacy.randomness import Randomness
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
        self,
        counts: Counts,
        budget: Budget,
        randomness: Randomness,
        engine: Engine,
        progress: Progress | None = None,
    ) -> ViewRelease:
        parameters = PartitionParameters.choose(self, budget.epsilon, counts.schema.n_cells)
        budget.charge("choose cuts", parameters.epsilon_cut, times=parameters.n_private_cut_levels)  # [P3]
        budget.charge("decide when to stop", parameters.epsilon_converge)  # [P4]
        epsilon_counts: Fraction = budget.charge("noise on counts", parameters.epsilon_counts)  # [P6]
        leaves = engine.grow(as_cells(counts), parameters, randomness.root_key("partition"), progress)
        noisy = noisy_counts(leaves.exact_sum, epsilon_counts, randomness, leaves.keys, progress)
        return ViewRelease(
            components=Blocks(leaves.lower, leaves.upper, noisy, leaves.depth, laplace_scale(epsilon_counts)),
            parameters={
                "epsilon_counts": float(epsilon_counts),
                "epsilon_cut": float(parameters.epsilon_cut),
                "n_private_cut_levels": parameters.n_private_cut_levels,
                "converge_noise_scale": parameters.converge_noise_scale,
                "converge_bias_per_level": parameters.converge_bias_per_level,
                "converge_threshold": parameters.converge_threshold,
            },
        )
