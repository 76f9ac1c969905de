"""Independent implementations to compare with: MST and AIM of OpenDP (`opendp[mbi]`). They promise (ε, δ), not ε alone.

They are not methods of this library: their noise and their budget are their own. Each runs in a process with a time limit,
under this interpreter (extra `peers`) or under the one that HDPVIEW_PEERS_PYTHON names. What comes back are synthetic records.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from hdpview.counts.sparse import SparseCounts, code_type
from hdpview.errors import MethodError, unknown_name
from hdpview.query.records import RecordRelease

PEERS = ("mst", "aim")
DELTA = 1e-9
_PROGRAM = Path(__file__).with_name("peer_process.py")


def label(name: str, delta: float = DELTA) -> str:
    """How a peer is written in tables: its promise is weaker than that of the others, and the name says so."""
    return f"{name} (δ = {delta:g})"


def interpreter() -> str | None:
    """The Python that can run the peers; None where there is none."""
    named = os.environ.get("HDPVIEW_PEERS_PYTHON")
    if named:
        return named
    return sys.executable if find_spec("mbi") is not None and find_spec("polars") is not None else None


def peer_release(name: str, counts: SparseCounts, epsilon: float, delta: float = DELTA, seconds: float = 600.0) -> RecordRelease:
    """Synthetic records of a peer with a budget of (ε, δ) per record added or removed.

    Raises MethodError where it is not installed, fails, or takes longer than `seconds`.
    """
    if name not in PEERS:
        raise MethodError(unknown_name("peer", name, PEERS, "The peers are"))
    python = interpreter()
    if python is None:
        raise MethodError("The peers are not installed. Use `pip install 'hdpview[peers]'`, or name a Python in HDPVIEW_PEERS_PYTHON.")
    sizes = counts.schema.sizes
    with tempfile.TemporaryDirectory(prefix="hdpview-peer-") as folder:  # mode 0700: the records go through it
        source, target = Path(folder, "in.npz"), Path(folder, "out.npz")
        exact_records = np.repeat(counts.exact_codes, counts.exact_counts, axis=0)
        np.savez(source, codes=exact_records, sizes=np.array(sizes), name=name, epsilon=epsilon, delta=delta)
        try:
            done = subprocess.run([python, str(_PROGRAM), str(source), str(target)], capture_output=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            raise MethodError(f"{label(name, delta)} did not finish within {seconds:g} seconds. Use a larger limit.") from None
        if done.returncode != 0 or not target.is_file():
            raise MethodError(f"{label(name, delta)} failed with exit code {done.returncode}; run it by itself to see why.")
        with np.load(target, allow_pickle=False) as found:
            return RecordRelease(found["codes"].astype(code_type(counts.schema)), float(found["weight"]), sizes)
