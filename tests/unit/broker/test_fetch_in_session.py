"""Fetch in a session (KIP-227): what an incremental answer names, what wakes it, and what an idle poll costs."""

import asyncio
import random
from collections.abc import Awaitable
from typing import Any

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.runtime.completion import Completion
from broker.fetch_sessions import FetchSession, FetchSessions
from broker.metric_sources import log_families
from replication.partition import Partition
from tests.support.virtual_time import turns, virtual_time
from tests.unit.broker.data_broker import (
    CountedReads,
    DataBroker,
    Fetched,
    end_transaction,
    fetch_now,
    fetch_request,
    fetched,
    in_transaction,
    pins,
    start_fetch,
    start_waiting,
)
from tests.unit.replication.replica_world import ME, OTHER, append_now
from tests.unit.storage.logs import batch, read_bytes

Key = tuple[str, int]
T0, T1 = ("t", 0), ("t", 1)
SIZE = len(batch(b"v" * 100))

ONLY_FROM_LEADERS = 10


class Client:
    """A consumer with one session: it keeps the epoch and its offsets, and names only those that moved."""

    def __init__(self, broker: DataBroker, *keys: Key, isolation_level: int = 0) -> None:
        self.broker = broker
        self.offsets = dict.fromkeys(keys, 0)
        self.isolation_level = isolation_level
        self.session_id = 0
        self.version = 12
        self.epoch = 0
        self.moved: dict[Key, int] = dict(self.offsets)

    def request(self, **more: Any) -> FetchRequest:
        request = fetch_request(
            self.moved, session=(self.session_id, self.epoch), isolation_level=self.isolation_level, **more
        )
        self.moved = {}
        return request

    def heard(self, answer: Fetched) -> Fetched:
        """Take an answer: move behind its records, and ask for what comes next."""
        assert answer.error is ErrorCode.NONE
        self.session_id = answer.session_id
        self.epoch += 1
        for key, records in answer.records.items():
            if records:
                partition = self.broker.world.partition(TopicPartition(*key))
                position = 0
                while position + 12 <= len(records):
                    size = 12 + int.from_bytes(records[position + 8 : position + 12], "big")
                    if position + size > len(records):
                        break
                    first = int.from_bytes(records[position : position + 8], "big")
                    self.offsets[key] = first + int.from_bytes(records[position + 23 : position + 27], "big") + 1
                    position += size
                assert self.offsets[key] <= partition.log.log_end_offset
                self.moved[key] = self.offsets[key]
        return answer

    def poll(self, **more: Any) -> Fetched:
        """Ask; the answer must come at once."""
        return self.heard(fetch_now(self.broker, self.request(**more), version=self.version))

    def wait(self, *, max_wait_ms: int = 500) -> Completion[FetchResponse]:
        """Ask; the answer must not come at once."""
        return start_waiting(self.broker, self.request(max_wait_ms=max_wait_ms), version=self.version)

    async def wake(self, waiting: Completion[FetchResponse]) -> Fetched:
        return self.heard(await fetched(waiting))

    @property
    def session(self) -> FetchSession:
        sessions: FetchSessions = self.broker.services.fetch_sessions
        return sessions._sessions[self.session_id]


async def consuming(partitions: int = 2, *, records: int = 0) -> tuple[DataBroker, list[Partition], Client]:
    """A client that has read everything, in a session."""
    broker = await DataBroker().open()
    leading = await broker.lead(count=partitions)
    for partition in leading:
        for _ in range(records):
            append_now(partition, b"v" * 100)
    client = Client(broker, *(("t", number) for number in range(partitions)))
    client.poll()
    client.poll()
    return broker, leading, client


@virtual_time
async def test_the_first_answer_names_everything_and_the_next_only_what_changed() -> None:
    broker = await DataBroker().open()
    first, second = await broker.lead(count=2)
    append_now(first, b"a")
    client = Client(broker, T0, T1)
    assert list(client.poll().records) == [T0, T1]
    assert list(client.poll().records) == []
    append_now(second, b"b")
    answer = client.poll()
    assert answer.records == {T1: read_bytes(second.log, 0)}
    assert answer.session_id == client.session_id > 0
    assert client.poll().records == {}
    assert pins(first, second) == 0


@virtual_time
async def test_sessions_and_what_they_remember_are_shown() -> None:
    broker, _, _ = await consuming(3)
    shown = {family.name.rpartition("_")[2]: family.samples for family in log_families(broker.services)}
    assert [each.value for each in shown["numincrementalfetchsessions"]] == [1]
    assert [each.value for each in shown["numincrementalfetchpartitionscached"]] == [3]


@pytest.mark.interpreted
@virtual_time
async def test_an_idle_poll_of_many_partitions_reads_none() -> None:
    _, partitions, client = await consuming(100)
    reads = [CountedReads(partition) for partition in partitions]
    for _ in range(5):
        waiting = client.wait(max_wait_ms=100)
        assert (await client.wake(waiting)).records == {}
    assert sum(each.count for each in reads) == 0
    append_now(partitions[42], b"a")
    assert list(client.poll().records) == [("t", 42)]
    client.poll()
    assert [number for number, each in enumerate(reads) if each.count] == [42]
    assert reads[42].count <= 3


@virtual_time
async def test_an_append_wakes_the_session_that_waits() -> None:
    _, (first, second), client = await consuming()
    for _ in range(3):
        waiting = client.wait()
        append_now(second, b"a")
        answer = await client.wake(waiting)
        assert list(answer.records) == [T1]
        await turns()
        assert client.session._parked is None
    assert asyncio.get_running_loop().time() == 0
    assert client.offsets == {T0: 0, T1: 3}
    assert pins(first, second) == 0


@virtual_time
async def test_appends_between_two_polls_are_found_by_the_next() -> None:
    _, (first, second), client = await consuming()
    for partition in (second, first):
        append_now(partition, b"a")
    assert set(client.poll(max_wait_ms=500).records) == {T0, T1}


@virtual_time
async def test_a_high_watermark_that_moved_is_told_also_without_records() -> None:
    _, (first, _), client = await consuming()
    append_now(first, b"v" * 100)
    # The limit leaves no room for records of the second partition.
    client.offsets[T0] = client.moved[T0] = 1
    answer = client.poll()
    assert answer.records == {T0: b""}
    assert answer.partitions[T0].high_watermark == 1
    assert client.poll().records == {}


@virtual_time
async def test_a_log_that_starts_elsewhere_now_is_told_with_the_next_change() -> None:
    _, (first, _), client = await consuming(records=2)
    first.log.advance_log_start_offset(1)
    append_now(first, b"a")
    assert client.poll().partitions[T0].log_start_offset == 1


@virtual_time
async def test_a_log_start_that_moved_is_told_though_nothing_else_is_new() -> None:
    _, (first, _), client = await consuming(records=2)
    first.log.advance_log_start_offset(1)
    client.moved = {T0: 2}
    answer = client.poll()
    assert answer.records == {T0: b""}
    assert answer.partitions[T0].log_start_offset == 1
    client.moved = {T0: 2}
    assert client.poll().records == {}


# Errors.


@virtual_time
async def test_an_error_is_named_in_each_answer_until_it_is_gone() -> None:
    broker, (first, _), client = await consuming()
    client.version = ONLY_FROM_LEADERS
    await broker.world.assign(1, leader=OTHER, replicas=(OTHER, ME))
    for _ in range(3):
        answer = client.poll(max_wait_ms=500)
        assert answer.errors() == {T0: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    await broker.world.assign(2)
    # The client is told that it is well again, though nothing else is new.
    assert client.poll().errors() == {T0: ErrorCode.NONE}
    assert client.poll().errors() == {}
    waiting = client.wait()
    append_now(first, b"a")
    assert list((await client.wake(waiting)).records) == [T0]


@virtual_time
async def test_a_leader_that_goes_while_a_session_waits_ends_the_wait() -> None:
    broker, _, client = await consuming()
    client.version = ONLY_FROM_LEADERS
    waiting = client.wait()
    await broker.world.assign(1, leader=OTHER, replicas=(OTHER, ME))
    assert (await client.wake(waiting)).errors() == {T0: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    assert asyncio.get_running_loop().time() == 0


@virtual_time
async def test_an_unknown_partition_becomes_known() -> None:
    broker, _, _ = await consuming()
    client = Client(broker, ("new", 0), T0)
    assert client.poll().errors() == {T0: ErrorCode.NONE, ("new", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    (partition,) = await broker.lead("new")
    assert client.poll().errors() == {("new", 0): ErrorCode.NONE}
    waiting = client.wait()
    append_now(partition, b"a")
    assert list((await client.wake(waiting)).records) == [("new", 0)]


@virtual_time
async def test_an_offset_out_of_range_is_named_until_the_client_asks_for_another() -> None:
    _, (first, _), client = await consuming()
    client.moved[T0] = 7
    for _ in range(2):
        assert client.poll().errors() == {T0: ErrorCode.OFFSET_OUT_OF_RANGE}
    client.moved[T0] = 0
    assert client.poll().errors() == {T0: ErrorCode.NONE}
    waiting = client.wait()
    append_now(first, b"a")
    assert list((await client.wake(waiting)).records) == [T0]


@pytest.mark.parametrize(("epoch", "error"), [(0, ErrorCode.FENCED_LEADER_EPOCH), (9, ErrorCode.UNKNOWN_LEADER_EPOCH)])
def test_the_epoch_that_the_session_remembers_fences(epoch: int, error: ErrorCode) -> None:
    @virtual_time
    async def run() -> None:
        broker, _, client = await consuming()
        await broker.world.assign(3)
        client.moved = {T0: 0}
        assert client.poll(leader_epoch=epoch).errors() == {T0: error}
        assert client.poll().errors() == {T0: error}
        client.moved = {T0: 0}
        assert client.poll(leader_epoch=3).errors() == {T0: ErrorCode.NONE}

    run()


# Partitions that go and come.


@virtual_time
async def test_a_partition_that_was_deleted_and_made_again_between_two_polls_is_watched_anew() -> None:
    broker, (old, _), client = await consuming()
    assert await broker.world.stop(-2) is ErrorCode.NONE
    new = await broker.world.lead()
    assert new is not old
    client.poll()
    waiting = client.wait()
    append_now(new, b"a")
    assert list((await client.wake(waiting)).records) == [T0]
    assert asyncio.get_running_loop().time() == 0
    assert (len(old._watchers), len(new._watchers)) == (0, 1)


@virtual_time
async def test_a_partition_that_was_deleted_and_made_again_while_the_session_waits_is_watched_anew() -> None:
    broker, (old, _), client = await consuming()
    waiting = client.wait()
    assert await broker.world.stop(-2) is ErrorCode.NONE
    new = await broker.world.lead()
    await turns()
    append_now(new, b"a")
    answer = await client.wake(waiting)
    while not answer.records.get(T0):
        answer = client.poll()
    assert answer.records[T0] == read_bytes(new.log, 0)
    assert asyncio.get_running_loop().time() == 0
    assert old._watchers == {}


@virtual_time
async def test_a_partition_that_was_deleted_is_watched_no_more() -> None:
    broker, (old, _), client = await consuming()
    assert await broker.world.stop(-2) is ErrorCode.NONE
    assert client.poll().errors() == {T0: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    assert old._watchers == {}


@virtual_time
async def test_a_forgotten_partition_is_told_no_more() -> None:
    _, (first, second), client = await consuming()
    assert client.poll(forgotten=[T0]).records == {}
    waiting = client.wait()
    append_now(first, b"a")
    await turns()
    assert not waiting.done()
    append_now(second, b"a")
    assert list((await client.wake(waiting)).records) == [T1]
    assert first._watchers == {}


@virtual_time
async def test_a_partition_may_join_the_session_later() -> None:
    broker, (_, second), _ = await consuming()
    client = Client(broker, T0)
    client.poll()
    client.moved[T1] = 0
    assert list(client.poll().records) == [T1]
    waiting = client.wait()
    append_now(second, b"a")
    assert list((await client.wake(waiting)).records) == [T1]


# The life of sessions.


@virtual_time
async def test_wrong_epochs_and_unknown_sessions_are_refused_without_partitions() -> None:
    broker, _, client = await consuming()
    for session, expected in (
        ((client.session_id, client.epoch + 1), ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        ((client.session_id + 1, 1), ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
    ):
        answer = fetch_now(broker, fetch_request({T0: 0}, session=session, max_wait_ms=500))
        assert (answer.error, answer.session_id, answer.partitions) == (expected, 0, {})
    assert client.poll().error is ErrorCode.NONE


@virtual_time
async def test_versions_before_7_have_no_sessions() -> None:
    broker, _, _ = await consuming()
    answer = fetch_now(broker, fetch_request({T0: 0}, session=(0, 0)), version=6)
    assert (answer.session_id, list(answer.partitions)) == (0, [T0])


@virtual_time
async def test_where_the_cache_has_no_room_a_fetch_is_served_whole_and_without_a_session() -> None:
    broker = await DataBroker(session_slots=0).open()
    (partition,) = await broker.lead()
    waiting = start_waiting(broker, fetch_request({T0: 0}, session=(0, 0), max_wait_ms=500))
    append_now(partition, b"a")
    answer = await fetched(waiting)
    assert (answer.session_id, list(answer.records)) == (0, [T0])
    assert partition._watchers == {}


@virtual_time
async def test_a_session_that_is_closed_watches_nothing() -> None:
    broker, partitions, client = await consuming()
    fetch_now(broker, fetch_request({T0: 0}, session=(client.session_id, -1)))
    assert [partition._watchers for partition in partitions] == [{}, {}]


@virtual_time
async def test_a_session_that_loses_its_place_while_it_waits_is_answered_and_leaves_no_watch() -> None:
    broker = await DataBroker(session_slots=1).open()
    (partition,) = await broker.lead()
    client = Client(broker, T0)
    client.poll()
    waiting = client.wait(max_wait_ms=500_000)
    broker.world.clock.advance(120_001)
    other = Client(broker, T0)
    assert other.poll().session_id != client.session_id
    assert (await fetched(waiting)).records == {}
    assert asyncio.get_running_loop().time() == 0
    assert list(partition._watchers) == [other.session]
    assert fetch_now(broker, client.request()).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    append_now(partition, b"a")
    assert list(other.poll().records) == [T0]


@virtual_time
async def test_who_leaves_while_its_session_waits_is_not_told_and_the_session_remembers() -> None:
    _, (first, _), client = await consuming()
    waiting = client.wait()
    waiting.cancel()
    await turns()
    append_now(first, b"a")
    await turns()
    client.epoch += 1
    assert list(client.poll().records) == [T0]
    assert pins(first) == 0


# Fairness.


@virtual_time
async def test_partitions_take_turns_where_an_answer_cannot_hold_all() -> None:
    broker = await DataBroker().open()
    partitions = await broker.lead(count=3)
    client = Client(broker, *(("t", number) for number in range(3)))
    order = []
    for _ in range(13):
        # All of them have something new each time, and there is room for one.
        for partition in partitions:
            append_now(partition, b"v" * 100)
        answer = client.poll(max_bytes=SIZE)
        order += [number for (_, number), records in answer.records.items() if records]
    # As in Kafka, the turns begin with the first incremental answer.
    assert order == [0, *[0, 1, 2] * 4]
    for _ in range(39 - 13):
        client.poll(max_bytes=SIZE)
    assert set(client.offsets.values()) == {13}
    assert client.poll().records == {}


@virtual_time
async def test_read_committed_waits_for_the_end_of_a_transaction_in_a_session() -> None:
    broker, (partition, _), _ = await consuming()
    client = Client(broker, T0, isolation_level=1)
    client.poll()
    waiting = client.wait()
    in_transaction(partition, 5, b"a")
    await turns()
    assert not waiting.done()
    end_transaction(partition, 5, commits=True)
    assert (await client.wake(waiting)).records[T0] == read_bytes(partition.log, 0)


def test_whatever_happens_a_consumer_in_a_session_reads_all_there_is_in_order(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(5):
        virtual_time(_random_life)(rng)


async def _random_life(rng: random.Random) -> None:
    broker = await DataBroker().open()
    partitions = await broker.lead(count=4)
    client = Client(broker, *(("t", number) for number in range(4)))
    epochs = [0] * 4
    for _ in range(150):
        number = rng.randrange(4)
        at = TopicPartition("t", number)
        match rng.choice(["append", "append", "append", "poll", "poll", "wait", "move", "return"]):
            case "append" if partitions[number].is_leader:
                append_now(partitions[number], b"v" * rng.choice([1, 100]))
            case "poll":
                client.poll(max_bytes=rng.choice([1, 300, 1 << 20]))
            case "wait":
                request = client.request(max_wait_ms=50)
                result = start_fetch(broker, request)
                if rng.random() < 0.5 and partitions[number].is_leader:
                    append_now(partitions[number], b"v")
                client.heard(Fetched(await result) if isinstance(result, Awaitable) else Fetched(result))
            case "move":
                epochs[number] += 1
                await broker.world.assign(epochs[number], leader=OTHER, replicas=(OTHER, ME), at=at)
            case "return":
                epochs[number] += 1
                await broker.world.assign(epochs[number], at=at)
            case _:
                pass
    for number in range(4):
        epochs[number] += 1
        await broker.world.assign(epochs[number], at=TopicPartition("t", number))
    for _ in range(40):
        client.poll()
    assert client.offsets == {("t", number): each.log.log_end_offset for number, each in enumerate(partitions)}
    assert pins(*partitions) == 0
