"""Settings of a session: initial values and meanings (`catalog/settings.txt`), and allowed values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hdpview.explore.postgres.sqlstates import PgError, SqlState
from hdpview.explore.postgres.types import lines_of
from hdpview.query.interval.answers import CountKind, IntervalKind

_OWN = "hdpview."
_ENCODINGS = ("utf8", "utf-8", "unicode", "sql_ascii")
_MAX_CHARACTERS = 1_000


class AnswerOptions(BaseModel):
    """Settings of a session that change how aggregates are answered."""

    model_config = ConfigDict(frozen=True)
    intervals: bool = False
    confidence: Annotated[float, Field(ge=0.5, le=0.9999)] = 0.95
    interval: IntervalKind = "typical"
    counts: CountKind = "consistent"

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> AnswerOptions:
        """Read the settings of a session."""
        own = {name.removeprefix(_OWN): value for name, value in settings.items() if name.startswith(_OWN)}
        return cls.model_validate(own)


@cache
def first_settings() -> dict[str, tuple[str, str]]:
    """Settings of a session: the initial value and the meaning of each."""
    rows = ([part.strip() for part in line.split("|")] for line in lines_of("settings.txt"))
    return {name: (value, meaning) for name, value, meaning in rows}


def first_values() -> dict[str, str]:
    """The settings of a new session."""
    return {name: value for name, (value, _) in first_settings().items()}


def checked_setting(name: str, value: str) -> str:
    """The stored form of a setting's value. Raises a PgError if the value is not allowed."""
    plain = value.strip("'").lower()
    if name == "client_encoding":
        if plain not in _ENCODINGS:
            raise _invalid(name, value, "Choose UTF8.")
        return "UTF8"
    if not name.startswith(_OWN):
        return value[:_MAX_CHARACTERS]
    if name not in first_settings():
        known = [each for each in first_settings() if each.startswith(_OWN)]
        text = f'unrecognized configuration parameter "{name[:60]}"'
        raise PgError(SqlState.UNDEFINED_OBJECT, text, f"Choose {', '.join(known)}.")
    try:
        AnswerOptions.of({name: plain})
    except ValidationError as problem:
        raise _invalid(name, value, f"{problem.errors()[0]['msg']}.") from None
    return plain


def _invalid(name: str, value: str, hint: str) -> PgError:
    return PgError(SqlState.INVALID_PARAMETER, f'invalid value for parameter "{name}": "{value[:60]}"', hint)
