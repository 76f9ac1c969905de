"""Numbers of persons: COUNT(DISTINCT patient_id), over the view or by one attribute."""

from __future__ import annotations

import numpy as np
from sqlglot import exp

from hdpview.errors import QueryError
from hdpview.query.bounds.noise import NoiseLaw
from hdpview.query.evaluate.bare import Bare, BareAnswer, arranged, is_clear, read_bare
from hdpview.query.interval.answers import CountKind
from hdpview.query.interval.spans import Estimates
from hdpview.query.question.axes import code_keys
from hdpview.query.question.conditions import reach
from hdpview.view.data import ViewData
from hdpview.view.tables import Table


def asks_for_people(tree: exp.Expr, view: ViewData) -> bool:
    """Whether a statement counts distinct values of the column that identifies persons."""
    return any(_is_unit(node, view) for node in tree.find_all(exp.Count))


def _is_unit(node: exp.Count, view: ViewData) -> bool:
    asked = node.this.expressions if isinstance(node.this, exp.Distinct) else []
    unit = view.manifest.privacy_unit
    return unit != "row" and [c.name.lower() for c in asked if isinstance(c, exp.Column)] == [unit.lower()]


def read_people(tree: exp.Expr, view: ViewData) -> Bare:
    """The statement as a plain count; refused in words where no number of persons was released for it."""
    unit, plain = view.manifest.privacy_unit, tree.copy()
    for node in list(plain.find_all(exp.Count)):
        if _is_unit(node, view):
            if isinstance(node.parent, exp.Select):
                node.replace(exp.alias_(exp.Count(this=exp.Star()), f"count(DISTINCT {unit})", quoted=True))
            else:
                node.replace(exp.Count(this=exp.Star()))
    bare = read_bare(plain, view.schema)
    people = view.parts[0].people if not view.manifest.is_merged else ()
    names = [view.schema.names[table.attributes[0]] for table in people[1:]]
    if bare is not None and people and is_clear(bare, view.schema) and len(bare.boxes) == 1:
        asked = {*bare.keys, *bare.boxes[0]}
        if not asked or (len(asked) == 1 and view.schema.names[min(asked)] in names):
            return bare
    known = f"over the whole view, or by one of {', '.join(names)}" if people else "nowhere in this view"
    raise QueryError(
        f"COUNT(DISTINCT {unit}) is answered {known}: persons are counted where the curator asked for it "
        "(people=, --people), and numbers of persons do not add up, since one person may have several values."
    )


def answer_people(bare: Bare, view: ViewData, confidence: float, counts: CountKind) -> BareAnswer:
    """Released numbers of persons, whose only error is noise."""
    people, box = view.parts[0].people, bare.boxes[0]
    asked = min({*bare.keys, *box}, default=None)
    if asked is None:
        span = _span(people[0], np.zeros(1, np.int64), confidence, counts)
        return arranged(bare, view, span, {})
    codes = np.arange(view.schema.sizes[asked])
    if asked in box:
        codes = codes[reach(view.schema.attributes[asked], box[asked]).possible]
    if not bare.keys and len(codes) != 1:
        name = view.schema.names[asked]
        raise QueryError(
            f"Persons with one of several values of {name} are not counted: one person may have several of "
            f"them. Ask for one value, or GROUP BY {name}."
        )
    table = next(table for table in people[1:] if table.attributes == (asked,))
    keys = code_keys(view.schema.attributes[asked])
    return arranged(bare, view, _span(table, codes, confidence, counts), {asked: [keys[c] for c in codes]})


def _span(table: Table, codes: np.ndarray, confidence: float, counts: CountKind) -> Estimates:
    released = table.counts.reshape(-1)[codes].astype(np.float64)
    width = NoiseLaw(table.scale).half_width(np.ones(len(codes)), confidence)
    floor = 0.0 if counts == "consistent" else -np.inf
    return Estimates(*(np.maximum(end, floor) for end in (released, released - width, released + width)))
