"""The invented hospital table: drawn by known rules, and true to its schema."""

from typing import Any

import duckdb
import pyarrow.types as kinds

from hdpview.demo import QUESTIONS, hospital_schema, hospital_table
from hdpview_bench.hospital import invent_admissions

OF_TYPE = {
    "integer": kinds.is_integer, "real": kinds.is_floating, "category": kinds.is_string,
    "boolean": kinds.is_boolean, "datetime": kinds.is_timestamp,
}  # fmt: skip
SCHEMA, TABLE = hospital_schema(), hospital_table()


def select(expression: str, source: str = "admissions") -> Any:
    with duckdb.connect() as database:
        database.register("admissions", TABLE)
        row = database.execute(f"SELECT {expression} FROM {source}").fetchone()
    return row[0]


def test_the_shipped_table_is_the_one_that_the_rules_draw():
    assert TABLE.equals(invent_admissions())


def test_columns_and_missing_values_are_those_of_the_schema():
    assert [name for name in TABLE.column_names if name not in ("patient_id", "insurance")] == [*SCHEMA.names]
    assert {attribute.kind for attribute in SCHEMA} == set(OF_TYPE)
    for attribute in SCHEMA:
        column = TABLE[attribute.name]
        assert OF_TYPE[attribute.kind](column.type), attribute.name
        assert (column.null_count > 0) == attribute.nullable, attribute.name


def test_questions_go_from_broad_to_narrow_and_the_narrowest_is_not_empty():
    truths = [select(f"COUNT(*) FILTER ({each.where})") for each in QUESTIONS]
    assert truths == sorted(truths, reverse=True)
    assert truths[0] > 0.3 * TABLE.num_rows
    assert 20 < truths[-1] < 0.01 * TABLE.num_rows
    assert all(each.text.endswith("?") for each in QUESTIONS)
