"""Messages of formats 0 and 1 through a cleaning, beside batches of format 2."""

from itertools import product

import pytest

from barnabas.protocol.batch import Codec
from barnabas.protocol.entry_builder import EntryBuilder
from barnabas.protocol.records import Record
from tests.unit.storage.cleaning.segment_world import NOW, SegmentWorld

WRAPPED = [*product((0, 1), (Codec.GZIP, Codec.SNAPPY, Codec.LZ4))]


@pytest.fixture
def log(tmp_path) -> SegmentWorld:
    return SegmentWorld(str(tmp_path))


def put_old(
    log: SegmentWorld,
    magic: int,
    *records: tuple[str | None, str | None],
    codec: Codec = Codec.NONE,
    time: int | None = None,
) -> None:
    builder = EntryBuilder(magic=magic, codec=codec, log_append_time_ms=time)
    base = log.next_offset
    builder.add(
        Record(
            base + n,
            NOW + base + n if magic else -1,
            None if key is None else key.encode(),
            None if value is None else value.encode(),
        )
        for n, (key, value) in enumerate(records)
    )
    log.write(builder.finish())


@pytest.mark.parametrize("magic", [0, 1])
def test_plain_messages_stay_or_go_one_by_one(log: SegmentWorld, magic: int) -> None:
    put_old(log, magic, ("a", "1"), ("b", "1"), (None, "1"), ("a", "2"))
    before = {header.base_offset: data for header, data in log.batches()}
    log.roll()
    log.clean()
    assert {header.base_offset: data for header, data in log.batches()} == {n: before[n] for n in (1, 3)}


@pytest.mark.parametrize(("magic", "codec"), WRAPPED)
def test_a_wrapper_is_made_again_around_what_stays(log: SegmentWorld, magic: int, codec: Codec) -> None:
    put_old(log, magic, ("a", "1"), ("b", "1"), ("c", "1"), ("d", "1"), codec=codec)
    put_old(log, magic, ("a", "2"), ("d", "2"))
    before = {record.offset: record for record in log.records()}
    log.roll()
    log.clean()
    assert log.records() == [before[offset] for offset in (1, 2, 4, 5)]
    wrapper, _ = log.batches()[0]
    assert (wrapper.magic, wrapper.codec, wrapper.last_offset) == (magic, codec, 2)
    assert wrapper.max_timestamp == (NOW + 2 if magic else -1)


@pytest.mark.parametrize(("magic", "codec"), WRAPPED)
def test_a_wrapper_that_loses_nothing_keeps_its_bytes(log: SegmentWorld, magic: int, codec: Codec) -> None:
    put_old(log, magic, ("a", "1"), ("b", "1"), codec=codec)
    put_old(log, magic, ("c", "1"), ("c", None), codec=codec)
    before, _ = log.batches()
    log.roll()
    log.clean()
    assert log.batches()[0] == before
    assert [(offset, key) for offset, key, _ in log.pairs()] == [(0, "a"), (1, "b"), (3, "c")]


def test_a_wrapper_with_the_brokers_time_keeps_it(log: SegmentWorld) -> None:
    put_old(log, 1, ("a", "1"), ("b", "1"), codec=Codec.GZIP, time=NOW + 77)
    put_old(log, 1, ("a", "2"))
    log.roll()
    log.clean()
    wrapper, _ = log.batches()[0]
    assert wrapper.uses_log_append_time
    assert (wrapper.max_timestamp, log.records()[0].timestamp) == (NOW + 77, NOW + 77)


def test_all_formats_supersede_each_other(log: SegmentWorld) -> None:
    put_old(log, 0, ("a", "0"), ("b", "0"), ("c", "0"), ("d", "0"), codec=Codec.SNAPPY)
    put_old(log, 1, ("a", "1"), ("x", "1"))
    log.put(("b", "2"), ("y", "2"), codec=Codec.ZSTD)
    log.put(("x", "2"))
    put_old(log, 1, ("c", "1"), ("y", None), codec=Codec.LZ4)
    log.roll()
    log.clean()
    assert log.pairs() == [(3, "d", "0"), (4, "a", "1"), (6, "b", "2"), (8, "x", "2"), (9, "c", "1"), (10, "y", None)]


def test_a_log_that_ends_with_a_short_message_is_read(log: SegmentWorld) -> None:
    log.put(("a", "1"))
    put_old(log, 0, ("", None))
    log.roll()
    log.clean()
    assert log.pairs() == [(0, "a", "1"), (1, "", None)]
