"""Work on Spark under way: progress while it runs, an end to it on Ctrl-C, and errors that quote no row."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hdpview.errors import DataError, HdpviewError, MethodError
from hdpview.progress import Progress, in_background, silent
from hdpview.spark import tasks
from hdpview.spark.chunks import grouped, mapped
from hdpview.spark.session import DataFrame, Session

Result = TypeVar("Result")


def run_job(session: Session, action: Callable[[], Result], report: Progress | None, text: str) -> Result:
    """Run an action of Spark on a thread; report progress, and cancel what runs on Ctrl-C."""
    try:
        return _in_background(session, action, report or silent, text)
    except HdpviewError:
        raise
    except Exception as refusal:  # words of Spark may quote values: only their kind is passed on
        problem = _without_values(refusal, text)
    raise problem  # not in the handler: there the original, with its words, would become its context


def sums_by_slot(
    session: Session,
    chunks: DataFrame,
    task: tasks.Task,
    lengths: Sequence[int],
    progress: Progress | None,
    text: str,
) -> list[NDArray[np.int64]]:
    """The numbers of each slot, as many as `lengths` says, added up on the workers."""
    frame = grouped(mapped(chunks, task, tasks.NUMBERS), "slot", tasks.summed, tasks.NUMBERS)
    found = run_job(session, frame.collect, progress, text)
    by_slot = {row["slot"]: np.frombuffer(row["numbers"], np.int64).copy() for row in found}
    return [by_slot.get(slot, np.zeros(n, np.int64)) for slot, n in enumerate(lengths)]


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
    """Tasks done of those known so far; None while none is known."""
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    n_tasks = sum(stage.numTasks for stage in stages if stage is not None)
    return (
        sum(stage.numCompletedTasks for stage in stages if stage is not None) / n_tasks if n_tasks else None
    )


def _without_values(refusal: Exception, text: str) -> HdpviewError:
    words = str(refusal)
    if "No module named 'hdpview'" in words or "No module named 'numba'" in words:
        return MethodError(
            "The workers of this Spark cluster cannot import hdpview. Install it on each of them under the "
            "interpreter that PYSPARK_PYTHON names, or send it along; docs/how-to/spark.md says how."
        )
    kind, step = type(refusal).__name__, text[0].lower() + text[1:]
    advice = (
        "Look into the logs of Spark's executors, and check that every worker can read the table and has "
        "memory left."
    )
    return DataError(
        f"Spark gave up while it was {step} ({kind}; its words may quote values and are not shown). {advice}"
    )
