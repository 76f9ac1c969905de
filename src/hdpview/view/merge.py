"""Merge views of several tables: hospital A and hospital B, day 1 and day 2.

Counts of the parts add up. If nobody is in more than one table, each person affects only one of the views, so
the merged view costs the largest ε and the largest δ among them (parallel composition). Otherwise, both add
up.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from hdpview._version import __version__
from hdpview.domain import Schema
from hdpview.errors import SchemaError
from hdpview.view.data import ViewData
from hdpview.view.manifest import MAX_PARTS, Manifest, Spending


def merged(views: Sequence[ViewData], *, overlapping: bool = False) -> ViewData:
    """One view of several tables with the same schema.

    overlapping: True if a person may have records in several of the tables; their budgets then add up.
    """
    if len(views) < 2 or not all(isinstance(view, ViewData) for view in views):
        raise SchemaError("Merging takes a list of at least two views.")
    first = views[0].manifest
    for number, view in enumerate(views[1:], start=2):
        _check_alike(first, view.manifest, number)
    if not overlapping:
        _check_apart(views)
    parts = [part for view in views for part in view.manifest.as_parts()]
    if len(parts) > MAX_PARTS:
        raise SchemaError(f"A merged view has at most {MAX_PARTS:,} parts; these make {len(parts):,}.")
    if len({view.is_blocks for view in views}) > 1:
        raise SchemaError(
            "Views of blocks cannot be merged with views of mixtures. Build all views with the same method."
        )
    manifests = [view.manifest for view in views]
    spending = _added_up(manifests) if overlapping else _largest(manifests)
    manifest = Manifest(
        schema=Schema(
            first.schema.attributes,
            any(m.schema.learnt_from_data for m in manifests),
            _cost([m.schema.learnt_epsilon for m in manifests], overlapping),
            _cost([m.schema.learnt_delta for m in manifests], overlapping),
        ),
        method="merge",
        epsilon=sum((spent.epsilon * spent.times for spent in spending), Fraction(0)),
        spending=spending,
        settings={},
        parameters={},
        library_version=__version__,
        privacy_unit=first.privacy_unit,
        not_private_because=tuple(
            dict.fromkeys(reason for m in manifests for reason in m.not_private_because)
        ),
        # A person's rows are bounded in each table. With unit "row", ε holds for the number of records for
        # which it holds in every part.
        max_rows=(min if first.privacy_unit == "row" else max)(m.max_rows for m in manifests),
        count_column=first.count_column if len({m.count_column for m in manifests}) == 1 else None,
        parts=tuple(parts),
        overlapping=overlapping or any(m.overlapping for m in manifests),
        created=max(m.created for m in manifests),
        delta=sum((spent.delta for spent in spending), Fraction(0)),
    )
    return ViewData(manifest, tuple(part for view in views for part in view.parts))


def _check_alike(first: Manifest, other: Manifest, number: int) -> None:
    if first.schema.names != other.schema.names:
        differ = sorted(set(first.schema.names) ^ set(other.schema.names))
        hint = (
            f"{differ[0]!r} is in only one of them" if differ else "their attributes are in a different order"
        )
        raise SchemaError(f"Merging needs views with the same schema; views 1 and {number} differ: {hint}.")
    for ours, theirs in zip(first.schema, other.schema, strict=True):
        if ours != theirs:
            raise SchemaError(
                f"Merging needs views with the same schema; in views 1 and {number} the attribute "
                f"{ours.name!r} differs: {ours.to_dict()} and {theirs.to_dict()}. Build them with one schema."
            )
    if first.privacy_unit != other.privacy_unit:
        raise SchemaError(
            f"View 1 protects each {first.privacy_unit}, view {number} each {other.privacy_unit}; "
            "a merged view could give neither guarantee."
        )


def _check_apart(views: Sequence[ViewData]) -> None:
    """Refuse to treat views as disjoint if they share a table or a part."""
    tables, seen = set[str](), set[str]()
    for view in views:
        facts = view.manifest.as_parts()
        # Views of few blocks may agree by chance, and then differ in their facts.
        prints = {f"{part.fingerprint()} {each!r}" for part, each in zip(view.parts, facts, strict=True)}
        named = {part.table.strip().casefold() for part in facts if part.table}
        if seen.isdisjoint(prints) and tables.isdisjoint(named):
            tables, seen = tables | named, seen | prints
            continue
        table = min(tables & named, default="")
        why = "A view is listed twice" if seen & prints else f"Two of the views are of the table {table!r}"
        raise SchemaError(
            f"{why}, so everyone in one of them is also in the other. Merge each table once, or declare them "
            "overlapping (overlapping=True, --overlapping): then their budgets add up."
        )


def _cost(spent: Sequence[str | None], overlapping: bool) -> str | None:
    """The cost of learning the schemas, combined like ε."""
    budgets = [Fraction(text) for text in spent if text is not None]
    return None if not budgets else str(sum(budgets, Fraction(0)) if overlapping else max(budgets))


def _added_up(manifests: Sequence[Manifest]) -> tuple[Spending, ...]:
    return tuple(
        Spending(f"view {i} ({m.method})", m.epsilon, 1, m.delta) for i, m in enumerate(manifests, start=1)
    )


def _largest(manifests: Sequence[Manifest]) -> tuple[Spending, ...]:
    """The spending of the costliest view. If one has the largest ε and another the largest δ, the merged
    view has both. [P14]
    """
    costliest = max(manifests, key=lambda manifest: (manifest.epsilon, manifest.delta))
    delta = max(manifest.delta for manifest in manifests)
    if costliest.delta == delta:
        return costliest.spending
    return (Spending("the costliest of the views", costliest.epsilon, 1, delta),)
