"""Many people brushing at once: how fast the explorer's server answers, and whether its memory stays flat.

The server is a process of its own; the load comes from this one, on this machine only.
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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hdpview.domain import Ordered
from hdpview.errors import HdpviewError
from hdpview.pview import PView

_START_SECONDS = 60.0
_MOVES = 12  # bins that one gesture passes over
BETWEEN_MOVES = 0.1  # seconds: a hand that draws a brush passes about ten bins a second
_LOOKING = (0.5, 2.5)  # seconds between gestures
_WARM_UP = 20  # questions before the measurement


@dataclass
class _Measured:
    milliseconds: list[float] = field(default_factory=list)
    errors: int = 0


def serve_row(view: Path, users: int, seconds: float) -> dict[str, Any]:
    """Let people brush for a while; a row with what they met."""
    opened = PView.open(view)
    if not any(isinstance(attribute, Ordered) for attribute in opened.schema):
        raise HdpviewError(
            "This view has no range to draw. Measure another view, or name none for the demo's."
        )
    with running_server(view) as (port, pid):
        asyncio.run(_warm_up(opened, view.name, port))
        before, busy_before = _resident_mb(pid), busy_seconds(pid)
        measured, halfway = asyncio.run(_load(opened, view.name, port, users, seconds, pid))
        after, busy_after = _resident_mb(pid), busy_seconds(pid)
    busy = None if busy_before is None or busy_after is None else busy_after - busy_before
    times = np.array(measured.milliseconds or [np.nan])
    return {
        "users": users,
        "seconds": seconds,
        "requests": len(measured.milliseconds) + measured.errors,
        "errors": measured.errors,
        **{f"p{share}_ms": round(float(np.percentile(times, share)), 1) for share in (50, 95, 99)},
        "max_ms": round(float(times.max()), 1),
        "server_cpu_ms_per_request": None
        if busy is None
        else round(1000 * busy / max(1, len(measured.milliseconds)), 1),
        "server_rss_before_mb": before,
        "server_rss_halfway_mb": halfway,
        "server_rss_after_mb": after,
    }


@contextmanager
def running_server(view: Path) -> Iterator[tuple[int, int]]:
    """A server of the view on a free port of this machine: its port and process."""
    command = [sys.executable, "-m", "hdpview", "explore", str(view), "--no-open", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://127\.0\.0\.1:(\d+)/", process.stdout.readline())
            if found is None:
                raise HdpviewError("The explorer did not start.")
            port = int(found[1])
            _wait_for(port)
            yield port, process.pid
        finally:
            process.terminate()


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
    """One kept connection, as a browser holds it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, port: int) -> _Connection:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def post(self, question: dict[str, Any]) -> int:
        """Ask for all histograms; the status, once the whole answer is there."""
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
) -> tuple[_Measured, float | None]:
    """What the people met, and the server's memory halfway."""
    measured, end = _Measured(), time.monotonic() + seconds
    people = asyncio.gather(
        *(_brush(view, name, port, random.Random(user + 1), end, measured) for user in range(users))
    )
    await asyncio.sleep(seconds / 2)
    halfway = _resident_mb(pid)
    await people
    return measured, halfway


async def _brush(
    view: PView, name: str, port: int, dice: random.Random, end: float, measured: _Measured
) -> None:
    """One person: a gesture, a look at the charts, the next gesture. A move is sent when the last one is
    answered.
    """
    person: _Connection | None = None
    await asyncio.sleep(dice.uniform(0, _LOOKING[1]))
    while time.monotonic() < end:
        for question in _gesture(view, name, dice):
            start = time.perf_counter()
            try:
                person = person or await _Connection.open(port)
                status = await person.post(question)
            except (
                OSError,
                asyncio.IncompleteReadError,
            ):  # the server closes connections that were idle; a browser opens another
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
        await asyncio.sleep(dice.uniform(*_LOOKING))
    if person is not None:
        person.close()


def _gesture(view: PView, name: str, dice: random.Random) -> Iterator[dict[str, Any]]:
    """The questions that the page asks while a range of one attribute is drawn; at times another attribute is
    filtered already.
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
    for first, last in (
        (start, last) for last in lasts
    ):  # each range once: the page does not ask again for what it shows
        own: dict[str, str | None] = {moved.name: standing}
        where = _range(moved, first, last)
        if standing is not None:
            own[others[0].name] = where
        yield {"view": name, "where": where if standing is None else f"{where} AND {standing}", "own": own}


def _range(attribute: Ordered, first: int, last: int) -> str:
    from hdpview.explore.answers import literal
    from hdpview.query.question.where import name_in_sql

    column = name_in_sql(attribute.name)
    low, high = (literal(attribute, float(attribute.edges[i])) for i in (first, last))
    return f"{column} >= {low} AND {column} < {high}"


def _resident_mb(pid: int) -> float | None:
    """Memory that a process holds; None where the system does not tell."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return None
    return round(int(text.split("VmRSS:")[1].split()[0]) / 1024, 1)


def busy_seconds(pid: int) -> float | None:
    """CPU time that a process has used; None where the system does not tell."""
    try:
        parts = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:
        return None
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")
