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
        if isinstance(self.values, str) or not self.values:
            raise self._fail("values must list at least one category.")
        texts = tuple(self._text(value, "values") for value in self.values)
        object.__setattr__(self, "values", texts)
        object.__setattr__(self, "_code_of", {text: code for code, text in enumerate(texts)})
        if len(self._code_of) < len(texts):
            raise self._fail(f"values lists {Counter(texts).most_common(1)[0][0]!r} twice.")
        if self.other is not None and not isinstance(self.other, str):
            raise self._fail(f"other must be a text, not {self.other!r}.")
        if not isinstance(self.ordered, bool):
            raise self._fail(f"ordered must be true or false, not {quoted(self.ordered)}.")
        if isinstance(self.missing, (int, bool)):
            object.__setattr__(self, "missing", self._text(self.missing, "missing"))
        object.__setattr__(self, "aliases", self._checked_aliases())
        object.__setattr__(self, "groups", self._checked_groups())

    def _checked_aliases(self) -> dict[str, tuple[str, ...]]:
        lists = self._lists("aliases", self.aliases, '{ Female = ["F", "f"] }')
        taken = set(self.values)
        for value, texts in lists.items():
            if self.code_of(value) is None:
                raise self._fail(
                    f"aliases are further spellings of declared values; {quoted(value)} is not declared."
                )
            for text in texts:
                if text in taken:
                    raise self._fail(
                        f"{quoted(text)} cannot be an alias of {quoted(value)}: it is already in use."
                    )
                taken.add(text)
        return {value: texts for value, texts in lists.items() if texts}

    def _checked_groups(self) -> dict[str, tuple[str, ...]]:
        lists = self._lists("groups", self.groups, '{ region = ["North", "North", "South"] }')
        for name, members in lists.items():
            if len(members) != len(self.values):
                raise self._fail(
                    f"the grouping {quoted(name)} names {len(members):,} groups for {len(self.values):,} "
                    "values. It needs one per value, in the order of the values."
                )
        return lists

    def _lists(self, key: str, given: Any, example: str) -> dict[str, tuple[str, ...]]:
        """A table of lists of texts, each as a tuple."""
        if not isinstance(given, Mapping) or not all(
            isinstance(name, str) and isinstance(texts, Sequence) and not isinstance(texts, str)
            for name, texts in given.items()
        ):
            raise self._fail(f"{key} must be a table of lists, such as {example}.")
        return {name: tuple(self._text(text, key) for text in texts) for name, texts in given.items()}

    def _text(self, value: Any, key: str) -> str:
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, (str, int)):
            return str(value)
        raise self._fail(f"{key} must be texts or whole numbers, not {quoted(value)}.")

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

    def _own_dict(self) -> dict[str, Any]:
        return {
            "values": list(self.values),
            **({"ordered": True} if self.ordered else {}),
            **({} if self.other is None else {"other": self.other}),
            **{
                key: {name: list(texts) for name, texts in table.items()}
                for key, table in (("aliases", self.aliases), ("groups", self.groups))
                if table
            },
        }


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
