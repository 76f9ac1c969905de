"""What a cluster would exchange: blocks too large for one machine are cut from histograms that every
partition counts and all add up.

    level 1      level 2          …   until a block's rows fit one machine: then its rows travel there once, and the rest is local
    ┌────┐     ┌────┬────┐
    │    │     │    │    │       each partition sends, per open block, whole numbers: 2 for the block, 2 per value of every attribute
    └────┘     └────┴────┘       the driver adds them up, decides, and sends back the cuts

`simulate` does this on a table in memory and counts every byte; `plan` is its arithmetic for tables and
clusters of any size.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdpview.bench.trees import random_counts
from hdpview.counts.sparse import SparseCounts
from hdpview.engine.local import LocalEngine
from hdpview.methods import Hdpview
from hdpview.partition.parameters import PartitionParameters
from hdpview.privacy.budget import exact_epsilon
from hdpview.privacy.randomness import Randomness

Row = dict[str, Any]
_BYTES = 8  # of a whole number
_BYTES_OF_A_CUT = 16  # node, attribute and cut point, sent back to every partition


@dataclass(frozen=True)
class Cluster:
    """Machines with so many cores each, a network link each of so many bytes per second, one partition per
    core.
    """

    machines: int
    cores: int = 16
    bytes_per_second: float = 1.25e9  # 10 Gbit/s

    @property
    def partitions(self) -> int:
        return self.machines * self.cores


@dataclass(frozen=True)
class Level:
    """One exchange: all open blocks of a level at once. Bytes that come in at the driver, and that go out
    from it.
    """

    level: int
    blocks: int
    bytes_in: int
    bytes_out: int


def message_bytes(n_blocks: int, sizes: tuple[int, ...]) -> int:
    """What one sender sends for so many open blocks."""
    return n_blocks * (2 + 2 * sum(sizes)) * _BYTES


def plan(n_rows: float, sizes: tuple[int, ...], senders: int, rows_per_machine: float) -> list[Level]:
    """The exchanges of a tree that halves its rows at every cut, until no block has more than
    `rows_per_machine`.
    """
    n_levels = max(0, math.ceil(math.log2(max(1.0, n_rows / rows_per_machine))))
    blocks = [2**k for k in range(n_levels)]
    return [
        Level(k + 1, n, senders * message_bytes(n, sizes), senders * n * _BYTES_OF_A_CUT)
        for k, n in enumerate(blocks)
    ]


def simulate(
    counts: SparseCounts, n_partitions: int, rows_per_machine: int
) -> tuple[list[Level], NDArray[np.int64]]:
    """Cut at the median of the attributes in turn, from added-up histograms alone. Returns the exchanges, and
    the rows of the blocks at the end. Every partition sees only its own rows; the cuts are those of the whole
    table, which `tests` check against brute force.
    """
    sizes, n_attributes = counts.schema.sizes, len(counts.schema)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    parts = [
        (c, x, np.zeros(len(x), np.int64)) for c, x in _partitions(counts, n_partitions)
    ]  # the last: which block a row is in
    levels: list[Level] = []
    blocks, finished = [0], list[int]()
    while blocks:
        sent = [_statistics(part, blocks, offsets) for part in parts]
        total = np.sum(sent, axis=0)
        n_sums, cuts, a = sum(sizes), {}, len(levels) % n_attributes
        for own, block in zip(total, blocks, strict=True):
            occupied = own[2 + n_sums + offsets[a] : 2 + n_sums + offsets[a + 1]]
            half = int(np.searchsorted(np.cumsum(occupied), own[0] / 2))
            if own[0] <= rows_per_machine or half + 1 >= sizes[a]:
                finished.append(int(own[0]))
            else:
                cuts[block] = half + 1
        levels.append(
            Level(
                len(levels) + 1,
                len(blocks),
                sum(s.nbytes for s in sent),
                len(parts) * len(cuts) * _BYTES_OF_A_CUT,
            )
        )
        for codes, _, inside in parts:
            for block, cut in cuts.items():
                own_rows = inside == block
                inside[own_rows] = 2 * block + 1 + (codes[own_rows, a] >= cut)
        blocks = [child for block in cuts for child in (2 * block + 1, 2 * block + 2)]
    return levels, np.array(finished)


def _partitions(counts: SparseCounts, n: int) -> list[tuple[NDArray[Any], NDArray[np.int64]]]:
    edges = np.linspace(0, len(counts.exact_counts), n + 1).astype(int)
    return [(counts.exact_codes[i:j], counts.exact_counts[i:j]) for i, j in pairwise(edges)]


def _statistics(
    part: tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]], blocks: list[int], offsets: Any
) -> NDArray[np.int64]:
    """Per block: occupied cells, records; records per value of every attribute; occupied cells per value."""
    codes, counts, inside = part
    n_values = int(offsets[-1])
    out = np.zeros((len(blocks), 2 + 2 * n_values), np.int64)
    for row, block in zip(out, blocks, strict=True):
        own = inside == block
        row[0], row[1] = own.sum(), counts[own].sum()
        for a in range(codes.shape[1]):
            width = int(offsets[a + 1] - offsets[a])
            at = 2 + int(offsets[a])
            row[at : at + width] = np.bincount(codes[own, a], counts[own], width).astype(np.int64)
            row[at + n_values : at + n_values + width] = np.bincount(codes[own, a], minlength=width)
    return out


@dataclass(frozen=True)
class Constants:
    """Measured on one core of this machine: reading and grouping per row, growing per cell × attribute ×
    level; how deep rows lie.
    """

    read_ns: float
    grow_ns: float
    depth: float
    depth_per_doubling: float
    n_rows: int


def measured_constants(n_rows: int, read_ns: float, n_attributes: int = 10) -> Constants:
    """Growth at an eighth of the rows and at all of them gives the depth's slope."""
    depths, grow_ns = [], 0.0
    for n in (n_rows // 8, n_rows):
        counts = random_counts(n, n_attributes)
        parameters = PartitionParameters.choose(Hdpview(), exact_epsilon(1), counts.schema.n_cells)
        engine, key = LocalEngine(1), Randomness.fresh().root_key("partition")
        started = time.process_time()
        leaves = engine.grow(counts, parameters, key)
        seconds = time.process_time() - started
        levels = float(((leaves.exact_last - leaves.exact_first) * leaves.depth.astype(np.int64)).sum())
        depths.append(levels / len(counts.exact_counts))
        grow_ns = seconds * 1e9 / levels / n_attributes
    return Constants(read_ns, grow_ns, depths[1], (depths[1] - depths[0]) / 3, n_rows)


def cluster_row(
    n_rows: float, cluster: Cluster, constants: Constants, n_attributes: int = 10, size: int = 100
) -> Row:
    """Time and traffic for a table of so many rows, every one a cell of its own, on paper."""
    sizes = (size,) * n_attributes
    rows_per_machine = n_rows / cluster.machines / 4  # four blocks per machine even out their sizes
    levels = plan(
        n_rows, sizes, cluster.machines, rows_per_machine
    )  # partitions of a machine add up before they send
    cell_bytes = n_attributes + _BYTES
    traffic = sum(level.bytes_in + level.bytes_out for level in levels)
    shuffled = (
        2 * n_rows * cell_bytes
    )  # once to bring equal cells together, once to the machine that grows their block
    depth = constants.depth + constants.depth_per_doubling * math.log2(n_rows / constants.n_rows)
    cores = cluster.partitions
    top_seconds = len(levels) * n_rows * n_attributes * constants.grow_ns * 1e-9 / cores
    return {
        "rows": f"{n_rows:.0e}",
        "machines × cores": f"{cluster.machines:,} × {cluster.cores}",
        "exchanges": len(levels),
        "driver_in_mb": round(sum(level.bytes_in for level in levels) / 1e6),
        "driver_s": round(traffic / cluster.bytes_per_second, 1),
        "shuffled_tb": round(shuffled / 1e12, 2),
        "shuffle_s": round(shuffled / cluster.machines / cluster.bytes_per_second),
        "read_s": round(n_rows * constants.read_ns * 1e-9 / cores),
        "top_levels_s": round(top_seconds),
        "grow_s": round(
            n_rows * n_attributes * max(0.0, depth - len(levels)) * constants.grow_ns * 1e-9 / cores
        ),
        "levels_per_row": round(depth, 1),
        "cell_gb_per_machine": round(n_rows * cell_bytes / cluster.machines / 1e9, 1),
    }
