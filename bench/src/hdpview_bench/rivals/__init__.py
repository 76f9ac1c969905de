"""Rivals to compare with. They release answers, not views."""

from __future__ import annotations

from typing import Any

from hdpview.methods import METHODS as OURS
from hdpview.methods import method_named as named
from hdpview.methods.protocol import Method
from hdpview_bench.rivals.dawa import Dawa
from hdpview_bench.rivals.hdmm import Hdmm
from hdpview_bench.rivals.histograms import Histograms
from hdpview_bench.rivals.identity import Identity
from hdpview_bench.rivals.privbayes import Privbayes
from hdpview_bench.rivals.privtree import Privtree
from hdpview_bench.rivals.ripost import Ripost

METHODS: dict[str, type[Any]] = {
    **OURS,
    "identity": Identity,
    "histograms": Histograms,
    "dawa": Dawa,
    "hdmm": Hdmm,
    "privbayes": Privbayes,
    "privtree": Privtree,
    "ripost": Ripost,
}


def method_named(name: str, settings: dict[str, Any]) -> Method:
    """The method or rival of that name with these settings."""
    return named(name, settings, METHODS)


__all__ = ["METHODS", "method_named"]
