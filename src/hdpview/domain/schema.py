"""The schema: the attributes of a table. Public knowledge, never read from the data."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from hdpview.domain.attributes import Attribute, Cycles
from hdpview.domain.categories import Boolean, Category
from hdpview.domain.datetimes import Date, Datetime
from hdpview.domain.language import spelled_out
from hdpview.domain.numbers import Integer, Real
from hdpview.domain.places import located, open_places
from hdpview.domain.text_format import PLAIN, TextFormat
from hdpview.domain.toml import toml_text
from hdpview.errors import SchemaError, quoted, unknown_name

MAX_ATTRIBUTES = 1_000
MAX_LOG10_CELLS = 300  # block volumes stay within a double
MAX_SCHEMA_BYTES = 16_000_000

_KEYS: dict[str, dict[str, str]] = {  # type → key in the file → field of the class
    "integer": {"min": "min", "max": "max", "every": "every", "edges": "explicit_edges"},
    "real": {"min": "min", "max": "max", "bins": "bins", "edges": "explicit_edges"},
    "category": {key: key for key in ("values", "ordered", "other", "aliases", "groups")},
    "boolean": {},
    "datetime": {"min": "min", "max": "max", "every": "every"},
    "date": {"min": "min", "max": "max", "every": "every"},
}
_COMMON_KEYS = ("nullable", "missing", "label", "unit")
_NEEDED = {"category": ("values",), "datetime": ("min", "max", "every"), "date": ("min", "max")}
_CLASSES: dict[str, type[Attribute]] = {
    cls.kind: cls for cls in (Integer, Real, Category, Boolean, Datetime, Date)
}
_LEARNT_FROM_DATA = "learnt_from_data"
# the cost of learning, as text, because that is exact in TOML and JSON
_LEARNT_FOR = ("learnt_epsilon", "learnt_delta")


@dataclass(frozen=True)
class Schema:
    """Attributes in order. `learnt_from_data` marks a schema read from the table itself, which is not
    private. `source` is the format of texts in the table.
    """

    attributes: tuple[Attribute, ...]
    learnt_from_data: bool = False
    learnt_epsilon: str | None = None
    learnt_delta: str | None = None
    source: TextFormat = PLAIN

    def __init__(
        self,
        attributes: Iterable[Attribute],
        learnt_from_data: bool = False,
        learnt_epsilon: str | None = None,
        learnt_delta: str | None = None,
        source: TextFormat = PLAIN,
    ) -> None:
        object.__setattr__(self, "attributes", tuple(attributes))
        object.__setattr__(self, "learnt_from_data", bool(learnt_from_data))
        object.__setattr__(self, "learnt_epsilon", _cost(learnt_epsilon))
        object.__setattr__(self, "learnt_delta", _cost(learnt_delta))
        object.__setattr__(self, "source", source)
        self._check()

    def _check(self) -> None:
        if not self.attributes:
            raise SchemaError(
                "A schema needs at least one attribute. Add a table such as [attributes.age] with its "
                "type and bounds."
            )
        if stray := [each for each in self.attributes if not isinstance(each, Attribute)]:
            raise SchemaError(
                f"A schema must be a list of attributes such as hdpview.Integer, not {quoted(stray[0])}."
            )
        if len(self.attributes) > MAX_ATTRIBUTES:
            raise SchemaError(
                f"A schema can have {MAX_ATTRIBUTES:,} attributes; this one has {len(self.attributes):,}."
            )
        seen: dict[str, str] = {}
        for name in self.names:
            if name.casefold() in seen:
                raise SchemaError(
                    f"Attributes {seen[name.casefold()]!r} and {name!r} have the same name in SQL, "
                    "which ignores letter case."
                )
            seen[name.casefold()] = name
        if sum(math.log10(size) for size in self.sizes) > MAX_LOG10_CELLS:
            raise SchemaError(
                f"The domain has more than 10^{MAX_LOG10_CELLS} cells. Leave out attributes or use "
                "wider bins."
            )

    @cached_property
    def cycles(self) -> tuple[Cycles, ...]:
        return tuple(attribute.cycles for attribute in self.attributes)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(attribute.name for attribute in self.attributes)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of codes of each attribute."""
        return tuple(attribute.size for attribute in self.attributes)

    @cached_property
    def n_cells(self) -> int:
        """Cells of the data cube: the product of all sizes, exact."""
        return math.prod(self.sizes)

    def __len__(self) -> int:
        return len(self.attributes)

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes)

    def index(self, name: str) -> int:
        """Position of an attribute by name; letter case is ignored if the exact name is absent."""
        if name in self.numbers:
            return self.numbers[name]
        folded = [i for i, known in enumerate(self.names) if known.casefold() == name.casefold()]
        if folded:
            return folded[0]
        raise SchemaError(unknown_name("attribute", name, self.names, "There are"))

    def __getitem__(self, name: str) -> Attribute:
        return self.attributes[self.index(name)]

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Position of each attribute, by its exact name."""
        return {name: i for i, name in enumerate(self.names)}

    def to_dict(self) -> dict[str, Any]:
        """The schema as plain JSON types, the same shape as the TOML file."""
        mark: dict[str, Any] = {_LEARNT_FROM_DATA: True} if self.learnt_from_data else {}
        mark |= {key: getattr(self, key) for key in _LEARNT_FOR if getattr(self, key) is not None}
        source = {"source": text} if (text := self.source.to_dict()) else {}
        attributes = {attribute.name: attribute.to_dict() for attribute in self.attributes}
        return {**mark, **source, "attributes": attributes}

    @classmethod
    def from_dict(cls, description: Mapping[str, Any]) -> Schema:
        """The inverse of `to_dict`. Does not expand abbreviations such as lists in files, because a
        description may come from anywhere.
        """
        known = ["attributes", "source", _LEARNT_FROM_DATA, *_LEARNT_FOR]
        plain = dict(description) if isinstance(description, Mapping) else {}
        if extra := set(plain) - set(known):
            raise SchemaError(unknown_name("key", min(map(str, extra)), known, "A schema has"))
        attributes = plain.get("attributes")
        if not isinstance(attributes, Mapping):
            raise SchemaError(
                "A schema must have a table `attributes` with one entry per column, such as [attributes.age]."
            )
        return cls(
            (_attribute_from(name, entry) for name, entry in attributes.items()),
            learnt_from_data=bool(plain.get(_LEARNT_FROM_DATA, False)),
            **{key: plain.get(key) for key in _LEARNT_FOR},
            source=TextFormat.from_dict(plain.get("source", {})),
        )

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Schema:
        """Read a schema file (TOML). docs/schema.md is the reference of its language."""
        try:
            with open(path, "rb") as file:
                content = file.read(MAX_SCHEMA_BYTES + 1)
        except OSError as problem:
            raise SchemaError(
                f"Cannot read the schema {str(path)!r}: {problem.strerror or problem}."
            ) from None
        if len(content) > MAX_SCHEMA_BYTES:
            raise SchemaError(
                f"The schema {str(path)!r} is larger than {MAX_SCHEMA_BYTES // 1_000_000} MB; is it "
                "the right file?"
            )
        try:
            text = content.decode("utf-8-sig")  # some editors begin a file with a mark
        except UnicodeDecodeError as problem:
            raise SchemaError(f"The schema {str(path)!r} is not valid TOML: {problem}.") from None
        return cls.from_toml(text, Path(path).parent, Path(path).name)

    @classmethod
    def from_toml(cls, text: str, folder: str | PathLike[str] = ".", name: str = "the schema") -> Schema:
        """Read the text of a schema file.

        folder: of files that it names after an @; name: of the schema, for messages.
        """
        try:
            description = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as problem:
            raise SchemaError(
                open_places(text, name) or f"The schema {name!r} is not valid TOML: {problem}."
            ) from None
        try:
            return cls.from_dict(spelled_out(description, Path(folder)))
        except SchemaError as problem:
            raise SchemaError(located(str(problem), text, name)) from None

    def save(self, path: str | PathLike[str]) -> None:
        """Write the schema as TOML. A file with the same schema stays unchanged, with its comments."""
        try:
            if Schema.load(path).to_dict() == self.to_dict():
                return
        except SchemaError:
            pass
        Path(path).write_text(self.to_toml(), encoding="utf-8")

    def to_toml(self) -> str:
        return toml_text(self.to_dict())


def _cost(text: Any) -> str | None:
    """A budget as text, such as 0.1 or 1/30; None if nothing was spent."""
    if text is None:
        return None
    if not isinstance(text, str) or not re.fullmatch(
        r"\d{1,100}(\.\d{1,100}|/[1-9]\d{0,99})?", text, re.ASCII
    ):
        raise SchemaError('learnt_epsilon and learnt_delta are budgets written as text, such as "0.1".')
    return text


def _attribute_from(name: str, entry: Any) -> Attribute:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("type"), str):
        raise SchemaError(f"Attribute {name!r} needs a type: one of {', '.join(_CLASSES)}.")
    kind = entry["type"]
    if kind not in _CLASSES:
        raise SchemaError(f"Attribute {name!r}: " + unknown_name("type", kind, _CLASSES, "The types are"))
    fields = _KEYS[kind]
    common = {key: entry[key] for key in _COMMON_KEYS if key in entry}
    given = {key: value for key, value in entry.items() if key != "type" and key not in common}
    for key in given:
        if key not in fields:
            raise SchemaError(
                f"Attribute {name!r}: "
                + unknown_name("key", str(key), [*fields, *_COMMON_KEYS], f"The type {kind} has")
            )
    needed = _NEEDED.get(kind, ("min", "max") if kind == "integer" and "edges" not in given else ())
    absent = [key for key in needed if key not in given]
    if absent:
        raise SchemaError(f"Attribute {name!r} of type {kind} needs {' and '.join(absent)}.")
    for key in ("edges", "values"):
        if key in given:
            if not isinstance(given[key], (list, tuple)):
                raise SchemaError(f"Attribute {name!r}: {key} must be a list, not {given[key]!r}.")
            given[key] = tuple(given[key])
    return _CLASSES[kind](name=name, **common, **{fields[key]: value for key, value in given.items()})
