"""Search for the strategy with the least expected error for a workload. Does not use the data."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from hdpview_bench.rivals.hdmm.algebra import Algebra, Set, logs_of, slopes_of_errors, subsets
from hdpview_bench.rivals.hdmm.templates import LARGEST_ROOT, Template, default_rows
from hdpview_bench.rivals.hdmm.workload import Workload, workload_named

Floats = NDArray[np.float64]
_MOST_SETS = 30_000
_LEAST_SHARE = 1e-5
_ROUNDS = 8
_SHARE_STEPS = 60
# With fewer steps, errors on products of wide attributes are up to 2% larger.
_TEMPLATE_STEPS = 200
_START_SCALES = (0.3, 1.0, 1.0, 1.0, 2.0)
_MOST_JOINT_WORK = 5e7  # Σ size³ up to which strategies of all attributes are improved together


@dataclass(frozen=True, eq=False)
class Plan:
    """Sets of attributes to measure, their shares of the budget (sum 1), and a strategy matrix per attribute,
    columns of sum 1.

    error: mean squared error per question if one measurement with the whole budget has noise of variance 1.
    """

    measured: tuple[Set, ...]
    shares: Floats
    matrices: tuple[Floats, ...]
    error: float


@lru_cache(maxsize=64)
def best_plan(workload_name: str, sizes: tuple[int, ...]) -> Plan:
    """The best of several searches."""
    workload = workload_named(workload_name, sizes)
    algebra = Algebra(workload, _candidates(workload))
    templates = _first_templates(workload)
    plans = [_search(workload, algebra, templates, start) for start in _starts(workload, algebra)]
    return min(plans, key=lambda plan: plan.error)


def _candidates(workload: Workload) -> list[Set]:
    """Sets worth measuring: those with up to one attribute more than questions have, and the set of all
    attributes; all sets if they are few.
    """
    d, k = len(workload.sizes), len(workload.sets[0])
    largest = d if 2**d <= 1024 else k + 1
    while sum(math.comb(d, i) for i in range(largest + 1)) > _MOST_SETS and largest > k:
        largest -= 1
    everything = tuple(range(d))
    sets = list(subsets(everything, largest))
    return sets if largest == d else [*sets, everything]


def _starts(workload: Workload, algebra: Algebra) -> list[Floats]:
    """Initial shares: all sets alike; queried sets only; every cell, alone and with a little of all."""
    asked, d = set(workload.sets), len(workload.sizes)
    n = len(algebra.measured)
    questions = np.array([float(chosen in asked) for chosen in algebra.measured])
    cells = np.array([float(len(chosen) == d) for chosen in algebra.measured])
    even = np.full(n, 1.0 / n)
    return [
        cells,
        0.5 * cells + 0.5 * even,
        questions / questions.sum(),
        0.5 * questions / questions.sum() + 0.5 * even,
    ]


def _search(workload: Workload, algebra: Algebra, templates: list[Template], shares: Floats) -> Plan:
    """Better shares for given strategies and better strategies for given shares, in turns."""
    error = math.inf
    is_joint = not workload.is_of_cells and sum(size**3 for size in workload.sizes) <= _MOST_JOINT_WORK
    for _ in range(_ROUNDS):
        shares = _better_shares(algebra, shares, _logs(templates))
        if is_joint:
            templates = _better_templates(algebra, shares, templates)
        before, error = error, algebra.error(shares**2, _logs(templates))[0]
        if error > before * (1 - 1e-4):
            break
    return _pruned(algebra, shares, templates)


def _first_templates(workload: Workload) -> list[Template]:
    """The best strategy for each attribute alone (OPT_0); every code if questions are about codes."""
    by_size: dict[int, Template] = {}
    for size, overlap in zip(workload.sizes, workload.overlaps, strict=True):
        if size not in by_size:
            by_size[size] = (
                Template(np.zeros((0, size)), overlap)
                if workload.is_of_cells or size == 1
                else _best_alone(overlap)
            )
    return [by_size[size] for size in workload.sizes]


def _best_alone(overlap: Floats) -> Template:
    """Search from several fixed starts, because there are many local minima."""
    rng, size = np.random.default_rng(0), len(overlap)
    shape = (default_rows(size), size)

    def log_error(flat: Floats) -> tuple[float, Floats]:
        (_, t, _), pull_back = Template(flat.reshape(shape), overlap).errors()
        return math.log(t), pull_back(np.array([0.0, 1.0 / t, 0.0])).reshape(-1)

    starts = [np.zeros(shape), *(scale * rng.random(shape) for scale in _START_SCALES)]
    minima = [_minimised(log_error, start.reshape(-1)) for start in starts]
    return Template(min(minima, key=lambda flat: log_error(flat)[0]).reshape(shape), overlap)


def _minimised(log_error: Callable[[Floats], tuple[float, Floats]], start: Floats) -> Floats:
    """Parameters near a local minimum of an error, from a function that also gives its derivatives."""
    bounds, settings = (
        optimize.Bounds(-LARGEST_ROOT, LARGEST_ROOT),
        {"maxiter": _TEMPLATE_STEPS, "ftol": 1e-7},
    )
    minimum: Floats = optimize.minimize(
        log_error, start, jac=True, method="L-BFGS-B", bounds=bounds, options=settings
    ).x
    return minimum


def _logs(templates: list[Template]) -> Floats:
    return logs_of(np.array([template.errors()[0] for template in templates]))


def _better_shares(algebra: Algebra, shares: Floats, logs: Floats) -> Floats:
    """If sets do not help each other, the error is Σ c/share², which is minimal for shares ∝ c^⅓. One step
    achieves that; more steps do the rest.
    """
    best, least = shares, math.inf
    for _ in range(_SHARE_STEPS):
        value, slopes = algebra.error(shares**2, logs)
        if value < least:
            best, least = shares, value
        pull = -slopes.of_weights * shares / value  # 1 for all sets in use at the optimum
        shares = shares * np.cbrt(pull)
        shares = shares / shares.sum()
    return best


def _better_templates(algebra: Algebra, shares: Floats, templates: list[Template]) -> list[Template]:
    ends = np.cumsum([template.roots.size for template in templates])[:-1]

    def unpacked(flat: Floats) -> list[Template]:
        parts = np.split(flat, ends)
        return [
            Template(part.reshape(old.roots.shape), old.overlap)
            for part, old in zip(parts, templates, strict=True)
        ]

    def log_error(flat: Floats) -> tuple[float, Floats]:
        pairs = [template.errors() for template in unpacked(flat)]
        errors = np.array([values for values, _ in pairs])
        value, slopes = algebra.error(shares**2, logs_of(errors))
        by_errors = slopes_of_errors(errors, slopes.of_logs) / value
        by_roots = [pull_back(by) for (_, pull_back), by in zip(pairs, by_errors, strict=True)]
        return math.log(value), np.concatenate([part.reshape(-1) for part in by_roots])

    start = np.concatenate([template.roots.reshape(-1) for template in templates])
    return unpacked(_minimised(log_error, start))


def _pruned(algebra: Algebra, shares: Floats, templates: list[Template]) -> Plan:
    """Drop sets with tiny shares, unless a queried set would lose its only measurement."""
    logs = _logs(templates)
    kept = np.where(shares >= _LEAST_SHARE, shares, 0.0)
    if (algebra.precision(kept, logs[0]) <= 0).any():
        kept = shares
    kept = kept / kept.sum()
    used = np.flatnonzero(kept)
    return Plan(
        measured=tuple(algebra.measured[i] for i in used),
        shares=kept[used],
        matrices=tuple(template.matrix() for template in templates),
        error=algebra.error(kept**2, logs)[0],
    )
