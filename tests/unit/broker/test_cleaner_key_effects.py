"""What each key of compaction does, set at the broker and at the topic: from the text of the key to what is cleaned."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from barnabas.protocol.records import Record, build_batch
from broker.config import resolve_broker_config
from broker.log_cleaning import cleaner_settings
from broker.topic_configs import resolve_topic
from tests.support.inline_offload import InlineOffload
from tests.unit.broker.whole_broker import BrokerHost, make_topic, until
from tests.unit.storage.cleaning_store import CleaningStore, last_values
from tests.unit.storage.logs import NOW, TP, append

DAY_MS = 24 * 3600 * 1000

Level = tuple[str, Mapping[str, str]]


def at_broker(**keys: str) -> Level:
    return "broker", {name.replace("_", "."): text for name, text in keys.items()}


def at_topic(**keys: str) -> Level:
    return "topic", {name.replace("_", "."): text for name, text in keys.items()}


async def make(level: Level, **others: str) -> CleaningStore:
    """A compacted log, by default cleaned at once, with the keys of one level; `others` are the broker's."""
    where, keys = level
    of_broker = {
        "zookeeper.connect": "z",
        "log.cleanup.policy": "compact",
        "log.segment.bytes": "700",
        "log.cleaner.min.cleanable.ratio": "0",
        "log.cleaner.dedupe.buffer.size": "1048577",
        "log.segment.delete.delay.ms": "0",
    }
    of_broker |= {name.replace("_", "."): text for name, text in others.items()}
    config = resolve_broker_config(of_broker | (dict(keys) if where == "broker" else {}))
    settings, left_out = resolve_topic(config, keys if where == "topic" else {})
    assert left_out == []
    store = CleaningStore(config=settings.log, settings=cleaner_settings(config))
    await store.open()
    return store


@pytest.mark.parametrize(
    ("level", "is_cleaned"),
    [
        (at_broker(log_cleanup_policy="compact"), True),
        (at_broker(log_cleanup_policy="delete,compact"), True),
        (at_broker(log_cleanup_policy="delete"), False),
        (at_topic(cleanup_policy="compact,delete"), True),
        (at_topic(cleanup_policy="delete"), False),
    ],
)
async def test_a_log_is_compacted_where_its_policy_says_so(level: Level, is_cleaned: bool) -> None:
    store = await make(level)
    store.put_all([1] * 30)
    assert await store.clean() is is_cleaned
    assert len(store.records()) == (1 if is_cleaned else 30)


@pytest.mark.parametrize(
    "level", [at_broker(log_cleaner_min_cleanable_ratio="0.5"), at_topic(min_cleanable_dirty_ratio="0.5")]
)
async def test_a_log_waits_until_it_is_dirty_enough(level: Level) -> None:
    store = await make(level)
    store.put_all(range(30))
    assert await store.clean()
    store.put_all(range(24))
    assert not await store.clean()
    store.put_all(range(10))
    assert await store.clean()


@pytest.mark.parametrize(
    "level", [at_broker(log_cleaner_min_compaction_lag_ms="5000"), at_topic(min_compaction_lag_ms="5000")]
)
async def test_young_records_are_not_cleaned(level: Level) -> None:
    store = await make(level)
    store.put_all([1] * 30)
    store.clock.advance(4_999)
    assert not await store.clean()
    store.clock.advance(1)
    assert await store.clean()


@pytest.mark.parametrize(
    "level", [at_broker(log_cleaner_max_compaction_lag_ms="5000"), at_topic(max_compaction_lag_ms="5000")]
)
async def test_old_records_are_cleaned_however_few_they_are(level: Level) -> None:
    store = await make(level, log_cleaner_min_cleanable_ratio="1")
    store.put_all([1] * 30)
    store.clock.advance(5_000)
    assert not await store.clean()
    store.clock.advance(1)
    assert await store.clean()
    # So that they are reached, the active segment is rolled at that age too.
    segments = len(store.log.segments)
    store.put_all([2])
    store.put((b"key 3", b"x"), timestamp=NOW + 10_002)
    store.put((b"key 4", b"x"), timestamp=NOW + 10_003)
    assert len(store.log.segments) == segments + 1


@pytest.mark.parametrize(
    "level", [at_broker(log_cleaner_delete_retention_ms="5000"), at_topic(delete_retention_ms="5000")]
)
async def test_tombstones_go_after_their_time(level: Level) -> None:
    store = await make(level)
    store.put((b"key 1", None))
    store.put_all(range(2, 30))
    for later_ms, is_there in ((0, True), (4_999, True), (1, False)):
        store.clock.advance(later_ms)
        store.put_all(range(30, 60))
        assert await store.clean()
        store.put_all([99])
        assert await store.clean()
        assert (b"key 1" in last_values(store.records())) is is_there


def fill(store: CleaningStore, records: int) -> None:
    """So many keys, in batches of 1 000."""
    for first in range(0, records, 1000):
        batch = build_batch([Record(0, NOW, b"%d" % (first + number), b"") for number in range(1000)])
        append(store.log, memoryview(bytearray(batch)))


@pytest.mark.parametrize(
    ("level", "fits"),
    [
        (at_broker(log_cleaner_dedupe_buffer_size="1048577"), 39_321),
        (at_broker(log_cleaner_dedupe_buffer_size="1200000"), 45_000),
        (at_broker(log_cleaner_io_buffer_load_factor="0.5"), 21_845),
    ],
)
async def test_the_map_of_keys_takes_no_more_memory_than_told(level: Level, fits: int) -> None:
    store = await make(level, log_segment_bytes="100000")
    fill(store, 50_000)
    assert await store.clean()
    run = store.cleaner.runs[TP]
    assert 0 <= fits - run.map_entries < 50
    assert store.directory.first_dirty[TP] == run.map_entries
    assert await store.clean()
    assert len(store.records()) == 50_000


async def test_the_cleaner_reads_as_much_at_once_as_told() -> None:
    took = []
    for size in ("10000", "200000"):
        store = await make(at_broker(log_cleaner_io_buffer_size=size), log_segment_bytes="1000000")
        fill(store, 20_000)
        assert await store.clean()
        took.append(store.cleaner.runs[TP].memory_bytes)
    assert took[1] - took[0] > 150_000


async def test_the_cleaner_keeps_to_its_rate() -> None:
    store = await make(at_broker(log_cleaner_io_max_bytes_per_second="10000"))
    store.put_all([1] * 30)
    size = store.log.size_bytes
    assert await store.clean()
    assert isinstance(store.store.offload, InlineOffload)
    # Everything is read twice, and the clock of this test stands still: each pause is all that was ever too much.
    assert store.store.offload.paused_ms > 2 * size / 10
    unbound = await make(at_broker())
    unbound.put_all([1] * 30)
    assert await unbound.clean()
    assert isinstance(unbound.store.offload, InlineOffload)
    assert unbound.store.offload.paused_ms == 0


async def test_an_idle_cleaner_looks_again_after_its_backoff() -> None:
    store = await make(at_broker(log_cleaner_backoff_ms="3600000"))
    running = asyncio.ensure_future(store.cleaner.run())
    await until(lambda: store.cleaner.figures.last_looked_ms >= 0)
    store.put_all([1] * 30)
    await store.settle()
    for _ in range(20):
        await asyncio.sleep(0)
    assert store.cleaner.figures.runs == 0
    soon = resolve_broker_config({"zookeeper.connect": "z", "log.cleaner.backoff.ms": "1"})
    store.cleaner.configure(cleaner_settings(soon))
    await until(lambda: store.cleaner.figures.runs == 1)
    store.put_all([1] * 30)
    await store.settle()
    await until(lambda: store.cleaner.figures.runs == 2)
    running.cancel()
    await asyncio.wait([running])


@pytest.mark.parametrize("enabled", ["true", "false"])
async def test_a_broker_cleans_its_logs_unless_told_not_to(tmp_path: Path, enabled: str) -> None:
    host = BrokerHost(tmp_path)
    broker = await host.start(
        log_cleaner_enable=enabled, log_cleaner_backoff_ms="10", log_cleaner_min_cleanable_ratio="0"
    )
    (partition,) = await make_topic(broker, cleanup_policy="compact", segment_bytes="1000")
    log, metrics = partition.log, broker.services.metrics
    for number in range(40):
        append(log, memoryview(bytearray(build_batch([Record(0, NOW, b"key", b"%02d" % number * 30)]))))
    log.set_high_watermark(40)
    size = log.size_bytes
    if enabled == "true":
        await until(lambda: log.size_bytes < size / 3)
        await until(lambda: b"barnabas_cleaner_runs_total 0.0" not in metrics.exposition())
    else:
        assert b"barnabas_cleaner" not in metrics.exposition()
    await broker.stop()
    await host.close()


def test_a_cleaner_that_is_to_pause_for_no_time_leaves_the_loop_to_others() -> None:
    config = resolve_broker_config({"zookeeper.connect": "z", "log.cleaner.backoff.ms": "0"})
    assert cleaner_settings(config).backoff_ms > 0
