"""dbt: columns and tests of a model, source table, seed or snapshot in a `schema.yml`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hdpview.domain.drafting import Draft
from hdpview.domain.importing.columns import Facts, as_list, as_table, draft_of, one_of
from hdpview.domain.importing.sql import kind_of_type
from hdpview.errors import SchemaError

_SECTIONS = ("models", "seeds", "snapshots")


def is_description(described: Any) -> bool:
    return isinstance(described, Mapping) and any(
        isinstance(described.get(section), list) for section in (*_SECTIONS, "sources")
    )


def from_description(described: Any, table: str | None) -> Draft:
    if not is_description(described):
        raise SchemaError("A dbt description has `models`, `sources`, `seeds` or `snapshots`.")
    listed = [each for section in _SECTIONS for each in as_list(described.get(section))]
    sources = map(as_table, as_list(described.get("sources")))
    listed += [each for source in sources for each in as_list(source.get("tables"))]
    tables = {
        str(each.get("name")): each for each in listed if isinstance(each, Mapping) and each.get("columns")
    }
    columns = as_list(one_of(tables, table, "table")["columns"])
    return draft_of(
        _facts(column) for column in columns if isinstance(column, Mapping) and column.get("name")
    )


def _facts(column: Mapping[str, Any]) -> Facts:
    low = high = values = None
    for name, arguments in _tests(column):
        if name in ("accepted_values", "expect_column_values_to_be_in_set"):
            values = arguments.get("values") or arguments.get("value_set")
        elif name in ("accepted_range", "expect_column_values_to_be_between"):
            low, high = arguments.get("min_value"), arguments.get("max_value")
    stated = column.get("data_type")
    kind = kind_of_type(str(stated)) if stated else _guessed(low, high, values)
    note = "" if stated or values else "the description states no type: correct it"
    name, label = str(column["name"]), column.get("description")
    return Facts(name, kind, low, high, values, label=label, note=note, dtype=stated)


def _guessed(low: Any, high: Any, values: Any) -> str:
    """The type of a column that states none: bounds are those of numbers."""
    numbers = [bound for bound in (low, high) if isinstance(bound, (int, float))]
    if values or not numbers:
        return "category"
    return "integer" if all(isinstance(bound, int) for bound in numbers) else "real"


def _tests(column: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """Tests with their arguments, by their name without that of a package."""
    for key in ("tests", "data_tests"):
        for test in as_list(column.get(key)):
            if isinstance(test, Mapping) and test:
                name, stated = next(iter(test.items()))
                arguments = as_table(stated)
                yield str(name).split(".")[-1], as_table(arguments.get("arguments")) or arguments
