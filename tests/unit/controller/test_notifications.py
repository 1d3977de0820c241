"""What brokers and tools tell by znodes: failed log directories, in-sync sets of an older Kafka's leaders."""

from collections.abc import AsyncIterator

import pytest

from barnabas.protocol.ids import BrokerId, LeaderEpoch, TopicPartition
from controller.commands import StopReplica
from tests.unit.controller.cluster import Cluster, until
from zk_schema import paths
from zk_schema.ops import Create, Set
from zk_schema.payloads import IsrChangeNotification, LogDirEvent, PartitionState

AT = TopicPartition("t", 0)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """Brokers 1 (the controller), 2 and 3; t-0 is led by 2."""
    cluster = Cluster()
    await cluster.open()
    await cluster.start_brokers(1, 2, 3)
    await cluster.create("t", {0: [2, 3], 1: [3, 2]})
    await cluster.until_led("t", by=2)
    yield cluster
    await cluster.close()


async def lost_a_directory(cluster: Cluster, number: int) -> None:
    event = LogDirEvent(BrokerId(number)).encode()
    await cluster.tool.write(Create(paths.LOG_DIR_EVENT_PREFIX, event, sequential=True))


def left(cluster: Cluster, parent: str) -> list[str]:
    return cluster.zk.tree.children(parent) or []


async def test_replicas_of_a_failed_directory_are_led_by_others_and_the_note_goes(cluster: Cluster) -> None:
    cluster.brokers[2].has_bad_disk = True
    await lost_a_directory(cluster, 2)
    await cluster.until_led("t", by=3)
    await until(lambda: cluster.in_sync("t", 0) == cluster.in_sync("t", 1) == [3])
    await until(lambda: not left(cluster, paths.LOG_DIR_EVENT_NOTIFICATION))
    assert cluster.brokers[1].told[AT].offline_replicas == (2,)
    assert any(isinstance(command, StopReplica) for command in cluster.brokers[2].heard)


async def test_replicas_elsewhere_on_that_broker_stay(cluster: Cluster) -> None:
    await lost_a_directory(cluster, 2)
    await until(lambda: not left(cluster, paths.LOG_DIR_EVENT_NOTIFICATION))
    assert (cluster.leader("t"), cluster.in_sync("t")) == (2, [2, 3])


async def test_a_note_of_a_broker_that_is_gone_goes_too(cluster: Cluster) -> None:
    await lost_a_directory(cluster, 77)
    await cluster.tool.write(Create(paths.LOG_DIR_EVENT_PREFIX, b"}{", sequential=True))
    await until(lambda: not left(cluster, paths.LOG_DIR_EVENT_NOTIFICATION))


async def test_a_broker_that_starts_anew_has_its_replicas_again(cluster: Cluster) -> None:
    cluster.brokers[2].has_bad_disk = True
    await lost_a_directory(cluster, 2)
    await cluster.until_led("t", by=3)
    cluster.kill(2)
    await until(lambda: 2 not in {each.broker_id for each in cluster.brokers[1].live})
    await cluster.start_broker(2)
    await until(lambda: cluster.brokers[1].told[AT].offline_replicas == ())
    await until(lambda: AT in cluster.brokers[2].leads)


async def test_a_new_controller_attends_to_what_the_last_one_left(cluster: Cluster) -> None:
    cluster.zk.disconnect(cluster.brokers[1].session, apply_under_way=False)
    cluster.brokers[2].has_bad_disk = True
    await lost_a_directory(cluster, 2)
    await cluster.start_controller(3)
    cluster.kill(1)
    await cluster.until_led("t", by=3)
    await until(lambda: not left(cluster, paths.LOG_DIR_EVENT_NOTIFICATION))


async def test_an_in_sync_set_that_a_leader_wrote_itself_is_told_to_all(cluster: Cluster) -> None:
    state = PartitionState(BrokerId(2), LeaderEpoch(0), (BrokerId(2),), cluster.state("t", 0).controller_epoch)  # type: ignore[union-attr]
    await cluster.tool.write(Set(paths.partition_state("t", 0), state.encode()))
    note = IsrChangeNotification((AT, TopicPartition("gone", 3))).encode()
    await cluster.tool.write(Create(paths.ISR_CHANGE_PREFIX, note, sequential=True))
    await until(lambda: all(broker.told[AT].isr == (2,) for broker in cluster.brokers.values()))
    await until(lambda: not left(cluster, paths.ISR_CHANGE_NOTIFICATION))
    assert cluster.brokers[1].told[AT].zk_version == 1
