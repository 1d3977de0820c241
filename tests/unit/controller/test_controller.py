import asyncio
from collections.abc import AsyncIterator

import pytest

from barnabas.protocol.ids import BrokerId, TopicPartition
from controller.commands import LeaderAndIsr, StopReplica, UpdateMetadata
from controller.office import Settings
from tests.unit.controller.cluster import Cluster, until
from zk_schema import paths
from zk_schema.ops import Create, Delete, Set
from zk_schema.payloads import ControllerRegistration, TopicAssignment


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    cluster = Cluster()
    await cluster.open()
    yield cluster
    await cluster.close()


def data(cluster: Cluster, path: str) -> bytes | None:
    znode = cluster.zk.tree.get(path)
    return None if znode is None else znode.data


async def test_the_first_to_stand_is_controller_of_epoch_one(cluster: Cluster) -> None:
    await cluster.start_brokers(1, 2)
    second = await cluster.start_controller(2)
    first = cluster.controllers[1]
    assert (first.is_active, first.controller_epoch, first.active_controller_id) == (True, 1, 1)
    assert (second.is_active, second.controller_epoch, second.active_controller_id) == (False, None, 1)
    znode = cluster.zk.tree.get(paths.CONTROLLER)
    assert znode is not None
    assert ControllerRegistration.decode(znode.data).broker_id == 1
    assert znode.stat.ephemeral_owner == cluster.brokers[1].session.session_id


async def test_a_new_topic_is_led_and_everybody_knows(cluster: Cluster) -> None:
    await cluster.start_brokers(1, 2, 3)
    await cluster.create("t", {0: [2], 1: [3, 1, 2]})
    await cluster.until_led("t", 0, by=2)
    await cluster.until_led("t", 1, by=3)
    state = cluster.state("t", 1)
    assert state is not None
    assert (state.leader_epoch, state.controller_epoch, state.isr) == (0, 1, (3, 1, 2))
    assert (cluster.controllers[1].tally().partitions, cluster.controllers[1].tally().offline_partitions) == (2, 0)
    assert cluster.brokers[1].logs == {TopicPartition("t", 1)}
    assert cluster.brokers[2].logs == {TopicPartition("t", 0), TopicPartition("t", 1)}
    (first,) = [command for command in cluster.brokers[3].heard if isinstance(command, LeaderAndIsr)]
    assert [entry.is_new for entry in first.partitions] == [True]
    assert [(leader.broker_id, leader.host, leader.port) for leader in first.live_leaders] == [(3, "host-3", 9092)]


async def test_a_topic_of_brokers_that_are_away_waits_for_one(cluster: Cluster) -> None:
    await cluster.start_brokers(1)
    await cluster.create("t", {0: [2, 3]})
    await cluster.create("u", {0: [1]})
    await cluster.until_led("u", by=1)
    assert cluster.state("t", 0) is None
    await cluster.start_broker(3)
    await cluster.until_led("t", by=3)


async def test_more_partitions_are_led_too(cluster: Cluster) -> None:
    await cluster.start_brokers(1, 2)
    await cluster.create("t", {0: [1]})
    await cluster.until_led("t", by=1)
    await cluster.grow("t", {1: [2]})
    await cluster.until_led("t", 1, by=2)


async def test_a_partition_whose_only_replica_goes_has_no_leader_until_it_returns(cluster: Cluster) -> None:
    await cluster.start_brokers(1, 2)
    await cluster.create("t", {0: [2]})
    await cluster.until_led("t", by=2)
    cluster.kill(2)
    await cluster.until_led("t", by=-1)
    state = cluster.state("t", 0)
    assert state is not None
    assert (state.isr, state.leader_epoch) == ((2,), 1)
    assert cluster.brokers[1].told[TopicPartition("t", 0)].offline_replicas == (2,)
    await cluster.start_broker(2)
    await cluster.until_led("t", by=2)
    assert cluster.brokers[2].leads == {TopicPartition("t", 0): 2}
    assert cluster.brokers[1].told[TopicPartition("t", 0)].offline_replicas == ()


async def test_a_replica_in_sync_takes_over(cluster: Cluster) -> None:
    await cluster.start_brokers(1, 2, 3)
    await cluster.create("t", {0: [2, 3, 1]})
    await cluster.until_led("t", by=2)
    cluster.kill(2)
    await cluster.until_led("t", by=3)
    state = cluster.state("t", 0)
    assert state is not None
    assert (state.isr, state.leader_epoch) == ((3, 1), 1)
    await until(lambda: cluster.brokers[1].leads == {TopicPartition("t", 0): 1})
    leads = [command for command in cluster.brokers[1].heard if isinstance(command, LeaderAndIsr)]
    assert [[entry.is_new for entry in command.partitions] for command in leads] == [[True], [False]]


async def test_a_broker_that_comes_back_unseen_is_treated_as_gone_and_come(cluster: Cluster) -> None:
    await cluster.start_brokers(1, 2, 3)
    await cluster.create("t", {0: [2, 3]})
    await cluster.create("u", {0: [2]})
    await cluster.until_led("t", by=2)
    await cluster.until_led("u", by=2)
    cluster.zk.disconnect(cluster.brokers[1].session, hold=True)
    old = cluster.brokers[2]
    cluster.kill(2)
    new = await cluster.start_broker(2)
    cluster.zk.release(cluster.brokers[1].session)
    await cluster.until_led("t", by=3)
    await until(lambda: new.leads == {TopicPartition("t", 0): 1, TopicPartition("u", 0): 2})
    state = cluster.state("t", 0)
    assert state is not None
    assert state.isr == (3,)
    assert old.epoch < new.epoch
    assert [channel.is_closed for channel in cluster.channels] == [False, True, False, False]
    assert {command.broker_epoch for command in new.heard} == {new.epoch}


async def test_a_starting_broker_is_told_of_all_brokers_and_partitions_before_it_leads(cluster: Cluster) -> None:
    await cluster.start_brokers(1, 2)
    await cluster.create("t", {0: [1], 1: [2], 2: [3, 1]})
    await cluster.until_led("t", 1, by=2)
    broker = await cluster.start_broker(3)
    await cluster.until_led("t", 1, by=2)
    await until(lambda: len(broker.told) == 3)
    assert isinstance(broker.heard[0], UpdateMetadata)
    assert [each.broker_id for each in broker.live] == [1, 2, 3]


async def test_several_brokers_that_go_together_are_one_pass(cluster: Cluster) -> None:
    await cluster.start_brokers(1, 2, 3)
    await cluster.create("t", {number: [2, 3, 1] for number in range(4)})
    await cluster.until_led("t", 3, by=2)
    cluster.kill(2)
    cluster.kill(3)
    await cluster.until_led("t", 3, by=1)
    state = cluster.state("t", 0)
    assert state is not None
    assert (state.leader, state.isr) == (1, (1,))


async def test_a_deleted_topic_leaves_nothing_behind(cluster: Cluster) -> None:
    await cluster.start_brokers(1, 2, 3)
    await cluster.create("t", {0: [1, 2], 1: [2]})
    await cluster.until_led("t", 1, by=2)
    await cluster.delete("t")
    await until(lambda: not cluster.exists(paths.delete_topic("t")))
    assert not cluster.exists(paths.topic("t"))
    assert not cluster.exists(paths.topic_config("t"))
    assert not any(broker.logs or broker.told for broker in cluster.brokers.values())
    stops = [
        entry
        for command in cluster.brokers[2].heard
        if isinstance(command, StopReplica)
        for entry in command.partitions
    ]
    assert {(entry.partition, entry.leader_epoch, entry.delete) for entry in stops} == {(0, -2, True), (1, -2, True)}


async def test_a_topic_of_the_same_name_begins_anew(cluster: Cluster) -> None:
    await cluster.start_brokers(1, 2)
    await cluster.create("t", {0: [1]})
    await cluster.until_led("t", by=1)
    await cluster.delete("t")
    await until(lambda: not cluster.exists(paths.topic("t")))
    await cluster.create("t", {0: [2]})
    await cluster.until_led("t", by=2)


async def test_a_deletion_waits_for_a_replica_that_is_away(cluster: Cluster) -> None:
    await cluster.start_brokers(1, 2)
    await cluster.create("t", {0: [1], 1: [2, 1]})
    await cluster.until_led("t", 1, by=2)
    cluster.kill(2)
    await cluster.until_led("t", 1, by=1)
    await cluster.delete("t")
    await until(lambda: not cluster.brokers[1].logs)
    third = await cluster.start_broker(3)
    await until(lambda: len(third.live) == 2)
    assert cluster.exists(paths.topic("t"))
    assert not third.told
    broker = await cluster.start_broker(2)
    await until(lambda: not cluster.exists(paths.topic("t")))
    assert not broker.leads


async def test_a_broker_that_goes_while_it_deletes_is_asked_again(cluster: Cluster) -> None:
    await cluster.start_brokers(1, 2)
    await cluster.create("t", {0: [2]})
    await cluster.until_led("t", by=2)
    cluster.brokers[2].is_deaf = True
    await cluster.delete("t")
    await until(lambda: not cluster.brokers[1].told)
    cluster.kill(2)
    await cluster.start_broker(2)
    await until(lambda: not cluster.exists(paths.topic("t")))


async def test_a_request_to_delete_what_is_not_there_is_dropped(cluster: Cluster) -> None:
    await cluster.start_brokers(1)
    await cluster.delete("nothing")
    await until(lambda: not cluster.exists(paths.delete_topic("nothing")))


async def test_a_topic_created_and_deleted_at_once_is_deleted(cluster: Cluster) -> None:
    await cluster.start_brokers(1)
    await cluster.create("t", {0: [1]})
    await cluster.delete("t")
    await until(lambda: not cluster.exists(paths.delete_topic("t")))
    assert not cluster.exists(paths.topic("t"))


async def test_a_topic_created_and_deleted_behind_another_request_is_deleted(cluster: Cluster) -> None:
    await cluster.start_brokers(1)
    # All three stand in ZooKeeper before the first is looked at: the controller is busy.
    await cluster.create("big", {number: [1] for number in range(200)})
    await until(lambda: cluster.exists(paths.topic_partitions("big")))
    await asyncio.gather(cluster.delete("nothing"), cluster.create("t", {0: [1]}), cluster.delete("t"))
    await until(lambda: not cluster.exists(paths.delete_topic("t")))
    assert not cluster.exists(paths.topic("t"))


async def test_a_topic_that_vanishes_during_its_deletion_is_done(cluster: Cluster) -> None:
    await cluster.start_brokers(1)
    await cluster.create("t", {0: [2]})
    await cluster.delete("t")
    driver = cluster.controllers[1]._driver
    assert driver is not None
    await until(lambda: "t" in driver._core.state.deletions)
    await cluster.tool.write(Delete(paths.topic("t")))
    await until(lambda: not cluster.exists(paths.delete_topic("t")))


async def test_without_delete_topic_enable_requests_are_dropped() -> None:
    cluster = Cluster(Settings(delete_topic_enable=False))
    await cluster.open()
    await cluster.start_brokers(1)
    await cluster.create("t", {0: [1]})
    await cluster.until_led("t", by=1)
    await cluster.delete("t")
    await until(lambda: not cluster.exists(paths.delete_topic("t")))
    assert cluster.exists(paths.topic("t"))
    await cluster.close()


async def test_a_topic_in_deletion_does_not_grow(cluster: Cluster) -> None:
    await cluster.start_brokers(1)
    await cluster.create("t", {0: [2]})
    await cluster.delete("t")
    driver = cluster.controllers[1]._driver
    assert driver is not None
    await until(lambda: "t" in driver._core.state.deletions)
    await cluster.grow("t", {1: [1]})
    before = TopicAssignment({0: (BrokerId(2),)}).encode()
    await until(lambda: data(cluster, paths.topic("t")) == before)
    assert cluster.state("t", 1) is None


async def test_a_broker_with_a_bad_disk_does_not_lead(cluster: Cluster) -> None:
    await cluster.start_brokers(1, 2)
    cluster.brokers[2].has_bad_disk = True
    await cluster.create("t", {0: [2, 1]})
    await cluster.create("u", {0: [2]})
    await cluster.until_led("t", by=1)
    await cluster.until_led("u", by=-1)
    assert cluster.brokers[1].told[TopicPartition("u", 0)].offline_replicas == (2,)
    cluster.kill(2)
    await cluster.start_broker(2)
    await cluster.until_led("u", by=2)


async def test_a_topic_that_fails_to_be_deleted_is_tried_again_when_the_broker_returns(cluster: Cluster) -> None:
    await cluster.start_brokers(1, 2)
    await cluster.create("t", {0: [2]})
    await cluster.until_led("t", by=2)
    cluster.brokers[2].has_bad_disk = True
    await cluster.delete("t")
    await until(lambda: any(isinstance(command, StopReplica) for command in cluster.brokers[2].heard))
    await cluster.create("u", {0: [1]})
    await cluster.until_led("u", by=1)
    assert cluster.exists(paths.topic("t"))
    cluster.kill(2)
    await cluster.start_broker(2)
    await until(lambda: not cluster.exists(paths.topic("t")))


async def test_a_crooked_assignment_gets_no_leader(cluster: Cluster) -> None:
    await cluster.start_brokers(1, 2)
    await cluster.create("t", {0: [1, 1], 1: [2], 2: []})
    await cluster.until_led("t", 1, by=2)
    assert cluster.state("t", 0) is cluster.state("t", 2) is None


async def test_a_changed_endpoint_is_told_to_all(cluster: Cluster) -> None:
    await cluster.start_brokers(1, 2)
    session = cluster.brokers[2].session
    znode = await session.get(paths.broker(2))
    assert znode is not None
    await session.write(Set(paths.broker(2), znode.data.replace(b"//host-2:", b"//moved-2:")))
    for broker in list(cluster.brokers.values()):
        await until(lambda: [each.endpoints[0].host for each in broker.live] == ["host-1", "moved-2"])  # noqa: B023


async def test_a_broker_whose_control_endpoint_moves_is_followed(cluster: Cluster) -> None:
    await cluster.start_brokers(1, 2)
    broker = cluster.brokers[2]
    await until(lambda: bool(broker.live))
    (before,) = [endpoint for endpoint, each in cluster.by_endpoint.items() if each is broker]
    del cluster.by_endpoint[before]
    cluster.by_endpoint["moved:1"] = broker
    znode = await broker.session.get(paths.broker(2))
    assert znode is not None
    await broker.session.write(Set(paths.broker(2), znode.data.replace(before.encode(), b"moved:1")))
    await cluster.create("t", {0: [2]})
    await cluster.until_led("t", by=2)


async def test_junk_in_zookeeper_is_passed_over(cluster: Cluster) -> None:
    await cluster.start_brokers(1)
    await cluster.tool.write(Create(paths.topic("junk"), b"}{"))
    await cluster.tool.write(Create(paths.broker(7), b""))
    await cluster.tool.write(Create(f"{paths.BROKER_IDS}/seven", b""))
    await cluster.create("t", {0: [1]})
    await cluster.until_led("t", by=1)
    await cluster.tool.write(Set(paths.topic("junk"), TopicAssignment({0: (BrokerId(1),)}).encode()))
    await cluster.create("u", {0: [1]})
    await cluster.until_led("junk", by=1)
