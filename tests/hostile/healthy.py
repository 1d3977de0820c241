"""A client that minds its own business and measures how long its requests take.

On a machine with other work to do, an answer mostly waits for a CPU: for the broker's, or for the client's own. The
scheduler counts, per task, how long it was ready and did not run (`run_delay`, the second field of schedstat). That is
taken off each request, so that what is left was spent by the broker and not by who else ran on its core.
"""

import os
import time
from dataclasses import dataclass
from statistics import median
from typing import Self

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from tests.support.api_client import ApiConnection, batch_of

INTERVAL_SECONDS = 0.005


class CpuWaits:
    """How long the main thread of a process, and the thread that asks, have waited for a CPU so far."""

    def __init__(self, pid: int) -> None:
        self._files = [os.open(path, os.O_RDONLY) for path in (f"/proc/{pid}/schedstat", "/proc/thread-self/schedstat")]

    def seconds(self) -> float:
        return sum(int(os.pread(file, 100, 0).split()[1]) for file in self._files) / 1e9

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            os.close(file)


@dataclass(slots=True)
class Window:
    """The 99th percentiles of the requests of one window: as measured, and less the waits for a CPU."""

    measured_ms: float
    p99_ms: float

    def __str__(self) -> str:
        return f"{self.p99_ms:.2f} ({self.measured_ms:.2f})"


class HealthyClient:
    """Sends a small Produce with acks=all, or fetches what it wrote last, every 5 ms, one after the other."""

    def __init__(self, connection: ApiConnection, partition: TopicPartition, waits: CpuWaits) -> None:
        self._connection = connection
        self._partition = partition
        self._waits = waits
        self._batch = batch_of([b"a value of a hundred bytes".ljust(100, b".")])
        self._offset = 0

    def window(self, seconds: float) -> Window:
        """Go on for so long. Fails on any error."""
        measured: list[float] = []
        undisturbed: list[float] = []
        due = time.perf_counter()
        end = due + seconds
        while due < end:
            time.sleep(max(0.0, due - time.perf_counter()))
            waited, began = self._waits.seconds(), time.perf_counter()
            self._request(writes=len(measured) % 2 == 0)
            now = time.perf_counter()
            measured.append(now - began)
            undisturbed.append(max(0.0, now - began - (self._waits.seconds() - waited)))
            # Requests that could not be sent in time are not made up for.
            due = max(due + INTERVAL_SECONDS, now)
        return Window(_p99_ms(measured), _p99_ms(undisturbed))

    def _request(self, *, writes: bool) -> None:
        if writes:
            self._connection.send_produce(self._partition, self._batch)
            answer = self._connection.receive_produced()
            assert answer.error_code == ErrorCode.NONE
            self._offset = answer.base_offset
        else:
            assert len(self._connection.fetch_bytes(self._partition, self._offset)) == len(self._batch)


def _p99_ms(seconds: list[float]) -> float:
    return sorted(seconds)[int(len(seconds) * 0.99)] * 1000


def typical_ms(windows: list[Window]) -> float:
    """The median of windows, so that a second in which something else happened does not count."""
    return median(window.p99_ms for window in windows)
