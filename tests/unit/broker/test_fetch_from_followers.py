"""Fetches of followers: they read to the log's end, and what they ask for is counted, once for each request."""

import asyncio
from typing import Any

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerId, LeaderEpoch, TopicPartition
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.storage.log_config import LogConfig
from replication.partition import Partition
from replication.replicas import ReplicaAssignment
from replication.settings import TopicSettings
from tests.support.virtual_time import turns, virtual_time
from tests.unit.broker.data_broker import (
    CountedReads,
    DataBroker,
    Fetched,
    fetch_now,
    fetch_request,
    fetched,
    start_waiting,
)
from tests.unit.replication.replica_world import ME, OTHER, append_now
from tests.unit.storage.logs import batch

T0 = ("t", 0)
STRANGER = BrokerId(9)
THIRD = BrokerId(3)
BOTH = (ME, OTHER)
EPOCH = LeaderEpoch(3)


async def leading(
    count: int = 1, *, isr: tuple[BrokerId, ...] = BOTH, given: dict[str, str] | None = None
) -> tuple[DataBroker, list[Partition]]:
    """A broker that leads partitions in epoch 3, which the others of `isr`, and broker 2, follow."""
    broker = await DataBroker(given).open()
    replicas = tuple(dict.fromkeys((*BOTH, *isr)))
    for number in range(count):
        at = TopicPartition("t", number)
        await broker.world.replicas.assign(
            ReplicaAssignment(at, ME, EPOCH, isr, replicas, 0, True, TopicSettings(LogConfig()))
        )
    broker.announce("t", count)
    return broker, [broker.world.partition(TopicPartition("t", number)) for number in range(count)]


def follow(
    broker: DataBroker, offset: int, *, replica: BrokerId = OTHER, epoch: int = EPOCH, last_epoch: int = -1
) -> Fetched:
    request = fetch_request({T0: offset}, replica_id=replica, leader_epoch=epoch, last_fetched_epoch=last_epoch)
    return fetch_now(broker, request)


def end_of(partition: Partition) -> int:
    """The follower's end, as the leader knows it."""
    assert partition.leadership is not None
    return partition.leadership.remotes[OTHER].end_offset


class Follower:
    """A follower's session: it names only what moved."""

    def __init__(self, broker: DataBroker, count: int) -> None:
        self.broker = broker
        self.moved = {("t", number): 0 for number in range(count)}
        self.session = (0, 0)

    def request(self, *, max_wait_ms: int = 0) -> FetchRequest:
        request = fetch_request(
            self.moved, replica_id=OTHER, leader_epoch=EPOCH, session=self.session, max_wait_ms=max_wait_ms
        )
        self.moved = {}
        return request

    def heard(self, answer: Fetched) -> Fetched:
        assert answer.error is ErrorCode.NONE
        self.session = (answer.session_id, self.session[1] + 1)
        for key, records in answer.records.items():
            if records:
                self.moved[key] = self.broker.world.partition(TopicPartition(*key)).log.log_end_offset
        return answer

    def poll(self) -> Fetched:
        return self.heard(fetch_now(self.broker, self.request()))

    def wait(self) -> "asyncio.Future[FetchResponse]":
        return start_waiting(self.broker, self.request(max_wait_ms=500))


# What is read and counted.


@virtual_time
async def test_a_follower_reads_to_the_end_and_a_consumer_to_what_is_committed() -> None:
    broker, (partition,) = await leading()
    append_now(partition, b"a")
    append_now(partition, b"b")
    answer = follow(broker, 0)
    assert answer.records[T0] == bytes(batch(b"a", leader_epoch=EPOCH)) + bytes(
        batch(b"b", base_offset=1, leader_epoch=EPOCH)
    )
    assert fetch_now(broker, fetch_request({T0: 0})).records[T0] == b""
    assert partition.log.high_watermark == 0


@virtual_time
async def test_the_answer_has_the_high_watermark_that_the_request_has_made() -> None:
    broker, (partition,) = await leading()
    append_now(partition, b"a")
    assert follow(broker, 0).partitions[T0].high_watermark == 0
    assert follow(broker, 1).partitions[T0].high_watermark == 1
    assert partition.log.high_watermark == 1


@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        (EPOCH - 1, ErrorCode.FENCED_LEADER_EPOCH),
        (EPOCH + 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (-1, ErrorCode.NONE),
    ],
)
def test_a_follower_of_another_epoch_is_told_so_and_counts_for_nothing(epoch: int, error: ErrorCode) -> None:
    @virtual_time
    async def run() -> None:
        broker, (partition,) = await leading()
        append_now(partition)
        assert follow(broker, 1, epoch=epoch).errors() == {T0: error}
        assert (end_of(partition), partition.log.high_watermark) == (-1, 0)

    run()


@pytest.mark.parametrize("offset", [0, 4])
def test_an_offset_out_of_range_counts_for_nothing(offset: int) -> None:
    @virtual_time
    async def run() -> None:
        broker, (partition,) = await leading()
        append_now(partition, b"a", b"b", b"c")
        follow(broker, 3)
        partition.log.advance_log_start_offset(1)
        assert follow(broker, offset).errors() == {T0: ErrorCode.OFFSET_OUT_OF_RANGE}
        assert end_of(partition) == 3

    run()


@virtual_time
async def test_a_follower_whose_log_diverges_is_told_where_and_counts_for_nothing() -> None:
    # KAFKA-14704
    broker, (partition,) = await leading()
    append_now(partition)
    told = follow(broker, 1, last_epoch=EPOCH - 1).partitions[T0]
    assert (told.diverging_epoch.epoch, told.diverging_epoch.end_offset) == (EPOCH - 1, 0)
    assert follow(broker, 1, last_epoch=EPOCH + 1).errors() == {T0: ErrorCode.OFFSET_OUT_OF_RANGE}
    assert end_of(partition) == -1
    assert partition.log.high_watermark == 0


@virtual_time
async def test_a_broker_that_is_not_assigned_gets_no_records_and_counts_for_nothing() -> None:
    broker, (partition,) = await leading()
    append_now(partition)
    for replica in (STRANGER, ME):
        answer = follow(broker, 0, replica=replica)
        assert (answer.errors(), answer.records) == ({T0: ErrorCode.NONE}, {T0: b""})
    assert partition.log.high_watermark == 0


@virtual_time
async def test_a_replica_that_does_not_lead_sends_followers_away_and_serves_consumers() -> None:
    broker, (partition,) = await leading()
    append_now(partition, b"a", b"b")
    follow(broker, 1)
    await broker.world.assign(4, leader=OTHER, replicas=BOTH)
    assert follow(broker, 0, epoch=4).errors() == {T0: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    for version, error in ((10, ErrorCode.NOT_LEADER_OR_FOLLOWER), (11, ErrorCode.NONE)):
        answer = fetch_now(broker, fetch_request({T0: 0}), version=version)
        assert answer.errors() == {T0: error}
    assert fetch_now(broker, fetch_request({T0: 0}, leader_epoch=3)).errors() == {T0: ErrorCode.FENCED_LEADER_EPOCH}
    partition.apply_leader_progress(leader_epoch=LeaderEpoch(4), high_watermark=2, log_start_offset=0)
    answer = fetch_now(broker, fetch_request({T0: 0}, leader_epoch=4))
    assert answer.partitions[T0].high_watermark == 2
    assert answer.records[T0] == bytes(batch(b"a", b"b", leader_epoch=EPOCH))


# Waiting and sessions.


@virtual_time
async def test_a_follower_that_waits_is_woken_by_an_append_and_counted_once() -> None:
    broker, (partition,) = await leading()
    waiting = start_waiting(broker, fetch_request({T0: 0}, replica_id=OTHER, leader_epoch=EPOCH, max_wait_ms=500))
    assert end_of(partition) == 0
    broker.world.clock.advance(700)
    append_now(partition, b"a")
    assert (await fetched(waiting)).records[T0] == bytes(batch(b"a", leader_epoch=EPOCH))
    assert asyncio.get_running_loop().time() == 0
    assert partition.leadership is not None
    remote = partition.leadership.remotes[OTHER]
    assert remote.last_fetch_ms == broker.world.clock.monotonic_ms() - 700, "it said so then, and no more since"


@pytest.mark.interpreted
@virtual_time
async def test_idle_polls_of_a_session_read_nothing() -> None:
    broker, partitions = await leading(20)
    follower = Follower(broker, 20)
    assert len(follower.poll().records) == 20
    logs = [CountedReads(partition) for partition in partitions]
    for _ in range(5):
        assert follower.poll().records == {}
    assert sum(log.count for log in logs) == 0
    waiting = follower.wait()
    append_now(partitions[7], b"a")
    assert list(follower.heard(await fetched(waiting)).records) == [("t", 7)]
    assert 1 <= sum(log.count for log in logs) <= 2
    assert follower.poll().partitions[("t", 7)].high_watermark == 1
    assert partitions[7].log.high_watermark == 1
    assert follower.poll().records == {}


async def waiting_at_the_end(given: dict[str, str] | None = None) -> tuple[Partition, Follower, Any]:
    """A follower that has a record which another has not, and waits."""
    broker, (partition,) = await leading(isr=(*BOTH, THIRD), given=given)
    follower = Follower(broker, 1)
    append_now(partition)
    follower.poll()
    waiting = follower.wait()
    await turns()
    assert not waiting.done()
    return partition, follower, waiting


def commit(partition: Partition) -> None:
    partition.on_follower_fetch(THIRD, leader_epoch=EPOCH, fetch_offset=1, log_start_offset=0)
    assert partition.log.high_watermark == 1


@virtual_time
async def test_a_high_watermark_wakes_no_follower_and_is_told_by_the_next_answer() -> None:
    partition, follower, waiting = await waiting_at_the_end()
    commit(partition)
    await turns()
    assert not waiting.done()
    answer = follower.heard(await fetched(waiting))
    assert asyncio.get_running_loop().time() == 0.5
    assert answer.partitions[T0].high_watermark == 1


@virtual_time
async def test_with_a_selector_a_follower_hears_of_the_high_watermark_at_once() -> None:
    # KAFKA-9731: consumers read there.
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    partition, follower, waiting = await waiting_at_the_end({"replica.selector.class": selector})
    commit(partition)
    answer = follower.heard(await fetched(waiting))
    assert asyncio.get_running_loop().time() == 0
    assert answer.partitions[T0].high_watermark == 1


@pytest.mark.interpreted
@virtual_time
async def test_who_is_out_of_sync_is_counted_by_each_poll_until_it_is_in() -> None:
    broker, (partition,) = await leading(isr=(ME,))
    follower = Follower(broker, 1)
    live = broker.world.live.pop(OTHER)
    follower.poll()
    follower.poll()
    assert broker.world.channel.proposed == []
    broker.world.live[OTHER] = live
    follower.poll()
    assert broker.world.channel.proposed == [BOTH]
    follower.poll()
    broker.world.channel.obey(TopicPartition("t", 0))
    follower.poll()
    log = CountedReads(partition)
    follower.poll()
    follower.poll()
    assert log.count == 0


@virtual_time
async def test_a_new_epoch_ends_the_wait_of_a_follower() -> None:
    broker, _ = await leading()
    follower = Follower(broker, 1)
    follower.poll()
    waiting = follower.wait()
    await broker.world.assign(5, replicas=BOTH)
    answer = follower.heard(await fetched(waiting))
    assert answer.errors() == {T0: ErrorCode.FENCED_LEADER_EPOCH}
    assert asyncio.get_running_loop().time() == 0


@virtual_time
async def test_a_follower_tells_where_its_log_starts() -> None:
    broker, (partition,) = await leading()
    append_now(partition, b"a", b"b", b"c")
    follower = Follower(broker, 1)
    assert partition.leadership is not None
    remote = partition.leadership.remotes[OTHER]
    for start in (0, 2):
        follower.moved = {T0: 3}
        request = follower.request()
        request.topics[0].partitions[0].log_start_offset = start
        follower.heard(fetch_now(broker, request))
        assert remote.log_start_offset == start


@virtual_time
async def test_nobody_is_watched_for_who_is_gone() -> None:
    broker, (partition,) = await leading()
    request = fetch_request({T0: 0}, replica_id=OTHER, leader_epoch=EPOCH, max_wait_ms=500)
    waiting = start_waiting(broker, request)
    assert len(partition._follower_watchers) == 1
    await fetched(waiting)
    assert not partition._follower_watchers
    follower = Follower(broker, 1)
    follower.poll()
    assert len(partition._follower_watchers) == 1
    assert not partition._watchers
    request = fetch_request({}, replica_id=OTHER, session=follower.session, forgotten=[T0])
    follower.heard(fetch_now(broker, request))
    assert not partition._follower_watchers


@virtual_time
async def test_a_high_watermark_that_rises_between_two_polls_is_told() -> None:
    broker, (partition,) = await leading(isr=(*BOTH, THIRD))
    follower = Follower(broker, 1)
    append_now(partition)
    follower.poll()
    assert follower.poll().records == {}
    commit(partition)
    assert follower.poll().partitions[T0].high_watermark == 1
    assert follower.poll().records == {}


@virtual_time
async def test_who_dropped_an_answer_and_asks_from_the_same_place_is_told_the_high_watermark_again() -> None:
    broker, (partition,) = await leading()
    follower = Follower(broker, 1)
    append_now(partition)
    follower.poll()
    assert follower.poll().partitions[T0].high_watermark == 1
    assert follower.poll().partitions == {}
    follower.moved = {T0: 1}
    assert follower.poll().partitions[T0].high_watermark == 1
    assert follower.poll().partitions == {}


@virtual_time
async def test_who_catches_up_while_it_is_being_left_out_is_taken_in_again_by_its_next_poll() -> None:
    broker, (partition,) = await leading()
    follower = Follower(broker, 1)
    append_now(partition)
    broker.world.clock.advance(30_001)
    partition.check_lag()
    assert broker.world.channel.proposed == [(ME,)]
    follower.poll()
    follower.poll()
    follower.poll()
    broker.world.channel.obey(TopicPartition("t", 0))
    assert partition.isr == (ME,)
    follower.poll()
    assert broker.world.channel.proposed == [(ME,), BOTH]
