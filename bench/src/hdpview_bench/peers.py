"""Independent implementations to compare with: MST and AIM of OpenDP (`opendp[mbi]`) and of `dpmm`. They
promise (ε, δ), not ε alone.

They draw their own noise and keep their own budget, and their guarantee is not checked here. Each release
runs in a process with one thread and a time limit, under this Python or one that an environment variable
names. It returns synthetic records.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from hdpview.counts.sparse import SparseCounts, code_type
from hdpview.errors import MethodError, unknown_name
from hdpview_bench.rivals.releases import RecordRelease

DELTA = 1e-9
_PROGRAM = Path(__file__).with_name("peer_process.py")
_PATIENCE = (
    5.0  # wall-clock seconds per second of CPU time, so that a busy machine does not decide what is feasible
)
_ONE_THREAD = {
    **dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS"), "1"
    ),
    "NPROC": "1",  # JAX uses this many threads
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "JAX_PLATFORMS": "cpu",
}


@dataclass(frozen=True)
class Package:
    """The package of a peer. variable: environment variable that may name a Python with the package. modules:
    the modules it needs.
    """

    variable: str
    modules: tuple[str, ...]
    installation: str

    def interpreter(self) -> str | None:
        """The Python that can run its methods; None if there is none."""
        named = os.environ.get(self.variable)
        if named:
            return named
        return sys.executable if all(find_spec(module) is not None for module in self.modules) else None

    @property
    def how_to_install(self) -> str:
        return f"It is not installed: {self.installation}, and name its Python in {self.variable}."


_OPENDP = Package(
    "HDPVIEW_PEERS_PYTHON",
    ("mbi", "polars"),
    "pip install 'hdpview-bench[peers]', or 'opendp[mbi]' and pandas in another environment",
)
_DPMM = Package(
    "HDPVIEW_DPMM_PYTHON",
    ("dpmm",),
    "pip install dpmm in an environment of its own, with Python 3.10 or 3.11",
)
PEERS = {"mst": _OPENDP, "aim": _OPENDP, "dpmm-mst": _DPMM, "dpmm-aim": _DPMM}


def label(name: str, delta: float = DELTA) -> str:
    """The label of a peer in tables. It states δ, because the guarantee is weaker than that of the others."""
    return f"{name} (δ = {delta:g})"


def package_of(name: str) -> Package:
    """The package of a peer. Raises MethodError for other names."""
    if name not in PEERS:
        raise MethodError(unknown_name("peer", name, PEERS, "The peers are"))
    return PEERS[name]


def peer_release(
    name: str, counts: SparseCounts, epsilon: float, delta: float = DELTA, seconds: float = 600.0
) -> RecordRelease:
    """Synthetic records of a peer with a budget of (ε, δ) per record added or removed.

    Raises MethodError where it is not installed, fails, or takes longer than `seconds` of computing time.
    """
    package = package_of(name)
    python = package.interpreter()
    if python is None:
        raise MethodError(f"{label(name, delta)}: {package.how_to_install}")
    sizes = counts.schema.sizes
    with tempfile.TemporaryDirectory(
        prefix="hdpview-peer-"
    ) as folder:  # mode 0700, because the records pass through it
        source, target = Path(folder, "in.npz"), Path(folder, "out.npz")
        exact_records = np.repeat(counts.exact_codes, counts.exact_counts, axis=0)
        np.savez(
            source,
            codes=exact_records,
            sizes=np.array(sizes),
            name=name,
            epsilon=epsilon,
            delta=delta,
            seconds=seconds,
        )
        _run([python, str(_PROGRAM), str(source), str(target)], label(name, delta), seconds)
        with np.load(target, allow_pickle=False) as released:
            return RecordRelease(
                released["codes"].astype(code_type(counts.schema)), float(released["weight"]), sizes
            )


def _run(command: list[str], who: str, seconds: float) -> None:
    """Run a peer to its end. Its output is discarded, because it has seen the records."""
    environment = {**os.environ, **_ONE_THREAD}
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=_PATIENCE * seconds, check=False, env=environment
        )
    except subprocess.TimeoutExpired:
        raise MethodError(
            f"{who} did not finish within {_PATIENCE * seconds:g} seconds. Use a larger limit."
        ) from None
    if done.returncode == -getattr(signal, "SIGXCPU", 0) != 0:
        raise MethodError(f"{who} needed more computing time than the limit allows.")
    if done.returncode != 0:
        raise MethodError(
            f"{who} failed with exit code {done.returncode}, perhaps for lack of memory; run it separately "
            "to see the reason."
        )
