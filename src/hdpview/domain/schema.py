"""The schema: the attributes of a table. Public knowledge, never read from the data."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from hdpview.domain.attributes import Attribute, Cycles
from hdpview.domain.categories import Boolean, Category
from hdpview.domain.datetimes import Date, Datetime
from hdpview.domain.language import spelled_out
from hdpview.domain.numbers import Integer, Real
from hdpview.domain.text_format import PLAIN, TextFormat
from hdpview.domain.toml import located, open_places, toml_text
from hdpview.errors import SchemaError, quoted, unknown_name

MAX_ATTRIBUTES = 1_000
MAX_LOG10_CELLS = 300  # block volumes stay within a double
MAX_SCHEMA_BYTES = 16_000_000

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

    attributes: Sequence[Attribute]
    learnt_from_data: bool = False
    learnt_epsilon: str | None = None
    learnt_delta: str | None = None
    source: TextFormat = PLAIN

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", tuple(self.attributes))
        object.__setattr__(self, "learnt_from_data", bool(self.learnt_from_data))
        # The cost of learning, such as 0.1 or 1/30.
        budget = r"[0-9]{1,100}(\.[0-9]{1,100}|/[1-9][0-9]{0,99})?"
        for cost in (self.learnt_epsilon, self.learnt_delta):
            if cost is not None and not (isinstance(cost, str) and re.fullmatch(budget, cost)):
                raise SchemaError(
                    'learnt_epsilon and learnt_delta are budgets written as text, such as "0.1".'
                )
        if not self.attributes:
            way_out = "Add a table such as [attributes.age] with its type and bounds."
            raise SchemaError(f"A schema needs at least one attribute. {way_out}")
        if stray := [each for each in self.attributes if not isinstance(each, Attribute)]:
            wrong = f"not {quoted(stray[0])}"
            raise SchemaError(f"A schema must be a list of attributes such as hdpview.Integer, {wrong}.")
        if (n := len(self.attributes)) > MAX_ATTRIBUTES:
            raise SchemaError(f"A schema can have {MAX_ATTRIBUTES:,} attributes; this one has {n:,}.")
        seen: dict[str, str] = {}
        for name in self.names:
            if (other := seen.get(name.casefold())) is not None:
                same = "have the same name in SQL, which ignores letter case"
                raise SchemaError(f"Attributes {other!r} and {name!r} {same}.")
            seen[name.casefold()] = name
        if sum(math.log10(size) for size in self.sizes) > MAX_LOG10_CELLS:
            way_out = "Leave out attributes or use wider bins."
            raise SchemaError(f"The domain has more than 10^{MAX_LOG10_CELLS} cells. {way_out}")

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
            example = "one entry per column, such as [attributes.age]"
            raise SchemaError(f"A schema must have a table `attributes` with {example}.")
        return cls(
            tuple(_attribute_from(name, entry) for name, entry in attributes.items()),
            learnt_from_data=bool(plain.get(_LEARNT_FROM_DATA, False)),
            **{key: plain.get(key) for key in _LEARNT_FOR},
            source=TextFormat.from_dict(plain.get("source", {})),
        )

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Schema:
        """Read a schema file (TOML). docs/schema.md is the reference of its language."""
        shown = f"the schema {str(path)!r}"
        try:
            with open(path, "rb") as file:
                content = file.read(MAX_SCHEMA_BYTES + 1)
            if len(content) > MAX_SCHEMA_BYTES:
                limit = f"{MAX_SCHEMA_BYTES // 1_000_000} MB"
                raise SchemaError(f"T{shown[1:]} is larger than {limit}; is it the right file?")
            text = content.decode("utf-8-sig")  # some editors begin a file with a mark
        except OSError as problem:
            raise SchemaError(f"Cannot read {shown}: {problem.strerror or problem}.") from None
        except UnicodeDecodeError as problem:
            raise SchemaError(f"T{shown[1:]} is not valid TOML: {problem}.") from None
        return cls.from_toml(text, Path(path).parent, Path(path).name)

    @classmethod
    def from_toml(cls, text: str, folder: str | PathLike[str] = ".", name: str = "the schema") -> Schema:
        """Read the text of a schema file.

        folder: of files that it names after an @; name: of the schema, for messages.
        """
        try:
            description = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as problem:
            invalid = f"The schema {name!r} is not valid TOML: {problem}."
            raise SchemaError(open_places(text, name) or invalid) from None
        try:
            return cls.from_dict(spelled_out(description, Path(folder)))
        except SchemaError as problem:
            raise SchemaError(located(str(problem), text, name)) from None

    def save(self, path: str | PathLike[str]) -> None:
        """Write the schema as TOML. A file with the same schema stays unchanged, with its comments."""
        with suppress(SchemaError):
            if Schema.load(path).to_dict() == self.to_dict():
                return
        Path(path).write_text(self.to_toml(), encoding="utf-8")

    def to_toml(self) -> str:
        return toml_text(self.to_dict())


def _attribute_from(name: str, entry: Any) -> Attribute:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("type"), str):
        raise SchemaError(f"Attribute {name!r} needs a type: one of {', '.join(_CLASSES)}.")
    kind = entry["type"]
    if kind not in _CLASSES:
        raise SchemaError(f"Attribute {name!r}: " + unknown_name("type", kind, _CLASSES, "The types are"))
    known = _CLASSES[kind].keys()
    given = {key: value for key, value in entry.items() if key != "type"}
    for key in given:
        if key not in known:
            wrong = unknown_name("key", str(key), known, f"The type {kind} has")
            raise SchemaError(f"Attribute {name!r}: {wrong}")
    needed = ["min", "max"] if kind == "integer" and "edges" not in given else []
    needed += [key for key, each in known.items() if each.default is each.default_factory is MISSING]
    if absent := [key for key in needed if key not in given]:
        raise SchemaError(f"Attribute {name!r} of type {kind} needs {' and '.join(absent)}.")
    for key in ("edges", "values"):
        if key in given:
            if not isinstance(given[key], (list, tuple)):
                raise SchemaError(f"Attribute {name!r}: {key} must be a list, not {given[key]!r}.")
            given[key] = tuple(given[key])
    return _CLASSES[kind](name=name, **{known[key].name: value for key, value in given.items()})
