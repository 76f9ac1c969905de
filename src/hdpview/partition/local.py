"""The local engine: grows a partition on the cores of this machine. It has no randomness of its own.

Blocks with many rows are grown one decision at a time, so that their halves can go to different threads; a
block with few rows is grown to its end in one task. Every block draws from its own key and owns its own rows,
so the result is the same for any number of threads and any order of work.
"""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdpview.counts.exact_statistics import CellCounts
from hdpview.counts.sparse import local_cells
from hdpview.machine import available_cores
from hdpview.partition.grow import ExactBlocks, grow, root
from hdpview.partition.parameters import PartitionParameters
from hdpview.progress import Progress

# Rows below which handing a block to another thread costs about as much as growing it.
_ROWS_PER_TASK = 20_000
_Path = tuple[int, ...]  # 0 for a left half, 1 for a right one; sorts leaves depth-first


@dataclass(frozen=True)
class LocalEngine:
    """Grows partitions with `threads` threads; by default as many as the process may use."""

    threads: int | None = None

    def grow(
        self,
        counts: CellCounts,
        parameters: PartitionParameters,
        key: NDArray[np.uint32],
        progress: Progress | None = None,
    ) -> ExactBlocks:
        """All leaves, in depth-first order. Rows of `counts` are reordered in place."""
        cells = local_cells(counts)
        codes, row_counts = cells.exact_codes, cells.exact_counts
        domain = root(counts.schema.sizes, row_counts, key)
        if len(row_counts) <= _ROWS_PER_TASK:  # faster than starting threads
            return grow(codes, row_counts, domain, parameters)[0]
        n_rows = len(row_counts)
        leaves: list[tuple[_Path, ExactBlocks]] = []
        running: dict[Future[tuple[ExactBlocks, ExactBlocks]], tuple[_Path, int]] = {}
        n_done = 0
        with ThreadPoolExecutor(self.threads or available_cores()) as pool:

            def start(block: ExactBlocks, path: _Path) -> None:
                size = int(block.exact_last[0] - block.exact_first[0])
                steps = 1 if size > _ROWS_PER_TASK else 2**62
                running[pool.submit(grow, codes, row_counts, block, parameters, steps)] = (path, size)

            start(domain, ())
            try:
                while running:
                    for task in wait(running, return_when=FIRST_COMPLETED).done:
                        path, size = running.pop(task)
                        grown, pending = task.result()
                        if len(grown):
                            leaves.append((path, grown))
                        for side in range(len(pending)):
                            start(pending[side : side + 1], (*path, side))
                        n_done += size if not len(pending) else 0
                        if progress is not None:
                            progress(n_done / n_rows, "growing blocks")
            except BaseException:
                # On Ctrl-C, wait for running tasks and start no others.
                pool.shutdown(wait=True, cancel_futures=True)
                raise
        return ExactBlocks.concatenate([blocks for _, blocks in sorted(leaves, key=lambda leaf: leaf[0])])
