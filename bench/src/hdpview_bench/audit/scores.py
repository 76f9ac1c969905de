"""Scores: how much likelier a view is on one table than on the other, learnt from many views."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdpview_bench.audit.evidence import Features

Scores = NDArray[np.float64]
_N_BINS = 24  # bins of a feature with many values
TOGETHER = "all of it together"


@dataclass(frozen=True)
class Scorer:
    """Scores by each feature and by all together.

    names: of the features; a view need not have all. edges: bin edges per feature, or None if each value
    counts for itself. ratios: per feature, bin or value → logarithm of the likelihood ratio. weights: of the
    features in the joint score. numbers: features that are numbers, whose values are scores too.
    """

    names: tuple[str, ...]
    edges: tuple[Scores | None, ...]
    ratios: tuple[dict[Hashable, float], ...]
    weights: Scores
    numbers: tuple[str, ...]

    @classmethod
    def learn(cls, first: Sequence[Features], second: Sequence[Features]) -> Scorer:
        """Learn from views of both tables, the same number of each."""
        names = tuple(sorted({name for view in (*first, *second) for name in view}))
        edges, ratios, numbers = [], [], []
        for name in names:
            seen, seen_second = ([view.get(name) for view in views] for views in (first, second))
            values = [value for value in (*seen, *seen_second) if value is not None]
            if values and all(type(value) in (int, float) for value in values):
                numbers.append(name)
            edge = _edges(values) if name in numbers else None
            edges.append(edge)
            ratios.append(_log_ratios(_binned(seen, edge), _binned(seen_second, edge)))
        plain = cls(names, tuple(edges), tuple(ratios), np.ones(len(edges)), tuple(numbers))
        weights = _logistic_weights(plain.ratio_scores(first), plain.ratio_scores(second))
        return cls(plain.names, plain.edges, plain.ratios, weights, plain.numbers)

    def ratio_scores(self, views: Sequence[Features]) -> Scores:
        """Scores by each feature alone, shape (n_views, n_features)."""
        columns = []
        for name, edge, ratio in zip(self.names, self.edges, self.ratios, strict=True):
            columns.append(
                [ratio.get(seen, 0.0) for seen in _binned([view.get(name) for view in views], edge)]
            )
        return np.array(columns).T

    @property
    def columns(self) -> tuple[str, ...]:
        """The feature behind each column of the scores."""
        return (*self.names, *self.numbers, TOGETHER)

    def scores(self, views: Sequence[Features]) -> Scores:
        """Scores by each feature, by the value of each number, and by the weighted sum, shape (n_views,
        n_columns).

        A number that a view does not have gets no score.
        """
        ratios = self.ratio_scores(views)
        numbers = [[_number(view.get(name)) for view in views] for name in self.numbers]
        return np.column_stack([ratios, *numbers, ratios @ self.weights])


def _number(value: Hashable) -> float:
    return np.nan if value is None else float(value)  # type: ignore[arg-type]


def _edges(values: Sequence[Hashable]) -> Scores | None:
    """Quantiles as bin edges, for numbers with many values."""
    if len(set(values)) <= _N_BINS * 2:
        return None
    numbers = np.array(values, dtype=np.float64)
    extremes = np.quantile(numbers, [0.002, 0.005, 0.01, 0.02, 0.98, 0.99, 0.995, 0.998])
    return np.unique(np.concatenate([np.quantile(numbers, np.linspace(0.04, 0.96, _N_BINS)), extremes]))


def _binned(seen: Sequence[Hashable], edges: Scores | None) -> list[Hashable]:
    if edges is None:
        return list(seen)
    places = np.searchsorted(edges, np.array([_number(value) for value in seen])).tolist()
    return [None if value is None else place for value, place in zip(seen, places, strict=True)]


def _log_ratios(first: Sequence[Hashable], second: Sequence[Hashable]) -> dict[Hashable, float]:
    """Smoothed by half a view on both sides, because one observation proves nothing."""
    tally: dict[Hashable, list[float]] = {}
    for which, views in enumerate((first, second)):
        for seen in views:
            tally.setdefault(seen, [0.5, 0.5])[which] += 1
    return {seen: float(np.log(on_second / on_first)) for seen, (on_first, on_second) in tally.items()}


def _logistic_weights(first: Scores, second: Scores) -> Scores:
    """Weights of a logistic regression without intercept, by a few damped Newton steps."""
    rows, labels = np.concatenate([first, second]), np.repeat([0.0, 1.0], [len(first), len(second)])
    weights = np.zeros(rows.shape[1])
    for _ in range(8):
        chance = 1 / (1 + np.exp(-np.clip(rows @ weights, -30, 30)))
        slope = rows.T @ (labels - chance) - weights
        curvature = (rows * (chance * (1 - chance))[:, None]).T @ rows + np.eye(len(weights))
        weights = weights + np.linalg.solve(curvature, slope)
    return weights
