"""Functions of PostgreSQL that clients call when they look at the catalogue, and what they return.

Each takes the context of the session first. Arrays are JSON texts here, truths are 0 and 1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from hdpview._version import __version__
from hdpview.errors import QueryError
from hdpview.explore.postgres import types as t
from hdpview.explore.postgres.settings import first_settings
from hdpview.explore.postgres.types import PgType
from hdpview.query.sql import dates, patterns

MOST_ITEMS = 10_000  # of a series, and of an array


@dataclass
class Context:
    """What functions may know of a session and of the catalogue.

    relations, namespaces: names by oid; type_names: of all types by oid. comments: by oid and column number.
    """

    database: str = "hdpview"
    user: str = "hdpview"
    pid: int = 0
    settings: dict[str, str] = field(default_factory=dict)
    relations: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    type_names: Mapping[int, str] = field(default_factory=dict)
    comments: Mapping[tuple[int, int], str] = field(default_factory=dict)
    started: datetime = field(default_factory=dates.now)


NAMESPACES = {11: "pg_catalog", 2200: "public", 13000: "information_schema"}
Function = Callable[..., Any]
FUNCTIONS: dict[str, Function] = {}
RETURNS: dict[str, PgType] = {}


def _add(returns: PgType, function: Function, *names: str) -> None:
    FUNCTIONS.update(dict.fromkeys(names, function))
    RETURNS.update(dict.fromkeys(names, returns))


def _always(value: Any) -> Function:
    return lambda *_: value


def _setting(context: Context, name: str, missing_ok: Any = 0) -> str | None:
    found = context.settings.get(str(name).lower())
    if found is None and not missing_ok:
        raise QueryError(f"Unknown setting {str(name)[:60]!r}. SHOW ALL lists the settings.")
    return found


def _set_config(context: Context, name: str, value: str | None, _local: Any = 0) -> str:
    context.settings[str(name).lower()] = str(value or "")
    return str(value or "")


def _format_type(context: Context, oid: Any, _modifier: Any = None) -> str | None:
    return None if oid is None else type_title(context, int(oid))


def type_title(context: Context, oid: int) -> str:
    """A type's name in SQL: integer, character varying, text[]."""
    name = context.type_names.get(oid, "???")
    if name.startswith("_"):
        return t.SQL_NAMES.get(name[1:], name[1:]) + "[]"
    return t.SQL_NAMES.get(name, name)


def _relation_name(context: Context, oid: int) -> str:
    found = context.relations.get(oid)
    if found is None:
        return str(oid)
    schema, name = found
    return quote_ident(name) if schema in ("public", "pg_catalog") else f"{schema}.{quote_ident(name)}"


def quote_ident(name: Any) -> str:
    """A name as SQL writes it: in double quotes unless it is a plain lower-case word."""
    text = str(name)
    return text if re.fullmatch(r"[a-z_][a-z0-9_$]*", text) else '"' + text.replace('"', '""') + '"'


def to_oid(context: Context, value: Any, kind: PgType) -> int | None:
    """The number that a name stands for, as 'adult'::regclass gives it; None where there is none."""
    if value is None or isinstance(value, (int, float)):
        return None if value is None else int(value)
    text = str(value).strip()
    if text.isdecimal():
        return int(text)
    parts = [part.strip('"') if '"' in part else part.lower() for part in re.findall(r'"[^"]*"|[^.]+', text)]
    if kind is t.REGCLASS:
        for oid, (schema, name) in context.relations.items():
            if parts == [schema, name] or (parts == [name] and schema != "information_schema"):
                return oid
        return None
    if kind is t.REGNAMESPACE:
        return next((oid for oid, name in NAMESPACES.items() if name == parts[-1]), None)
    if kind is t.REGROLE:
        return 10
    found = t.named(parts[-1]) if parts else None
    return None if found is None else found.oid


def to_name(context: Context, oid: Any, kind: PgType) -> str | None:
    """The name of a number of one of the reg… types."""
    if oid is None:
        return None
    if isinstance(oid, str) and not oid.isdecimal():
        return oid
    number = int(oid)
    if kind is t.REGTYPE:
        return type_title(context, number)
    if kind is t.REGCLASS:
        return _relation_name(context, number)
    if kind is t.REGNAMESPACE:
        return NAMESPACES.get(number, str(number))
    return context.user if kind is t.REGROLE else str(number) if number else "-"


def cast(context: Context, value: Any, to: str) -> Any:
    """CAST in the catalogue."""
    kind = t.named(to)
    if value is None or kind is None:
        return value
    if kind in t.REG_TYPES:
        found = to_oid(context, value, kind)
        if found is None and kind is t.REGCLASS:
            raise QueryError(f"relation {str(value)[:60]!r} does not exist")
        return found
    if kind in t.INTEGERS:
        return value if isinstance(value, int) else round(float(value))
    if kind in t.FLOATS or kind is t.NUMERIC:
        return float(value) if kind in t.FLOATS or not str(value).lstrip("-").isdecimal() else int(value)
    if kind is t.BOOL:
        return int(str(value).lower() in ("t", "true", "1", "on", "yes", "y"))
    if kind is t.DATE:
        return str(value)[:10]
    if kind.oid in t.ELEMENT_OF:
        return value if str(value).startswith("[") else json.dumps(_items(value))
    return value


def _items(value: Any) -> list[Any]:
    """Items of an array, written as JSON or as PostgreSQL does."""
    if value is None:
        return []
    text = str(value)
    if text.startswith("{"):
        return [part.strip('"') for part in text[1:-1].split(",") if part]
    try:
        found = json.loads(text)
    except ValueError:
        return text.split()
    return found if isinstance(found, list) else [found]


def _equals_any(_: Context, value: Any, array: Any) -> int | None:
    if value is None or array is None:
        return None
    return int(any(str(value) == str(item) for item in _items(array)))


def _visible(context: Context, oid: Any) -> int:
    return int(context.relations.get(int(oid or 0), ("", ""))[0] in ("public", "pg_catalog"))


def _may_read(_: Context, *arguments: Any) -> int:
    return int("select" in str(arguments[-1]).lower() or "usage" in str(arguments[-1]).lower())


def _may_connect(_: Context, *arguments: Any) -> int:
    return int(str(arguments[-1]).lower() in ("connect", "usage", "temporary", "temp"))


def _comment(context: Context, oid: Any, column: Any = 0) -> str | None:
    number = int(column) if str(column).isdecimal() else 0
    return None if oid is None else context.comments.get((int(oid), number))


def _pretty_size(_: Context, size: Any) -> str | None:
    if size is None:
        return None
    return f"{int(size)} bytes" if int(size) < 10_240 else f"{int(size) // 1024} kB"


def _element(_: Context, array: Any, place: Any) -> Any:
    items = _items(array)
    return items[int(place) - 1] if place is not None and 1 <= int(place) <= len(items) else None


def _series(_: Context, first: Any, last: Any, step: Any = 1) -> str:
    if isinstance(step, str):
        return json.dumps([at.isoformat(" ") for at in _moments(first, last, dates.duration(step))])
    found = range(int(first), int(last) + 1, int(step or 1))
    if len(found) > MOST_ITEMS:
        raise QueryError(f"A series here has at most {MOST_ITEMS:,} numbers.")
    return json.dumps(list(found))


def _moments(first: Any, last: Any, step: dates.Duration) -> list[datetime]:
    at, end = dates.moment_of(first), dates.moment_of(last)
    found: list[datetime] = []
    while at <= end and len(found) < MOST_ITEMS:
        found.append(at)
        at = dates.shifted(at, step)
    return found


def _strict(function: Function) -> Function:
    """A function of texts that is NULL where one of them is."""
    return lambda _, *given: None if None in given else function(*map(str, given))


def _array_text(_: Context, array: Any, separator: Any, null: Any = None) -> str | None:
    if array is None:
        return None
    shown = [null if item is None else item for item in _items(array)]
    return str(separator or "").join(str(item) for item in shown if item is not None)


def _json_object(_: Context, *pairs: Any) -> str:
    return json.dumps(dict(zip(map(str, pairs[::2]), pairs[1::2], strict=False)))


def _split_part(text: str, separator: str, n: str) -> str:
    parts = text.split(separator) if separator else [text]
    return parts[int(n) - 1] if 1 <= int(n) <= len(parts) else ""


def _translate(text: str, old: str, new: str) -> str:
    return text.translate({ord(a): new[i] if i < len(new) else None for i, a in enumerate(old)})


def _date_trunc(unit: str, value: str) -> str:
    return dates.moment_of(dates.truncate(value, unit)).isoformat(" ")


def _shifted(_: Context, moment: Any, span: Any, sign: Any) -> str | None:
    if moment is None or span is None:
        return None
    return dates.shifted(str(moment), dates.duration(str(span)), int(sign)).isoformat(" ")


_SPOKEN = first_settings()["server_version"][0]
_VERSION = f"PostgreSQL {_SPOKEN} (hdpview {__version__}: a differentially private view, read-only)"
_add(t.TEXT, _always(_VERSION), "version")
_add(t.NAME, lambda c: c.database, "current_database", "current_catalog")
_add(t.NAME, lambda c: c.user, "current_user", "session_user", "user", "current_role")
_add(t.NAME, _always("public"), "current_schema")
_add(
    t.BY_NAME["_name"],
    lambda _, implicit=0: json.dumps(["pg_catalog"] * bool(implicit) + ["public"]),
    "current_schemas",
)
_add(t.INT4, lambda c: c.pid, "pg_backend_pid")
_add(t.TEXT, _setting, "current_setting")
_add(t.TEXT, _set_config, "set_config")
_add(t.TEXT, _format_type, "format_type")
_add(t.NAME, lambda c, *_: c.user, "pg_get_userbyid")
_add(t.NAME, _always("UTF8"), "pg_encoding_to_char", "getdatabaseencoding", "pg_client_encoding")
_add(t.INT4, _always(6), "pg_char_to_encoding")
_add(t.BOOL, _visible, "pg_table_is_visible")
_add(t.TEXT, _comment, "obj_description", "col_description")
_add(t.BOOL, _may_read, "has_table_privilege", "has_any_column_privilege", "has_column_privilege")
_add(t.BOOL, _may_read, "has_schema_privilege")
_add(t.BOOL, _may_connect, "has_database_privilege")
# Functions that give the same for everything that a view can be asked about: a type, a value, and the names.
_VALUES = {"1": 1, "0": 0, "NULL": None, "''": ""}
for _kind, _value, *_names in map(str.split, t.lines_of("functions.txt")):
    _add(t.BY_NAME[_kind], _always(_VALUES[_value]), *_names)
_add(t.TEXT, _pretty_size, "pg_size_pretty")
_add(t.TEXT, _strict(quote_ident), "quote_ident")
_add(t.TEXT, _strict(lambda text: "'" + text.replace("'", "''") + "'"), "quote_literal")
_add(t.REGCLASS, lambda c, name: to_oid(c, name, t.REGCLASS), "to_regclass")
_add(t.REGTYPE, lambda c, name: to_oid(c, name, t.REGTYPE), "to_regtype")
_add(t.REGNAMESPACE, lambda c, name: to_oid(c, name, t.REGNAMESPACE), "to_regnamespace")
_add(t.TIMESTAMPTZ, lambda _: dates.now().isoformat(" "), "now", "clock_timestamp")
_add(t.TIMESTAMPTZ, lambda c: c.started.isoformat(" "), "pg_postmaster_start_time", "pg_conf_load_time")
_add(t.DATE, lambda _: dates.now().date().isoformat(), "pg_today")
_add(t.INT4, lambda _, array, __=1: len(_items(array)) or None, "array_length", "array_upper")
_add(t.INT4, lambda _, array: len(_items(array)), "cardinality")
_add(t.INT4, lambda _, array, __=1: 1 if _items(array) else None, "array_lower")
_add(t.TEXT, _array_text, "array_to_string")
_add(t.JSON, _json_object, "json_build_object", "jsonb_build_object")
_add(t.JSON, lambda _, value: json.dumps(value), "to_json", "to_jsonb", "row_to_json")
_add(t.TEXT, _strict(_split_part), "split_part")
_add(t.TEXT, _strict(_translate), "translate")
_add(
    t.TEXT, _strict(lambda a, b, new, flags="": patterns.replaced(a, b, new, "g" in flags)), "regexp_replace"
)
_add(t.TEXT, lambda _, *parts: "".join(str(part) for part in parts if part is not None), "concat")
_add(t.INT4, _strict(lambda text, part: text.find(part) + 1), "strpos")
_add(t.TIMESTAMP, _strict(_date_trunc), "date_trunc")
_add(t.TIMESTAMP, _shifted, "_shifted")
_add(t.TEXT, _strict(lambda at, pattern: dates.written(at, pattern)), "to_char")
_add(t.TEXT, _strict(str.title), "initcap")
_add(t.BOOL, _equals_any, "_equals_any")
# SQLite's own LIKE, and those of patterns that it lacks; LIKE is called with the pattern first.
_add(
    t.BOOL,
    _strict(lambda text, pattern, case="0": int(patterns.matches(text, pattern, case == "1"))),
    "_regex",
)
_add(t.BOOL, _strict(lambda text, pattern: int(patterns.is_like(text, pattern, True))), "_like_any_case")
_add(
    t.BOOL,
    _strict(lambda pattern, text, escape="\\": int(patterns.is_like(text, pattern, False, escape))),
    "like",
)
_add(t.BOOL, _strict(lambda text, pattern: int(patterns.is_similar_to(text, pattern))), "_similar_to")
_add(t.TEXT, cast, "_cast")
_add(t.TEXT, lambda c, oid, kind: to_name(c, oid, t.BY_NAME[kind]), "_name_of")
_add(t.TEXT, _element, "_element")
_add(t.TEXT, _series, "_series")
_add(t.TEXT, lambda _, *items: json.dumps(list(items)), "_array")
