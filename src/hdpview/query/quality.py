"""The quality of a view: errors by kind of question, and which attributes were counted together."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from hdpview.domain.table_shapes import TableShape
from hdpview.query.errors.kernels import MAX_TABLE_CELLS, cramers_v
from hdpview.view.data import ViewData, ViewPart
from hdpview.view.mixture import Mixture
from hdpview.view.released_tables import Table, pairs_inside


class Known(NamedTuple):
    """Two attributes that were counted together, and the strength of their dependence: 0 for none, 1 for
    complete.
    """

    attributes: tuple[str, ...]
    dependence: float


@dataclass(frozen=True)
class QualityReport:
    """Measured errors of a view.

    within: by kind of question, the number of records within which 95% of the answers lie.
    measured: whether this was measured on the table; otherwise it is estimated from other tables.
    known: pairs of attributes counted together, strongest dependence first; empty for views made of blocks.
    n_pairs: number of all pairs of attributes.
    groups: sets of attributes counted together in one table, the largest first.
    """

    within: dict[str, float]
    measured: bool
    known: tuple[Known, ...]
    n_pairs: int
    groups: tuple[tuple[str, ...], ...] = ()

    def knows(self, *attributes: str) -> bool:
        """Whether these attributes were counted together in one table."""
        return len(attributes) < 2 or any(set(attributes) <= set(group) for group in self.groups)

    def as_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        known = [
            {"attributes": list(each.attributes), "dependence": round(each.dependence, 4)}
            for each in self.known
        ]
        return {**asdict(self), "known": known, "groups": [list(group) for group in self.groups]}

    def __str__(self) -> str:
        how = "measured on the table" if self.measured else "not measured; expected from other tables"
        lines = [f"Errors ({how}):"]
        lines += [f"  of {kind}, 95% are within ±{error:,.0f} records" for kind, error in self.within.items()]
        if self.known:
            n_known = len(self.known)
            groups = f"{len(self.groups)} tables of 2 to {len(self.groups[0])} attributes"
            lines.append(f"Counted together: {n_known} of {self.n_pairs} pairs of attributes, in {groups}")
            lines += [
                f"  {' × '.join(each.attributes)} (dependence {each.dependence:.2f})"
                for each in self.known[:20]
            ]
            lines += [f"  … and {n_known - 20} more"] if n_known > 20 else []
            if n_known < self.n_pairs:
                lines.append("Other relationships are modelled and may look weaker than they are.")
        return "\n".join(lines)


# Maximum number of pairs that a sentence names.
_MOST_NAMED = 6


def inferred_note(view: ViewData, attributes: Iterable[int]) -> str | None:
    """A sentence on the pairs among these attributes that no released table counts together."""
    asked = sorted(set(attributes))
    pairs = [(a, b) for i, a in enumerate(asked) for b in asked[i + 1 :] if _is_inferred(view, a, b)]
    if not pairs:
        return None
    names = view.schema.names
    named = "; ".join(f"{names[a]} and {names[b]}" for a, b in pairs[:_MOST_NAMED])
    more = f"; and {len(pairs) - _MOST_NAMED} more pairs" if len(pairs) > _MOST_NAMED else ""
    return (
        f"Relationships that were not counted are modelled and may look weaker than they are: {named}{more}."
    )


def _is_inferred(view: ViewData, a: int, b: int) -> bool:
    return not view.is_blocks and any(
        not any({a, b} <= set(table.attributes) for table in part.tables) for part in view.parts
    )


def quality_report(view: ViewData) -> QualityReport:
    """The quality of a view; for a merged view, that of the part with the largest errors."""
    within: dict[str, float] = {}
    for part in view.parts:
        for kind, error in part.quality.within.items():
            within[kind] = max(error, within.get(kind, 0.0))
    known = _known(view, view.parts[0]) if len(view.parts) == 1 else ()
    groups = _groups(view, view.parts[0]) if len(view.parts) == 1 else ()
    n, measured = len(view.schema), all(part.quality.measured for part in view.parts)
    return QualityReport(within, measured, known, n * (n - 1) // 2, groups)


def _groups(view: ViewData, part: ViewPart) -> tuple[tuple[str, ...], ...]:
    together = {table.attributes for table in part.tables if len(table.attributes) > 1}
    ordered = sorted(together, key=lambda attributes: (-len(attributes), attributes))
    return tuple(tuple(view.schema.names[a] for a in attributes) for attributes in ordered)


def _known(view: ViewData, part: ViewPart) -> tuple[Known, ...]:
    names = view.schema.names
    tables = [table for table in part.tables if len(table.attributes) == 2] + pairs_inside(part.tables)
    finest = {table.attributes: table for table in sorted(tables, key=lambda table: table.counts.size)}
    known = [Known(tuple(names[a] for a in key), dependence(part, own)) for key, own in finest.items()]
    return tuple(sorted(known, key=lambda each: -each.dependence))


def dependence(part: ViewPart, table: Table) -> float:
    """Cramér's V of the first two attributes of a table, as the view has them over the table's bins."""
    shape = TableShape(table.attributes[:2], table.shape.bin_of_code[:2])
    if math.prod(shape.shape) > MAX_TABLE_CELLS or not isinstance(part.components, Mixture):
        return 0.0
    return cramers_v(part.components.table(shape))
