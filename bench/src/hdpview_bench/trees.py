"""Against LightGBM: one tree with as many leaves, on the same codes, with the same number of threads.

Both find cuts in a table of small codes and sort rows into leaves. LightGBM looks for the best cut of a
target, so it gets one that always leaves something to gain (a wave in every attribute, and noise); rows may
be alone in a leaf. Reading and binning are not counted, on either side.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdpview.counts.sparse import SparseCounts
from hdpview.domain import Integer, Schema
from hdpview.errors import MethodError
from hdpview.methods import Hdpview
from hdpview.partition.local import LocalEngine
from hdpview.partition.parameters import PartitionParameters
from hdpview.privacy.randomness import Randomness
from hdpview_bench import naive

Row = dict[str, Any]
SIZE = 100  # values per attribute
WANTED_LEAVES = (4_000, 100_000)
HOW_TO_INSTALL = "LightGBM is not installed. Install it with: pip install 'hdpview-bench[peers]'."


def random_counts(n_rows: int, n_attributes: int, size: int = SIZE, seed: int = 0) -> SparseCounts:
    """Rows with skewed attributes, independent of each other; equal rows share a cell."""
    rng = np.random.default_rng(seed)
    codes = np.minimum(rng.exponential(size / 4, (n_rows, n_attributes)), size - 1).astype(np.uint8)
    cells, counts = np.unique(codes.view([("", np.uint8)] * n_attributes).ravel(), return_counts=True)
    schema = Schema([Integer(name=f"a{i}", min=0, max=size - 1) for i in range(n_attributes)])
    own = np.ascontiguousarray(cells).view(np.uint8).reshape(-1, n_attributes)
    shuffled = rng.permutation(len(own))  # in no order, as a database returns them
    return SparseCounts(schema, own[shuffled], counts[shuffled].astype(np.int64))


def epsilon_for(counts: SparseCounts, n_leaves: int) -> tuple[Fraction, int]:
    """A budget at which the paper's method, with its own settings, makes about that many blocks; and how many
    it made.
    """
    low, high = 1e-4, 2.6
    for _ in range(12):
        epsilon = Fraction(f"{(low * high) ** 0.5:.2g}")
        found = len(
            LocalEngine().grow(counts, _parameters(counts, epsilon), Randomness.fresh().root_key("partition"))
        )
        if abs(found - n_leaves) <= 0.05 * n_leaves:
            break
        low, high = (float(epsilon), high) if found < n_leaves else (low, float(epsilon))
    return epsilon, found


def _parameters(counts: SparseCounts, epsilon: Fraction) -> PartitionParameters:
    return PartitionParameters.choose(Hdpview(), epsilon, counts.schema.n_cells)


def tree_rows(
    n_rows: int, n_attributes: int = 10, trials: int = 3, naive_limit_s: float = 60.0
) -> Iterator[Row]:
    """For either number of leaves: seconds of the plain implementation, of ours and of LightGBM. The least of
    `trials`.

    With one thread CPU seconds, which other work on the machine hardly changes; with two, seconds on the wall
    clock.
    """
    if importlib.util.find_spec("lightgbm") is None:
        raise MethodError(HOW_TO_INSTALL)
    counts = random_counts(n_rows, n_attributes)
    for wanted in WANTED_LEAVES:
        epsilon, n_leaves = epsilon_for(counts, wanted)
        row: Row = {"rows": n_rows, "attributes": n_attributes, "leaves": n_leaves, "epsilon": float(epsilon)}
        row["naive_s"] = _naive_seconds(counts, epsilon, naive_limit_s)
        for threads in (1, 2):
            row[f"hdpview_{threads}_s"] = _least(lambda t=threads, e=epsilon: _grow(counts, e, t), trials)  # type: ignore[misc]
            row[f"lightgbm_{threads}_s"] = _least(
                lambda t=threads, n=n_leaves: _boost(counts, n, t),  # type: ignore[misc]
                1 if wanted > 50_000 else trials,
            )
            row[f"times_faster_{threads}"] = round(
                row[f"lightgbm_{threads}_s"] / row[f"hdpview_{threads}_s"], 1
            )
        row["two_threads_gain"] = round(row["hdpview_1_s"] / row["hdpview_2_s"], 2)
        yield row


def _least(work: Callable[[], float], trials: int) -> float:
    return round(min(work() for _ in range(trials)), 3)


def _grow(counts: SparseCounts, epsilon: Fraction, threads: int) -> float:
    """Seconds of one growth. Rows begin in the order that the last growth left them in, so they are shuffled
    first.
    """
    order = np.random.default_rng(1).permutation(len(counts.exact_counts))
    shuffled = SparseCounts(counts.schema, counts.exact_codes[order], counts.exact_counts[order])
    engine, key = LocalEngine(threads), Randomness.fresh().root_key("partition")
    clock = _clock(threads)
    started = clock()
    engine.grow(shuffled, _parameters(counts, epsilon), key)
    return clock() - started


def _clock(threads: int) -> Callable[[], float]:
    return time.process_time if threads == 1 else time.perf_counter


def _boost(counts: SparseCounts, n_leaves: int, threads: int) -> float:
    """Seconds of LightGBM for one tree with that many leaves; it must really have grown them."""
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


def _naive_seconds(counts: SparseCounts, epsilon: Fraction, limit_s: float) -> float | str:
    """CPU seconds of the plain implementation, or how long it was given."""
    cells = list(zip(map(tuple, counts.exact_codes.tolist()), counts.exact_counts.tolist(), strict=True))
    started = time.process_time()
    try:
        naive.partition(cells, counts.schema.sizes, _parameters(counts, epsilon), seed=0, limit_s=limit_s)
    except naive.OutOfTimeError:
        return f"not in {limit_s:g}"
    return round(time.process_time() - started, 1)
