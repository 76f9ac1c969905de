"""Stress the PostgreSQL server: a hundred thousand broken messages, or many clients at once.

Run it as one of:

    python -m hdpview_bench.postgres fuzz adult.pview --messages 100000 --seed 2026
    python -m hdpview_bench.postgres load adult.pview --clients 50 --seconds 60
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import struct
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hdpview.domain import Attribute, Integer, Real
from hdpview.pview import PView
from hdpview.query.question.where import name_in_sql
from hdpview_bench.serve import LOOKING, Latencies, busy_seconds, percentiles, running_server

_PER_CONNECTION = 5  # share of broken messages
_PATIENCE_SECONDS = 30.0  # seconds after which an open connection counts as hanging
_WHO = b"user\x00fuzz\x00database\x00hdpview\x00\x00"
_STARTUP = struct.pack("!ii", len(_WHO) + 8, 196_608) + _WHO


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


_GOOD = [
    _message(b"Q", b"SELECT 1\x00"),
    _message(b"Q", b"SELECT count(*) FROM view; SHOW ALL\x00"),
    _message(b"P", b"s\x00SELECT $1::int\x00\x00\x01\x00\x00\x00\x17"),
    _message(b"B", b"\x00s\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x0212\x00\x01\x00\x01"),
    _message(b"D", b"Ss\x00"),
    _message(b"D", b"P\x00"),
    _message(b"E", b"\x00\x00\x00\x00\x00"),
    _message(b"C", b"Ss\x00"),
    _message(b"S", b""),
    _message(b"H", b""),
    _message(b"F", b"\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00"),
    _message(b"p", b"SCRAM-SHA-256\x00\x00\x00\x00\x10n,,n=,r=abcdefgh"),
    _message(b"d", b"data"),
]


def broken(rng: random.Random) -> bytes:
    """A message with something wrong in it."""
    content = bytearray(rng.choice(_GOOD))
    damage = rng.randrange(6)
    if damage == 0:  # bits
        for _ in range(rng.randint(1, 4)):
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    elif damage == 1:  # a wrong length
        content[1:5] = struct.pack("!I", rng.choice([0, 1, 3, 4, 5, 17, 2**16, 2**24, 2**31, 2**32 - 1]))
    elif damage == 2:  # a truncated message
        del content[rng.randrange(1, len(content)) :]
    elif damage == 3:  # another kind
        content[0] = rng.randrange(256)
    elif damage == 4:  # random bytes
        content = bytearray(rng.randbytes(rng.randint(1, 60)))
    else:  # a random body with the right length
        kind = bytes([rng.choice(b"QPBDECSHFpdcf")])
        content = bytearray(_message(kind, rng.randbytes(rng.randint(0, 60))))
    return bytes(content)


def confused(rng: random.Random) -> bytes:
    """A well-formed message without meaning: random SQL, unknown names, wrong numbers of parameters, unknown
    formats, in any order.
    """
    name = rng.choice([b"", b"s", b"nosuch", rng.randbytes(5).hex().encode()]) + b"\x00"
    sql = " ".join(rng.choices(_WORDS.split(), k=rng.randint(1, 30))).encode() + b"\x00"
    bound = struct.pack("!hhhi", 1, rng.randrange(4), 1, 4) + rng.randbytes(4)
    bodies = {
        b"Q": sql,
        b"P": name + sql + struct.pack("!hi", 1, rng.choice([0, 23, 25, 1007, 99_999])),
        b"B": name + name + bound + struct.pack("!hh", 1, rng.randrange(3)),
        b"D": rng.choice([b"S", b"P", b"x"]) + name,
        b"E": name + struct.pack("!i", rng.choice([0, 1, -1, 2**31 - 1])),
        b"C": rng.choice([b"S", b"P", b"x"]) + name,
        b"S": b"",
        b"H": b"",
    }
    kind = rng.choice(list(bodies))
    return _message(kind, bodies[kind])


_WORDS = (
    "SELECT FROM WHERE GROUP BY ORDER LIMIT ( ) , ; * = < $1 'x' \"y\" 1 1e999 NULL view pg_class count(*) "
    "sum(1) CASE WHEN THEN END :: int regclass ANY ARRAY[1] WITH RECURSIVE UNION ALL "
    "generate_series(1,9999999) BEGIN ROLLBACK SET hdpview.intervals = on DECLARE c CURSOR FOR FETCH ALL "
    "COPY TO STDOUT -- /* E'\\' ~ OVER"
)


@dataclass
class FuzzResult:
    """The effect of broken messages.

    hanging: connections not closed in time. unharmed, harmed: right and wrong answers to a well-behaved
    client in between.
    """

    messages: int = 0
    connections: int = 0
    hanging: int = 0
    unharmed: int = 0
    harmed: int = 0
    seconds: float = 0.0


async def fuzz(port: int, n_messages: int, seed: int) -> FuzzResult:
    """Send broken messages to a server on this machine, and valid questions in between."""
    rng, result, start = random.Random(seed), FuzzResult(), time.monotonic()
    while result.messages < n_messages:
        logged_in = rng.random() < 0.8
        # A message outside the protocol ends its connection, so it comes last.
        content = [*(confused(rng) for _ in range(_PER_CONNECTION - 1)), broken(rng)]
        result.hanging += not await _is_closed(port, (_STARTUP if logged_in else b"") + b"".join(content))
        result.messages += len(content)
        result.connections += 1
        if result.connections % 200 == 0:
            answer = await _ask(port, "SELECT 40 + 2 AS sum")
            result.unharmed += answer == b"42"
            result.harmed += answer != b"42"
    result.seconds = round(time.monotonic() - start, 1)
    return result


async def _is_closed(port: int, content: bytes) -> bool:
    """Whether the server closes a connection once the client has closed its side."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(content)
        writer.write_eof()
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while await reader.read(65_536):
                pass
    except TimeoutError:
        return False
    except OSError:
        return True
    finally:
        writer.close()
    return True


async def _ask(port: int, sql: str) -> bytes | None:
    """The first value of an answer, over its own connection; None if there is none."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(_STARTUP + _message(b"Q", sql.encode() + b"\x00") + _message(b"X", b""))
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            content = await reader.read(-1)
    except TimeoutError:
        return None
    finally:
        writer.close()
    field = re.search(rb"D....\x00\x01(....)", content, re.DOTALL)
    if field is None:
        return None
    return content[field.end() : field.end() + int.from_bytes(field[1], "big")]


async def load(
    view: PView, port: int, clients: int, seconds: float, looking: bool = True, pid: int | None = None
) -> dict[str, Any]:
    """Let many clients ask for a while. Returns their waiting times in milliseconds.

    looking: whether they pause to read each answer, as people do; if not, they ask again at once. pid:
    process of the server, whose CPU time per question is reported. `late_…` shows how busy the machine is:
    how much longer a sleep of 10 ms takes in the clients' process.
    """
    import asyncpg

    measured, end = Latencies(), time.monotonic() + seconds
    late: list[float] = []
    busy_before = None if pid is None else busy_seconds(pid)

    async def sleeper() -> None:
        while time.monotonic() < end:
            start = time.perf_counter()
            await asyncio.sleep(0.01)
            late.append(1000 * (time.perf_counter() - start) - 10)

    async def client(seed: int) -> None:
        rng = random.Random(seed)
        connection = await asyncpg.connect(
            host="127.0.0.1", port=port, user=f"client{seed}", database="hdpview", statement_cache_size=0
        )
        await asyncio.sleep(rng.random() * 2)
        while time.monotonic() < end:
            start = time.perf_counter()
            try:
                await connection.fetch(question(view, rng))
            except asyncpg.PostgresError:
                measured.errors += 1
            measured.milliseconds.append(1000 * (time.perf_counter() - start))
            if looking:
                await asyncio.sleep(rng.uniform(*LOOKING))
        await connection.close()

    await asyncio.gather(sleeper(), *(client(seed) for seed in range(clients)))
    busy_after = None if pid is None else busy_seconds(pid)
    busy = None if busy_before is None or busy_after is None else busy_after - busy_before
    return {
        "clients": clients,
        "seconds": seconds,
        "looking": looking,
        "questions": len(measured.milliseconds),
        **measured.row("question", busy),
        **percentiles("late_", late, (50, 95)),
    }


def question(view: PView, rng: random.Random) -> str:
    """A question that an analyst may ask: a count, groups, or means, mostly under a condition."""
    condition = " AND ".join(_condition(attribute, rng) for attribute in rng.sample(list(view.schema), 2))
    where = "" if rng.random() < 0.2 else f" WHERE {condition}"
    small = [name_in_sql(attribute.name) for attribute in view.schema if attribute.size <= 50]
    numbers = [name_in_sql(a.name) for a in view.schema if isinstance(a, (Integer, Real))]
    kind = rng.randrange(4)
    if kind == 0 or not small:
        return f"SELECT count(*) FROM view{where}"
    group = rng.choice(small)
    if kind == 1:
        return f"SELECT {group}, count(*) AS n FROM view{where} GROUP BY 1 ORDER BY n DESC LIMIT 10"
    if kind == 2 and numbers:
        return f"SELECT {group}, count(*), avg({rng.choice(numbers)}) FROM view{where} GROUP BY 1"
    return (
        f"SELECT * FROM (SELECT {group} AS g, count(*) AS n FROM view{where} GROUP BY 1) t WHERE n > 10 "
        "LIMIT 100"
    )


def _condition(attribute: Attribute, rng: random.Random) -> str:
    name = name_in_sql(attribute.name)
    if isinstance(attribute, (Integer, Real)):
        low, high = sorted(rng.choices(attribute.edges.tolist(), k=2))
        return f"{name} BETWEEN {low} AND {high}"
    return f"{name} IS NOT NULL"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the result as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["fuzz", "load"])
    parser.add_argument("view", type=Path)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--no-looking", action="store_true")
    asked = parser.parse_args(arguments)
    with running_server(asked.view, "serve") as (port, pid):
        if asked.what == "fuzz":
            numbers: dict[str, Any] = vars(asyncio.run(fuzz(port, asked.messages, asked.seed)))
        else:
            view, looking = PView.open(asked.view), not asked.no_looking
            numbers = asyncio.run(load(view, port, asked.clients, asked.seconds, looking, pid))
    sys.stdout.write(json.dumps(numbers) + "\n")


if __name__ == "__main__":
    main()
