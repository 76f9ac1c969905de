"""Quality: what a view knows about its own errors, measured on the table under differential privacy."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
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


# Typical sizes on real tables, from which the measurement starts.
_OF_BLOCKS = (0.8, 0.8, 0.8, 0.8)  # times the spread inside blocks
_MAX_OF_ONE = 0.0005  # share of the records
_MIN_UNKNOWN = 0.01  # correlation that tables leave unknown, at least
_MAX_UNKNOWN = 0.12  # the same, at most
_UNKNOWN_PER_NOISE = 2.5  # the same, per share of the records that a table's noise makes up
_WITHOUT_TABLES = 0.5  # correlation between attributes that were not counted together


def prior_quality(components: Blocks | Mixture, tables: Sequence[Table] = ()) -> Quality:
    """What other tables suggest, where nothing was measured.

    Of a mixture: histograms are fitted up to about their noise, and dependence below two or three times the
    noise of the released tables stays unknown.
    """
    if isinstance(components, Blocks):
        return Quality(_OF_BLOCKS)
    total = max(float(components.weight.sum()), 1.0)
    of_codes = [math.sqrt(table.variance) / total for table in tables if len(table.attributes) == 1]
    of_one = min(statistics.median(of_codes), _MAX_OF_ONE) if of_codes else _MAX_OF_ONE
    noise = [
        math.sqrt(table.variance * table.counts.size) / total for table in tables if len(table.attributes) > 1
    ]
    unknown = _WITHOUT_TABLES
    if noise:
        counted = {pair for table in tables for pair in combinations(sorted(table.attributes), 2)}
        share = len(counted) / math.comb(len(components.sizes), 2)
        known = min(max(_UNKNOWN_PER_NOISE * statistics.median(noise), _MIN_UNKNOWN), _MAX_UNKNOWN)
        unknown = share * known + (1.0 - share) * _WITHOUT_TABLES
    return Quality((of_one, unknown, unknown, unknown))
