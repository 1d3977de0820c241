"""Retries of batches that stand before those by which their producer is known, after a start too."""

from typing import Any

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.storage.append import AppendRejected
from barnabas.storage.log import Log
from barnabas.storage.log_config import LogConfig
from barnabas.storage.read import LogRead, read_log
from tests.unit.storage.logs import TP, append, batch
from tests.unit.storage.stores import Store, open_store


def sent(sequence: int, count: int = 1, *, producer: int = 7, epoch: int = 0) -> memoryview:
    return batch(*[b"v" * 20] * count, producer=(producer, epoch, sequence))


async def restarted(tmp_path, *before: memoryview, config: LogConfig | None = None) -> tuple[Store, Log]:
    """A log that held these when it was closed: of each producer the snapshot tells the last batch."""
    store = await open_store(str(tmp_path), config=config)
    log = store.directories.create_log(TP)
    for data in before:
        append(log, data)
    log.set_high_watermark(log.log_end_offset)
    await store.directories.close()
    store = await open_store(str(tmp_path), config=config)
    found = store.directories.log(TP)
    assert found is not None
    return store, found


def refusal(log: Log, data: memoryview) -> ErrorCode:
    end = log.log_end_offset
    with pytest.raises(AppendRejected) as raised:
        append(log, data)
    assert log.log_end_offset == end
    return raised.value.error


SMALL = LogConfig(segment_bytes=250)


@pytest.mark.parametrize("config", [None, SMALL], ids=["one segment", "several"])
async def test_what_was_in_flight_when_the_broker_stopped_is_known(tmp_path, config: LogConfig | None) -> None:
    others = [sent(number, producer=8) for number in range(5)]
    _, log = await restarted(
        tmp_path, sent(0, 2), others[0], sent(2, 3), *others[1:3], sent(5), *others[3:], config=config
    )
    (last,) = (entry.batches for entry in log.producers if entry.producer_id == 7)
    assert len(last) == 1
    append(log, sent(6))
    end = log.log_end_offset
    assert append(log, sent(2, 3)).duplicate
    assert append(log, sent(4)).duplicate, "whatever its span"
    assert append(log, sent(5)).duplicate
    assert log.log_end_offset == end
    assert refusal(log, sent(8)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


async def test_what_was_refused_before_the_first_of_an_unknown_producer_is_not_taken_for_written(tmp_path) -> None:
    _, log = await restarted(tmp_path, sent(6), sent(7), sent(8))
    assert refusal(log, sent(5)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(log, sent(6)).duplicate


async def test_what_is_deleted_or_of_another_epoch_counts_for_nothing(tmp_path) -> None:
    before = [*(sent(number) for number in range(4)), *(sent(number, epoch=1) for number in range(5))]
    _, log = await restarted(tmp_path, *before)
    log.advance_log_start_offset(6)
    assert refusal(log, sent(1, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(log, sent(2, epoch=1)).duplicate
    assert refusal(log, sent(3)) is ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.interpreted
async def test_it_is_looked_up_once(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, log = await restarted(tmp_path, *(sent(number) for number in range(6, 12)))
    reads = []

    def counted(*args: Any, **more: Any) -> LogRead:
        reads.append(more)
        return read_log(*args, **more)

    monkeypatch.setattr("barnabas.storage.log.read_log", counted)
    for _ in range(3):
        assert refusal(log, sent(4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert len(reads) == 1
    assert append(log, sent(7)).duplicate
    assert len(reads) == 1
