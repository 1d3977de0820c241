"""What the keys of groups, offsets and transactions do, on whole brokers in this process."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from barnabas.protocol.batch import Codec
from barnabas.protocol.entries import iterate_entries
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.runtime.clock import SystemClock
from broker.config import BrokerConfig
from broker.config_keys.key import ConfigError
from broker.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from replication.partition import Partition
from tests.unit.broker.group_talk import SMALL, GroupTalk
from tests.unit.broker.whole_broker import BrokerHost, make_topic, until

Start = Callable[..., Awaitable[GroupTalk]]


class ShiftedClock:
    """A clock whose wall time a test moves."""

    def __init__(self) -> None:
        self.shift_ms = 0
        self._clock = SystemClock()

    def wall_ms(self) -> int:
        return self._clock.wall_ms() + self.shift_ms

    def monotonic_ms(self) -> int:
        return self._clock.monotonic_ms()

    def monotonic_us(self) -> int:
        return self._clock.monotonic_us()

    def thread_use(self) -> tuple[int, int]:
        return self._clock.thread_use()


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[BrokerHost]:
    machine = BrokerHost(tmp_path)
    yield machine
    await machine.close()


@pytest.fixture
async def start(host: BrokerHost) -> AsyncIterator[Start]:
    """Starts a broker with a topic `t` and coordinators."""
    talks: list[GroupTalk] = []

    async def started(**keys: str) -> GroupTalk:
        broker = await host.start(**({name.replace(".", "_"): text for name, text in SMALL.items()} | keys))
        talks.append(GroupTalk(broker))
        await make_topic(broker)
        await talks[-1].find("g")
        return talks[-1]

    yield started
    for talk in talks:
        await talk.broker.stop()


def config(host: BrokerHost, **keys: str) -> BrokerConfig:
    return host.config(**keys)


def partitions(talk: GroupTalk, topic: str) -> list[Partition]:
    count = len(talk.broker.services.metadata.partitions(topic))
    found = [talk.broker.services.replicas.partition(TopicPartition(topic, number)) for number in range(count)]
    return [each for each in found if each is not None]


async def test_the_topic_of_offsets_is_made_as_configured(start: Start) -> None:
    talk = await start(
        offsets_topic_num_partitions="3", offsets_topic_replication_factor="1", offsets_topic_segment_bytes="1048576"
    )
    made = partitions(talk, CONSUMER_OFFSETS)
    assert len(made) == 3
    assert {each.log.config.segment_bytes for each in made} == {1048576}
    assert all(each.log.config.compact and not each.log.config.delete for each in made)


async def test_the_topic_of_transactions_is_made_as_configured(start: Start) -> None:
    talk = await start(
        transaction_state_log_num_partitions="4",
        transaction_state_log_replication_factor="1",
        transaction_state_log_segment_bytes="1048576",
        transaction_state_log_min_isr="2",
        transaction_state_log_load_buffer_size="12345",
    )
    await talk.find("t", 1)
    made = partitions(talk, TRANSACTION_STATE)
    assert len(made) == 4
    assert {each.log.config.segment_bytes for each in made} == {1048576}
    assert {each.min_in_sync_replicas for each in made} == {2}
    assert all(each.log.config.compact and not each.log.config.delete for each in made)
    shards = talk.broker.services.coordination.transactions.values()
    assert {shard.settings.load_buffer_bytes for shard in shards} == {12345}


async def test_a_session_timeout_is_held_between_its_bounds(start: Start) -> None:
    talk = await start(group_min_session_timeout_ms="1000", group_max_session_timeout_ms="2000")
    for timeout_ms, error in [
        (999, ErrorCode.INVALID_SESSION_TIMEOUT),
        (1000, ErrorCode.MEMBER_ID_REQUIRED),
        (2000, ErrorCode.MEMBER_ID_REQUIRED),
        (2001, ErrorCode.INVALID_SESSION_TIMEOUT),
    ]:
        assert (await talk.join(session_timeout_ms=timeout_ms)).error_code == error


async def test_a_group_takes_no_more_members_than_configured(start: Start) -> None:
    talk = await start(group_max_size="1")
    await talk.member()
    assert (await talk.join()).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


async def test_a_new_group_waits_for_members_as_long_as_configured(start: Start) -> None:
    talk = await start(group_initial_rebalance_delay_ms="150")
    clock = talk.broker.services.clock
    began_ms = clock.monotonic_ms()
    assert (await talk.joined()).error_code == ErrorCode.NONE
    assert 150 <= clock.monotonic_ms() - began_ms < 3000


async def test_metadata_beside_an_offset_may_be_so_long(start: Start) -> None:
    talk = await start(offset_metadata_max_bytes="3")
    assert await talk.commit(1, metadata="abc") is ErrorCode.NONE
    assert await talk.commit(2, metadata="abcd") is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert await talk.commit(2, metadata="abcd", version=0) is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert await talk.committed() == (1, ErrorCode.NONE)


async def test_offsets_are_written_and_loaded_as_configured(start: Start) -> None:
    talk = await start(
        offsets_topic_compression_codec="1", offsets_load_buffer_size="2345", offsets_commit_timeout_ms="678"
    )
    assert await talk.commit(1) is ErrorCode.NONE
    written = [each.log for each in partitions(talk, CONSUMER_OFFSETS) if each.log.log_end_offset]
    found = written[0].read(0, max_bytes=1 << 20, upper_bound_offset=1, min_one_batch=True).slice
    assert found is not None
    assert [header.codec for _, header in iterate_entries(found.read())] == [Codec.GZIP]
    found.release()
    for shard in talk.broker.services.coordination.groups.values():
        assert shard.settings.load_buffer_bytes == 2345
        assert shard.settings.commit_timeout_ms == 678


@pytest.mark.parametrize(
    ("acks", "error"), [("-1", ErrorCode.COORDINATOR_NOT_AVAILABLE), ("1", ErrorCode.NONE), ("0", ErrorCode.NONE)]
)
async def test_a_commit_waits_for_the_acknowledgements_that_are_configured(
    start: Start, acks: str, error: ErrorCode
) -> None:
    talk = await start(offsets_commit_required_acks=acks)
    for partition in partitions(talk, CONSUMER_OFFSETS):
        partition.set_min_in_sync_replicas(2)
    assert await talk.commit(1) is error


async def test_other_numbers_of_acknowledgements_are_refused(host: BrokerHost) -> None:
    with pytest.raises(ConfigError, match=r"offsets\.commit\.required\.acks"):
        config(host, offsets_commit_required_acks="2")
    with pytest.raises(ConfigError, match=r"offsets\.topic\.compression\.codec"):
        config(host, offsets_topic_compression_codec="5")


async def test_old_offsets_are_forgotten_when_they_are_looked_for(host: BrokerHost, start: Start) -> None:
    host.clock = clock = ShiftedClock()
    talk = await start(offsets_retention_minutes="1", offsets_retention_check_interval_ms="50")
    assert await talk.commit(1) is ErrorCode.NONE
    clock.shift_ms = 59_000
    await asyncio.sleep(0.2)
    assert await talk.committed() == (1, ErrorCode.NONE)
    clock.shift_ms = 61_000
    logs = [each.log for each in partitions(talk, CONSUMER_OFFSETS)]
    await until(lambda: sum(log.log_end_offset for log in logs) == 2)
    assert await talk.committed() == (-1, ErrorCode.NONE)
