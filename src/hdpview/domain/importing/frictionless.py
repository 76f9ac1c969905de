"""Frictionless: a Table Schema, a resource or a data package (specs.frictionlessdata.io, datapackage.org)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

from hdpview.domain.drafting import Draft, DraftColumn
from hdpview.domain.importing.columns import as_list, as_table, column_of, one_of
from hdpview.domain.text_format import TextFormat
from hdpview.errors import SchemaError

_KINDS = {
    "integer": "integer", "year": "integer", "number": "real", "boolean": "boolean", "date": "datetime",
    "datetime": "datetime", "string": "category", "any": "category", "yearmonth": "category",
    "time": "category",
}  # fmt: skip


def is_description(described: Any) -> bool:
    return isinstance(described, Mapping) and (
        isinstance(described.get("fields"), list)
        or isinstance(described.get("resources"), list)
        or (isinstance(described.get("schema"), Mapping) and "fields" in described["schema"])
    )


def from_description(described: Any, table: str | None) -> Draft:
    if not is_description(described):
        raise SchemaError("A Frictionless description has `fields`, or `resources` with a `schema` each.")
    if "resources" in described:
        resources = {
            str(each.get("name", i)): each
            for i, each in enumerate(as_list(described["resources"]))
            if isinstance(each, Mapping) and isinstance(each.get("schema"), Mapping)
        }
        described = one_of(resources, table, "resource")
    schema = as_table(described.get("schema", described))
    fields = [
        field for field in as_list(schema.get("fields")) if isinstance(field, Mapping) and field.get("name")
    ]
    return Draft(tuple(map(_column, fields)), _source(described, schema, fields))


def _column(field: Mapping[str, Any]) -> DraftColumn:
    kind = _KINDS.get(str(field.get("type", "string")))
    limits = as_table(field.get("constraints"))
    listed = as_list(field.get("categories")) or as_list(limits.get("enum"))
    categories = [each.get("value") if isinstance(each, Mapping) else each for each in listed]
    labels = {
        str(each["label"]): [str(each["value"])]
        for each in listed
        if isinstance(each, Mapping) and each.get("label") and each.get("value") is not None
    }
    complete = bool(labels) and len(labels) == len(categories)
    return column_of(
        str(field["name"]),
        kind,
        limits.get("minimum"),
        limits.get("maximum"),
        list(labels) if complete else categories,
        labels if complete else None,
        bool(field.get("categoriesOrdered")),
        field.get("title") or field.get("description"),
        dtype=field.get("type"),
    )


def _source(
    resource: Mapping[str, Any], schema: Mapping[str, Any], fields: list[Mapping[str, Any]]
) -> TextFormat | None:
    """The description's facts about the file, as far as this reader supports them."""
    dialect = as_table(resource.get("dialect"))
    nested = as_table(dialect.get("csv"))
    signs = {"decimalChar": "decimal", "groupChar": "thousands"}
    stated = (field.items() for field in fields)
    source: dict[str, Any] = {
        signs[key]: sign for key, sign in chain(*stated) if key in signs and isinstance(sign, str)
    }
    source["separator"] = nested.get("delimiter") or dialect.get("delimiter")
    source["encoding"] = resource.get("encoding")
    missing = as_list(schema.get("missingValues"))
    source["missing"] = [each.get("value") if isinstance(each, Mapping) else each for each in missing]
    formats = [field.get("format") for field in fields if field.get("type") in ("date", "datetime")]
    source["dates"] = list(dict.fromkeys(each for each in formats if isinstance(each, str) and "%" in each))
    try:
        return TextFormat.from_dict({key: value for key, value in source.items() if value})
    except (SchemaError, TypeError):
        return None
