"""Find likely mistakes in the schema from released histograms. Post-processing, so it costs nothing.

A histogram reveals four mistakes: unreadable values, bounds that are too tight, undeclared categories, and
bounds that are too wide. Each attribute gets at most one finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.domain import Attribute, Category, Ordered, Schema

Floats = NDArray[np.float64]

# Shares of all records above which a finding is reported.
_MISSING_SHARE = 0.5  # missing or unreadable
_SHARED_SHARE = 0.95  # the same, if missing values share the code of a value
_OTHER_SHARE = 0.25  # counted as `other`


class _Heap(NamedTuple):
    """Smallest suspicious outer bin. share: of all records; factor: multiple of the neighbouring bin."""

    share: float
    factor: float


_FIRST_BIN = _Heap(0.1, 3.0)
_LAST_BIN = _Heap(0.01, 2.0)  # 1.4% of the demo's patients are older than 94
_NEARLY_ALL = 0.95  # share of all records; a column that hardly varies does not indicate a tight bound
_TOWER = _Heap(0.002, 8.0)  # a last bin with few records, but many more than its neighbour
_MOST_FEW_VALUES = 4  # attributes with no more values are never called empty
# Bounds are called wide if more than this share of bins is empty.
_EMPTY_SHARE = 0.5
# Largest share of records, including noise, in all empty bins together and in one empty category.
_SURELY_FEW = 0.05
_SURELY_RARE = 0.02
# Empty bins may together hold this multiple of their joint noise. Views have no negative counts, so noise
# does not cancel in sums: in 20 builds with epsilon 8 and bounds six times too wide, a factor of 1 misses 7
# and a factor of 2 misses 1.
_SUM_FACTOR = 2.0
_MOST_OF_A_KIND = 3  # findings of each kind that are shown in full
_MOST_NAMES = 12  # attribute names listed for the other findings


class Histogram(NamedTuple):
    """Released counts of one attribute, shape (size,), and the half-widths of their intervals."""

    counts: Floats
    half_widths: Floats


@dataclass(frozen=True)
class Finding:
    """attribute: its name; kind: missing, other, bound or empty; sentence: the problem and its remedy."""

    attribute: str
    kind: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.attribute}: {self.sentence}"


def diagnose(schema: Schema, histogram_of: Callable[[str], Histogram]) -> tuple[Finding, ...]:
    """The most serious likely mistake of each attribute of the schema, from released histograms.

    histogram_of: counts and half-widths of an attribute, by its name.
    """
    gravest = ((each.name, next(iter(_findings(each, histogram_of(each.name))), None)) for each in schema)
    return tuple(Finding(name, *finding) for name, finding in gravest if finding is not None)


def in_brief(findings: Sequence[Finding]) -> list[str]:
    """Findings as sentences: the first few of each kind in full, then only the names of attributes."""
    sentences = []
    for kind in dict.fromkeys(finding.kind for finding in findings):
        of_kind = [finding for finding in findings if finding.kind == kind]
        sentences += [str(finding) for finding in of_kind[:_MOST_OF_A_KIND]]
        others = [finding.attribute for finding in of_kind[_MOST_OF_A_KIND:]]
        if others:
            names = ", ".join(others[:_MOST_NAMES]) + (", …" if len(others) > _MOST_NAMES else "")
            sentences.append(f"{len(others)} more attributes have this problem: {names}")
    return sentences


def _findings(attribute: Attribute, histogram: Histogram) -> Iterable[tuple[str, str]]:
    """Kinds and sentences, the most serious first."""
    total = float(histogram.counts.sum())
    if total <= 0 or attribute.n_values < 2:
        return
    # lower ends of the intervals, as shares of all records
    least = np.maximum(histogram.counts - histogram.half_widths, 0.0) / total
    missing = attribute.missing_code
    other = (
        attribute.unknown_code if isinstance(attribute, Category) and attribute.other is not None else None
    )
    if missing != other and least[missing] >= (_MISSING_SHARE if attribute.nullable else _SHARED_SHARE):
        shared = f"as {attribute.labels()[missing]!r}, where missing and unreadable ones go"
        sentence = (
            f"{_percent(histogram, missing)} of records are counted "
            f"{'as missing' if attribute.nullable else shared}. "
            "If that is wrong, the declared type or [source] does not fit the column."
        )
        yield "missing", sentence
    if isinstance(attribute, Category) and other is not None and least[other] >= _OTHER_SHARE:
        sentence = (
            f"{_percent(histogram, other)} of records are {attribute.other!r}. Frequent values are "
            "undeclared, or are spelled differently in the table."
        )
        yield "other", sentence
    if isinstance(attribute, Ordered):
        yield from _heaps(attribute, histogram, least)
    yield from _empty(attribute, histogram)


def _heaps(attribute: Ordered, histogram: Histogram, least: Floats) -> Iterable[tuple[str, str]]:
    """Findings about outer bins with too many records, where values beyond the bounds are counted."""
    last, widths = attribute.n_values - 1, np.diff(attribute.edges.astype(np.float64))
    counts, half_widths = histogram.counts, histogram.half_widths
    for code, neighbour, place, rules in (
        (last, last - 1, ("last", "upper"), (_LAST_BIN, _TOWER)),
        (0, 1, ("first", "lower"), (_FIRST_BIN,)),
    ):
        is_shared = code == attribute.missing_code and not attribute.nullable
        is_zero = code == 0 and attribute.edges[0] == 0  # amounts and durations have many zeros, none below
        if is_shared or is_zero or least[code] > _NEARLY_ALL:
            continue
        # a wider bin naturally holds more
        wider = max(1.0, widths[code] / widths[neighbour])
        most_beside = wider * (counts[neighbour] + half_widths[neighbour])
        sure = counts[code] - half_widths[code]
        if any(least[code] >= rule.share and sure > rule.factor * most_beside for rule in rules):
            sentence = (
                f"{_percent(histogram, code)} of records lie in the {place[0]} bin, "
                f"{attribute.labels()[code]}, where values beyond the {place[1]} bound are counted. "
                "If few of them have that value, the bound is too tight."
            )
            yield "bound", sentence


def _empty(attribute: Attribute, histogram: Histogram) -> Iterable[tuple[str, str]]:
    """Bins at the ends of an axis, or values of a category, that hold nothing beyond noise."""
    n = attribute.n_values
    counts, half_widths = histogram.counts[:n], histogram.half_widths[:n]
    if n <= _MOST_FEW_VALUES:
        return
    if not isinstance(attribute, Ordered):
        rare = counts + half_widths <= _SURELY_RARE * histogram.counts.sum()
        n_empty = int(((counts <= half_widths) & rare).sum())
        if n_empty > _EMPTY_SHARE * n:
            sentence = (
                f"{n_empty} of {n} values have too few records to be distinguished from noise. "
                "Declare fewer values, with `other` or in groups, for smaller errors."
            )
            yield "empty", sentence
        return
    most = _SURELY_FEW * float(histogram.counts.sum())
    low = _empty_run(counts, half_widths, most)
    high = _empty_run(counts[::-1], half_widths[::-1], most)
    if _EMPTY_SHARE * n < low + high < n:
        labels = attribute.value_labels()
        sentence = (
            f"{low + high} of {n} bins hold nothing distinguishable from noise; nearly all records lie "
            f"between {labels[low]} and {labels[n - 1 - high]}. Tighter bounds give smaller errors."
        )
        yield "empty", sentence


def _empty_run(counts: Floats, half_widths: Floats, most: float) -> int:
    """Number of bins at the start that hold nothing beyond noise and certainly at most `most` records."""
    total, noise = np.cumsum(counts), np.sqrt(np.cumsum(half_widths**2))
    nothing = (counts <= half_widths) & (total <= _SUM_FACTOR * noise) & (total + noise <= most)
    return int(np.argmin(nothing)) if not nothing.all() else len(counts)


def _percent(histogram: Histogram, code: int) -> str:
    share = float(histogram.counts[code] / histogram.counts.sum())
    return f"{min(max(share, 0.0), 1.0):.0%}"
