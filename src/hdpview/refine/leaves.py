"""Spend more on a view by the paper's method: less noise on the counts of its blocks. [P17]

Blocks are disjoint, so a record counts in one of them, and each count gets all that is spent. None is cut
again: where to cut was decided with the budget of the build.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from hdpview.counts.protocol import Counts
from hdpview.domain.tables import CodeBoxes
from hdpview.methods.protocol import Engine, Method, Progress, ViewRelease
from hdpview.privacy.exact import Exact
from hdpview.privacy.mechanism import Mechanism
from hdpview.privacy.noise import laplace_scale
from hdpview.refine.tables import why_not_these
from hdpview.view.blocks import Blocks


@dataclass(frozen=True, eq=False)
class FinerCounts(Method):
    """The blocks of a view, which tile the domain, and the checksum of that view."""

    name = "hdpview"
    makes_views = True
    supports_spark = True
    reads = "tables"
    blocks: Blocks
    refined_view: str = ""

    def __repr__(self) -> str:
        return f"FinerCounts(of {self.refined_view})"

    def why_not_this_table(self, counts: Counts) -> str | None:
        """Why the counts cannot be those of the table that the view was built from; None if they can."""
        return why_not_these([(self._exact(counts), self.blocks.noisy_counts, self.blocks.noise_scale)])

    def release(
        self, counts: Counts, mechanism: Mechanism, engine: Engine, progress: Progress | None = None
    ) -> ViewRelease:
        blocks, amount = self.blocks, mechanism.total
        finer = mechanism.refined(
            "less noise on counts",
            self._exact(counts, progress),
            blocks.noisy_counts,
            blocks.noise_scale,
            amount,
        )
        scale = laplace_scale(1 / Fraction(blocks.noise_scale) + amount)
        return ViewRelease(replace(blocks, noisy_counts=finer, noise_scale=scale))

    def _exact(self, counts: Counts, progress: Progress | None = None) -> Exact:
        lower, upper = self.blocks.lower.astype(np.int64), self.blocks.upper.astype(np.int64)
        attribute = np.tile(np.arange(lower.shape[1]), (len(lower), 1))
        # Blocks tile the domain, as a reader of files checks: a record is in one of them.
        return counts.exact_box_counts(CodeBoxes(attribute, lower, upper), progress).apart()
