"""The loads of `bench.coordinators`, tiny, on a whole broker in this process: all is asked, and all is answered."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from barnabas.client.connection import Address
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.messages import offset_commit
from bench import group_load, transaction_load
from bench.raw_line import WrongAnswer, encoded, open_line, pace, percentile
from broker.serve import Broker
from tests.unit.broker.group_talk import SMALL
from tests.unit.broker.whole_broker import BrokerHost, make_topic


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    host = BrokerHost(tmp_path)
    settings = SMALL | {"group.initial.rebalance.delay.ms": "50"}
    started = await host.start(**{name.replace(".", "_"): text for name, text in settings.items()})
    yield started
    await started.stop()
    await host.close()


@pytest.fixture
def bootstrap(broker: Broker) -> Address:
    (endpoint,) = broker.services.metadata.brokers_on("PLAINTEXT").values()
    return Address(endpoint.host, endpoint.port)


async def test_members_of_many_groups_are_stable_and_their_heartbeats_are_paced(bootstrap: Address) -> None:
    members = await group_load.stable_groups(bootstrap, groups=3, members=3)
    assert len({member.member_id for member in members}) == 9
    assert {member.generation_id for member in members} == {1}
    paced = await pace(await group_load.heartbeats(members), rate=90, seconds=0.2)
    assert paced.requests == len(paced.latencies_ms) == 18
    assert paced.seconds >= 0.18
    for member in members:
        member.line.close()


async def test_a_rebalance_counts_from_the_joins_to_the_last_assignment(bootstrap: Address) -> None:
    members = await group_load.new_members(bootstrap, "large", 5)
    first = await group_load.rebalance(members, b"first")
    again = await group_load.rebalance(members, b"again")
    assert first.whole_s >= first.from_first_s >= 0.05
    assert first.from_first_s >= first.from_last_s >= first.joins_s > 0
    assert {member.generation_id for member in members} == {2}
    assert again.from_last_s > 0
    for member in members:
        member.line.close()


async def test_who_is_in_already_joins_again_when_others_come(
    bootstrap: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_load, "_BEAT_S", 0.01)
    early, late = await group_load.new_members(bootstrap, "late", 2)
    enter, is_in = group_load.Member.enter, asyncio.Event()

    async def enter_in_turn(member: group_load.Member, metadata: bytes = b"") -> None:
        if member is late:
            await is_in.wait()
        await enter(member, metadata)
        is_in.set()

    monkeypatch.setattr(group_load.Member, "enter", enter_in_turn)
    rebalance = await group_load.rebalance([early, late], b"first")
    assert early.generation_id == late.generation_id == 2
    assert rebalance.whole_s > rebalance.from_first_s
    for member in (early, late):
        member.line.close()


async def test_commits_are_stored_at_the_pace(broker: Broker, bootstrap: Address) -> None:
    await make_topic(broker)
    paced = await pace(await group_load.commits(bootstrap, "t", connections=2), rate=100, seconds=0.4)
    assert paced.requests == len(paced.latencies_ms) == 40
    assert percentile(paced.latencies_ms, 0.99) == max(paced.latencies_ms)
    await group_load.fill(bootstrap, "t", groups=3, partitions=1)
    await group_load.all_committed(bootstrap, "t", [f"offsets-{number}" for number in range(3)], partitions=1)
    with pytest.raises(AssertionError, match="commits-0: offsets"):
        await group_load.all_committed(bootstrap, "t", ["commits-0"], partitions=1)


async def test_an_answer_that_is_not_the_expected_one_ends_a_load(broker: Broker, bootstrap: Address) -> None:
    await make_topic(broker)
    line = await open_line(await group_load.coordinator(bootstrap, "g"))
    frame = encoded(offset_commit.API, group_load.commit("g", "t", [0], 5))
    line.expected = b"another"
    with pytest.raises(WrongAnswer, match="another"):
        await pace([(line, frame)], rate=10, seconds=0.2)
    line.close()


async def test_each_producer_commits_one_transaction_after_the_other(broker: Broker, bootstrap: Address) -> None:
    await make_topic(broker, partitions=2)
    done = await transaction_load.transactions(bootstrap, "t", producers=2, seconds=0.3, warm_s=0.1, retry_s=0.01)
    assert done.rate == len(done.latencies_ms) / 0.3 > 0
    ends = []
    for number in range(2):
        partition = broker.services.replicas.partition(TopicPartition("t", number))
        assert partition is not None
        ends.append(partition.log.log_end_offset)
    # A record and a marker for each, those before and after the time that counts too; the last marker may be to come.
    assert sum(ends) >= 2 * len(done.latencies_ms)
