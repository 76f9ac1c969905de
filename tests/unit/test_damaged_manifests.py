"""Manifests that do not hold: each is refused in words, and what is opened can be used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stored import open_and_use, rewrite

from hdpview.errors import ViewFileError
from hdpview.pview import PView
from hdpview.view import manifest_json


def put(*keys: str, value: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def change(content: dict[str, Any]) -> dict[str, Any]:
        place = content
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = value
        return content

    return change


def without(key: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda content: {name: value for name, value in content.items() if name != key}


HUGE = "9" * 999


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("format_version", value=5), r"format version 5; this hdpview reads 1 to 4\..*newer hdpview"),
        (put("format_version", value=2), "a field is missing"),
        (put("format_version", value="1"), "damaged|format version"),
        (put("format_version", value=None), "format version None"),
        (without("format_version"), "format version None"),
        (lambda content: [content], "format version None"),
        (lambda content: b"null", "format version None"),
        (lambda content: b"{", "not valid JSON"),
        (lambda content: b"\xff\xfe\x00", "not valid JSON"),
        (lambda content: b"[" * 200_000, "not valid JSON"),
        (lambda content: b'{"format_version": 1, "schema": ' + b"[" * 900 + b"]" * 900 + b"}", "damaged"),
        (lambda content: b'{"format_version": ' + b"9" * 10_000 + b"}", "not valid JSON|format version"),
        (without("schema"), "a field is missing or of the wrong type"),
        (without("spending"), "a field is missing"),
        (without("private"), "a field is missing"),
        (put("schema", value={"attributes": {}}), "at least one attribute"),
        (put("schema", value=[]), "damaged"),
        (put("schema", "attributes", "age", "type", value="intger"), "Did you mean 'integer'"),
        (put("schema", "attributes", "age", "max", value=90), "a block|cover|columns"),
        (put("schema", "attributes", "x", "max", value=10**400), "damaged"),
        (
            put("schema", "attributes", "extra", value={"type": "boolean"}),
            "its columns are not those of its schema",
        ),
        (put("private", value=True), "wrong type|damaged"),
        (put("private", value=0), "wrong type|damaged"),
        (put("not_private_because", value=[]), "wrong type|damaged"),
        (put("neighbours", value="tables that differ by one value"), "damaged"),
        (put("delta", value=1e-9), "damaged"),
        (put("epsilon", value="1/5"), "damaged"),
        (put("epsilon", value="0"), "damaged"),
        (put("epsilon", value=0.1), "damaged"),
        (put("epsilon", value="1/0"), "damaged"),
        (put("epsilon", value="1e999999999"), "damaged"),
        (put("epsilon", value="nan"), "damaged"),
        (put("spending", value={}), "damaged"),
        (put("spending", value=[{"purpose": 1, "epsilon": "1/10", "times": 1}]), "damaged"),
        (put("spending", value=[{"purpose": "x", "epsilon": "1/10", "times": -1}]), "damaged"),
        (
            put(
                "spending",
                value=[
                    {"purpose": "x", "epsilon": "-1/10", "times": 1},
                    {"purpose": "y", "epsilon": "2/10", "times": 1},
                ],
            ),
            "damaged",
        ),
        (put("noise", "scale", value=0), "damaged"),
        (put("noise", "scale", value=-1.0), "damaged"),
        (put("noise", "scale", value=True), "damaged"),
        (put("noise", "scale", value="1"), "damaged"),
        (put("noise", "scale", value=float("nan")), "damaged"),
        (put("noise", "scale", value=float("inf")), "damaged"),
        (put("noise", "scale", value=10**400), "damaged"),
        (put("method", value="hdpview"), "damaged"),
        (put("method", "settings", value=[1]), "damaged"),
        (put("method", "settings", value={"a": "b"}), "damaged"),
        (put("method", "name", value="x" * 1_001), "damaged"),
    ],
)
def test_manifests_that_do_not_hold_are_refused(
    path: Path, change: Callable[[dict[str, Any]], Any], message: str
) -> None:
    """Later versions, broken JSON, fields that are missing, of a wrong type or at odds with each other: each
    is refused in words.
    """
    rewrite(path, change=change)
    with pytest.raises(ViewFileError, match=message):
        PView.open(path)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            lambda c: {**c, "epsilon": HUGE, "spending": [{"purpose": "x", "epsilon": HUGE, "times": 1}]},
            id="epsilon of 999 digits",
        ),
        pytest.param(
            lambda c: {
                **c,
                "epsilon": f"1/{HUGE}",
                "spending": [{"purpose": "x", "epsilon": f"1/{HUGE}", "times": 1}],
            },
            id="epsilon near 0",
        ),
        pytest.param(put("noise", "scale", value=1e300), id="noise of 1e300"),
        pytest.param(put("noise", "scale", value=1e17), id="noise of 1e17"),
        pytest.param(put("noise", "scale", value=1e-300), id="noise of 1e-300"),
        pytest.param(put("noise", "scale", value=1e-3), id="noise of 1e-3"),
        pytest.param(put("method", "settings", value={"a": 10**300}), id="setting of 300 digits"),
        pytest.param(put("count_column", value="\ud800\x1b[31m"), id="strange text"),
    ],
)
def test_what_is_opened_can_be_used(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """A manifest with extreme but well-formed numbers is refused, or its view answers questions and shows
    itself.
    """
    rewrite(path, change=change)
    open_and_use(path)


def test_a_giant_manifest_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A manifest larger than the limit is refused before it is parsed."""
    monkeypatch.setattr(manifest_json, "MAX_MANIFEST_BYTES", 100)
    with pytest.raises(
        ViewFileError, match=r"The manifest is larger than .* MB; this is not a file that hdpview wrote"
    ):
        PView.open(path)
