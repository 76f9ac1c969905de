"""Many people brushing at once: how fast the explorer's server answers, and whether its memory stays
constant.

The server runs in its own process. This process creates the load, on this machine only.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hdpview.domain import Datetime, Ordered, calendar
from hdpview.errors import HdpviewError
from hdpview.pview import PView

_START_SECONDS = 60.0
# Number of bins that one gesture crosses.
_MOVES = 12
# Seconds between moves: a hand that draws a range crosses about ten bins a second.
BETWEEN_MOVES = 0.1
# Minimum and maximum seconds that a person spends on an answer.
LOOKING = (0.5, 2.5)
# Number of questions before the measurement starts.
_WARM_UP = 20


@dataclass
class Latencies:
    """Waiting times of clients and the number of their errors."""

    milliseconds: list[float] = field(default_factory=list)
    errors: int = 0

    def row(self, kind: str, busy: float | None) -> dict[str, Any]:
        """The result of a benchmark. kind: of the messages. busy: CPU seconds of the server."""
        n = max(1, len(self.milliseconds))
        return {
            "errors": self.errors,
            **percentiles("", self.milliseconds, (50, 95, 99)),
            "max_ms": round(max(self.milliseconds, default=float("nan")), 1),
            f"server_cpu_ms_per_{kind}": None if busy is None else round(1000 * busy / n, 1),
        }


def percentiles(prefix: str, milliseconds: Sequence[float], shares: Sequence[int]) -> dict[str, float]:
    """Percentiles under names such as p95_ms; NaN of nothing."""
    values = np.array(milliseconds if len(milliseconds) else [np.nan])
    return {f"{prefix}p{share}_ms": round(float(np.percentile(values, share)), 1) for share in shares}


def serve_row(view: Path, users: int, seconds: float) -> dict[str, Any]:
    """Let people brush for a while. Returns latencies, errors and memory."""
    opened = PView.open(view)
    if not any(isinstance(attribute, Ordered) for attribute in opened.schema):
        raise HdpviewError("This view has no range to draw. Measure another, or name none for the demo's.")
    with running_explorer(view) as (port, pid):
        asyncio.run(_warm_up(opened, view.name, port))
        before, busy_before = _resident_mb(pid), busy_seconds(pid)
        measured, halfway = asyncio.run(_load(opened, view.name, port, users, seconds, pid))
        after, busy_after = _resident_mb(pid), busy_seconds(pid)
    busy = None if busy_before is None or busy_after is None else busy_after - busy_before
    return {
        "users": users,
        "seconds": seconds,
        "requests": len(measured.milliseconds) + measured.errors,
        **measured.row("request", busy),
        "server_rss_before_mb": before,
        "server_rss_halfway_mb": halfway,
        "server_rss_after_mb": after,
    }


@contextmanager
def running_server(view: Path, *command: str) -> Iterator[tuple[int, int]]:
    """Serve the view by a command, on a free local port. Yields the port and the process."""
    words = [sys.executable, "-m", "hdpview", *command, "--port", "0", str(view)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = re.search(r"://127\.0\.0\.1:(\d+)/", process.stdout.readline())
            if address is None:
                raise HdpviewError("The server did not start.")
            yield int(address[1]), process.pid
            if process.poll() is not None:
                raise HdpviewError("The server ended by itself.")
        finally:
            process.terminate()


@contextmanager
def running_explorer(view: Path) -> Iterator[tuple[int, int]]:
    """Serve the view's page. Yields the port, which answers, and the process."""
    with running_server(view, "explore", "--no-open") as (port, pid):
        _wait_for(port)
        yield port, pid


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            asyncio.run(_ask_once(port))
        except OSError:
            if time.monotonic() > deadline:
                raise HdpviewError("The explorer did not answer in time.") from None
            time.sleep(0.05)
        else:
            return


async def _ask_once(port: int) -> None:
    person = await _Connection.open(port)
    await person.post({})
    person.close()


class _Connection:
    """A keep-alive connection, like a browser's."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, port: int) -> _Connection:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def post(self, question: dict[str, Any]) -> int:
        """Ask for all histograms. Returns the status once the whole answer has arrived."""
        body = json.dumps(question).encode()
        head = (
            "POST /api/histograms HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: "
            f"application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        answer = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = re.search(r"content-length: (\d+)", answer)
        await self._reader.readexactly(int(length[1]) if length else 0)
        return int(answer.split(" ", 2)[1])

    def close(self) -> None:
        self._writer.close()


async def _warm_up(view: PView, name: str, port: int) -> None:
    person, dice = await _Connection.open(port), random.Random(0)
    for _ in range(_WARM_UP):
        await person.post(next(_gesture(view, name, dice)))
    person.close()


async def _load(
    view: PView, name: str, port: int, users: int, seconds: float, pid: int
) -> tuple[Latencies, float | None]:
    """The latencies and errors of all people, and the server's memory halfway."""
    measured, end = Latencies(), time.monotonic() + seconds
    people = asyncio.gather(
        *(_brush(view, name, port, random.Random(user + 1), end, measured) for user in range(users))
    )
    await asyncio.sleep(seconds / 2)
    halfway = _resident_mb(pid)
    await people
    return measured, halfway


async def _brush(
    view: PView, name: str, port: int, dice: random.Random, end: float, measured: Latencies
) -> None:
    """One person: a gesture, a pause to look at the charts, the next gesture. A move is sent when the last is
    answered.
    """
    person: _Connection | None = None
    await asyncio.sleep(dice.uniform(0, LOOKING[1]))
    while time.monotonic() < end:
        for question in _gesture(view, name, dice):
            start = time.perf_counter()
            try:
                person = person or await _Connection.open(port)
                status = await person.post(question)
            except (OSError, asyncio.IncompleteReadError):
                # The server closes idle connections; a browser opens another.
                if person is not None and time.perf_counter() - start < 0.05:
                    person = None
                    continue
                measured.errors, person = measured.errors + 1, None
                continue
            took = time.perf_counter() - start
            if status == 200:
                measured.milliseconds.append(1000 * took)
            else:
                measured.errors += 1
            await asyncio.sleep(max(0.0, BETWEEN_MOVES - took))
        await asyncio.sleep(dice.uniform(*LOOKING))
    if person is not None:
        person.close()


def _gesture(view: PView, name: str, dice: random.Random) -> Iterator[dict[str, Any]]:
    """The questions that the page asks while a range is drawn; sometimes another attribute is already
    filtered.
    """
    ordered = [attribute for attribute in view.schema if isinstance(attribute, Ordered)]
    moved, *others = dice.sample(ordered, min(len(ordered), 2))
    standing = (
        _range(others[0], *sorted(dice.sample(range(len(others[0].edges)), 2)))
        if others and dice.random() < 0.5
        else None
    )
    n_bins = len(moved.edges) - 1
    start = dice.randrange(n_bins)
    lasts = {
        min(n_bins, start + max(1, reach * n_bins // (2 * _MOVES))): None for reach in range(1, _MOVES + 1)
    }
    # Each range once, because the page does not repeat a question it has answered.
    for last in lasts:
        own: dict[str, str | None] = {moved.name: standing}
        where = _range(moved, start, last)
        if standing is not None:
            own[others[0].name] = where
        yield {"view": name, "where": where if standing is None else f"{where} AND {standing}", "own": own}


def _range(attribute: Ordered, first: int, last: int) -> str:
    from hdpview.query.question.where import name_in_sql

    column = name_in_sql(attribute.name)
    low, high = attribute.edges[[first, last]].tolist()
    if isinstance(attribute, Datetime):
        low, high = (f"TIMESTAMP '{calendar.moment(edge)}'" for edge in (low, high))
    return f"{column} >= {low} AND {column} < {high}"


def _resident_mb(pid: int) -> float | None:
    """Resident memory of a process; None if the system does not report it."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return None
    return round(int(text.split("VmRSS:")[1].split()[0]) / 1024, 1)


def busy_seconds(pid: int) -> float | None:
    """CPU time of a process and its children, which answer statements; None if the system does not report
    it.
    """
    try:
        tasks = Path(f"/proc/{pid}/task").glob("*/children")
        pids = [str(pid), *" ".join(task.read_text() for task in tasks).split()]
        stats = [Path(f"/proc/{each}/stat").read_text("ascii").rpartition(")")[2].split() for each in pids]
    except OSError:
        return None
    # Fields 14 to 17: user and system time, its own and that of children that ended, in clock ticks.
    return sum(int(ticks) for stat in stats for ticks in stat[11:15]) / os.sysconf("SC_CLK_TCK")
