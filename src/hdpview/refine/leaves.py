"""Spend more on a view by the paper's method: less noise on the counts of its blocks. [P17]

Blocks are disjoint, so a record counts in one of them, and each count gets the whole budget. No block is cut
again: the cuts were decided with the budget of the build.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from hdpview.counts.exact_statistics import Counts
from hdpview.domain.table_shapes import CodeBoxes
from hdpview.methods.protocol import Engine, Method, Progress, ViewRelease
from hdpview.privacy.exact import Exact
from hdpview.privacy.mechanism import Mechanism
from hdpview.privacy.noise import laplace_scale
from hdpview.refine.tables import why_not_these
from hdpview.view.blocks import Blocks


@dataclass(frozen=True, eq=False)
class FinerCounts(Method):
    """Measures the blocks of a view again, with less noise. The blocks tile the domain."""

    name = "hdpview"
    makes_views = True
    supports_spark = True
    reads = "tables"
    blocks: Blocks = field(repr=False)
    refined_view: str = ""

    def why_not_this_table(self, counts: Counts) -> str | None:
        return why_not_these([(self._exact(counts), self.blocks.noisy_counts, self.blocks.noise_scale)])

    def release(
        self, counts: Counts, mechanism: Mechanism, engine: Engine, progress: Progress | None = None
    ) -> ViewRelease:
        noisy, scale, amount = self.blocks.noisy_counts, self.blocks.noise_scale, mechanism.total
        exact = self._exact(counts, progress)
        finer = mechanism.refined("less noise on counts", exact, noisy, scale, amount)
        less = laplace_scale(1 / Fraction(scale) + amount)
        return ViewRelease(replace(self.blocks, noisy_counts=finer, noise_scale=less))

    def _exact(self, counts: Counts, progress: Progress | None = None) -> Exact:
        lower, upper = self.blocks.lower.astype(np.int64), self.blocks.upper.astype(np.int64)
        attribute = np.tile(np.arange(lower.shape[1]), (len(lower), 1))
        # Blocks tile the domain, which is checked when a file is read, so a record is in one of them.
        return counts.exact_box_counts(CodeBoxes(attribute, lower, upper), progress).apart()
