"""Draft schemas from existing descriptions of tables, which a person wrote. Reads no table.

description ─ reader of its format ─▶ facts about each column ─ drafting ─▶ text of a schema file
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hdpview.domain.drafting import Draft
from hdpview.domain.importing import dictionary, frictionless, sql
from hdpview.errors import SchemaError, unknown_name

KINDS = ("frictionless", "sql", "redcap")
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

    place: a file with the description.
    kind: one of `KINDS`; None to detect it. table: its name, if the file describes several.
    """
    if kind is not None and kind not in KINDS:
        raise SchemaError(unknown_name("kind of description", kind, KINDS, "The kinds are"))
    draft = _read(Path(place), kind, table).only(columns, exclude)
    if not draft.columns:
        raise SchemaError(f"{place!r} describes no columns.")
    remark = f"Columns, types and bounds come from {Path(place).name}."
    return replace(draft, remarks=(remark,)).text()


def _read(path: Path, kind: str | None, table: str | None) -> Draft:
    name, suffix = path.name, path.suffix.lower()
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise SchemaError(f"{name!r} is larger than {_MAX_BYTES // 1_000_000} MB; is it a description?")
        content = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeError) as problem:
        reason = getattr(problem, "strerror", None) or "it must be a text file in UTF-8"
        raise SchemaError(f"Cannot read {str(path)!r}: {reason}.") from None
    if kind == "sql" or (kind is None and suffix in (".sql", ".ddl")):
        return sql.from_text(content, table)
    if kind == "redcap" or (kind is None and suffix in (".csv", ".tsv")):
        return dictionary.from_text(content)
    described = _parsed(path, content)
    if kind == "frictionless" or frictionless.is_description(described):
        return frictionless.from_description(described, table)
    way_out = f"Name its kind: --kind {' | '.join(KINDS)}."
    raise SchemaError(f"{name!r} is not a description that hdpview can read. {way_out}")


def _parsed(path: Path, content: str) -> Any:
    """JSON or YAML as plain data."""
    form, name = "JSON" if path.suffix.lower() == ".json" else "YAML", repr(path.name)
    try:
        if form == "JSON":
            return json.loads(content)
        import yaml

        return yaml.safe_load(content)
    except ImportError:
        way_out = "Install it with: pip install 'hdpview[import]'."
        raise SchemaError(f"Reading {name} needs a library for YAML. {way_out}") from None
    except Exception as problem:  # libraries raise errors of several kinds for malformed text
        raise SchemaError(f"{name} is not valid {form}: {problem}.") from None


__all__ = ["KINDS", "import_description"]
