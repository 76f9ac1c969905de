"""Nothing that was paid for is lost: random builds that break in many ways, and what they leave.

    python -m hdpview_bench.lost --rounds 2000

Each round builds a random table in a process of its own, with a ledger: any epsilon and number of rows of a
    person, no rows at all, odd counts, wide attributes; with little memory, with a small disk, or killed at
    a random moment. Then every charge has a view that opens, or a build that is finished with `resume` and
    charges nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import resource
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import hdpview as hv
from hdpview.errors import HdpviewError
from hdpview.privacy.ledger import FINISHED, Ledger, Receipt
from hdpview.view.save import Saver

_WAYS = ("nothing", "nothing", "killed", "little memory", "small disk")
_SECONDS = 300.0  # that a build may take before it is killed


def rounds(n: int, seed: int) -> Counter[str]:
    """How often what happened. Raises AssertionError where a charge is left with nothing."""
    rng, found = random.Random(seed), Counter[str]()
    for method in ("mixture", "hdpview"):  # compiled once, for all processes that start from this one
        table = pa.table({"a": [1, 2], "b": [1, 1]})
        schema = hv.Schema([hv.Integer(name=name, min=0, max=9) for name in "ab"])
        hv.build(table, schema, 1, method=method, ledger=False, threads=1)
    for _ in range(n):
        with tempfile.TemporaryDirectory(prefix="hdpview-lost-") as name:
            found += _round(Path(name), rng)
    return found


def _round(folder: Path, rng: random.Random) -> Counter[str]:
    schema, table, options = _asked(rng)
    pq.write_table(table, folder / "t.parquet")
    way = rng.choice(_WAYS)
    code = _in_a_process(lambda: _limited(way, rng), folder, schema, options, rng)
    account = Ledger(folder / "hdpview-ledger.sqlite")
    found = Counter({f"{way}: {'built' if code == 0 else 'refused' if code == 2 else 'broken off'}": 1})
    charges = account.charges() if account.path.exists() else []
    found["charges"] += len(charges)
    for charge in charges:
        place = folder / "v.pview"
        if charge.state == FINISHED and place.exists():
            assert hv.open(place).manifest.epsilon == charge.epsilon
            continue
        again = _in_a_process(lambda: None, folder, schema, {**options, "resume": True}, rng)
        assert again == 0, f"charge {charge} of {options} ({way}) is lost: exit code {again}"
        assert hv.open(place).manifest.epsilon == charge.epsilon
        assert len(account.charges()) == len(charges), "resuming was charged"
        found["resumed"] += 1
    return found


def _asked(rng: random.Random) -> tuple[hv.Schema, pa.Table, dict[str, Any]]:
    """A random schema, table, and arguments of a build."""
    n = rng.choice([0, 1, 5, 60, 500, 2_000])
    numbers = np.random.default_rng(rng.getrandbits(32))
    sizes = [rng.choice([1, 2, 3, 7, 20, 300]) for _ in range(rng.randint(1, 5))]
    if rng.random() < 0.1:
        sizes[0] = rng.choice([3_000, 60_001])
    attributes = [hv.Integer(name=f"a{i}", min=0, max=size - 1) for i, size in enumerate(sizes)]
    columns: dict[str, Any] = {f"a{i}": numbers.integers(0, size, n) for i, size in enumerate(sizes)}
    columns["who"] = numbers.integers(0, max(1, n // 3), n)
    odd = [0, 1, -5, 2**62, 10**18]
    columns["n"] = pa.array([odd[i] for i in numbers.integers(0, len(odd), n)], pa.int64())
    options: dict[str, Any] = {"epsilon": f"{10 ** rng.uniform(-9, 6):.3g}"}
    if rng.random() < 0.4:
        options |= {"privacy_unit": "who", "max_rows": rng.choice([1, 2, 1_000, 10**6])}
    if rng.random() < 0.2:
        options |= {"count": "n"}
    if rng.random() < 0.2:
        options |= {"delta": "1e-7"}
    elif rng.random() < 0.2:
        options |= {"method": "hdpview"}
    return hv.Schema(attributes), pa.table(columns), options


def _limited(way: str, rng: random.Random) -> None:
    if way == "little memory":
        used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        most = used + (rng.choice([20, 60, 200]) << 20)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    if way == "killed":
        moment = threading.Timer(rng.random(), os.kill, (os.getpid(), signal.SIGKILL))
        moment.daemon = True
        moment.start()
    if way == "small disk":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        most = rng.choice([500, 20_000, 60_000])
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


def _in_a_process(
    limit: Any, folder: Path, schema: hv.Schema, options: dict[str, Any], rng: random.Random
) -> int:
    """Exit code of a build and of saving it: 0, 2 where it was refused in words, else it broke off."""
    is_early = rng.random() < 0.2  # before the charge, else after it
    process = os.fork()
    if process == 0:
        code = 1
        with contextlib.suppress(BaseException), open(os.devnull, "w", encoding="utf-8") as nowhere:
            os.dup2(nowhere.fileno(), 2)
            if is_early:
                limit()
            try:
                saver = Saver(folder / "v.pview")
                saver.check(force=True)

                def charged(receipt: Receipt) -> None:
                    saver.keep(receipt)
                    if not is_early:
                        limit()

                source = folder / "t.parquet"
                view = hv.build(source, schema, threads=1, on_charge=charged, **options)
                saver.save(view)
                code = 0
            except HdpviewError:
                code = 2
        os._exit(code)
    started, patience = time.monotonic(), _SECONDS
    while True:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() - started > patience:
            os.kill(process, signal.SIGKILL)
            patience += 60
        time.sleep(0.01)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m hdpview_bench.lost", description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    for what, times in sorted(rounds(asked.rounds, asked.seed).items()):
        sys.stdout.write(f"{what}: {times:,}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
