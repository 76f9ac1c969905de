"""Run Spark jobs: report progress, cancel on Ctrl-C, and raise errors that quote no row."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hdpview.errors import DataError, HdpviewError, MethodError
from hdpview.progress import Progress, in_background, silent
from hdpview.spark import tasks
from hdpview.spark.session import RDD, Session

Result = TypeVar("Result")

# Maximum size of the sums of all cores that the driver adds up; larger ones are added up by the workers.
_BYTES_OF_SUMS = 128 << 20


def run_job(session: Session, action: Callable[[], Result], report: Progress | None, text: str) -> Result:
    """Run a Spark action on a thread; report progress, and cancel it on Ctrl-C."""
    try:
        return _in_background(session, action, report or silent, text)
    except HdpviewError:
        raise
    except Exception as refusal:  # Spark's message may quote values, so only its type is passed on
        problem = _without_values(refusal, text)
    raise problem  # outside the handler, so that the original does not become its context


def sums_by_slot(
    session: Session,
    chunks: RDD,
    task: tasks.Task,
    lengths: Sequence[int],
    progress: Progress | None,
    text: str,
) -> list[NDArray[np.int64]]:
    """The numbers of each slot, summed where the rows are; `lengths` gives how many there are per slot."""
    cores = session.sparkContext.defaultParallelism
    numbers = chunks.coalesce(cores).mapPartitions(task)
    if 8 * sum(lengths) * cores > _BYTES_OF_SUMS:
        numbers = numbers.reduceByKey(np.add, cores)
    totals = [np.zeros(n, np.int64) for n in lengths]
    for slot, part in run_job(session, numbers.collect, progress, text):
        totals[slot] += part
    return totals


def _in_background(session: Session, action: Callable[[], Result], report: Progress, text: str) -> Result:
    from pyspark import inheritable_thread_target

    context, group = session.sparkContext, f"hdpview-{uuid.uuid4()}"

    def work() -> Result:
        context.setJobGroup(group, text, interruptOnCancel=True)
        return action()

    inheriting: Callable[[], Result] = inheritable_thread_target(session)(work)
    return in_background(
        inheriting,
        lambda: report(_fraction_done(context.statusTracker(), group), text),
        lambda: context.cancelJobGroup(group),
    )


def _fraction_done(tracker: Any, group: str) -> float | None:
    """Completed share of the tasks known so far; None while none is known."""
    jobs = filter(None, (tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)))
    stages = [tracker.getStageInfo(stage) for job in jobs for stage in job.stageIds]
    n_tasks = sum(stage.numTasks for stage in stages if stage is not None)
    n_done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
    return n_done / n_tasks if n_tasks else None


def _without_values(refusal: Exception, text: str) -> HdpviewError:
    words = str(refusal)
    if "No module named 'hdpview'" in words or "No module named 'numba'" in words:
        return MethodError(
            "The workers of this Spark cluster cannot import hdpview. Install it on each worker for the "
            "interpreter that PYSPARK_PYTHON names, or ship it with the job; see docs/how-to/spark.md."
        )
    kind, step = type(refusal).__name__, text[0].lower() + text[1:]
    return DataError(
        f"Spark failed while {step} ({kind}; the message may quote values, so it is withheld). Check the "
        "logs of the executors, and that every worker can read the table and has enough memory."
    )
