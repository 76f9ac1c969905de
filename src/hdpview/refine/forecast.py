"""Which budget would meet which wish: the view's error formulas, on the tables that refining would give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from hdpview.errors import MethodError
from hdpview.methods.mixture.accounting import Accounting
from hdpview.methods.quality import QUALITY_SHARE
from hdpview.privacy.mechanism import Mechanism
from hdpview.privacy.randomness import Randomness
from hdpview.pview import PView
from hdpview.refine import refinement_of
from hdpview.refine.tables import Refinement
from hdpview.wishes import Wishes

# Budgets that are looked at: twelve to a factor of ten, from a hundredth to ten times the view's own.
_STEPS = np.arange(-24, 13) / 12


@dataclass(frozen=True)
class WishForecast:
    """reach: of 95% intervals, in records, as expected, shape (budgets, wishes). needed: the least of these
    budgets that meets each wish, None where none does, 0 where the view meets it already.
    """

    wishes: Wishes
    epsilons: tuple[float, ...]
    reach: np.ndarray
    now: tuple[float, ...]
    needed: tuple[float | None, ...]

    def rows(self) -> list[dict[str, Any]]:
        """A row per wish."""
        zipped = zip(self.wishes.wishes, self.now, self.needed, strict=True)
        return [
            {"where": wish.where, "within": wish.within, "now": now, "epsilon": needed}
            for wish, now, needed in zipped
        ]

    def chart(self) -> Any:
        """Error against ε: a line per wish, and a point where it is met."""
        import altair as alt

        def rows(values: Sequence[float], i: int) -> list[dict[str, Any]]:
            name = f"{i + 1}: {self.wishes.wishes[i].where[:60]}"
            return [
                {"epsilon": e, "records": r, "wish": name} for e, r in zip(self.epsilons, values, strict=True)
            ]

        lines = [row for i, values in enumerate(self.reach.T.tolist()) for row in rows(values, i)]
        met = [
            {**rows([wish.within] * len(self.epsilons), i)[0], "epsilon": needed}
            for i, (wish, needed) in enumerate(zip(self.wishes.wishes, self.needed, strict=True))
            if needed
        ]
        x = alt.X("epsilon:Q", scale=alt.Scale(type="log"), title="ε spent on refining")
        y = alt.Y("records:Q", scale=alt.Scale(type="log"), title="95% interval: ± records")
        color = alt.Color("wish:N", title="Wish", legend=alt.Legend(labelLimit=400))
        line = alt.Chart(alt.Data(values=lines)).mark_line().encode(x=x, y=y, color=color)
        point = alt.Chart(alt.Data(values=met)).mark_point(filled=True, size=80).encode(x=x, y=y, color=color)
        return (line + point).properties(width=480, height=300)


def estimate_wishes(view: PView, wishes: Wishes) -> WishForecast:
    """What refining a view for these wishes would reach, for budgets from a hundredth to ten times its own.

    Reads no table of rows: the view itself tells what to expect.
    """
    method = refinement_of(view, wishes.focus(view))
    if not isinstance(method, Refinement):
        raise MethodError("What refining would reach is known for views by the method mixture alone.")
    part, manifest, now = view.parts[0], view.manifest, wishes.reach(view)
    epsilons = [float(f"{float(manifest.epsilon) * 10**step:.2g}") for step in _STEPS.tolist()]
    reach = []
    for epsilon in epsilons:
        for_tables = Fraction(str(epsilon)) * (1 - QUALITY_SHARE)
        account = Mechanism(for_tables, Randomness.fresh(), max_rows=manifest.max_rows, before=method.before)
        finer = method.expected(part, view.schema, Accounting.of(account))
        reach.append(wishes.reach(replace(view, parts=(finer,))))
    table = np.array(reach)
    within = np.array([wish.within for wish in wishes.wishes])
    needed = [
        0.0 if has <= own else next((e for e, r in zip(epsilons, column, strict=True) if r <= own), None)
        for has, own, column in zip(now, within, table.T, strict=True)
    ]
    return WishForecast(wishes, tuple(epsilons), table, tuple(now.tolist()), tuple(needed))
