"""The paper's claims about its method, checked against the rows of a run."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hdpview_bench.datasets import dataset_title
from hdpview_bench.published import (
    AVERAGE_RELATIVE_RMSE,
    GOWALLA,
    JM1_BLOCKS_OF_PRIVTREE,
    METHOD_NAMES,
)

Row = Mapping[str, Any]
RIVALS = ("identity", "privtree", "hdmm", "privbayes", "dawa")
_MANY_ATTRIBUTES = ("jm1", "adult")
_WIDE = ("marginal-3", "prefix-3d", "random-3d", "random-4d")


@dataclass(frozen=True)
class Claim:
    """A claim of the paper in our words, and the evidence. holds: None if nothing relevant was measured."""

    text: str
    holds: bool | None
    evidence: str


def number(value: float | None) -> str:
    """Three significant digits, in powers of ten from a million on."""
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    exponent = math.floor(math.log10(abs(value)))
    superscript = str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{value / 10**exponent:.2f}·10{superscript}"


def relative(rows: Sequence[Row], **only: str | Sequence[str]) -> list[float]:
    """Relative errors of the rows that match; a sequence matches any of its values."""
    return [row["relative_rmse"] for row in chosen(rows, **only) if row["relative_rmse"] is not None]


def chosen(rows: Sequence[Row], **only: str | Sequence[str]) -> list[Row]:
    """Rows that match; a sequence matches any of its values."""
    wanted = {key: (value,) if isinstance(value, str) else tuple(value) for key, value in only.items()}
    return [row for row in rows if all(row[key] in values for key, values in wanted.items())]


def averages(rows: Sequence[Row]) -> dict[str, float]:
    """Mean relative error per method over all datasets and workloads it can handle, as in the paper's first
    results table.
    """
    methods = dict.fromkeys(row["method"] for row in rows)
    return {
        method: statistics.fmean(ratios) for method in methods if (ratios := relative(rows, method=method))
    }


def judge(
    main: Sequence[Row], cuts: Sequence[Row], growth: Sequence[Row], at_map: Sequence[Row]
) -> list[Claim]:
    """Check all claims about the comparison."""
    judges: list[Callable[[Sequence[Row]], Claim]] = [
        _least_on_average,
        _privtree_falls,
        _privtree_on_phoneme,
        _hdmm_falls,
    ]
    judges += [_dawa_is_worse, _privbayes_is_worse, _privbayes_on_adult, _fewer_blocks]
    return [*(one(main) for one in judges), _controlled_cuts(cuts), _growing(growth), _map(at_map)]


def _compared(text: str, ratios: Sequence[float], above: bool, what: str) -> Claim:
    """A claim that relative errors are above (or below) 1 on average."""
    if not ratios:
        return Claim(text, None, "not measured in this run")
    mean, share = statistics.fmean(ratios), sum(x > 1 for x in ratios)
    evidence = (
        f"{what}: {number(mean)} times HDPView's error on average, larger in {share} of {len(ratios)} "
        "workloads"
    )
    return Claim(text, (mean > 1) == above, evidence)


def _least_on_average(rows: Sequence[Row]) -> Claim:
    means = {method: mean for method, mean in averages(rows).items() if method in RIVALS}
    text = "HDPView has the lowest average relative RMSE of the paper's methods."
    if not means:
        return Claim(text, None, "not measured in this run")
    figures = ", ".join(
        f"{METHOD_NAMES[m]} {number(x)} (paper: {number(AVERAGE_RELATIVE_RMSE.get(m))})"
        for m, x in means.items()
    )
    better = [METHOD_NAMES[method] for method, mean in means.items() if mean < 1]
    return Claim(
        text,
        not better,
        f"relative to HDPView's 1: {figures}"
        + (f"; lower than HDPView: {', '.join(better)}" if better else ""),
    )


def _privtree_falls(rows: Sequence[Row]) -> Claim:
    ratios = relative(rows, method="privtree", dataset="jm1")
    return _compared(
        "PrivTree's accuracy drops drastically on Jm1, which has 22 attributes.",
        ratios,
        True,
        "PrivTree on Jm1",
    )


def _privtree_on_phoneme(rows: Sequence[Row]) -> Claim:
    ratios = relative(rows, method="privtree", dataset="phoneme")
    return _compared(
        "PrivTree is more accurate than HDPView on Phoneme.", ratios, False, "PrivTree on Phoneme"
    )


def _hdmm_falls(rows: Sequence[Row]) -> Claim:
    ratios = relative(rows, method="hdmm", dataset=_MANY_ATTRIBUTES, workload=_WIDE)
    return _compared(
        "HDMM is poor at questions on three or four attributes of Jm1 and Adult.", ratios, True, "HDMM there"
    )


def _dawa_is_worse(rows: Sequence[Row]) -> Claim:
    text = "DAWA's partitioning leads to larger errors than HDPView's and PrivTree's."
    dawa = relative(rows, method="dawa")
    datasets = sorted(
        {row["dataset"] for row in chosen(rows, method="dawa") if row["relative_rmse"] is not None}
    )
    privtree = relative(rows, method="privtree", dataset=datasets)
    if not dawa or not privtree:
        return Claim(text, None, "not measured in this run")
    means = statistics.fmean(dawa), statistics.fmean(privtree)
    names = ", ".join(dataset_title(name) for name in datasets)
    return Claim(
        text,
        means[0] > max(1.0, means[1]),
        f"on {names}: DAWA {number(means[0])}, PrivTree {number(means[1])}, HDPView 1",
    )


def _privbayes_is_worse(rows: Sequence[Row]) -> Claim:
    ratios = relative(rows, method="privbayes")
    return _compared(
        "HDPView is a little more accurate than PrivBayes in many cases.",
        ratios,
        True,
        "PrivBayes on all datasets",
    )


def _privbayes_on_adult(rows: Sequence[Row]) -> Claim:
    ratios = relative(rows, method="privbayes", dataset="adult")
    return _compared(
        "On Adult PrivBayes is slightly more accurate than HDPView.", ratios, False, "PrivBayes on Adult"
    )


def blocks_of(rows: Sequence[Row], dataset: str, method: str) -> float | None:
    """Mean number of blocks of a method on a dataset."""
    numbers = [row["blocks"] for row in chosen(rows, dataset=dataset, method=method) if row["blocks"]]
    return numbers[0] if numbers else None


def _fewer_blocks(rows: Sequence[Row]) -> Claim:
    text = (
        f"PrivTree makes many more blocks than HDPView, on Jm1 {number(JM1_BLOCKS_OF_PRIVTREE)} times as "
        "many."
    )
    ratios = {}
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        ours, theirs = blocks_of(rows, dataset, "hdpview"), blocks_of(rows, dataset, "privtree")
        if ours and theirs:
            ratios[dataset_title(dataset)] = theirs / ours
    if not ratios:
        return Claim(text, None, "not measured in this run")
    return Claim(
        text,
        min(ratios.values()) > 1,
        "times as many: " + ", ".join(f"{name} {number(x)}" for name, x in ratios.items()),
    )


def _controlled_cuts(rows: Sequence[Row]) -> Claim:
    text = (
        "However many attributes PrivTree cuts at a time, HDPView's error is smaller on Numerical-adult "
        "and Jm1."
    )
    trees = [row for row in rows if row["method"].startswith("privtree") and row["relative_rmse"] is not None]
    if not trees:
        return Claim(text, None, "not measured in this run")
    best = [
        min(chosen(trees, dataset=name), key=lambda row: row["rmse"])
        for name in dict.fromkeys(row["dataset"] for row in trees)
    ]
    told = ", ".join(
        f"{row['method'].split('=')[-1]} on {row['dataset']} ({number(row['relative_rmse'])} times "
        "HDPView's error)"
        for row in best
    )
    return Claim(
        text,
        all(row["relative_rmse"] > 1 for row in trees),
        f"PrivTree is at its best with this many attributes at a time: {told}",
    )


def _growing(rows: Sequence[Row]) -> Claim:
    text = (
        "As attributes are added to Adult, HDPView starts ahead of PrivBayes and PrivBayes then gains on it."
    )
    growing = [
        row["relative_rmse"]
        for row in chosen(rows, method="privbayes", workload="random-2d")
        if row["relative_rmse"] is not None
    ]
    if len(growing) < 2:
        return Claim(text, None, "not measured in this run")
    evidence = (
        f"PrivBayes' relative RMSE of random 2-D ranges goes from {number(growing[0])} with the fewest to "
        f"{number(growing[-1])} with all"
    )
    return Claim(text, growing[0] > 1 and growing[-1] < growing[0], evidence)


def _map(rows: Sequence[Row]) -> Claim:
    text = (
        f"On two attributes (Gowalla) HDPView makes fewer blocks ({GOWALLA['hdpview'][0]:,} against "
        f"{GOWALLA['privtree'][0]:,}) "
        f"and larger errors ({GOWALLA['hdpview'][1]} against {GOWALLA['privtree'][1]}) than PrivTree."
    )
    measured = {row["method"]: row for row in rows if row["rmse"] is not None}
    if not {"hdpview", "privtree"} <= set(measured):
        return Claim(text, None, "not measured in this run")
    ours, theirs = measured["hdpview"], measured["privtree"]
    blocks, errors = ([number(row[key]) for row in (ours, theirs)] for key in ("blocks", "rmse"))
    evidence = f"on {ours['dataset']}: {' against '.join(blocks)} blocks, RMSE {' against '.join(errors)}"
    return Claim(text, ours["blocks"] < theirs["blocks"] and ours["rmse"] > theirs["rmse"], evidence)
