"""What each key of a log does, set at the broker and at the topic: from the text of the key to the log's behaviour.

Set in the broker's file, in ZooKeeper while the log is open, or for the topic.
"""

import struct
from collections.abc import Callable, Mapping
from pathlib import Path

import crc32c
import pytest

from barnabas.protocol.batch import HEADER_BYTES
from barnabas.protocol.error_code import ErrorCode
from barnabas.storage.append import AppendRejected
from barnabas.storage.log import Log
from barnabas.storage.maintenance import flush_due
from broker.config import resolve_broker_config
from broker.dynamic_config import DynamicConfig
from broker.topic_configs import resolve_topic
from replication.partition import ALL_REPLICAS, PartitionRefused
from replication.settings import TopicSettings
from tests.support.clock import ManualClock
from tests.unit.broker.small_broker import SmallBroker
from tests.unit.storage.logs import NOW, TP, Owner, append, batch, make_log, make_ports
from tests.unit.storage.stores import open_store

HOUR_MS = 3_600_000
VALUE = b"v" * 60

Make = Callable[..., Log]
Level = tuple[str, Mapping[str, str]]


def at_broker(**keys: str) -> Level:
    return "broker", {name.replace("_", "."): text for name, text in keys.items()}


def at_topic(**keys: str) -> Level:
    return "topic", {name.replace("_", "."): text for name, text in keys.items()}


def live(**keys: str) -> Level:
    return "zookeeper", {name.replace("_", "."): text for name, text in keys.items()}


def settings_of(level: Level, *, after_the_change: bool = True) -> TopicSettings:
    """What a topic acts on; of a level in ZooKeeper, before or after it is heard of."""
    where, keys = level
    dynamic_config = DynamicConfig(
        resolve_broker_config({"zookeeper.connect": "z"} | (dict(keys) if where == "broker" else {}))
    )
    if where == "zookeeper" and after_the_change:
        dynamic_config.apply(of_all_brokers=keys, of_this_broker={})
        assert dynamic_config.current.layers.of_all_brokers == keys
    settings, left_out = resolve_topic(dynamic_config.current, keys if where == "topic" else {})
    assert left_out == []
    return settings


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A log whose settings are what one level says."""

    def made(level: Level, *, owner: Owner | None = None, clock: ManualClock | None = None) -> Log:
        opened = settings_of(level, after_the_change=False)
        log = make_log(str(tmp_path), opened.log, make_ports(owner=owner, clock=clock))
        log.config = settings_of(level).log
        return log

    return made


def segments(log: Log) -> int:
    return len(log.segments)


@pytest.mark.parametrize(
    "level", [at_broker(log_segment_bytes="200"), live(log_segment_bytes="200"), at_topic(segment_bytes="200")]
)
def test_a_segment_ends_at_its_size(make: Make, level: Level) -> None:
    log = make(level)
    append(log, batch(VALUE))
    assert segments(log) == 1
    append(log, batch(VALUE))
    assert segments(log) == 2


@pytest.mark.parametrize(
    ("level", "age_ms"),
    [
        (at_broker(log_roll_ms="1000"), 1000),
        (live(log_roll_ms="1000"), 1000),
        (at_broker(log_roll_hours="1"), HOUR_MS),
        (at_topic(segment_ms="1000"), 1000),
    ],
)
def test_a_segment_ends_at_its_age(make: Make, level: Level, age_ms: int) -> None:
    log = make(level)
    append(log, batch(VALUE))
    append(log, batch(VALUE, timestamp=NOW + age_ms))
    assert segments(log) == 1
    append(log, batch(VALUE, timestamp=NOW + age_ms + 1))
    assert segments(log) == 2


@pytest.mark.parametrize(
    "level",
    [
        at_broker(log_roll_hours="1", log_roll_jitter_ms="3600000"),
        at_broker(log_roll_hours="1", log_roll_jitter_hours="1"),
        at_topic(segment_ms="3600000", segment_jitter_ms="3600000"),
    ],
)
def test_a_segment_ends_earlier_by_its_jitter(make: Make, level: Level) -> None:
    log = make(level)
    append(log, batch(VALUE))
    jitter_ms = log.segments.active.roll_jitter_ms
    assert 0 < jitter_ms < HOUR_MS
    append(log, batch(VALUE, timestamp=NOW + HOUR_MS - jitter_ms))
    assert segments(log) == 1
    append(log, batch(VALUE, timestamp=NOW + HOUR_MS - jitter_ms + 1))
    assert segments(log) == 2


def test_another_jitter_takes_hold_with_the_next_segment(make: Make) -> None:
    log = make(live(log_roll_jitter_ms="3600000"))
    append(log, batch(VALUE))
    assert log.segments.active.roll_jitter_ms == 0
    log.roll()
    append(log, batch(VALUE))
    assert log.segments.active.roll_jitter_ms > 0


@pytest.mark.parametrize(
    "level",
    [
        at_broker(log_index_size_max_bytes="24", log_index_interval_bytes="0"),
        live(log_index_size_max_bytes="24", log_index_interval_bytes="0"),
        at_topic(segment_index_bytes="24", index_interval_bytes="0"),
    ],
)
def test_a_segment_ends_when_its_index_is_full(make: Make, level: Level) -> None:
    log = make(level)
    for _ in range(6):
        append(log, batch(VALUE))
    assert segments(log) > 1


@pytest.mark.parametrize(
    "level",
    [at_broker(log_index_interval_bytes="0"), live(log_index_interval_bytes="0"), at_topic(index_interval_bytes="0")],
)
def test_the_index_is_as_dense_as_told(make: Make, level: Level) -> None:
    log = make(level)
    for _ in range(4):
        append(log, batch(VALUE))
    growing = log.segments.active.growing
    assert growing is not None
    assert len(growing.offsets) == 3


def test_by_default_few_batches_leave_no_entry_in_the_index(make: Make) -> None:
    log = make(at_broker())
    for _ in range(4):
        append(log, batch(VALUE))
    growing = log.segments.active.growing
    assert growing is not None
    assert len(growing.offsets) == 0


@pytest.mark.parametrize(
    ("level", "kept_ms"),
    [
        (at_broker(log_retention_ms="5000"), 5000),
        (live(log_retention_ms="5000"), 5000),
        (at_broker(log_retention_minutes="1"), 60_000),
        (at_broker(log_retention_hours="2"), 2 * HOUR_MS),
        (at_topic(retention_ms="5000"), 5000),
    ],
)
def test_old_records_go_at_their_age(make: Make, level: Level, kept_ms: int) -> None:
    log = make(level)
    append(log, batch(VALUE))
    log.roll()
    append(log, batch(VALUE, timestamp=NOW + kept_ms))
    log.set_high_watermark(log.log_end_offset)
    assert log.delete_old_segments(NOW + kept_ms) == 0
    assert log.delete_old_segments(NOW + kept_ms + 1) == 1
    assert log.log_start_offset == 1


@pytest.mark.parametrize(
    "level", [at_broker(log_retention_ms="-1"), live(log_retention_ms="-1"), at_topic(retention_ms="-1")]
)
def test_records_without_an_age_limit_stay(make: Make, level: Level) -> None:
    log = make(level)
    append(log, batch(VALUE))
    log.set_high_watermark(1)
    assert log.delete_old_segments(NOW * 2) == 0


@pytest.mark.parametrize(
    "level", [at_broker(log_retention_bytes="150"), live(log_retention_bytes="150"), at_topic(retention_bytes="150")]
)
def test_the_oldest_records_go_when_the_log_is_too_large(make: Make, level: Level) -> None:
    log = make(level)
    for _ in range(4):
        append(log, batch(VALUE))
        log.roll()
    log.set_high_watermark(log.log_end_offset)
    before = log.size_bytes
    log.delete_old_segments(NOW)
    assert before > log.size_bytes >= 150


@pytest.mark.parametrize(
    "level",
    [
        at_broker(log_segment_delete_delay_ms="77", log_retention_ms="1"),
        live(log_segment_delete_delay_ms="77", log_retention_ms="1"),
        at_topic(file_delete_delay_ms="77", retention_ms="1"),
    ],
)
def test_a_deleted_segment_stays_on_disk_for_its_delay(make: Make, level: Level) -> None:
    owner = Owner()
    log = make(level, owner=owner)
    append(log, batch(VALUE))
    log.set_high_watermark(1)
    log.delete_old_segments(NOW + 2)
    assert [delay_ms for _, delay_ms in owner.doomed] == [77]


@pytest.mark.parametrize(
    "level", [at_broker(message_max_bytes="200"), live(message_max_bytes="200"), at_topic(max_message_bytes="200")]
)
def test_a_batch_that_is_too_large_is_refused(make: Make, level: Level) -> None:
    log = make(level)
    append(log, batch(b"v" * 100))
    with pytest.raises(AppendRejected) as rejected:
        append(log, batch(b"v" * 200))
    assert rejected.value.error is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize(
    "level",
    [at_broker(log_flush_interval_messages="2"), live(log_flush_interval_messages="2"), at_topic(flush_messages="2")],
)
def test_so_many_records_ask_for_a_flush(make: Make, level: Level) -> None:
    log = make(level)
    append(log, batch(VALUE))
    assert not log.needs_flush()
    append(log, batch(VALUE))
    assert log.needs_flush()


@pytest.mark.parametrize(
    "level",
    [
        at_broker(log_flush_interval_ms="100"),
        live(log_flush_interval_ms="100"),
        at_broker(log_flush_scheduler_interval_ms="100"),
        at_topic(flush_ms="100"),
    ],
)
async def test_records_are_flushed_after_their_time(level: Level, tmp_path: Path) -> None:
    opened = settings_of(level, after_the_change=False).log
    store = await open_store(str(tmp_path / "logs"), config=opened)
    log = store.directories.create_log(TP, opened)
    log.config = settings_of(level).log
    append(log, batch(VALUE))
    (directory,) = store.directories.directories
    store.clock.advance(99)
    await flush_due(directory, store.clock.monotonic_ms())
    assert log.recovery_point == 0
    store.clock.advance(1)
    await flush_due(directory, store.clock.monotonic_ms())
    assert log.recovery_point == 1
    await store.directories.close()


@pytest.mark.parametrize(
    "level",
    [
        at_broker(log_message_timestamp_type="LogAppendTime"),
        live(log_message_timestamp_type="LogAppendTime"),
        at_topic(message_timestamp_type="LogAppendTime"),
    ],
)
def test_records_bear_the_time_of_their_append(make: Make, level: Level) -> None:
    assert append(make(level), batch(VALUE, timestamp=1)).log_append_time_ms == NOW


@pytest.mark.parametrize(
    "level",
    [
        at_broker(log_message_timestamp_difference_max_ms="10"),
        live(log_message_timestamp_difference_max_ms="10"),
        at_topic(message_timestamp_difference_max_ms="10"),
    ],
)
def test_a_time_that_is_too_far_off_is_refused(make: Make, level: Level) -> None:
    log = make(level)
    append(log, batch(VALUE, timestamp=NOW - 10))
    with pytest.raises(AppendRejected) as rejected:
        append(log, batch(VALUE, timestamp=NOW - 11))
    assert rejected.value.error is ErrorCode.INVALID_TIMESTAMP


def with_broken_first_record(*, records: int) -> memoryview:
    """A batch with a right checksum whose first record says a length that it does not have."""
    data = batch(*[b"v" * 100] * records)
    data[HEADER_BYTES] ^= 0x02
    struct.pack_into(">I", data, 17, crc32c.crc32c(data[21:]))
    return data


def test_by_default_the_records_of_small_batches_alone_are_looked_at(make: Make) -> None:
    log = make(at_broker())
    append(log, with_broken_first_record(records=200))
    with pytest.raises(AppendRejected):
        append(log, with_broken_first_record(records=2))


def test_the_records_of_every_batch_are_looked_at_if_told(make: Make) -> None:
    with pytest.raises(AppendRejected) as rejected:
        append(make(at_broker(barnabas_record_validation="full")), with_broken_first_record(records=200))
    assert rejected.value.error is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    ("level", "accepted"),
    [
        (at_broker(), True),
        (at_broker(min_insync_replicas="2"), False),
        (live(min_insync_replicas="2"), False),
        (at_topic(min_insync_replicas="2"), False),
    ],
)
async def test_acks_of_all_need_so_many_replicas_in_sync(
    broker: SmallBroker, tmp_path: Path, level: Level, *, accepted: bool
) -> None:
    settings = settings_of(level)
    log = await broker.lead(str(tmp_path), config=settings.log)
    partition = broker.partitions[log.topic_partition]
    partition.set_min_in_sync_replicas(settings.min_insync_replicas)
    if accepted:
        partition._check_append(ALL_REPLICAS)
    else:
        with pytest.raises(PartitionRefused) as refused:
            partition._check_append(ALL_REPLICAS)
        assert refused.value.error is ErrorCode.NOT_ENOUGH_REPLICAS
    partition._check_append(1)
