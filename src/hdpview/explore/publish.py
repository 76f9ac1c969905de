"""One page that answers without a server: the explorer's page, the view's released numbers, and an engine in
JavaScript.

The page contains the data of the view's file except the counts of the released tables, which only guaranteed
intervals need. It uses no network: its content security policy allows only the loader that it contains, by
hash, and the scripts that the loader unpacks.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import zlib
from collections.abc import Mapping
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdpview.domain import Attribute, Category, Integer, Ordered
from hdpview.explore.bundle import bundled
from hdpview.explore.page_answers import Json, describe_schema
from hdpview.pview import PView
from hdpview.query.bounds.noise import NoiseLaw
from hdpview.query.errors.codes import RARE_SHARE
from hdpview.query.errors.ends import typical_tail
from hdpview.query.errors.kernels import MIN_ERROR_RECORDS, Piece, error_model
from hdpview.query.question.conditions import note_beyond, note_on_other
from hdpview.view.blocks import Blocks
from hdpview.view.contents import SHARE_UNITS, packed
from hdpview.view.data import ViewPart
from hdpview.view.file import checksum_of, written_whole
from hdpview.view.mixture import Mixture

_CONFIDENCE = 0.95


def publish(view: PView, path: str | PathLike[str], name: str | None = None) -> None:
    """Write the page atomically. name: of the view on the page; by default its file's name."""
    text = page(view, name or f"{Path(path).stem}.pview").encode()
    with written_whole(path) as file:
        file.write(text)


def page(view: PView, name: str) -> str:
    """The whole page as text."""
    loader = _script("loader")
    digest = base64.b64encode(hashlib.sha256(loader.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}' blob:; worker-src blob:; "
        "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    card = view.privacy_card()
    facts = {"checksum": checksum_of(view), "card": card.sections, "title": card.title}
    texts = {
        "content": compact_json(page_content(view, name)),
        "engine": _script("worker"),
        "facts": compact_json(facts),
        "style": _asset("style.css"),
        "app": _script("app"),
    }
    data = [f'<script type="text/plain" id="{key}">{_zipped(text)}</script>' for key, text in texts.items()]
    charset = '<meta charset="utf-8" />'
    replaced = {
        charset: f'{charset}\n<meta http-equiv="Content-Security-Policy" content="{policy}" />',
        "<title>hdpview explorer</title>": f"<title>{html.escape(name)} – hdpview</title>",
        '<link rel="stylesheet" href="style.css" />': "",
        '<script type="module" src="app.js"></script>': "",
        "</body>": "\n".join([*data, f'<script type="module">{loader}</script>', "</body>"]),
    }
    document = _INDENTATION.sub("", _asset("index.html"))
    for old, new in replaced.items():
        assert document.count(old) == 1
        document = document.replace(old, new)
    return document


def page_content(view: PView, name: str) -> Json:
    """The data that the page's engine computes with. Arrays are packed as in the file of a view."""
    return {
        "schema": describe_schema(name, view),
        "axes": [_axis(attribute) for attribute in view.schema],
        "parts": [_part(part) for part in view.parts],
        "tail": typical_tail(_CONFIDENCE),
        "confidence": _CONFIDENCE,
    }


def _axis(attribute: Attribute) -> Json:
    """Data for conditions on an attribute, besides its labels. note: on `other` and on values beyond the
    bounds.
    """
    other, note = None, note_beyond(attribute) if isinstance(attribute, Ordered) else None
    if isinstance(attribute, Category) and attribute.other is not None:
        other, note = attribute.unknown_code, note_on_other(attribute)
    return {
        "nValues": attribute.n_values,
        # True if codes stand for single whole numbers, not for bins.
        "single": isinstance(attribute, Integer) and attribute.every == 1,
        "other": other,
        "note": note,
    }


def _part(part: ViewPart) -> Json:
    blocks = part.components
    if not isinstance(blocks, Blocks):
        return _mixture(blocks, part)
    ends = {"lower": blocks.lower.T, "upper": blocks.upper.T}
    return {
        "bounds": [{key: _packed(codes[a]) for key, codes in ends.items()} for a in range(len(blocks.sizes))],
        "weight": _packed(blocks.weight),
        "noisy": _packed(blocks.noisy_counts.astype(np.float64)),
        "noiseVariance": NoiseLaw(blocks.noise_scale).variance,
        "factors": list(part.quality.factors),
    }


def _mixture(mixture: Mixture, part: ViewPart) -> Json:
    model = error_model(part)
    # Stored as columns, which are smaller than rows that repeat their keys.
    pieces = {name: [getattr(piece, name) for piece in model.pieces.values()] for name in Piece._fields}
    return {
        "weight": _packed(mixture.weight),
        "shares": [_shares(mixture, a) for a in range(len(mixture.sizes))],
        "tables": [list(table.attributes) for table in part.tables],
        "bins": [_packed(bins) for own in model.binnings for bins in own],
        "attributeOfBins": [a for a, own in enumerate(model.binnings) for _ in own],
        "keptOfCodes": [_packed(own[0]) for own in model.kept],
        "keptOfBins": [_packed(bins) for own in model.kept for bins in own[1:]],
        "cycles": [[[_packed(bins), _packed(lost)] for bins, lost in own] for own in model.cycles],
        "totalVariance": model.total_variance,
        "codeVariance": model.code_variance.tolist(),
        "levels": model.levels.tolist(),
        "rareShare": RARE_SHARE,
        "minErrorRecords": MIN_ERROR_RECORDS,
        "pieces": {"attributes": list(model.pieces), **pieces},
        "residuals": [
            {"attributes": own, "binnings": each.binnings, "cells": _packed(each.cells)}
            for own, each in model.residuals.items()
        ],
    }


def _shares(mixture: Mixture, a: int) -> Json:
    units = np.rint(mixture.share[a] * SHARE_UNITS)
    exact = bool((units / SHARE_UNITS == mixture.share[a]).all())
    share = {**_packed(units.astype(np.int32)), "divide": SHARE_UNITS} if exact else _packed(mixture.share[a])
    bins, within = mixture.bin_of_code[a], mixture.within_bin_share[a]
    return {"share": share, "binOfCode": _packed(bins), "shape": _packed(within)}


def _packed(array: NDArray[Any]) -> Json:
    """Whole numbers below 65,536 as two bytes each, all others as doubles."""
    whole = array.dtype.kind in "iu"
    return {"packed": packed(array.astype(np.uint16 if whole else np.float64)), "kind": "u" if whole else "f"}


_MOVED = {ord(each): ord(each) + 128 for each in "\0\r<"}
_INDENTATION = re.compile(r"^ +", re.MULTILINE)


def _script(module: str) -> str:
    """A module and its imports as one script that an HTML parser reads as one script."""
    script = bundled(module, lambda name: _asset(f"{name}.js"))
    assert "</script" not in script.lower()
    assert "<!--" not in script
    return script


def _asset(name: str) -> str:
    """A file of the published page: its own if it has one, otherwise that of the served page."""
    files = resources.files("hdpview.explore")
    published = files / "published" / name
    return (published if published.is_file() else files / "static" / name).read_text("utf-8")


def _zipped(text: str) -> str:
    """A text compressed by zlib, seven bits to a character: as UTF-8, an eighth smaller than in base 64.

    The three characters that an HTML parser would change or take for a tag are moved up by 128.
    """
    bits = np.unpackbits(np.frombuffer(zlib.compress(text.encode(), 9), np.uint8))
    rows = np.pad(bits, (0, -len(bits) % 7)).reshape(-1, 7)
    return (np.packbits(rows, axis=1) >> 1).tobytes().decode("ascii").translate(_MOVED)


def compact_json(content: Mapping[str, Any]) -> str:
    """JSON without spaces; NaN and infinity are errors."""
    return json.dumps(content, separators=(",", ":"), allow_nan=False)
