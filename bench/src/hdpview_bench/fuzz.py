"""Fuzz all readers: schemas, views, questions and tables, broken in every way.

    python -m hdpview_bench.fuzz --inputs 1000000

Each input is made from a good one by cutting, doubling, flipping, swapping and splicing, or from the words of
its language in any order. It must be read, or refused with one of our own errors. Any other outcome, and any
input that takes longer than a few seconds, is printed with the seeds that reproduce it.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hdpview.build import build
from hdpview.domain import Boolean, Category, Datetime, Integer, Real, Schema
from hdpview.errors import HdpviewError, InternalError
from hdpview.methods import METHODS
from hdpview.pview import PView
from hdpview.view.manifest import content_of, from_dict

SECONDS_PER_INPUT = 5.0  # of processor time; slower inputs count as hanging
SCHEMA = Schema(
    [
        Integer(name="age", min=0, max=99, every=5, nullable=True),
        Real(name="income", min=0.0, max=1e6, bins=20),
        Category(name="sex", values=("Female", "Male"), other="other"),
        Datetime(name="admitted", min="2020-01-01", max="2024-12-31", every="1mo"),
        Boolean(name="ill", nullable=True),
    ]
)
_QUESTIONS = [
    "SELECT COUNT(*) FROM view WHERE age BETWEEN 30 AND 39 AND sex = 'Female'",
    (
        "SELECT sex, COUNT(*) AS n, AVG(age) AS a FROM view WHERE income >= 1e3 GROUP BY sex HAVING n > 10 "
        "ORDER BY n DESC LIMIT 3"
    ),
    (
        "SELECT SUM(income) FROM view WHERE NOT (ill OR ill IS NULL) AND admitted < DATE '2022-01-01' AND "
        "sex IN ('Male', 'other')"
    ),
    "SELECT CASE WHEN age < 18 THEN 'child' ELSE 'adult' END AS g, COUNT(*) FROM view GROUP BY g",
    "SELECT MEDIAN(age), COUNT(*) FILTER (WHERE ill) / COUNT(*) FROM view WHERE sex LIKE 'F%'",
]
_WORDS = """\
SELECT FROM view WHERE GROUP BY HAVING ORDER LIMIT COUNT(*) SUM( AVG( MEDIAN( ) ( , * = < >= <> + - / % AND
OR NOT IN BETWEEN IS NULL LIKE CASE WHEN THEN ELSE END CAST( AS INT DATE '2022-01-01' INTERVAL 1e308 1e
-9223372036854775808 0.1 'Female' '' age income sex admitted ill WITH t AS ( UNION ALL JOIN ON TRUE FALSE
DISTINCT FILTER OVER PARTITION ; -- /* */ ☃ " ` $1 ? :x @@v 1/0 \x00 read_csv('/etc/passwd')""".split()  # noqa: SIM905 a list would be ten times as long


@dataclass(frozen=True)
class Target:
    """A reader, and good inputs to start from."""

    name: str
    seeds: tuple[bytes, ...]
    read: Callable[[bytes], object]
    share: float  # of all inputs


def targets(folder: Path) -> list[Target]:
    """The readers to fuzz. Files are written to `folder`."""
    view = _views()[0]
    paths = [folder / f"{number}.pview" for number in range(len(_views()))]
    for one, path in zip(_views(), paths, strict=True):
        one.save(path)
    table = "age,income,sex,admitted,ill\n" + "".join(
        f"{i},{i * 1e3},Male,2021-0{1 + i % 9}-03,true\n" for i in range(9)
    )
    return [
        Target(
            "schema",
            (SCHEMA.to_toml().encode(), SCHEMA.to_toml().encode()[:300]),
            _schema_reader(folder),
            0.25,
        ),
        Target("manifest", tuple(map(_manifest, paths)), lambda text: from_dict(content_of(text)), 0.4),
        Target(
            "view file",
            tuple(path.read_bytes() for path in paths),
            _view_reader(folder),
            0.1195,
        ),
        Target("condition", tuple(map(_condition, _QUESTIONS[:3])), _condition_reader(view), 0.13),
        Target("question", tuple(text.encode() for text in _QUESTIONS), _question_reader(view), 0.1),
        Target(
            "table", (table.encode(),), _table_reader(folder), 0.0005
        ),  # opening a database for each is a hundred times slower
    ]


def fuzz(n_inputs: int, seed: int, only: str | None = None, report: Callable[[str], object] = print) -> int:
    """Fuzz all readers; returns the number of failures."""
    failures = 0
    with tempfile.TemporaryDirectory(prefix="hdpview-fuzz-") as name:
        chosen = [target for target in targets(Path(name)) if only is None or target.name == only]
        whole = sum(target.share for target in chosen)
        for target in chosen:
            n = max(1, round(n_inputs * target.share / whole))
            started, memory, refused = time.perf_counter(), _memory_mb(), 0
            for i in range(n):
                outcome = _try(target, f"{seed}/{target.name}/{i}")
                refused += outcome == "refused"
                if outcome not in ("read", "refused"):
                    failures += 1
                    report(f"FAILURE {target.name} --seed {seed}, input {i}: {outcome}")
            seconds, grown = time.perf_counter() - started, _memory_mb() - memory
            report(
                f"{target.name}: {n:,} inputs, {n - refused:,} read, {refused:,} refused, {seconds:.0f} "
                f"s, peak memory +{grown:.0f} MB"
            )
    return failures


def _try(target: Target, name: str) -> str:
    data = mutated(target.seeds, random.Random(name), as_words=target.name in ("question", "condition"))
    started = time.process_time()  # not the clock: other programs may use the cores
    try:
        target.read(data)
        outcome = "read"
    except InternalError as problem:
        outcome = f"{type(problem).__name__}: {problem.__cause__!r}"[:200]
    except HdpviewError:
        outcome = "refused"
    except Exception as problem:  # any exception is a finding
        outcome = f"{type(problem).__name__}: {str(problem)[:200]}"
    seconds = time.process_time() - started
    if seconds > SECONDS_PER_INPUT:
        return f"took {seconds:.1f} s"
    return outcome


def mutated(seeds: tuple[bytes, ...], rng: random.Random, as_words: bool = False) -> bytes:
    """A good input after one to six damaging changes; sometimes words in any order."""
    if as_words and rng.random() < 0.3:
        return " ".join(rng.choice(_WORDS) for _ in range(rng.randint(1, 25))).encode()
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        _CHANGES[rng.randrange(len(_CHANGES))](data, rng)
    return bytes(data)


def _flip(data: bytearray, rng: random.Random) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _cut(data: bytearray, rng: random.Random) -> None:
    start = rng.randint(0, len(data))
    del data[start : start + rng.choice((1, 2, 8, 64, 10_000))]


def _double(data: bytearray, rng: random.Random) -> None:
    start = rng.randint(0, len(data))
    data[start:start] = data[start : start + rng.choice((1, 4, 32, 256))] * rng.choice((1, 1, 2, 30))


def _swap(data: bytearray, rng: random.Random) -> None:
    a, b, n = rng.randint(0, len(data)), rng.randint(0, len(data)), rng.randint(1, 16)
    data[a : a + n], data[b : b + n] = data[b : b + n], data[a : a + n]


def _splice(data: bytearray, rng: random.Random) -> None:
    """A string that has broken parsers before."""
    start = rng.randint(0, len(data))
    data[start : start + rng.choice((0, 0, 1, 4))] = rng.choice(_PAINFUL)


def _number(data: bytearray, rng: random.Random) -> None:
    """Another number in the place of a digit."""
    digits = [i for i, byte in enumerate(data[:20_000]) if 48 <= byte <= 57]
    if digits:
        i = rng.choice(digits)
        data[i : i + 1] = rng.choice(
            (b"0", b"-1", b"9" * 30, b"1e999", b"nan", b"0x10", b"1_0", b"-0.0", b"4294967296", b"0.0000001")
        )


_CHANGES = (_flip, _cut, _double, _swap, _splice, _number)
_PAINFUL = (
    *(
        b"\x00",
        b"\xff\xfe",
        b"\xed\xa0\x80",
        b"\xf0\x9f\x92\xa9",
        b"\n",
        b'"',
        b"'",
        b"[" * 3_000,
        b"(" * 200,
        b"{",
        b"}",
        b",",
        b"=",
    ),
    *(
        b"\\u0000",
        b"\\ud800",
        b"true",
        b"null",
        b"inf",
        b"2020-02-30",
        b"9999-12-31",
        b"= []",
        b"%s%n",
        b"a" * 5_000,
    ),
    *(b"; DROP TABLE view", b"../../etc/passwd"),
)


def _schema_reader(folder: Path) -> Callable[[bytes], object]:
    path = folder / "schema.toml"

    def read(data: bytes) -> object:
        path.write_bytes(data)
        schema = Schema.load(path)
        assert Schema.from_dict(schema.to_dict()) == schema
        return [len(attribute.labels()) for attribute in schema if attribute.size < 1_000]

    return read


def _view_reader(folder: Path) -> Callable[[bytes], object]:
    path = folder / "fuzzed.pview"

    def read(data: bytes) -> object:
        path.write_bytes(data)
        view = PView.open(path)
        return view.count(None), view.privacy_card().html, repr(view)

    return read


def _condition(question: str) -> bytes:
    return question.split("WHERE ")[1].split(" GROUP")[0].encode()


def _condition_reader(view: PView) -> Callable[[bytes], object]:
    return lambda data: view.count(data.decode("utf-8", "surrogateescape"))


def _question_reader(view: PView) -> Callable[[bytes], object]:
    return lambda data: view.sql(data.decode("utf-8", "surrogateescape"))


def _table_reader(folder: Path) -> Callable[[bytes], object]:
    from hdpview.counts.ingest import ReadOptions, read_counts

    path = folder / "table.csv"

    def read(data: bytes) -> object:
        path.write_bytes(data)
        return read_counts(path, SCHEMA, ReadOptions(threads=1, memory_limit="200MB"))

    return read


def _manifest(path: Path) -> bytes:
    """The manifest in a view's file."""
    kept: dict[bytes, bytes] = pq.read_schema(path).metadata
    return next(text for key, text in kept.items() if key != b"ARROW:schema")


@cache
def _views() -> tuple[PView, ...]:
    """A small view by each method, of an invented table."""
    columns = {
        "age": [20 + 3 * i % 70 for i in range(60)],
        "income": [1e4 * (i % 37) for i in range(60)],
        "sex": ["Female" if i % 3 else "Male" for i in range(60)],
        "admitted": [f"2021-0{1 + i % 9}-03" for i in range(60)],
        "ill": [i % 4 == 0 for i in range(60)],
    }
    return tuple(build(pa.table(columns), SCHEMA, 1.0, method=name, test_key=b"fuzz") for name in METHODS)


def _memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(words: list[str] | None = None) -> int:
    """Run from the command line; exit code 1 if anything failed."""
    parser = argparse.ArgumentParser(
        prog="python -m hdpview_bench.fuzz", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument(
        "--only",
        choices=("schema", "manifest", "view file", "condition", "question", "table"),
        help="this reader alone",
    )
    chosen = parser.parse_args(words)
    failures = fuzz(chosen.inputs, chosen.seed, chosen.only, _print)
    _print(json.dumps({"inputs": chosen.inputs, "seed": chosen.seed, "failures": failures}))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
