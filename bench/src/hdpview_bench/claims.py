"""The paper's claims about its method, checked against the rows of a run."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hdpview_bench.datasets import dataset_title
from hdpview_bench.published import AVERAGE_RELATIVE_RMSE, GOWALLA, JM1_BLOCKS_OF_PRIVTREE, METHOD_NAMES

Row = Mapping[str, Any]
RIVALS = ("identity", "privtree", "hdmm", "privbayes", "dawa")
_WIDE = ("marginal-3", "prefix-3d", "random-3d", "random-4d")


@dataclass(frozen=True)
class Claim:
    """A claim of the paper in our words, and the evidence. holds: None if nothing relevant was measured."""

    text: str
    holds: bool | None = None
    evidence: str = "not measured in this run"


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
    """Check all claims about the comparison, in the paper's order."""
    return [
        _least_on_average(main),
        *(_compared(main, *claim) for claim in _COMPARED[:3]),
        _dawa_is_worse(main),
        *(_compared(main, *claim) for claim in _COMPARED[3:]),
        _fewer_blocks(main),
        _controlled_cuts(cuts),
        _growing(growth),
        _map(at_map),
    ]


# Claims that a rival's relative error is above 1 on average, or below: the claim, whether it is above, the
# rival where it is compared, and the rows that count.
_COMPARED: tuple[tuple[str, bool, str, dict[str, str | Sequence[str]]], ...] = (
    (
        "PrivTree's accuracy drops drastically on Jm1, which has 22 attributes.",
        True,
        "PrivTree on Jm1",
        {"method": "privtree", "dataset": "jm1"},
    ),
    (
        "PrivTree is more accurate than HDPView on Phoneme.",
        False,
        "PrivTree on Phoneme",
        {"method": "privtree", "dataset": "phoneme"},
    ),
    (
        "HDMM is poor at questions on three or four attributes of Jm1 and Adult.",
        True,
        "HDMM there",
        {"method": "hdmm", "dataset": ("jm1", "adult"), "workload": _WIDE},
    ),
    (
        "HDPView is a little more accurate than PrivBayes in many cases.",
        True,
        "PrivBayes on all datasets",
        {"method": "privbayes"},
    ),
    (
        "On Adult PrivBayes is slightly more accurate than HDPView.",
        False,
        "PrivBayes on Adult",
        {"method": "privbayes", "dataset": "adult"},
    ),
)


def _compared(
    rows: Sequence[Row], text: str, above: bool, what: str, only: Mapping[str, str | Sequence[str]]
) -> Claim:
    """A claim that relative errors are above (or below) 1 on average."""
    ratios = relative(rows, **only)
    if not ratios:
        return Claim(text)
    mean, share = statistics.fmean(ratios), f"{sum(x > 1 for x in ratios)} of {len(ratios)}"
    evidence = f"{what}: {number(mean)} times HDPView's error on average, larger in {share} workloads"
    return Claim(text, (mean > 1) == above, evidence)


def _least_on_average(rows: Sequence[Row]) -> Claim:
    means = {method: mean for method, mean in averages(rows).items() if method in RIVALS}
    text = "HDPView has the lowest average relative RMSE of the paper's methods."
    if not means:
        return Claim(text)
    told = ", ".join(
        f"{METHOD_NAMES[m]} {number(x)} (paper: {number(AVERAGE_RELATIVE_RMSE.get(m))})"
        for m, x in means.items()
    )
    better = ", ".join(METHOD_NAMES[method] for method, mean in means.items() if mean < 1)
    told += f"; lower than HDPView: {better}" if better else ""
    return Claim(text, not better, f"relative to HDPView's 1: {told}")


def _dawa_is_worse(rows: Sequence[Row]) -> Claim:
    text = "DAWA's partitioning leads to larger errors than HDPView's and PrivTree's."
    measured = [row for row in chosen(rows, method="dawa") if row["relative_rmse"] is not None]
    datasets = sorted({row["dataset"] for row in measured})
    dawa, privtree = relative(measured), relative(rows, method="privtree", dataset=datasets)
    if not dawa or not privtree:
        return Claim(text)
    means = statistics.fmean(dawa), statistics.fmean(privtree)
    names = ", ".join(map(dataset_title, datasets))
    evidence = f"on {names}: DAWA {number(means[0])}, PrivTree {number(means[1])}, HDPView 1"
    return Claim(text, means[0] > max(1.0, means[1]), evidence)


def blocks_of(rows: Sequence[Row], dataset: str, method: str) -> float | None:
    """Mean number of blocks of a method on a dataset."""
    return next(
        (row["blocks"] for row in chosen(rows, dataset=dataset, method=method) if row["blocks"]), None
    )


def _fewer_blocks(rows: Sequence[Row]) -> Claim:
    times = number(JM1_BLOCKS_OF_PRIVTREE)
    text = f"PrivTree makes many more blocks than HDPView, on Jm1 {times} times as many."
    ratios = {}
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        ours, theirs = blocks_of(rows, dataset, "hdpview"), blocks_of(rows, dataset, "privtree")
        if ours and theirs:
            ratios[dataset_title(dataset)] = theirs / ours
    if not ratios:
        return Claim(text)
    told = ", ".join(f"{name} {number(x)}" for name, x in ratios.items())
    return Claim(text, min(ratios.values()) > 1, f"times as many: {told}")


def _controlled_cuts(rows: Sequence[Row]) -> Claim:
    text = (
        "However many attributes PrivTree cuts at a time, HDPView's error is smaller on Numerical-adult "
        "and Jm1."
    )
    trees = [row for row in rows if row["method"].startswith("privtree") and row["relative_rmse"] is not None]
    if not trees:
        return Claim(text)
    datasets = dict.fromkeys(row["dataset"] for row in trees)
    best = (min(chosen(trees, dataset=name), key=lambda row: row["rmse"]) for name in datasets)
    told = ", ".join(
        f"{row['method'].split('=')[-1]} on {row['dataset']} ({number(row['relative_rmse'])} times "
        "HDPView's error)"
        for row in best
    )
    evidence = f"PrivTree is at its best with this many attributes at a time: {told}"
    return Claim(text, all(row["relative_rmse"] > 1 for row in trees), evidence)


def _growing(rows: Sequence[Row]) -> Claim:
    text = (
        "As attributes are added to Adult, HDPView starts ahead of PrivBayes and PrivBayes then gains on it."
    )
    growing = relative(rows, method="privbayes", workload="random-2d")
    if len(growing) < 2:
        return Claim(text)
    evidence = (
        f"PrivBayes' relative RMSE of random 2-D ranges goes from {number(growing[0])} with the fewest to "
        f"{number(growing[-1])} with all"
    )
    return Claim(text, growing[0] > 1 and growing[-1] < growing[0], evidence)


def _map(rows: Sequence[Row]) -> Claim:
    ours, theirs = GOWALLA["hdpview"], GOWALLA["privtree"]
    text = (
        f"On two attributes (Gowalla) HDPView makes fewer blocks ({ours[0]:,} against {theirs[0]:,}) "
        f"and larger errors ({ours[1]} against {theirs[1]}) than PrivTree."
    )
    measured = {row["method"]: row for row in rows if row["rmse"] is not None}
    if not {"hdpview", "privtree"} <= set(measured):
        return Claim(text)
    both = measured["hdpview"], measured["privtree"]
    blocks, errors = ([row[key] for row in both] for key in ("blocks", "rmse"))
    told = [" against ".join(map(number, pair)) for pair in (blocks, errors)]
    evidence = f"on {both[0]['dataset']}: {told[0]} blocks, RMSE {told[1]}"
    return Claim(text, blocks[0] < blocks[1] and errors[0] > errors[1], evidence)
