"""The result of a forecast: expected errors by kind of question, size, time and memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

# For importing libraries and compiling kernels.
_START_SECONDS = 15
# Ranges of file sizes and seconds, as factors. Builds of adult, bank, heart and phoneme at epsilon 0.1, 1 and
# 3 wrote 0.9 to 3.2 times the simulated bytes.
_LEAST = 0.5
_MOST = 4


class Error(NamedTuple):
    """Root mean square error, in records: the expected one, and those of favourable and bad tables."""

    expected: float
    low: float
    high: float


@dataclass(frozen=True)
class Estimate:
    """The expected accuracy and cost of a build."""

    epsilon: float
    n_rows: int
    errors: dict[str, Error]
    n_blocks: int
    file_bytes: int
    build_seconds: float
    memory_bytes: int
    risk: str
    delta: float = 0.0
    max_rows: int = 1
    relations: dict[str, Error] = field(default_factory=dict)  # by kind, in shares of the span and of records
    n_at_once: int | None = None  # attributes simulated together, if not all

    def as_dict(self) -> dict[str, Any]:
        """The forecast as plain data."""
        errors = {kind: error._asdict() for kind, error in self.errors.items()}
        relations = {kind: error._asdict() for kind, error in self.relations.items()}
        return {**vars(self), "errors": errors, "relations": relations}

    def __str__(self) -> str:
        also = f" and delta {self.delta:g}" if self.delta else ""
        persons = f", at most {self.max_rows} per person" if self.max_rows > 1 else ""
        budget = f"epsilon {self.epsilon:.3g}{also} on {self.n_rows:,} rows{persons}"
        lines = [
            f"With {budget}, expect errors (root mean square, in records) of about",
            *(_line(kind, *map(_records, error)) for kind, error in self.errors.items()),
        ]
        if self.relations:
            lines += [
                "and, within groups of at least one in a hundred records,",
                *(
                    _line(kind, *(f"{100 * part:.2g}%" for part in error))
                    for kind, error in self.relations.items()
                ),
                "(rates in percentage points, means in percent of the attribute's span).",
            ]
        lines.append(
            "The ranges cover simulated tables, from concentrated on a few values to evenly spread, widened "
            "by what four real tables showed; other tables can lie outside."
        )
        if self.n_at_once is not None:
            lines.append(
                f"Simulated with {self.n_at_once} attributes at a time; with all of them, fewer pairs can be "
                "counted together. The ranges allow for that."
            )
        kilobytes, megabytes = self.file_bytes / 1e3, self.memory_bytes / 1e6
        soonest, latest = max(1, _LEAST * self.build_seconds), _MOST * self.build_seconds + _START_SECONDS
        lines.append(
            f"The file will have {_LEAST * kilobytes:,.0f} to {_MOST * kilobytes:,.0f} kB. After reading the "
            f"table, its build takes {soonest:,.0f} to {latest:,.0f} s "
            f"and {0.7 * megabytes:,.0f} to {1.5 * megabytes:,.0f} MB."
        )
        return "\n".join([*lines, self.risk])


def _records(number: float) -> str:
    """A number of records; fractions are not rounded to 0."""
    return f"{number:,.0f}" if number >= 9.5 else f"{number:.1g}"


def _line(kind: str, expected: str, low: str, high: str) -> str:
    return f"  {expected:>10}  on a {kind} ({low} to {high})"
