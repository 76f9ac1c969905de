"""Aggregates as expressions of base sums."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from hdpview.errors import QueryError
from hdpview.query.evaluate.allowed import words
from hdpview.query.evaluate.database import SECRET
from hdpview.query.evaluate.scan import BIN, OrderedColumn, Scan, conjuncts, shown

if TYPE_CHECKING:
    from hdpview.query.evaluate.statement import Statement


# A sum of records below this is 0, but for rounding.
EMPTY = 1e-9
_NAMED = words(
    """
    odds_ratio risk_ratio risk_difference mean quantile_cont quantile_disc favg fsum kahan_sum
    regr_slope regr_intercept regr_r2 regr_count regr_avgx regr_avgy skewness kurtosis kurtosis_pop
    list string_agg array_agg group_concat listagg bool_and bool_or any_value arg_max arg_min arbitrary
    max_by min_by approx_count_distinct approx_quantile entropy mad bit_and bit_or bit_xor product
    sum_no_overflow count_star var_pop var_samp stddev_pop stddev_samp covar_pop covar_samp
    """
)
_OF_WINDOWS = (
    exp.RowNumber, exp.Rank, exp.DenseRank, exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue,
    exp.Ntile, exp.PercentRank, exp.CumeDist, exp.Grouping,
)  # fmt: skip
_SINGLE = words(
    """
    min max argmax argmin arg_max arg_min max_by min_by anyvalue any_value arbitrary first last logicaland
    bool_and logicalor bool_or
    """
)
_QUANTILES = words(
    "median quantile quantile_cont quantile_disc percentilecont percentiledisc approxquantile "
    "approx_quantile withingroup"
)
_LISTS = words("arrayagg groupconcat list string_agg array_agg group_concat listagg")


_CALLED = {
    "argmax": "ARG_MAX", "argmin": "ARG_MIN", "groupconcat": "STRING_AGG", "arrayagg": "ARRAY_AGG",
    "logicalor": "BOOL_OR", "logicaland": "BOOL_AND", "anyvalue": "ANY_VALUE",
}  # fmt: skip


def is_aggregate(node: exp.Expr) -> bool:
    """True for an aggregate function, with its FILTER."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in _NAMED
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
        name = node.name.lower() if isinstance(node, exp.Anonymous) else node.key
        arguments = node.expressions if isinstance(node, exp.Anonymous) else []
        x = arguments[0] if arguments else node.this if not isinstance(node, exp.Anonymous) else None
        if isinstance(x, exp.Distinct):
            self._refuse_distinct(x, name)
        if isinstance(x, exp.Order):
            x = x.this
        number = self._numbers(conditions)
        if name in ("count", "count_star"):
            if x is None or isinstance(x, (exp.Star, exp.Literal, exp.Boolean)):
                return f"COALESCE({number(())}, 0)"
            return f"COALESCE({number(self._present(x))}, 0)"
        if x is None:
            raise QueryError(f"{name.upper()} takes an argument.")
        if name == "countif":
            return f"COALESCE({number(conjuncts(x))}, 0)"
        if name in ("sum", "fsum", "kahan_sum", "sum_no_overflow", "avg", "mean", "favg"):
            return self._sum(node, name, x, number)
        if name in ("stddev", "stddevsamp", "stddevpop", "variance", "variancepop", "var_pop", "var_samp",
                    "stddev_pop", "stddev_samp"):  # fmt: skip
            return self._spread(name.replace("_", ""), x, number)
        if name in ("skewness", "kurtosis", "kurtosis_pop", "kurtosispop"):
            return self._shape(name, x, number)
        if name in ("corr", "covarpop", "covarsamp", "covar_pop", "covar_samp") or name.startswith("regr"):
            y = arguments[1] if arguments else node.expression
            return self._of_two(name.replace("_", ""), x, y, number)
        if name in _QUANTILES:
            return self._quantile(node, name, x, conditions)
        if name == "mode":
            return self._mode(x, conditions)
        if name in ("odds_ratio", "risk_ratio", "risk_difference"):
            return self._association(name, arguments, number)
        return self._refused(name, x)

    def _numbers(self, conditions: Sequence[exp.Expr]) -> Callable[..., str]:
        def number(more: Sequence[exp.Expr] = (), summand: exp.Expr | None = None) -> str:
            column = self.scan.column([*conditions, *more], summand)
            return f"SUM({column})" if self.is_rolled else column

        return number

    def _present(self, *nodes: exp.Expr) -> list[exp.Expr]:
        """Conditions that none of these is NULL."""
        conditions: list[exp.Expr] = []
        database = self.scan.database
        for node in nodes:
            plain = node.unnest()
            if not node.find(exp.Column):
                continue
            if isinstance(plain, exp.Column):
                a = database.number[plain.name.lower()]
                if not database.schema.attributes[a].nullable:
                    continue
            conditions.append(exp.Not(this=exp.Is(this=exp.paren(node.copy()), expression=exp.Null())))
        return conditions

    def _sum(self, node: exp.Expr, name: str, x: exp.Expr, number: Callable[..., str]) -> str:
        kind = self.statement.kind_of(x)
        if kind in ("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"):
            if name not in ("avg", "mean", "favg"):
                raise QueryError(
                    f"Moments cannot be added up: {shown(node)} cannot be answered. Ask for AVG or MEDIAN."
                )
            micros = exp.func("epoch_us", exp.cast(x.copy(), "TIMESTAMP"))
            present = self._present(x)
            total, n = number(present, micros), number(present)
            return f"CASE WHEN {n} > {EMPTY} THEN make_timestamp(CAST({total} / {n} AS BIGINT)) END"
        present = self._present(x)
        total, n = number(present, x), number(present)
        if name in ("avg", "mean", "favg"):
            least, greatest = self._limits(x, number, present)
            return f"CASE WHEN {n} > {EMPTY} THEN LEAST(GREATEST({total} / {n}, {least}), {greatest}) END"
        return f"CASE WHEN ABS({n}) > {EMPTY} THEN {total} END"

    def _limits(self, x: exp.Expr, number: Callable[..., str], present: list[exp.Expr]) -> tuple[str, str]:
        """Columns with the least and the greatest value of a summand: no mean lies beyond."""
        column = number(present, x)
        j = int(re.sub(rf".*{SECRET}b(\d+).*", r"\1", column))
        self.scan.limited.add(j)
        ends = f"{SECRET}l{j}", f"{SECRET}u{j}"
        return (f"MIN({ends[0]})", f"MAX({ends[1]})") if self.is_rolled else ends

    def _spread(self, name: str, x: exp.Expr, number: Callable[..., str]) -> str:
        present = self._present(x)
        square, total, n = number(present, _times(x, x)), number(present, x), number(present)
        value = f"({square} / {n} - ({total} / {n}) * ({total} / {n}))"
        if name in ("stddev", "stddevsamp", "variance", "varsamp"):
            value = f"({value} * {n} / NULLIF(GREATEST({n} - 1, 0), 0))"
        value = f"GREATEST({value}, 0)"
        return f"CASE WHEN {n} > {EMPTY} THEN {f'SQRT({value})' if name.startswith('std') else value} END"

    def _shape(self, name: str, x: exp.Expr, number: Callable[..., str]) -> str:
        present, square = self._present(x), _times(x, x)
        n, s1, s2 = number(present), number(present, x), number(present, square)
        s3, s4 = number(present, _times(square, x)), number(present, _times(square, square))
        m = f"({s1} / {n})"
        spread = f"NULLIF(GREATEST({s2} / {n} - {m} * {m}, 0), 0)"
        third = f"({s3} / {n} - 3 * {m} * {s2} / {n} + 2 * {m} * {m} * {m})"
        fourth = (
            f"({s4} / {n} - 4 * {m} * {s3} / {n} + 6 * {m} * {m} * {s2} / {n} - 3 * {m} * {m} * {m} * {m})"
        )
        if name == "skewness":
            value = f"{third} / POWER({spread}, 1.5) * SQRT({n} * ({n} - 1)) / NULLIF({n} - 2, 0)"
        elif name == "kurtosis":
            value = (
                f"({n} - 1) / NULLIF(({n} - 2) * ({n} - 3), 0) "
                f"* (({n} + 1) * ({fourth} / ({spread} * {spread})) - 3 * ({n} - 1))"
            )
        else:
            value = f"{fourth} / ({spread} * {spread}) - 3"
        return f"CASE WHEN {n} > 3 THEN {value} END"

    def _of_two(self, name: str, y: exp.Expr, x: exp.Expr, number: Callable[..., str]) -> str:
        """Functions of two numbers; in REGR_… the second is the one that explains."""
        both = self._present(x, y)
        n, sx, sy = number(both), number(both, x), number(both, y)
        if name in ("regrcount", "regravgx", "regravgy"):
            value = {"regrcount": n, "regravgx": f"{sx} / {n}", "regravgy": f"{sy} / {n}"}[name]
            return f"CASE WHEN {n} > {EMPTY} THEN {value} END"
        xy, xx, yy = number(both, _times(x, y)), number(both, _times(x, x)), number(both, _times(y, y))
        together = f"({xy} / {n} - {sx} / {n} * {sy} / {n})"
        of_x, of_y = f"({xx} / {n} - {sx} / {n} * {sx} / {n})", f"({yy} / {n} - {sy} / {n} * {sy} / {n})"
        slope = f"({together} / NULLIF({of_x}, 0))"
        root = f"NULLIF(SQRT(GREATEST({of_x}, 0) * GREATEST({of_y}, 0)), 0)"
        values = {
            "corr": f"LEAST(GREATEST({together} / {root}, -1), 1)",
            "covarpop": together,
            "covarsamp": f"{together} * {n} / NULLIF(GREATEST({n} - 1, 0), 0)",
            "regrslope": slope,
            "regrintercept": f"{sy} / {n} - {slope} * {sx} / {n}",
            "regrr2": f"{together} * {together} / NULLIF({of_x} * {of_y}, 0)",
        }
        if name not in values:
            raise QueryError(f"{name.upper()} is not supported. Ask for CORR, REGR_SLOPE or REGR_INTERCEPT.")
        return f"CASE WHEN {n} > {EMPTY} THEN {values[name]} END"

    def _association(self, name: str, arguments: list[exp.Expr], number: Callable[..., str]) -> str:
        if len(arguments) != 2:
            raise QueryError(f"{name.upper()} takes two conditions: an outcome and an exposure.")
        outcome, exposed = arguments

        def without(condition: exp.Expr) -> exp.Expr:
            return exp.Not(this=exp.func("coalesce", exp.paren(condition.copy()), exp.false()))

        a, b = number([outcome, exposed]), number([without(outcome), exposed])
        c, d = number([outcome, without(exposed)]), number([without(outcome), without(exposed)])
        risk, baseline = f"({a} / NULLIF({a} + {b}, 0))", f"({c} / NULLIF({c} + {d}, 0))"
        return {
            "odds_ratio": f"({a} * {d} / NULLIF({b} * {c}, 0))",
            "risk_ratio": f"({risk} / NULLIF({baseline}, 0))",
            "risk_difference": f"({risk} - {baseline})",
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
        if self.is_rolled:
            raise QueryError(
                "Quantiles do not add up over ROLLUP, CUBE or GROUPING SETS: ask each by itself."
            )
        whole = share.unnest()
        if isinstance(whole, (exp.Array, exp.List)):
            parts = [self._one_quantile(x, one, name, conditions) for one in whole.expressions]
            return f"[{', '.join(parts)}]"
        return self._one_quantile(x, whole, name, conditions)

    def _one_quantile(self, x: exp.Expr, share: exp.Expr, name: str, conditions: Sequence[exp.Expr]) -> str:
        try:
            q = float(self.statement.constant(share))
        except (TypeError, ValueError):
            raise QueryError("A quantile takes a plain number from 0 to 1, such as 0.5.") from None
        if not 0 <= q <= 1:
            raise QueryError("A quantile takes a plain number from 0 to 1, such as 0.5.")
        kind = self.statement.kind_of(x)
        is_moment = kind in ("DATE", "TIMESTAMP")
        if kind in ("VARCHAR", "BOOLEAN"):
            raise QueryError(f"Quantiles are taken of numbers and dates; {shown(x)} is of type {kind}.")
        argument = exp.func("epoch_us", exp.cast(x.copy(), "TIMESTAMP")) if is_moment else x
        discrete = name in ("quantile", "quantile_disc", "percentiledisc")
        column = self._ordered("quantile", argument, conditions, q, discrete)
        return f"make_timestamp(CAST({column} AS BIGINT))" if is_moment else column

    def _mode(self, x: exp.Expr, conditions: Sequence[exp.Expr]) -> str:
        if self.is_rolled:
            raise QueryError("MODE does not add up over ROLLUP, CUBE or GROUPING SETS: ask each by itself.")
        return self._ordered("mode", self.statement.bin_of(x), conditions, 0.5, True)

    def _ordered(
        self, kind: str, x: exp.Expr, conditions: Sequence[exp.Expr], q: float, discrete: bool
    ) -> str:
        scan = self.scan
        column = f"{SECRET}q{len(scan.ordered)}"
        where = [*scan.where, *conditions]
        about = scan.attributes_of(x)
        in_bins = len(about) == 1 and kind == "quantile"
        in_bins = in_bins and not any(scan.attributes_of(node) & about for node in [*scan.keys, *where])
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

    def _refused(self, name: str, x: exp.Expr | None) -> str:
        called = _CALLED.get(name, name.upper())
        argument = "x" if x is None else shown(x)
        if name in ("approxdistinct", "approx_count_distinct"):
            raise QueryError(
                "APPROX_COUNT_DISTINCT, like COUNT(DISTINCT …), is not supported: noise hides which rare "
                f"values exist. Ask for COUNT(*) … GROUP BY {argument}."
            )
        if name in _LISTS:
            raise QueryError(
                f"{called} lists values of rows, and a view holds no rows. "
                f"Ask for COUNT(*) … GROUP BY {argument}."
            )
        if called in ("BOOL_OR", "BOOL_AND"):
            raise QueryError(
                f"{called}({argument}) depends on a single record, which a view must not give away. "
                f"Ask for COUNT(*) FILTER (WHERE {argument})."
            )
        if name in _SINGLE:
            raise QueryError(
                f"{called}({argument}) is the value of a single record, which a view must not give away. "
                f"Ask for a quantile, such as QUANTILE_CONT({argument}, "
                f"{0.01 if name == 'min' else 0.99}), or for "
                f"COUNT(*) … GROUP BY {argument}."
            )
        raise QueryError(f"{called} cannot be answered from counts. Ask for COUNT, SUM, AVG or a quantile.")


def _times(x: exp.Expr, y: exp.Expr) -> exp.Expr:
    """A product of numbers, as decimals overflow."""
    factors = [exp.paren(exp.cast(each.copy(), "DOUBLE")) for each in (x, y)]
    return exp.Mul(this=factors[0], expression=factors[1])
