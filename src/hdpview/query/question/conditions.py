"""Conditions on one attribute: sets of its values, in the data's own units.

An ordered attribute's values are half-open ranges on its axis, so that conditions can be intersected, united
and negated exactly, before bins matter; any other attribute's values are a set of codes. Missing values
belong to neither, as in SQL: they satisfy only `IS NULL`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.domain import Attribute, Boolean, Category, Datetime, Integer, Ordered
from hdpview.domain.calendar import MICROSECONDS_PER_DAY, is_whole_day
from hdpview.errors import QueryError, quoted, unknown_name

Floats = NDArray[np.float64]
Range = tuple[float, float]  # half-open: low ≤ x < high; whole numbers stay whole

# Fractions of bins are multiples of 1/_GRAIN, so that sums over all 2^16 codes of an attribute are exact.
_GRAIN = 2.0**36
# Maximum bits of a whole number that is compared as text; Python does not print much longer ones.
_MOST_BITS = 10_000
# Maximum number of bins that a note names.
_MOST_NAMED_BINS = 3
# A point less than this fraction of a bin from an edge counts as the edge, as after SQL's <= and >.
_SLIVER = 1e-9
# Minimum share on either side of a cut through a bin, because all records may lie there.
LEAST_SHARE = 2.0**-20


class Condition(NamedTuple):
    """A set of values of one attribute. A named tuple: questions make and compare many thousands of them.

    ranges: for ordered attributes; codes: for the others; null: whether missing values belong to it.
    open: codes of which only some records may belong; estimates count them by `codes`.
    """

    ranges: tuple[Range, ...] = ()
    codes: frozenset[int] = frozenset()
    null: bool = False
    open: frozenset[int] = frozenset()

    def __and__(self, other: Condition) -> Condition:
        both = (self.codes | self.open) & (other.codes | other.open)
        return Condition(
            _common(self.ranges, other.ranges),
            self.codes & other.codes,
            self.null and other.null,
            both & (self.open | other.open),
        )

    def __or__(self, other: Condition) -> Condition:
        certain = (self.codes - self.open) | (other.codes - other.open)
        return Condition(
            _tidy((*self.ranges, *other.ranges)),
            self.codes | other.codes,
            self.null or other.null,
            (self.open | other.open) - certain,
        )

    def meets(self, other: Condition) -> bool:
        """Whether any value satisfies both."""
        if (self.null and other.null) or not self.codes.isdisjoint(other.codes):
            return True
        if (
            not self.ranges
            or not other.ranges
            or self.ranges[-1][1] <= other.ranges[0][0]
            or other.ranges[-1][1] <= self.ranges[0][0]
        ):
            return False
        return bool(_common(self.ranges, other.ranges))


def _tidy(ranges: Any) -> tuple[Range, ...]:
    """Sorted ranges without overlap and without empty ones."""
    merged: list[Range] = []
    for low, high in sorted(r for r in ranges if r[0] < r[1]):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def _common(left: tuple[Range, ...], right: tuple[Range, ...]) -> tuple[Range, ...]:
    """The intersection of two tidy lists of ranges, in one pass."""
    common: list[Range] = []
    i = j = 0
    while i < len(left) and j < len(right):
        low, high = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if low < high:
            common.append((low, high))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return tuple(common)


def everything(attribute: Attribute) -> Condition:
    """All values that are not missing."""
    if isinstance(attribute, Ordered):
        return Condition(ranges=((-math.inf, math.inf),))
    return Condition(codes=frozenset(range(attribute.n_values)))


def missing(attribute: Attribute) -> Condition:
    """Missing values: nothing if they have no code, because the schema counts them elsewhere."""
    return Condition(null=attribute.nullable)


def complement(attribute: Attribute, condition: Condition) -> Condition:
    """All other values that are not missing. (A negated `IS NULL` is `everything`; a negated comparison never
    finds nulls.)
    """
    if isinstance(attribute, Ordered):
        ends = [-math.inf, *(end for pair in condition.ranges for end in pair), math.inf]
        return Condition(ranges=_tidy(zip(ends[0::2], ends[1::2], strict=True)), null=False)
    codes = frozenset(range(attribute.n_values)) - condition.codes
    return Condition(codes=codes, open=condition.open)


def compare(attribute: Attribute, operator: str, value: Any) -> Condition:
    """`attribute operator value` with operator one of = != < <= > >=."""
    if isinstance(attribute, Ordered):
        return _compare_ordered(attribute, operator, value)
    if operator not in ("=", "!="):
        return _compare_categories(attribute, operator, value)
    code = _code(attribute, value)
    condition = Condition(codes=frozenset() if code is None else frozenset({code}))
    return condition if operator == "=" else complement(attribute, condition)


def _compare_categories(attribute: Attribute, operator: str, value: Any) -> Condition:
    """Values before or after a given one in the schema's order. Undeclared values (`other`) have no order."""
    if not isinstance(attribute, Category) or not attribute.ordered:
        raise QueryError(
            f"{attribute.name!r} has no order, so {operator} has no meaning for it. Use = or IN with "
            "its values."
        )
    code, n = _code(attribute, value), len(attribute.values)
    if code is None or code >= n:
        return Condition()
    chosen = {"<": range(code), "<=": range(code + 1), ">": range(code + 1, n), ">=": range(code, n)}[
        operator
    ]
    return Condition(codes=frozenset(chosen))


def between(attribute: Attribute, low: Any, high: Any) -> Condition:
    """`attribute BETWEEN low AND high`, both ends included; None for an end that is open."""
    if isinstance(attribute, Ordered):
        start = -math.inf if low is None else _places(attribute, low)[0]
        end = math.inf if high is None else _places(attribute, high)[1]
        return Condition(((start, end),)) if start < end else Condition()
    condition = everything(attribute)
    for sign, value in ((">=", low), ("<=", high)):
        condition &= condition if value is None else compare(attribute, sign, value)
    return condition


def one_of(attribute: Attribute, values: Any) -> Condition:
    """`attribute IN (values)`."""
    parts = [compare(attribute, "=", value) for value in values]
    ranges = (pair for condition in parts for pair in condition.ranges)
    return Condition(_tidy(ranges), frozenset(code for condition in parts for code in condition.codes))


def _compare_ordered(attribute: Ordered, operator: str, value: Any) -> Condition:
    at, after = _places(attribute, value)
    if not attribute.whole and operator in ("=", "!="):
        raise QueryError(
            f"{attribute.name!r} is a real number counted in bins, so a single value cannot be counted. Use "
            f"a range, such as {attribute.name} BETWEEN {quoted(value)} AND {at + attribute.width_at(at):g}."
        )
    if math.isnan(at):
        return Condition()
    ranges = {
        "=": [(at, after)],
        "!=": [(-math.inf, at), (after, math.inf)],
        "<": [(-math.inf, at)],
        "<=": [(-math.inf, after)],
        ">": [(after, math.inf)],
        ">=": [(at, math.inf)],
    }
    return Condition(_tidy(ranges[operator]))


def _places(attribute: Ordered, value: Any) -> tuple[float, float]:
    """The points of the axis from which values are ≥ and > a literal.

    On a whole axis these are one apart, or equal between numbers; on a real one they are neighbouring
    doubles. A real axis's upper end belongs to the last bin: a value there lies just inside.
    """
    try:
        at = attribute.position(value)
    except TypeError:
        kind = "a date such as DATE '2024-01-31'" if attribute.kind == "datetime" else "a number"
        raise QueryError(f"{attribute.name!r} is compared with {kind}, not with {quoted(value)}.") from None
    if isinstance(attribute, Datetime) and attribute.counts_days and is_whole_day(value):
        return at, at + MICROSECONDS_PER_DAY  # a plain date compared with days is that day
    if attribute.whole and type(at) is int:
        return at, at + 1
    if not math.isfinite(at):
        return at, at
    if attribute.whole:
        return math.ceil(at), math.floor(at) + 1
    return math.nextafter(at, -math.inf) if at == attribute.edges[-1] else at, math.nextafter(at, math.inf)


def _code(attribute: Attribute, value: Any) -> int | None:
    if isinstance(attribute, Boolean):
        truth: dict[Any, int] = {False: 0, True: 1, "false": 0, "true": 1}
        key = value.lower() if isinstance(value, str) else value
        if not isinstance(key, (str, bool, int)) or key not in truth:
            raise QueryError(f"{attribute.name!r} is true or false, not {quoted(value)}.")
        return truth[key]
    assert isinstance(attribute, Category)
    if not isinstance(value, (str, int, float, date)) or (
        isinstance(value, int) and value.bit_length() > _MOST_BITS
    ):
        raise QueryError(f"{attribute.name!r} is compared with a text, not with {quoted(value)}.")
    text = str(value).lower() if isinstance(value, bool) else str(value)
    code = attribute.code_of(text)
    if code is None:
        note = " Values that were not declared are counted together" + (
            f" as {attribute.other!r}." if attribute.other else "."
        )
        raise QueryError(
            unknown_name("value", text, attribute.value_labels(), f"{attribute.name!r} has") + note
        )
    return code


def code_shares(attribute: Attribute, condition: Condition) -> Floats:
    """Share of each code that satisfies a condition, shape (size,): between 0 and 1 for a bin cut through."""
    shares: Floats = shares_of(attribute, (condition,))[0]
    return shares


def shares_of(attribute: Attribute, conditions: Sequence[Condition]) -> Floats:
    """Share of each code that satisfies each of several conditions, shape (n_conditions, size)."""
    shares = np.zeros((len(conditions), attribute.size))
    if isinstance(attribute, Ordered):
        shares[:, : attribute.n_values] = _bin_shares(attribute, [one.ranges for one in conditions])
    else:
        for row, condition in zip(shares, conditions, strict=True):
            row[list(condition.codes)] = 1.0
    if attribute.null_code is not None:
        shares[[condition.null for condition in conditions], attribute.null_code] = 1.0
    return shares


def _bin_shares(attribute: Ordered, ranges: Sequence[tuple[Range, ...]]) -> Floats:
    """Share of each bin that lies in several tuples of tidy ranges, shape (n_tuples, n_values).

    It is 1 or 0 only if the whole bin lies inside or outside: the share of a cut bin differs from both by at
    least `LEAST_SHARE`, despite rounding. Shares are coarse enough that their sums are exact.
    """
    edges, n = attribute.edges, attribute.n_values
    first, last = attribute.ends
    row = np.repeat(np.arange(len(ranges)), [2 * len(own) for own in ranges])
    ends = [min(max(end, first), last) for own in ranges for pair in own for end in pair]
    place, sign = np.array(ends, edges.dtype), np.tile([-1.0, 1.0], len(row) // 2)
    code = np.searchsorted(edges, place, side="right") - 1
    start = edges[code]
    below = (place - start) / np.where(code < n, edges[np.minimum(code + 1, n)] - start, 1)
    # A range adds 1 from the bin of its start to the bin before its end, and corrects both for its ends.
    steps, shares = np.zeros((2, len(ranges), n + 1))
    np.add.at(steps, (row, code), -sign)
    np.add.at(shares, (row, code), sign * below)
    shares += np.cumsum(steps, axis=1)
    cut = place > start
    cells = row[cut], code[cut]
    shares[cells] = np.rint(np.clip(shares[cells], LEAST_SHARE, 1.0 - LEAST_SHARE) * _GRAIN) / _GRAIN
    return shares[:, :n]


class Reach(NamedTuple):
    """Codes whose records all satisfy a condition, and codes of which some records may, shape (size,)."""

    certain: NDArray[np.bool_]
    possible: NDArray[np.bool_]


def reach(attribute: Attribute, condition: Condition) -> Reach:
    """Certain and possible codes of a condition, including values beyond the schema's bounds.

    Such values are counted in the first or the last bin. These are certain only if the condition holds for
    all values beyond as well, and possible if it holds for any of them.
    """
    shares = code_shares(attribute, condition)
    certain, possible = shares == 1.0, shares > 0.0
    unsure = list(condition.open)
    certain[unsure], possible[unsure] = False, True
    if isinstance(attribute, Ordered) and attribute.n_values:
        last = attribute.n_values - 1
        sides = ((0, (-math.inf, float(attribute.edges[0]))), (last, (float(attribute.edges[-1]), math.inf)))
        for code, beyond in sides:
            inside = _common(condition.ranges, (beyond,))
            certain[code] &= inside == (beyond,)
            possible[code] |= bool(inside)
    return Reach(certain, possible)


def reaching(attribute: Attribute, condition: Condition, upper: bool) -> Condition:
    """The most or the least that an open condition may select: records of a bin may share one value.

    At most: ranges beyond the schema's bounds or inside one bin take the whole bin, as do ends beside an
    edge, and all records of open codes satisfy the condition. At least: ranges inside one bin omit the bin,
    as do ends beside an edge, and no record of open codes satisfies it.
    """
    codes = condition.codes | condition.open if upper else condition.codes - condition.open
    if not isinstance(attribute, Ordered):
        return condition._replace(codes=codes)
    return condition._replace(ranges=_tidy(_reached(attribute, own, upper) for own in condition.ranges))


def is_open(attribute: Attribute, condition: Condition) -> bool:
    """Whether records that the estimate excludes may satisfy a condition, or the reverse."""
    if not isinstance(attribute, Ordered):
        return bool(condition.open)
    low, high = attribute.ends
    # A plain loop, because there can be many thousands of conditions. Only short ranges of whole numbers can
    # lie inside a bin.
    for own in condition.ranges:
        if own[0] >= high or own[1] <= low:
            return True
        may_cut = not isinstance(attribute, Integer) or own[1] - own[0] < attribute.widest_bin
        if may_cut and any(_reached(attribute, own, upper) != own for upper in (False, True)):
            return True
    return False


def _reached(attribute: Ordered, own: Range, upper: bool) -> Range:
    """The bounds of a range at most or at least."""
    start, end = own
    edges, n = attribute.edges, attribute.n_values
    if start >= edges[-1] or end <= edges[0]:
        nearest = n - 1 if start >= edges[-1] else 0
        return (edges[nearest].item(), edges[nearest + 1].item()) if upper else own
    (i, below, cuts_start), (j, below_end, cuts_end) = attribute.bin_of(start), attribute.bin_of(end)
    if i == j < n and (cuts_start or cuts_end):
        return (edges[i].item(), edges[i + 1].item()) if upper else (0.0, 0.0)
    if cuts_start and min(below, 1 - below) < _SLIVER:
        start = edges[i if upper else i + 1].item()
    if cuts_end and min(below_end, 1 - below_end) < _SLIVER:
        end = edges[j + 1 if upper else j].item()
    return start, end


def notes_on(attribute: Attribute, condition: Condition) -> Iterator[str]:
    """Sentences on values that the schema groups, and on bins that a condition cuts."""
    if isinstance(attribute, Ordered):
        low, high = attribute.ends
        if any(start >= high or end <= low for start, end in condition.ranges):
            yield note_beyond(attribute)
        shares = code_shares(attribute, condition)
        cut = np.flatnonzero((shares > 0.0) & (shares < 1.0)).tolist()
        if cut:
            yield note_on_cuts(attribute, cut)
    elif isinstance(attribute, Category) and attribute.other is not None:
        if condition.open:
            yield note_on_open(attribute)
        elif condition.codes == {attribute.code_of(attribute.other)}:
            yield note_on_other(attribute)


def note_beyond(attribute: Attribute) -> str:
    """Note on conditions beyond the schema's bounds."""
    labels = attribute.value_labels()
    return (
        f"Values of {attribute.name} beyond the schema's bounds are counted in its first or last bin, "
        f"{labels[0]} or {labels[-1]}; the interval covers that bin."
    )


def note_on_cuts(attribute: Attribute, codes: Sequence[int]) -> str:
    """Note on bins that a condition cuts."""
    labels = attribute.value_labels()
    shown = ", ".join(labels[code] for code in codes[:_MOST_NAMED_BINS])
    more = f" and {len(codes) - _MOST_NAMED_BINS} more" if len(codes) > _MOST_NAMED_BINS else ""
    return (
        f"The condition cuts bins of {attribute.name} ({shown}{more}); the view has one count per bin, so "
        "the interval allows for uneven halves. Whole bins have narrower intervals."
    )


def note_on_other(attribute: Category) -> str:
    """Note on undeclared values."""
    return f"{attribute.other!r} of {attribute.name} contains all values that the schema does not list."


def note_on_open(attribute: Category) -> str:
    """Note on conditions that undeclared values may satisfy."""
    return (
        f"{note_on_other(attribute)} Whether they satisfy the condition is unknown; the interval covers both "
        "cases."
    )
