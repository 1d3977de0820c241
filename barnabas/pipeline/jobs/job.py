"""A run of a job: what it is given, and how it ends.

A job is a function of its run. It ends by returning, by JobFailed or another error, or, some time after `stopping` was
set, by returning early. However it ends, the report is written.
"""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from barnabas.pipeline.jobs.config import SparkConfig, to_json
from barnabas.pipeline.jobs.progress import Progress
from barnabas.pipeline.jobs.report import RunReport, Status, write_report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

C = TypeVar("C")


class JobFailed(Exception):
    """The job cannot do what it is for; the text says why and what to do."""


class Run(Generic[C]):
    """What a job has: `config` is its own, `stopping` is set when it is asked to end soon and in good order."""

    def __init__(self, job: str, config: C, *, progress: Progress | None = None) -> None:
        self.job = job
        self.config = config
        self.report = RunReport(job, to_json(config))
        self.progress = progress or Progress()
        self.stopping = threading.Event()
        self._spark: SparkSession | None = None

    def spark(self) -> "SparkSession":
        """The Spark session of this run, started at the first call. Raises SparkUnavailable, a JobFailed."""
        if self._spark is None:
            from barnabas.pipeline.session import new_session  # noqa: PLC0415 - jobs without Spark do not load it

            chosen = getattr(self.config, "spark", None)
            chosen = chosen if isinstance(chosen, SparkConfig) else SparkConfig()
            self.progress.show("starting Spark")
            self._spark = new_session(f"barnabas {self.job}", master=chosen.master, settings=chosen.settings)
        return self._spark

    def close(self) -> None:
        """End what the run started."""
        spark, self._spark = self._spark, None
        if spark is not None:
            spark.stop()


def carry_out(
    run: Run[C], work: Callable[[Run[C]], None], report_to: Path | None, ended: Callable[[Any], None] | None = None
) -> Status:
    """Do the work of a run and write its report. SIGINT and SIGTERM set `stopping`, a second one interrupts.

    `ended` is given the report's document. Raises what the work raises, after the report was written.
    """
    status, error = Status.FAILED, None
    try:
        with _signals_stop(run.stopping):
            work(run)
        status = Status.STOPPED if run.stopping.is_set() else Status.SUCCEEDED
    except BaseException as failure:
        error = f"{type(failure).__name__}: {failure}"
        if isinstance(failure, KeyboardInterrupt):
            status, error = Status.STOPPED, "interrupted"
        raise
    finally:
        try:
            run.progress.end()
            run.close()
        finally:
            document = run.report.document(status, error)
            if report_to is not None:
                write_report(report_to, document)
            if ended is not None:
                ended(document)
    return status


@contextlib.contextmanager
def _signals_stop(stopping: threading.Event) -> Iterator[None]:
    def stop(_number: int, _frame: FrameType | None) -> None:
        if stopping.is_set():
            raise KeyboardInterrupt
        stopping.set()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
