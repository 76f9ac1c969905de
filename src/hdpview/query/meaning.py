"""From what size on a count means something, in this view."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hdpview.query.answers import with_intervals
from hdpview.query.noise_width import NoiseLaw
from hdpview.query.summary import summarise
from hdpview.query.workloads import as_questions, draw
from hdpview.view.data import ViewData

_N_RANGES = 32  # few enough to be answered at once


class Meaning(NamedTuple):
    """Half widths of intervals, in records: counts below them cannot be told from 0.

    one_block: of the noise on a single block's count.
    two_way_range: of the typical interval, for the median of random ranges of two attributes (of one, where
        there is only one).
    """

    one_block: float
    two_way_range: float

    def __str__(self) -> str:
        return (
            f"a count that follows block borders means something from about {self.one_block:,.0f} on; "
            f"a range of two attributes, from about {self.two_way_range:,.0f} on (95 %)"
        )


def smallest_meaningful_counts(view: ViewData, confidence: float = 0.95) -> Meaning:
    """How large counts must be before they mean something."""
    law, one, sizes = NoiseLaw(view.manifest.noise_scale), np.ones(1), view.schema.sizes
    ranges = draw("random-2d" if len(sizes) > 1 else "range-1d", sizes, _N_RANGES, np.random.default_rng(0))
    assert ranges is not None
    answers = with_intervals(
        summarise(view.blocks, as_questions(ranges, sizes)), law, confidence, counts="raw"
    )
    return Meaning(
        float(law.half_width(one, one, one, confidence)[0]),
        float(np.median(answers.upper - answers.lower)) / 2,
    )
