"""Where the time of a build goes.

Growing is one compiled loop, in which a clock would cost more than what it measures. So a finished tree is
replayed: the same cuts of the same rows, once moving rows alone, once with the statistics that the decisions
need, once with the random numbers alone. What a growth takes beyond these is choosing among the cuts and
keeping the books.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.bench.large import write_random_table
from hdpview.counts.ingest import read_counts
from hdpview.counts.sparse import SparseCounts
from hdpview.domain import Integer, Schema
from hdpview.engine.local import LocalEngine
from hdpview.methods import Hdpview
from hdpview.partition.cut import sampling
from hdpview.partition.deviations import cut_deviations, new_work
from hdpview.partition.grow import ExactBlocks, offsets_of
from hdpview.partition.kernels import absolute_deviation, compiled, new_scratch, split_rows, volume
from hdpview.partition.parameters import PartitionParameters
from hdpview.privacy.noise import noisy_counts
from hdpview.privacy.randomness import Randomness, child_keys, draw, new_stream
from hdpview.pview import PView

Row = dict[str, Any]
_EPSILON = Fraction(1)
_SIZE = 100


class Nodes(NamedTuple):
    """A tree in depth-first order, left before right.

    attribute, cut: shape (n_nodes,), int64; attribute −1 for a leaf.
    lower, upper: shape (n_nodes, n_attributes), int32.
    depth: shape (n_nodes,), int64.
    """

    attribute: NDArray[np.int64]
    cut: NDArray[np.int64]
    lower: NDArray[np.int32]
    upper: NDArray[np.int32]
    depth: NDArray[np.int64]


def tree_of(leaves: ExactBlocks) -> Nodes:
    """All nodes above the leaves: depths and order say which cuts were made."""
    lower, upper, depth = leaves.lower, leaves.upper, leaves.depth.tolist()
    nodes: list[tuple[int, int, NDArray[np.int32], NDArray[np.int32], int]] = []
    ends = _last_leaves(depth)
    open_nodes = [(0, 1)]  # first leaf below, depth
    while open_nodes:
        first, level = open_nodes.pop()
        if depth[first] == level:
            nodes.append((-1, 0, lower[first], upper[first], level))
            continue
        last, middle = ends[(first, level)], ends[(first, level + 1)] + 1
        low, high = lower[first : last + 1].min(axis=0), upper[first : last + 1].max(axis=0)
        left_high = upper[first:middle].max(axis=0)
        a = int(np.flatnonzero(left_high < high)[0])
        nodes.append((a, int(left_high[a]), low, high, level))
        open_nodes += [(middle, level + 1), (first, level + 1)]
    attribute, cut, lows, highs, levels = zip(*nodes, strict=True)
    return Nodes(
        np.array(attribute),
        np.array(cut),
        np.array(lows, np.int32),
        np.array(highs, np.int32),
        np.array(levels),
    )


def _last_leaves(depths: list[int]) -> dict[tuple[int, int], int]:
    """Last leaf below the node at a depth that begins with a leaf. Two halves at depth k make a node at depth
    k − 1.
    """
    found: dict[tuple[int, int], int] = {}
    done: list[tuple[int, int, int]] = []  # first leaf, last leaf, depth
    for i, depth in enumerate(depths):
        node = (i, i, depth)
        found[(i, depth)] = i
        while done and done[-1][2] == node[2]:
            left = done.pop()
            node = (left[0], node[1], node[2] - 1)
            found[(node[0], node[2])] = node[1]
        done.append(node)
    return found


@compiled
def _replay(codes, counts, nodes, with_statistics, epsilon_cut, n_private_levels, offsets):  # type: ignore[no-untyped-def]
    """Make the cuts again. Returns something that depends on all that was computed, so that nothing is left
    out as useless.
    """
    scratch, work = new_scratch(), new_work(offsets[-1] + nodes.upper[0, -1], len(counts))
    firsts, lasts, sums = np.zeros(4096, np.int64), np.zeros(4096, np.int64), np.zeros(4096, np.int64)
    lasts[0], sums[0], n_open, seen = len(counts), counts.sum(), 1, 0.0
    for node in range(len(nodes.attribute)):
        n_open -= 1
        first, last, total, a = firsts[n_open], lasts[n_open], sums[n_open], nodes.attribute[node]
        if with_statistics:
            lower, upper = nodes.lower[node], nodes.upper[node]
            n_cells = volume(lower, upper)
            if n_cells > 1.0:
                seen += absolute_deviation(counts, first, last, total, n_cells)
            is_private = a >= 0 and nodes.depth[node] <= n_private_levels
            if is_private and not sampling(lower, upper, total, last - first, n_cells, epsilon_cut)[2]:
                seen += cut_deviations(
                    codes, counts, first, last, offsets, lower, upper, total, n_cells, work
                )
        if a >= 0:
            n_left, left_sum = split_rows(codes, counts, first, last, a, nodes.cut[node], scratch)
            firsts[n_open], lasts[n_open], sums[n_open] = first + n_left, last, total - left_sum
            firsts[n_open + 1], lasts[n_open + 1], sums[n_open + 1] = first, first + n_left, left_sum
            n_open += 2
    return seen


@compiled
def _draw_again(key, nodes):  # type: ignore[no-untyped-def]
    """As many random numbers as the tree took: a decision per node, and for each cut its place and two
    keys.
    """
    stream, seen = new_stream(), 0.0
    for node in range(len(nodes.attribute)):
        seen += draw(key, 0, stream)
        if nodes.attribute[node] >= 0:
            seen += draw(key, 1, stream) + draw(key, 2, stream)
            child_keys(key, stream)
            for word in range(8):
                key[word] = stream[word]
    return seen


def read_ns_per_row(n_rows: int, n_attributes: int = 10) -> float:
    """CPU nanoseconds to read, encode and group a row of a Parquet file."""
    with tempfile.TemporaryDirectory(prefix="hdpview-stages-") as folder:
        return _read(Path(folder, "table.parquet"), n_rows, n_attributes, 1)[1] / n_rows * 1e9


def _read(path: Path, n_rows: int, n_attributes: int, trials: int) -> tuple[SparseCounts, float]:
    schema = Schema([Integer(name=f"a{i}", min=0, max=_SIZE - 1) for i in range(n_attributes)])
    write_random_table(path, n_rows, n_attributes, _SIZE)
    return read_counts(path, schema, threads=1), _median(lambda: read_counts(path, schema, threads=1), trials)


def stage_rows(n_rows: int, n_attributes: int = 10, trials: int = 3) -> list[Row]:
    """Milliseconds per stage of a build of a Parquet file of random rows, on one thread; medians."""
    with tempfile.TemporaryDirectory(prefix="hdpview-stages-") as folder:
        counts, read = _read(Path(folder, "table.parquet"), n_rows, n_attributes, trials)
        return _rows(counts, read, Path(folder), trials)


def _rows(counts: SparseCounts, read: float, folder: Path, trials: int) -> list[Row]:
    from hdpview.build import release

    parameters = PartitionParameters.choose(Hdpview(), _EPSILON, counts.schema.n_cells)
    randomness = Randomness.fresh()
    key, engine = randomness.root_key("partition"), LocalEngine(1)
    leaves = engine.grow(counts, parameters, key)
    nodes, offsets = tree_of(leaves), offsets_of(np.array(counts.schema.sizes, np.int32))
    arrays = counts.exact_codes, counts.exact_counts, nodes
    numbers = float(parameters.epsilon_cut), parameters.n_private_cut_levels, offsets

    def after_shuffling(work: Callable[[], Any]) -> float:
        return _median(work, trials, lambda: _shuffle(counts))

    grow = after_shuffling(lambda: engine.grow(counts, parameters, key))
    move = after_shuffling(lambda: _replay(*arrays, False, *numbers))
    both = after_shuffling(lambda: _replay(*arrays, True, *numbers))
    drawn = _median(lambda: _draw_again(key.copy(), nodes), trials)
    noise = _median(
        lambda: noisy_counts(leaves.exact_sum, parameters.epsilon_counts, randomness, leaves.keys), trials
    )
    view: PView = release(counts, _EPSILON, Hdpview(), randomness, 1)
    write = _median(lambda: view.save(folder / "view.pview"), trials)
    stages = [
        ("encode and group (DuckDB)", read),
        ("grow: move rows", move),
        ("grow: statistics", max(0.0, both - move)),
        ("grow: random numbers", drawn),
        ("grow: choose cuts, keep the books", max(0.0, grow - both - drawn)),
        ("noise on counts (OpenDP)", noise),
        ("write the file", write),
    ]
    whole = sum(seconds for _, seconds in stages)
    return [
        {"stage": name, "ms": round(seconds * 1e3, 1), "share": f"{seconds / whole:.0%}"}
        for name, seconds in stages
    ]


def _shuffle(counts: SparseCounts) -> None:
    """Rows in no order, as a database returns them."""
    order = np.random.default_rng(1).permutation(len(counts.exact_counts))
    counts.exact_codes[:], counts.exact_counts[:] = counts.exact_codes[order], counts.exact_counts[order]


def _median(work: Callable[[], Any], trials: int, before: Callable[[], None] | None = None) -> float:
    """CPU seconds; the first run compiles and does not count."""
    times = []
    for _ in range(trials + 1):
        if before is not None:
            before()
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return statistics.median(times[1:])
