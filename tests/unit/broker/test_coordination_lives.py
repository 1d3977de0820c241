"""What outlives an epoch of a leadership, or an internal topic, in the coordinators of one broker: nothing."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import LeaderEpoch, TopicPartition
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from broker.coordination import Coordination
from broker.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from replication.replicas import ReplicaAssignment
from replication.settings import TopicSettings
from tests.unit.broker.group_talk import SMALL, GroupTalk
from tests.unit.broker.whole_broker import BrokerHost, make_topic, until

NONE = ErrorCode.NONE
KEYS = {name.replace(".", "_"): text for name, text in SMALL.items()}


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[GroupTalk]:
    host = BrokerHost(tmp_path)
    broker = await host.start(**KEYS)
    talk = GroupTalk(broker)
    await make_topic(broker, partitions=2)
    await talk.find("g")
    await talk.find("id", 1)
    yield talk
    await broker.stop()
    await host.close()


def coordination_of(talk: GroupTalk) -> Coordination:
    return talk.broker.services.coordination


async def test_a_transaction_coordinator_lives_for_one_epoch_and_the_next_knows_what_it_wrote(talk: GroupTalk) -> None:
    shard = await coordination_of(talk).transaction_shard("id")
    assert shard is not None
    first = await talk.ask(InitProducerIdRequest("id", 60_000))
    assert first.error_code == NONE
    (number,) = (each for each, other in coordination_of(talk).transactions.items() if other is shard)
    partition = talk.broker.services.replicas.partition(TopicPartition(TRANSACTION_STATE, number))
    assert partition is not None
    me = talk.broker.broker_id
    settings = TopicSettings(log=partition.log.config)
    assignment = ReplicaAssignment(
        partition.topic_partition,
        me,
        LeaderEpoch(5),
        isr=(me,),
        replicas=(me,),
        zk_version=5,
        is_new=False,
        settings=settings,
    )
    assert await talk.broker.services.replicas.assign(assignment) is NONE
    assert shard.error is ErrorCode.NOT_COORDINATOR
    assert shard.machine is None
    following = coordination_of(talk).transactions[number]
    assert following.coordinator_epoch == 5
    await until(lambda: following.is_loaded)
    again = await talk.ask(InitProducerIdRequest("id", 60_000))
    assert (again.producer_id, again.producer_epoch) == (first.producer_id, first.producer_epoch + 1)


async def test_how_many_partitions_a_topic_has_is_asked_again_when_it_was_made_anew(talk: GroupTalk) -> None:
    coordination = coordination_of(talk)
    assert coordination.find_group_shard("g") not in (False, None)
    assert (await talk.ask(DeleteTopicsRequest([CONSUMER_OFFSETS], 10_000))).responses[0].error_code == NONE
    await until(lambda: not talk.broker.services.metadata.has_topic(CONSUMER_OFFSETS))
    await until(lambda: not coordination.groups)
    assert coordination.find_group_shard("g") is False
    assert await talk.commit(5) is ErrorCode.NOT_COORDINATOR
    await make_topic(talk.broker, CONSUMER_OFFSETS, partitions=5)
    places = {await coordination.partition_of(CONSUMER_OFFSETS, f"group {number}") for number in range(100)}
    assert places == {0, 1, 2, 3, 4}
    await until(lambda: all(shard.is_loaded for shard in coordination.groups.values()))
    assert await talk.commit(5) is NONE
