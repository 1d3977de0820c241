"""A client that minds its own business and measures how long its requests take."""

import time
from statistics import median

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from tests.support.api_client import ApiConnection, batch_of

INTERVAL_SECONDS = 0.005


class HealthyClient:
    """Sends a small Produce with acks=all, or fetches what it wrote last, every 5 ms, one after the other."""

    def __init__(self, connection: ApiConnection, partition: TopicPartition) -> None:
        self._connection = connection
        self._partition = partition
        self._batch = batch_of([b"a value of a hundred bytes".ljust(100, b".")])
        self._offset = 0

    def window_p99_ms(self, seconds: float) -> float:
        """The 99th percentile of the requests of so many seconds. Fails on any error."""
        took = self._requests(seconds)
        return sorted(took)[int(len(took) * 0.99)] * 1000

    def _requests(self, seconds: float) -> list[float]:
        took: list[float] = []
        due = time.perf_counter()
        end = due + seconds
        while due < end:
            time.sleep(max(0.0, due - time.perf_counter()))
            began = time.perf_counter()
            if len(took) % 2:
                assert len(self._connection.fetch_bytes(self._partition, self._offset)) == len(self._batch)
            else:
                self._connection.send_produce(self._partition, self._batch)
                answer = self._connection.receive_produced()
                assert answer.error_code == ErrorCode.NONE
                self._offset = answer.base_offset
            now = time.perf_counter()
            took.append(now - began)
            # Requests that could not be sent in time are not made up for.
            due = max(due + INTERVAL_SECONDS, now)
        return took


def typical(windows_ms: list[float]) -> float:
    """The median of windows, so that a second in which the machine did something else does not count."""
    return median(windows_ms)
