"""Conditions on one attribute: which of its values a question is about, in the data's own units.

An ordered attribute's values are half-open ranges on its axis, so that conditions can be cut, joined and
turned round exactly before any bin is looked at; any other attribute's values are a set of codes. Missing
values are outside both, as in SQL: they satisfy `IS NULL` and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.domain import Attribute, Boolean, Category, Datetime, Ordered
from hdpview.domain.calendar import MICROSECONDS_PER_DAY, is_whole_day
from hdpview.errors import QueryError, quoted, unknown_name

Floats = NDArray[np.float64]
Range = tuple[float, float]  # half-open: low ≤ x < high; whole numbers stay whole

# Fractions of bins are multiples of 1/_GRAIN, so that sums over all 2^16 codes of an attribute are exact.
_GRAIN = 2.0**36
# Bits of a whole number that is looked up as text; Python refuses to write out much longer ones.
_MOST_BITS = 10_000
# Ranges for which a loop is faster than arrays; and whole numbers up to which arrays of doubles are exact.
_FEW, _LARGEST_EXACT = 8, 2**52
# The least fraction of a bin that is cut through, on either side: all records may lie there.
_LEAST = 2.0**-20


class Condition(NamedTuple):
    """A set of values of one attribute. `ranges` for ordered attributes, `codes` for the others; `null` adds
    missing values. A named tuple: questions make and compare many thousands of them.
    """

    ranges: tuple[Range, ...] = ()
    codes: frozenset[int] = frozenset()
    null: bool = False

    def __and__(self, other: Condition) -> Condition:
        return Condition(
            _common(self.ranges, other.ranges), self.codes & other.codes, self.null and other.null
        )

    def __or__(self, other: Condition) -> Condition:
        return Condition(
            _tidy((*self.ranges, *other.ranges)), self.codes | other.codes, self.null or other.null
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
    """What two tidy lists of ranges share, in one pass over both."""
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
    """Missing values: nothing where they have no code, since the schema's rule put them elsewhere."""
    return Condition(null=attribute.nullable)


def complement(attribute: Attribute, condition: Condition) -> Condition:
    """All other values that are not missing. (A negated `IS NULL` is `everything`; a negated comparison never
    finds nulls.)
    """
    if isinstance(attribute, Ordered):
        ends = [-math.inf, *(end for pair in condition.ranges for end in pair), math.inf]
        return Condition(ranges=_tidy(zip(ends[0::2], ends[1::2], strict=True)), null=False)
    return Condition(codes=frozenset(range(attribute.n_values)) - condition.codes)


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
    """Values before or after one in the schema's order, in which an undeclared `other` has no place."""
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
    """`attribute BETWEEN low AND high`, both ends included."""
    if isinstance(attribute, Ordered):
        start, end = _places(attribute, low)[0], _places(attribute, high)[1]
        return Condition(((start, end),)) if start < end else Condition()
    return compare(attribute, ">=", low) & compare(attribute, "<=", high)


def one_of(attribute: Attribute, values: Any) -> Condition:
    """`attribute IN (values)`."""
    parts = [compare(attribute, "=", value) for value in values]
    ranges = (pair for condition in parts for pair in condition.ranges)
    return Condition(_tidy(ranges), frozenset(code for condition in parts for code in condition.codes))


def _compare_ordered(attribute: Ordered, operator: str, value: Any) -> Condition:
    at, after = _places(attribute, value)
    if not attribute.whole and operator in ("=", "!="):
        raise QueryError(
            f"{attribute.name!r} is a real number counted in bins; a single value has no width. "
            f"Ask for a range, such as {attribute.name} BETWEEN {quoted(value)} AND "
            f"{at + attribute.width_at(at):g}."
        )
    if math.isnan(at):
        return Condition()
    match operator:
        case "=":
            return Condition(ranges=_tidy([(at, after)]))
        case "!=":
            return Condition(ranges=_tidy([(-math.inf, at), (after, math.inf)]))
        case "<":
            return Condition(ranges=((-math.inf, at),))
        case "<=":
            return Condition(ranges=((-math.inf, after),))
        case ">":
            return Condition(ranges=((after, math.inf),))
        case _:
            return Condition(ranges=((at, math.inf),))


def _places(attribute: Ordered, value: Any) -> tuple[float, float]:
    """Where on the axis values ≥ and values > a literal begin.

    On a whole axis these are one apart, or equal between numbers; on a real one they are neighbouring
    doubles. A real axis's upper end
    belongs to the last bin: a value there lies just inside.
    """
    try:
        at = attribute.position(value)
    except TypeError:
        kind = "a date such as DATE '2024-01-31'" if attribute.kind == "datetime" else "a number"
        raise QueryError(f"{attribute.name!r} is compared with {kind}, not with {quoted(value)}.") from None
    if isinstance(attribute, Datetime) and attribute.counts_days and is_whole_day(value):
        return at, at + MICROSECONDS_PER_DAY  # a plain date against days is that day
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


def like(attribute: Attribute, pattern: Any, ignore_case: bool) -> Condition:
    """The declared values of a category that match an SQL pattern: % for any run of characters, _ for one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not isinstance(pattern, str):
        raise QueryError(f"LIKE needs a text pattern such as 'Nor%', not {quoted(pattern)}.")
    if not isinstance(attribute, Category):
        raise QueryError(f"LIKE needs a category; {attribute.name!r} is of type {attribute.kind}.")
    # A backslash is a sign like any other here, as in DuckDB; Arrow takes it for one that quotes the next.
    plain = pattern.replace("\\", "\\\\")
    matches = pc.match_like(pa.array(attribute.value_labels(), pa.string()), plain, ignore_case=ignore_case)
    return Condition(codes=frozenset(np.flatnonzero(matches.to_numpy(zero_copy_only=False)).tolist()))


def code_shares(attribute: Attribute, condition: Condition) -> Floats:
    """Share of each code that satisfies a condition, shape (size,): between 0 and 1 for a bin cut through."""
    shares: Floats = shares_of(attribute, (condition,))[0]
    return shares


def shares_of(attribute: Attribute, conditions: Sequence[Condition]) -> Floats:
    """Share of each code that satisfies each of several conditions, shape (n_conditions, size)."""
    if not isinstance(attribute, Ordered):
        shares = np.zeros((len(conditions), attribute.size))
        for row, condition in zip(shares, conditions, strict=True):
            row[list(condition.codes)] = 1.0
    else:
        # Most questions ask for one range, and many ask for one each.
        several = [i for i, condition in enumerate(conditions) if len(condition.ranges) != 1]
        nothing = ((attribute.ends[0],) * 2,)
        shares = _shares_of_ranges(attribute, [(condition.ranges or nothing)[0] for condition in conditions])
        for i in several:
            shares[i] = _bin_shares(attribute, conditions[i].ranges)
    if attribute.null_code is not None:
        shares[[condition.null for condition in conditions], attribute.null_code] = 1.0
    return shares


class Reach(NamedTuple):
    """Codes whose records all satisfy a condition for certain, and those of which some may, shape (size,)."""

    certain: NDArray[np.bool_]
    possible: NDArray[np.bool_]


def reach(attribute: Attribute, condition: Condition) -> Reach:
    """What is certain and what is possible, values beyond the schema's bounds included.

    Such values are counted in the first or the last bin. These are certain only if the condition holds for
    all values beyond as well, and possible if it holds for any of them.
    """
    shares = code_shares(attribute, condition)
    certain, possible = shares == 1.0, shares > 0.0
    if isinstance(attribute, Ordered) and attribute.n_values:
        last = attribute.n_values - 1
        sides = ((0, (-math.inf, float(attribute.edges[0]))), (last, (float(attribute.edges[-1]), math.inf)))
        for code, beyond in sides:
            inside = _common(condition.ranges, (beyond,))
            certain[code] &= inside == (beyond,)
            possible[code] |= bool(inside)
    return Reach(certain, possible)


def reaching_bins(attribute: Attribute, condition: Condition) -> Condition:
    """The condition with ranges beyond the schema's bounds moved to the bin that counts such values."""
    if not is_beyond(attribute, condition):
        return condition
    assert isinstance(attribute, Ordered)
    edges = attribute.edges.tolist()
    moved = [
        (edges[-2], edges[-1])
        if start >= edges[-1]
        else (edges[0], edges[1])
        if end <= edges[0]
        else (start, end)
        for start, end in condition.ranges
    ]
    return Condition(_tidy(moved), condition.codes, condition.null)


def is_beyond(attribute: Attribute, condition: Condition) -> bool:
    """Whether any range of a condition lies beyond the schema's bounds."""
    if not isinstance(attribute, Ordered):
        return False
    low, high = attribute.ends
    # A loop: many thousands of conditions are looked at.
    for start, end in condition.ranges:  # noqa: SIM110
        if start >= high or end <= low:
            return True
    return False


def note_on(attribute: Attribute, condition: Condition) -> str | None:
    """A sentence for people whose condition meets values that the schema gathers; None where it does not."""
    if isinstance(attribute, Ordered) and is_beyond(attribute, condition):
        return note_beyond(attribute)
    if not isinstance(attribute, Category) or attribute.other is None:
        return None
    return note_on_other(attribute) if condition.codes == {attribute.code_of(attribute.other)} else None


def note_beyond(attribute: Attribute) -> str:
    """On conditions beyond the bounds."""
    labels = attribute.value_labels()
    return (
        f"Values of {attribute.name} beyond the schema's bounds are counted in its first or last bin, "
        f"{labels[0]} or {labels[-1]}; the interval reaches over that bin."
    )


def note_on_other(attribute: Category) -> str:
    """On undeclared values."""
    return f"{attribute.other!r} of {attribute.name} gathers all values that the schema does not list."


def _shares_of_ranges(attribute: Ordered, ranges: Sequence[Range]) -> Floats:
    """As `_bin_shares` for one range each, shape (n_ranges, size)."""
    is_exact = max(map(abs, attribute.ends)) < _LARGEST_EXACT
    find = _codes_between if len(ranges) > _FEW and is_exact else _codes_between_few
    low, high = find(attribute, ranges)
    axis = np.arange(attribute.size + 1, dtype=np.float64)
    clipped = np.maximum(axis, low[:, None])
    np.minimum(clipped, high[:, None], out=clipped)
    shares: Floats = clipped[:, 1:] - clipped[:, :-1]
    return shares


def _codes_between(attribute: Ordered, ranges: Sequence[Range]) -> tuple[Floats, Floats]:
    """Where ranges start and end, counted in codes and fractions of codes, shape (n_ranges,) each."""
    edges, n = attribute.edges, attribute.n_values
    first, last = attribute.ends
    places = np.clip(np.array(ranges, np.float64), first, last)
    code = np.searchsorted(edges, places, side="right") - 1
    start = edges[code]
    below = (places - start) / np.where(code < n, edges[np.minimum(code + 1, n)] - start, 1)
    (i, j), (below_start, below_end), (cuts_start, cuts_end) = code.T, below.T, (places > start).T
    within = np.where(cuts_start | cuts_end, _kept_apart(below_end - below_start), 0.0)
    low = np.where(cuts_start & (i != j), i + 1 - _kept_apart(1.0 - below_start), i)
    high = np.where(i == j, i + within, np.where(cuts_end, j + _kept_apart(below_end), j))
    return low, high


def _codes_between_few(attribute: Ordered, ranges: Sequence[Range]) -> tuple[Floats, Floats]:
    """The same without the cost of a dozen arrays."""
    codes = np.empty((2, len(ranges)))
    for place, (start, end) in enumerate(ranges):
        (i, below_start, cuts_start), (j, below_end, cuts_end) = (
            attribute.bin_of(start),
            attribute.bin_of(end),
        )
        if i == j:  # inside one bin, or beyond the axis
            codes[0, place] = i
            codes[1, place] = i + (_kept_apart(below_end - below_start) if cuts_start or cuts_end else 0.0)
        else:
            codes[0, place] = i + 1 - _kept_apart(1.0 - below_start) if cuts_start else i
            codes[1, place] = j + _kept_apart(below_end) if cuts_end else j
    return codes[0], codes[1]


def _kept_apart(share: Floats | float) -> Floats:
    """The share of a bin that is cut through: neither 0 nor 1, and coarse enough for exact sums."""
    kept: Floats = np.rint(np.minimum(np.maximum(share, _LEAST), 1.0 - _LEAST) * _GRAIN) / _GRAIN
    return kept


def _bin_shares(attribute: Ordered, ranges: tuple[Range, ...]) -> Floats:
    """Share of each code's bin that lies in tidy ranges, shape (size,): 1 or 0 only where the bin lies inside
    or outside as a whole.

    No rounding can turn a bin that is cut through into one that is covered or missed: its share keeps
        `_LEAST` away from both, and
    shares are coarse enough for sums of them to be exact.
    """
    share = np.zeros(attribute.size + 1)  # one more, for ranges that end with the axis
    cut = set()
    for start, end in ranges:
        (i, below_start, cuts_start), (j, below_end, cuts_end) = (
            attribute.bin_of(start),
            attribute.bin_of(end),
        )
        share[i:j] += 1.0
        share[i] -= below_start
        share[j] += below_end
        cut |= ({i} if cuts_start else set()) | ({j} if cuts_end else set())
    share = share[:-1]
    for i in cut - {attribute.size}:
        share[i] = _kept_apart(share[i])
    return share
