"""Manifests that do not hold: each is refused in words, and what is opened can be used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from stored import a_mixture, open_and_use, rewrite

from hdpview.errors import ViewFileError
from hdpview.pview import PView
from hdpview.view import manifest_json
from hdpview.view.contents import packed


def put(*keys: str | int, value: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def change(content: dict[str, Any]) -> dict[str, Any]:
        place: Any = content
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
        (put("format_version", value=5), r"format version 5; this hdpview reads version 2\. Open it with"),
        (put("format_version", value=1), "format version 1; this hdpview reads version 2"),
        (put("format_version", value="2"), "format version 2"),
        (put("format_version", value=None), "format version None"),
        (without("format_version"), "format version None"),
        (lambda content: [content], "format version None"),
        (lambda content: b"null", "format version None"),
        (lambda content: b"{", "not valid JSON"),
        (lambda content: b"\xff\xfe\x00", "not valid JSON"),
        (lambda content: b"[" * 200_000, "not valid JSON"),
        (
            lambda content: (
                b'{"format_version": 2, "checksum": "0", "schema": ' + b"[" * 900 + b"]" * 900 + b"}"
            ),
            "damaged",
        ),
        (lambda content: b'{"format_version": ' + b"9" * 10_000 + b"}", "not valid JSON|format version"),
        (without("schema"), "the field 'schema' is missing or invalid"),
        (without("spending"), "the field 'spending' is missing"),
        (without("private"), "the field 'private' is missing"),
        (put("schema", value={"attributes": {}}), "at least one attribute"),
        (put("schema", value=[]), "damaged"),
        (put("schema", "attributes", "age", "type", value="intger"), "Did you mean 'integer'"),
        (put("schema", "attributes", "age", "max", value=90), "a block|cover|columns"),
        (put("schema", "attributes", "x", "max", value=10**400), "damaged"),
        (
            put("schema", "attributes", "extra", value={"type": "boolean"}),
            "its columns are not those of its schema",
        ),
        (put("private", value=True), "damaged"),
        (put("private", value=0), "damaged"),
        (put("not_private_because", value=[]), "damaged"),
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
        (put("parts", 0, "noise_scale", value=0), "damaged"),
        (put("parts", 0, "noise_scale", value=-1.0), "damaged"),
        (put("parts", 0, "noise_scale", value=True), "damaged"),
        (put("parts", 0, "noise_scale", value="1"), "damaged"),
        (put("parts", 0, "noise_scale", value=float("nan")), "damaged"),
        (put("parts", 0, "noise_scale", value=float("inf")), "damaged"),
        (put("parts", 0, "noise_scale", value=10**400), "damaged"),
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
        pytest.param(put("parts", 0, "noise_scale", value=1e300), id="noise of 1e300"),
        pytest.param(put("parts", 0, "noise_scale", value=1e17), id="noise of 1e17"),
        pytest.param(put("parts", 0, "noise_scale", value=1e-300), id="noise of 1e-300"),
        pytest.param(put("parts", 0, "noise_scale", value=1e-3), id="noise of 1e-3"),
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
        ViewFileError, match=r"The manifest is larger than .* MB; hdpview did not write this file"
    ):
        PView.open(path)


def table_of_pair(key: str, value: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A change in the last released table, which is of a pair of attributes."""
    return put("parts", 0, "tables", -1, key, value=value)


NUMBERS = packed(np.arange(9, dtype=np.uint16))
MANY = packed(np.zeros(1_000_000, np.int64))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(put("components", value="forest"), id="unknown components"),
        pytest.param(put("components", value="blocks"), id="the other kind of components"),
        pytest.param(put("parts", value=[]), id="no parts"),
        pytest.param(lambda c: {**c, "parts": c["parts"] * 2}, id="more parts than one"),
        pytest.param(put("parts", 0, "bins", value=[None]), id="bins of one attribute only"),
        pytest.param(put("parts", 0, "bins", 2, value={"bins": MANY, "shape": MANY}), id="far too many bins"),
        pytest.param(put("parts", 0, "bins", 2, value={"bins": NUMBERS}), id="bins without a shape"),
        pytest.param(put("parts", 0, "bins", 2, value=None), id="a bin for each code where there was none"),
        pytest.param(put("parts", 0, "quality", value={}), id="no quality"),
        pytest.param(put("parts", 0, "quality", "factors", value=[0.1] * 3), id="three factors"),
        pytest.param(put("parts", 0, "quality", "factors", value=[0.1] * 3 + [-0.1]), id="a negative factor"),
        pytest.param(put("parts", 0, "quality", "factors", value=[0.1] * 3 + [1e300]), id="a huge factor"),
        pytest.param(
            put("parts", 0, "quality", "factors", value=[float("nan")] * 4), id="factors not numbers"
        ),
        pytest.param(put("parts", 0, "quality", "within", value={"a": float("inf")}), id="an infinite error"),
        pytest.param(put("parts", 0, "quality", "measured", value=1), id="measured is not a truth value"),
        pytest.param(put("parts", 0, "tables", value={}), id="tables that are no list"),
        pytest.param(put("parts", 0, "tables", value=[]), id="no tables"),
        pytest.param(lambda c: (c["parts"][0]["tables"].pop(0), c)[1], id="no histogram of an attribute"),
        pytest.param(put("parts", 0, "tables", value=[{}] * 100_001), id="absurdly many tables"),
        pytest.param(table_of_pair("attributes", [3, 2]), id="attributes out of order"),
        pytest.param(table_of_pair("attributes", [2, 2]), id="an attribute twice"),
        pytest.param(table_of_pair("attributes", [2, 99]), id="an attribute that is not there"),
        pytest.param(table_of_pair("attributes", [-1, 3]), id="a negative attribute"),
        pytest.param(table_of_pair("attributes", [2.0, 3.0]), id="attributes that are no whole numbers"),
        pytest.param(table_of_pair("attributes", []), id="a table of nothing"),
        pytest.param(table_of_pair("bins", []), id="a table without bins"),
        pytest.param(table_of_pair("bins", [NUMBERS, NUMBERS]), id="bins of other attributes"),
        pytest.param(table_of_pair("counts", MANY), id="too many counts"),
        pytest.param(table_of_pair("counts", packed(np.zeros(2, np.int64))), id="too few counts"),
        pytest.param(table_of_pair("counts", "AAAA"), id="counts that are not packed"),
        pytest.param(table_of_pair("counts", "not base 64 ☃"), id="counts that are no text in base 64"),
        pytest.param(table_of_pair("counts", [1, 2, 3]), id="counts as a list"),
        pytest.param(
            table_of_pair("counts", packed(np.full(2_000, 2**62, np.int64))), id="counts beyond any table's"
        ),
        pytest.param(table_of_pair("noise", "uniform"), id="a law of noise that nobody knows"),
        pytest.param(table_of_pair("scale", 0.0), id="noise of scale 0"),
        pytest.param(table_of_pair("scale", -3.0), id="noise of negative scale"),
        pytest.param(table_of_pair("scale", float("nan")), id="noise of no scale"),
        pytest.param(table_of_pair("scale", 1e300), id="noise of scale 1e300"),
    ],
)
def test_hostile_facts_of_a_mixture_are_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], Any]
) -> None:
    """Tables of absurd size, wrong bins and numbers that are none, with a checksum that fits: refused in
    words."""
    path = tmp_path / "m.pview"
    a_mixture().save(path)
    rewrite(path, change=change)
    with pytest.raises(ViewFileError, match="damaged"):
        PView.open(path)


def with_column(name: str, values: Callable[[pa.Table], list[Any]]) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        at, kind = table.column_names.index(name), table.schema.field(name).type
        return table.set_column(at, pa.field(name, kind), pa.array(values(table), kind))

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_column("weight", lambda t: [-1.0] * len(t)), "a weight is not a number of records"),
        (with_column("weight", lambda t: [float("nan")] * len(t)), "a weight is not a number of records"),
        (with_column("weight", lambda t: [float("inf")] * len(t)), "a weight is not a number of records"),
        (with_column("weight", lambda t: [1e300] * len(t)), "larger than any table"),
        (with_column("member", lambda t: [1] * len(t)), "the fits are not numbered from 0"),
        (with_column("member", lambda t: list(range(len(t)))[::-1]), "the fits are not numbered from 0"),
        (with_column("flag_share", lambda t: [[65_535] * 9] * len(t)), "wrong number of shares"),
        (with_column("flag_share", lambda t: [[]] * len(t)), "wrong number of shares"),
        (
            with_column(
                "wide_share", lambda t: [[0] * len(row) for row in t.column("wide_share").to_pylist()]
            ),
            "do not add up to 1",
        ),
        (lambda table: table.slice(0, 0), "parts are not those"),
        (lambda table: table.drop_columns(["member"]), "columns are not those"),
    ],
)
def test_components_that_are_no_mixture_are_refused(
    tmp_path: Path, change: Callable[[pa.Table], pa.Table], message: str
) -> None:
    """Weights that are no numbers of records, shares that are not all of a component, foreign columns: by
    name."""
    path = tmp_path / "m.pview"
    a_mixture().save(path)
    rewrite(path, change)
    with pytest.raises(ViewFileError, match=message):
        PView.open(path)
