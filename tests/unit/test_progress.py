"""The progress messages of a build."""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import hdpview as hv
from hdpview.counts.sparse import SparseCounts
from hdpview.domain.table_shapes import CodeBoxes, TableShape
from hdpview.privacy import mechanism
from hdpview.privacy.exact import Exact
from hdpview.privacy.mechanism import Mechanism
from hdpview.privacy.randomness import Randomness

SCHEMA = hv.Schema([hv.Integer(name="age", min=0, max=99), hv.Integer(name="height", min=0, max=99)])


@pytest.mark.parametrize(
    "randomness", [Randomness.fresh(), Randomness.from_test_key(b"parts")], ids=["fresh", "test key"]
)
def test_noise_is_added_part_by_part_and_says_how_far_it_is(randomness, monkeypatch):
    exact, told = np.arange(250) * 1_000, list[tuple[float | None, str]]()

    def noisy() -> NDArray[np.int64]:
        tenth = Fraction(1, 10)
        return Mechanism(tenth, randomness).noisy("x", Exact(exact), tenth, lambda *step: told.append(step))

    at_once = noisy()
    monkeypatch.setattr(mechanism, "_ENTRIES_AT_ONCE", 100)
    in_parts = noisy()
    assert told[1:] == [(0.0, "adding noise"), (0.4, "adding noise"), (0.8, "adding noise")]
    assert (at_once == in_parts).all() == randomness.is_test
    assert (
        0 < np.abs(in_parts - exact).mean() < 50
    )  # the scale is 10; one part left out or taken twice would be off by thousands


def test_tables_are_announced():
    counts = SparseCounts(SCHEMA, np.array([[1, 2], [3, 4]], np.uint8), np.array([5, 6]))
    told: list[tuple[float | None, str]] = []
    counts.exact_tables(
        [TableShape.of_codes((0,), SCHEMA.sizes)], lambda fraction, words: told.append((fraction, words))
    )
    boxes = CodeBoxes(np.array([[0]]), np.array([[0]]), np.array([[2]]))
    counts.exact_box_counts(boxes, lambda fraction, words: told.append((fraction, words)))
    tables, in_boxes = "Adding up tables", "Counting records in boxes"
    # A step may be told again and again while it takes long.
    steps = [(0.0, tables), (1.0, tables), (0.0, in_boxes), (1.0, in_boxes)]
    assert list(dict.fromkeys(told)) == steps


def test_a_build_names_its_stages_in_order():
    rng, told = np.random.default_rng(2), list[str]()
    schema = hv.Schema(
        [hv.Integer(name=name, min=0, max=299) for name in "ab"]
    )  # more occupied cells than one task grows
    table = pa.table({name: rng.integers(0, 300, 60_000) for name in schema.names})
    hv.build(table, schema, 1.0, method="hdpview", progress=lambda _, words: told.append(words.lower()))
    stages = ["counting occupied cells", "growing blocks", "adding noise", "measuring the view's own errors"]
    assert [words for words in dict.fromkeys(told) if words in stages] == stages
