"""Forecast, before spending, the errors that a budget will buy. Needs public quantities only, no data.

The forecast invents tables with the curator's schema and number of rows, from evenly spread records to
records concentrated on a few values. It builds views of them, asks questions, and measures the errors. Real
tables lie somewhere in between.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hdpview.build import check_schema
from hdpview.counts.contributions import EACH_ROW, Contributions
from hdpview.domain import Schema
from hdpview.errors import BudgetError, DataError, MethodError
from hdpview.forecast.result import Error, Estimate
from hdpview.forecast.table_plan import TablePlan, table_plan
from hdpview.forecast.trial import Trial
from hdpview.methods import DEFAULT_METHOD, Method, chosen_method
from hdpview.methods.mixture import Mixture
from hdpview.methods.protocol import with_delta
from hdpview.methods.quality import QUALITY_SHARE
from hdpview.privacy.budget import exact_delta, exact_epsilon
from hdpview.progress import Progress, silent

__all__ = ["Error", "Estimate", "TablePlan", "estimate", "estimate_plan"]


def estimate(
    schema: Schema,
    n_rows: int,
    epsilon: float | str | Fraction | None = None,
    *,
    error: float | None = None,
    delta: float | str | Fraction | None = None,
    max_rows: int = 1,
    method: str | Method = DEFAULT_METHOD,
    progress: Progress | None = None,
    **settings: Any,
) -> Estimate:
    """Forecast the errors of a budget, or find the budget for a wanted error.

    Args:
        schema: the table's schema.
        n_rows: approximate number of rows, from public knowledge; a rounded figure will do.
        epsilon: the budget; or omit it and give `error`.
        error: wanted root mean square error, in records, of a range of two attributes (of one attribute if
            the schema has only one).
        delta: with the method `mixture`, part of the budget, as in `build`.
        max_rows: maximum rows counted per person, as in `build`.
        method: name of a method, or a method object.
        progress: called with the fraction done and a few words.
        **settings: settings of the method.
    """
    if isinstance(n_rows, bool) or not isinstance(n_rows, int) or n_rows < 1:
        raise DataError(f"n_rows must be a whole number of at least 1, not {n_rows!r}.")
    if (epsilon is None) == (error is None):
        raise BudgetError("Give either epsilon, the budget, or error, the root mean square error you want.")
    check_schema(schema)
    if error is not None and not (isinstance(error, (int, float)) and error > 0):
        raise BudgetError(f"error must be a number of records above 0, not {error!r}.")
    chosen = chosen_method(method, settings, estimate)
    chosen = chosen if delta is None else with_delta(chosen, exact_delta(delta))
    # The name of the column that identifies persons does not matter here.
    limits = EACH_ROW if max_rows == 1 else Contributions("person", max_rows)
    trial = Trial(schema, n_rows, chosen, progress or silent, limits)
    if epsilon is not None:
        return trial.run(exact_epsilon(epsilon))
    assert error is not None
    return trial.search(error)


def estimate_plan(
    schema: Schema,
    n_rows: int,
    epsilon: float | str | Fraction | None,
    *,
    delta: float | str | Fraction | None = None,
    max_rows: int = 1,
    method: str | Method = DEFAULT_METHOD,
    **settings: Any,
) -> TablePlan:
    """The tables that a build with this budget would measure, and their bins. Arguments as in `estimate`."""
    chosen = chosen_method(method, settings, estimate_plan)
    chosen = chosen if delta is None else with_delta(chosen, exact_delta(delta))
    if not isinstance(chosen, Mixture):
        raise MethodError(f"The method {chosen.name} does not plan tables. Use method='mixture'.")
    if epsilon is None:
        raise BudgetError("A plan needs epsilon, the budget.")
    return table_plan(schema, n_rows, exact_epsilon(epsilon) * (1 - QUALITY_SHARE) / max_rows, chosen)
