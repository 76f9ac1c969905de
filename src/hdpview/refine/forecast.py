"""Forecast the budget that meets each wish, by the view's error formulas on the tables after refining."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from hdpview.errors import MethodError
from hdpview.methods.quality import QUALITY_SHARE
from hdpview.privacy.mechanism import Mechanism
from hdpview.privacy.randomness import Randomness
from hdpview.pview import PView
from hdpview.refine import refinement_of
from hdpview.refine.tables import Refinement
from hdpview.wishes import Wishes

# Powers of ten of the budgets tried: twelve per factor of ten, from 0.01 to 10 times the view's own.
_STEPS = np.arange(-24, 13) / 12


@dataclass(frozen=True)
class WishForecast:
    """The precision that refining is expected to reach, by budget and wish.

    reach: expected half-widths of 95% intervals, in records, shape (budgets, wishes). needed: the smallest of
    these budgets that meets each wish, None if none does, 0 if the view meets it already.
    """

    wishes: Wishes
    epsilons: tuple[float, ...]
    reach: np.ndarray
    now: tuple[float, ...]
    needed: tuple[float | None, ...]

    def rows(self) -> list[dict[str, Any]]:
        """One row per wish."""
        zipped = zip(self.wishes.wishes, self.now, self.needed, strict=True)
        return [
            {"where": wish.where, "within": wish.within, "now": now, "epsilon": needed}
            for wish, now, needed in zipped
        ]

    def chart(self) -> Any:
        """Plot error against ε: one line per wish, with a point where it is met."""
        import altair as alt

        zipped = zip(self.wishes.wishes, self.reach.T.tolist(), self.needed, strict=True)
        rows = [
            {"epsilon": e, "records": r, "wish": f"{i}: {wish.where[:60]}", "met": e == needed}
            for i, (wish, reach, needed) in enumerate(zipped, 1)
            for e, r in zip(self.epsilons, reach, strict=True)
        ]
        chart = alt.Chart(alt.Data(values=rows), width=480, height=300).encode(
            x=alt.X("epsilon:Q", scale=alt.Scale(type="log"), title="ε spent on refining"),
            y=alt.Y("records:Q", scale=alt.Scale(type="log"), title="95% interval: ± records"),
            color=alt.Color("wish:N", title="Wish", legend=alt.Legend(labelLimit=400)),
        )
        return chart.mark_line() + chart.transform_filter("datum.met").mark_point(filled=True, size=80)


def estimate_wishes(view: PView, wishes: Wishes) -> WishForecast:
    """Forecast the precision of refined views for these wishes, with 0.01 to 10 times the view's budget.

    The forecast is computed from the view alone, without the data.
    """
    method = refinement_of(view, wishes.focus(view))
    if not isinstance(method, Refinement):
        raise MethodError("This forecast needs a view built with the method mixture.")
    part, manifest, now = view.parts[0], view.manifest, wishes.reach(view)
    epsilons = [float(f"{float(manifest.epsilon) * 10**step:.2g}") for step in _STEPS.tolist()]
    reach = []
    for epsilon in epsilons:
        for_tables = Fraction(str(epsilon)) * (1 - QUALITY_SHARE)
        spending = Mechanism(for_tables, Randomness.fresh(), max_rows=manifest.max_rows, before=method.before)
        finer = method.expected(part, view.schema, spending.noise(spending.total))
        reach.append(wishes.reach(replace(view, parts=(finer,))))
    table = np.array(reach)
    within = np.array([wish.within for wish in wishes.wishes])
    needed = [
        0.0 if has <= own else next((e for e, r in zip(epsilons, column, strict=True) if r <= own), None)
        for has, own, column in zip(now, within, table.T, strict=True)
    ]
    return WishForecast(wishes, tuple(epsilons), table, tuple(now.tolist()), tuple(needed))
