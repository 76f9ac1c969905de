"""PrivBayes (Zhang, Cormode, Procopiuc, Srivastava, Xiao: TODS 42(4), 2017), purely ε-private, on the full
domain.

A Bayesian network is chosen by the exponential mechanism with the paper's score R for attributes of many
values. The joint counts of each attribute and its parents get noise, and records are drawn from the
conditional distributions. θ-usefulness limits the number of parents: the average count of a table must be at
least θ times the noise.

Differences from the paper: neighbours differ by one record added or removed, so each of the d tables has
sensitivity 1 and noise of scale d/ε₂, and θ-usefulness allows n·ε₂/(dθ) cells. The number of records is not
public: a hundredth of the budget buys a noisy one. Tables become non-negative by projection onto the known
total, which preserves more than truncating and rescaling. More records are drawn than there are, with
correspondingly smaller weights, which reduces sampling error.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hdpview.counts.sparse import SparseCounts
from hdpview.errors import MethodError
from hdpview.privacy.randomness import Randomness
from hdpview_bench.rivals.budget import Budget, CellMethod, noisy_vector
from hdpview_bench.rivals.privbayes.network import ExactTables, choose_network
from hdpview_bench.rivals.privbayes.synthesis import best_total, conditional, synthesise
from hdpview_bench.rivals.releases import RecordRelease

_TOTAL_SHARE = Fraction(1, 100)
_FEWEST_RECORDS = 2**18
_MOST_RECORDS = 2**22


@dataclass(frozen=True)
class Privbayes(CellMethod):
    """A Bayesian network with noisy tables.

    network_share: share of the budget for choosing the network (the paper's β, there 0.3). usefulness: how
    many times the noise the average count of a table must be (the paper's θ, there 4). These values were
    picked by their error on tables of the benchmark: smaller on most of them, larger on most workloads of
    phoneme and electricity.
    """

    name = "privbayes"
    network_share: float = 0.15
    usefulness: float = 8.0

    def __post_init__(self) -> None:
        if not isinstance(self.network_share, (int, float)) or not 0 < self.network_share < 1:
            raise MethodError(f"network_share must lie between 0 and 1, not {self.network_share!r}.")
        if not isinstance(self.usefulness, (int, float)) or not 0 < self.usefulness <= 1e6:
            raise MethodError(f"usefulness must be a positive number, not {self.usefulness!r}.")

    def release_cells(self, cells: SparseCounts, budget: Budget, randomness: Randomness) -> RecordRelease:
        sizes = cells.schema.sizes
        epsilon_total = budget.charge("number of records", budget.epsilon * _TOTAL_SHARE)
        epsilon_choice = Fraction(0)
        if len(sizes) > 1:
            share = Fraction(str(self.network_share)) * budget.remaining / (len(sizes) - 1)
            epsilon_choice = budget.charge("choose parents", share, times=len(sizes) - 1)
        epsilon_table = budget.charge("noise on tables", budget.remaining / len(sizes), times=len(sizes))

        exact_total = np.array([cells.exact_counts.sum()], dtype=np.int64)
        noisy_total = float(noisy_vector(exact_total, epsilon_total, randomness, "privbayes total")[0])
        most_cells = max(noisy_total, 1.0) * float(epsilon_table) / self.usefulness
        tables = ExactTables(cells.exact_codes, cells.exact_counts, sizes)
        network = choose_network(tables, most_cells, float(epsilon_choice), randomness)
        noisy_tables = [
            noisy_vector(tables.exact_joint(node), epsilon_table, randomness, f"privbayes table {node.child}")
            for node in network
        ]
        total = best_total(
            noisy_total, noisy_tables, float(2 / epsilon_total**2), float(2 / epsilon_table**2)
        )
        conditionals = [conditional(table, total) for table in noisy_tables]
        n_records = int(min(max(total, _FEWEST_RECORDS), _MOST_RECORDS))
        rng = np.random.default_rng(randomness.root_key("privbayes records"))
        return RecordRelease(
            synthesise(network, conditionals, sizes, n_records, rng), total / n_records, sizes
        )
