"""Rows come in portions that are neither small nor large."""

import pyarrow as pa

from barnabas.pipeline.sink.gathering import gather


class SteppingClock:
    """A clock that goes on a millisecond with each look."""

    def __init__(self) -> None:
        self.now_ms = 0

    def wall_ms(self) -> int:
        raise AssertionError("nobody asks for the time of day")

    def monotonic_ms(self) -> int:
        self.now_ms += 1
        return self.now_ms

    def monotonic_us(self) -> int:
        raise AssertionError("milliseconds are enough")


def table(rows: int, size: int = 100) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array([bytes(size)] * rows, pa.binary())})


def portions(*batches: pa.RecordBatch, most_bytes: int = 1_050, linger_ms: int = 1 << 30) -> list[int]:
    found = list(gather(batches, most_bytes=most_bytes, linger_ms=linger_ms, clock=SteppingClock()))
    assert all(each.nbytes <= most_bytes or each.num_rows == 1 for each in found)
    assert pa.Table.from_batches(found, schema=table(0).schema).column(0).to_pylist() == [
        value for batch in batches for value in batch.column(0).to_pylist()
    ]
    return [each.num_rows for each in found]


def test_small_ones_are_put_together() -> None:
    assert portions(*[table(3)] * 7) == [9, 9, 3]


def test_large_ones_are_divided() -> None:
    assert portions(table(40)) == [10] * 4
    assert portions(table(3, size=5000)) == [1, 1, 1]


def test_none_are_none() -> None:
    assert portions() == []
    assert portions(table(0), table(0)) == []


def test_they_wait_no_longer_than_they_may() -> None:
    assert portions(*[table(1)] * 6, linger_ms=3) == [3, 3]
    assert portions(*[table(1)] * 3, linger_ms=0) == [1, 1, 1]
