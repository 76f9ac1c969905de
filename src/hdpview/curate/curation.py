"""The work behind the curator's page: describe a table, try a schema on it, learn bounds, show the budget.

As in `hdpview schema draft`, only names and types of columns and the format of a CSV file's first lines are
read for a draft.
"""

from __future__ import annotations

import dataclasses
import json
import threading
import tomllib
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

from hdpview.counts.check import check_table
from hdpview.counts.contributions import Contributions
from hdpview.counts.draft import draft_of
from hdpview.counts.files import files_of
from hdpview.counts.learn import learn_charged
from hdpview.counts.losses import SchemaWarning, blocking_first
from hdpview.curate.forms import (
    KINDS,
    ColumnForm,
    Described,
    Document,
    Forecast,
    Learning,
    Saved,
    SourceForm,
    command_line,
    fields_of,
    form_of,
    schema_text,
    source_form,
    source_of,
)
from hdpview.domain import Attribute, Schema
from hdpview.domain.drafting import DraftColumn
from hdpview.domain.text_format import TextFormat
from hdpview.domain.toml import open_lines
from hdpview.errors import DataError, HdpviewError, SchemaError
from hdpview.privacy.ledger import Ledger, Receipt, default_ledger, ledger_for, name_of

_MOST_BINS_SHOWN = 6


class Curation:
    """One table on its way to a view.

    data: the table's path; folder: where the schema, the view and its pages go; ledger: the file that keeps
    what was spent; table: the table's name in it.
    """

    def __init__(self, data: str, folder: Path, ledger: Path | None = None, table: str | None = None) -> None:
        if not folder.is_dir():
            raise HdpviewError(f"The folder {str(folder)!r} does not exist. Make it first.")
        self.data, self.folder = data, folder
        self.table = table or name_of(data)
        self.ledger = Ledger(ledger or ledger_for(data, table) or default_ledger())
        stated = {"ledger": ledger, "table": table}
        # Options of a command that name the ledger and the table, if they are not the default ones.
        self.ledger_options = {name: str(value) for name, value in stated.items() if value is not None}
        self.schema_path = folder / f"{self.table}.toml"
        self._was_there = self.schema_path.exists()
        self.state_path = folder / f"{self.table}.curate.json"
        self._version = 0
        self._paying = threading.Lock()
        self._checked_state: Any = None
        self._checked: dict[Attribute, list[SchemaWarning]] = {}
        self._about_table: list[SchemaWarning] = []
        self._draft = draft_of(data)  # refuses unreadable tables before the page is served

    def described(self) -> dict[str, Any]:
        """The table as the page first shows it."""
        saved, note = self._first_state()
        document, self._version = saved.document, saved.version
        return {
            "table": self.table,
            "data": self.data,
            "folder": str(self.folder.resolve()),
            "schema_file": self.schema_path.name,
            "note": note,
            "kinds": KINDS,
            "document": document.model_dump(),
            "settings": saved.settings,
            "version": saved.version,
            "questions": dict(self._draft.questions),
            "suggestions": self._suggestions(document),
            "is_text": self._draft.source is not None,
            "identifiers": [column.name for column in self._draft.columns if column.is_identifier],
            "ledger": self.budget(),
        }

    def _first_state(self) -> tuple[Saved, str]:
        """The state saved when the page was last open; else that of the schema file or of a draft."""
        with suppress(OSError, ValueError):  # nothing was saved, or by another version
            schema_time = self.schema_path.stat().st_mtime_ns if self.schema_path.exists() else 0
            if self.state_path.stat().st_mtime_ns >= schema_time:
                saved = Saved.model_validate_json(self.state_path.read_text(encoding="utf-8"))
                if [form.name for form in saved.document.columns] == [c.name for c in self._draft.columns]:
                    return saved, f"Continuing where {self.state_path.name} left off."
        document, note = self._first_document()
        return Saved(document=document, version=self._version), note

    def keep(self, saved: Saved) -> int:
        """Save the state of the page, so that a reload, a restart or a crash loses nothing. Returns the new
        version; a page with an older one is refused.
        """
        if saved.version != self._version:
            raise HdpviewError(
                "This table was changed in another tab. Reload this page to continue from there."
            )
        before = self.state_path.read_bytes() if self.state_path.exists() else b""
        content = saved.model_dump_json(exclude={"version"}).encode()
        if json.loads(before or b"{}") | {"version": 0} == json.loads(content) | {"version": 0}:
            return self._version
        self._version += 1
        kept = saved.model_copy(update={"version": self._version})
        beside = self.state_path.with_suffix(".new")
        beside.write_text(kept.model_dump_json(indent=1), encoding="utf-8")
        beside.replace(self.state_path)
        return self._version

    def _first_document(self) -> tuple[Document, str]:
        forms = [self._draft_form(column) for column in self._draft.columns]
        text = self._draft.source
        source = SourceForm() if text is None else source_form(text)
        if not self._was_there:
            return Document(columns=forms, source=source), " ".join(self._draft.remarks)
        try:
            described = tomllib.loads(self.schema_path.read_text(encoding="utf-8-sig"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
            path = str(self.schema_path)
            raise SchemaError(
                f"Cannot read the schema {path!r} ({problem}). Correct it, or move it away."
            ) from None
        known, defaults = described.get("attributes", {}), described.get("defaults", {})
        nullable, other = bool(defaults.get("nullable", False)), defaults.get("other")
        forms = [
            form_of(form.name, {"other": other, **known[form.name]}, nullable)
            if form.name in known
            else form.model_copy(update={"use": False})
            for form in forms
        ]
        learnt = {key: cost for key, cost in described.items() if key in ("learnt_epsilon", "learnt_delta")}
        stated = source_form(TextFormat.from_dict(described.get("source", {})))
        document = Document(columns=forms, source=stated, lists=described.get("lists", {}), learnt=learnt)
        return document, f"Continuing from {self.schema_path.name}."

    def _draft_form(self, column: DraftColumn) -> ColumnForm:
        kind = column.kind
        form = form_of(column.name, {"type": kind or "category"})
        form.use = kind is not None and not column.is_identifier
        if kind == "category":
            form.other = "other"
        if kind == "datetime":
            form.binning, form.size = "every", "1mo"
        return form

    def _suggestions(self, document: Document) -> dict[str, dict[str, Any]]:
        """Per column and type, a suggested form, based on the column's name and first values."""
        suggestions: dict[str, dict[str, Any]] = {form.name: {} for form in document.columns}
        for draft in self._draft.columns:
            if draft.kind is not None and draft.fields:
                form = form_of(draft.name, {"type": draft.kind, **draft.fields})
                suggestions[draft.name] = {draft.kind: form.model_dump(exclude={"use", "name"})}
        return suggestions

    def check(self, asked: Saved) -> dict[str, Any]:
        """Save the page; return the schema file made from it, its faults and open places, and facts."""
        version, document = self.keep(asked), asked.document
        text, problems, schema = self._schema(document)
        for key, question in () if self._was_there else self._draft.questions.items():
            if not getattr(document.source, key):
                problems, schema = {"": f"How texts are written, {key}: {question}", **problems}, None
        warnings = [] if schema is None else self.warnings_about(schema)
        return {
            "version": version,
            "text": text,
            "problems": problems,
            "open": len(open_lines(text)),
            "open_columns": [form.name for form in document.columns if form.use and _is_open(form)],
            "valid": schema is not None,
            "bins": {} if schema is None else {each.name: _bins(each.labels()) for each in schema},
            "cells": None if schema is None else float(schema.n_cells),
            "warnings": [dataclasses.asdict(warning) for warning in warnings],
            "command": command_line("schema", "check", self.schema_path.name, self.data),
        }

    def warnings_about(self, schema: Schema) -> list[SchemaWarning]:
        """List what a build would lose. Reads again only what has changed since the last check."""
        versions = tuple(file.stat().st_mtime_ns for file in files_of(self.data))
        state = (versions, schema.source)
        if self._checked_state != state:
            self._checked_state, self._checked = state, {}
        changed = [each for each in schema if each not in self._checked]
        if changed:
            warnings = check_table(self.data, Schema(changed, source=schema.source))
            self._checked |= {
                each: [one for one in warnings if one.attribute == each.name] for each in changed
            }
            self._about_table = [one for one in warnings if not one.attribute]
        return blocking_first([*self._about_table, *(one for each in schema for one in self._checked[each])])

    def _schema(self, document: Document) -> tuple[str, dict[str, str], Schema | None]:
        """The text, the problem of each attribute ("" for the whole schema), and the schema if valid."""
        fields: list[tuple[str, dict[str, Any]]] = []
        problems: dict[str, str] = {}
        for form in (form for form in document.columns if form.use):
            try:
                described = fields_of(form)
            except SchemaError as problem:
                problems[form.name] = _about(problem, form.name)
                described = {"type": form.kind, **dict.fromkeys(("min", "max"))}
            fields.append((form.name, described))
        text = schema_text(document, fields)
        for name, described in fields:
            if name not in problems and (wrong := self._problem_of(document, name, described)) is not None:
                problems[name] = wrong
        if problems:
            return text, problems, None
        try:
            return text, problems, Schema.from_toml(text, self.folder, self.schema_path.name)
        except SchemaError as problem:
            return text, {"": str(problem)}, None

    def _problem_of(self, document: Document, name: str, fields: dict[str, Any]) -> str | None:
        """The fault of one attribute by itself, or None."""
        open_keys = _open_keys(fields)
        if "values" in open_keys:
            return "List the possible values."
        if {"min", "max"} & set(open_keys):
            return "Enter the lowest and the highest possible value."
        if open_keys:
            return f"Fill in {' and '.join(open_keys)}."
        try:
            Schema.from_toml(schema_text(document, [(name, fields)]), self.folder)
        except SchemaError as problem:
            return _about(problem, name)
        return None

    def schema_of(self, document: Document) -> tuple[str, Schema]:
        """The text and the schema. Raises a SchemaError where anything is wrong."""
        text, problems, schema = self._schema(document)
        if schema is None:
            listed = "; ".join(f"{name}: {problem}".removeprefix(": ") for name, problem in problems.items())
            raise SchemaError(f"The schema is not complete. {listed[:1_000]}")
        return text, schema

    def save(self, asked: Described) -> dict[str, Any]:
        """Write the schema file, and return its path."""
        self.save_schema(asked.document)
        return {"path": str(self.schema_path)}

    def save_schema(self, document: Document) -> None:
        """Write the schema file, unless it states this schema already."""
        text, schema = self.schema_of(document)
        try:
            if self._was_there:
                schema.save(self.schema_path)
            else:
                self.schema_path.write_text(text, encoding="utf-8")
        except OSError as problem:
            path, reason = str(self.schema_path), problem.strerror or problem
            raise SchemaError(f"Cannot write {path!r}: {reason}.") from None
        if self.state_path.exists():
            self.state_path.touch()  # newer than the file made from it

    def learn(self, asked: Learning) -> dict[str, Any]:
        """Forms of columns filled in by learning, which is charged before it reads a value.

        They are saved at once, so that no other tab can pay again.
        """
        saved = Saved(document=asked.document, settings=asked.settings, version=asked.version)
        with self._paying:
            saved.version = self.keep(saved)
            document, columns, (epsilon, delta) = saved.document, asked.columns, asked.exact()
            by_name = {form.name: form for form in document.columns}
            if not columns or set(columns) - by_name.keys():
                raise DataError("Choose the columns to learn about.")
            kinds = {name: by_name[name].kind for name in columns}
            limits = Contributions(asked.privacy_unit, asked.max_rows)
            text = TextFormat.from_dict(source_of(document.source))
            receipts, terms = list[Receipt](), (self.table, self.data, kinds, epsilon, delta, limits, text)
            learnt = learn_charged(self.ledger, *terms, resume=None, on_charge=receipts.append)
            known = {
                name: form_of(name, attribute.to_dict()).model_copy(update={"use": by_name[name].use})
                for name, attribute in learnt.attributes.items()
            }
            document.columns = [known.get(form.name, form) for form in document.columns]
            for key, cost in (("learnt_epsilon", epsilon), ("learnt_delta", delta)):
                if total := Fraction(document.learnt.get(key, 0)) + cost:
                    document.learnt[key] = str(total)
            version = self.keep(saved)
            receipts[0].name_view(None)
        learning = {"learn_bounds_epsilon": asked.epsilon, "learn_delta": asked.delta.strip()}
        options = {"columns": ",".join(columns), **learning, **asked.who(), **self.ledger_options}
        return {
            "columns": {name: form.model_dump(exclude={"use"}) for name, form in known.items()},
            "open": [name for name in columns if name not in known],
            "learnt": document.learnt,
            "version": version,
            "ledger": self.budget(),
            "command": command_line("schema", "draft", self.data, **options),
        }

    def budget(self) -> dict[str, Any]:
        """The budget spent on the table, and the rest."""
        limit, spent = self.ledger.limit(self.table), self.ledger.spent(self.table)
        return {
            "table": self.table,
            "path": str(self.ledger.path.resolve()),
            "exists": self.ledger.path.exists(),
            "spent": float(spent),
            "limit": None if limit.epsilon is None else float(limit.epsilon),
            "left": None if limit.epsilon is None else float(limit.epsilon - spent),
            "charges": [
                {"purpose": each.purpose, "epsilon": float(each.epsilon), "when": each.charged_at}
                | {"state": each.state, "view": each.view or ""}
                for each in self.ledger.charges(self.table)
            ],
        }

    def estimate(self, asked: Forecast) -> dict[str, Any]:
        """The errors to expect from a budget. Reads the schema only."""
        from hdpview.forecast import estimate

        epsilon, delta = asked.exact()
        _, schema = self.schema_of(asked.document)
        forecast = estimate(schema, asked.rows, epsilon, delta=delta or None, max_rows=asked.max_rows)
        stated = {"schema": self.schema_path.name, "rows": asked.rows, "epsilon": asked.epsilon}
        options = {**stated, "delta": asked.delta if delta else "", **asked.who(), "privacy_unit": ""}
        return {**forecast.as_dict(), "command": command_line("estimate", **options)}


def _about(problem: SchemaError, name: str) -> str:
    """A problem's message without the file and attribute, which the page shows beside it."""
    return str(problem).split(f"Attribute {name!r}: ", 1)[-1].removeprefix("the schema: ")


def _is_open(form: ColumnForm) -> bool:
    with suppress(SchemaError):
        return bool(_open_keys(fields_of(form)))
    return False


def _open_keys(fields: dict[str, Any]) -> list[str]:
    return [key for key, value in fields.items() if value is None or value == [None]]


def _bins(labels: list[str]) -> dict[str, Any]:
    listed = labels if len(labels) <= _MOST_BINS_SHOWN else [*labels[:3], "…", *labels[-2:]]
    return {"n": len(labels), "shown": listed}
