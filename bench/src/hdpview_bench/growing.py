"""Time the growth of a partition by the paper's method: on datasets, by size, and beside LightGBM."""

from __future__ import annotations

import importlib.util
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.build import release
from hdpview.counts.sparse import SparseCounts
from hdpview.domain import Integer, Schema
from hdpview.errors import MethodError
from hdpview.methods import Hdpview
from hdpview.partition.local import LocalEngine
from hdpview.partition.parameters import PartitionParameters
from hdpview.privacy.randomness import Randomness
from hdpview_bench import naive
from hdpview_bench.datasets import dataset_counts

Row = dict[str, Any]
EPSILON = Fraction(1)
SIZE = 100  # values per attribute of random tables
WANTED_LEAVES = (4_000, 100_000)
HOW_TO_INSTALL = "LightGBM is not installed. Install it with: pip install 'hdpview-bench[peers]'."
ROWS = (125_000, 250_000, 500_000, 1_000_000, 2_000_000)
ATTRIBUTES = (4, 8, 16, 32)
EPSILONS = ("0.001", "0.01", "0.1", "1")
_USUAL = (500_000, 10, "1")  # rows, attributes, budget


class Growth(NamedTuple):
    """One growth. levels: sum over occupied cells of the levels that they passed through."""

    seconds: float
    n_blocks: int
    levels: int


def grow(counts: SparseCounts, epsilon: Fraction, threads: int = 1) -> Growth:
    """Grow a partition with a fresh key. With one thread, CPU seconds, which other work on the machine hardly
    affects; with more, wall-clock seconds. Rows are shuffled first, because a growth reorders them.
    """
    order = np.random.default_rng(1).permutation(len(counts.exact_counts))
    shuffled = SparseCounts(counts.schema, counts.exact_codes[order], counts.exact_counts[order])
    engine, key = LocalEngine(threads), Randomness.fresh().root_key("partition")
    parameters, clock = _parameters(counts, epsilon), _clock(threads)
    started = clock()
    leaves = engine.grow(shuffled, parameters, key)
    seconds = clock() - started
    levels = int(((leaves.exact_last - leaves.exact_first) * leaves.depth.astype(np.int64)).sum())
    return Growth(seconds, len(leaves), levels)


def _parameters(counts: SparseCounts, epsilon: Fraction) -> PartitionParameters:
    return PartitionParameters.choose(Hdpview(), epsilon, counts.schema.n_cells)


def _clock(threads: int) -> Callable[[], float]:
    return time.process_time if threads == 1 else time.perf_counter


def random_counts(n_rows: int, n_attributes: int, size: int = SIZE, seed: int = 0) -> SparseCounts:
    """Rows with skewed attributes, independent of each other; equal rows share a cell."""
    rng = np.random.default_rng(seed)
    codes = np.minimum(rng.exponential(size / 4, (n_rows, n_attributes)), size - 1).astype(np.uint8)
    cells, counts = np.unique(codes, axis=0, return_counts=True)
    schema = Schema([Integer(name=f"a{i}", min=0, max=size - 1) for i in range(n_attributes)])
    shuffled = rng.permutation(len(cells))  # in random order, as a database returns them
    return SparseCounts(schema, cells[shuffled], counts[shuffled].astype(np.int64))


def _naive_seconds(counts: SparseCounts, epsilon: Fraction, limit_s: float) -> tuple[float, bool]:
    """CPU seconds of the plain implementation, and whether it finished within the limit; 0 skips it."""
    cells = list(zip(map(tuple, counts.exact_codes.tolist()), counts.exact_counts.tolist(), strict=True))
    started, finished = time.process_time(), True
    if limit_s > 0:
        try:
            naive.partition(cells, counts.schema.sizes, _parameters(counts, epsilon), seed=0, limit_s=limit_s)
        except naive.OutOfTimeError:
            finished = False
    return time.process_time() - started, finished


def build_rows(names: list[str], data_dir: Path | None, trials: int, naive_limit_s: float) -> Iterator[Row]:
    """One row per dataset: blocks, CPU time on one core, the same by the plain implementation, and the size
    of the file.
    """
    for name in names:
        counts = dataset_counts(name, data_dir)
        grow(counts, EPSILON)  # compiles the kernels
        grown = [grow(counts, EPSILON) for _ in range(trials)]
        seconds = statistics.median(one.seconds for one in grown)
        naive_s, finished = _naive_seconds(counts, EPSILON, naive_limit_s)
        yield {
            "dataset": name,
            "records": int(counts.exact_counts.sum()),
            "occupied_cells": len(counts.exact_counts),
            "attributes": len(counts.schema),
            "blocks": round(statistics.mean(one.n_blocks for one in grown)),
            "blocks_sd": round(statistics.pstdev(one.n_blocks for one in grown)),
            "build_cpu_ms": round(seconds * 1e3, 1),
            "naive_cpu_s": round(naive_s, 1),
            "naive_finished": finished,
            "times_faster": round(naive_s / seconds) if naive_s else 0,
            "us_per_block": round(statistics.median(one.seconds / one.n_blocks for one in grown) * 1e6, 2),
            "ns_per_cell_attribute_level": round(
                statistics.median(one.seconds / one.levels / len(counts.schema) for one in grown) * 1e9, 2
            ),
            "file_kb": round(_file_bytes(counts) / 1000, 1),
        }


def _file_bytes(counts: SparseCounts) -> int:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "view.pview")
        release(counts, EPSILON, Hdpview(), Randomness.fresh()).save(path)
        return path.stat().st_size


def scaling_rows(trials: int = 3, factor: float = 1.0) -> Iterator[Row]:
    """One row per growth on one thread, varying one quantity at a time. A larger budget gives a deeper tree.
    factor: scales the number of rows.
    """
    n_rows, n_attributes, epsilon = _USUAL
    cases = [("rows", n, n_attributes, epsilon) for n in ROWS]
    cases += [("attributes", n_rows, d, epsilon) for d in ATTRIBUTES]
    cases += [("depth", n_rows, n_attributes, budget) for budget in EPSILONS]
    for changing, n, d, budget in cases:
        counts = random_counts(int(n * factor), d)
        grow(random_counts(100, d), Fraction(budget))  # compiles the kernels
        grown = sorted(grow(counts, Fraction(budget)) for _ in range(trials))[trials // 2]
        yield {
            "changing": changing,
            "rows": int(n * factor),
            "attributes": d,
            "epsilon": float(budget),
            "blocks": grown.n_blocks,
            "levels_per_row": round(grown.levels / len(counts.exact_counts), 1),
            "cell_attribute_levels": grown.levels * d,
            "cpu_s": round(grown.seconds, 3),
            "ns_per_cell_attribute_level": round(grown.seconds * 1e9 / grown.levels / d, 2),
        }


def draw_scaling(rows: list[Row], path: Path) -> None:
    """Seconds against cells × attributes × levels, both logarithmic, one colour per varied quantity, with a
    line of slope 1.
    """
    import altair as alt

    most = max(row["cell_attribute_levels"] for row in rows)
    least = min(row["cell_attribute_levels"] for row in rows)
    middle = sorted(row["cpu_s"] / row["cell_attribute_levels"] for row in rows)[len(rows) // 2]
    line = [{"cell_attribute_levels": x, "cpu_s": x * middle} for x in (least, most)]
    x = alt.X(
        "cell_attribute_levels:Q", scale=alt.Scale(type="log"), title="occupied cells × attributes × levels"
    )
    y = alt.Y("cpu_s:Q", scale=alt.Scale(type="log"), title="seconds on one core")
    points = (
        alt.Chart(alt.Data(values=rows))
        .mark_point(filled=True, size=70)
        .encode(x=x, y=y, color=alt.Color("changing:N", title="changing"))
    )
    slope = alt.Chart(alt.Data(values=line)).mark_line(strokeDash=[4, 4], color="gray").encode(x=x, y=y)
    title = f"Growing a partition: dashed, {middle * 1e9:.2f} ns per cell × attribute × level"
    (slope + points).properties(width=420, height=300, title=title).save(str(path))


def epsilon_for(counts: SparseCounts, n_leaves: int) -> tuple[Fraction, int]:
    """A budget at which the paper's method makes about that many blocks, and the number it made."""
    low, high = 1e-4, 2.6
    for _ in range(12):
        epsilon = Fraction(f"{(low * high) ** 0.5:.2g}")
        n_grown = grow(counts, epsilon, threads=2).n_blocks
        if abs(n_grown - n_leaves) <= 0.05 * n_leaves:
            break
        low, high = (float(epsilon), high) if n_grown < n_leaves else (low, float(epsilon))
    return epsilon, n_grown


def tree_rows(
    n_rows: int, n_attributes: int = 10, trials: int = 3, naive_limit_s: float = 60.0
) -> Iterator[Row]:
    """Seconds of the plain implementation, of ours and of LightGBM growing one tree, per number of leaves.

    Both find cuts in a table of small codes and sort rows into leaves. LightGBM searches the best cut for a
    target, so it gets a target that always leaves something to gain (a wave in every attribute, and noise);
    leaves may have one row. Reading and binning are excluded on both sides. Times are minima of `trials`.
    """
    if importlib.util.find_spec("lightgbm") is None:
        raise MethodError(HOW_TO_INSTALL)
    counts = random_counts(n_rows, n_attributes)
    for wanted in WANTED_LEAVES:
        epsilon, n_leaves = epsilon_for(counts, wanted)
        naive_s, finished = _naive_seconds(counts, epsilon, naive_limit_s)
        row: Row = {
            "rows": n_rows,
            "attributes": n_attributes,
            "leaves": n_leaves,
            "epsilon": float(epsilon),
            "naive_s": round(naive_s, 1) if finished else f"not in {naive_limit_s:g}",
        }
        for threads in (1, 2):
            ours = min(grow(counts, epsilon, threads).seconds for _ in range(trials))
            boosts = 1 if wanted > 50_000 else trials
            theirs = min(_boost(counts, n_leaves, threads) for _ in range(boosts))
            row[f"hdpview_{threads}_s"], row[f"lightgbm_{threads}_s"] = round(ours, 3), round(theirs, 3)
            row[f"times_faster_{threads}"] = round(theirs / ours, 1)
        row["two_threads_gain"] = round(row["hdpview_1_s"] / row["hdpview_2_s"], 2)
        yield row


def _boost(counts: SparseCounts, n_leaves: int, threads: int) -> float:
    """Seconds of LightGBM for one tree with that many leaves. It must really grow them."""
    import lightgbm

    settings = {
        "objective": "regression",
        "num_leaves": n_leaves,
        "max_depth": -1,
        "min_data_in_leaf": 1,
        "min_sum_hessian_in_leaf": 0.0,
        "min_gain_to_split": 0.0,
        "max_bin": 255,
        "feature_pre_filter": False,
        "num_threads": threads,
        "verbosity": -1,
    }
    data = lightgbm.Dataset(
        counts.exact_codes.astype(np.float32), label=_target(counts.exact_codes), params=settings
    )
    data.construct()
    booster = lightgbm.Booster(settings, data)
    clock = _clock(threads)
    started = clock()
    booster.update()
    seconds = clock() - started
    grown = booster.dump_model(num_iteration=1)["tree_info"][0]["num_leaves"]
    if grown < 0.95 * n_leaves:
        raise MethodError(
            f"LightGBM stopped at {grown:,} of {n_leaves:,} leaves, so its time says nothing. Use more rows."
        )
    return seconds


def _target(codes: NDArray[Any]) -> NDArray[np.float64]:
    waves = np.sin(codes / 7.0 + np.arange(codes.shape[1])).sum(axis=1)
    return np.asarray(waves + np.random.default_rng(2).normal(size=len(codes)))
