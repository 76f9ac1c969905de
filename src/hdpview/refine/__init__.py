"""Spend more on a view later: every answer becomes better, and nothing that was paid for is lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from hdpview.build import account_of, build, choice_of, salt_of
from hdpview.counts.contributions import EACH_ROW_UNIT, Contributions
from hdpview.errors import BudgetError, MethodError
from hdpview.methods.quality import QUALITY_SHARE
from hdpview.privacy.budget import exact_epsilon
from hdpview.privacy.ledger import name_of
from hdpview.privacy.mechanism import NOTHING, Mechanism
from hdpview.privacy.randomness import Randomness
from hdpview.pview import PView
from hdpview.refine.leaves import FinerCounts
from hdpview.refine.tables import Refinement
from hdpview.view.blocks import Blocks
from hdpview.view.file import checksum_of
from hdpview.view.manifest import Manifest, Spending
from hdpview.wishes import Wishes


def refine(
    view: PView,
    source: Any,
    epsilon: float | str | Fraction,
    *,
    focus: Sequence[Sequence[str]] = (),
    wishes: Wishes | None = None,
    **options: Any,
) -> PView:
    """A sharper view of the same table, for `epsilon` more.

    Every table that the view holds gets finer noise for the difference alone: a view at 1 that is refined by
    0.5 has the noise of one built at 1.5. The budgets add up in the ledger, in the manifest and on the card.
    Numbers of persons stay as they were released.

    Args:
        view: a view of one table. Of the paper's method counts get less noise, and no block is cut.
        source: the table that the view was built from, unchanged.
        epsilon: what to spend in addition.
        focus: groups of one to three attributes that need to be sharper than the rest, such as
            [("age", "ward")]. They get three fifths of `epsilon`.
        wishes: of analysts: the attributes of conditions that the view does not answer well enough are a
            focus.
        **options: as for `build`: engine, threads, memory_limit, ledger, table, no_person, test_key,
            progress, on_charge, resume and accept_losses.

    Returns:
        The new view. The old one stays as it is.
    """
    manifest, wished = view.manifest, () if wishes is None else wishes.focus(view)
    method = refinement_of(view, (*map(tuple, focus), *wished))
    options.setdefault("table", manifest.table)
    options["count"], options["max_rows"] = manifest.count_column, manifest.max_rows
    if manifest.privacy_unit != EACH_ROW_UNIT:
        options["privacy_unit"] = manifest.privacy_unit
        _check_same_rows(manifest, source, options)
    for_tables = exact_epsilon(epsilon) * (1 - QUALITY_SHARE)
    before = getattr(method, "before", NOTHING)
    if Mechanism(for_tables, Randomness.fresh(), max_rows=manifest.max_rows, before=before).total <= 0:
        raise BudgetError("With the view's delta, so small an epsilon buys nothing more. Spend more at once.")
    finer = build(source, view.schema, epsilon, method=method, **options)
    part = replace(finer.parts[0], people=view.parts[0].people)
    return PView(_added_up(manifest, finer.manifest), (part,), finer.frame or view.frame)


def refinement_of(view: PView, focus: Sequence[tuple[str, ...]]) -> Refinement | FinerCounts:
    """The method that refines a view; refused in words where there is none."""
    manifest, part = view.manifest, view.parts[0]
    if manifest.is_merged:
        raise MethodError("A merged view is not refined itself. Refine its parts, and merge them again.")
    if isinstance(part.components, Blocks):
        if focus:
            raise MethodError(
                "A view by the paper's method cannot have a focus: its blocks were cut when it was built. "
                "Without a focus their counts get less noise."
            )
        return FinerCounts(part.components, checksum_of(view))
    gaussian = sum((each.epsilon for each in manifest.spending if each.delta), Fraction(0)), manifest.delta
    groups = tuple(dict.fromkeys(focus))
    return Refinement(groups, tables=part.tables, refined_view=checksum_of(view), before=gaussian)


def _check_same_rows(manifest: Manifest, source: Any, options: dict[str, Any]) -> None:
    """Refuse where the choice of each person's rows is not known to be that of the view. [P17]"""
    key = options.get("test_key")
    randomness = Randomness.fresh() if key is None else Randomness.from_test_key(key)
    account = account_of(source, options.get("ledger"), options["table"], randomness.is_test)
    name = None if account is None else options["table"] or name_of(source)
    salt = salt_of(account, name, randomness)
    limits = Contributions(
        manifest.privacy_unit, manifest.max_rows, manifest.count_column, tuple(options.get("no_person", ()))
    )
    if salt is None or choice_of(salt, limits) != manifest.choice:
        raise MethodError(
            f"This view counts a random choice of the rows of each {manifest.privacy_unit}, and the ledger "
            "in use does not know which. Name the ledger of its build (ledger=, --ledger), and the same "
            "no_person; or build a new view: both budgets add up."
        )


def _added_up(before: Manifest, after: Manifest) -> Manifest:
    """The manifest of the refined view: budgets of both, facts of the new one."""
    spending = {(each.purpose, each.times): each for each in before.spending}
    for each in after.spending:
        own = spending.get((each.purpose, each.times), Spending(each.purpose, Fraction(0), each.times))
        spending[each.purpose, each.times] = replace(
            own, epsilon=own.epsilon + each.epsilon, delta=own.delta + each.delta
        )
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
