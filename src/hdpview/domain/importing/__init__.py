"""Schemas from descriptions of tables that exist already. They are metadata that a person wrote; no table is
read.

    description ─ reader of its format ─▶ what is known of each column ─ drafting ─▶ text of a schema file
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hdpview.domain.drafting import Draft, chosen_columns
from hdpview.domain.importing import dbt, dictionary, dtypes, frictionless, pandera, sql
from hdpview.errors import SchemaError, unknown_name

KINDS = ("frictionless", "pandera", "dbt", "sql", "redcap", "arrow")
_BINARY = (".parquet", ".pq", ".arrow", ".feather", ".ipc")
_MAX_BYTES = 16_000_000


def import_description(
    place: str,
    kind: str | None = None,
    table: str | None = None,
    *,
    columns: Sequence[str] = (),
    exclude: Sequence[str] = (),
) -> str:
    """Text of a schema file from a description of a table.

    place: a file, or `file.py:name` for a Python object: a Pandera schema, an Arrow or Polars schema, pandas
        dtypes. That file is run.
    kind: one of `KINDS`; found out from the file where it is None. table: which one, where there are several.
    """
    if kind is not None and kind not in KINDS:
        raise SchemaError(unknown_name("kind of description", kind, KINDS, "The kinds are"))
    file, _, name = place.partition(".py:")
    if name:
        return import_object(_python_object(Path(file + ".py"), name), columns=columns, exclude=exclude)
    return _drafted(_read(Path(place), kind, table), place, columns, exclude)


def import_object(described: Any, *, columns: Sequence[str] = (), exclude: Sequence[str] = ()) -> str:
    """Text of a schema file from a Pandera, Arrow or Polars schema or from pandas dtypes."""
    found = pandera.from_object(described) if pandera.is_schema(described) else dtypes.from_object(described)
    return _drafted(found, type(described).__name__, columns, exclude)


def _drafted(found: Draft, place: str, columns: Sequence[str], exclude: Sequence[str]) -> str:
    names = chosen_columns((column.name for column in found.columns), columns, exclude, SchemaError)
    if not names:
        raise SchemaError(f"{place!r} describes no columns.")
    chosen = tuple(column for column in found.columns if column.name in names)
    remark = f"Columns, types and bounds come from {Path(place).name}."
    return replace(found, columns=chosen, remarks=(remark,)).text()


def _read(path: Path, kind: str | None, table: str | None) -> Draft:
    suffix = path.suffix.lower()
    if kind == "arrow" or (kind is None and suffix in _BINARY):
        return dtypes.from_file(path)
    content = _content(path)
    if kind == "sql" or (kind is None and suffix in (".sql", ".ddl")):
        return sql.from_text(content, table)
    if kind == "redcap" or (kind is None and suffix in (".csv", ".tsv")):
        return dictionary.from_text(content)
    described = _parsed(path, content)
    readers: dict[str, tuple[Callable[[Any], bool], Callable[[Any, str | None], Draft]]] = {
        "frictionless": (frictionless.is_description, frictionless.from_description),
        "pandera": (pandera.is_description, pandera.from_description),
        "dbt": (dbt.is_description, dbt.from_description),
    }
    for name, (fits, read) in readers.items():
        if (kind == name) or (kind is None and fits(described)):
            return read(described, table)
    raise SchemaError(
        f"{path.name!r} is none of the descriptions that can be read. Name its kind: --kind "
        f"{' | '.join(KINDS)}."
    )


def _content(path: Path) -> str:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise SchemaError(
                f"{path.name!r} is larger than {_MAX_BYTES // 1_000_000} MB; is it a description?"
            )
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeError) as problem:
        reason = getattr(problem, "strerror", None) or "it has to be a text file in UTF-8"
        raise SchemaError(f"Cannot read {str(path)!r}: {reason}.") from None


def _parsed(path: Path, content: str) -> Any:
    """JSON or YAML as plain data."""
    if path.suffix.lower() == ".json":
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as problem:
            raise SchemaError(f"{path.name!r} is not valid JSON: {problem}.") from None
    try:
        import yaml
    except ImportError:
        raise SchemaError(
            f"Reading {path.name!r} needs a library for YAML. Install it with: pip install 'hdpview[import]'."
        ) from None
    try:
        return yaml.safe_load(content)
    except (yaml.YAMLError, RecursionError) as problem:
        raise SchemaError(f"{path.name!r} is not valid YAML: {problem}.") from None


def _python_object(path: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location("hdpview_described_table", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise SchemaError(f"There is no Python file {str(path)!r}.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclass-like models look their module up
    try:
        spec.loader.exec_module(module)
    except Exception as problem:
        raise SchemaError(f"{path.name!r} cannot be run: {type(problem).__name__}: {problem}") from None
    if not hasattr(module, name):
        known = [each for each in vars(module) if not each.startswith("_")]
        raise SchemaError(unknown_name("name", name, known, f"{path.name!r} has"))
    return getattr(module, name)


__all__ = ["KINDS", "import_description", "import_object"]
