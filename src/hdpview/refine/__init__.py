"""Spend more on an existing view, to make its answers more precise. Keeps all that was measured before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from hdpview.build import build, choice_of, ledger_of, salt_of
from hdpview.counts.contributions import EACH_ROW_UNIT, Contributions
from hdpview.errors import BudgetError, MethodError, unknown_name
from hdpview.methods.quality import QUALITY_SHARE
from hdpview.privacy.budget import exact_epsilon
from hdpview.privacy.mechanism import NOTHING, Mechanism
from hdpview.privacy.randomness import Randomness
from hdpview.pview import PView
from hdpview.refine.tables import FinerCounts, Refinement
from hdpview.view.blocks import Blocks
from hdpview.view.manifest import Manifest, Spending, check_writable
from hdpview.wishes import Wishes

# Arguments of a build; the view determines all others.
_OPTIONS = (
    *("engine", "threads", "memory_limit", "ledger", "table", "no_person", "quality", "accept_losses"),
    *("test_key", "progress", "on_warning", "on_charge", "resume"),
)


def refine(
    view: PView,
    source: Any,
    epsilon: float | str | Fraction,
    *,
    focus: Sequence[Sequence[str]] = (),
    wishes: Wishes | None = None,
    **options: Any,
) -> PView:
    """Make a more precise view of the same table by spending `epsilon` in addition.

    The noise on every released table is reduced for the difference alone: a view at 1 that is refined by 0.5
    has the noise of one built at 1.5. The budgets add up in the ledger, in the manifest and on the card.
    Released numbers of persons do not change.

    Args:
        view: a view of one table. A view is refined once; next time, refine the new one. In a view by the
            paper's method, counts get less noise, and no block is cut.
        source: the table that the view was built from, unchanged.
        epsilon: what to spend in addition.
        focus: groups of one to three attributes that need the most precision, such as [("age", "ward")].
            They get three fifths of `epsilon`.
        wishes: wishes of analysts. The attributes of every wish that the view does not meet become a focus.
        **options: as for `build`: engine, threads, memory_limit, ledger, table, no_person, test_key,
            progress, on_warning, on_charge, resume, quality and accept_losses.

    Returns:
        The new view. The old one stays as it is.
    """
    manifest, wished = view.manifest, () if wishes is None else wishes.focus(view)
    method = refinement_of(view, (*focus, *wished))
    for name in options:
        if name not in _OPTIONS:
            raise MethodError(unknown_name("argument", name, _OPTIONS, "refine takes"))
    options.setdefault("table", manifest.table)
    options["count"], options["max_rows"] = manifest.count_column, manifest.max_rows
    if manifest.privacy_unit != EACH_ROW_UNIT:
        options["privacy_unit"] = manifest.privacy_unit
    _check_ledger(manifest, source, options)
    more = exact_epsilon(epsilon)
    spending = (*manifest.spending, Spending("", more, 1))
    groups = (*manifest.focus, *getattr(method, "focus", ()))
    check_writable(replace(manifest, epsilon=manifest.epsilon + more, spending=spending, focus=groups))
    for_tables = more * (1 - QUALITY_SHARE)
    before = getattr(method, "before", NOTHING)
    if Mechanism(for_tables, Randomness.fresh(), max_rows=manifest.max_rows, before=before).total <= 0:
        raise BudgetError("This epsilon is too small to reduce noise at the view's delta. Spend more.")
    finer = build(source, view.schema, epsilon, method=method, **options)
    part = replace(finer.parts[0], people=view.parts[0].people)
    return PView(_added_up(manifest, finer.manifest), (part,), finer.frame or view.frame)


def refinement_of(view: PView, focus: Sequence[Any]) -> Refinement | FinerCounts:
    """The method that refines a view. Raises a MethodError if there is none."""
    manifest, part = view.manifest, view.parts[0]
    if manifest.is_merged:
        raise MethodError("A merged view cannot be refined. Refine its parts, and merge them again.")
    if isinstance(part.components, Blocks):
        if focus:
            why = "its blocks were cut when it was built. Omit focus to reduce the noise on their counts."
            raise MethodError(f"A view by the paper's method cannot have a focus: {why}")
        return FinerCounts(part.components, part.fingerprint())
    gaussian = sum((each.epsilon for each in manifest.spending if each.delta), Fraction(0)), manifest.delta
    groups: Any = tuple(dict.fromkeys(each if isinstance(each, str) else tuple(each) for each in focus))
    return Refinement(groups, tables=part.tables, refined_view=part.fingerprint(), before=gaussian)


def _check_ledger(manifest: Manifest, source: Any, options: dict[str, Any]) -> None:
    """Refuse a ledger without the build's charge, which would not notice a second refinement, and a ledger
    that would choose other rows of each person. [P17]
    """
    key = options.get("test_key")
    randomness = Randomness.fresh() if key is None else Randomness.from_test_key(key)
    charged = ledger_of(source, options.get("ledger"), options["table"], randomness.is_test)
    if charged is not None and charged.ledger.spent(charged.table) < (manifest.spent_on_table or 0):
        ledger = f"The ledger {str(charged.ledger.path)!r} shows less epsilon spent on {charged.table!r}"
        way_out = "Name the ledger of that build (ledger=, --ledger) and its table."
        raise BudgetError(f"{ledger} than after the build of this view. {way_out}")
    if manifest.privacy_unit == EACH_ROW_UNIT:
        return
    nobody = tuple(options.get("no_person", ()))
    limits = Contributions(manifest.privacy_unit, manifest.max_rows, manifest.count_column, nobody)
    salt = salt_of(charged, randomness)
    if salt is None or choice_of(salt, limits) != manifest.choice:
        raise MethodError(
            f"This view counts a random choice of the rows of each {manifest.privacy_unit}, and the ledger "
            "in use did not record it. Name the ledger of its build (ledger=, --ledger), and the same "
            "no_person; or build a new view, whose budget adds to that of this one."
        )


def _added_up(before: Manifest, after: Manifest) -> Manifest:
    """The manifest of the refined view, with the sum of both budgets and the facts of the new view."""
    spending: dict[tuple[str, int], Spending] = {}
    for each in (*before.spending, *after.spending):
        key = each.purpose, each.times
        earlier = spending.get(key, Spending(each.purpose, Fraction(0), each.times))
        epsilon, delta = earlier.epsilon + each.epsilon, earlier.delta + each.delta
        spending[key] = replace(earlier, epsilon=epsilon, delta=delta)
    return replace(
        after,
        epsilon=before.epsilon + after.epsilon,
        delta=before.delta + after.delta,
        spending=tuple(spending.values()),
        settings=before.settings,
        parameters={**before.parameters, **after.parameters},
        not_private_because=tuple(dict.fromkeys((*before.not_private_because, *after.not_private_because))),
        focus=tuple(dict.fromkeys((*before.focus, *after.focus))),
    )
