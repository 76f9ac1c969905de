"""Conditions on one attribute: sets of its values, as ranges of places.

Places are numbers in code order: code c takes the places from c · BIN to below (c + 1) · BIN, and a value
inside a bin has the place at its fraction of the bin. So conditions on any type are intersected, united and
negated in one way, exactly, before bins matter. Values beyond the schema's bounds lie below 0 or from
n_values · BIN on. Missing values lie below all others; as in SQL, only `IS NULL` finds them.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.domain import Attribute, Boolean, Category, Datetime, Integer, Ordered
from hdpview.domain.calendar import MICROSECONDS_PER_DAY
from hdpview.errors import QueryError, quoted, unknown_name

Floats = NDArray[np.float64]
Range = tuple[float, float]  # half-open: low ≤ place < high; places inside the bounds are whole numbers

# Places per bin. Shares of bins are multiples of its inverse, so that sums over all 2^16 codes are exact.
BIN = 2**36
# Minimum distance in places of a cut from the edges of its bin, because all records may lie on either side.
# Between a value at an edge and those after it, as of SQL's <= and >, it is the distance itself.
SLIVER = 2**16
LEAST_SHARE = SLIVER / BIN
# Where values begin; all places below are of missing values.
LOWEST = -sys.float_info.max
# Maximum bits of a whole number that is compared as text; Python does not print much longer ones.
_MOST_BITS = 10_000
# Maximum number of bins that a note names.
_MOST_NAMED_BINS = 3


class Condition(NamedTuple):
    """A set of values of one attribute. A named tuple: questions make and compare many thousands of them.

    ranges: of places, rising, without overlap or empty ones.
    open: a code of which only some records may belong; estimates count it as `ranges` say.
    """

    ranges: tuple[Range, ...] = ()
    open: int | None = None

    def __bool__(self) -> bool:
        return bool(self.ranges) or self.open is not None

    def __and__(self, other: Condition) -> Condition:
        common: list[Range] = []
        left, right, i, j = self.ranges, other.ranges, 0, 0
        while i < len(left) and j < len(right):
            low, high = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
            if low < high:
                common.append((low, high))
            if left[i][1] < right[j][1]:
                i += 1
            else:
                j += 1
        code = other.open if self.open is None else self.open
        is_open = code is not None and self._may_hold(code) and other._may_hold(code)
        return Condition(tuple(common), code if is_open else None)

    def __or__(self, other: Condition) -> Condition:
        return ~(~self & ~other)

    def __invert__(self) -> Condition:
        """All other values, missing ones included."""
        ends = [-math.inf, *(end for pair in self.ranges for end in pair), math.inf]
        pairs = zip(ends[0::2], ends[1::2], strict=True)
        return Condition(tuple(pair for pair in pairs if pair[0] < pair[1]), self.open)

    def _may_hold(self, code: int) -> bool:
        return code == self.open or any(low <= code * BIN < high for low, high in self.ranges)


ANYTHING = Condition(((-math.inf, math.inf),))
EVERYTHING = Condition(((LOWEST, math.inf),))  # all values that are not missing


def missing(attribute: Attribute) -> Condition:
    """Missing values: nothing if they have no code, because the schema counts them elsewhere."""
    return Condition(((-math.inf, LOWEST),)) if attribute.nullable else Condition()


def complement(condition: Condition) -> Condition:
    """All other values that are not missing."""
    return ~condition & EVERYTHING


def rest(attribute: Attribute, condition: Condition) -> Condition:
    """All values that do not satisfy a condition, missing ones included: the complement as a set."""
    return ~condition if attribute.nullable else ~condition & EVERYTHING


def of_code(attribute: Attribute, code: int) -> Condition:
    """The values of one code. The outer bins hold all values beyond them."""
    if code == attribute.null_code:
        return missing(attribute)
    start = code * BIN if code else LOWEST
    return Condition(((start, (code + 1) * BIN if code + 1 < attribute.n_values else math.inf),))


def _united(ranges: Iterable[Range]) -> Condition:
    """The union of any ranges, empty ones among them."""
    merged: list[Range] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        elif low < high:
            merged.append((low, high))
    return Condition(tuple(merged))


def compare(attribute: Attribute, sign: str, value: Any) -> Condition:
    """`attribute sign value` with sign one of = != < <= > >=."""
    if sign == "!=":
        return complement(compare(attribute, "=", value))
    start = LOWEST if sign in ("<", "<=") else _end(attribute, value, sign, is_after=sign == ">")
    is_open = sign in (">", ">=")
    return _range(start, _top(attribute) if is_open else _end(attribute, value, sign, is_after=sign != "<"))


def between(attribute: Attribute, low: Any, high: Any) -> Condition:
    """`attribute BETWEEN low AND high`, both ends included; None for an end that is open."""
    if low is None and high is None:
        return EVERYTHING
    start = LOWEST if low is None else _end(attribute, low, ">=", is_after=False)
    return _range(start, _top(attribute) if high is None else _end(attribute, high, "<=", is_after=True))


def one_of(attribute: Attribute, values: Iterable[Any]) -> Condition:
    """`attribute IN (values)`."""
    return _united(pair for value in values for pair in compare(attribute, "=", value).ranges)


def _range(start: float, end: float) -> Condition:
    return Condition(((start, end),)) if start < end else Condition()


def _top(attribute: Attribute) -> float:
    """Where the order of values ends. Undeclared values (`other`) have none."""
    has_other = isinstance(attribute, Category) and attribute.n_values > len(attribute.values)
    return (attribute.n_values - 1) * BIN if has_other else math.inf


def _end(attribute: Attribute, value: Any, sign: str, is_after: bool) -> float:
    """The place from which values are ≥ a literal; is_after: > a literal. NaN for literals without order."""
    if type(value) is int and isinstance(attribute, Integer) and attribute.every == 1 and abs(value) < 2**63:
        return (value - attribute.min + is_after) * BIN  # as below, but batches ask for thousands
    is_single = sign in ("=", "!=")
    if not isinstance(attribute, Ordered):
        own = of_code(attribute, _code(attribute, value)).ranges[0]
        if not is_single and not attribute.has_order:
            raise QueryError(
                f"{attribute.name!r} has no order, so {sign} has no meaning for it. Use = or IN with "
                "its values."
            )
        return own[is_after] if is_single or own[1] <= _top(attribute) else math.nan
    try:
        at = attribute.position(value)
    except TypeError:
        kind = "a date such as DATE '2024-01-31'" if attribute.kind == "datetime" else "a number"
        raise QueryError(f"{attribute.name!r} is compared with {kind}, not with {quoted(value)}.") from None
    if is_single and not attribute.whole:
        raise QueryError(
            f"{attribute.name!r} is a real number counted in bins, so a single value cannot be counted. Use "
            f"a range, such as {attribute.name} BETWEEN {quoted(value)} AND {at + attribute.width_at(at):g}."
        )
    if not math.isfinite(at):
        return max(at, LOWEST)
    if not attribute.whole:
        if at == attribute.ends[1]:  # belongs to the last bin
            return attribute.n_values * BIN + (1 if is_after else -SLIVER)
        place = _place(attribute, at)
        return place + SLIVER if is_after and 0 <= place < attribute.n_values * BIN else place
    place = _place(attribute, math.ceil(at))
    if not is_after or at != math.floor(at):
        return place
    is_day = isinstance(attribute, Datetime) and attribute.counts_days and at % MICROSECONDS_PER_DAY == 0
    # A date, or a moment at midnight, compared with days is that day, as in SQL, where days are dates.
    # Neighbours may share a place of a very wide bin.
    return max(_place(attribute, int(at) + (MICROSECONDS_PER_DAY if is_day else 1)), place + 1)


def _place(attribute: Ordered, position: float) -> float:
    """The place of a position on an attribute's axis."""
    low, high = attribute.ends
    if isinstance(attribute, Integer) and attribute.every == 1:
        return (position - low) * BIN
    if position < low:
        return max(position - low, LOWEST)
    if position >= high:
        return attribute.n_values * BIN + (position - high)
    code, below, is_cut = attribute.bin_of(position)
    return code * BIN + is_cut * min(max(round(below * BIN), SLIVER), BIN - 2 * SLIVER)


def _code(attribute: Attribute, value: Any) -> int:
    """The code of a truth value or a category."""
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
    if (code := attribute.code_of(text)) is None:
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
    """Share of each code that satisfies each of several conditions, shape (n_conditions, size).

    It is 1 or 0 only if the whole bin lies inside or outside.
    """
    n = attribute.n_values
    ends = [min(max(end, 0), n * BIN) for one in conditions for pair in one.ranges for end in pair]
    row = np.repeat(np.arange(len(conditions)), [2 * len(one.ranges) for one in conditions])
    code, inside = np.divmod(np.array(ends, np.int64), BIN)
    sign = np.tile([-1.0, 1.0], len(row) // 2)
    # A range adds 1 from the bin of its start to the bin before its end, and corrects both for its ends.
    steps, shares = np.zeros((2, len(conditions), n + 1))
    np.add.at(steps, (row, code), -sign)
    np.add.at(shares, (row, code), sign * inside / BIN)
    shares += np.cumsum(steps, axis=1)
    if attribute.nullable:
        shares[:, n] = [bool(one.ranges) and one.ranges[0][0] < LOWEST for one in conditions]
    return shares[:, : attribute.size]


class Reach(NamedTuple):
    """Codes whose records all satisfy a condition, and codes of which some records may, shape (size,)."""

    certain: NDArray[np.bool_]
    possible: NDArray[np.bool_]


def reach(attribute: Attribute, condition: Condition) -> Reach:
    """Certain and possible codes of a condition, including values beyond the schema's bounds.

    Such values are counted in the first or the last bin. These are certain only if the condition holds for
    all values beyond as well, and possible if it holds for any of them.
    """
    shares, n = code_shares(attribute, condition), attribute.n_values
    certain, possible = shares == 1.0, shares > 0.0
    for code, beyond in ((0, (LOWEST, 0)), (n - 1, (n * BIN, math.inf))):
        inside = (condition & Condition((beyond,))).ranges
        certain[code] &= inside == (beyond,)
        possible[code] |= bool(inside)
    if condition.open is not None:
        certain[condition.open], possible[condition.open] = False, True
    return Reach(certain, possible)


def reaching(attribute: Attribute, condition: Condition, upper: bool) -> Condition:
    """The most or the least that an open condition may select: records of a bin may share one value.

    At most: ranges beyond the schema's bounds or inside one bin take the whole bin, as do ends beside an
    edge, and all records of the open code satisfy the condition. At least: ranges inside one bin omit the
    bin, as do ends beside an edge, and no record of the open code satisfies it.
    """
    reached = _united(_reached(attribute.n_values, own, upper) for own in condition.ranges)
    if condition.open is None:
        return reached
    unknown = of_code(attribute, condition.open)
    return reached | unknown if upper else reached & ~unknown


def is_open(attribute: Attribute, condition: Condition) -> bool:
    """Whether records that the estimate excludes may satisfy a condition, or the reverse."""
    n = attribute.n_values
    for own in condition.ranges:
        start, end = own
        if _is_beyond(n, own):
            return True
        # A plain loop that tests whole bins first, because there can be many thousands of conditions.
        is_cut = (start > 0 and start % BIN) or (end < n * BIN and end % BIN)
        if is_cut and any(_reached(n, own, upper) != own for upper in (False, True)):
            return True
    return condition.open is not None


def _is_beyond(n: int, own: Range) -> bool:
    """Whether all values of a range lie beyond the bounds of n bins."""
    return own[0] >= n * BIN or LOWEST < own[1] <= 0


def _reached(n: int, own: Range, upper: bool) -> Range:
    """A range at most or at least, over n bins; empty if nothing is left."""
    start, end = own
    if end <= LOWEST:  # missing values
        return own
    if _is_beyond(n, own):
        code = 0 if end <= 0 else n - 1
        return (min(start, code * BIN), max(end, (code + 1) * BIN)) if upper else own
    (first, cut), (last, before_end) = divmod(max(start, 0), BIN), divmod(min(end, n * BIN) - 1, BIN)
    if first == last and (cut or before_end < BIN - 1):
        return (min(start, first * BIN), max(end, (first + 1) * BIN)) if upper else (0, 0)
    if 0 < min(cut, BIN - cut) <= 2 * SLIVER:
        start = (first if upper else first + 1) * BIN
    if 0 < min(before_end + 1, BIN - before_end - 1) <= 2 * SLIVER:
        end = (last + 1 if upper else last) * BIN
    return start, end


def notes_on(attribute: Attribute, condition: Condition) -> Iterator[str]:
    """Sentences on values that the schema groups, and on bins that a condition cuts."""
    if any(_is_beyond(attribute.n_values, own) for own in condition.ranges):
        yield note_beyond(attribute)
    shares = code_shares(attribute, condition)
    cut = np.flatnonzero((shares > 0.0) & (shares < 1.0)).tolist()
    if cut:
        yield note_on_cuts(attribute, cut)
    if isinstance(attribute, Category) and attribute.other is not None:
        if condition.open is not None:
            yield note_on_open(attribute)
        elif condition == of_code(attribute, attribute.unknown_code):
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
