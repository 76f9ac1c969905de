"""Quality: what a view knows about its own errors, measured on the table under differential privacy."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from hdpview.view.blocks import Blocks
from hdpview.view.mixture import Mixture
from hdpview.view.tables import Table

N_ORDERS = 4  # errors that show in one attribute, two, three, and four or more together


@dataclass(frozen=True)
class Quality:
    """Sizes of a view's errors.

    factors: per number of attributes (one, two, three, four or more), the size of the model's error as a
        multiple of the scale that intervals give it. See docs/intervals.md.
    measured: whether the factors were measured on the table; otherwise they are the prior's, from other
        tables.
    within: by kind of question, how many records 95 % of the answers are off at most, as the measurement
        implies.
    """

    factors: tuple[float, ...]
    measured: bool = False
    within: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "within", MappingProxyType(dict(self.within)))


# Typical sizes on real tables, from which the measurement starts; see docs/intervals.md.
_OF_BLOCKS = (0.8, 0.8, 0.8, 0.8)
_MOST_OF_ONE = 0.0005  # share of the records
_LEAST, _MOST = 0.01, 0.12  # dependence that tables leave unknown
_WITHOUT_TABLES = 0.2  # dependence where no attributes were counted together
_LEAST_OF_THREE, _OF_THREE = 0.015, 1.1  # at least; times that of two
_OF_FOUR = 1.2  # times that of three
# Of what stays unknown of a pair without a table, what the fit leaves of it with one, as in intervals.
_MISFIT = 0.25
LAPLACE_SQUARES = 5.0  # variance of the square of Laplace noise, in squares of its variance
_MOST_CELLS = 1_000_000  # of a table that is compared with the fit


def prior_quality(components: Blocks | Mixture, tables: Sequence[Table] = ()) -> Quality:
    """What other tables suggest, where nothing was measured.

    Of a mixture: histograms are fitted up to about their noise, and dependence below two or three times the
    noise of the released tables stays unknown; more where the fit misses the tables by more than their noise.
    """
    if isinstance(components, Blocks):
        return Quality(_OF_BLOCKS)
    total = max(float(components.weight.sum()), 1.0)
    of_codes = [math.sqrt(table.variance) / total for table in tables if len(table.attributes) == 1]
    of_one = min(statistics.median(of_codes), _MOST_OF_ONE) if of_codes else _MOST_OF_ONE
    noise = [
        math.sqrt(table.variance * table.counts.size) / total for table in tables if len(table.attributes) > 1
    ]
    misfits = [_misfit(components, table) for table in tables if len(table.attributes) == 2]
    seen = statistics.median(misfits) / _MISFIT if misfits else 0.0
    of_two = min(max(2.5 * statistics.median(noise), _LEAST, seen), _MOST) if noise else _WITHOUT_TABLES
    of_three = max(_OF_THREE * of_two, _LEAST_OF_THREE)
    return Quality((of_one, of_two, of_three, _OF_FOUR * of_three))


def _misfit(components: Mixture, table: Table) -> float:
    """How far a mixture is from a released table of two attributes beyond its noise, as a correlation."""
    if table.counts.size > _MOST_CELLS:
        return 0.0
    fitted = components.table(table.shape)
    excess = float(((fitted - table.counts) ** 2).mean()) / table.variance - 1.0
    # Twice as far as the mean square of the noise itself varies.
    excess -= 2.0 * math.sqrt(LAPLACE_SQUARES / table.counts.size)
    total = float(fitted.sum())
    if excess <= 0.0 or total <= 0.0:
        return 0.0
    spread = [1.0 - float(((fitted.sum(axis=axis) / total) ** 2).sum()) for axis in (1, 0)]
    return math.sqrt(excess * table.variance * table.counts.size / max(spread[0] * spread[1], 1e-9)) / total
