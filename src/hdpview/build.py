"""Build a view of a table. Apart from the methods, the only module that sees both sides."""

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
from pathlib import Path
from typing import Any, Literal, NamedTuple

from hdpview._version import __version__
from hdpview.counts.check import check_table, refuse_losses
from hdpview.counts.contributions import EACH_ROW, EACH_ROW_UNIT, Contributions
from hdpview.counts.exact_statistics import Counts
from hdpview.counts.files import files_of
from hdpview.counts.ingest import ReadOptions, read_counts
from hdpview.counts.losses import SchemaWarning
from hdpview.counts.person_counts import check_people, person_counts
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
from hdpview.privacy.noise import delta_of_one_record
from hdpview.privacy.randomness import Randomness
from hdpview.progress import Progress, silent
from hdpview.pview import PView
from hdpview.query.present.frames import kind_of
from hdpview.view.data import ViewPart
from hdpview.view.manifest import Manifest, Spending, check_writable, risk_sentence
from hdpview.view.quality import prior_quality

TEST_KEY_REASON = "built with a test key: anyone who knows the key can subtract the noise"
LEARNT_SCHEMA_REASON = "the schema was drawn from the table itself"
_ENGINES = ("local", "spark")
# Minimum ε per row: with less, the noise on a table may exceed the limit of files, 10¹² records.
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
    accept_losses: bool | Callable[[Sequence[SchemaWarning]], bool] = False,
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
        schema: the columns to use and their possible values. Public knowledge, not read from the table.
        epsilon: the privacy budget. Whoever sees the view learns almost nothing about any one record: adding
            or removing a record changes the probability of any outcome by a factor of at most e^epsilon.
        delta: with the method `mixture`, the probability that the guarantee of epsilon may fail, such as
            1e-9. Choose it far below one over the number of records. Views of tables with many attributes
            become more accurate.
        method: name of a method, or a method object: `mixture`, the most accurate, or `hdpview`, the paper's
            method.
        engine: where to build: `local` (this machine), `spark` (the active Spark session, or a new one on
            this machine), or the address of a cluster such as `spark://host:7077`. The same test key gives
            the same view on all of them.
        threads: number of threads; by default all cores.
        memory_limit: memory limit of the embedded database, such as "4GB"; beyond it, data spills to disk.
        privacy_unit: the column that identifies the person, such as "patient_id". Protects people, not single
            rows; rows without a value there are left out.
        max_rows: maximum rows counted per person, chosen at random. All noise grows with it.
        count: for an aggregated table: the column with the number of records per row.
        no_person: values of `privacy_unit` that name nobody, such as ["NA", "unknown"]; their rows are left
            out too. Otherwise, all rows that say "unknown" count as one person.
        people: with a privacy unit, attributes by which persons are counted too, such as ["ward"]. Each costs
            a twentieth of the budget, and so does the total. COUNT(DISTINCT patient_id) needs it.
        ledger: the file that records the budget spent on tables; created if absent. It is charged before any
            noise is drawn. The default is the file that the environment variable HDPVIEW_LEDGER names, or
            `hdpview-ledger.sqlite` beside the table's file; for other tables, one in the working directory if
            `table` is given. False records nothing.
        table: the table's name in the ledger; by default the name of the file.
        quality: whether to spend a twenty-fifth of the budget on measuring the view's own errors. Intervals
            then use these measurements, and otherwise figures from other tables.
        accept_losses: build even if a fifth or more of a column would be lost: unreadable, out of bounds or
            undeclared. Otherwise such a build raises a LossError before anything is spent. A function decides
            itself: it is called with all warnings, and returns whether to go on.
        test_key: for tests only: makes the build repeatable, and the view not private.
        progress: called with the fraction done (or None) and a few words.
        on_warning: called with each smaller loss that `preview` lists; by default, a Python warning.
        on_charge: called with the receipt after the charge, before any noise is drawn. Call the receipt's
            `name_view` once the view is written; until then the build can be resumed.
        resume: finish a build that was interrupted after its charge, with the noise drawn then. Charges
            nothing more. All other arguments must equal those of that build.
        **settings: settings of the method, such as `focus=[("age", "income")]`.

    Returns:
        The view. Nothing else about the table leaves this function.
    """
    check_schema(schema)
    budget = exact_epsilon(epsilon)
    limits = Contributions(privacy_unit, max_rows, count, no_person)  # type: ignore[arg-type]  # it checks
    chosen = chosen_method(method, settings, build)
    chosen = chosen if delta is None else with_delta(chosen, exact_delta(delta))
    _check_engine(engine, chosen)
    check_people(people, schema, limits, engine)
    _check_feasible(chosen, schema, budget, limits.max_rows)
    if engine == "local" and isinstance(source, (str, PathLike)):
        files_of(Path(source))  # before the budget is printed
    randomness = Randomness.fresh() if test_key is None else Randomness.from_test_key(test_key)
    facts = _facts(schema, budget, chosen, limits, randomness)
    check_writable(facts)
    charged = ledger_of(source, ledger, table, randomness.is_test)
    if charged is not None and not resume:
        charged.ledger.check(charged.table, budget, delta_of(chosen))
    elif charged is None and resume:
        raise BudgetError("This build has no ledger, so it cannot be resumed.")
    if getattr(chosen, "refined_view", None) is None:
        _log.info("Risk: %s", risk_sentence(budget, limits.unit or EACH_ROW_UNIT, delta_of(chosen)))
    _log.info(_budget_line(charged, budget, resume))
    salt = salt_of(charged, randomness) or randomness.root_key("contributions").tobytes().hex()
    options = ReadOptions(limits, salt, memory_limit, threads, progress or silent)
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
    # Read, then charge, then draw noise.
    exact_people = person_counts(source, schema, options, people) if people else []
    with _counted(engine, source, schema, chosen.reads, options) as (counts, where):
        if not resume:
            losses = _checked(source, schema, options, engine, getattr(counts, "exact_states", None))
            refuse_losses(losses, accept_losses, on_warning)
        if unsuitable := chosen.why_not_this_table(counts):
            raise MethodError(unsuitable)
        with _charge(charged, facts, chosen, salt, order, resume) as receipt:  # [P12]
            if receipt is not None and on_charge is not None:
                on_charge(receipt)
            outcomes = None if receipt is None else receipt.outcomes
            ways = threads, progress, limits, where, quality, outcomes, people, exact_people
            view = release(counts, budget, chosen, randomness, *ways)
    manifest = replace(view.manifest, choice=None if limits.unit is None else choice_of(salt, limits))
    if receipt is not None:
        if not randomness.is_test:
            manifest = replace(manifest, table=receipt.table, spent_on_table=receipt.spent)
        if on_charge is None:
            receipt.outcomes.close(remove=True)
        _log.info(_budget_line(charged))
    return PView(manifest, view.parts, kind_of(source))


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

    Reads the whole table, as `hdpview schema check` and every build do. All arguments are as in `build`. The
    result is for the curator, who holds the table: it names bands (few, many, nearly all) and masked shapes,
    never values.

    Returns:
        Blocking warnings first, which stop a build until they are accepted. Empty if nothing is lost.
    """
    check_schema(schema)
    _check_engine(engine)
    limits = Contributions(privacy_unit, max_rows, None, no_person)  # type: ignore[arg-type]  # it checks
    options = ReadOptions(limits, "", memory_limit, threads, progress or silent)
    return _checked(source, schema, options, engine)


def _checked(
    source: Any, schema: Schema, options: ReadOptions, engine: str, states: States | None = None
) -> list[SchemaWarning]:
    if engine == "local":
        return check_table(source, schema, options, states)
    from hdpview.spark.counts import check_on_spark

    return check_on_spark(source, schema, options, None if engine == "spark" else engine, states)


class TableLedger(NamedTuple):
    """A ledger, and the table's name in it."""

    ledger: Ledger
    table: str


def _budget_line(charged: TableLedger | None, coming: Fraction | None = None, resume: bool = False) -> str:
    """The budget spent and left, and the ledger's path. coming: the charge of a build about to start."""
    if charged is None:
        return f"Budget: this build of epsilon {float(coming or 0):g} is not recorded in a ledger."
    try:
        return charged.ledger.describe(charged.table, None if resume else coming)
    except BudgetError as problem:
        if coming is not None:
            raise
        return f"Budget: the view is finished. {problem}"


def ledger_of(
    source: Any, named: str | PathLike[str] | Literal[False] | None, table: str | None, is_test: bool = False
) -> TableLedger | None:
    """The ledger to charge. A test build is recorded if the table has a ledger, but never creates one."""
    path = None if named is False else ledger_for(source, table) if named is None else Path(named)
    if named is None and is_test:
        path = path if path is not None and path.exists() else None
    elif named is None and path is None:
        way_out = "Name the table (table='admissions') to record what is spent on it, or pass ledger=False."
        _warn_once(f"This build is not recorded in a ledger, because the table is not a file. {way_out}")
    return None if path is None else TableLedger(Ledger(path), table or name_of(source))


def _charge(
    charged: TableLedger | None,
    facts: Manifest,
    method: Method,
    salt: str,
    order: dict[str, Any],
    resume: bool,
) -> AbstractContextManager[Receipt | None]:
    """Charges the ledger, if any, on entry; or resumes an earlier charge."""
    if charged is None:
        return nullcontext()
    stamps, refined = facts.not_private_because, getattr(method, "refined_view", None)
    kept_salt = None if facts.privacy_unit == EACH_ROW_UNIT or TEST_KEY_REASON in stamps else salt
    terms = (
        facts.method,
        facts.privacy_unit,
        facts.max_rows,
        facts.delta,
        "; ".join(stamps) or None,
        kept_salt,
    )
    paid = charged.ledger.charged
    return paid(charged.table, facts.epsilon, *terms, refined, order=order, resume=resume)


def salt_of(charged: TableLedger | None, randomness: Randomness) -> str | None:
    """The salt of earlier choices of each person's rows; None if no ledger has it. A test key has its own."""
    if randomness.is_test:
        return randomness.root_key("contributions").tobytes().hex()
    return None if charged is None else charged.ledger.salt(charged.table)


def choice_of(salt: str, limits: Contributions) -> str:
    """A fingerprint of a choice of rows, which depends on the salt and the limits. [P17]"""
    return hashlib.sha256(f"{salt}|{limits!r}".encode()).hexdigest()[:16]


@cache
def _warn_once(words: str) -> None:
    _log.warning(words)


def check_schema(schema: Schema) -> None:
    if not isinstance(schema, Schema):
        raise SchemaError("schema must be a Schema; load one with hdpview.Schema.load('table.toml').")


def _check_engine(engine: str, method: Method | None = None) -> None:
    if engine not in _ENGINES and not str(engine).startswith("spark://"):
        raise MethodError(unknown_name("engine", str(engine), _ENGINES, "The engines are"))
    if method is not None and engine != "local" and not method.supports_spark:
        why = "reads single cells, which Spark spreads over machines"
        raise MethodError(f"The method {method.name} {why}. Use engine='local'.")


def _check_feasible(method: Method, schema: Schema, budget: Fraction, max_rows: int) -> None:
    """Raise, before anything is read or spent, if the method cannot make such a view."""
    if budget / max_rows < _LEAST_PER_RECORD:
        raise BudgetError(
            f"Epsilon {float(budget):g} for {max_rows:,} rows per person is less than {_LEAST_PER_RECORD:g} "
            "per row: noise would exceed any table. Nothing was spent. Use a larger epsilon, or fewer rows."
        )
    if not method.makes_views:
        why = "exists for benchmarks. Views need the method"
        raise MethodError(f"The method {method.name} {why} {DEFAULT_METHOD}.")
    for_one = for_one_record(method, budget, max_rows)
    if reason := for_one.why_infeasible(schema, float(budget / max_rows)):
        raise MethodError(reason)


@contextmanager
def _counted(
    engine: str, source: Any, schema: Schema, reads: Reads, options: ReadOptions
) -> Iterator[tuple[Counts, Engine]]:
    """The exact counts of a table as the method reads them, and the engine that grows blocks of them."""
    if engine != "local":
        from hdpview.spark.counts import distributed_counts, distributed_rows
        from hdpview.spark.engine import SparkEngine

        distributed = distributed_counts if reads == "cells" else distributed_rows
        with distributed(source, schema, options, None if engine == "spark" else engine) as spread:
            yield spread, SparkEngine()
    elif reads == "cells":
        yield read_counts(source, schema, options), LocalEngine(options.threads)
    else:
        with streamed_counts(source, schema, options) as rows:
            yield rows, LocalEngine(options.threads)


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
    """A view of exact counts: the method's release, the measured size of its errors, and the costs.

    outcomes: draws of an interrupted build to continue.
    """
    k, where = limits.max_rows, engine or LocalEngine(threads)
    for_quality = epsilon * QUALITY_SHARE if quality else Fraction(0)
    for_people = (epsilon - for_quality) * share_of_people(people)
    rest = epsilon - for_quality - for_people
    released, charges = release_with(
        method, counts, rest, randomness, where, progress, max_rows=k, outcomes=outcomes
    )
    assert isinstance(released, ViewRelease)  # see `_check_feasible`
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
    spending = tuple(Spending(each.purpose, each.epsilon, each.times, each.delta) for each in charges)
    facts = _facts(counts.schema, epsilon, method, limits, randomness)
    return PView(replace(facts, spending=spending, parameters=released.parameters), (part,))


def _facts(
    schema: Schema, epsilon: Fraction, method: Method, limits: Contributions, randomness: Randomness
) -> Manifest:
    """The fields of the manifest that are fixed before any draw."""
    stamped = [(randomness.is_test, TEST_KEY_REASON), (schema.learnt_from_data, LEARNT_SCHEMA_REASON)]
    return Manifest(
        schema=schema,
        method=method.name,
        epsilon=epsilon,
        spending=(Spending("", epsilon, 1, delta_of(method)),),
        settings=method.settings(),
        parameters={},
        library_version=__version__,
        privacy_unit=limits.unit or EACH_ROW_UNIT,
        not_private_because=tuple(reason for applies, reason in stamped if applies),
        max_rows=limits.max_rows,
        count_column=limits.count,
        delta=delta_of(method),
        created="" if randomness.is_test else datetime.now(UTC).date().isoformat(),
        focus=getattr(method, "focus", ()),
    )


def for_one_record(method: Method, epsilon: Fraction, k: int) -> Method:
    """The method with the δ for one record, if up to k are protected with `epsilon` and its δ. [P14]"""
    return with_delta(method, delta_of_one_record(delta_of(method), epsilon, k))
