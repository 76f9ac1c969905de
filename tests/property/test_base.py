"""Views with a base: whatever is asked, the answer is what the definition gives, cell by cell."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cells import based_view, cell_counts, cell_masses, noisy_view, random_base
from hdpview.domain import Integer, Schema
from hdpview.errors import ViewFileError
from hdpview.methods.protocol import BlockRelease
from hdpview.pview import PView, merge
from hdpview.query.at_once import can_be_at_once, summarise_at_once
from hdpview.query.base_kernels import CHUNK
from hdpview.query.boxes import intersect, pack
from hdpview.query.grouped import summarise_groups
from hdpview.query.histograms import histograms
from hdpview.query.predicates import boxes_of
from hdpview.query.sql.axes import code_conditions
from hdpview.query.summary import Summary, summarise
from hdpview.query.sums import Part, bin_values, summarise_group_sums, summarise_sums
from hdpview.query.workloads import CodeBoxes
from hdpview.view.base import Base
from hdpview.view.blocks import Blocks

seeds = st.integers(0, 2**32 - 1)
domains = st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple)
FEW = settings(max_examples=25, deadline=None)


def schema_of(sizes: tuple[int, ...]) -> Schema:
    return Schema([Integer(name=f"a{i}", min=0, max=size - 1) for i, size in enumerate(sizes)])


def random_condition(sizes: tuple[int, ...], rng: np.random.Generator) -> tuple[str, NDArray[np.bool_]]:
    """A condition of one or two boxes, and the cells that it holds for."""
    texts, cells = [], np.zeros(sizes, dtype=bool)
    for _ in range(int(rng.integers(1, 3))):
        ends = [np.sort(rng.integers(0, size, 2)) for size in sizes]
        asked = [a for a in range(len(sizes)) if rng.random() < 0.6] or [0]
        texts.append("(" + " AND ".join(f"a{a} BETWEEN {ends[a][0]} AND {ends[a][1]}" for a in asked) + ")")
        cells[
            tuple(slice(ends[a][0], ends[a][1] + 1) if a in asked else slice(None) for a in range(len(sizes)))
        ] = True
    return " OR ".join(texts), cells


@FEW
@given(domains, seeds)
def test_masses_and_marginals_are_sums_over_cells(sizes: tuple[int, ...], seed: int) -> None:
    """P(box), how a box spreads over bins, and P(code) are what adding up P(cell) gives; all cells together
    have mass 1.
    """
    rng = np.random.default_rng(seed)
    base = random_base(sizes, rng)
    masses = cell_masses(base)
    assert masses.sum() == pytest.approx(1)
    lower = np.array([[rng.integers(size) for size in sizes] for _ in range(5)])
    upper = lower + 1 + rng.integers(0, np.array(sizes) - lower)
    logarithm, spread = base.masses(lower, upper)
    for i in range(5):
        inside = tuple(map(slice, lower[i], upper[i]))
        assert math.exp(logarithm[i]) == pytest.approx(masses[inside].sum())
        for a in range(len(sizes)):
            others = tuple(b for b in range(len(sizes)) if b != a)
            of_codes = masses[inside].sum(axis=others) / masses[inside].sum()
            bins = base.bin_of_code[a][lower[i, a] : upper[i, a]]
            assert np.bincount(bins, of_codes, base.n_bins[a]) == pytest.approx(spread[a][i], abs=1e-12)
            assert base.marginal(a) == pytest.approx(masses.sum(axis=others))


@FEW
@given(domains, seeds, st.booleans())
def test_counts_are_sums_over_cells(sizes: tuple[int, ...], seed: int, fitted: bool) -> None:
    """A count, alone or in a batch, is the sum over its cells in both readings; fitted counts are the
    consistent ones.
    """
    rng, view = np.random.default_rng(seed), based_view(schema_of(sizes), seed, fitted=fitted)
    conditions, cells = zip(*(random_condition(sizes, rng) for _ in range(6)), strict=True)
    for reading, counts in (("raw", view.blocks.noisy_counts), ("consistent", view.blocks.consistent_counts)):
        records = cell_counts(view.blocks, counts)
        wanted = [records[inside].sum() for inside in cells]
        assert [view.count(each, counts=reading).estimate for each in conditions] == pytest.approx(
            wanted, abs=1e-7
        )
        assert view.count_many([*conditions] * 8, counts=reading).estimate == pytest.approx(
            wanted * 8, abs=1e-7
        )
    assert not fitted or (view.blocks.consistent_counts == view.blocks.fitted).all()


@FEW
@given(domains, seeds)
def test_weights_of_blocks_are_told_exactly(sizes: tuple[int, ...], seed: int) -> None:
    """Covered and touched blocks, squares and fourth powers of weights and the largest are those of the
    definition, few or many asked.
    """
    rng, view = np.random.default_rng(seed), based_view(schema_of(sizes), seed)
    condition, cells = random_condition(sizes, rng)
    blocks, masses = view.blocks, cell_masses(view.blocks.bases[0])
    insides = [
        tuple(map(slice, low.tolist(), high.tolist()))
        for low, high in zip(blocks.lower, blocks.upper, strict=True)
    ]
    weight = np.array([(masses * cells)[inside].sum() / masses[inside].sum() for inside in insides])
    questions = [boxes_of(condition, view.schema)]
    for n in (1, 40):
        of = summarise(blocks, pack(questions * n, view.schema))
        assert of.n_touched[-1] == (weight > 0).sum()
        assert of.touched_sum[-1] == blocks.noisy_counts[weight > 0].sum()
        assert of.n_full[-1] <= sum(bool(cells[inside].all()) for inside in insides)
        if len(questions[0]) == 1:  # of several boxes that cover a block together, nothing is claimed
            assert of.n_full[-1] == sum(bool(cells[inside].all()) for inside in insides)
        assert (of.squares[-1], of.fourths[-1], of.largest[-1]) == pytest.approx(
            ((weight**2).sum(), (weight**4).sum(), weight.max())
        )
        assert of.spread[-1] == pytest.approx(
            ((np.abs(weight * (1 - weight))) ** 0.75) @ blocks.consistent_counts, rel=1e-6, abs=1e-6
        )


@FEW
@given(st.lists(st.integers(2, 6), min_size=2, max_size=4).map(tuple), seeds)
def test_groups_sums_and_histograms_are_sums_over_cells(sizes: tuple[int, ...], seed: int) -> None:
    """GROUP BY with COUNT, SUM and AVG, marginals, all histograms under a filter and the median agree with
    the cells.
    """
    rng, view = np.random.default_rng(seed), based_view(schema_of(sizes), seed)
    condition, cells = random_condition(sizes, rng)
    records = cell_counts(view.blocks, view.blocks.consistent_counts) * cells
    others = tuple(range(1, len(sizes)))
    by_first = records.sum(axis=others)
    values = np.arange(sizes[-1])
    sums = (records * values).sum(axis=others)
    found = view.sql(
        f"SELECT a0, COUNT(*) AS n, SUM(a{others[-1]}) AS s, AVG(a{others[-1]}) AS m FROM view WHERE {condition} GROUP BY a0",
        as_="pyarrow",
    )
    codes = found.column("a0").to_numpy()
    assert found.column("n").to_numpy() == pytest.approx(by_first[codes], abs=1e-7)
    assert found.column("s").to_numpy() == pytest.approx(sums[codes], abs=1e-7)
    assert found.column("m").to_numpy() == pytest.approx(sums[codes] / by_first[codes], rel=1e-7)
    for histogram, a in zip(histograms(view, condition), range(len(sizes)), strict=True):
        assert histogram.estimate == pytest.approx(
            records.sum(axis=tuple(b for b in range(len(sizes)) if b != a)), abs=1e-7
        )
    pairs = view.marginal(["a1", "a0"], as_="pyarrow").column("count").to_numpy()
    everything = cell_counts(view.blocks, view.blocks.consistent_counts)
    assert pairs == pytest.approx(everything.sum(axis=tuple(range(2, len(sizes)))).T.reshape(-1), abs=1e-7)
    assert float(view.mean("a0", condition).estimate or 0) == pytest.approx(
        (by_first @ np.arange(sizes[0])) / by_first.sum(), abs=1e-7
    )


def by_one(view: PView, condition: str, attributes: list[int]) -> list[list[dict]]:
    """The boxes of every group under a condition."""
    of_axes = [code_conditions(view.schema.attributes[a]) for a in attributes]
    boxes = boxes_of(condition, view.schema)
    return [
        intersect(boxes, [dict(zip(attributes, each, strict=True))]) for each in itertools.product(*of_axes)
    ]


@FEW
@given(st.lists(st.integers(2, 5), min_size=3, max_size=4).map(tuple), seeds, st.booleans())
def test_painted_groups_are_groups_one_by_one(sizes: tuple[int, ...], seed: int, is_merged: bool) -> None:
    """All sums behind intervals are the same for groups painted at once and asked one by one, of counts and
    of values, merged or not.

    Spreads are a series where weights are small: they agree to 1e-5.
    """
    rng, view = np.random.default_rng(seed), based_view(schema_of(sizes), seed)
    if is_merged:
        view = merge(
            [
                view,
                based_view(schema_of(sizes), seed + 1, fitted=False),
                noisy_view(schema_of(sizes), seed, 5),
            ]
        )
    condition, _ = random_condition(sizes, rng)
    attributes = [int(a) for a in rng.permutation(len(sizes))[: rng.integers(1, 3)]]
    questions = by_one(view, condition, attributes)
    valued = next(a for a in range(len(sizes)) if a not in attributes)
    values = bin_values(view.schema.attributes[valued], valued)
    boxes = boxes_of(condition, view.schema)
    pairs = [
        (
            summarise_groups(view.blocks, view.schema, boxes, attributes),
            summarise(view.blocks, pack(questions, view.schema)),
        ),
        (
            summarise_group_sums(view.blocks, view.schema, [Part(box, values) for box in boxes], attributes),
            summarise_sums(
                view.blocks, view.schema, [[Part(box, values) for box in own] for own in questions]
            ),
        ),
    ]
    for painted, one_by_one in pairs:
        for field in dataclasses.fields(Summary):
            wanted = getattr(one_by_one, field.name)
            rounding = (
                1e-4 if "fourths" in field.name else 1e-6
            )  # running sums of fourth powers leave more of it
            rounding *= max(1.0, np.abs(wanted).max())
            assert getattr(painted, field.name) == pytest.approx(wanted, rel=1e-5, abs=rounding), field.name


def check_codes_at_once(view: PView, condition: str | None, rng: np.random.Generator) -> None:
    """All sums behind histograms of a filter, and behind its count, against questions asked one by one, which
    NumPy answers.

    Spreads are a series where weights are small: they agree to 1e-5.
    """
    boxes = boxes_of(condition, view.schema)
    numbers = [int(a) for a in rng.permutation(len(view.schema)) if can_be_at_once(view, boxes, a)]
    of_codes = [
        [intersect(boxes, [{a: code}]) for code in code_conditions(view.schema.attributes[a])]
        for a in numbers
    ]
    one_by_one = [
        summarise(view.blocks, pack([question], view.schema))
        for question in [*itertools.chain(*of_codes), boxes]
    ]
    at_once = summarise_at_once(view, boxes, numbers)
    for field in dataclasses.fields(Summary):
        wanted = np.concatenate([getattr(each, field.name) for each in one_by_one], axis=-1)
        rounding = (1e-4 if field.name == "fourths" else 1e-6) * max(1.0, np.abs(wanted).max())
        assert getattr(at_once, field.name) == pytest.approx(wanted, rel=1e-5, abs=rounding), field.name


@FEW
@given(
    st.lists(st.integers(2, 6), min_size=2, max_size=4).map(tuple),
    seeds,
    st.sampled_from(["base", "merged", "even"]),
    st.booleans(),
)
def test_codes_at_once_are_codes_one_by_one(
    sizes: tuple[int, ...], seed: int, kind: str, is_everything: bool
) -> None:
    """A filter of any boxes, or none, with one base, several or none: all codes at once are codes one by
    one.
    """
    rng, view = np.random.default_rng(seed), noisy_view(schema_of(sizes), seed)
    if kind != "even":
        view = (
            merge([based_view(schema_of(sizes), seed), view])
            if kind == "merged"
            else based_view(schema_of(sizes), seed)
        )
    check_codes_at_once(view, None if is_everything else random_condition(sizes, rng)[0], rng)


@pytest.mark.parametrize("seed", range(3))
def test_many_blocks_are_taken_some_at_a_time(seed: int) -> None:
    """More classes and blocks than are worked on at once, and ranges in no order: codes at once, and batches,
    are questions one by one.
    """
    sizes = (30, 20, 12, 8)
    rng, view = np.random.default_rng(seed), based_view(schema_of(sizes), seed, n_cuts=4_000)
    conditions = [random_condition(sizes, rng)[0] for _ in range(40)]
    assert max(len(node.lower) for node in view.blocks.levels[0].within[0].nodes) > CHUNK
    check_codes_at_once(view, conditions[0], rng)
    in_batch = summarise(view.blocks, pack([boxes_of(each, view.schema) for each in conditions], view.schema))
    alone = [summarise(view.blocks, pack([boxes_of(each, view.schema)], view.schema)) for each in conditions]
    for field in dataclasses.fields(Summary):
        wanted = np.concatenate([getattr(each, field.name) for each in alone], axis=-1)
        assert getattr(in_batch, field.name) == pytest.approx(wanted, rel=1e-7, abs=1e-7), field.name


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(2, 6), min_size=4, max_size=5).map(tuple), seeds)
def test_histograms_at_once_are_histograms_one_by_one(sizes: tuple[int, ...], seed: int) -> None:
    """Four attributes or more take another way through the code than one; estimates and intervals are the
    same.
    """
    rng, view = np.random.default_rng(seed), based_view(schema_of(sizes), seed)
    view = merge([view, noisy_view(schema_of(sizes), seed)]) if seed % 2 else view
    condition, _ = random_condition(sizes, rng)
    for histogram in histograms(view, condition):
        (alone,) = histograms(view, condition, [histogram.attribute.name])
        for field in ("estimate", "lower", "upper"):
            assert getattr(histogram, field) == pytest.approx(getattr(alone, field), rel=1e-4, abs=1e-4)


@FEW
@given(domains, seeds)
def test_a_release_answers_and_tabulates_by_its_fitted_counts(sizes: tuple[int, ...], seed: int) -> None:
    """Boxes and marginals of a release are sums over cells of fitted counts."""
    rng, view = np.random.default_rng(seed), based_view(schema_of(sizes), seed)
    release, records = (
        BlockRelease(view.blocks, 1.0, {}),
        cell_counts(view.blocks, view.blocks.consistent_counts),
    )
    chosen = [int(a) for a in rng.permutation(len(sizes))[: rng.integers(1, len(sizes) + 1)]]
    others = tuple(a for a in range(len(sizes)) if a not in chosen)
    kept = sorted(chosen)
    assert release.marginal(chosen) == pytest.approx(
        records.sum(axis=others).transpose([kept.index(a) for a in chosen]), abs=1e-7
    )
    ends = np.sort(rng.integers(0, np.array(sizes)[chosen][None, :, None], (40, len(chosen), 2)), axis=2)
    boxes = CodeBoxes(np.tile(chosen, (40, 1)), ends[..., 0], ends[..., 1] + 1)
    for i, found in enumerate(release.answer(boxes)):
        inside = [slice(None)] * len(sizes)
        for a, (low, high) in zip(chosen, ends[i], strict=True):
            inside[a] = slice(low, high + 1)
        assert found == pytest.approx(records[tuple(inside)].sum(), abs=1e-7)


@settings(max_examples=20, deadline=None)
@given(seeds)
def test_merged_views_add_up(seed: int) -> None:
    """Counts of a merged view are sums of its parts', whether these have bases, other bases or none; so are
    all others by the cells.
    """
    schema = schema_of((5, 4, 3))
    views = [based_view(schema, seed), based_view(schema, seed + 1, fitted=False), noisy_view(schema, seed)]
    merged = merge(views)
    condition, cells = random_condition((5, 4, 3), np.random.default_rng(seed))
    wanted = [
        sum(view.count(condition, counts=reading).estimate for view in views)
        for reading in ("raw", "consistent")
    ]
    assert [
        merged.count(condition, counts=reading).estimate for reading in ("raw", "consistent")
    ] == pytest.approx(wanted, abs=1e-7)
    assert cell_counts(merged.blocks, merged.blocks.consistent_counts)[cells].sum() == pytest.approx(
        wanted[1], abs=1e-7
    )
    again = merge([merge(views[:2]), views[2]])
    assert again.count_many([condition] * 40).typical == pytest.approx(
        merged.count_many([condition] * 40).typical
    )


def test_records_are_drawn_as_the_base_says() -> None:
    """Cells of 100,000 records against the view's own: by χ², each of 5 views may fail once in half a million
    runs.

    The cube root of χ² by its degrees of freedom is all but normal; 4.75 standard deviations are passed with
    probability 2·10⁻⁶.
    """
    for seed in range(5):
        view = based_view(schema_of((4, 3, 5)), seed)
        expected = cell_counts(view.blocks, view.blocks.consistent_counts)
        expected *= 100_000 / expected.sum()
        found = np.zeros(expected.shape)
        table = view.sample(100_000, seed=seed, as_="pyarrow")
        np.add.at(found, tuple(column.to_numpy() for column in table.columns), 1)
        n, statistic = expected.size - 1, ((found - expected) ** 2 / expected).sum()
        deviation = ((statistic / n) ** (1 / 3) - (1 - 2 / (9 * n))) / math.sqrt(2 / (9 * n))
        assert abs(deviation) < 4.75


def test_records_never_leave_their_block() -> None:
    """A part of a merged view that holds no records gives none, and codes stay in blocks with records."""
    schema = schema_of((6, 6))
    lower, upper = np.array([[0, 0], [3, 0]], np.int32), np.array([[3, 6], [6, 6]], np.int32)
    base = random_base((6, 6), np.random.default_rng(1))
    blocks = Blocks(
        lower, upper, np.array([0, 7]), np.array([2, 2], np.int32), base=base, fitted=np.array([0.0, 7.0])
    )
    table = PView(noisy_view(schema, 1).manifest, blocks).sample(5_000, seed=1, as_="pyarrow")
    assert table.column("a0").to_numpy().min() == 3


def test_a_code_that_is_hardly_there_is_still_left_out() -> None:
    """A question that leaves out a code of next to no mass does not cover the block, and one that asks for it
    alone touches it.
    """
    schema = schema_of((3, 2))
    base = Base.product([np.array([1.0, 1e-12, 1.0]), np.ones(2)])
    blocks = Blocks(
        np.zeros((1, 2), np.int32),
        np.array([[3, 2]], np.int32),
        np.array([1_000]),
        np.ones(1, np.int32),
        base=base,
    )
    view = PView(noisy_view(schema, 0).manifest, blocks)
    for n in (1, 40):
        assert view.count_many(["a0 <> 1"] * n).guaranteed[-1, 0] < 100
        assert view.count_many(["a0 = 1"] * n).guaranteed[-1, 1] > 900
        assert view.count_many(["a0 <= 2"] * n).guaranteed[-1, 0] > 900


def test_many_attributes_stay_within_doubles() -> None:
    """A box of mass 10^-480 has a logarithm, and a block as small, behind 59 cuts in a row, answers like any
    other.
    """
    n, rare = 60, np.array([[1 - 1e-8, 1e-8], [1 - 1e-8, 1e-8]])
    bins, shape = tuple(np.arange(2, dtype=np.int32) for _ in range(n)), tuple(np.ones(2) for _ in range(n))
    base = Base(bins, shape, (-1, *range(n - 1)), (rare[:1], *[rare] * (n - 1)))
    ones = np.ones((1, n), np.int32)
    assert base.masses(ones, ones + 1)[0] == pytest.approx(n * math.log(1e-8))
    lower = np.tril(np.ones((n, n), np.int32), -1)
    upper = 2 - np.eye(n, dtype=np.int32)
    upper[-1, -1] = 2
    depth, counts = np.array([*range(2, n + 1), n], np.int32), np.zeros(n)
    counts[-1] = 1e9
    view = PView(
        noisy_view(schema_of((2,) * n), 0, 0).manifest,
        Blocks(lower, upper, counts.astype(np.int64), depth, base=base, fitted=counts),
    )
    for copies in (1, 40):
        found = view.count_many([f"a{n - 1} = 1", f"a{n - 1} = 0", "a0 = 1"] * copies).estimate[-3:]
        assert found == pytest.approx([10.0, 1e9 - 10.0, 1e9])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parent": [1, 0, -1]}, "in a circle"),
        ({"parent": [7, -1, -1]}, "not there"),
        ({"parent": [True, -1, -1]}, "not there"),
        ({"bins": [[0, 2], [0], [0]], "shape": [[0.5, 0.5, 1.0], [0.5, 0.5], [1.0]]}, "chance of a bin"),
        ({"bins": [[0, 2, 2], [0], [0]]}, "follow each other"),
        ({"bins": [[1], [0], [0]]}, "follow each other"),
        ({"bins": [list(range(300)), [0], [0]]}, "256 at most"),
        ({"shape": [[0.5, 0.5, 0.0], [0.5, 0.5], [1.0]]}, "not above 0"),
        ({"shape": [[0.5, 0.25, 0.2], [0.5, 0.5], [1.0]]}, "add up to 1"),
        ({"shape": [[0.5, 0.5], [0.5, 0.5], [1.0]]}, "missing"),
        ({"shape": [[0.5, 0.25, "x"], [0.5, 0.5], [1.0]]}, "else than numbers"),
        ({"shape": [[0.5, 0.25, float("nan")], [0.5, 0.5], [1.0]]}, "not above 0"),
        ({"table": [[[0.5]], [[1.0]], [[1.0]]]}, "add up to 1"),
        ({"table": [[[1.0]], [[1.0], [1.0]], [[1.0]]]}, "missing"),
        ({"table": [[[1.0]], [[1.0]]]}, "every attribute"),
        ({"variance": [-1.0, 0.0, 0.0]}, "variances"),
        ({"variance": 3}, "every attribute"),
    ],
)
def test_bases_that_do_not_hold_together_are_refused(change: dict[str, object], message: str) -> None:
    """Circles, gaps, missing and impossible numbers: each is named."""
    good = Base.product([np.array([2.0, 1.0, 1.0]), np.ones(2), np.ones(1)]).to_dict()
    assert Base.from_dict(good, (3, 2, 1)).to_dict() == good
    with pytest.raises(ViewFileError, match=message):
        Base.from_dict({**good, **change}, (3, 2, 1))
