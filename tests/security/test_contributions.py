"""Persons with several rows: the contribution of each is bounded and paid for."""

from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import ibis
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hdpview as hv
from hdpview.counts.contributions import Contributions
from hdpview.counts.files import LONGEST_LINE
from hdpview.counts.ingest import ReadOptions, read_counts
from hdpview.errors import DataError
from hdpview.view.manifest import from_dict, to_dict

SCHEMA = hv.Schema([hv.Integer(name="age", min=0, max=5), hv.Boolean(name="ill", nullable=True)])
PEOPLE = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c", None]), st.integers(0, 5), st.sampled_from([True, False, None])
    ),
    max_size=20,
)


COLUMNS = pa.schema({"who": pa.string(), "age": pa.int64(), "ill": pa.bool_()})


def frame(rows: list[Any]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(COLUMNS.names, row, strict=True)) for row in rows], COLUMNS)


ONE = frame([("a", 1, True)])


AGES = {"age": [0, 1, 2, 3, 4, 5], "ill": [True] * 6}


def counted(source: Any, *limits: Any, salt: str = "s", unit: str | None = "who") -> Counter[tuple[int, ...]]:
    """Records per cell. limits: of `Contributions`, after the unit."""
    counts = read_counts(
        source, SCHEMA, ReadOptions(threads=1, limits=Contributions(unit, *limits), salt=salt)
    )
    cells = map(tuple, counts.exact_codes.tolist())
    return Counter(dict(zip(cells, counts.exact_counts.tolist(), strict=True)))


def chosen(rows: list[Any], max_rows: int, salt: str = "s") -> Counter[tuple[int, ...]]:
    return counted(frame(rows), max_rows, salt=salt)


@settings(max_examples=40, deadline=None)
@given(PEOPLE, PEOPLE, st.integers(1, 4), st.randoms())
def test_a_person_changes_their_own_rows_alone(rows, theirs, k, random):
    without = chosen(rows, k)
    mixed = [*rows, *(("new", age, ill) for _, age, ill in theirs)]
    random.shuffle(mixed)
    with_person = chosen(mixed, k)
    assert without <= with_person
    assert (with_person - without).total() == min(k, len(theirs))


def test_rows_of_nobody_are_left_out_and_no_person_has_more_than_k():
    rows = [*[("a", 1, True)] * 7, *[("b", 2, False)] * 2, *[(None, 3, None)] * 5]
    assert chosen(rows, 3) == Counter({(1, 1): 3, (2, 0): 2})


@pytest.mark.parametrize(
    ("who", "no_person"),
    [
        (pa.array(["a", "", " ", "b", "   ", "c"]), ()),
        (pa.array([7.0, float("nan"), None, 8.0, float("nan"), 9.0]), ()),
        (pa.array([7.0, float("nan"), None, 8.0, float("nan"), 9.0], pa.float32()), ()),
        (pa.array(["a", "NA", "unknown ", "b", "NA", "na"]), ("NA", "unknown")),
        (pa.array([1, -1, 999, 2, -1, 3]), ("-1", "999")),
    ],
)
def test_blank_text_nan_and_what_the_curator_lists_name_nobody(who, no_person):
    """Otherwise they would all be one person, and one of them could change which rows of the others count."""
    table = pa.table({"who": who, **AGES})
    assert counted(table, 1, None, no_person) == Counter({(0, 1): 1, (3, 1): 1, (5, 1): 1})


def test_a_column_cannot_pass_for_the_word_that_means_each_row():
    with pytest.raises(DataError, match="Rename the column 'row'"):
        hv.build(pa.table({"row": [1], "age": [1], "ill": [True]}), SCHEMA, 1, privacy_unit="row", max_rows=2)


@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")  # by Ibis
def test_persons_are_told_apart_by_every_letter_whatever_the_database_takes_for_equal():
    """In a column where `Ab` equals `aB`, both used to share one quota."""
    connection = ibis.duckdb.connect()
    connection.raw_sql("CREATE TABLE visits (who VARCHAR COLLATE NOCASE, age INT, ill BOOLEAN)")
    found = []
    for who, is_ill in (("Ab", True), ("aB", False)):
        connection.raw_sql(f"INSERT INTO visits SELECT '{who}', range % 6, {is_ill} FROM range(6)")
        found.append(counted(connection.table("visits"), 2))
    connection.disconnect()
    alone, both = found
    assert alone.total() == 2
    assert alone <= both
    assert (both - alone).total() == 2


def test_an_empty_list_of_nobody_is_none_at_all():
    """The curator's page sends a list, and every build without a privacy unit failed."""
    assert Contributions(anonymous_values=[]) == Contributions()
    hv.build(ONE, SCHEMA, 1, no_person=[], method="hdpview")


def test_a_csv_file_has_rows_of_nobody_too(tmp_path):
    (tmp_path / "t.csv").write_text('who,age,ill\na,1,true\n,2,true\n"",3,true\n ,4,true\nb,5,true\n')
    assert counted(tmp_path / "t.csv", 3) == Counter({(1, 1): 1, (5, 1): 1})


def test_each_row_has_the_same_chance():
    """Ten rows per person, nine of them equal, three chosen: the odd one three times in ten."""
    rows = [(f"p{i}", age, age == 1) for i in range(1_000) for age in [*[1] * 9, 5]]
    found = chosen(rows, 3)
    assert found.total() == 3_000
    assert 220 < found[5, 0] < 380  # 300 expected, and 5 standard deviations either way


def test_the_choice_is_the_same_in_any_order_and_differs_by_salt():
    rows = [("a", age, ill) for age in range(6) for ill in (True, False)]
    assert chosen(rows, 3) == chosen(rows[::-1], 3)
    assert len({frozenset(chosen(rows, 3, f"{i}").items()) for i in range(10)}) > 5


@pytest.mark.parametrize(
    "kind", [pa.int64(), pa.string(), pa.float64(), pa.decimal128(20, 0), pa.large_string(), pa.int8()]
)
def test_persons_may_be_named_by_any_plain_type(kind):
    table = pa.table({"who": pa.array([1, 1, 1, 2, None, None], pa.int64()).cast(kind), **AGES})
    assert counted(table, 2).total() == 3


def test_a_database_chooses_by_the_same_rule(postgres_url):
    rows = [(f"p{i % 7}", i % 6, [True, False, None][i % 3]) for i in range(120)]
    connection = ibis.connect(postgres_url)
    table = connection.create_table("visits", frame(rows), temp=True)
    assert counted(table, 4) == chosen(rows, 4)
    connection.disconnect()


def test_an_aggregated_table_counts_what_its_column_says():
    table = pa.table({"age": [1, 1, 2, 3, 4, 5], "ill": [True] * 6, "n": ["2", "3", "-4", None, "x", "1e30"]})
    assert counted(table, 1, "n", unit=None) == Counter({(1, 1): 5, (5, 1): 2**40})


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 5), st.integers(-2, 9)), max_size=12),
    st.integers(1, 8),
)
def test_a_persons_sum_is_bounded_in_an_aggregated_table(rows, k):
    table = frame([(who, age, True) for who, age, _ in rows])
    table = table.append_column("n", pa.array([n for *_, n in rows], pa.int64()))
    expected = sum(min(k, sum(max(0, n) for who, _, n in rows if who == person)) for person in "ab")
    assert counted(table, k, "n").total() == expected


def test_all_noise_grows_with_the_bound_and_the_manifest_says_whom_it_protects(tmp_path):
    how = {"method": "hdpview", "quality": False, "ledger": False}
    hv.build(ONE, SCHEMA, 1, privacy_unit="who", max_rows=5, **how).save(tmp_path / "v.pview")
    opened = hv.open(tmp_path / "v.pview")
    manifest, once = opened.manifest, hv.build(ONE, SCHEMA, 1, **how).manifest.parameters
    assert opened.blocks.noise_scale == pytest.approx(5 / 0.1)
    assert sum(spent.epsilon * spent.times for spent in manifest.spending) == Fraction(1)
    assert (manifest.privacy_unit, manifest.max_rows) == ("who", 5)
    assert manifest.neighbours == "tables that differ by adding or removing all records of one who"
    for name in ("converge_noise_scale", "converge_bias_per_level", "converge_threshold"):
        assert manifest.parameters[name] == pytest.approx(5 * once[name])
    assert 5 * manifest.parameters["epsilon_counts"] == pytest.approx(once["epsilon_counts"])


@pytest.mark.parametrize("quality", [True, False])
def test_tables_of_a_mixture_have_more_noise_by_the_bound(quality):
    rows, how = ONE, {"quality": quality, "ledger": False, "test_key": b"k"}
    one = hv.build(rows, SCHEMA, 1, **how)
    five = hv.build(rows, SCHEMA, 1, privacy_unit="who", max_rows=5, **how)
    assert sum(spent.epsilon * spent.times for spent in five.manifest.spending) == Fraction(1)
    for narrow, wide in zip(one.parts[0].tables, five.parts[0].tables, strict=True):
        assert wide.scale == pytest.approx(5 * narrow.scale)


def test_old_files_without_a_bound_still_open(tmp_path):
    view = hv.build(ONE, SCHEMA, 1)
    content = to_dict(view.manifest)
    del content["max_rows"], content["count_column"]
    assert from_dict(content).max_rows == 1


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"max_rows": 3}, "needs privacy_unit"),
        ({"privacy_unit": "who", "max_rows": 0}, "whole number from 1"),
        ({"privacy_unit": "who", "max_rows": True}, "whole number from 1"),
        ({"no_person": ["NA"]}, "add privacy_unit"),
        ({"privacy_unit": "who", "no_person": "NA"}, "list of texts"),
        ({"privacy_unit": "whom"}, "Did you mean 'who'"), ({"count": "agee"}, "Did you mean 'age'"),
        ({"privacy_unit": "who", "count": "who"}, "both"), ({"count": "ill"}, "must be one of"),
    ],
)  # fmt: skip
def test_bad_bounds_are_refused_in_words(names, message):
    with pytest.raises(DataError, match=message):
        hv.build(ONE, SCHEMA, 1, **names)


def test_merged_views_promise_no_more_than_each_part():
    small = hv.Schema([hv.Integer(name="age", min=0, max=5)], learnt_epsilon="1/10")
    views = [hv.build(pa.table({"age": [1], "n": [3]}), small, 1, count="n", max_rows=k) for k in (1, 3)]
    apart, together = hv.merge(views).manifest, hv.merge(views, overlapping=True).manifest
    assert apart.max_rows == 1
    assert (apart.schema.learnt_epsilon, together.schema.learnt_epsilon) == ("1/10", "1/5")
    persons = [hv.build(ONE, SCHEMA, 1, privacy_unit="who", max_rows=k) for k in (2, 5)]
    assert hv.merge(persons).manifest.max_rows == 5


@pytest.mark.parametrize(
    "ids", [[1, "1"], [True, "true"], [b"ab", "b'ab'"], [1, True], [1.5, "1.5"]], ids=lambda ids: repr(ids)
)
def test_objects_that_look_alike_are_different_persons(ids):
    """They used to share one quota, so that one person changed which rows of the other counted."""
    who = pd.Series([ids[0]] * 3 + [ids[1]] * 3, dtype=object)
    table = pd.DataFrame({"who": who, **AGES})
    nobody = sum(str(one).lower() in ("1", "true") for one in ids)
    assert counted(table, 2).total() == 4
    assert counted(table, 2, None, ("1", "true")).total() == 4 - 2 * nobody


def test_moments_a_nanosecond_apart_are_different_persons(tmp_path):
    table = pa.table({"who": pa.array([1] * 3 + [2] * 3, pa.timestamp("ns")), **AGES})
    pq.write_table(table, tmp_path / "t.parquet")
    for source in (table, table.to_pandas(), tmp_path / "t.parquet"):
        assert counted(source, 2).total() == 4


def test_an_id_that_cannot_be_decoded_names_nobody(tmp_path):
    lines = [b"who,age,ill", *(b"M\xf6ller,%d,true" % i for i in range(3))]
    lines += [*(b"M\xfcller,%d,true" % i for i in range(3)), b"Maier,1,true"]
    (tmp_path / "t.csv").write_bytes(b"\n".join(lines))
    assert counted(tmp_path / "t.csv", 2).total() == 1
    who = pd.Series(["M\udcf6"] * 3 + ["M\udcfc"] * 3, dtype=object)
    assert counted(pd.DataFrame({"who": who, **AGES}), 2).total() == 0


def test_an_overlong_line_changes_nobody_else(tmp_path):
    filler = b"x" * LONGEST_LINE
    (tmp_path / "t.csv").write_bytes(b"age,ill,note,who\n1,true,%b,123456\n2,true,,12\n" % filler)
    assert counted(tmp_path / "t.csv", 1).total() == 1


def test_whole_numbers_that_become_doubles_stop_no_build(tmp_path):
    """2⁵³ + 1 used to stop the build; a privacy unit of such mixed types is refused."""
    mixed, plain = [pa.array([1, 2**53 + 1], pa.int64()), pa.array([1.0, 2.5])], [["a", "b"], ["a", "b"]]

    def written(*columns: Any) -> Path:
        for i, (who, age) in enumerate(zip(*columns, strict=True)):
            pq.write_table(pa.table({"who": who, "age": age, "ill": [True] * 2}), tmp_path / f"{i}.parquet")
        return tmp_path

    assert counted(written(plain, mixed), 4).total() == 4
    with pytest.raises(DataError, match="could merge two persons"):
        counted(written(mixed, [[1, 2], [1, 2]]), 2).total()
