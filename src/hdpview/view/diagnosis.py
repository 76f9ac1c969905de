"""After paying: what the released histograms say about the schema. Post-processing, so it costs nothing.

Four mistakes show in the histogram of one attribute: values that could not be read, bounds that are too
tight, categories that were not declared, and bounds that are too wide. Each attribute gets one line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdpview.domain import Attribute, Category, Ordered, Schema

Floats = NDArray[np.float64]

# Shares of records, from which on something is worth a word: without a readable value; likewise where missing
# values share the code of a value; in `other`; in the first bin, where zeros heap up by nature; in the last.
_MISSING_SHARE = 0.5
_SHARED_SHARE = 0.95
_OTHER_SHARE = 0.25
_FIRST_BIN_SHARE = 0.1
_LAST_BIN_SHARE = 0.01  # 1.4% of the demo's patients are older than 94
# How many times its neighbour an outer bin has to hold to be a heap at the bound.
_FIRST_BIN_FACTOR = 3.0
_LAST_BIN_FACTOR = 2.0
# Share of bins that have to be empty for bounds to be called wide.
_EMPTY_SHARE = 0.5
# Shares of records that bins together, or one value, have to stay below, noise included, to be called empty.
_SURELY_FEW = 0.05
_SURELY_RARE = 0.02
# Times their joint noise that bins together may hold to be called empty. Views have no negative counts, so
# noise does not cancel in sums: of 20 builds with epsilon 8 and bounds six times too wide,
# a factor of 1 misses 7, and 2 misses 1.
_SUM_FACTOR = 2.0
# Findings of a kind that are told whole, and names told of the others.
_MOST_OF_A_KIND = 3
_MOST_NAMES = 12


@dataclass(frozen=True)
class Histogram:
    """Released counts of one attribute, shape (size,), and the half-widths of their intervals."""

    counts: Floats
    half_widths: Floats


@dataclass(frozen=True)
class Finding:
    """attribute: its name; kind: missing, other, bound or empty; sentence: what was found and what to do."""

    attribute: str
    kind: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.attribute}: {self.sentence}"


def diagnose(schema: Schema, histogram_of: Callable[[str], Histogram]) -> tuple[Finding, ...]:
    """What released histograms of single attributes say about mistakes in the schema, the gravest of each.

    histogram_of: counts and half-widths of an attribute, by its name.
    """
    found = (next(iter(_findings(each, histogram_of(each.name))), None) for each in schema)
    return tuple(finding for finding in found if finding is not None)


def in_brief(findings: Sequence[Finding]) -> list[str]:
    """Findings as sentences for people: the first few of each kind whole, of the others the attributes."""
    told = []
    for kind in dict.fromkeys(finding.kind for finding in findings):
        own = [finding for finding in findings if finding.kind == kind]
        told += [str(finding) for finding in own[:_MOST_OF_A_KIND]]
        more = list(dict.fromkeys(finding.attribute for finding in own[_MOST_OF_A_KIND:]))
        if more:
            names = ", ".join(more[:_MOST_NAMES]) + (", …" if len(more) > _MOST_NAMES else "")
            told.append(f"{len(more)} more attributes have this problem: {names}")
    return told


def _findings(attribute: Attribute, found: Histogram) -> Iterable[Finding]:
    total = float(found.counts.sum())
    if total <= 0 or attribute.n_values < 2:
        return
    # what is certain to be there, in shares of all records
    least = np.maximum(found.counts - found.half_widths, 0.0) / total
    missing = attribute.missing_code
    is_other = (
        isinstance(attribute, Category) and attribute.other is not None and missing == attribute.unknown_code
    )
    if not is_other and least[missing] >= (_MISSING_SHARE if attribute.nullable else _SHARED_SHARE):
        own = (
            "as missing"
            if attribute.nullable
            else f"as {attribute.labels()[missing]!r}, where missing and unreadable ones go"
        )
        yield Finding(
            attribute.name,
            "missing",
            f"{_percent(found, missing)} of records are counted {own}. "
            "If that is not so, the declared type or [source] does not fit the column.",
        )
    if isinstance(attribute, Category):
        yield from _other(attribute, found, least)
    if isinstance(attribute, Ordered):
        yield from _bounds(attribute, found, least)
    yield from _empty(attribute, found)


def _other(attribute: Category, found: Histogram, least: Floats) -> Iterable[Finding]:
    code = attribute.unknown_code
    if attribute.other is not None and least[code] >= _OTHER_SHARE:
        yield Finding(
            attribute.name,
            "other",
            f"{_percent(found, code)} of records are {attribute.other!r}. Frequent values are not declared, "
            "or are spelled otherwise in the table.",
        )


def _bounds(attribute: Ordered, found: Histogram, least: Floats) -> Iterable[Finding]:
    """Heaps in the outer bins, where values beyond the bounds are counted."""
    last = attribute.n_values - 1
    widths = np.diff(attribute.edges.astype(np.float64))
    for code, neighbour, word, share, factor in (
        (last, last - 1, "upper", _LAST_BIN_SHARE, _LAST_BIN_FACTOR),
        (0, 1, "lower", _FIRST_BIN_SHARE, _FIRST_BIN_FACTOR),
    ):
        # a wider bin holds more by nature
        wider = max(1.0, widths[code] / widths[neighbour])
        most_beside = wider * (found.counts[neighbour] + found.half_widths[neighbour])
        if code == attribute.missing_code and not attribute.nullable:
            continue
        if least[code] >= share and found.counts[code] - found.half_widths[code] > factor * most_beside:
            yield Finding(
                attribute.name,
                "bound",
                f"{_percent(found, code)} of records lie in the {'first' if code == 0 else 'last'} bin, "
                f"{attribute.labels()[code]}, where values beyond the {word} bound are counted. "
                "If few of them have that value, the bound is too tight.",
            )


def _empty(attribute: Attribute, found: Histogram) -> Iterable[Finding]:
    """Bins at the ends of an axis, or values of a category, in which nothing is seen beyond noise."""
    n = attribute.n_values
    counts, half_widths = found.counts[:n], found.half_widths[:n]
    if not isinstance(attribute, Ordered):
        rare = counts + half_widths <= _SURELY_RARE * found.counts.sum()
        n_empty = int(((counts <= half_widths) & rare).sum())
        if n_empty > _EMPTY_SHARE * n and n > 4:
            yield Finding(
                attribute.name,
                "empty",
                f"{n_empty} of {n} values have too few records to be distinguished from none. "
                "Fewer values, with `other` or by groups, would be sharper.",
            )
        return
    most = _SURELY_FEW * float(found.counts.sum())
    low = _empty_run(counts, half_widths, most)
    high = _empty_run(counts[::-1], half_widths[::-1], most)
    if low + high > _EMPTY_SHARE * n and low + high < n and n > 4:
        labels = attribute.value_labels()
        yield Finding(
            attribute.name,
            "empty",
            f"{low + high} of {n} bins hold nothing distinguishable from noise; nearly all records lie "
            f"between {labels[low]} and {labels[n - 1 - high]}. Tighter bounds would be sharper.",
        )


def _empty_run(counts: Floats, half_widths: Floats, most: float) -> int:
    """How many bins from the start hold nothing beyond noise, and surely at most `most` records."""
    total, noise = np.cumsum(counts), np.sqrt(np.cumsum(half_widths**2))
    nothing = (counts <= half_widths) & (total <= _SUM_FACTOR * noise) & (total + noise <= most)
    return int(np.argmin(nothing)) if not nothing.all() else len(counts)


def _percent(found: Histogram, code: int) -> str:
    share = float(found.counts[code] / found.counts.sum())
    return f"{min(max(share, 0.0), 1.0):.0%}"
