"""How the calibrated method divides its budget. Everything follows from public quantities: the budget, the
domain, and released counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from hdpview.errors import MethodError

LEAST_RECORDS_PER_NOISE = (
    30.0  # of the table over the noise of one cell of a pair's table; below, pairs cost more than they tell
)
_LEVELS_PER_HALVING = 1.9  # cuts are uneven: a path needs more of them than halvings would
_MOST_LEVELS = 24
# Histograms of d attributes get d parts of their share, so the more there are, the larger it has to be.
_HISTOGRAM_SHARE, _MORE_PER_ATTRIBUTE, _MOST_FOR_HISTOGRAMS = (
    Fraction("0.3"),
    Fraction("0.015"),
    Fraction("0.65"),
)
SHARES = ("histogram_share", "choice_share", "pair_share", "cut_share")


@dataclass(frozen=True)
class CalibratedSettings:
    """What the curator may choose. What the shares leave is for the counts of blocks.

    histogram_share: of the whole budget, for one histogram per attribute. None: the more, the more attributes
        there are.
    choice_share, pair_share: of what histograms leave, for choosing pairs of attributes, and for their
        tables.
    cut_share: of what histograms leave, for choosing cuts.
    n_bins: bins of an attribute in tables of pairs.
    n_quantiles: cuts considered lie next to these quantiles of a block.
    least_records: a block is cut while it should hold this many times the noise on its count.
    """

    histogram_share: float | None = None
    choice_share: float = 0.08
    pair_share: float = 0.25
    cut_share: float = 0.17
    n_bins: int = 10
    n_quantiles: int = 4
    least_records: float = 10.0

    def __post_init__(self) -> None:
        for name in SHARES if self.histogram_share is not None else SHARES[1:]:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1:
                raise MethodError(f"{name} must lie between 0 and 1, not {value!r}.")
        if sum(Fraction(str(getattr(self, name))) for name in SHARES[1:]) >= 1:
            raise MethodError(
                "The shares of pairs and cuts must leave something for the counts of blocks: choice_share, pair_share and cut_share "
                "have to stay below 1 together."
            )
        for name, most in (("n_bins", 64), ("n_quantiles", 64)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 2 <= value <= most:
                raise MethodError(f"{name} must be a whole number from 2 to {most}, not {value!r}.")
        if (
            isinstance(self.least_records, bool)
            or not isinstance(self.least_records, (int, float))
            or not 0 < self.least_records <= 1e6
        ):
            raise MethodError(f"least_records must be a positive number, not {self.least_records!r}.")


@dataclass(frozen=True)
class Plan:
    """The division of one budget over a domain of `n_attributes`."""

    settings: CalibratedSettings
    epsilon: Fraction
    n_attributes: int

    def share(self, name: str) -> Fraction:
        """Of the whole budget, by the name of its setting."""
        chosen = self.settings.histogram_share
        growing = min(_MOST_FOR_HISTOGRAMS, _HISTOGRAM_SHARE + _MORE_PER_ATTRIBUTE * self.n_attributes)
        of_histograms = growing if chosen is None else Fraction(str(chosen))
        return (
            of_histograms
            if name == "histogram_share"
            else (1 - of_histograms) * Fraction(str(getattr(self.settings, name)))
        )

    def _part(self, name: str) -> Fraction:
        return self.share(name) * self.epsilon

    @property
    def n_pairs(self) -> int:
        """Pairs that make all attributes hang together."""
        return self.n_attributes - 1

    @property
    def epsilon_histogram(self) -> Fraction:
        """Of each attribute's histogram."""
        return self._part("histogram_share") / self.n_attributes

    @property
    def epsilon_choice(self) -> Fraction:
        """Of the choice of each pair."""
        return self._part("choice_share") / self.n_pairs

    @property
    def epsilon_pair(self) -> Fraction:
        """Of each pair's table."""
        return self._part("pair_share") / self.n_pairs

    def takes_pairs(self, noisy_total: float) -> bool:
        """Whether there are records enough for tables of pairs to stand out from their noise."""
        if self.n_pairs < 1:
            return False
        return noisy_total * float(self.epsilon_pair) / math.sqrt(2) >= LEAST_RECORDS_PER_NOISE

    def epsilon_counts(self, with_pairs: bool) -> Fraction:
        """Of the counts of blocks: what the rest leaves."""
        used = self._part("histogram_share") + self._part("cut_share")
        return (
            self.epsilon - used - (self._part("choice_share") + self._part("pair_share") if with_pairs else 0)
        )

    def least_records(self, epsilon_counts: Fraction) -> float:
        """The number of records, by the base, below which a block is not cut. At least one: else large
        budgets make blocks without end.
        """
        return max(1.0, self.settings.least_records / float(epsilon_counts))

    def n_cut_levels(self, noisy_total: float, epsilon_counts: Fraction) -> int:
        """How many cuts there may be on a path."""
        halvings = math.log2(max(2.0, noisy_total / self.least_records(epsilon_counts)))
        return min(_MOST_LEVELS, max(1, round(_LEVELS_PER_HALVING * halvings)))

    def epsilon_cut(self, n_levels: int) -> Fraction:
        """Of one cut."""
        return self._part("cut_share") / n_levels
