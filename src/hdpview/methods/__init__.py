"""Methods: ways to build a view, behind one protocol. Methods never import each other."""

from __future__ import annotations

from typing import Any

from hdpview.errors import MethodError, unknown_name
from hdpview.methods.baselines.dawa import Dawa
from hdpview.methods.baselines.hdmm import Hdmm
from hdpview.methods.baselines.histograms import Histograms
from hdpview.methods.baselines.identity import Identity
from hdpview.methods.baselines.privbayes import Privbayes
from hdpview.methods.baselines.privtree import Privtree
from hdpview.methods.baselines.ripost import Ripost
from hdpview.methods.hdpview import Hdpview
from hdpview.methods.mixture import Mixture
from hdpview.methods.protocol import Method

DEFAULT_METHOD = "mixture"

METHODS: dict[str, type[Any]] = {
    "mixture": Mixture,
    "hdpview": Hdpview,
    "identity": Identity,
    "histograms": Histograms,
    "dawa": Dawa,
    "hdmm": Hdmm,
    "privbayes": Privbayes,
    "privtree": Privtree,
    "ripost": Ripost,
}


def method_named(name: str, settings: dict[str, Any]) -> Method:
    """The method of that name with these settings."""
    if name not in METHODS:
        raise MethodError(unknown_name("method", name, METHODS, "The methods are"))
    cls = METHODS[name]
    known = list(cls.__dataclass_fields__)
    for key in settings:
        if key not in known:
            raise MethodError(unknown_name("setting", key, known, f"The method {name} has"))
    method: Method = cls(**settings)
    return method


__all__ = ["DEFAULT_METHOD", "METHODS", "Hdpview", "Method", "Mixture", "method_named"]
