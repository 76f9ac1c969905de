"""Components fitted to released tables: post-processing, so it costs no budget. [P10]

A model is P(cell) = Σ_z weight_z · Π_a share_a[bin | z]. Each pass compares the model with every noisy table,
takes what of the departures is more than noise, and moves the components towards it by rounds of expectation
maximisation. Then they are scaled to the margins, which are known best. What looks like noise to a table at
first may turn out to be structure that other tables share, so a few passes take in more than one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdpview.domain.tables import TableShape
from hdpview.methods.mixture.bins import Gathering
from hdpview.methods.mixture.smooth import Shrinkage
from hdpview.view.blocks import project_to_simplex
from hdpview.view.tables import Table

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

# Probability of a cell below which a model is never divided by.
_LEAST_CELL = np.float32(1e-12)
# Target of a cell at least, as a share of all records: expectation maximisation needs positive numbers.
_LEAST_TARGET = 1e-7
# Shares and weights below are 0: products of such numbers are denormal, and computing with them is slow.
_NO_SHARE, _NO_WEIGHT = np.float32(1e-10), np.float32(1e-12)
# Of the gamma distribution of random starts; smaller is further from independence.
_START_SHAPE = 6.0
# Of the factors in rounds with long steps: up to 2 they converge to the same as steps of 1.
_POWER = np.float32(1.75)
# Margins are scaled so often after each pass, and at most so often after the last.
_SCALINGS, _LAST_SCALINGS = 2, 3_000
_MARGINS_AGREE = 1e-6


@dataclass(frozen=True, eq=False)
class Components:
    """weight: shape (n,), sum 1. share: per attribute (n_bins, n), columns sum to 1."""

    weight: Singles
    share: tuple[Singles, ...]

    @classmethod
    def independent(cls, margins: Sequence[Floats]) -> Components:
        """One component: all attributes are independent."""
        return cls(np.ones(1, np.float32), tuple(margin[:, None].astype(np.float32) for margin in margins))

    @classmethod
    def start(cls, margins: Sequence[Floats], n: int, rng: np.random.Generator) -> Components:
        """Components near independence, each with its own random departures from the margins."""
        shares = []
        for margin in margins:
            drawn = margin[:, None] * rng.gamma(_START_SHAPE, 1.0, (len(margin), n))
            shares.append((drawn / drawn.sum(axis=0)).astype(np.float32))
        return cls(np.full(n, 1 / n, np.float32), tuple(shares))

    def scaled_to(self, margins: Sequence[Floats], times: int) -> Components:
        """The components with margins brought to the given ones, attribute by attribute, repeatedly."""
        weight, shares = self.weight.astype(np.float64), [share.astype(np.float64) for share in self.share]
        for _ in range(times):
            agree = True
            for a, margin in enumerate(margins):
                found = shares[a] @ weight
                if float(np.abs(found - margin).sum()) < _MARGINS_AGREE:
                    continue
                agree = False
                scaled = shares[a] * (margin / np.maximum(found, 1e-300))[:, None]
                sums = scaled.sum(axis=0)
                shares[a] = scaled / np.maximum(sums, 1e-300)
                weight = weight * sums
                weight /= weight.sum()
            if agree:
                break
        return Components(
            weight.astype(np.float32), tuple(_without_traces(share.astype(np.float32)) for share in shares)
        )


def _without_traces(shares: Singles) -> Singles:
    shares[shares < _NO_SHARE] = 0
    return shares


class Target:
    """A noisy table to fit to: how its bins are made of fine ones, and which departures exceed noise."""

    def __init__(
        self, table: Table, variance: float, fine: Sequence[NDArray[np.int32]], n_ordered: Sequence[int]
    ):
        """fine: per attribute of the schema, bins that refine those of the table. n_ordered: codes per
        attribute of the schema that are ordered, from the first on.
        """
        self.attributes = table.shape.attributes
        self.noisy = table.counts.astype(np.float64)
        self.variance = variance
        bins = table.shape.bin_of_code
        self._gathered = [Gathering(of, fine[a]) for a, of in zip(self.attributes, bins, strict=True)]
        ordered = [
            int(of[: n_ordered[a]].max(initial=-1)) + 1 for a, of in zip(self.attributes, bins, strict=True)
        ]
        self._shrink = Shrinkage(ordered, self.noisy.shape, variance)

    def of_model(self, model: Components) -> Floats:
        """The model's probability of each cell."""
        return _cells(*self._factors(model.share), model.weight).reshape(self.noisy.shape)

    def of_margins(self, margins: Sequence[Floats]) -> Floats:
        """The probability of each cell if attributes were independent."""
        table = np.ones(())
        for a, gathered in zip(self.attributes, self._gathered, strict=True):
            table = np.multiply.outer(table, gathered.sums_of_one(margins[a]))
        return table

    def towards(self, expected: Floats, total: float) -> Singles:
        """What to fit: the expected table and what of the departures from it is more than noise; sum 1."""
        counts = expected * total
        moved = counts + self._shrink(self.noisy - counts)
        target = project_to_simplex(moved.reshape(-1), total).reshape(moved.shape) + _LEAST_TARGET * total
        wanted: Singles = (target / target.sum()).astype(np.float32)
        return wanted

    def _factors(self, shares: Sequence[Singles]) -> tuple[list[Singles], Singles]:
        """Shares of the table's bins: of all attributes but the last, and of the last."""
        factors = [of.sums(shares[a]) for a, of in zip(self.attributes, self._gathered, strict=True)]
        return factors[:-1], factors[-1]

    def add_factors(self, target: Singles, model: Components, sums: Sequence[Singles]) -> None:
        """Add to `sums`, per attribute, what each fine bin's share is multiplied by in a round.

        Times weight and share it is the number of records that each component is expected to have in each
        bin.
        """
        left, right = self._factors(model.share)
        joint = _joint(left)
        ratio = target.reshape(len(joint), -1) / np.maximum(joint @ (right * model.weight).T, _LEAST_CELL)
        for_left: Any = ratio @ right
        for_right: Any = ratio.T @ joint
        factors: list[Singles] = [*_others(left, for_left), for_right]
        for a, gathered, factor in zip(self.attributes, self._gathered, factors, strict=True):
            gathered.add_to_fine(factor, sums[a])


def model_table(shape: TableShape, model: Components, fine: Sequence[NDArray[np.int32]]) -> Floats:
    """The model's probability of each cell of a table. fine: the model's bins, per attribute of the
    schema.
    """
    factors = [
        Gathering(bins, fine[a]).sums(model.share[a])
        for a, bins in zip(shape.attributes, shape.bin_of_code, strict=True)
    ]
    return _cells(factors[:-1], factors[-1], model.weight).reshape(shape.shape)


def _cells(left: Sequence[Singles], right: Singles, weight: Singles) -> Floats:
    """Σ_z weight_z · Π factor_z, shape (combinations of bins of `left`, bins of `right`)."""
    found: Floats = ((_joint(left) * weight) @ right.T).astype(np.float64)
    return found


def _joint(factors: Sequence[Singles]) -> Singles:
    """Products over all combinations of bins, shape (n_combinations, n_components)."""
    table = factors[0]
    for factor in factors[1:]:
        table = (table[:, None, :] * factor[None]).reshape(-1, table.shape[-1])
    return table


def _others(factors: Sequence[Singles], values: Singles) -> list[Singles]:
    """For each factor, the sum of values times all other factors, over the others' bins."""
    cube = values.reshape(*map(len, factors), -1)
    found = []
    for i in range(len(factors)):
        rest = cube
        for j in reversed(range(len(factors))):
            if j != i:
                summed = np.einsum("abcz,bz->acz", _around(rest, j), factors[j])
                rest = summed.reshape(*rest.shape[:j], *rest.shape[j + 1 :])
        found.append(rest)
    return found


def _around(cube: Singles, axis: int) -> Singles:
    """The cube as four axes: those before `axis`, itself, those behind, and components."""
    shape = cube.shape
    return cube.reshape(math.prod(shape[:axis]), shape[axis], -1, shape[-1])


def maximise(
    model: Components,
    targets: Sequence[Target],
    wanted: Sequence[Singles],
    rounds: int,
    long_steps: bool = False,
) -> Components:
    """Rounds of expectation maximisation: each raises Σ over tables and cells of wanted · log P(cell).

    long_steps: whether all rounds but the last go further than they would have to, which takes fewer rounds
        to the same end (over-relaxation).
    """
    n_tables = Counter(a for target in targets for a in target.attributes)
    touched = set(n_tables)
    for i in range(rounds):
        sums = [np.zeros_like(share) for share in model.share]
        for target, table in zip(targets, wanted, strict=True):
            target.add_factors(table, model, sums)
        if long_steps and i < rounds - 1:
            sums = [_raised(of, n_tables[a]) for a, of in enumerate(sums)]
        sums = [of * (share * model.weight) for of, share in zip(sums, model.share, strict=True)]
        weight = sum((sums[a].sum(axis=0) for a in sorted(touched)), np.zeros_like(model.weight))
        weight = weight / weight.sum()
        weight[weight < _NO_WEIGHT] = 0
        model = Components(
            weight,
            tuple(
                _without_traces(sums[a] / np.maximum(sums[a].sum(axis=0), np.float32(1e-30)))
                if a in touched
                else share
                for a, share in enumerate(model.share)
            ),
        )
    return model


def _raised(factors: Singles, n_tables: int) -> Singles:
    """Sums of so many factors, which are near 1 each, with their mean to a power."""
    n = np.float32(max(n_tables, 1))
    raised: Singles = n * (factors / n) ** _POWER
    return raised


def fit(
    model: Components,
    targets: Sequence[Target],
    margins: Sequence[Floats],
    total: float,
    passes: int,
    rounds: int,
    step: Callable[[], None],
    fresh: bool = True,
    long_steps: bool = False,
) -> Components:
    """Components fitted to all tables, with the given margins.

    Args:
        model: where to start.
        targets: the tables.
        margins: per attribute the share of records in each fine bin, positive, sum 1.
        total: number of records.
        passes: how often the tables are compared with the model anew.
        rounds: of expectation maximisation in each pass.
        step: called after each pass.
        fresh: whether the start says nothing yet; then tables are first compared with independence.
        long_steps: whether rounds go further, which pays where there is little noise.
    """
    for i in range(passes):
        expected = [
            target.of_margins(margins) if fresh and i == 0 else target.of_model(model) for target in targets
        ]
        wanted = [target.towards(table, total) for target, table in zip(targets, expected, strict=True)]
        model = maximise(model, targets, wanted, rounds, long_steps)
        model = model.scaled_to(margins, _LAST_SCALINGS if i == passes - 1 else _SCALINGS)
        step()
    return model
