"""Quality: how large a view's own errors are, measured on the table under differential privacy."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from hdpview.view.blocks import Blocks
from hdpview.view.mixture import Mixture
from hdpview.view.tables import Table

N_ORDERS = 4  # questions about one, two, three, and four or more attributes


@dataclass(frozen=True)
class Quality:
    """Sizes of a view's errors.

    factors: the model's error for questions about one, two, three, and four or more attributes, as a multiple
        of the scale that intervals give it. See docs/intervals.md.
    measured: True if the factors were measured on the table; otherwise prior values from others.
    within: by kind of question, the error in records that 95% of the answers stay within.
    """

    factors: tuple[float, ...]
    measured: bool = False
    within: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "within", MappingProxyType(dict(self.within)))


# Prior factors: typical values on real tables (docs/intervals.md), from which the measurement starts.
_BLOCKS = (0.8, 0.8, 0.8, 0.8)
# One attribute: share of the records.
_MAX_ONE = 0.0005
# Two attributes: dependence that released tables leave unknown, as a correlation.
_MIN_TWO = 0.01
_MAX_TWO = 0.12
# Two attributes, if no pair was counted together.
_WITHOUT_TABLES = 0.2
# Three attributes: at least this, and this multiple of the factor for two.
_MIN_THREE = 0.015
_THREE_PER_TWO = 1.1
# Four or more attributes: multiple of the factor for three.
_FOUR_PER_THREE = 1.2
# Share of a pair's dependence that a fit misses although its table was released; as in intervals.
_MISFIT = 0.25
# Variance of the square of Laplace noise, in units of its squared variance.
LAPLACE_SQUARES = 5.0
# Cells of the largest table that is compared with the fit.
_MAX_CELLS = 1_000_000


def prior_quality(components: Blocks | Mixture, tables: Sequence[Table] = ()) -> Quality:
    """Prior factors from other tables, used before or without a measurement.

    A mixture fits histograms up to about their noise. Dependence below two or three times the noise of the
    released tables stays unknown, and more if the fit misses the tables by more than their noise.
    """
    if isinstance(components, Blocks):
        return Quality(_BLOCKS)
    total = max(float(components.weight.sum()), 1.0)
    histograms = [table for table in tables if len(table.attributes) == 1]
    joint = [table for table in tables if len(table.attributes) > 1]
    one = min([_MAX_ONE, *_median([math.sqrt(table.variance) / total for table in histograms])])
    noise = _median([math.sqrt(table.variance * table.counts.size) / total for table in joint])
    misfits = _median([_misfit(components, table) for table in joint if len(table.attributes) == 2])
    known = [2.5 * noise[0], _MIN_TWO, *(misfit / _MISFIT for misfit in misfits)] if noise else []
    two = min(max(known), _MAX_TWO) if known else _WITHOUT_TABLES
    three = max(_THREE_PER_TWO * two, _MIN_THREE)
    return Quality((one, two, three, _FOUR_PER_THREE * three))


def _median(values: Sequence[float]) -> list[float]:
    """The median as a list, empty if there are no values."""
    return [statistics.median(values)] if values else []


def _misfit(components: Mixture, table: Table) -> float:
    """Distance of a mixture from a released table of two attributes beyond its noise, as a correlation."""
    if table.counts.size > _MAX_CELLS:
        return 0.0
    fitted = components.table(table.shape)
    excess = float(((fitted - table.counts) ** 2).mean()) / table.variance - 1.0
    # Two standard deviations of the mean square of the noise.
    excess -= 2.0 * math.sqrt(LAPLACE_SQUARES / table.counts.size)
    total = float(fitted.sum())
    if excess <= 0.0 or total <= 0.0:
        return 0.0
    spread = [1.0 - float(((fitted.sum(axis=axis) / total) ** 2).sum()) for axis in (1, 0)]
    return math.sqrt(excess * table.variance * table.counts.size / max(spread[0] * spread[1], 1e-9)) / total
