"""What becomes of fetched batches: whole, as records, dropped, or left out; and no record twice or never."""

import random
from typing import Any

import pytest

from barnabas.client.fetched_records import AbortedRange
from barnabas.pipeline.mirror.passing import (
    LEAST_WHOLE_BYTES,
    LEAST_WHOLE_RECORDS,
    Dropped,
    LooseRecords,
    Passed,
    WholeBatch,
    last_stamp,
    pass_on,
    producer_ids,
)
from barnabas.pipeline.source.offsets import Stamp
from barnabas.protocol.batch import HEADER_BYTES, Codec, CrcMismatch, frame, read_header
from barnabas.protocol.records import (
    ControlRecordType,
    EndTxnMarker,
    Record,
    build_batch,
    build_end_txn_marker,
    encode_record,
)

LARGE = bytes(range(256)) * (LEAST_WHOLE_BYTES // 256)


def batch(base: int, count: int = 3, *, value: bytes = LARGE, **more: Any) -> bytes:
    records = [Record(0, 1000 + at, b"k%d" % at, value) for at in range(count)]
    return build_batch(records, base_offset=base, **more)


def passed(*batches: bytes, start: int = 0, end: int | None = None, **more: Any) -> list[Passed]:
    record_set = memoryview(b"".join(batches))
    given = {"aborted": (), "foreign": (), "keeps_batches": True} | more
    return list(pass_on(record_set, start=start, end=end, **given))


def offsets(each: Passed) -> list[int]:
    assert isinstance(each, LooseRecords)
    return [record.offset for record in each.records]


@pytest.mark.parametrize("codec", Codec)
def test_a_large_dense_batch_stays_as_it_is(codec: Codec) -> None:
    whole = batch(7, value=random.Random(1).randbytes(LEAST_WHOLE_BYTES), codec=codec)
    (found,) = passed(whole)
    assert isinstance(found, WholeBatch)
    assert found.base_offset == 7
    assert bytes(found.records.payload) == whole[HEADER_BYTES:]
    assert (found.records.codec, found.records.count) == (codec, 3)
    assert (found.records.first_timestamp, found.records.max_timestamp) == (1000, 1002)


def test_many_records_in_few_bytes_stay_compressed() -> None:
    many = batch(0, LEAST_WHOLE_RECORDS, value=b"", codec=Codec.LZ4)
    assert len(many) < LEAST_WHOLE_BYTES
    assert isinstance(passed(many)[0], WholeBatch)
    assert isinstance(passed(batch(0, LEAST_WHOLE_RECORDS - 1, value=b"", codec=Codec.LZ4))[0], LooseRecords)


def test_small_batches_and_those_of_several_partitions_are_taken_apart() -> None:
    (small,) = passed(batch(7, value=b"v"))
    assert offsets(small) == [7, 8, 9]
    (keyed,) = passed(batch(7), keeps_batches=False)
    assert offsets(keyed) == [7, 8, 9]


def test_append_times_become_the_records_own() -> None:
    (found,) = passed(batch(0, log_append_time_ms=99))
    assert isinstance(found, LooseRecords)
    assert [each.timestamp for each in found.records] == [99, 99, 99]


def test_a_batch_with_gaps_is_taken_apart() -> None:
    parts = [encode_record(Record(0, 5, None, LARGE), timestamp_delta=0, offset_delta=delta) for delta in (0, 4)]
    header = read_header(batch(20, 5))
    header.record_count = 2
    (found,) = passed(frame(header, b"".join(parts)))
    assert offsets(found) == [20, 24]
    header.record_count = 0
    assert passed(frame(header, b"")) == []


@pytest.mark.parametrize(("start", "end", "wanted"), [(8, None, [8, 9]), (0, 9, [7, 8]), (8, 9, [8]), (10, None, [])])
def test_a_range_that_begins_or_ends_within_a_batch(start: int, end: int | None, wanted: list[int]) -> None:
    assert [at for each in passed(batch(7), start=start, end=end) for at in offsets(each)] == wanted


def test_a_batch_behind_the_end_is_left_out() -> None:
    assert passed(batch(7), end=7) == []


def test_what_a_mirror_brought_from_the_target_is_dropped() -> None:
    mine = batch(0, producer_id=5, producer_epoch=0, base_sequence=0)
    others = batch(3, producer_id=6, producer_epoch=0, base_sequence=0)
    found = passed(mine, others, batch(6), foreign={5})
    assert found[0] == Dropped(3)
    assert [each.base_offset for each in found[1:] if isinstance(each, WholeBatch)] == [3, 6]
    assert producer_ids(memoryview(mine + others + batch(6))) == {5, 6}
    assert isinstance(passed(batch(0), foreign={-1})[0], WholeBatch), "no producer is nobody's"


def test_aborted_transactions_and_markers_are_left_out() -> None:
    def written(base: int) -> bytes:
        return batch(base, producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)

    def marker(base: int, kind: ControlRecordType) -> bytes:
        return build_end_txn_marker(
            EndTxnMarker(kind, 0), producer_id=5, producer_epoch=0, timestamp=0, base_offset=base
        )

    found = passed(
        written(0),
        marker(3, ControlRecordType.ABORT),
        written(4),
        marker(7, ControlRecordType.COMMIT),
        aborted=[AbortedRange(5, 0)],
    )
    assert [each.base_offset for each in found if isinstance(each, WholeBatch)] == [4]
    assert len(found) == 1


def test_damage_is_not_passed_on() -> None:
    damaged = bytearray(batch(0))
    damaged[-1] ^= 1
    with pytest.raises(CrcMismatch):
        passed(bytes(damaged))


def test_the_last_batch_is_what_a_log_is_known_by() -> None:
    last = batch(3, leader_epoch=4)
    assert last_stamp(memoryview(batch(0) + last)) == Stamp(3, 4, read_header(last).crc)
    assert last_stamp(memoryview(b"")) is None
