"""Quality: what a view knows about its own errors, measured on the table under differential privacy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from hdpview.view.blocks import Blocks

N_ORDERS = 4  # errors that show in one attribute, two, three, and four or more together


@dataclass(frozen=True)
class Quality:
    """Sizes of a view's errors.

    factors: per number of attributes (one, two, three, four or more), the size of the model's error as a multiple
        of the scale that intervals give it. See docs/intervals.md.
    measured: whether the factors were measured on the table; otherwise they are the prior's, from other tables.
    within: by kind of question, how many records 95 % of the answers are off at most, as the measurement implies.
    """

    factors: tuple[float, ...]
    measured: bool = False
    within: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "within", MappingProxyType(dict(self.within)))


# Medians over tables, from `hdpview bench quality`; see docs/intervals.md.
_PRIOR_OF_BLOCKS = (0.15, 0.3, 0.5, 0.7)
_PRIOR_OF_MIXTURES = (0.002, 0.01, 0.02, 0.03)


def prior_quality(components: object) -> Quality:
    """What other tables suggest, where nothing was measured."""
    return Quality(_PRIOR_OF_BLOCKS if isinstance(components, Blocks) else _PRIOR_OF_MIXTURES)
