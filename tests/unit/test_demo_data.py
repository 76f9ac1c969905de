"""The invented hospital table: drawn by known rules, true to its schema, and as uneven as a real one."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.types as kinds
import pytest

from hdpview.demo import QUESTIONS, Question, hospital_schema, hospital_table
from hdpview.domain import Category, Integer, Schema
from hospital import invent_admissions

OF_TYPE = {
    "integer": kinds.is_integer,
    "real": kinds.is_floating,
    "category": kinds.is_string,
    "boolean": kinds.is_boolean,
    "datetime": kinds.is_timestamp,
}


@pytest.fixture(scope="module")
def schema() -> Schema:
    return hospital_schema()


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return hospital_table()


def select(table: pa.Table, expression: str, where: str = "TRUE", source: str = "admissions") -> Any:
    """One value, computed by DuckDB over the table itself."""
    with duckdb.connect() as database:
        database.register("admissions", table)
        found = database.execute(f"SELECT {expression} FROM {source} WHERE {where}").fetchone()
    assert found is not None
    return found[0]


def test_the_shipped_table_is_the_one_that_the_rules_draw(table: pa.Table) -> None:
    assert table.equals(invent_admissions())


def test_columns_are_the_schema_s_after_the_patient_and_of_its_types(schema: Schema, table: pa.Table) -> None:
    assert [name for name in table.column_names if name not in ("patient_id", "insurance")] == list(
        schema.names
    )
    assert {attribute.kind for attribute in schema} == set(OF_TYPE)
    for attribute in schema:
        assert OF_TYPE[attribute.kind](table.schema.field(attribute.name).type), attribute.name


def test_values_are_missing_exactly_where_the_schema_allows_it(schema: Schema, table: pa.Table) -> None:
    for attribute in schema:
        assert (table[attribute.name].null_count > 0) == attribute.nullable, attribute.name


def test_every_declared_category_occurs_and_undeclared_ones_are_rare_and_have_a_place_to_go(
    schema: Schema, table: pa.Table
) -> None:
    for attribute in schema:
        if isinstance(attribute, Category):
            values = table[attribute.name].drop_null().to_pylist()
            undeclared = sum(value not in attribute.values for value in values)
            assert set(attribute.values) <= set(values), attribute.name
            assert (0 < undeclared < 0.03 * len(values)) if attribute.other else undeclared == 0, (
                attribute.name
            )


def test_a_few_ages_lie_above_the_declared_maximum(schema: Schema, table: pa.Table) -> None:
    age = schema["age"]
    assert isinstance(age, Integer)
    assert 0 < select(table, f"AVG((age > {age.max})::INT)") < 0.03
    assert select(table, "MIN(age)") == 0


def test_all_admissions_lie_in_the_declared_period(table: pa.Table) -> None:
    assert select(table, "MIN(admitted) >= DATE '2020-01-01' AND MAX(admitted) < DATE '2025-01-01'")


def test_patients_have_one_to_six_rows_that_agree_on_what_does_not_change(table: pa.Table) -> None:
    patients = """(SELECT COUNT(*) AS n, COUNT(DISTINCT (sex, region, insurance, smoker)) AS lives,
        MAX(age) - MIN(age) AS years
                   FROM admissions GROUP BY patient_id)"""
    assert select(table, "[MIN(n), MAX(n), MAX(lives)]", source=patients) == [1, 6, 1]
    assert select(table, "MAX(years)", source=patients) <= 5


def test_a_stay_ends_before_the_next_begins_and_readmitted_means_within_30_days_of_it(
    table: pa.Table,
) -> None:
    away = "admitted::DATE - LAG(admitted::DATE + stay_days) OVER (PARTITION BY patient_id ORDER BY admitted)"
    visits = f"(SELECT readmitted, {away} AS away FROM admissions)"
    assert select(table, "MIN(away)", source=visits) >= 0
    assert select(table, "COUNT(*)", "readmitted <> COALESCE(away <= 30, FALSE)", source=visits) == 0


def test_diagnoses_depend_on_age_sex_and_season(table: pa.Table) -> None:
    share = "AVG((diagnosis = '{}')::INT)"
    circulatory, respiratory = share.format("circulatory"), share.format("respiratory")
    assert select(table, circulatory, "age >= 65") > 3 * select(table, circulatory, "age < 45")
    assert select(table, respiratory, "MONTH(admitted) IN (12, 1, 2)") > 2 * select(
        table, respiratory, "MONTH(admitted) IN (6, 7, 8)"
    )
    assert (
        select(
            table, "COUNT(*)", "diagnosis = 'pregnancy' AND (sex <> 'Female' OR age NOT BETWEEN 15 AND 44)"
        )
        == 0
    )
    assert select(table, "COUNT(*)", "diagnosis = 'prostate' AND (sex <> 'Male' OR age < 45)") == 0


def test_cost_is_skewed_and_follows_stay_and_ward(table: pa.Table) -> None:
    assert select(table, "AVG(cost) / MEDIAN(cost)") > 1.4
    assert select(table, "CORR(LN(cost), LN(1 + stay_days))") > 0.6
    assert select(table, "MEDIAN(cost)", "ward = 'intensive care'") > 3 * select(
        table, "MEDIAN(cost)", "ward = 'general medicine'"
    )
    assert select(table, "MEDIAN(stay_days)", "age >= 75") > 1.5 * select(
        table, "MEDIAN(stay_days)", "age BETWEEN 18 AND 40"
    )


def test_questions_go_from_broad_to_narrow_and_the_narrowest_is_not_empty(table: pa.Table) -> None:
    truths = [select(table, "COUNT(*)", question.where) for question in QUESTIONS]
    assert truths == sorted(truths, reverse=True)
    assert truths[0] > 0.3 * table.num_rows
    assert 20 < truths[-1] < 0.01 * table.num_rows


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.text)
def test_a_question_reads_as_one(question: Question) -> None:
    assert question.text.endswith("?")
    assert ";" not in question.where
