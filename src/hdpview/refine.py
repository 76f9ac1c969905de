"""Spend more on a view later: every answer becomes better, and nothing that was paid for is lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from hdpview.build import build
from hdpview.counts.contributions import EACH_ROW_UNIT
from hdpview.errors import MethodError
from hdpview.methods.mixture.refine import Refinement
from hdpview.pview import PView
from hdpview.view.file import checksum_of
from hdpview.view.manifest import Manifest, Spending


def refine(
    view: PView,
    source: Any,
    epsilon: float | str | Fraction,
    *,
    focus: Sequence[Sequence[str]] = (),
    **options: Any,
) -> PView:
    """A sharper view of the same table, for `epsilon` more.

    Every table that the view holds gets finer noise for the difference alone: a view at 1 that is refined by
    0.5 has the noise of one built at 1.5. The budgets add up in the ledger, in the manifest and on the card.

    Args:
        view: a view of the default method, without a delta, that protects single records.
        source: the table that the view was built from, unchanged.
        epsilon: what to spend in addition.
        focus: groups of attributes that need to be sharper than the rest, such as [("age", "ward")]. They get
            three fifths of `epsilon`.
        **options: as for `build`: engine, threads, memory_limit, ledger, table, test_key, progress,
            on_charge, resume and accept_losses.

    Returns:
        The new view. The old one stays as it is.
    """
    manifest = view.manifest
    reason = _why_not(view)
    if reason is not None:
        raise MethodError(f"This view cannot be refined: {reason}")
    method = Refinement(tuple(map(tuple, focus)), tables=view.parts[0].tables, refined_view=checksum_of(view))
    options.setdefault("table", manifest.table)
    options["count"] = manifest.count_column
    finer = build(source, view.schema, epsilon, method=method, **options)
    return PView(_added_up(manifest, finer.manifest), finer.parts, finer.frame or view.frame)


def _why_not(view: PView) -> str | None:
    manifest = view.manifest
    if manifest.is_merged:
        return "it was merged from several. Refine its parts, and merge them again."
    if manifest.method != "mixture":
        return (
            f"the method {manifest.method} chose its blocks for the budget it had. Build a new view and keep "
            "this one; the budgets add up."
        )
    if manifest.delta:
        return "its noise is Gaussian, because it has a delta. Build a new view without one."
    if manifest.privacy_unit != EACH_ROW_UNIT or manifest.max_rows > 1:
        return (
            "it counts a random choice of each person's rows, which is not kept. Build a new view; both "
            "budgets add up."
        )
    return None


def _added_up(before: Manifest, after: Manifest) -> Manifest:
    """The manifest of the refined view: budgets of both, facts of the new one."""
    spending = {(each.purpose, each.times): each for each in before.spending}
    for each in after.spending:
        own = spending.get((each.purpose, each.times))
        epsilon = each.epsilon + (own.epsilon if own else 0)
        spending[each.purpose, each.times] = Spending(each.purpose, epsilon, each.times)
    return replace(
        after,
        epsilon=before.epsilon + after.epsilon,
        spending=tuple(spending.values()),
        not_private_because=tuple(dict.fromkeys((*before.not_private_because, *after.not_private_because))),
        focus=tuple(dict.fromkeys((*before.focus, *after.focus))),
    )
