"""Merged views: counts of the parts add up, the stated budget is right, and files keep everything."""

from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from stored import rewrite

import hdpview as hv
from cells import mixture_view, noiseless_view, noisy_view
from hdpview.domain import Boolean, Category, Integer, Schema
from hdpview.errors import SchemaError, ViewFileError
from hdpview.pview import PView
from hdpview.view.manifest import Spending

pytestmark = pytest.mark.usefixtures("same_noise")

SCHEMA = Schema(
    [
        Integer(name="age", min=0, max=12),
        Category(name="region", values=("North", "South", "East"), nullable=True),
        Boolean(name="smoker", nullable=True),
    ]
)
WHERES = [
    None, "age < 5", "region = 'North' OR smoker", "NOT smoker AND age BETWEEN 2 AND 9", "smoker IS NULL",
]  # fmt: skip


def view(
    seed: int, epsilon: Fraction = Fraction(1), noise_scale: float = 10.0, schema: Schema = SCHEMA
) -> PView:
    made = noisy_view(schema, seed, noise_scale=noise_scale)
    spending = (Spending("choose cuts", epsilon / 2, 1), Spending("noise on counts", epsilon / 2, 1))
    manifest = replace(made.manifest, epsilon=epsilon, spending=spending, not_private_because=())
    return PView(manifest, made.parts)


def test_raw_counts_of_the_parts_add_up():
    parts = [view(seed) for seed in range(3)]
    both = hv.merge(parts)
    found = both.count_many(WHERES, counts="raw").estimate
    assert found == pytest.approx(
        sum(part.count_many(WHERES, counts="raw").estimate for part in parts), abs=1e-9
    )
    sql = "SELECT region, SUM(age) AS s FROM view GROUP BY region"
    sums = [
        {row["region"]: row["s"] for row in part.sql(sql, counts="raw", as_="pyarrow").to_pylist()}
        for part in [both, *parts]
    ]
    for region, total in sums[0].items():
        assert total == pytest.approx(sum(part[region] or 0.0 for part in sums[1:]), abs=1e-6)


def test_noise_of_the_parts_adds_up():
    parts = [view(0, noise_scale=5.0), view(1, noise_scale=20.0)]
    widths = [each.count(None, counts="raw").noise for each in [hv.merge(parts), *parts]]
    whole, *single = (interval.upper - interval.lower for interval in widths)
    assert max(single) < whole < sum(single)


def test_a_merged_file_says_the_same_after_reading(tmp_path):
    merged = hv.merge([view(0), view(1)])
    merged.save(tmp_path / "both.pview")
    opened = hv.open(tmp_path / "both.pview")
    assert opened.manifest == merged.manifest
    assert [len(part.components) for part in opened.parts] == [len(part.components) for part in merged.parts]
    assert opened.count_many(WHERES).estimate == pytest.approx(merged.count_many(WHERES).estimate)
    assert len(hv.merge([opened, view(2)]).manifest.parts) == 3


@pytest.mark.parametrize("make", [view, partial(mixture_view, SCHEMA)])
@pytest.mark.parametrize("fault", ["swapped", "missing", "one too many"])
def test_files_with_wrong_parts_are_refused(tmp_path, fault, make):
    hv.merge([make(0), make(1)]).save(tmp_path / "x.pview")

    def change(table: pa.Table) -> pa.Table:
        part = table.column("part").to_numpy().copy()
        if fault == "swapped":
            part = 1 - part
        elif fault == "missing":
            part[:] = 0
        else:
            part[-1] = 2
        at = table.column_names.index("part")
        return table.set_column(at, "part", pa.array(part.astype(np.uint16)))

    rewrite(tmp_path / "x.pview", change)
    with pytest.raises(ViewFileError, match="damaged"):
        hv.open(tmp_path / "x.pview")


def test_views_that_do_not_fit_are_refused_with_the_difference():
    wider = Schema([Integer(name="age", min=0, max=13), *SCHEMA.attributes[1:]])
    person = PView(replace(view(1).manifest, privacy_unit="patient"), view(1).parts)
    for others, words in (
        ([view(0, schema=wider)], "the attribute 'age' differs"),
        ([view(0, schema=Schema(SCHEMA.attributes[1:]))], "'age' is in only one of them"),
        ([view(0, schema=Schema(SCHEMA.attributes[::-1]))], "different order"),
        ([person], "each patient"), ([], "at least two"), ([mixture_view(SCHEMA, 1)], "same method"),
    ):  # fmt: skip
        with pytest.raises(SchemaError, match=words):
            hv.merge([view(0), *others])


def test_a_view_is_not_merged_with_itself_as_if_nobody_were_in_both():
    same = view(0)
    with pytest.raises(SchemaError, match="listed twice"):
        hv.merge([same, view(1), same])
    assert hv.merge([same, same], overlapping=True).manifest.epsilon == 2 * same.manifest.epsilon


def test_what_is_not_private_in_a_part_is_not_private_in_the_whole():
    merged = hv.merge([noiseless_view(SCHEMA, np.zeros((1, 3), np.int64)), view(1)])
    assert merged.manifest.not_private_because == ("the counts have no noise",)


def test_two_halves_of_a_table_are_the_table():
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, 200) for size in SCHEMA.sizes], axis=1)
    whole = noiseless_view(SCHEMA, codes)
    halves = hv.merge([noiseless_view(SCHEMA, codes[:90]), noiseless_view(SCHEMA, codes[90:])])
    assert halves.count_many(WHERES).estimate == pytest.approx(whole.count_many(WHERES).estimate)
    columns = "region, smoker, COUNT(*) AS n, AVG(age) AS a, MEDIAN(age) AS m"
    sql = f"SELECT {columns} FROM view GROUP BY ALL HAVING COUNT(*) > 0.5 ORDER BY ALL"
    names = ["region", "smoker", "n", "a", "m"]
    ours, theirs = (each.sql(sql, as_="pyarrow").select(names).to_pylist() for each in (halves, whole))
    assert ours == theirs


def test_views_of_one_table_are_not_taken_for_views_of_two(tmp_path):
    schema = hv.Schema([hv.Integer(name="age", min=0, max=9)])

    def built(name: str) -> hv.PView:
        table = pa.table({"age": [1, 2, 3]})
        return hv.build(table, schema, 1, ledger=tmp_path / "l.sqlite", table=name)

    one, two, other = built("visits"), built(" Visits"), built("staff")
    one.save(tmp_path / "one.pview")
    copy = hv.open(tmp_path / "one.pview")
    both = hv.merge([one, other])
    assert both.manifest.epsilon == 1
    both.save(tmp_path / "both.pview")
    for views in ([one, two], [one, copy], [both, one], [hv.open(tmp_path / "both.pview"), copy]):
        with pytest.raises(hv.SchemaError, match="everyone in one of them is also in the other"):
            hv.merge(views)
        assert hv.merge(views, overlapping=True).manifest.epsilon == 2


def test_disjoint_populations_cost_the_largest_budget_and_overlapping_ones_the_sum():
    merged = hv.merge([view(0, Fraction(1, 2)), view(1, Fraction(2)), view(2, Fraction(1))])
    assert merged.manifest.epsilon == 2
    assert sum(spent.epsilon * spent.times for spent in merged.manifest.spending) == 2
    assert [part.epsilon for part in merged.manifest.parts] == [Fraction(1, 2), 2, 1]
    assert merged.info()["merged"]["populations"] == "disjoint"
    merged = hv.merge([view(0, Fraction(1, 2)), view(1, Fraction(2))], overlapping=True)
    assert merged.manifest.epsilon == Fraction(5, 2)
    assert [spent.epsilon for spent in merged.manifest.spending] == [Fraction(1, 2), 2]
    again = hv.merge([merged, view(2, Fraction(3))]).manifest
    assert (again.epsilon, again.overlapping, len(again.parts)) == (3, True, 3)
