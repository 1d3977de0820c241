"""What the records of one batch share, spread over the records of many batches. Pure."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from barnabas.protocol.batch import BatchHeader


@dataclass(slots=True)
class BatchProgress:
    """A batch that is being read, perhaps in pieces: how many records are still to come, and the last one's delta."""

    header: BatchHeader
    records_left: int
    last_delta: int = -1


@dataclass(slots=True)
class Run:
    """The records of one batch among those that are read together: `[first, end)` of them."""

    batch: BatchProgress
    first: int
    end: int


class RunTable:
    """The runs of some records in their order; each has at least one record."""

    __slots__ = ("_lengths", "_runs")

    def __init__(self, runs: list[Run]) -> None:
        self._runs = runs
        self._lengths = np.array([run.end - run.first for run in runs], dtype=np.int64)

    @property
    def firsts(self) -> NDArray[np.int64]:
        """The index of the first record of each run."""
        return np.array([run.first for run in self._runs], dtype=np.int64)

    def spread(self, per_run: list[int]) -> NDArray[np.int64]:
        """A number of each run, given to each of its records."""
        return np.repeat(np.array(per_run, dtype=np.int64), self._lengths)

    @property
    def base_offsets(self) -> NDArray[np.int64]:
        return self.spread([run.batch.header.base_offset for run in self._runs])

    @property
    def last_deltas(self) -> NDArray[np.int64]:
        """The greatest offset delta that the batch of each record allows."""
        return self.spread([run.batch.header.last_offset_delta for run in self._runs])

    @property
    def deltas_before(self) -> NDArray[np.int64]:
        """For each run the delta of the record of its batch that came before."""
        return np.array([run.batch.last_delta for run in self._runs], dtype=np.int64)

    @property
    def first_timestamps(self) -> NDArray[np.int64]:
        return self.spread([run.batch.header.first_timestamp for run in self._runs])

    @property
    def max_timestamps(self) -> NDArray[np.int64]:
        return self.spread([run.batch.header.max_timestamp for run in self._runs])

    @property
    def append_time(self) -> NDArray[np.int64]:
        """1 for records whose time is the broker's, 0 for those whose time is the producer's."""
        return self.spread([int(run.batch.header.uses_log_append_time) for run in self._runs])

    @property
    def any_append_time(self) -> bool:
        return any(run.batch.header.uses_log_append_time for run in self._runs)

    def run_of(self, record: int) -> int:
        """The index of the run that holds the record."""
        return int(np.searchsorted(np.cumsum(self._lengths), record, side="right"))
