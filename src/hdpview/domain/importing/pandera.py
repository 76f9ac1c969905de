"""Pandera: a DataFrameSchema or DataFrameModel, or the YAML that Pandera writes of one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hdpview.domain.drafting import Draft
from hdpview.domain.importing.columns import Facts, draft_of
from hdpview.domain.importing.dtypes import kind_of_dtype, listed
from hdpview.errors import SchemaError

# name of a check → whether it bounds from below or above, and whether the bound itself is allowed
_BOUNDS = {
    "greater_than_or_equal_to": "low", "ge": "low", "greater_than": "low", "gt": "low",
    "less_than_or_equal_to": "high", "le": "high", "less_than": "high", "lt": "high",
}  # fmt: skip


def is_schema(described: Any) -> bool:
    """Whether an object is one of Pandera's, which need not be installed here."""
    return any(base.__module__.startswith("pandera") for base in _bases(described))


def _bases(described: Any) -> tuple[type, ...]:
    return described.__mro__ if isinstance(described, type) else type(described).__mro__


def from_object(described: Any) -> Draft:
    schema = described.to_schema() if hasattr(described, "to_schema") else described
    columns = getattr(schema, "columns", None)
    if not isinstance(columns, Mapping):
        raise SchemaError("A Pandera schema of a frame is needed: a DataFrameSchema or a DataFrameModel.")
    return draft_of(_of_column(str(name), column) for name, column in columns.items())


def _of_column(name: str, column: Any) -> Facts:
    checks = [(check.name, getattr(check, "statistics", None) or {}) for check in column.checks or []]
    return _facts(name, str(column.dtype), checks, column.title or column.description, column.dtype)


def is_description(described: Any) -> bool:
    return isinstance(described, Mapping) and described.get("schema_type") == "dataframe"


def from_description(described: Any, table: str | None) -> Draft:  # noqa: ARG001 one schema, one table
    columns = described.get("columns") if isinstance(described, Mapping) else None
    if not isinstance(columns, Mapping):
        raise SchemaError("A Pandera schema in YAML has `columns`, each with a `dtype`.")
    return draft_of(
        _facts(
            str(name),
            str(column.get("dtype")),
            _written_checks(column),
            column.get("title") or column.get("description"),
        )
        for name, column in columns.items()
        if isinstance(column, Mapping)
    )


def _written_checks(column: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """Checks stand beside the other keys of a column, or under `checks`, in a table or a list."""
    yield from column.items()
    checks = column.get("checks")
    if isinstance(checks, Mapping):
        yield from checks.items()
    for check in checks if isinstance(checks, list) else []:
        if isinstance(check, Mapping):
            yield from check.items()


def _facts(
    name: str, dtype: str, checks: Iterable[tuple[str, Any]], label: Any, declared: Any = None
) -> Facts:
    low = high = values = None
    for check, stated in checks:
        if check in _BOUNDS:
            bound = _only(stated, "value", "min_value", "max_value")
            low, high = (bound, high) if _BOUNDS[check] == "low" else (low, bound)
        elif check in ("in_range", "between") and isinstance(stated, Mapping):
            low, high = stated.get("min_value"), stated.get("max_value")
        elif check == "isin":
            values = _only(stated, "value", "allowed_values")
    categories = listed(getattr(declared, "categories", None))
    kind = kind_of_dtype(dtype)
    return Facts(
        name, kind, low, high, list(values if isinstance(values, (list, tuple, set)) else categories),
        ordered=bool(getattr(declared, "ordered", False) and categories),
        label=label if isinstance(label, str) else None,
        dtype=dtype,
    )  # fmt: skip


def _only(stated: Any, *keys: str) -> Any:
    """A value by itself, or under one of these keys."""
    if isinstance(stated, Mapping):
        return next((stated[key] for key in keys if key in stated), None)
    return stated
