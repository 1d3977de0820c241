"""Waiting for streaming queries: until they have begun, and for what their batches read."""

from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql.streaming.query import StreamingQuery

from barnabas.pipeline.jobs.job import Run

_BEGINS: Final = "Initializing"
_LOOK_S: Final = 0.02


def await_sources(query: StreamingQuery, run: Run[Any]) -> None:
    """Wait until a query that was started has its sources, has ended, or all is to stop. Others may start then.

    All Python sources of a JVM share one map of environment variables, into which the first stream of each writes
    without a lock (Spark 4.0 to 4.3, PythonStreamingSourceRunner). Where two begin at once, the map's size may be wrong
    ever after, and each task fails as "Task not serializable".
    """
    while query.isActive and query.status["message"].startswith(_BEGINS):
        if run.stopping.wait(_LOOK_S):
            return


class FollowedQuery:
    """One query that runs, and how far its batches were told."""

    def __init__(self, query: StreamingQuery) -> None:
        self.query = query
        self._told = -1

    def batches(self) -> Iterator[Any]:
        """The progress of the batches that ended since it was asked last, in order."""
        for progress in self.query.recentProgress:
            # Between batches Spark tells that nothing happens, with the number of the batch to come.
            if progress.batchId > self._told and "addBatch" in progress.durationMs:
                self._told = progress.batchId
                yield progress

    def end(self) -> None:
        """Stop it where it runs. Raises what ended it before."""
        if self.query.isActive:
            self.query.stop()
        error = self.query.exception()
        if error is not None:
            raise error
