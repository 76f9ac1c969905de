"""Rivals to compare with, behind the protocol of our own methods. They release answers, not views."""

from __future__ import annotations

from typing import Any

from hdpview import methods
from hdpview.methods import METHODS, Method
from hdpview_bench.baselines.dawa import Dawa
from hdpview_bench.baselines.hdmm import Hdmm
from hdpview_bench.baselines.histograms import Histograms
from hdpview_bench.baselines.identity import Identity
from hdpview_bench.baselines.privbayes import Privbayes
from hdpview_bench.baselines.privtree import Privtree
from hdpview_bench.baselines.ripost import Ripost

_BASELINES: tuple[type[Any], ...] = (Identity, Histograms, Dawa, Hdmm, Privbayes, Privtree, Ripost)
# Ours and theirs, by name.
ALL_METHODS: dict[str, type[Any]] = {**METHODS, **{cls.name: cls for cls in _BASELINES}}


def method_named(name: str, settings: dict[str, Any]) -> Method:
    """The method of that name, ours or a rival's, with these settings."""
    return methods.method_named(name, settings, ALL_METHODS)
