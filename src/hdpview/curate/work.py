"""What the curator's page does with a table: describe it, try a schema on it, learn for a price, look at the
budget.

Names and types of columns, and the format of a CSV file's first lines, are all that is looked at without
paying, as in `hdpview schema draft` and `hdpview schema check`.
"""

from __future__ import annotations

import dataclasses
import shlex
import tomllib
from fractions import Fraction
from pathlib import Path
from typing import Any

from hdpview.counts.contributions import Contributions
from hdpview.counts.draft import draft_of
from hdpview.counts.learn import learn_charged
from hdpview.counts.preview import preview
from hdpview.curate.forms import (
    KINDS,
    ColumnForm,
    Document,
    Price,
    SourceForm,
    fields_of,
    form_of,
    schema_text,
    source_form,
    source_of,
)
from hdpview.domain import Schema
from hdpview.domain.drafting import is_identifier
from hdpview.domain.places import open_lines
from hdpview.domain.suggestions import suggested_fields
from hdpview.domain.text_format import TextFormat
from hdpview.errors import DataError, HdpviewError, SchemaError
from hdpview.privacy.ledger import Ledger, default_ledger, ledger_for, name_of

_OPEN = "needs what only a person knows"
_MOST_BINS_SHOWN = 6


class Curation:
    """One table on its way to a view.

    data: the table's path; folder: where the schema, the view and its pages go; ledger: the file that keeps
    what was spent; table: the table's name in it.
    """

    def __init__(self, data: str, folder: Path, ledger: Path | None = None, table: str | None = None) -> None:
        self.data, self.folder = data, folder
        self.table = table or name_of(data)
        self.ledger = Ledger(ledger or ledger_for(data, table) or default_ledger())
        self._is_named = (ledger is not None, table is not None)
        self.schema_path = folder / f"{self.table}.toml"
        self._was_there = self.schema_path.exists()
        self._draft = draft_of(data)  # refuses, before anything is served, what is no table

    def described(self) -> dict[str, Any]:
        """The table as the page first shows it."""
        document, note = self._first_document()
        return {
            "table": self.table,
            "data": self.data,
            "folder": str(self.folder.resolve()),
            "schema_file": self.schema_path.name,
            "note": note,
            "kinds": KINDS,
            "document": document.model_dump(),
            "suggestions": self._suggestions(document),
            "is_text": self._draft.source is not None,
            "identifiers": [column.name for column in self._draft.columns if is_identifier(column.name)],
            "ledger": self.budget(),
        }

    def _first_document(self) -> tuple[Document, str]:
        forms = [self._draft_form(column.name, column.kind) for column in self._draft.columns]
        text = self._draft.source
        source = SourceForm() if text is None else source_form(text)
        if not self._was_there:
            return Document(columns=forms, source=source), " ".join(self._draft.remarks)
        try:
            described = tomllib.loads(self.schema_path.read_text(encoding="utf-8-sig"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
            raise SchemaError(
                f"The schema {str(self.schema_path)!r} cannot be read ({problem}). Correct it, or move "
                "it away."
            ) from None
        nullable = bool(described.get("defaults", {}).get("nullable", False))
        known = described.get("attributes", {})
        other = described.get("defaults", {}).get("other")
        forms = [
            _with_default(form_of(form.name, known[form.name], nullable), other)
            if form.name in known
            else form.model_copy(update={"use": False})
            for form in forms
        ]
        learnt: dict[str, Any] = {
            key: described[key] for key in ("learnt_epsilon", "learnt_delta") if key in described
        }
        stated = source_form(TextFormat.from_dict(described.get("source", {})))
        document = Document(columns=forms, source=stated, lists=described.get("lists", {}), learnt=learnt)
        return document, f"Goes on from {self.schema_path.name}, which was there already."

    def _draft_form(self, name: str, kind: str | None) -> ColumnForm:
        form = form_of(name, {"type": kind or "category"})
        form.use = kind is not None and not is_identifier(name)
        if kind == "category":
            form.other = "other"
        if kind == "datetime":
            form.binning, form.size = "every", "1mo"
        return form

    def _suggestions(self, document: Document) -> dict[str, dict[str, Any]]:
        """Per column and type, what the form could hold, by the column's name alone."""
        found: dict[str, dict[str, Any]] = {}
        for form in document.columns:
            kinds = {kind: suggested_fields(form.name, kind) for kind in KINDS}
            found[form.name] = {
                kind: form_of(form.name, {"type": kind, **fields}).model_dump(exclude={"use", "name"})
                for kind, fields in kinds.items()
                if fields
            }
        return found

    def checked(self, document: Document) -> dict[str, Any]:
        """The schema file that the forms make, what is wrong or open in it, and what to know of it."""
        text, problems, schema = self._schema(document)
        concerns: list[dict[str, Any]] = []
        if schema is not None:
            concerns = [dataclasses.asdict(concern) for concern in preview(self.data, schema)]
        return {
            "text": text,
            "problems": problems,
            "open": len(open_lines(text)),
            "valid": schema is not None,
            "bins": {} if schema is None else {each.name: _bins(each.labels()) for each in schema},
            "cells": None if schema is None else float(schema.n_cells),
            "concerns": concerns,
            "command": _command("hdpview", "schema", "check", self.schema_path.name, self.data),
        }

    def _schema(self, document: Document) -> tuple[str, dict[str, str], Schema | None]:
        """The text, what is wrong per attribute ("" for no single one), and the schema if nothing is."""
        fields: list[tuple[str, dict[str, Any]]] = []
        problems: dict[str, str] = {}
        for form in (form for form in document.columns if form.use):
            try:
                found = fields_of(form)
            except SchemaError as problem:
                problems[form.name] = _about(problem, form.name)
                found = {"type": form.kind, **dict.fromkeys(("min", "max"))}
            fields.append((form.name, found))
        text = schema_text(document, fields)
        for name, found in fields:
            if name not in problems and (wrong := self._problem_of(document, name, found)) is not None:
                problems[name] = wrong
        if problems:
            return text, problems, None
        try:
            return text, problems, Schema.from_toml(text, self.folder, self.schema_path.name)
        except SchemaError as problem:
            return text, {"": str(problem)}, None

    def _problem_of(self, document: Document, name: str, fields: dict[str, Any]) -> str | None:
        """What is wrong with one attribute by itself."""
        open_keys = [key for key, value in fields.items() if value is None or value == [None]]
        if open_keys:
            return f"{' and '.join(open_keys)}: {_OPEN}."
        try:
            Schema.from_toml(schema_text(document, [(name, fields)]), self.folder)
        except SchemaError as problem:
            return _about(problem, name)
        return None

    def schema_of(self, document: Document) -> tuple[str, Schema]:
        """The text and the schema. Raises a SchemaError where anything is wrong."""
        text, problems, schema = self._schema(document)
        if schema is None:
            listed = "; ".join(
                f"{name}: {problem}" if name else problem for name, problem in problems.items()
            )
            raise SchemaError(f"The schema is not complete. {listed[:1_000]}")
        return text, schema

    def save_schema(self, document: Document) -> str:
        """Write the schema file. One that states this schema already stays as it is."""
        text, schema = self.schema_of(document)
        try:
            if self._was_there:
                schema.save(self.schema_path)
            else:
                self.schema_path.write_text(text, encoding="utf-8")
        except OSError as problem:
            raise SchemaError(
                f"Cannot write {str(self.schema_path)!r}: {problem.strerror or problem}."
            ) from None
        return str(self.schema_path)

    def learnt(self, document: Document, columns: list[str], price: Price) -> dict[str, Any]:
        """Forms of columns filled in by learning, which is charged before a value is looked at."""
        budget, slack = price.exact()
        by_name = {form.name: form for form in document.columns}
        unknown = [name for name in columns if name not in by_name]
        if unknown or not columns:
            raise DataError("Choose the columns to learn about.")
        kinds = {name: by_name[name].kind for name in columns}
        limits = Contributions(price.privacy_unit, price.max_rows)
        text = TextFormat.from_dict(source_of(document.source))
        found = learn_charged(self.ledger, self.table, self.data, kinds, budget, slack, limits, text)
        known = {
            name: form_of(name, attribute.to_dict()).model_dump(exclude={"use"})
            for name, attribute in found.attributes.items()
        }
        costs = document.learnt
        return {
            "columns": known,
            "open": [name for name in columns if name not in known],
            "learnt": {
                "learnt_epsilon": str(Fraction(costs.get("learnt_epsilon", 0)) + budget),
                **(
                    {"learnt_delta": str(total)}
                    if (total := Fraction(costs.get("learnt_delta", 0)) + slack)
                    else {}
                ),
            },
            "ledger": self.budget(),
            "command": self._learning_command(columns, price),
        }

    def _learning_command(self, columns: list[str], price: Price) -> str:
        words = ["hdpview", "schema", "draft", self.data, "--columns", ",".join(columns)]
        words += ["--learn-bounds-epsilon", price.epsilon]
        words += ["--learn-delta", price.delta] if price.delta.strip() else []
        person = price.privacy_unit
        words += ["--privacy-unit", person, "--max-rows", str(price.max_rows)] if person else []
        return _command(*words, *self.ledger_words())

    def budget(self) -> dict[str, Any]:
        """What has been spent on the table, and what is left."""
        limit, spent = self.ledger.limit(self.table), self.ledger.spent(self.table)
        return {
            "table": self.table,
            "path": str(self.ledger.path.resolve()),
            "exists": self.ledger.path.exists(),
            "spent": float(spent),
            "limit": None if limit.epsilon is None else float(limit.epsilon),
            "left": None if limit.epsilon is None else float(limit.epsilon - spent),
            "charges": [
                {
                    "purpose": charge.purpose,
                    "epsilon": float(charge.epsilon),
                    "when": charge.charged_at,
                    "state": charge.state,
                    "view": charge.view or "",
                }
                for charge in self.ledger.charges(self.table)
            ],
        }

    def ledger_words(self) -> list[str]:
        """The words of a command that name the ledger and the table, where they are not the usual ones."""
        has_ledger, has_table = self._is_named
        words = ["--ledger", str(self.ledger.path)] if has_ledger else []
        return [*words, *(["--table", self.table] if has_table else [])]

    def estimate(self, document: Document, rows: int, price: Price) -> dict[str, Any]:
        """What a budget will buy. Looks at the schema alone."""
        from hdpview.forecast import estimate

        epsilon, delta = price.exact()
        _, schema = self.schema_of(document)
        found = estimate(schema, rows, epsilon, delta=delta or None, max_rows=price.max_rows)
        words = ["hdpview", "estimate", "--schema", self.schema_path.name, "--rows", str(rows)]
        words += ["--epsilon", price.epsilon, *(["--delta", price.delta] if delta else [])]
        words += ["--max-rows", str(price.max_rows)] if price.max_rows > 1 else []
        return {
            "epsilon": found.epsilon,
            "errors": {kind: error._asdict() for kind, error in found.errors.items()},
            "relations": {kind: error._asdict() for kind, error in found.relations.items()},
            "command": _command(*words),
        }


def check_folder(folder: Path) -> None:
    """Refuse a folder that nothing can be written to."""
    if not folder.is_dir():
        raise HdpviewError(f"The folder {str(folder)!r} does not exist. Make it first.")


def _with_default(form: ColumnForm, other: Any) -> ColumnForm:
    if form.kind == "category" and other and not form.other:
        form.other = str(other)
    return form


def _about(problem: SchemaError, name: str) -> str:
    """The words of a problem without the file and the attribute that the page shows them beside."""
    words = str(problem)
    mark = f"Attribute {name!r}: "
    return words[words.index(mark) + len(mark) :] if mark in words else words.removeprefix("the schema: ")


def _bins(labels: list[str]) -> dict[str, Any]:
    shown = labels if len(labels) <= _MOST_BINS_SHOWN else [*labels[:3], "…", *labels[-2:]]
    return {"n": len(labels), "shown": shown}


def _command(*words: str) -> str:
    return shlex.join(words)
