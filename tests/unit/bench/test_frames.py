"""What stands in the frames that loads are made of."""

import time

import pytest

from barnabas.protocol.batch import Codec, read_header
from bench import frames, latency_load


def test_records_are_of_the_present_so_that_retention_leaves_them() -> None:
    before_ms = int(time.time() * 1000)
    frame = frames.produce("topic", 0, records=3, record_bytes=10, codec=Codec.NONE).frame
    # One topic with its name; one partition: its number, the batch's length, the batch.
    header = read_header(frame, frame.index(b"\0\5topic") + 2 + 5 + 4 + 4 + 4)
    assert before_ms <= header.first_timestamp == header.max_timestamp <= time.time() * 1000


def test_a_steady_load_has_every_batch_before_it_begins() -> None:
    made = latency_load.batches("topic", most=12, acks=1)
    assert list(made) == [*range(1, 13)]
    assert made[12] > made[1]
    for count in range(40):
        found = latency_load.sizes(count, most=12)
        assert sum(found) == count
        assert set(found) <= made.keys()


def test_each_record_of_a_batch_waits_from_when_it_was_due_itself() -> None:
    found = latency_load.latencies_ms(2000, 2004, 2.5, rate=1000)
    assert found == pytest.approx([500.0, 499.0, 498.0, 497.0])


def test_records_of_the_first_second_do_not_count() -> None:
    assert latency_load.latencies_ms(0, 1000, 1.5, rate=1000) == []
    assert latency_load.latencies_ms(998, 1002, 1.5, rate=1000) == pytest.approx([500.0, 499.0])
