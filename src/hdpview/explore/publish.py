"""One page that answers without a server: the explorer's page, the view's released numbers, and an engine in
JavaScript.

The page holds what the file of the view holds, but for the counts of the released tables, which only
guaranteed intervals need. It reaches no network: its content security policy allows the loader that it
carries, by hash, and the scripts that the loader unpacks, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
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
from hdpview.errors import ViewFileError
from hdpview.explore.answers import Json, describe_schema
from hdpview.explore.bundle import bundled
from hdpview.pview import PView
from hdpview.query.bounds.noise import NoiseLaw
from hdpview.query.errors.codes import RARE_SHARE
from hdpview.query.errors.ends import typical_tail
from hdpview.query.errors.kernels import MIN_ERROR_RECORDS, UNEVEN_WITHIN_BIN, error_model
from hdpview.query.question.conditions import Condition, note_on
from hdpview.view.blocks import Blocks
from hdpview.view.contents import SHARE_UNITS, packed
from hdpview.view.data import ViewPart
from hdpview.view.file import checksum_of, written_whole
from hdpview.view.mixture import Mixture

_CONFIDENCE = 0.95


def publish(view: PView, path: str | PathLike[str], name: str | None = None) -> None:
    """Write the page, whole or not at all. name: what the page calls the view; its file's name by default."""
    target = Path(path)
    text = page(view, name or f"{target.stem}.pview").encode()
    try:
        with written_whole(target) as file:
            file.write(text)
    except OSError as problem:
        raise ViewFileError(
            f"Cannot write {str(path)!r}: {problem.strerror or problem}. Name a file in a folder that "
            "you may write to."
        ) from None


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
    data = [f'<script type="application/json" id="facts">{_json(facts)}</script>']
    texts = {"content": _json(page_content(view, name)), "engine": _script("worker"), "app": _script("app")}
    data += [f'<script type="text/plain" id="{key}">{_zipped(text)}</script>' for key, text in texts.items()]
    replaced = {
        '<meta charset="utf-8" />': '<meta charset="utf-8" />\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}" />',
        "<title>hdpview explorer</title>": f"<title>{html.escape(name)} – hdpview</title>",
        '<link rel="stylesheet" href="style.css" />': f"<style>{_asset('style.css')}</style>",
        '<script type="module" src="app.js"></script>': "",
        "</body>": "\n".join([*data, f'<script type="module">{loader}</script>', "</body>"]),
    }
    document = _INDENTATION.sub("", _asset("index.html"))
    for old, new in replaced.items():
        assert document.count(old) == 1
        document = document.replace(old, new)
    return document


def page_content(view: PView, name: str) -> Json:
    """What the engine computes from. Arrays are packed as in the file of a view."""
    return {
        "schema": describe_schema(name, view),
        "axes": [_axis(attribute) for attribute in view.schema],
        "parts": [_part(part) for part in view.parts],
        "tail": typical_tail(_CONFIDENCE),
        "confidence": _CONFIDENCE,
    }


def _axis(attribute: Attribute) -> Json:
    """What conditions on an attribute need beside its labels. note: on `other` and on values beyond."""
    other = None
    gathered = Condition(ranges=((math.inf, math.inf),))
    if isinstance(attribute, Category) and attribute.other is not None:
        other = attribute.code_of(attribute.other)
        gathered = Condition(codes=frozenset({other} if other is not None else ()))
    return {
        "edges": attribute.edges.tolist() if isinstance(attribute, Ordered) else None,
        "nValues": attribute.n_values,
        # Whether codes stand for single whole numbers, not for bins.
        "single": isinstance(attribute, Integer) and attribute.every == 1,
        "other": other,
        "note": note_on(attribute, gathered),
    }


def _part(part: ViewPart) -> Json:
    components = part.components
    if isinstance(components, Blocks):
        return _blocks(components, list(part.quality.factors))
    return _mixture(components, part)


def _blocks(blocks: Blocks, factors: list[float]) -> Json:
    bounds = [
        {"lower": _packed(blocks.lower[:, a]), "upper": _packed(blocks.upper[:, a])}
        for a in range(len(blocks.sizes))
    ]
    return {
        "bounds": bounds,
        "weight": _packed(blocks.weight),
        "noisy": _packed(blocks.noisy_counts.astype(np.float64)),
        "noiseVariance": NoiseLaw(blocks.noise_scale).variance,
        "factors": factors,
    }


def _mixture(mixture: Mixture, part: ViewPart) -> Json:
    model = error_model(part)
    first = np.cumsum([0, *map(len, model.binnings)])  # of each attribute's binnings in a list of all
    pieces = [
        {
            "attributes": list(piece.attributes),
            "bins": [int(first[a]) + n - 1 for a, n in zip(piece.attributes, piece.binnings, strict=True)],
            **{name: getattr(piece, name) for name in ("noise", "kept", "within", "scatter")},
        }
        for piece in model.pieces.values()
    ]
    return {
        "weight": _packed(mixture.weight),
        "shares": [_shares(mixture, a) for a in range(len(mixture.sizes))],
        "tables": [list(table.attributes) for table in part.tables],
        "bins": [_packed(bins) for own in model.binnings for bins in own],
        "attributeOfBins": [a for a, own in enumerate(model.binnings) for _ in own],
        "keptOfCodes": [_packed(own[0]) for own in model.kept],
        "keptOfBins": [_packed(bins) for own in model.kept for bins in own[1:]],
        "cycles": [[_packed(bins) for bins in own] for own in model.cycles],
        "totalVariance": model.total_variance,
        "codeVariance": model.code_variance.tolist(),
        "levels": model.levels.tolist(),
        "rareShare": RARE_SHARE,
        "minErrorRecords": MIN_ERROR_RECORDS,
        "unevenWithinBin": UNEVEN_WITHIN_BIN,
        "pieces": pieces,
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


_INDENTATION = re.compile(r"^ +", re.MULTILINE)


def _script(module: str) -> str:
    """A module and all that it imports as one script that no HTML parser takes for anything else."""
    script = bundled(module, lambda name: _asset(f"{name}.js"))
    assert "</script" not in script.lower()
    assert "<!--" not in script
    return script


def _asset(name: str) -> str:
    """A file of the published page: its own where it has one, else that of the served page."""
    files = resources.files("hdpview.explore")
    own = files / "published" / name
    return (own if own.is_file() else files / "static" / name).read_text("utf-8")


def _zipped(text: str) -> str:
    """A text compressed by zlib, in base 64."""
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _json(content: Mapping[str, Any]) -> str:
    """JSON that no HTML parser takes for the end of the element around it."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c")
