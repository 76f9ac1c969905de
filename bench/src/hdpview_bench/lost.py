"""Check that nothing paid for is lost: random builds that fail in many ways.

    python -m hdpview_bench.lost --rounds 2000

Each round builds a view of a random table, or learns a schema from it, in a process of its own and with a
ledger: any epsilon and number of rows of a person, no rows at all, odd counts, wide attributes; with little
memory, with a small disk, or killed at a random moment. Then every charge has a view that opens, or a schema,
or work that is finished with `resume` and charges nothing.
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
from collections.abc import Callable
from contextlib import nullcontext
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import hdpview as hv
from hdpview.counts.contributions import Contributions
from hdpview.counts.draft import learnable_draft, learnt_text
from hdpview.counts.learn import learn_charged
from hdpview.errors import HdpviewError
from hdpview.privacy.budget import exact_delta, exact_epsilon
from hdpview.privacy.ledger import FINISHED, Ledger, Receipt
from hdpview.view.save import Saver
from hdpview_bench.replay import small_fits

_WAYS = ("nothing", "killed", "killed", "little memory", "small disk")
# Share of rounds that learn bounds and categories; the others build views.
_LEARNING = 0.25
# Share of rounds with an attribute of thousands of codes.
_WIDE = 0.03
Charged = Callable[[], object]
# seconds before a build is killed
_SECONDS = 300.0
# Share of rounds with fits as large as in real builds.
_WHOLE_FITS = 0.1


def rounds(n: int, seed: int, report: Callable[[str], object] | None = None) -> Counter[str]:
    """Run the rounds and count the outcomes. Raises AssertionError if a charge has no result."""
    outcomes = Counter[str]()
    for method in ("mixture", "hdpview"):  # compiled once, for all processes that start from this one
        table = pa.table({"a": [1, 2], "b": [1, 1]})
        schema = hv.Schema([hv.Integer(name=name, min=0, max=9) for name in "ab"])
        hv.build(table, schema, 1, method=method, ledger=False, threads=1)
    for i in range(n):
        rng = random.Random(f"{seed}, {i}")
        # Fits take most of the time of a build; small ones take little memory.
        fits = nullcontext() if rng.random() < _WHOLE_FITS else small_fits()
        with fits, tempfile.TemporaryDirectory(prefix="hdpview-lost-") as name:
            try:
                outcomes += _round(Path(name), rng)
            except AssertionError as lost:
                raise AssertionError(f"round {i} of seed {seed}: {lost}") from None
        if report is not None and (i + 1) % 100 == 0:
            report(f"{i + 1:,} rounds: {outcomes['charges']:,} charges, {outcomes['resumed']:,} resumed")
    return outcomes


def _round(folder: Path, rng: random.Random) -> Counter[str]:
    schema, table, options = _asked(rng)
    pq.write_table(table, folder / "t.parquet")
    learns, way = rng.random() < _LEARNING, rng.choice(_WAYS)
    work = partial(_learn if learns else _build, folder, schema, options)
    what = "learning, " if learns else ""
    code = _in_a_process(work, lambda: _limited(way, rng), rng)
    account = Ledger(folder / "hdpview-ledger.sqlite")
    ended = "finished" if code == 0 else "refused" if code == 2 else "broken off"
    outcomes = Counter({f"{what}{way}: {ended}": 1})
    charges = account.charges() if account.path.exists() else []
    outcomes["charges"] += len(charges)
    for charge in charges:
        if charge.state != FINISHED or not _is_there(folder, charge.epsilon):
            again = _in_a_process(partial(work, resume=True), lambda: None, rng, patience=3_600)
            assert again == 0, f"charge {charge} of {options} ({way}) is lost: exit code {again}"
            assert _is_there(folder, charge.epsilon)
            assert len(account.charges()) == len(charges), "resuming was charged"
            outcomes["resumed"] += 1
    return outcomes


def _is_there(folder: Path, epsilon: Fraction) -> bool:
    """Whether a charge left a view that opens or a draft that loads."""
    if (draft := folder / "t.toml").exists():
        return "learnt_epsilon" in draft.read_text("utf-8")
    return (place := folder / "v.pview").exists() and hv.open(place).manifest.epsilon == epsilon


def _asked(rng: random.Random) -> tuple[hv.Schema, pa.Table, dict[str, Any]]:
    """A random schema and table, and random arguments of a build."""
    n = rng.choice([0, 1, 5, 60, 500, 2_000])
    numbers = np.random.default_rng(rng.getrandbits(32))
    sizes = [rng.choice([1, 2, 3, 7, 20, 300]) for _ in range(rng.randint(1, 5))]
    if rng.random() < _WIDE:
        sizes[0] = rng.choice([3_000, 60_001])
    options: dict[str, Any] = {"epsilon": f"{10 ** rng.uniform(-9, 6):.3g}"}
    if rng.random() < 0.15:
        # With a huge epsilon every cell becomes a block, so limit the cells to those counted in a second.
        options, sizes = {**options, "method": "hdpview"}, [min(size, 20) for size in sizes[:3]]
    elif rng.random() < 0.2:
        options["delta"] = "1e-7"
    attributes = [hv.Integer(name=f"a{i}", min=0, max=size - 1) for i, size in enumerate(sizes)]
    columns: dict[str, Any] = {f"a{i}": numbers.integers(0, size, n) for i, size in enumerate(sizes)}
    columns["who"] = numbers.integers(0, max(1, n // 3), n)
    odd = [0, 1, -5, 2**62, 10**18]
    columns["n"] = pa.array([odd[i] for i in numbers.integers(0, len(odd), n)], pa.int64())
    if rng.random() < 0.4:
        options |= {"privacy_unit": "who", "max_rows": rng.choice([1, 2, 1_000, 10**6])}
    if rng.random() < 0.2:
        options |= {"count": "n"}
    return hv.Schema(attributes), pa.table(columns), options


def _limited(way: str, rng: random.Random) -> None:
    if way == "little memory":
        used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        most = used + (rng.choice([20, 60, 200]) << 20)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    if way == "killed":
        moment = threading.Timer(0.2 * rng.random(), os.kill, (os.getpid(), signal.SIGKILL))
        moment.daemon = True
        moment.start()
    if way == "small disk":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        most = rng.choice([500, 20_000, 60_000])
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


def _build(
    folder: Path, schema: hv.Schema, options: dict[str, Any], charged: Charged, resume: bool = False
) -> None:
    saver = Saver(folder / "v.pview")
    saver.check(force=True)

    def on_charge(receipt: Receipt) -> None:
        saver.keep(receipt)
        charged()

    source = folder / "t.parquet"
    saver.save(
        hv.build(source, schema, threads=1, accept_losses=True, on_charge=on_charge, resume=resume, **options)
    )


def _learn(
    folder: Path, _schema: hv.Schema, options: dict[str, Any], charged: Charged, resume: bool = False
) -> None:
    """Learn bounds as `hdpview schema draft --learn-bounds-epsilon` does."""
    source, receipts = str(folder / "t.parquet"), list[Receipt]()
    unit, k = options.get("privacy_unit"), options.get("max_rows", 1)
    epsilon, delta = exact_epsilon(options["epsilon"]), exact_delta(options.get("delta", 0))
    draft, kinds = learnable_draft(source, unit=unit)

    def on_charge(receipt: Receipt) -> None:
        receipts.append(receipt)
        charged()

    account = Ledger(folder / "hdpview-ledger.sqlite")
    terms = (kinds, epsilon, delta, Contributions(unit, k))
    learnt = learn_charged(account, "t", source, *terms, resume=resume, on_charge=on_charge)
    text, place = learnt_text(draft, learnt, epsilon, delta), folder / "t.toml"
    try:
        place.write_text(text, encoding="utf-8")
    except OSError:
        place.unlink()
        raise
    receipts[0].name_view(str(place))


def _in_a_process(
    work: Callable[..., None], limit: Charged, rng: random.Random, patience: float = _SECONDS
) -> int:
    """Run some work in a process. Returns 0, 2 if it was refused with a message, or another code if it failed
    or was killed.
    """
    is_early = rng.random() < 0.2  # before the charge, or else after it
    process = os.fork()
    if process == 0:
        code = 1
        with contextlib.suppress(BaseException), open(os.devnull, "w", encoding="utf-8") as nowhere:
            os.dup2(nowhere.fileno(), 2)
            if is_early:
                limit()
            try:
                work(charged=(lambda: None) if is_early else limit)
                code = 0
            except HdpviewError:
                code = 2
        os._exit(code)
    started = time.monotonic()
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
    counted = rounds(asked.rounds, asked.seed, lambda line: sys.stderr.write(line + "\n"))
    for what, times in sorted(counted.items()):
        sys.stdout.write(f"{what}: {times:,}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
