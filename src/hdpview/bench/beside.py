"""What the default method costs beside the paper's: time to build, and time to answer over each kind of
base.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hdpview.bench.datasets import dataset_counts
from hdpview.bench.speed import EPSILON, random_ranges
from hdpview.build import build, release
from hdpview.counts.sparse import SparseCounts
from hdpview.domain import Integer, Schema
from hdpview.errors import MethodError
from hdpview.methods import Calibrated, Hdpview
from hdpview.privacy.randomness import Randomness
from hdpview.progress import Progress, silent
from hdpview.pview import PView
from hdpview.view.base import Base

Row = dict[str, Any]
_METHODS = (Hdpview(), Calibrated())
_QUESTIONS = 1000


def beside_rows(
    names: list[str], data_dir: Path | None, trials: int, progress: Progress = silent
) -> Iterator[Row]:
    """One row per dataset: CPU time of builds by both methods, and of answers from the same blocks without a
    base and with each kind.
    """
    for i, name in enumerate(names):
        progress(i / len(names), f"timing both methods on {name}")
        counts = dataset_counts(name, data_dir)
        table, schema = _as_table(counts)
        released = [
            _cpu_ms(partial(release, counts, EPSILON, method, Randomness.fresh(), 1), trials)
            for method in _METHODS
        ]
        built = [
            _cpu_ms(partial(build, table, schema, EPSILON, method=method, threads=1), trials)
            for method in _METHODS
        ]
        view = release(counts, EPSILON, Calibrated(), Randomness.fresh())
        questions = random_ranges(schema, _QUESTIONS, 3)
        plain, product, tree = (
            _cpu_ms(partial(over.count_many, questions), trials) for over in _over_each_base(view, schema)
        )
        yield {
            "dataset": name,
            "paper_release_ms": round(released[0], 1),
            "release_ratio": round(released[1] / released[0], 2),
            "paper_build_ms": round(built[0], 1),
            "build_ratio": round(built[1] / built[0], 2),
            "blocks": len(view.blocks),
            "plain_answers_ms": round(plain, 1),
            "product_ratio": round(product / plain, 2),
            "tree_ratio": round(tree / plain, 2),
        }


def _as_table(counts: SparseCounts) -> tuple[pa.Table, Schema]:
    """The records as codes, so that a whole build can be timed, reading and encoding too; and a schema of
    these codes.
    """
    codes = np.repeat(counts.exact_codes, counts.exact_counts, axis=0)
    schema = Schema(
        [Integer(name=attribute.name, min=0, max=attribute.size - 1) for attribute in counts.schema]
    )
    return pa.table({attribute.name: codes[:, a] for a, attribute in enumerate(schema)}), schema


def _over_each_base(view: PView, schema: Schema) -> Iterator[PView]:
    """The same blocks and counts: spread evenly, by independent attributes, and by the tree."""
    learnt = view.blocks.base
    if not isinstance(learnt, Base):
        raise MethodError("The view has no base to compare with.")
    independent = Base.product([learnt.marginal(a) for a in range(len(schema))], learnt.variance)
    manifest = dataclasses.replace(view.manifest, schema=schema)
    for base in (None, independent, learnt):
        yield PView(manifest, dataclasses.replace(view.blocks, base=base))


def _cpu_ms(work: Callable[[], Any], trials: int) -> float:
    """Median CPU time, after one that compiles."""
    work()
    times = []
    for _ in range(trials):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return statistics.median(times) * 1e3
