"""The privacy card: one page that a person can judge a view by. It follows from the manifest, so it travels
with the view.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from hdpview.view.audited import AUDITED
from hdpview.view.base import Base
from hdpview.view.manifest import Manifest
from hdpview.view.risk import largest_belief, risk_sentence

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a}"
    "h1{font-size:1.5rem}h2{font-size:1.05rem;margin:1.4rem 0 .2rem}p{margin:.2rem 0}"
    "table{border-collapse:collapse}td{padding:.1rem 1.2rem .1rem 0;vertical-align:top}.no{color:#b00020;font-weight:bold}"
)


@dataclass(frozen=True)
class PrivacyCard:
    """Sections of a title and lines; a line of two parts is a row of a table. Prints as text, shows as HTML
    in a notebook.
    """

    title: str
    is_private: bool
    sections: tuple[tuple[str, tuple[str | tuple[str, str], ...]], ...]

    @property
    def text(self) -> str:
        lines = [self.title, "=" * len(self.title)]
        for title, content in self.sections:
            width = max((len(line[0]) for line in content if isinstance(line, tuple)), default=0)
            lines += ["", title, "-" * len(title)]
            lines += [line if isinstance(line, str) else f"{line[0]:<{width}}  {line[1]}" for line in content]
        return "\n".join(lines) + "\n"

    @property
    def html(self) -> str:
        parts = [f"<h1>{html.escape(self.title)}</h1>"]
        for title, content in self.sections:
            mark = ' class="no"' if title == _NOT_PRIVATE else ""
            parts.append(f"<h2{mark}>{html.escape(title)}</h2>")
            rows = [line for line in content if isinstance(line, tuple)]
            parts += [f"<p{mark}>{html.escape(line)}</p>" for line in content if isinstance(line, str)]
            cells = "".join(f"<tr><td>{html.escape(a)}</td><td>{html.escape(b)}</td></tr>" for a, b in rows)
            parts += [f"<table>{cells}</table>"] if rows else []
        head = f'<meta charset="utf-8"><title>{html.escape(self.title)}</title><style>{_STYLE}</style>'
        return f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(parts)}</body></html>\n'

    def save(self, path: str | PathLike[str]) -> None:
        """Write the card: as HTML where the name ends in .html, else as text."""
        target = Path(path)
        target.write_text(
            self.html if target.suffix.lower() in (".html", ".htm") else self.text, encoding="utf-8"
        )

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.html


_NOT_PRIVATE = "This view is NOT PRIVATE"


def privacy_card(manifest: Manifest, n_blocks: int, bases: Sequence[Base] = ()) -> PrivacyCard:
    """The card of a view."""
    warning = [] if manifest.is_private else [(_NOT_PRIVATE, tuple(manifest.not_private_because))]
    return PrivacyCard(
        title=f"Privacy card of a view of {len(manifest.schema)} attributes in {n_blocks:,} blocks",
        is_private=manifest.is_private,
        sections=(
            *warning,
            ("What is protected", tuple(_protected(manifest))),
            ("What that means", tuple(_meaning(manifest))),
            ("What is assumed to be public", tuple(_public(manifest))),
            ("What the budget was spent on", tuple(_spending(manifest))),
            ("How it was made", tuple(_made(manifest, bases))),
            ("How the promise was checked", tuple(_checked(manifest))),
        ),
    )


def _whose(manifest: Manifest) -> str:
    return (
        "record"
        if manifest.privacy_unit == "row"
        else f"person or thing that the column {manifest.privacy_unit!r} stands for"
    )


def _protected(manifest: Manifest) -> list[str]:
    lines = [
        f"The presence of each single {_whose(manifest)}: {manifest.neighbours} give nearly the same view."
    ]
    if manifest.privacy_unit != "row":
        lines.append(
            f"At most {manifest.max_rows:,} records of each are in the counts, chosen by lot; records without a value there are left out."
        )
    elif manifest.max_rows > 1:
        lines.append(
            f"That nobody has more than {manifest.max_rows:,} records is the curator's word: the table was aggregated before."
        )
    else:
        also = f", and delta c times e^({float(manifest.epsilon):g}·c) times" if manifest.delta else ""
        lines.append(
            f"Someone with several records is protected less: with c records, as if epsilon were c times as large{also}."
        )
    if manifest.count_column is not None:
        lines.append(
            f"Rows of the table stood for several records each; the column {manifest.count_column!r} said how many."
        )
    return lines


def _meaning(manifest: Manifest) -> list[str | tuple[str, str]]:
    odds = [
        (f"from {prior:.0%} sure", f"to {largest_belief(manifest.epsilon, prior):.1%} at most")
        for prior in (0.01, 0.1, 0.5)
    ]
    epsilon, delta = f"{float(manifest.epsilon):g}", f"{float(manifest.delta):g}"
    pure = f"Pure differential privacy with epsilon {epsilon}: one more or less makes no outcome more than e^{epsilon} times as likely."
    approximate = (
        f"Differential privacy with {manifest.budget}: one more or less makes no set of outcomes likelier than e^{epsilon} times "
        f"what it was plus {delta}."
    )
    return [
        approximate if manifest.delta else pure,
        risk_sentence(manifest.epsilon, manifest.privacy_unit, manifest.delta),
        *odds,
        "This holds for any number of questions asked of the view, and whatever else anyone knows. Other views of the same table add up.",
        "What is true of many can be learnt, and is meant to be: it would be so without any one of them.",
    ]


def _public(manifest: Manifest) -> list[str | tuple[str, str]]:
    lines: list[str | tuple[str, str]] = [
        "Names, types, bounds and categories of the attributes; the method, its settings and the budget."
    ]
    lines += [(a.name, f"{a.kind}, {a.size:,} values: {a.span()}") for a in manifest.schema.attributes[:50]]
    hidden = len(manifest.schema) - 50
    return [*lines, f"and {hidden:,} more attributes"] if hidden > 0 else lines


def _learnt(manifest: Manifest) -> list[str]:
    schema = manifest.schema
    if schema.learnt_epsilon is None:
        return []
    also = "" if schema.learnt_delta is None else f" and delta {schema.learnt_delta}"
    return [
        f"Bounds or categories were learnt from the table before, for epsilon {schema.learnt_epsilon}{also} per row: this adds to it."
    ]


def _spending(manifest: Manifest) -> list[str | tuple[str, str]]:
    def cost(epsilon: float, times: int, delta: float) -> str:
        several = f" ({times} times {epsilon:.4g})" if times > 1 else ""
        return f"{epsilon * times:.4g}{several}" + (f", and delta {delta:.4g}" if delta else "")

    rows: list[str | tuple[str, str]] = [
        (spent.purpose, cost(float(spent.epsilon), spent.times, float(spent.delta)))
        for spent in manifest.spending
    ]
    return [*rows, ("in all", cost(float(manifest.epsilon), 1, float(manifest.delta))), *_learnt(manifest)]


def _made(manifest: Manifest, bases: Sequence[Base]) -> list[str | tuple[str, str]]:
    stories = dict.fromkeys(base.story(manifest.schema.names) for base in bases)
    inside: list[str | tuple[str, str]] = [
        ("inside blocks", f"records spread by a base measure: {story}") for story in stories
    ]
    settings = ", ".join(f"{name} {value:g}" for name, value in manifest.settings.items())
    return [
        ("method", manifest.method),
        ("settings", settings or "none"),
        (
            "noise on counts",
            f"discrete Laplace of scale {manifest.noise_scale:g}, from OpenDP's exact sampler",
        ),
        *(
            [("noise on tables", "discrete Gaussian, from OpenDP's exact sampler, in views with a delta")]
            if manifest.delta
            else []
        ),
        *inside,
        ("library", f"hdpview {manifest.library_version}"),
    ]


def _checked(manifest: Manifest) -> list[str | tuple[str, str]]:
    found = AUDITED.get(manifest.method)
    if found is None:
        return [
            f"No audit of the method {manifest.method} is on record. Run: hdpview audit --method {manifest.method}"
        ]
    return [
        f"An adversary who knew all but one record looked at views from {found.runs:,} builds of each of two tables, with it and without.",
        f"They showed epsilon {found.lower_bound:.2g} at least ({found.confidence:.1%} confidence), where {found.claimed:g} was claimed.",
        f"To repeat it: {found.command}",
        *(["That audit was of builds without a delta."] if manifest.delta else []),
    ]
