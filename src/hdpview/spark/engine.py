"""The Spark engine: grows a partition whose cells are spread over a cluster. It has no randomness of its own.

    blocks too large for one task:  sum the histograms of all partitions ─▶ decide here ─▶ next level
    blocks that fit one task:       bring a block's rows together ─▶ grow it to its leaves inside the task

Only sums and leaves come to this machine, never cells. Decisions use integers that do not depend on how rows
are spread, and draws keyed by a block's place in the tree. So the result equals that of the local engine for
any number of partitions, also if tasks are lost and run again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from hdpview.counts.exact_statistics import CellCounts
from hdpview.counts.sparse import Codes, code_type
from hdpview.errors import DataError, MethodError
from hdpview.partition.decide import ExactAbove, ExactStatistics, PaperDecisions, least_above_mean
from hdpview.partition.grow import ExactBlocks, root
from hdpview.partition.parameters import PartitionParameters
from hdpview.partition.top import Top
from hdpview.progress import Progress
from hdpview.spark import tasks
from hdpview.spark.counts import CHANGED, DistributedCounts
from hdpview.spark.session import run_job, sums_by_slot

Integers = NDArray[np.int64]

# Maximum cells grown inside one task: about 20 bytes each, twice while they are gathered, so 160 MB.
_MOST_CELLS_PER_TASK = 4_000_000
# Cells below which one more pass over all cells costs more than spreading the block over tasks saves.
_LEAST_CELLS_PER_TASK = 500_000
# Tasks per core, so that a slow one does not hold up the rest.
_TASKS_PER_CORE = 4
_STEP = "Growing blocks"


class SparkEngine:
    """Grows partitions of counts that live on a Spark cluster."""

    def grow(
        self,
        counts: CellCounts,
        parameters: PartitionParameters,
        key: NDArray[np.uint32],
        progress: Progress | None = None,
    ) -> ExactBlocks:
        """All leaves, in depth-first order."""
        if not isinstance(counts, DistributedCounts):
            raise MethodError("These cells are on this machine. Build with engine='local'.")
        decisions = PaperDecisions(parameters, counts.schema.sizes)
        growth = _Growth(counts, decisions, Top(_root(counts, key)), progress)
        # Blocks of more cells are grown level by level on all workers. This does not affect the view.
        share: int = counts.exact_n_cells // counts.session.sparkContext.defaultParallelism
        limit = min(_MOST_CELLS_PER_TASK, max(_LEAST_CELLS_PER_TASK, share))
        level = [0] if counts.exact_n_cells > limit else []
        leaves: set[int] = set()
        while level:
            level, kept = growth.cut_level(level, limit)
            leaves.update(kept)
        return growth.finish(leaves)


@dataclass(frozen=True)
class _Growth:
    """A tree that is being grown."""

    counts: DistributedCounts
    decisions: PaperDecisions
    top: Top
    progress: Progress | None

    def cut_level(self, nodes: list[int], limit: int) -> tuple[list[int], list[int]]:
        """Decide about blocks of more than `limit` cells: their large halves, and the blocks left whole."""
        statistics = self._statistics(nodes)
        above = self._above(nodes, statistics)
        large, leaves = [], []
        for node, numbers in zip(nodes, statistics, strict=True):
            block = self.top.blocks[node]
            chosen = self.decisions.cut(block, numbers, above.get(node))
            if chosen is None:
                leaves.append(node)
                continue
            attribute, cut = chosen
            offset = self.decisions.offsets[attribute]
            left = slice(offset + block.lower[0, attribute], offset + cut)
            n_left, left_sum = int(numbers.exact_occupied[left].sum()), int(numbers.exact_sums[left].sum())
            halves = self.top.halve(node, attribute, cut, n_left, left_sum)
            large += [half for half in halves if _n_cells(self.top.blocks[half]) > limit]
        return large, leaves

    def finish(self, whole: set[int]) -> ExactBlocks:
        """The leaves of all blocks. The blocks in `whole` are leaves themselves."""
        ends = self.top.ends()
        full = [node for node in ends if node not in whole and _n_cells(self.top.blocks[node])]
        grown = dict(zip(full, self._subtrees(full), strict=True))
        leaves = [
            self.top.blocks[node] if node in whole else grown[node] if node in grown else self._empty(node)
            for node in ends
        ]
        return ExactBlocks.concatenate(leaves)

    def _statistics(self, nodes: list[int]) -> list[ExactStatistics]:
        n_values = sum(self.counts.schema.sizes)
        least = np.array([least_above_mean(self.top.blocks[node]) for node in nodes], np.int64)
        task = self._task(tasks.statistics, nodes, n_values=n_values, least_above=least)
        return [ExactStatistics.of(row) for row in self._summed(task, [2 + 2 * n_values] * len(nodes))]

    def _summed(self, task: tasks.Task, lengths: list[int]) -> list[Integers]:
        counts = self.counts
        return sums_by_slot(counts.session, counts.exact_chunks, task, lengths, self.progress, _STEP)

    def _above(self, nodes: list[int], statistics: list[ExactStatistics]) -> dict[int, ExactAbove]:
        """Cells above the mean of either side of each cut, for the blocks that need them: one pass."""
        pairs = zip(nodes, statistics, strict=True)
        least_of = {node: self.decisions.least_above(self.top.blocks[node], own) for node, own in pairs}
        asked = {node: least for node, least in least_of.items() if least is not None}
        if not asked:
            return {}
        dense = list(asked)
        blocks = ExactBlocks.concatenate([self.top.blocks[node] for node in dense])
        least = tuple(np.stack([own[side] for own in asked.values()]) for side in (0, 1))
        bounds = blocks.lower, blocks.upper
        task = self._task(tasks.above_cuts, dense, sides=(*bounds, *least))
        numbers = self._summed(task, [3 * sum(self.counts.schema.sizes)] * len(dense))
        return {node: ExactAbove(*sides.reshape(3, -1)) for node, sides in zip(dense, numbers, strict=True)}

    def _subtrees(self, nodes: list[int]) -> list[ExactBlocks]:
        """The leaves below each of these nodes."""
        if not nodes:
            return []
        session = self.counts.session
        blocks = tuple(self.top.blocks[node] for node in nodes)
        n_tasks = min(len(nodes), _TASKS_PER_CORE * session.sparkContext.defaultParallelism)
        by_slot = partial(tasks.cells_by_slot, layout=self.counts.layout, route=self.top.route(nodes))
        cells = self.counts.exact_chunks.mapPartitions(by_slot).groupByKey(n_tasks)
        grown = cells.map(partial(tasks.subtree, blocks=blocks, finish=self.decisions.finish))
        leaves_of_slot = {slot: row for slot, *row in run_job(session, grown.collect, self.progress, _STEP)}
        leaves = []
        for slot, block in enumerate(blocks):
            n_cells, total, own = leaves_of_slot.get(slot, (0, 0, block))
            if (n_cells, total) != (_n_cells(block), int(block.exact_sum[0])):
                raise DataError(CHANGED)
            leaves.append(own)
        return leaves

    def _empty(self, node: int) -> ExactBlocks:
        """The leaves of a block without rows, which no task receives."""
        schema = self.counts.schema
        codes = cast("Codes", np.empty((0, len(schema)), code_type(schema)))
        return tasks.finished(codes, np.empty(0, np.int64), self.top.blocks[node], self.decisions.finish)

    def _task(self, task: Callable[..., tasks.Numbers], nodes: list[int], **arguments: Any) -> tasks.Task:
        route, offsets = self.top.route(nodes), self.decisions.offsets
        return partial(task, layout=self.counts.layout, route=route, offsets=offsets, **arguments)


def _root(counts: DistributedCounts, key: NDArray[np.uint32]) -> ExactBlocks:
    empty = root(counts.schema.sizes, np.empty(0, np.int64), key)
    return replace(
        empty,
        exact_last=np.array([counts.exact_n_cells], np.int64),
        exact_sum=np.array([counts.exact_total], np.int64),
    )


def _n_cells(block: ExactBlocks) -> int:
    return int(block.exact_last[0] - block.exact_first[0])
