"""Whole brokers whose files are damaged under them: what is damaged is not served, and is mended from the leader."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from barnabas.protocol.entries import iterate_entries
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.list_offsets import ListOffsetPartition, ListOffsetRequest, ListOffsetTopic
from barnabas.runtime.disk import SystemDisk
from barnabas.storage import scrubber
from barnabas.storage.damage import DamagedRange
from barnabas.storage.mended_segment import DamagedSegment, Fill, spool_path, write_anew
from barnabas.storage.replacement import replace_segments
from broker.handlers import fetch, list_offsets
from broker.serve import Broker
from replication.partition import Partition
from tests.unit.broker.data_broker import answer_of
from tests.unit.broker.test_replicated_brokers import Cluster, context
from tests.unit.broker.whole_broker import BrokerHost, make_topic, until
from tests.unit.storage.logs import append, batch

RECORDS = 12


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    """Three brokers, and twelve records that all of them have."""
    cluster = Cluster(BrokerHost(tmp_path))
    await cluster.start()
    for number in range(RECORDS):
        await cluster.produce(b"record %03d" % number)
    await until(lambda: all(cluster.partition(each).log.high_watermark == RECORDS for each in cluster.brokers))
    yield cluster
    for broker in cluster.brokers:
        await broker.stop()
    await cluster.host.close()


def segment_path(cluster: Cluster, broker: Broker) -> Path:
    return Path(cluster.partition(broker).log.segments.first.path(".log"))


def damage(cluster: Cluster, broker: Broker, *, record: int, data: bytes = b"\xff\xff", at: int = 65) -> None:
    """Write over a batch of the broker's file, and have the scrubber look."""
    partition = cluster.partition(broker)
    segment = partition.log.segments.first
    position = segment.position_of(record)
    assert position is not None
    with segment_path(cluster, broker).open("r+b") as file:
        file.seek(position + at)
        file.write(data)
    partition.directory.suspect(partition.log, record)


async def test_a_damaged_follower_is_mended_with_the_leaders_bytes(cluster: Cluster) -> None:
    follower = cluster.followers[0]
    good = segment_path(cluster, cluster.leader).read_bytes()
    assert segment_path(cluster, follower).read_bytes() == good
    log, directory = cluster.partition(follower).log, cluster.partition(follower).directory
    # What is being cleaned is mended later, so that it can be seen before.
    directory.cleaning = log
    damage(cluster, follower, record=3, data=bytes(300))
    assert segment_path(cluster, follower).read_bytes() != good
    await until(lambda: log.damage)
    answer, data = await cluster.fetch(follower, 4, rack=str(follower.services.config.broker_rack))
    assert (answer.error_code, data) == (ErrorCode.CORRUPT_MESSAGE, b"")
    directory.cleaning = None
    await until(lambda: not log.damage)
    assert segment_path(cluster, follower).read_bytes() == good
    await until(lambda: "barnabas_scrub_mended_ranges_total 1.0" in follower.services.metrics.exposition().decode())
    await cluster.produce(b"one more")
    await until(lambda: log.log_end_offset == RECORDS + 1)


async def test_a_damaged_leader_gives_up_the_partition_and_is_mended_as_a_follower(cluster: Cluster) -> None:
    leader = cluster.leader
    good = segment_path(cluster, leader).read_bytes()
    damage(cluster, leader, record=5)
    log = cluster.partition(leader).log
    await until(lambda: any(cluster.leads(each) for each in cluster.brokers if each is not leader))
    await until(lambda: not log.damage)
    assert segment_path(cluster, leader).read_bytes() == good
    assert len(cluster.partition(cluster.leader).isr) == 3
    await cluster.produce(b"one more")


@pytest.mark.parametrize("where", ["its last byte", "the base offset of its last batch"])
async def test_damage_that_a_debugging_consumer_is_sent_is_found_at_once(cluster: Cluster, where: str) -> None:
    follower = cluster.followers[0]
    partition, metrics = cluster.partition(follower), follower.services.metrics
    good = segment_path(cluster, follower).read_bytes()
    await until(lambda: "barnabas_scrub_passes_total 1.0" in metrics.exposition().decode())
    last = len(good) * (RECORDS - 1) // RECORDS
    at = len(good) - 1 if where == "its last byte" else last + 6
    with segment_path(cluster, follower).open("r+b") as file:
        file.seek(at)
        file.write(bytes([good[at] ^ 1]))
    await cluster.fetch(follower, 0, rack=str(follower.services.config.broker_rack))
    assert not partition.directory.suspects, "what consumers are sent is not looked at"
    wanted = FetchTopic("t", [FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)])
    request = FetchRequest(replica_id=-2, max_wait_ms=0, max_bytes=1 << 20, topics=[wanted])
    answer = await answer_of(fetch.handle(request, context(follower, 11)))
    answer.responses[0].partition_responses[0].record_set.release()
    await until(lambda: "barnabas_scrub_mended_ranges_total 1.0" in metrics.exposition().decode())
    assert segment_path(cluster, follower).read_bytes() == good


async def by_offset(cluster: Cluster, broker: Broker, record: int) -> int:
    """What a client hears that fetches the record from that broker."""
    answer, data = await cluster.fetch(broker, record, rack=str(broker.services.config.broker_rack))
    assert data == b""
    return int(answer.error_code)


async def by_time(_: Cluster, broker: Broker, __: int) -> int:
    """What a debugging consumer hears that asks for the first record since 1970."""
    wanted = ListOffsetTopic("t", [ListOffsetPartition(0, timestamp=1)])
    answer = await answer_of(list_offsets.handle(ListOffsetRequest(-2, topics=[wanted]), context(broker, 5)))
    return int(answer.topics[0].partitions[0].error_code)


@pytest.mark.parametrize(("ask", "record"), [(by_offset, 3), (by_time, 0)])
async def test_who_meets_a_header_that_is_none_is_told_so_and_it_is_mended_at_once(
    cluster: Cluster, ask: Callable[[Cluster, Broker, int], Awaitable[int]], record: int
) -> None:
    follower = cluster.followers[0]
    metrics, segment = follower.services.metrics, cluster.partition(follower).log.segments.first
    good = segment_path(cluster, follower).read_bytes()
    await until(lambda: "barnabas_scrub_passes_total 1.0" in metrics.exposition().decode())
    position = segment.position_of(record)
    assert position is not None
    with segment_path(cluster, follower).open("r+b") as file:
        file.seek(position + 16)
        file.write(b"\xff")
    # As after a while: where batches were found last is not remembered for ever.
    segment._places.clear()
    assert await ask(cluster, follower, record) == ErrorCode.CORRUPT_MESSAGE
    await until(lambda: "barnabas_scrub_mended_ranges_total 1.0" in metrics.exposition().decode())
    assert segment_path(cluster, follower).read_bytes() == good


async def drop(cluster: Cluster, broker: Broker, *records: int) -> None:
    """As the cleaner does: take records away from the first segment of the broker's log, which is closed."""
    partition = cluster.partition(broker)
    log, segment = partition.log, partition.log.segments.first
    spool = SystemDisk().open(spool_path(log.directory, 0), create=True)
    fills = []
    for record in records:
        start, end = segment.position_of(record), segment.position_of(record + 1)
        assert start is not None
        assert end is not None
        fills.append(Fill(DamagedRange(0, start, end, record, record + 1, "dropped"), 0, 0))
    plan = DamagedSegment(log.directory, 0, log.segments[1].base_offset, segment.size_bytes, False, 4096)
    made = write_anew(SystemDisk(), plan, spool, fills)
    offload = broker.services.offload
    assert await replace_segments(partition.directory, log, made, generation=log.generation, offload=offload)


async def test_a_follower_of_a_leader_that_compacted_gets_what_that_has(cluster: Cluster) -> None:
    for broker in cluster.brokers:
        partition = cluster.partition(broker)
        partition.log.roll()
        await partition.directory.flush(partition.log, RECORDS)
    await drop(cluster, cluster.leader, 4, 5)
    follower = cluster.followers[0]
    damage(cluster, follower, record=3, data=bytes(330))
    await until(lambda: "barnabas_scrub_mended_ranges_total 1.0" in follower.services.metrics.exposition().decode())
    assert not cluster.partition(follower).log.damage
    assert segment_path(cluster, follower).read_bytes() == segment_path(cluster, cluster.leader).read_bytes()
    answer, data = await cluster.fetch(follower, 4, rack=str(follower.services.config.broker_rack))
    assert (answer.error_code, next(iterate_entries(data))[1].base_offset) == (ErrorCode.NONE, 6)


async def test_what_the_leader_has_given_up_is_given_up(cluster: Cluster) -> None:
    follower = cluster.followers[0]
    log = cluster.partition(follower).log
    # As if it had not heard of it: an idle follower hears of a start that moved when something is written.
    cluster.partition(cluster.leader).log.advance_log_start_offset(6)
    damage(cluster, follower, record=3)
    await until(lambda: log.log_start_offset == 6)
    await until(lambda: not log.damage)
    answer, data = await cluster.fetch(follower, 6, rack=str(follower.services.config.broker_rack))
    assert (answer.error_code, next(iterate_entries(data))[1].base_offset) == (ErrorCode.NONE, 6)


async def test_alone_a_damaged_leader_leads_on_and_serves_the_rest(tmp_path: Path) -> None:
    cluster = Cluster(BrokerHost(tmp_path))
    broker = await cluster.host.start(broker_id="1")
    cluster.brokers = [broker]
    (partition,) = await make_topic(broker)
    for number in range(RECORDS):
        append(partition.log, batch(b"record %03d" % number), leader_epoch=partition.leader_epoch)
    partition._advance()
    damage(cluster, broker, record=3)
    await until(lambda: partition.log.damage)
    assert 'barnabas_log_damaged_ranges{partition="0",topic="t"} 1.0' in broker.services.metrics.exposition().decode()
    read = []
    for offset in (0, 3, 4):
        answer, data = await cluster.fetch(broker, offset)
        read.append((answer.error_code, [header.base_offset for _, header in iterate_entries(data)]))
    assert read == [(0, [0, 1, 2]), (ErrorCode.CORRUPT_MESSAGE, []), (0, list(range(4, RECORDS)))]
    assert partition.is_leader
    await broker.stop()
    again = await cluster.host.start(broker_id="1")
    cluster.brokers = [again]
    await until(lambda: again.services.replicas.partition(("t", 0)) is not None)
    await until(lambda: cluster.leads(again))
    answer, _ = await cluster.fetch(again, 3)
    assert answer.error_code == ErrorCode.CORRUPT_MESSAGE
    await again.stop()
    await cluster.host.close()


@asynccontextmanager
async def scrubbed(tmp_path: Path, **keys: str) -> AsyncIterator[tuple[Partition, Callable[[str], float]]]:
    """A broker with one log of one batch that was there before it started, and the scrubber's metrics."""
    host = BrokerHost(tmp_path)
    broker = await host.start(broker_id="1", barnabas_scrub_bytes_per_second="0")
    (partition,) = await make_topic(broker)
    append(partition.log, batch(b"v" * 100), leader_epoch=partition.leader_epoch)
    await broker.stop()
    broker = await host.start(broker_id="1", **keys)

    def metric(name: str) -> float:
        lines = broker.services.metrics.exposition().decode().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith(f"barnabas_scrub_{name}_total"))

    try:
        await until(lambda: broker.services.replicas.partition(("t", 0)) is not None)
        found = broker.services.replicas.partition(("t", 0))
        assert found is not None
        yield found, metric
    finally:
        await broker.stop()
        await host.close()


async def turns(partition: Partition, count: int) -> None:
    """Return when the scrubber has looked so often for what there is to do."""
    for _ in range(count):
        partition.directory.suspect(partition.log, 0)
        await until(lambda: not partition.directory.suspects)


async def test_a_log_is_checked_at_its_rate_and_not_at_all_at_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrubber, "_IDLE_MS", 10)
    async with scrubbed(tmp_path / "a", barnabas_scrub_interval_ms="1") as (_, metric):
        await until(lambda: metric("passes"))
        assert metric("checked_bytes") > 0
    off = {"barnabas_scrub_interval_ms": "1", "barnabas_scrub_bytes_per_second": "0"}
    async with scrubbed(tmp_path / "b", **off) as (partition, metric):
        await turns(partition, 20)
        assert metric("passes") == 0
        assert metric("checked_bytes") > 0, "what somebody could not read is looked at for all that"


async def test_a_check_of_all_begins_after_its_interval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrubber, "_IDLE_MS", 10)
    async with scrubbed(tmp_path / "a", barnabas_scrub_interval_ms="1") as (_, metric):
        await until(lambda: metric("passes") > 1)
    async with scrubbed(tmp_path / "b", barnabas_scrub_interval_ms="3600000") as (partition, metric):
        await until(lambda: metric("passes"))
        await turns(partition, 20)
        assert metric("passes") == 1
