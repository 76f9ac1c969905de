"""Aggregates as expressions of base sums."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot import exp

from hdpview.domain.calendar import MICROSECONDS_PER_DAY
from hdpview.errors import QueryError
from hdpview.query.evaluate.allowed import plain_name, words
from hdpview.query.evaluate.database import SECRET
from hdpview.query.evaluate.expressions import BIN, conjuncts, shown, text_of
from hdpview.query.evaluate.scan import OrderedColumn, Scan

if TYPE_CHECKING:
    from hdpview.query.evaluate.statement import Statement


# A sum of records below this is 0 up to rounding.
EMPTY = 1e-9
# Names of aggregates, without underscores.
_SINGLE = words(
    "min max argmax argmin maxby minby anyvalue arbitrary first last logicaland booland logicalor boolor"
)
_QUANTILES = words(
    "median quantile quantilecont quantiledisc percentilecont percentiledisc approxquantile withingroup"
)
_LISTS = words("arrayagg groupconcat list stringagg listagg")
_NAMED = (
    words(
        """
    oddsratio riskratio riskdifference mean favg fsum kahansum regrslope regrintercept regrr2 regrcount
    regravgx regravgy regrsxx regrsyy regrsxy skewness kurtosis kurtosispop approxcountdistinct entropy mad
    bitand bitor bitxor product sumnooverflow countstar varpop varsamp stddevpop stddevsamp covarpop covarsamp
    """
    )
    | _SINGLE
    | _QUANTILES
    | _LISTS
)
_OF_WINDOWS = (
    exp.RowNumber, exp.Rank, exp.DenseRank, exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue,
    exp.Ntile, exp.PercentRank, exp.CumeDist, exp.Grouping, exp.GroupingId,
)  # fmt: skip


# Aggregates of one argument, which ignore NULL.
_OF_ONE = (
    exp.Count, exp.Sum, exp.Avg, exp.Median, exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Variance,
    exp.VariancePop,
)  # fmt: skip
# Expressions of only these are NULL exactly where one of their columns is.
_STRICT = (
    exp.Column, exp.Identifier, exp.Literal, exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Paren, exp.DateDiff,
    exp.Abs, exp.Var,
)  # fmt: skip
# Formulas over sums of products of x and y, the number of records n, and the mean m of x.
_OF_X, _OF_Y = "({xx} / {n} - {m} * {m})", "({yy} / {n} - {y} / {n} * {y} / {n})"
_TOGETHER = "({yx} / {n} - {m} * {y} / {n})"
_SAMPLE = "* {n} / NULLIF(GREATEST({n} - 1, 0), 0)"
_SLOPE = f"({_TOGETHER} / NULLIF({_OF_X}, 0))"
_SPREAD = f"NULLIF(GREATEST({_OF_X}, 0), 0)"
_BOTH_SPREADS = f"NULLIF(SQRT(GREATEST({_OF_X}, 0) * GREATEST({_OF_Y}, 0)), 0)"
_THIRD = "({xxx} / {n} - 3 * {m} * {xx} / {n} + 2 * POWER({m}, 3))"
_FOURTH = "({xxxx} / {n} - 4 * {m} * {xxx} / {n} + 6 * POWER({m}, 2) * {xx} / {n} - 3 * POWER({m}, 4))"
_RATIO = f"({_FOURTH} / ({_SPREAD} * {_SPREAD}))"
_EXCESS = f"({{n}} - 1) / (({{n}} - 2) * ({{n}} - 3)) * (({{n}} + 1) * {_RATIO} - 3 * ({{n}} - 1))"
_SKEW = f"{_THIRD} / POWER({_SPREAD}, 1.5) * SQRT({{n}} * ({{n}} - 1)) / ({{n}} - 2)"
_FORMULAS = {
    "variancepop": f"GREATEST({_OF_X}, 0)",
    "variance": f"GREATEST({_OF_X} {_SAMPLE}, 0)",
    "stddevpop": f"SQRT(GREATEST({_OF_X}, 0))",
    "stddev": f"SQRT(GREATEST({_OF_X} {_SAMPLE}, 0))",
    "skewness": f"CASE WHEN {{n}} > 3 THEN {_SKEW} END",
    "kurtosis": f"CASE WHEN {{n}} > 3 THEN {_EXCESS} END",
    "kurtosispop": f"CASE WHEN {{n}} > 3 THEN {_RATIO} - 3 END",
    "corr": f"LEAST(GREATEST({_TOGETHER} / {_BOTH_SPREADS}, -1), 1)",
    "covarpop": _TOGETHER,
    "covarsamp": f"{_TOGETHER} {_SAMPLE}",
    "regrcount": "{n}",
    "regravgx": "{x} / {n}",
    "regravgy": "{y} / {n}",
    "regrsxx": f"{_OF_X} * {{n}}",
    "regrsyy": f"{_OF_Y} * {{n}}",
    "regrsxy": f"{_TOGETHER} * {{n}}",
    "regrslope": _SLOPE,
    "regrintercept": f"{{y}} / {{n}} - {_SLOPE} * {{m}}",
    "regrr2": f"{_TOGETHER} * {_TOGETHER} / NULLIF({_OF_X} * {_OF_Y}, 0)",
}
_ALIASES = {"stddevsamp": "stddev", "varsamp": "variance", "varpop": "variancepop"}
_CALLED = {"groupconcat": "STRING_AGG", "logicalor": "BOOL_OR", "logicaland": "BOOL_AND"}


def is_aggregate(node: exp.Expr) -> bool:
    """True for an aggregate function, with its FILTER."""
    if isinstance(node, exp.Anonymous):
        return plain_name(node.name) in _NAMED
    return isinstance(node, (exp.AggFunc, exp.Filter, exp.WithinGroup)) and not isinstance(node, _OF_WINDOWS)


def aggregates_in(root: exp.Expr) -> Iterator[exp.Expr]:
    """Aggregates of records in an expression: topmost, not the function of a window, not in a subquery."""

    def visit(node: exp.Expr) -> Iterator[exp.Expr]:
        if isinstance(node, (exp.Subquery, exp.Select)) and node is not root:
            return
        if isinstance(node, exp.Window):
            function = node.this
            while isinstance(function, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)):
                if isinstance(function, exp.Filter):
                    yield from visit(function.expression)
                function = function.this
            if isinstance(function, exp.Expr):
                for child in function.iter_expressions():
                    yield from visit(child)
            for name, value in node.args.items():
                if name != "this":
                    for child in value if isinstance(value, list) else [value]:
                        if isinstance(child, exp.Expr):
                            yield from visit(child)
            return
        if is_aggregate(node):
            yield node
            return
        for child in node.iter_expressions():
            yield from visit(child)

    yield from visit(root)


def has_aggregate(node: exp.Expr) -> bool:
    return any(True for _ in aggregates_in(node))


class Aggregates:
    """Writes the aggregates of one scan as SQL over its base sums.

    is_rolled: groups are added up further (ROLLUP, CUBE, GROUPING SETS).
    """

    def __init__(self, statement: Statement, scan: Scan, is_rolled: bool) -> None:
        self.statement, self.scan, self.is_rolled = statement, scan, is_rolled

    def sql(self, node: exp.Expr, conditions: Sequence[exp.Expr] = ()) -> str:
        """SQL of an aggregate."""
        if isinstance(node, exp.Filter):
            return self.sql(node.this, [*conditions, *conjuncts(node.expression.this)])
        name = plain_name(node.name) if isinstance(node, exp.Anonymous) else node.key
        arguments = node.expressions if isinstance(node, exp.Anonymous) else []
        x = arguments[0] if arguments else node.this if not isinstance(node, exp.Anonymous) else None
        if isinstance(x, exp.Distinct):
            self._refuse_distinct(x, name)
        if isinstance(x, exp.Order):
            x = x.this
        if isinstance(node, _OF_ONE) and (branch := _branch_of(x)) is not None:
            condition, value, otherwise = branch
            of_some = [*conditions, *conjuncts(condition)]
            if otherwise is None:
                only = node.copy()
                only.set("this", value.copy())
                return self.sql(only, of_some)
            if isinstance(node, (exp.Sum, exp.Avg)) and not self._present(value):
                return self._sum_of_branch(node, value, of_some, self._numbers(conditions)(()))
        number = self._numbers(conditions)
        if name in ("count", "countstar"):
            if x is None or isinstance(x, exp.Star):
                return f"COALESCE({number(())}, 0)"
            return f"COALESCE({number(self._present(x))}, 0)"
        if x is None:
            raise QueryError(f"{name.upper()} takes an argument.")
        if name == "countif":
            return f"COALESCE({number(conjuncts(x))}, 0)"
        if name in ("sum", "fsum", "kahansum", "sumnooverflow", "avg", "mean", "favg"):
            return self._sum(node, name, x, number)
        if name.startswith(("corr", "covar", "regr")):
            return self._moments(name, (x, arguments[1] if arguments else node.expression), number)
        if name in _FORMULAS or name in _ALIASES:
            return self._moments(name, (x,), number)
        if name in _QUANTILES:
            return self._quantile(node, name, x, conditions)
        if name == "mode":
            return self._mode(x, conditions)
        if name in ("oddsratio", "riskratio", "riskdifference"):
            return self._association(name, arguments, number)
        return self._refused(node, name, x)

    def _numbers(self, conditions: Sequence[exp.Expr]) -> Callable[..., str]:
        def number(more: Sequence[exp.Expr] = (), summand: exp.Expr | None = None) -> str:
            column = self.scan.column([*conditions, *more], summand)
            return f"SUM({column})" if self.is_rolled else column

        return number

    def _present(self, *nodes: exp.Expr) -> list[exp.Expr]:
        """Conditions that none of these is NULL."""
        conditions: dict[str, exp.Expr] = {}
        database = self.scan.database
        for node in nodes:
            is_strict = all(isinstance(part, _STRICT) for part in node.walk())
            if isinstance(node, (exp.Literal, exp.Boolean)):
                continue
            for part in node.find_all(exp.Column) if is_strict else [node]:
                a = database.number[part.name.lower()] if isinstance(part, exp.Column) else None
                if a is None or database.schema.attributes[a].nullable:
                    test = exp.Is(this=exp.paren(part.copy()), expression=exp.Null())
                    conditions.setdefault(text_of(part), exp.Not(this=test))
        return list(conditions.values())

    def _sum(self, node: exp.Expr, name: str, x: exp.Expr, number: Callable[..., str]) -> str:
        kind = self.statement.kind_of(x)
        if kind in ("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"):
            if name not in ("avg", "mean", "favg"):
                raise QueryError(
                    f"Datetimes cannot be added up: {shown(node)} cannot be answered. Ask for AVG or MEDIAN."
                )
            time, unit = _time_as_number(x, kind)
            present = self._present(x)
            total, n = number(present, time), number(present)
            return f"CASE WHEN {n} > {EMPTY} THEN make_timestamp(CAST({total} / {n} * {unit} AS BIGINT)) END"
        present = self._present(x)
        terms = self._terms(x)
        total, n = " ".join(f"{sign} {number(present, term)}" for sign, term in terms), number(present)
        if name in ("avg", "mean", "favg"):
            limits = [(sign, self._limits(term, number, present)) for sign, term in terms]
            least = " ".join(f"{sign} {ends[sign == '-']}" for sign, ends in limits)
            greatest = " ".join(f"{sign} {ends[sign == '+']}" for sign, ends in limits)
            return f"CASE WHEN {n} > {EMPTY} THEN LEAST(GREATEST(({total}) / {n}, {least}), {greatest}) END"
        return f"CASE WHEN ABS({n}) > {EMPTY} THEN {total} END"

    def _terms(self, x: exp.Expr) -> list[tuple[str, exp.Expr]]:
        """Terms of a sum or difference, with signs; a single one if they share attributes."""
        whole, about = x.unnest(), self.scan.attributes_of
        if not isinstance(whole, (exp.Add, exp.Sub)) or about(whole.this) & about(whole.expression):
            return [("+", x)]
        sides: list[exp.Expr] = [whole.this, whole.expression]
        kinds = set(map(self.statement.kind_of, sides))
        if kinds == {"DATE"}:
            sides = [_time_as_number(side, "DATE")[0] for side in sides]
        elif not all(map(about, sides)) or not all(map(re.compile("DOUBLE|.*INT$").match, kinds)):
            return [("+", x)]
        return [("+", sides[0]), ("-" if isinstance(whole, exp.Sub) else "+", sides[1])]

    def _sum_of_branch(self, node: exp.Expr, x: exp.Expr, conditions: Sequence[exp.Expr], n: str) -> str:
        """The sum or mean over n records of a summand that is 0 where a condition does not hold."""
        number = self._numbers(conditions)
        total = f"COALESCE({number((), x)}, 0)"
        if isinstance(node, exp.Avg):
            least, greatest = self._limits(x, number, [])
            total = f"LEAST(GREATEST({total} / {n}, LEAST({least}, 0)), GREATEST({greatest}, 0))"
        return f"CASE WHEN {n} > {EMPTY} THEN {total} END"

    def _limits(self, x: exp.Expr, number: Callable[..., str], present: list[exp.Expr]) -> tuple[str, str]:
        """Columns with the least and the greatest value of a summand, which bound its mean."""
        column = number(present, x)
        j = int(re.sub(rf".*{SECRET}b(\d+).*", r"\1", column))
        self.scan.limited.add(j)
        ends = f"{SECRET}l{j}", f"{SECRET}u{j}"
        return (f"MIN({ends[0]})", f"MAX({ends[1]})") if self.is_rolled else ends

    def _moments(self, name: str, given: Sequence[exp.Expr], number: Callable[..., str]) -> str:
        """A formula over sums of products. Of two numbers, the second, x, is the explanatory one."""
        formula = _FORMULAS.get(_ALIASES.get(name, name))
        if formula is None:
            raise QueryError(f"{name.upper()} is not supported. Ask for CORR, REGR_SLOPE or REGR_INTERCEPT.")
        number_of = dict(zip("yx" if len(given) > 1 else "x", given, strict=True))
        present = self._present(*given)

        sums = {
            product: number(present, reduce(_times, [number_of[letter] for letter in product]))
            for product in dict.fromkeys(["x", *re.findall(r"{([xy]+)}", formula)])
        }
        n = sums["n"] = number(present)
        sums["m"] = f"({sums['x']} / {n})"
        return f"CASE WHEN {n} > {EMPTY} THEN {formula.format(**sums)} END"

    def _association(self, name: str, arguments: list[exp.Expr], number: Callable[..., str]) -> str:
        if len(arguments) != 2:
            raise QueryError(f"{name.upper()} takes two conditions: an outcome and an exposure.")
        # As in SQL, NULL belongs to neither side.
        outcomes, exposures = ([x, exp.Not(this=exp.paren(x.copy()))] for x in arguments)
        (a, b), (c, d) = ([number([outcome, exposed]) for outcome in outcomes] for exposed in exposures)
        risk, baseline = f"({a} / NULLIF({a} + {b}, 0))", f"({c} / NULLIF({c} + {d}, 0))"
        return {
            "oddsratio": f"({a} * {d} / NULLIF({b} * {c}, 0))",
            "riskratio": f"({risk} / NULLIF({baseline}, 0))",
            "riskdifference": f"({risk} - {baseline})",
        }[name]

    def _quantile(self, node: exp.Expr, name: str, x: exp.Expr, conditions: Sequence[exp.Expr]) -> str:
        share: exp.Expr | None
        if name == "withingroup":
            inner, ordered = node.this, node.expression.expressions[0]
            name = inner.key
            if name == "mode":
                return self._mode(ordered.this, conditions)
            x, share = ordered.this, inner.this
            if ordered.args.get("desc") and share is not None:
                share = exp.Sub(this=exp.Literal.number(1), expression=exp.paren(share.copy()))
        elif isinstance(node, exp.Anonymous):
            share = node.expressions[1] if len(node.expressions) > 1 else None
        else:
            share = node.args.get("quantile") or node.args.get("expression")
            if name in ("percentilecont", "percentiledisc") and node.expression is not None:
                x, share = node.this, node.expression
        if share is None:
            share = exp.Literal.number("0.5")
        whole = share.unnest()
        if isinstance(whole, (exp.Array, exp.List)):
            parts = [self._one_quantile(x, one, name, conditions) for one in whole.expressions]
            return f"[{', '.join(parts)}]"
        return self._one_quantile(x, whole, name, conditions)

    def _one_quantile(self, x: exp.Expr, share: exp.Expr, name: str, conditions: Sequence[exp.Expr]) -> str:
        try:
            q = float(self.statement.constant(share))
        except (TypeError, ValueError):
            q = math.nan
        if not 0 <= q <= 1:
            raise QueryError("A quantile takes a plain number from 0 to 1, such as 0.5.")
        kind = self.statement.kind_of(x)
        is_moment = kind in ("DATE", "TIMESTAMP")
        if kind in ("VARCHAR", "BOOLEAN"):
            raise QueryError(f"Quantiles are taken of numbers and dates; {shown(x)} is of type {kind}.")
        argument, unit = _time_as_number(x, kind) if is_moment else (x, 1)
        discrete = name in ("quantile", "quantiledisc", "percentiledisc")
        column = self._ordered("quantile", argument, conditions, q, discrete)
        return f"make_timestamp(CAST({column} * {unit} AS BIGINT))" if is_moment else column

    def _mode(self, x: exp.Expr, conditions: Sequence[exp.Expr]) -> str:
        return self._ordered("mode", self.statement.bin_of(x), conditions, 0.5, True)

    def _ordered(self, kind: str, x: exp.Expr, given: Sequence[exp.Expr], q: float, discrete: bool) -> str:
        if self.is_rolled:
            raise QueryError(f"A {kind} does not add up over ROLLUP, CUBE or sets: ask each by itself.")
        scan = self.scan
        where, about = [*scan.where, *given], scan.attributes_of(x)
        column = f"{SECRET}q{len(scan.ordered)}"
        others = [scan.attributes_of(node) for node in [*scan.keys, *where]]
        in_bins = len(about) == 1 and kind == "quantile" and not any(map(about.intersection, others))
        if in_bins:
            (a,) = about
            bins = exp.column(scan.database.names[a] + BIN, quoted=True)
            inner = Scan(scan.database, -1, [*scan.keys, bins], where)
        else:
            inner = Scan(scan.database, -1, [*scan.keys, x], [*where, *self._present(x)])
        inner.base(())
        scan.ordered.append(OrderedColumn(inner, column, kind, q, discrete, x if in_bins else None))
        return column

    def _refuse_distinct(self, x: exp.Distinct, name: str) -> None:
        listed = ", ".join(map(shown, x.expressions))
        raise QueryError(
            f"{name.upper()}(DISTINCT {listed}) is not supported: noise hides which rare values exist "
            f"(COUNT(DISTINCT …) cannot be answered). Ask for COUNT(*) … GROUP BY {listed}."
        )

    def _refused(self, node: Any, name: str, x: exp.Expr | None) -> str:
        own = node.name.upper() if isinstance(node, exp.Anonymous) else node.sql_name()
        called = _CALLED.get(name, own)
        argument = "x" if x is None else shown(x)
        if name in ("approxdistinct", "approxcountdistinct") and x is not None:
            self._refuse_distinct(exp.Distinct(expressions=[x]), "approx_count")
        if name in _LISTS:
            rows = f"{called} lists values of rows, and a view holds no rows."
            raise QueryError(f"{rows} Ask for COUNT(*) … GROUP BY {argument}.")
        if name in _SINGLE:
            q = 0.01 if name == "min" else 0.99
            others = f"a quantile, QUANTILE_CONT({argument}, {q}), or for COUNT(*) … GROUP BY {argument}"
            if called in ("BOOL_OR", "BOOL_AND"):
                others = f"COUNT(*) FILTER (WHERE {argument})"
            single = f"{called}({argument}) is the value of a single record, which a view must not reveal."
            raise QueryError(f"{single} Ask for {others}.")
        raise QueryError(f"{called} cannot be answered from counts. Ask for COUNT, SUM, AVG or a quantile.")


def _branch_of(x: exp.Expr | None) -> tuple[exp.Expr, exp.Expr, exp.Expr | None] | None:
    """The condition and value of CASE WHEN … THEN … [ELSE 0] END, and the 0 or None."""
    whole = x.unnest() if isinstance(x, exp.Expr) else None
    if isinstance(whole, exp.If):
        branch, otherwise = whole, whole.args.get("false")
    elif isinstance(whole, exp.Case) and whole.this is None and len(whole.args["ifs"]) == 1:
        branch, otherwise = whole.args["ifs"][0], whole.args.get("default")
    else:
        return None
    otherwise = None if isinstance(otherwise, exp.Null) else otherwise
    is_zero = otherwise is None or (otherwise.is_number and float(otherwise.to_py()) == 0)
    return (branch.this, branch.args["true"], otherwise) if is_zero else None


def _time_as_number(x: exp.Expr, kind: str) -> tuple[exp.Expr, int]:
    """A date in days or a moment in microseconds, since 1970, and the unit in microseconds."""
    if kind == "DATE":
        days = sqlglot.parse_one(f"date_diff('day', DATE '1970-01-01', {text_of(x)})", read="duckdb")
        return days, MICROSECONDS_PER_DAY
    return exp.func("epoch_us", exp.cast(x.copy(), "TIMESTAMP")), 1


def _times(x: exp.Expr, y: exp.Expr) -> exp.Expr:
    """A product of doubles, because decimals overflow."""
    factors = [exp.paren(exp.cast(each.copy(), "DOUBLE")) for each in (x, y)]
    return exp.Mul(this=factors[0], expression=factors[1])
