"""Damaged or hostile manifests: each is refused with a message, or opens as a view that can be used."""

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stored import a_mixture, a_view, open_and_use, rewrite

from hdpview.errors import ViewFileError
from hdpview.pview import PView
from hdpview.view import manifest
from hdpview.view.contents import Facts, PartFacts, packed
from hdpview.view.file import MANIFEST_KEY
from hdpview.view.manifest import to_dict

HUGE = "9" * 999
NAN, INFINITY = float("nan"), float("inf")
NUMBERS = packed(np.arange(9, dtype=np.uint16))
MANY = packed(np.zeros(1_000_000, np.int64))
KEPT: dict[str, Any] = {"purpose": "x", "epsilon": "1/10", "times": 1}

# Path in the manifest, and values there that must be refused: of the wrong type or range, or in contradiction
# with other fields. The checksum fits each of them.
REFUSED: dict[str, list[Any]] = {
    "schema": [{"attributes": {}}, []],
    "schema attributes age type": ["intger"],
    "schema attributes age max": [90],
    "schema attributes x max": [10**400],
    "schema attributes extra": [{"type": "boolean"}],
    "private": [True, 0],
    "not_private_because": [[]],
    "neighbours": ["tables that differ by one value"],
    "delta": [1e-9, "1/10", False],
    "epsilon": ["1/5", "0", 0.1, "1/0", "1e999999999", "nan", HUGE, f"1/{HUGE}"],
    "spending": [{}, [], [{**KEPT, "purpose": 1}], [{**KEPT, "times": -1}], [{**KEPT, "times": True}],
        [{**KEPT, "epsilon": "-1/10"}, {**KEPT, "epsilon": "2/10"}], [KEPT] * 1_001],
    "max_rows": [0, -1, True, "1"],
    "parts 0 noise_scale": [0, -1.0, True, "1", NAN, INFINITY, 10**400, 1e300, 1e17, None],
    "method": ["hdpview"],
    "method settings": [[1], {"a": "b"}, {"a": NAN}, {"a": True}],
    "method name": ["x" * 1_001],
}  # fmt: skip
# The same, for a mixture.
REFUSED_OF_A_MIXTURE: dict[str, list[Any]] = {
    "components": ["forest", "blocks"],
    "parts": [[]],
    "parts 0 bins": [[None]],
    "parts 0 bins 2": [{"bins": MANY, "shape": MANY}, {"bins": NUMBERS}, None],
    "parts 0 quality": [{}],
    "parts 0 quality factors": [[0.1] * 3, [0.1] * 3 + [-0.1], [0.1] * 3 + [1e300], [NAN] * 4],
    "parts 0 quality within": [{"a": INFINITY}],
    "parts 0 quality measured": [1],
    "parts 0 tables": [{}, [], [{}] * 100_001],
    # The last table is of two attributes.
    "parts 0 tables -1 attributes": [[3, 2], [2, 2], [2, 99], [-1, 3], [2.0, 3.0], []],
    "parts 0 tables -1 bins": [[], [NUMBERS, NUMBERS]],
    "parts 0 tables -1 counts": [MANY, packed(np.zeros(2, np.int64)), "AAAA", "not base 64 ☃", [1, 2, 3],
        packed(np.full(2_000, 2**62, np.int64))],
    "parts 0 tables -1 noise": ["uniform"],
    "parts 0 tables -1 scale": [0.0, -3.0, NAN, 1e300],
}  # fmt: skip


def put(path: str | tuple[Any, ...], value: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    keys = (
        path if isinstance(path, tuple) else [int(k) if k.lstrip("-").isdigit() else k for k in path.split()]
    )

    def change(content: dict[str, Any]) -> dict[str, Any]:
        content = copy.deepcopy(content)
        place: Any = content
        for key in keys[:-1]:
            place = place[key]
        if value is ...:
            del place[keys[-1]]
        else:
            place[keys[-1]] = value
        return content

    return change


@pytest.mark.parametrize(
    ("make", "place", "value"),
    [
        pytest.param(make, place, value, id=place)
        for make, table in ((a_view, REFUSED), (a_mixture, REFUSED_OF_A_MIXTURE))
        for place, values in table.items()
        for value in values
    ],
)
def test_wrong_facts_are_refused(tmp_path, make, place, value):
    make().save(tmp_path / "v.pview")
    rewrite(tmp_path / "v.pview", change=put(place, value))
    with pytest.raises(ViewFileError, match=r"damaged|columns are not those"):
        PView.open(tmp_path / "v.pview")


def required_fields(model: type[Facts]) -> list[str]:
    return [f"parts 0 {name}" for name, field in model.model_fields.items() if field.is_required()]


OPTIONAL = {"format_version", "max_rows", "count_column", "choice"}
REQUIRED = sorted(set(to_dict(a_view().manifest)) - OPTIONAL)
OF_METHOD = [f"method {name}" for name in ("name", "settings", "parameters", "focus")]


@pytest.mark.parametrize("field", [*REQUIRED, *OF_METHOD, *required_fields(PartFacts)])
def test_every_required_field_is_missed_and_typed(path, field):
    before = path.read_bytes()
    for wrong in (..., {"no": [object.__name__]}):
        path.write_bytes(before)
        rewrite(path, change=put(field, wrong))
        with pytest.raises(ViewFileError, match="damaged"):
            PView.open(path)


def places(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = content.items() if isinstance(content, dict) else enumerate(content[:3])
    for key, value in items if isinstance(content, (dict, list)) else ():
        if isinstance(value, (dict, list)):
            yield from places(value, (*path, key))
        else:
            yield (*path, key)


EXTREME_NUMBERS = [0, -1, 1, 2**63, 10**300, 10**400, 0.5, 1e300, 1e-300, NAN, INFINITY]
EXTREME = st.sampled_from([None, True, *EXTREME_NUMBERS, "", "1/3", "\ud800\x1b[31m", HUGE])
VALUES = st.recursive(
    EXTREME | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.parametrize("make", [a_view, a_mixture])
def test_any_change_of_a_manifest_is_refused_or_usable(make, tmp_path):
    path = tmp_path / "v.pview"
    make().save(path)
    before, metadata = path.read_bytes(), pq.read_table(path).schema.metadata
    content = json.loads(metadata[MANIFEST_KEY])
    n_opened = 0

    @given(st.sampled_from(list(places(content))), VALUES | st.just(...))
    def check(where: tuple[Any, ...], value: Any) -> None:
        nonlocal n_opened
        path.write_bytes(before)
        rewrite(path, change=put(where, value))
        n_opened += open_and_use(path)

    check()
    assert n_opened > 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"format_version": 5}, r"format version 5; this hdpview reads version 2\. Open it with"),
        ({"format_version": "2"}, "format version 2"),
        ({}, "format version None"),
        ([], "format version None"),
        (b"{", "not valid JSON"),
        (b"\xff\xfe\x00", "not valid JSON"),
        (b"[" * 200_000, "not valid JSON"),
        (b'{"format_version": ' + b"9" * 10_000 + b"}", "not valid JSON|format version"),
        (b'{"format_version": 2, "checksum": "0", "schema": ' + b"[" * 900 + b"]" * 900 + b"}", "damaged"),
    ],
)
def test_other_versions_and_broken_json_are_refused(path, content, message):
    rewrite(path, change=lambda _: content)
    with pytest.raises(ViewFileError, match=message):
        PView.open(path)


def test_a_giant_manifest_is_refused(path, monkeypatch):
    monkeypatch.setattr(manifest, "MAX_MANIFEST_BYTES", 100)
    with pytest.raises(ViewFileError, match=r"The manifest is larger than .* MB; hdpview did not write"):
        PView.open(path)
