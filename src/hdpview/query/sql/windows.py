"""Windows over groups: totals, running sums, moving means, ranks, and the group before or after.

A window looks at the rows of a result, which are groups; it needs no records. Sums, means and extremes have
intervals made of the ends of their groups' intervals; ranks have none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from hdpview.errors import QueryError
from hdpview.query.sql.functions import OrderTerm, places_in_order
from hdpview.query.sql.scalar import constant, shown

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_LONGEST_FRAME = 1_000  # groups of a frame that moves
_SUMMARIES = (exp.Sum, exp.Avg, exp.Min, exp.Max)
_TAKEN = (exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue)
_RANKS = (exp.RowNumber, exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist, exp.Ntile, exp.Count)
_PARTS = {"this", "over", "partition_by", "order", "spec"}
WHAT_WORKS = (
    "Windows work over groups: COUNT(*) / SUM(COUNT(*)) OVER (), RANK() OVER (ORDER BY COUNT(*) DESC), "
    "LAG(COUNT(*)) OVER (ORDER BY year), with PARTITION BY and ROWS BETWEEN."
)


class Order(NamedTuple):
    """One ORDER BY term."""

    by: exp.Expr
    descending: bool
    nulls_first: bool

    @classmethod
    def read(cls, node: exp.Expr, with_slots: Callable[[exp.Expr], exp.Expr]) -> Order:
        return cls(with_slots(node.this), bool(node.args.get("desc")), bool(node.args.get("nulls_first")))


class Frame(NamedTuple):
    """Rows that a window looks at, counted from the current one; None for all on that side. to_peers: up to
    the last row that the order cannot tell from the current one.
    """

    start: int | None
    stop: int | None
    to_peers: bool = False


class Window(NamedTuple):
    """function(of) OVER (PARTITION BY … ORDER BY … frame). of: None for ranks. number: of buckets, or of rows
    to go back or ahead. default: what LAG and LEAD give where there is no such row.
    """

    function: type[exp.Expr]
    of: exp.Expr | None
    partition: tuple[exp.Expr, ...]
    order: tuple[Order, ...]
    frame: Frame
    number: int = 1
    default: Any = None

    @property
    def is_taken(self) -> bool:
        """Whether it gives a value of another row as it is."""
        return self.function in _TAKEN


def is_rank(node: exp.Expr) -> bool:
    """Whether a window counts or orders groups, so that its value is no estimate."""
    return isinstance(node, exp.Window) and isinstance(node.this, _RANKS)


def is_function_of_window(node: exp.Expr) -> bool:
    """Whether a node is the SUM of `SUM(…) OVER (…)`: no aggregate of records."""
    return isinstance(node.parent, exp.Window) and node.arg_key == "this"


def read(node: exp.Window, with_slots: Callable[[exp.Expr], exp.Expr]) -> Window:
    """A window, its expressions with slots."""
    function = node.this
    others = [key for key, part in node.args.items() if part and key not in _PARTS]
    if others or not isinstance(function, (*_SUMMARIES, *_TAKEN, *_RANKS)):
        raise QueryError(f"{shown(node)} cannot be answered. {WHAT_WORKS}")
    of = function.this if isinstance(function.this, exp.Expr) else None
    number, default = 1, None
    if isinstance(function, exp.Ntile):
        number, of = _whole(node, of), None
    elif isinstance(function, exp.Count):
        of = None if isinstance(of, (exp.Star, exp.Literal)) else of
    elif function.args.get("offset") is not None:
        number = _whole(node, function.args["offset"])
        default = constant(function.args["default"]) if function.args.get("default") is not None else None
    clause = node.args.get("order")
    order = tuple(Order.read(term, with_slots) for term in (clause.expressions if clause else ()))
    return Window(
        type(function),
        None if of is None else with_slots(of),
        tuple(with_slots(part) for part in node.args.get("partition_by") or ()),
        order,
        _frame(node, bool(order)),
        number,
        default,
    )


def _whole(node: exp.Expr, argument: Any) -> int:
    value = constant(argument) if isinstance(argument, exp.Expr) else None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        raise QueryError(f"{shown(node)}: how many is a whole number.")
    return value


def _frame(node: exp.Window, is_ordered: bool) -> Frame:
    spec = node.args.get("spec")
    if spec is None:
        return Frame(None, 0, to_peers=True) if is_ordered else Frame(None, None)
    by_rows = str(spec.args.get("kind")).upper() == "ROWS"
    start = _side(node, spec.args.get("start"), spec.args.get("start_side"))
    stop = _side(node, spec.args.get("end") or "CURRENT ROW", spec.args.get("end_side"))
    if by_rows and not spec.args.get("exclude"):
        if start is not None and stop is not None and stop - start > _LONGEST_FRAME:
            raise QueryError(f"{shown(node)}: a frame has at most {_LONGEST_FRAME:,} rows.")
        return Frame(start, stop)
    if start is None and stop in (None, 0):
        return Frame(None, stop, to_peers=stop == 0 and is_ordered)
    raise QueryError(f"{shown(node)}: frames that move are written with ROWS BETWEEN.")


def _side(node: exp.Window, value: Any, side: Any) -> int | None:
    """A side of a frame as a number of rows from the current one; None where it has no end."""
    if str(value) == "CURRENT ROW":
        return 0
    if str(value) == "UNBOUNDED":
        return None
    return _whole(node, value) * (-1 if str(side) == "PRECEDING" else 1)


class Rows:
    """Rows of a result as one window orders and divides them.

    partition: values of each row to divide by. order: the terms to order by.
    """

    def __init__(self, n: int, partition: Sequence[list[Any]], order: Sequence[OrderTerm]) -> None:
        self.n = n
        ordered = places_in_order(n, order) if order else list(range(n))
        sets: dict[tuple[Any, ...], list[int]] = {}
        for row in ordered:
            sets.setdefault(tuple(values[row] for values in partition), []).append(row)
        self.sets = [np.array(rows, dtype=np.int64) for rows in sets.values()]
        self._order = order

    def firsts(self) -> Ints:
        """The first row of each set."""
        return np.array([rows[0] for rows in self.sets], dtype=np.int64)

    def _last_peers(self, rows: Ints) -> Ints:
        """Of each place in a set, the last place that the order cannot tell from it."""
        found = np.arange(len(rows))
        for i in range(len(rows) - 2, -1, -1):
            if all(values[rows[i]] == values[rows[i + 1]] for values, _, _ in self._order):
                found[i] = found[i + 1]
        return found

    def _frames(self, frame: Frame) -> Iterator[tuple[Ints, Ints, Ints]]:
        """Of each set its rows, and of each of them where its frame starts and stops."""
        for rows in self.sets:
            m, at = len(rows), np.arange(len(rows))
            start = np.zeros(m, dtype=np.int64) if frame.start is None else np.clip(at + frame.start, 0, m)
            stop = np.full(m, m) if frame.stop is None else np.clip(at + frame.stop + 1, 0, m)
            stop = self._last_peers(rows) + 1 if frame.to_peers else stop
            yield rows, start, np.maximum(start, stop)

    def summaries(self, window: Window, column: Floats) -> Floats:
        """SUM, AVG, MIN or MAX of a column over each row's frame; NaN is NULL."""
        found = np.full(self.n, np.nan)
        for rows, start, stop in self._frames(window.frame):
            values = column[rows]
            if window.function in (exp.Min, exp.Max):
                found[rows] = _extremes(values, start, stop, window.function is exp.Max)
                continue
            total, known = _between(values, start, stop), _between(~np.isnan(values) * 1.0, start, stop)
            with np.errstate(invalid="ignore"):
                mean = total / known if window.function is exp.Avg else total
            found[rows] = np.where(known > 0, mean, np.nan)
        return found

    def sources(self, window: Window) -> Ints:
        """The row that LAG, LEAD, FIRST_VALUE or LAST_VALUE takes its value from; −1 where there is none."""
        found = np.full(self.n, -1, dtype=np.int64)
        for rows, start, stop in self._frames(window.frame):
            taken: dict[type[exp.Expr], Ints] = {
                exp.Lag: np.arange(len(rows)) - window.number,
                exp.Lead: np.arange(len(rows)) + window.number,
                exp.FirstValue: np.where(stop > start, start, -1),
                exp.LastValue: np.where(stop > start, stop - 1, -1),
            }
            at = taken[window.function]
            inside = (at >= 0) & (at < len(rows))
            found[rows[inside]] = rows[at[inside]]
        return found

    def ranks(self, window: Window, column: list[Any] | None) -> list[Any]:
        """ROW_NUMBER and its kin, and COUNT of groups. column: what COUNT counts where it is not NULL."""
        found = np.zeros(self.n)
        for rows, start, stop in self._frames(window.frame):
            m, at, last = len(rows), np.arange(len(rows)), self._last_peers(rows)
            if window.function is exp.Count:
                counted = [column is None or column[row] is not None for row in rows.tolist()]
                found[rows] = _between(np.array(counted) * 1.0, start, stop)
                continue
            _, first, dense = np.unique(last, return_index=True, return_inverse=True)
            first = first[dense]
            ranks: dict[type[exp.Expr], NDArray[Any]] = {
                exp.RowNumber: at + 1,
                exp.Rank: first + 1,
                exp.DenseRank: dense + 1,
                exp.PercentRank: first / max(m - 1, 1),
                exp.CumeDist: (last + 1) / m,
                exp.Ntile: _buckets(m, max(window.number, 1)),
            }
            found[rows] = ranks[window.function]
        whole = window.function not in (exp.PercentRank, exp.CumeDist)
        return [int(value) if whole else value for value in found.tolist()]


def _buckets(m: int, n: int) -> Ints:
    """NTILE(n) of m rows: the first buckets hold one more where they cannot all hold as many."""
    sizes = [m // n + (i < m % n) for i in range(min(n, m))]
    return np.repeat(np.arange(1, len(sizes) + 1), sizes)


def _between(values: Floats, start: Ints, stop: Ints) -> Floats:
    """Sums of values from start to before stop, without those that are NaN; infinite where one of them is."""
    finite = np.concatenate([[0.0], np.cumsum(np.where(np.isfinite(values), values, 0.0))])
    found: Floats = finite[stop] - finite[start]
    for end in (np.inf, -np.inf):
        if (values == end).any():
            found = np.where(_between((values == end) * 1.0, start, stop) > 0, end, found)
    return found


def _extremes(values: Floats, start: Ints, stop: Ints, greatest: bool) -> Floats:
    choose = np.fmax if greatest else np.fmin
    if not start.any():
        running = choose.accumulate(values)
        return np.where(stop > 0, running[stop - 1], np.nan)
    if (stop == len(values)).all():
        running = choose.accumulate(values[::-1])[::-1]
        return np.append(running, np.nan)[start]
    parts = zip(start.tolist(), stop.tolist(), strict=True)
    return np.array([choose.reduce(values[a:b]) if b > a else np.nan for a, b in parts])
