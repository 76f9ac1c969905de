"""Choosing the network: one attribute after another joins with the parents it depends on most, by the
exponential mechanism.

The score is the paper's R in units of records: R(X, Π) = ½ Σ |c(x, π) − c(x)·c(π)/n|, the records one would
have to move to make the child independent of its parents. Its sensitivity to one record is below 2: write a,
b for the margins and let the record come to (x₀, π₀) with a₀ = c(x₀), b₀ = c(π₀). The products a·b/n grow to
(a + e)(b + e′)/(n + 1); they fall, if at all, only where x ≠ x₀ and π ≠ π₀, together by (n − a₀)(n − b₀)/(n(n
+ 1)) ≤ n/(n + 1), and rise by 1 more than that. The cell itself gains 1. So the terms change by at most 2(1 −
1/(n + 1)) + 2n/(n + 1) < 4 together, and half of that is below 2. A first record in its row and its column
comes near it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdpview.jit import numba as nb
from hdpview.privacy.randomness import Randomness
from hdpview_bench.rivals.budget import Draws
from hdpview_bench.rivals.privbayes.candidates import Parents, affordable_degree, parent_sets, size_at

SCORE_SENSITIVITY = 2.0
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Node:
    """An attribute and what it depends on."""

    child: int
    parents: Parents


class ExactTables:
    """Joint counts of attributes of one table. Exact, so for mechanisms only."""

    def __init__(
        self, exact_codes: NDArray[np.unsignedinteger], exact_counts: Ints, sizes: tuple[int, ...]
    ) -> None:
        self._exact_columns = np.ascontiguousarray(exact_codes.T)
        self._exact_counts = exact_counts
        self.sizes = sizes

    def exact_joint(self, node: Node) -> Ints:
        """Records per combination of parents, by their codes, and child: (n_parent_cells, size of child)."""
        chosen = np.array([*(a for a, _ in node.parents), node.child], dtype=np.int64)
        levels = np.array([*(level for _, level in node.parents), 0], dtype=np.int64)
        widths = np.array(
            [*(size_at(self.sizes[a], level) for a, level in node.parents), self.sizes[node.child]],
            dtype=np.int64,
        )
        joint: Ints = _joint_counts(self._exact_columns, self._exact_counts, chosen, levels, widths)
        return joint.reshape(-1, self.sizes[node.child])

    def exact_score(self, node: Node) -> float:
        return dependence(self.exact_joint(node).astype(np.float64))


def dependence(joint: Floats) -> float:
    """Records to move until rows and columns of a table are independent: ½ Σ |c − row · column / n|."""
    total = float(joint.sum())
    if total == 0:
        return 0.0
    expected = np.outer(joint.sum(axis=1), joint.sum(axis=0)) / total
    return float(np.abs(joint - expected).sum()) / 2


@nb.njit(cache=True, nogil=True)
def _joint_counts(columns, counts, chosen, levels, widths):  # type: ignore[no-untyped-def]
    n_cells = 1
    for width in widths:
        n_cells *= width
    joint = np.zeros(n_cells, np.int64)
    for i in range(len(counts)):
        place = 0
        for j in range(len(chosen)):
            place = place * widths[j] + (np.int64(columns[chosen[j], i]) >> levels[j])
        joint[place] += counts[i]
    return joint


def choose_network(
    tables: ExactTables, most_cells: float, epsilon: float, randomness: Randomness
) -> list[Node]:
    """Nodes in an order in which parents come before their children. The first is drawn uniformly.

    Args:
        tables: joint counts of the table.
        most_cells: of the joint table of a child and its parents.
        epsilon: of each of the d − 1 choices.
        randomness: of the build.
    """
    sizes = tables.sizes
    uniform = Draws(randomness.root_key("privbayes network")).uniform(len(sizes))
    degree = affordable_degree(sizes, most_cells)
    network = [Node(int(uniform[0] * len(sizes)), ())]
    scores: dict[Node, float] = {}
    for turn in range(1, len(sizes)):
        inside = [node.child for node in network]
        candidates = [
            Node(child, parents)
            for child in range(len(sizes))
            if child not in inside
            for parents in parent_sets(sizes, inside, most_cells / sizes[child], degree)
        ]
        for node in candidates:
            if node not in scores:
                scores[node] = tables.exact_score(node)
        values = np.array([scores[node] for node in candidates])
        network.append(candidates[_choose(values, epsilon / (2 * SCORE_SENSITIVITY), uniform[turn])])
    return network


def _choose(scores: Floats, rate: float, uniform: float) -> int:
    """The exponential mechanism from one uniform number: P(i) ∝ exp(rate · score)."""
    reach = np.cumsum(np.exp(rate * (scores - scores.max())))
    return min(int(np.searchsorted(reach, uniform * reach[-1], side="right")), len(scores) - 1)
