"""Logs that hold entries of all message formats, as a topic's format changes over time."""

from dataclasses import replace
from random import Random

import pytest

from barnabas.protocol.batch import Codec
from barnabas.protocol.entries import iterate_entries
from barnabas.protocol.records import Record, build_batch
from barnabas.storage.append import AppendOrigin, AppendRejected, LongConversion, conversion_steps
from barnabas.storage.log import Log
from barnabas.storage.log_config import LogConfig, TimestampType
from barnabas.storage.read import TimestampsUnknown
from tests.unit.protocol.old_formats import build, read
from tests.unit.storage.logs import (
    NOW,
    TP,
    Owner,
    append,
    make_log,
    make_ports,
    offset_for_timestamp,
    read_bytes,
    replicate,
)
from tests.unit.storage.stores import open_store

CONFIG = LogConfig(index_interval_bytes=100, segment_bytes=900)
SETS = [(magic, codec) for magic in (2, 1, 0) for codec in (Codec.NONE, Codec.GZIP)]
EACH = 4
END = EACH * len(SETS)


def fill(log: Log) -> None:
    """Four records at a time, in each format, compressed and not; their times rise by 10 ms."""
    config = log.config
    for number, (magic, codec) in enumerate(SETS):
        log.config = replace(config, message_format=magic)
        records = [Record(i, time_of(number * EACH + i), b"k", b"v" * 40) for i in range(EACH)]
        data = build(records, magic=magic, codec=codec)
        info = append(log, memoryview(bytearray(data)), leader_epoch=3)
        assert (info.first_offset, info.last_offset) == (number * EACH, number * EACH + EACH - 1)
    log.config = config


def time_of(offset: int) -> int:
    return NOW + offset * 10


def filled(tmp_path, config: LogConfig = CONFIG) -> Log:
    log = make_log(str(tmp_path), config, make_ports(owner=Owner()))
    fill(log)
    return log


def records_of(log: Log, offset: int = 0) -> list[Record]:
    found: list[Record] = []
    while offset < log.log_end_offset and (data := read_bytes(log, offset)):
        found += read(data)
        offset = found[-1].offset + 1
    return found


def expected(end: int = END) -> list[Record]:
    times = [time_of(offset) if SETS[offset // EACH][0] else -1 for offset in range(END)]
    return [Record(offset, times[offset], b"k", b"v" * 40) for offset in range(end)]


def begins(offset: int) -> int:
    """Where the entry begins that holds `offset`: a plain message of an old format is one of its own."""
    magic, codec = SETS[offset // EACH]
    return offset if magic < 2 and codec is Codec.NONE else offset // EACH * EACH


def test_every_offset_is_found(tmp_path):
    log = filled(tmp_path)
    assert len(log.segments) > 1
    assert records_of(log) == expected()
    for offset in range(END):
        first = read(read_bytes(log, offset))[0].offset
        assert first == begins(offset)


def test_every_time_is_found_in_the_formats_that_have_times(tmp_path):
    log = filled(tmp_path)
    for offset in range(4 * EACH):
        found = offset_for_timestamp(log, time_of(offset))
        assert (found.offset, found.timestamp) == (offset, time_of(offset))
        assert offset_for_timestamp(log, time_of(offset) - 9).offset == offset
    assert offset_for_timestamp(log, time_of(4 * EACH)) is None


def test_times_are_found_after_the_start_of_a_log_that_begins_within_a_wrapper(tmp_path):
    log = filled(tmp_path)
    log.advance_high_watermark(END)
    log.advance_log_start_offset(3 * EACH + 2)
    assert offset_for_timestamp(log, NOW).offset == 3 * EACH + 2


def test_the_brokers_time_of_a_wrapper_is_that_of_its_first_record_too(tmp_path):
    config = LogConfig(message_format=1, message_timestamp_type=TimestampType.LOG_APPEND_TIME)
    log = make_log(str(tmp_path), config)
    for number in range(2):
        data = build([Record(i, 1, None, b"v") for i in range(3)], magic=1, codec=Codec.GZIP)
        info = append(log, memoryview(bytearray(data)), now_ms=NOW + number)
        assert info.log_append_time_ms == info.max_timestamp == NOW + number
    assert [offset_for_timestamp(log, NOW + number).offset for number in (0, 1)] == [0, 3]


def test_a_topic_without_times_says_so(tmp_path):
    log = filled(tmp_path)
    log.config = replace(log.config, message_format=0)
    with pytest.raises(TimestampsUnknown):
        offset_for_timestamp(log, NOW)


async def test_recovery_keeps_what_is_whole_and_cuts_what_is_damaged(tmp_path):
    store = await open_store(str(tmp_path), config=CONFIG)
    fill(store.directories.create_log(TP))
    store.kill()
    store = await open_store(str(tmp_path), config=CONFIG)
    log = store.directories.log(TP)
    assert records_of(log) == expected()
    assert [offset_for_timestamp(log, time_of(offset)).offset for offset in range(4 * EACH)] == list(range(4 * EACH))
    last = log.segments.active
    store.kill()
    path = tmp_path / "topic-0" / f"{last.base_offset:020}.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    store = await open_store(str(tmp_path), config=CONFIG)
    log = store.directories.log(TP)
    assert log.log_end_offset == END - EACH
    assert records_of(log) == expected(END - EACH)


async def test_a_clean_log_opens_as_it_was(tmp_path):
    store = await open_store(str(tmp_path), config=CONFIG)
    fill(store.directories.create_log(TP))
    await store.directories.close()
    store = await open_store(str(tmp_path), config=CONFIG)
    log = store.directories.log(TP)
    assert (records_of(log), log.log_end_offset) == (expected(), END)
    assert offset_for_timestamp(log, time_of(5)).offset == 5


async def test_an_entry_of_an_old_format_greater_than_a_window_is_checked_whole(tmp_path):
    config = LogConfig(message_format=1, max_message_bytes=4_000_000)
    store = await open_store(str(tmp_path), config=config)
    log = store.directories.create_log(TP)
    append(log, memoryview(bytearray(build([Record(0, NOW, None, bytes(3_000_000))], magic=1))))
    append(log, memoryview(bytearray(build([Record(0, NOW, None, b"next")], magic=1))))
    store.kill()
    store = await open_store(str(tmp_path), config=config)
    assert store.directories.log(TP).log_end_offset == 2
    store.kill()
    path = tmp_path / "topic-0" / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    data[2_000_000] ^= 1
    path.write_bytes(data)
    store = await open_store(str(tmp_path), config=config)
    assert store.directories.log(TP).log_end_offset == 0


def test_a_cut_goes_to_where_an_entry_begins(tmp_path):
    for offset in range(1, END):
        log = filled(tmp_path / str(offset))
        assert log.truncate_to(offset)
        assert log.log_end_offset == begins(offset)
        assert records_of(log) == expected(begins(offset))
        info = append(log, memoryview(bytearray(build([Record(0, NOW, None, b"v")], magic=0))))
        assert info.first_offset == begins(offset)


def test_a_follower_has_the_same_bytes(tmp_path):
    leader, follower = filled(tmp_path / "leader"), make_log(str(tmp_path / "follower"), CONFIG)
    offset = 0
    while offset < END:
        data = read_bytes(leader, offset, max_bytes=350)
        info = replicate(follower, data)
        assert info.first_offset <= info.last_offset
        offset = follower.log_end_offset
    assert records_of(follower) == expected()
    assert [offset_for_timestamp(follower, time_of(at)).offset for at in range(4 * EACH)] == list(range(4 * EACH))
    for at in range(END):
        assert read(read_bytes(follower, at))[0].offset == begins(at)


def test_gaps_that_compaction_left_between_old_messages_are_kept(tmp_path):
    follower = make_log(str(tmp_path))
    kept = [Record(offset, NOW + offset, None, b"v") for offset in (0, 5, 9)]
    info = replicate(follower, build(kept, magic=1))
    assert (info.first_offset, info.last_offset, follower.log_end_offset) == (0, 9, 10)
    assert records_of(follower) == kept
    assert [read(read_bytes(follower, offset))[0].offset for offset in range(10)] == [0, *[5] * 5, *[9] * 4]


def test_a_follower_refuses_what_is_damaged_or_does_not_follow(tmp_path):
    data = build([Record(5, NOW, None, b"v"), Record(6, NOW, None, b"v")], magic=1)
    follower = make_log(str(tmp_path))
    assert replicate(follower, data[:-1]).last_offset == 5
    with pytest.raises(AppendRejected, match="cannot follow"):
        replicate(follower, data)
    flipped = bytearray(build([Record(9, NOW, None, b"v")], magic=0))
    flipped[-1] ^= 1
    with pytest.raises(AppendRejected, match="checksum"):
        replicate(follower, bytes(flipped))
    assert follower.log_end_offset == 6


def test_an_old_message_makes_a_log_forget_its_leader_epochs(tmp_path):
    log = make_log(str(tmp_path))
    log.assign_leader_epoch(3, start_offset=0)
    append(log, memoryview(bytearray(build([Record(0, NOW, None, b"v")], magic=2))), leader_epoch=3)
    assert log.end_offset_for_epoch(3).end_offset == 1
    replicate(log, build([Record(1, NOW, None, b"v")], magic=1))
    assert log.leader_epochs.latest is None
    assert log.end_offset_for_epoch(3).end_offset == -1
    append(log, memoryview(bytearray(build([Record(0, NOW, None, b"v")], magic=2))), leader_epoch=5)
    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(5, 2)]


def test_a_topic_of_an_old_format_keeps_no_epochs(tmp_path):
    log = make_log(str(tmp_path), LogConfig(message_format=1))
    log.assign_leader_epoch(3, start_offset=0)
    assert log.leader_epochs.latest is None


async def test_epochs_from_before_an_old_message_do_not_come_back_with_recovery(tmp_path):
    store = await open_store(str(tmp_path))
    log = store.directories.create_log(TP)
    for magic, epoch in ((2, 3), (1, 4), (2, 5), (2, 6)):
        log.config = LogConfig(message_format=magic)
        append(log, memoryview(bytearray(build([Record(0, NOW, None, b"v")], magic=2))), leader_epoch=epoch)
    store.kill()
    store = await open_store(str(tmp_path))
    assert [tuple(entry) for entry in store.directories.log(TP).leader_epochs.entries] == [(5, 2), (6, 3)]
    store.kill()
    (tmp_path / "topic-0" / "leader-epoch-checkpoint").write_bytes(b"nonsense")
    store = await open_store(str(tmp_path))
    assert [tuple(entry) for entry in store.directories.log(TP).leader_epochs.entries] == [(5, 2), (6, 3)]


def test_a_long_conversion_is_asked_for_and_a_short_one_is_not(tmp_path):
    log = make_log(str(tmp_path), LogConfig(message_format=0))
    ask = {"leader_epoch": 0, "origin": AppendOrigin.CLIENT, "now_ms": NOW}
    short = memoryview(bytearray(build([Record(0, NOW, None, b"v")], magic=1)))
    log.publish(log.prepare_append(short, **ask))
    for data in (
        build([Record(0, NOW, None, b"v")], magic=1, codec=Codec.GZIP),
        build([Record(0, NOW, None, bytes(20_000))], magic=2),
        build([Record(i, NOW, None, b"v") for i in range(1000)], magic=0),
    ):
        with pytest.raises(LongConversion):
            log.prepare_append(memoryview(bytearray(data)), **ask)
        steps = conversion_steps(log, memoryview(bytearray(data)), **ask)
        converted = None
        while converted is None:
            try:
                next(steps)
            except StopIteration as done:
                converted = done.value
        prepared = log.prepare_append(memoryview(b""), **ask, converted=converted)
        log.publish(prepared)


def test_what_was_rebuilt_is_counted(tmp_path):
    log = make_log(str(tmp_path), LogConfig(message_format=1))
    infos = [
        append(log, memoryview(bytearray(build([Record(i, NOW, None, b"v") for i in range(3)], magic=magic))))
        for magic in (0, 1, 2)
    ]
    assert [info.rebuilt_records for info in infos] == [3, 0, 3]


def test_duplicates_are_known_in_a_topic_that_compresses_anew(tmp_path):
    log = make_log(str(tmp_path), LogConfig(compression=Codec.GZIP))
    data = build_batch([Record(0, NOW, None, b"v")] * 2, producer_id=5, producer_epoch=0, base_sequence=0)
    first, second = (append(log, memoryview(bytearray(data))) for _ in range(2))
    assert (second.duplicate, second.first_offset, second.last_offset) == (True, first.first_offset, first.last_offset)
    assert [header.codec for _, header in iterate_entries(read_bytes(log, 0))] == [Codec.GZIP]
    gap = build_batch([Record(0, NOW, None, b"v")], producer_id=5, producer_epoch=0, base_sequence=9)
    with pytest.raises(AppendRejected, match="sequence"):
        append(log, memoryview(bytearray(gap)))


def test_a_wrapper_whose_records_begin_below_the_log_is_taken_by_a_follower(tmp_path):
    """As after DeleteRecords at the leader: a follower begins within the wrapper, and takes it whole."""
    wrapper = build([Record(at, NOW, None, b"v") for at in range(10, 14)], magic=1, codec=Codec.GZIP)
    log = make_log(str(tmp_path))
    log.truncate_fully_and_start_at(12)
    replicate(log, wrapper)
    assert (log.log_start_offset, log.log_end_offset) == (12, 14)
    assert read(read_bytes(log, 12))[-1].offset == 13


@pytest.mark.parametrize("magic", [1, 2])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_times_in_any_order_are_found_where_they_first_are(tmp_path, magic, codec, seed):
    draw = Random(seed)
    log = make_log(str(tmp_path), LogConfig(message_format=magic, index_interval_bytes=300, segment_bytes=3000))
    times: list[int] = []
    for _ in range(12):
        some = [NOW + draw.randrange(40) for _ in range(draw.randint(1, 12))]
        data = build([Record(i, time, None, b"v" * 20) for i, time in enumerate(some)], magic=magic, codec=codec)
        append(log, memoryview(bytearray(data)))
        times += some
    for wanted in range(NOW - 1, NOW + 42):
        first = next((offset for offset, time in enumerate(times) if time >= wanted), None)
        found = offset_for_timestamp(log, wanted)
        assert (None if found is None else found.offset) == first, wanted - NOW
