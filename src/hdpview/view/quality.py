"""Quality: the size of a view's errors, measured on the table under differential privacy."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from types import MappingProxyType

from hdpview.view.blocks import Blocks
from hdpview.view.mixture import Mixture
from hdpview.view.released_tables import Table

N_ORDERS = 4  # errors in questions about one attribute, two, three, and four or more


@dataclass(frozen=True)
class Quality:
    """Sizes of a view's errors.

    factors: per number of attributes (one, two, three, four or more), the size of the model's error as a
        multiple of the scale that intervals assume. See docs/intervals.md.
    measured: whether the factors were measured on the table; if not, they come from other tables.
    within: by kind of question, the number of records within which 95% of the answers lie.
    """

    factors: tuple[float, ...]
    measured: bool = False
    within: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "within", MappingProxyType(dict(self.within)))


# Typical sizes on real tables, used as prior of the measurement.
_OF_BLOCKS = (0.8, 0.8, 0.8, 0.8)  # multiples of the spread inside blocks
_MAX_OF_ONE = 0.0005  # share of the records
_MIN_UNKNOWN = 0.01  # smallest correlation that tables leave unknown
# Largest correlation that tables leave unknown: on phoneme, fars and adult at ε = 0.1, 0.12 held 83% of the
# populated cells of one kind, and 0.5 made scores 0.1 worse.
_MAX_UNKNOWN = 0.2
_UNKNOWN_PER_NOISE = 2.5  # unknown correlation per ratio of a table's noise to the records
_WITHOUT_TABLES = 0.5  # correlation between attributes that no table counted together


def prior_quality(components: Blocks | Mixture, tables: Sequence[Table] = ()) -> Quality:
    """The quality to expect from experience with other tables.

    A mixture fits histograms up to about their noise; dependence below two or three times the noise of the
    released tables stays unknown.
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
        # Builds count the most dependent pairs first, so the fewer pairs are left, the weaker they are.
        unknown = share * known + (1.0 - share) ** 2 * _WITHOUT_TABLES
    return Quality((of_one, unknown, unknown, unknown))
