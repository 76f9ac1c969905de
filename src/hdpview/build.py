"""The door: a table goes in, a view comes out. Beside the methods, the only place that sees both sides."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import cache
from os import PathLike
from typing import Any, Literal

from hdpview._version import __version__
from hdpview.counts.check import check_table, refuse_losses
from hdpview.counts.contributions import EACH_ROW, EACH_ROW_UNIT, Contributions
from hdpview.counts.ingest import ReadOptions, read_counts
from hdpview.counts.losses import SchemaWarning
from hdpview.counts.people import check_people, person_counts
from hdpview.counts.protocol import Counts
from hdpview.counts.rows import States
from hdpview.counts.stream import streamed_counts
from hdpview.domain import Schema
from hdpview.errors import BudgetError, MethodError, SchemaError, unknown_name
from hdpview.methods import DEFAULT_METHOD, Method, chosen_method
from hdpview.methods.people import measure_people, share_of_people
from hdpview.methods.protocol import Engine, Reads, ViewRelease, delta_of, release_with, with_delta
from hdpview.methods.quality import QUALITY_SHARE, measure_quality
from hdpview.partition.local import LocalEngine
from hdpview.privacy.budget import exact_delta, exact_epsilon
from hdpview.privacy.exact import Exact
from hdpview.privacy.ledger import Ledger, Receipt, ledger_for, name_of
from hdpview.privacy.mechanism import Mechanism, Outcomes
from hdpview.privacy.randomness import Randomness
from hdpview.privacy.zcdp import delta_of_one_record
from hdpview.progress import Progress, silent
from hdpview.pview import PView
from hdpview.query.present.frames import kind_of
from hdpview.view.data import ViewPart
from hdpview.view.manifest import Manifest, Spending
from hdpview.view.quality import prior_quality

TEST_KEY_REASON = "built with a test key: anyone who knows the key can subtract the noise"
LEARNT_SCHEMA_REASON = "the schema was drawn from the table itself"
_ENGINES = ("local", "spark")
# ε of one row, below which the noise on a table may exceed what files hold: 10¹² records.
_LEAST_PER_RECORD = 1e-7
_log = logging.getLogger("hdpview")


def build(
    source: Any,
    schema: Schema,
    epsilon: float | str | Fraction,
    *,
    delta: float | str | Fraction | None = None,
    method: str | Method = DEFAULT_METHOD,
    engine: str = "local",
    threads: int | None = None,
    memory_limit: str | None = None,
    privacy_unit: str | None = None,
    max_rows: int = 1,
    count: str | None = None,
    no_person: Sequence[str] = (),
    people: Sequence[str] = (),
    ledger: str | PathLike[str] | Literal[False] | None = None,
    table: str | None = None,
    quality: bool = True,
    accept_losses: bool = False,
    test_key: bytes | None = None,
    progress: Progress | None = None,
    on_warning: Callable[[SchemaWarning], object] | None = None,
    on_charge: Callable[[Receipt], object] | None = None,
    resume: bool = False,
    **settings: Any,
) -> PView:
    """Build a view of a table, spending `epsilon`, and `delta` if there is one, once.

    Args:
        source: path of a CSV or Parquet file, a glob or a folder of them; a pandas, Polars or Arrow table; an
            Ibis table; with `engine="spark"` also a Spark DataFrame or the name of a table.
        schema: which columns to use and what values they may take. Public knowledge, not read from the table.
        epsilon: the privacy budget. Whoever sees the view learns almost nothing about any one record: adding
            or removing a record changes the probability of any outcome by a factor of at most e^epsilon.
        delta: with the method `mixture`, a small part of all probability, such as 1e-9 and far below one
            over the number of records, that may lie outside the promise of epsilon. Views of tables with many
            attributes are more accurate for it.
        method: name of a method, or a method object: `mixture`, the most accurate, or `hdpview`, exactly the
            paper's.
        engine: where to build; `local` uses this machine, `spark` the Spark session at work or a new one on
            this machine, and an address such as `spark://host:7077` that cluster. The same test key gives the
            same view on all of them.
        threads: number of threads; by default all cores.
        memory_limit: memory limit of the embedded database, such as "4GB"; beyond it, data spills to disk.
        privacy_unit: the column that identifies the person, such as "patient_id". Protects people, not single
            rows; rows without a value there are left out.
        max_rows: how many rows of each person are counted, chosen at random. All noise grows with it.
        count: for a table that is already aggregated: the column that says how many records a row stands for.
        no_person: what `privacy_unit` holds where nobody is named, such as ["NA", "unknown"]: those rows are
            left out too. Without it, all rows that say "unknown" are one person's.
        people: with a privacy unit, attributes by whose values persons are counted too, such as ["ward"]; a
            twentieth of the budget each, and one for their number. COUNT(DISTINCT patient_id) rests on it.
        ledger: the file that keeps what has been spent on tables; made where there is none. It is charged
            before any noise is drawn. By default the one that the environment variable HDPVIEW_LEDGER names,
            or `hdpview-ledger.sqlite` beside the table's file; for a table that is no file, in the working
            directory if it has a name (`table`), else none. False keeps no account.
        table: the table's name in the ledger; by default the name of the file.
        quality: whether to spend a twenty-fifth of the budget on measuring how far the view's own answers are
            off. Intervals rest on it; without, they rest on what other tables suggest.
        accept_losses: build even where a fifth or more of a column would be lost: unreadable, beyond the
            bounds or not declared. Otherwise such a build raises a LossError before anything is spent.
        test_key: for tests alone: makes the build repeatable, and the view not private.
        progress: called with the fraction done (or None) and a few words.
        on_warning: called with each smaller loss that `preview` finds; by default Python warns of it.
        on_charge: called with the receipt when the charge is in the ledger, before any noise is drawn.
            Whoever gives it calls the receipt's `name_view` when the view is written; until then the build
            can be resumed.
        resume: finish a build that broke off after its charge, with what was drawn then. Nothing more is
            charged. All other arguments have to be those of that build.
        **settings: settings of the method, such as `focus=[("age", "income")]`.

    Returns:
        The view. Nothing else of the table leaves this function.
    """
    _check_schema(schema)
    budget = exact_epsilon(epsilon)
    limits = Contributions(privacy_unit, max_rows, count, no_person)  # type: ignore[arg-type]  # it checks
    chosen = chosen_method(method, settings, build)
    chosen = chosen if delta is None else with_delta(chosen, exact_delta(delta))
    _check_engine(engine, chosen)
    check_people(people, schema, limits, engine)
    _check_feasible(chosen, schema, budget, limits.max_rows)
    randomness = Randomness.fresh() if test_key is None else Randomness.from_test_key(test_key)
    account = account_of(source, ledger, table, randomness.is_test)
    name = None if account is None else table or name_of(source)
    if account is not None and name is not None and not resume:
        account.check(name, budget, delta_of(chosen))
    if account is None and resume:
        raise BudgetError("A build is resumed from its ledger, and none is kept for this table.")
    _log.info(budget_line(account, name, None if resume else budget))
    salt = salt_of(account, name, randomness) or randomness.root_key("contributions").tobytes().hex()
    options = ReadOptions(limits, salt, memory_limit, threads, progress or silent)

    def check(counts: Counts) -> None:
        if not resume:
            states = getattr(counts, "exact_states", None)
            refuse_losses(_checked(source, schema, options, engine, states), accept_losses, on_warning)

    # Read, then charge, then draw.
    order = {
        "schema": schema.to_dict(),
        "epsilon": str(budget),
        "delta": str(delta_of(chosen)),
        "method": repr(chosen),
        "contributions": repr(limits),
        "quality": quality,
        "people": list(people),
        "test": randomness.is_test,
    }
    exact_people = person_counts(source, schema, options, people) if people else []
    with (
        _counted(engine, source, schema, chosen.reads, options) as (counts, where),
        _right_table(chosen, counts, check),
        _charged(
            account, name, budget, chosen, limits, _reasons(schema, randomness), salt, order, resume
        ) as receipt,  # [P12]
    ):
        if receipt is not None and on_charge is not None:
            on_charge(receipt)
        outcomes = None if receipt is None else receipt.outcomes
        view = release(
            counts,
            budget,
            chosen,
            randomness,
            threads,
            progress,
            limits,
            where,
            quality,
            outcomes,
            people,
            exact_people,
        )
        choice = None if limits.unit is None else choice_of(salt, limits)
        view = _on_record(view, None if randomness.is_test else receipt, choice)
    if receipt is not None and on_charge is None:
        receipt.outcomes.close(remove=True)
    _log.info(budget_line(account, name, None))
    kind = kind_of(source)
    return view if kind is None else view.with_frames(kind)


def preview(
    source: Any,
    schema: Schema,
    *,
    engine: str = "local",
    privacy_unit: str | None = None,
    max_rows: int = 1,
    no_person: Sequence[str] = (),
    memory_limit: str | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> list[SchemaWarning]:
    """List what a build would lose of a table, before anything is spent.

    The whole table is read, as `hdpview schema check` and every build do. The result is for the curator, who
    holds the table: it names bands (few, many, nearly all) and masked shapes, never values.

    Args:
        source: the table, as in `build`.
        schema: which columns to use and what values they may take.
        engine: where the table is read, as in `build`.
        privacy_unit: the column that identifies persons, as in `build`.
        max_rows: how many rows of one person are counted, as in `build`.
        no_person: what `privacy_unit` holds where nobody is named, as in `build`.
        memory_limit: of the embedded database, as in `build`.
        threads: number of threads; by default all cores.
        progress: called with the fraction done (or None) and a few words.

    Returns:
        Blocking warnings first, which stop a build until they are accepted. Empty if nothing is lost.
    """
    _check_schema(schema)
    _check_engine(engine)
    limits = Contributions(privacy_unit, max_rows, None, no_person)  # type: ignore[arg-type]  # it checks
    return _checked(
        source, schema, ReadOptions(limits, "", memory_limit, threads, progress or silent), engine
    )


def _checked(
    source: Any, schema: Schema, options: ReadOptions, engine: str, states: States | None = None
) -> list[SchemaWarning]:
    if engine == "local":
        return check_table(source, schema, options, states)
    from hdpview.spark.counts import check_on_spark

    return check_on_spark(source, schema, options, None if engine == "spark" else engine, states)


def budget_line(account: Ledger | None, name: str | None, coming: Fraction | None) -> str:
    """What is charged (coming: by a build that is to begin), what is left, and where the ledger is."""
    if account is None or name is None:
        return "Budget: no ledger is kept of this build" + (
            "." if coming is None else f" of epsilon {float(coming):g}."
        )
    try:
        return account.describe(name, coming)
    except BudgetError as problem:
        if coming is not None:
            raise
        return f"Budget: the view is finished. {problem}"


def account_of(
    source: Any, named: str | PathLike[str] | Literal[False] | None, table: str | None, is_test: bool = False
) -> Ledger | None:
    """The ledger to charge. A test build is on record where the table has a ledger, and starts none."""
    if named is False:
        return None
    if named is not None:
        return Ledger(named)
    place = ledger_for(source, table)
    if is_test:
        return Ledger(place) if place is not None and place.exists() else None
    if place is None:
        _warn_once(
            "This build is not recorded in a ledger, because the table is not a file. Name the table "
            "(table='admissions') to keep account of what is spent on it, or pass ledger=False."
        )
        return None
    return Ledger(place)


def _charged(
    account: Ledger | None,
    name: str | None,
    budget: Fraction,
    method: Method,
    limits: Contributions,
    why_not_private: Sequence[str],
    salt: str,
    order: dict[str, Any],
    resume: bool,
) -> AbstractContextManager[Receipt | None]:
    """Charges the ledger, if there is one, when it is entered; or resumes what was charged before."""
    if account is None or name is None:
        return nullcontext()
    return account.charged(
        name,
        budget,
        method.name,
        limits.unit or EACH_ROW_UNIT,
        limits.max_rows,
        delta_of(method),
        "; ".join(why_not_private) or None,
        None if limits.unit is None or TEST_KEY_REASON in why_not_private else salt,
        order=order,
        resume=resume,
    )


def salt_of(account: Ledger | None, name: str | None, randomness: Randomness) -> str | None:
    """By which each person's rows were chosen before; None where no ledger knows. A test key has its own."""
    known = None if account is None or name is None or randomness.is_test else account.salt(name)
    return randomness.root_key("contributions").tobytes().hex() if randomness.is_test else known


def choice_of(salt: str, limits: Contributions) -> str:
    """A fingerprint of a choice of rows: another salt, or other rules, would choose others. [P17]"""
    return hashlib.sha256(f"{salt}|{limits!r}".encode()).hexdigest()[:16]


@cache
def _warn_once(words: str) -> None:
    _log.warning(words)


def _check_schema(schema: Schema) -> None:
    if not isinstance(schema, Schema):
        raise SchemaError("schema must be a Schema; load one with hdpview.Schema.load('table.toml').")


def _check_engine(engine: str, method: Method | None = None) -> None:
    if engine not in _ENGINES and not str(engine).startswith("spark://"):
        raise MethodError(unknown_name("engine", str(engine), _ENGINES, "The engines are"))
    if method is not None and engine != "local" and not method.supports_spark:
        raise MethodError(
            f"The method {method.name} looks at cells itself, which on Spark are spread over machines. "
            "Use engine='local'."
        )


def _check_feasible(method: Method, schema: Schema, budget: Fraction, max_rows: int) -> None:
    """Raise, before anything is read or spent, where the method cannot make such a view."""
    if budget / max_rows < _LEAST_PER_RECORD:
        raise BudgetError(
            f"Epsilon {float(budget):g} for {max_rows:,} rows of a person is less than {_LEAST_PER_RECORD:g} "
            "a row: noise would exceed any table. Nothing was spent. Use a larger epsilon, or fewer rows."
        )
    for_one = for_one_record(method, budget, max_rows)
    reason = (
        for_one.why_infeasible(schema, float(budget / max_rows))
        if method.makes_views
        else _not_a_view(method)
    )
    if reason is not None:
        raise MethodError(reason)


@contextmanager
def _right_table(method: Method, counts: Counts, check: Callable[[Counts], None]) -> Iterator[None]:
    """Raise before the charge where much would be lost, or the method is given the wrong table."""
    check(counts)
    reason = method.why_not_this_table(counts)
    if reason is not None:
        raise MethodError(reason)
    yield


@contextmanager
def _counted(
    engine: str, source: Any, schema: Schema, reads: Reads, options: ReadOptions
) -> Iterator[tuple[Counts, Engine]]:
    """The exact counts of a table as the method reads them, and the engine that grows blocks of them."""
    if engine == "local":
        local = LocalEngine(options.threads)
        if reads == "cells":
            yield read_counts(source, schema, options), local
            return
        with streamed_counts(source, schema, options) as rows:
            yield rows, local
        return
    from hdpview.spark.counts import distributed_counts, distributed_rows
    from hdpview.spark.engine import SparkEngine

    master = None if engine == "spark" else engine
    distributed = distributed_counts if reads == "cells" else distributed_rows
    with distributed(source, schema, options, master) as spread:
        yield spread, SparkEngine()


def release(
    counts: Counts,
    epsilon: Fraction,
    method: Method,
    randomness: Randomness,
    threads: int | None = None,
    progress: Progress | None = None,
    limits: Contributions = EACH_ROW,
    engine: Engine | None = None,
    quality: bool = False,
    outcomes: Outcomes | None = None,
    people: Sequence[str] = (),
    exact_people: Sequence[Exact] = (),
) -> PView:
    """A view of exact counts: the method's release, what was measured of its errors, and what all of it cost.

    outcomes: of a build that broke off, to go on from.
    """
    k, where = limits.max_rows, engine or LocalEngine(threads)
    for_quality = epsilon * QUALITY_SHARE if quality else Fraction(0)
    for_people = (epsilon - for_quality) * share_of_people(people)
    rest = epsilon - for_quality - for_people
    released, charges = release_with(
        method, counts, rest, randomness, where, progress, max_rows=k, outcomes=outcomes
    )
    if not isinstance(released, ViewRelease):
        raise MethodError(_not_a_view(method))
    prior = prior_quality(released.components, released.tables)
    part = ViewPart(released.components, prior, released.tables, cycles=counts.schema.cycles)
    if quality:
        mechanism = Mechanism(for_quality, randomness, max_rows=k, outcomes=outcomes)
        part = replace(part, quality=measure_quality(part, counts, mechanism, progress))
        charges = (*charges, *mechanism.close())
    if people:
        tables, more = measure_people(
            exact_people, people, counts.schema, for_people, randomness, k, outcomes
        )
        part, charges = replace(part, people=tables), (*charges, *more)
    manifest = Manifest(
        schema=counts.schema,
        method=method.name,
        epsilon=epsilon,
        spending=tuple(
            Spending(charge.purpose, charge.epsilon, charge.times, charge.delta) for charge in charges
        ),
        settings=method.settings(),
        parameters=released.parameters,
        library_version=__version__,
        privacy_unit=limits.unit or EACH_ROW_UNIT,
        not_private_because=_reasons(counts.schema, randomness),
        max_rows=k,
        count_column=limits.count,
        delta=delta_of(method),
        created="" if randomness.is_test else datetime.now(UTC).date().isoformat(),
        focus=getattr(method, "focus", ()),
    )
    return PView(manifest, (part,))


def _on_record(view: PView, receipt: Receipt | None, choice: str | None) -> PView:
    """The view with what the ledger says of its table, and which rows were chosen."""
    manifest = replace(view.manifest, choice=choice)
    if receipt is not None:
        manifest = replace(manifest, table=receipt.table, spent_on_table=receipt.spent)
    return PView(manifest, view.parts, view.frame)


def for_one_record(method: Method, epsilon: Fraction, k: int) -> Method:
    """The method with the δ for one record, where up to k are protected with `epsilon` and its δ. [P14]"""
    return with_delta(method, delta_of_one_record(delta_of(method), epsilon, k))


def _not_a_view(method: Method) -> str:
    return (
        f"The method {method.name} makes no views: it is there to be compared with in benchmarks. Use the "
        f"method {DEFAULT_METHOD}."
    )


def _reasons(schema: Schema, randomness: Randomness) -> tuple[str, ...]:
    stamped = [(randomness.is_test, TEST_KEY_REASON), (schema.learnt_from_data, LEARNT_SCHEMA_REASON)]
    return tuple(reason for applies, reason in stamped if applies)
