"""The privacy card: a one-page statement about a view, made from its manifest."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from os import PathLike
from pathlib import Path

from hdpview.domain import Attribute
from hdpview.view.blocks import Blocks
from hdpview.view.data import ViewData
from hdpview.view.diagnosis import Finding, in_brief
from hdpview.view.file import written_whole
from hdpview.view.manifest import Manifest, largest_belief, risk_sentence

# The ε that `hdpview audit --method METHOD --epsilon 1 --runs 1000` proved, with 99.9% confidence.
AUDITED = {"mixture": 0.70, "hdpview": 0.00}
_NOT_PRIVATE = "This view is NOT PRIVATE"
_MAX_LISTED = 200  # categories that a card lists by name
_MAX_ATTRIBUTES = 50  # attributes that a card describes
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a}"
    "h1{font-size:1.5rem}h2{font-size:1.05rem;margin:1.4rem 0 .2rem}p{margin:.2rem 0}"
    "table{border-collapse:collapse}"
    "td{padding:.1rem 1.2rem .1rem 0;vertical-align:top;overflow-wrap:anywhere}"
    "td:first-child{min-width:9rem}.no{color:#b00020;font-weight:bold}.sign{margin-top:2rem;color:#555}"
    "@page{size:A4;margin:15mm}"
    "@media print{body{font-size:9.5pt;line-height:1.3;max-width:none;margin:0;padding:0;color:#000}"
    "h1{font-size:14pt}h2{font-size:10.5pt;margin:.7rem 0 .1rem;break-after:avoid}tr,p{break-inside:avoid}}"
)


@dataclass(frozen=True)
class PrivacyCard:
    """Sections with a title and lines; a pair of texts is a table row. Prints as text, displays as HTML."""

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
        head += '<meta name="viewport" content="width=device-width, initial-scale=1">'
        return f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(parts)}</body></html>\n'

    def save(self, path: str | PathLike[str]) -> None:
        """Write the card as HTML if the name ends in .html, else as text."""
        is_html = Path(path).suffix.lower() in (".html", ".htm")
        with written_whole(path) as file:
            file.write((self.html if is_html else self.text).encode())

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.html


def privacy_card(
    view: ViewData, checksum: str, findings: Sequence[Finding] = (), together: str | None = None
) -> PrivacyCard:
    """The card of a view.

    findings: problems of the schema that the view's histograms reveal.
    together: a sentence about which attributes were counted together.
    """
    manifest = view.manifest
    warning = [] if manifest.is_private else [(_NOT_PRIVATE, tuple(manifest.not_private_because))]
    of = f" of {manifest.table}" if manifest.table else ""
    return PrivacyCard(
        title=f"Privacy card of a view{of}: {len(manifest.schema)} attributes",
        is_private=manifest.is_private,
        sections=(
            *warning,
            ("What is protected", tuple(_protected(manifest))),
            ("What this means", tuple(_meaning(manifest))),
            ("What is assumed to be public", tuple(_public(manifest))),
            ("What the budget was spent on", tuple(_spending(manifest))),
            ("How accurate it is", (*_accurate(view), *([together] if together else []))),
            ("Possible mistakes in the schema", tuple(in_brief(findings) if findings else [_NO_FINDING])),
            ("How it was built", tuple(_made(view, checksum))),
            ("How the guarantee was audited", tuple(_audit(manifest))),
        ),
    )


_NO_FINDING = (
    "No sign of unreadable values, of bounds that are too tight or too wide, or of undeclared values."
)


def _protected(manifest: Manifest) -> list[str]:
    unit = f"person (or other unit) that the column {manifest.privacy_unit!r} identifies"
    whose = "record" if manifest.privacy_unit == "row" else unit
    lines = [f"The presence of each {whose}: {manifest.neighbours} give nearly the same view."]
    most = f"{manifest.max_rows:,} records"
    if manifest.privacy_unit != "row":
        lines.append(
            f"At most {most} of each are counted, chosen at random. Records without one are left out."
        )
    elif manifest.max_rows > 1:
        lines.append(f"The curator states that nobody has more than {most}; the build could not check it.")
    else:
        epsilon, delta = manifest.total
        also = f", and delta c times e^({float(epsilon):g}·c) times" if delta else ""
        lines.append(f"A person with c records is protected as if epsilon were c times as large{also}.")
    if manifest.count_column is not None:
        lines.append(f"The column {manifest.count_column!r} gives the number of records per row.")
    return lines


def _meaning(manifest: Manifest) -> list[str | tuple[str, str]]:
    epsilon, delta = manifest.total
    kind, outcome = ("Differential", "set of outcomes") if delta else ("Pure differential", "outcome")
    promise = (
        f"{kind} privacy with {manifest.budget}: adding or removing {manifest.protected} changes the "
        f"probability of any {outcome} by at most a factor of e^{float(epsilon):g}"
        + (f", plus {float(delta):g}." if delta else ".")
    )
    odds = [
        (f"from {prior:.0%} sure", f"to at most {largest_belief(epsilon, prior):.1%}")
        for prior in (0.01, 0.1, 0.5)
    ]
    return [
        promise,
        risk_sentence(epsilon, manifest.privacy_unit, delta),
        *odds,
        "This holds for any number of questions and whatever else anyone knows.",
        "The epsilons of several views of one table add up.",
        "The view is meant to reveal facts about groups; they hold with or without any one member.",
    ]


def _public(manifest: Manifest) -> list[str | tuple[str, str]]:
    lines: list[str | tuple[str, str]] = ["Names, types, bounds and categories; the method and the budget."]
    lines += [(a.name, _described(a)) for a in manifest.schema.attributes[:_MAX_ATTRIBUTES]]
    n_hidden = len(manifest.schema) - _MAX_ATTRIBUTES
    return lines if n_hidden <= 0 else [*lines, f"and {n_hidden:,} more attributes"]


def _described(attribute: Attribute) -> str:
    """The type of an attribute, with its bounds or all its categories."""
    listed = attribute.kind == "category" and attribute.n_values <= _MAX_LISTED
    values = ", ".join(attribute.value_labels()) if listed else attribute.span()
    return f"{attribute.kind}, {attribute.size:,} values: {values}"


def _spending(manifest: Manifest) -> list[str | tuple[str, str]]:
    def cost(epsilon: Fraction, times: int, delta: Fraction) -> str:
        several = f" ({times} times {float(epsilon):.4g})" if times > 1 else ""
        return f"{float(epsilon * times):.4g}{several}" + (f", and delta {float(delta):.4g}" if delta else "")

    learning = [] if manifest.learning is None else [manifest.learning]
    rows: list[str | tuple[str, str]] = [
        (spent.purpose, cost(spent.epsilon, spent.times, spent.delta))
        for spent in (*manifest.spending, *learning)
    ]
    rows.append(("total", cost(manifest.total[0], 1, manifest.total[1])))
    if learning and manifest.privacy_unit != "row":
        rows.append(
            f"The total holds for each {manifest.privacy_unit} if learning was given that column too."
        )
    if manifest.spent_on_table is not None:
        spent = f"{float(manifest.spent_on_table):.4g}"
        total = f"{spent}, including this view, according to the curator's ledger"
        rows.append((f"spent on {manifest.table} so far", total))
    return rows


def _accurate(view: ViewData) -> list[str]:
    quality = view.parts[0].quality
    origin = "measured on the table, within the budget" if quality.measured else "expected from other tables"
    within = quality.within.items()
    errors = [f"95% of answers to {kind} are within ±{error:,.0f} records." for kind, error in within]
    stated = [f"These errors were {origin}:"] if errors else []
    return [*stated, *errors, "Every answer has its own interval."]


def _made(view: ViewData, checksum: str) -> list[str | tuple[str, str]]:
    manifest, components = view.manifest, view.parts[0].components
    settings = ", ".join(f"{name} {value:g}" for name, value in manifest.settings.items())
    noise = "discrete Gaussian" if manifest.delta else "discrete Laplace"
    if isinstance(components, Blocks):
        noise += f" of scale {components.noise_scale:g}"
    focus = "; ".join(" × ".join(names) for names in manifest.focus)
    return [
        ("method", manifest.method),
        ("settings", settings or "none"),
        ("released", f"{view.n_components:,} {'blocks with counts' if view.is_blocks else 'components'}"),
        *([] if view.is_blocks else [("fitted to", _tables(view))]),
        *([("focus", focus)] if focus else []),
        ("noise on counts", f"{noise}, from OpenDP's exact sampler"),
        *([("built on", manifest.created)] if manifest.created else []),
        ("library", f"hdpview {manifest.library_version}"),
        ("checksum", f"SHA-256 {checksum}"),
    ]


def _tables(view: ViewData) -> str:
    def counted(k: int, n: int) -> str:
        noun = ("histogram" if k == 1 else "table") + ("s" if n > 1 else "")
        return f"{n} {noun}" if k == 1 else f"{n} {noun} of {k} attributes"

    sizes = Counter(len(table.attributes) for part in view.parts for table in part.tables)
    return ", ".join(counted(k, n) for k, n in sorted(sizes.items()))


def _audit(manifest: Manifest) -> list[str]:
    command = f"hdpview audit --method {manifest.method} --epsilon 1 --runs 1000"
    proved = AUDITED.get(manifest.method)
    if proved is None:
        return [f"No audit of the method {manifest.method} is on record. Run: {command}"]
    return [
        "An adversary who knew all other records attacked 1,000 builds with one record and 1,000 without.",
        f"The attack proved an epsilon of at least {proved:.2g} (99.9% confidence); 1 is claimed.",
        f"To repeat it: {command}",
        *(["That audit was of builds without a delta."] if manifest.delta else []),
    ]
