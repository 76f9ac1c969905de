"""Attributes with named values: categories and booleans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from hdpview.domain.attributes import Attribute
from hdpview.errors import quoted


@dataclass(frozen=True, kw_only=True)
class Category(Attribute):
    """One of `values`, in the order given. Undeclared values count as `other`: a code of its own, or one of
    `values`. Without `other`, they count as missing if the attribute is nullable, else as the first value.

    ordered: whether the order of `values` has a meaning, so that ranges can be queried.
    aliases: per value, further texts in the table that count as it, such as {"Female": ("F", "1")}.
    groups: per name of a grouping, such as "chapter", the group of each value, in the order of `values`.
    """

    values: tuple[str, ...]
    other: str | None = None
    ordered: bool = False
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    kind: ClassVar[str] = "category"
    _code_of: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def _check(self) -> None:
        has_values = bool(self.values) and not isinstance(self.values, str)
        self._require(has_values, "values must list at least one category")
        texts = tuple(self._text(value, "values") for value in self.values)
        object.__setattr__(self, "values", texts)
        object.__setattr__(self, "_code_of", {text: code for code, text in enumerate(texts)})
        value, times = Counter(texts).most_common(1)[0]
        self._require(times == 1, f"values lists {value!r} twice")
        has_text = self.other is None or isinstance(self.other, str)
        self._require(has_text, f"other must be a text, not {self.other!r}")
        is_bool = isinstance(self.ordered, bool)
        self._require(is_bool, f"ordered must be true or false, not {quoted(self.ordered)}")
        if isinstance(self.missing, (int, bool)):
            object.__setattr__(self, "missing", self._text(self.missing, "missing"))
        object.__setattr__(self, "aliases", self._checked_aliases())
        groups = self._lists("groups", self.groups, '{ region = ["North", "North", "South"] }')
        for name, members in groups.items():
            numbers = f"{len(members):,} groups for {len(texts):,} values"
            one_each = "It needs one per value, in the order of the values"
            is_complete = len(members) == len(texts)
            self._require(is_complete, f"the grouping {quoted(name)} names {numbers}. {one_each}")
        object.__setattr__(self, "groups", groups)

    def _checked_aliases(self) -> dict[str, tuple[str, ...]]:
        lists = self._lists("aliases", self.aliases, '{ Female = ["F", "f"] }')
        taken = set(self.values)
        for value, texts in lists.items():
            undeclared = f"{quoted(value)} is not declared"
            is_declared = self.code_of(value) is not None
            self._require(is_declared, f"aliases are further spellings of declared values; {undeclared}")
            for text in texts:
                if text in taken:
                    alias = f"{quoted(text)} cannot be an alias of {quoted(value)}"
                    self._require(False, f"{alias}: it is already in use")
                taken.add(text)
        return {value: texts for value, texts in lists.items() if texts}

    def _lists(self, key: str, given: Any, example: str) -> dict[str, tuple[str, ...]]:
        """A table of lists of texts, each as a tuple."""
        are_lists = isinstance(given, Mapping) and all(
            isinstance(name, str) and isinstance(texts, Sequence) and not isinstance(texts, str)
            for name, texts in given.items()
        )
        self._require(are_lists, f"{key} must be a table of lists, such as {example}")
        return {name: tuple(self._text(text, key) for text in texts) for name, texts in given.items()}

    def _text(self, value: Any, key: str) -> str:
        if not isinstance(value, (str, int)):
            self._require(False, f"{key} must be texts or whole numbers, not {quoted(value)}")
        return str(value).lower() if isinstance(value, bool) else str(value)

    @property
    def has_order(self) -> bool:
        return self.ordered

    @property
    def n_values(self) -> int:
        return len(self.values) + (self.other is not None and self.other not in self._code_of)

    @property
    def unknown_code(self) -> int:
        """The code of undeclared values."""
        if self.other is not None:
            return self._code_of.get(self.other, len(self.values))
        return self.missing_code

    @property
    def missing_code(self) -> int:
        if self.nullable or self.missing is not None or self.other is None:
            return super().missing_code
        return self.unknown_code

    @property
    def states_missing(self) -> bool:
        return super().states_missing or self.other is not None

    def describe_fallbacks(self) -> str:
        return (
            f"undeclared → {self.labels()[self.unknown_code]}; missing → {self.labels()[self.missing_code]}"
        )

    def code_of(self, value: str) -> int | None:
        """The code of a declared value, or of the name of `other`; None for any other text."""
        return self.unknown_code if value == self.other else self._code_of.get(value)

    def code_of_literal(self, value: Any) -> int | None:
        return self.code_of(value) if isinstance(value, str) else None

    def spellings(self) -> list[tuple[str, int]]:
        """All texts that stand for declared values in a table, with their codes; values come first."""
        also = [
            (text, code)
            for value, texts in self.aliases.items()
            if (code := self.code_of(value)) is not None
            for text in texts
        ]
        return [*((text, code) for code, text in enumerate(self.values)), *also]

    def value_labels(self) -> list[str]:
        own_code = self.other is not None and self.other not in self._code_of
        return [*self.values, *([self.other] if own_code and self.other is not None else [])]


@dataclass(frozen=True, kw_only=True)
class Boolean(Attribute):
    """False and true, in this order."""

    kind: ClassVar[str] = "boolean"

    @property
    def n_values(self) -> int:
        return 2

    def code_of_literal(self, value: Any) -> int | None:
        return int(value) if isinstance(value, bool) else None

    def value_labels(self) -> list[str]:
        return ["false", "true"]
