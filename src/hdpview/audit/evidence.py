"""What a view tells about the canary, and how strongly: features of a view, and scores learnt from many
views.

Only the blocks around the canary can tell the tables apart, so these are looked at: the cuts on the way to
    it, the count of its leaf,
and whatever else a method releases about its values.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdpview.view.blocks import Blocks

Scores = NDArray[np.float64]
Features = tuple[Hashable, ...]  # of one view: what was seen, feature by feature
_N_BINS = 24  # that a feature with many values is sorted into


def features_of(blocks: Blocks, canary: tuple[int, ...]) -> Features:
    """The cuts on the way to the canary, their number, the count of its leaf, the sum of all, what a base and
    a fit say of its cell.
    """
    at = np.array(canary)
    leaf = int(np.flatnonzero(((blocks.lower <= at) & (at < blocks.upper)).all(axis=1))[0])
    path = cuts_to(blocks, leaf)
    seen: list[Hashable] = [
        path,
        path[:1],
        len(path),
        int(blocks.noisy_counts[leaf]),
        int(blocks.noisy_counts.sum()),
        len(blocks),
    ]
    seen += [path[:2], path[:3]]
    seen.append((path, int(np.clip(blocks.noisy_counts[leaf], -3, 40))))
    return tuple(seen)


def cuts_to(blocks: Blocks, leaf: int) -> tuple[tuple[int, int], ...]:
    """Attribute and cut point of each cut on the way from the whole domain to a leaf, read off the order and
    depths of the leaves.
    """
    cuts: list[tuple[int, int]] = []
    first, last, depth = 0, len(blocks), 1
    while last - first > 1:
        # The leaves of the left half come first and fill half of the block: 2^-(levels below) of it each.
        filled = np.cumsum(0.5 ** (blocks.depth[first:last] - depth))
        middle = first + int(np.searchsorted(filled, 0.5)) + 1
        end_of_left, end = blocks.upper[first:middle].max(axis=0), blocks.upper[first:last].max(axis=0)
        attribute = int(np.flatnonzero(end_of_left < end)[0])
        cuts.append((attribute, int(end_of_left[attribute])))
        first, last, depth = (first, middle, depth + 1) if leaf < middle else (middle, last, depth + 1)
    return tuple(cuts)


@dataclass(frozen=True)
class Scorer:
    """Tells how much more likely what is seen is on the second table than on the first, feature by feature
    and all together.

    edges: per feature, where its bins end, or None where each value counts for itself.
    ratios: per feature, bin or value → logarithm of the likelihood ratio.
    weights: of the features in the joint score.
    """

    edges: tuple[Scores | None, ...]
    ratios: tuple[dict[Hashable, float], ...]
    weights: Scores

    @classmethod
    def learn(cls, first: Sequence[Features], second: Sequence[Features]) -> Scorer:
        """From views of both tables, the same number of each."""
        edges, ratios = [], []
        for column in range(len(first[0])):
            seen, seen_second = [view[column] for view in first], [view[column] for view in second]
            edge = _edges([*seen, *seen_second])
            edges.append(edge)
            ratios.append(_log_ratios(_binned(seen, edge), _binned(seen_second, edge)))
        plain = cls(tuple(edges), tuple(ratios), np.ones(len(edges)))
        return cls(plain.edges, plain.ratios, _logistic_weights(plain.single(first), plain.single(second)))

    def single(self, views: Sequence[Features]) -> Scores:
        """Scores by each feature alone, shape (n_views, n_features)."""
        columns = []
        for column, (edge, ratio) in enumerate(zip(self.edges, self.ratios, strict=True)):
            columns.append([ratio.get(seen, 0.0) for seen in _binned([view[column] for view in views], edge)])
        return np.array(columns).T

    def scores(self, views: Sequence[Features]) -> Scores:
        """Scores by each feature, by cuts and count together and by the weighted sum of all, shape (n_views,
        n_features + 2).
        """
        single = self.single(views)
        cuts_and_count = single[:, 0] + single[:, 3]
        return np.column_stack([single, cuts_and_count, single @ self.weights])


def _edges(seen: Sequence[Hashable]) -> Scores | None:
    """Quantiles as ends of bins, for numbers of many values."""
    if not isinstance(seen[0], (int, float)) or len(set(seen)) <= _N_BINS * 2:
        return None
    values = np.array(seen, dtype=np.float64)
    extremes = np.quantile(values, [0.002, 0.005, 0.01, 0.02, 0.98, 0.99, 0.995, 0.998])
    return np.unique(np.concatenate([np.quantile(values, np.linspace(0.04, 0.96, _N_BINS)), extremes]))


def _binned(seen: Sequence[Hashable], edges: Scores | None) -> list[Hashable]:
    if edges is None:
        return list(seen)
    return list(np.searchsorted(edges, np.array(seen, dtype=np.float64)).tolist())


def _log_ratios(first: Sequence[Hashable], second: Sequence[Hashable]) -> dict[Hashable, float]:
    """Half a view more of each kind on both sides: what was seen once is no proof."""
    tally: dict[Hashable, list[float]] = {}
    for which, views in enumerate((first, second)):
        for seen in views:
            tally.setdefault(seen, [0.5, 0.5])[which] += 1
    return {seen: float(np.log(on_second / on_first)) for seen, (on_first, on_second) in tally.items()}


def _logistic_weights(first: Scores, second: Scores) -> Scores:
    """Weights of a logistic regression without intercept, by a few steps of Newton's, held back a little."""
    rows, labels = np.concatenate([first, second]), np.repeat([0.0, 1.0], [len(first), len(second)])
    weights = np.zeros(rows.shape[1])
    for _ in range(8):
        chance = 1 / (1 + np.exp(-np.clip(rows @ weights, -30, 30)))
        slope = rows.T @ (labels - chance) - weights
        curvature = (rows * (chance * (1 - chance))[:, None]).T @ rows + np.eye(len(weights))
        weights = weights + np.linalg.solve(curvature, slope)
    return weights
