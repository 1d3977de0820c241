"""What leaders do on their own in a cluster of fake brokers: they ask to let live followers into the in-sync set."""

from collections.abc import Callable

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerId, TopicPartition
from controller.commands import AlterPartition, AlterPartitionItem, LeaderAndIsrPartition
from controller.driver import Controller
from controller.questions import AlterReassignments, Outcomes
from tests.unit.controller.cluster import Cluster, FakeBroker
from zk_schema import paths
from zk_schema.ops import Create
from zk_schema.payloads import ReassignPartitions, TopicAssignment


def active(cluster: Cluster) -> Controller | None:
    return next((each for each in cluster.controllers.values() if each.is_active), None)


CaughtUp = Callable[[FakeBroker, FakeBroker, TopicPartition], bool]
"""Whether the second broker has all that the first, its leader, has."""


async def replicate(cluster: Cluster, caught_up: CaughtUp = lambda *_: True) -> None:
    """Every leader asks for the followers that know its leader epoch and are caught up."""
    for broker in list(cluster.brokers.values()):
        wishes = (_wish(cluster, broker, at, role, caught_up) for at, role in broker.roles.items())
        items = [item for item in wishes if item is not None]
        controller = active(cluster)
        if not items or controller is None or broker.is_deaf:
            continue
        result = await controller.alter_partition(AlterPartition(broker.broker_id, broker.epoch, items))
        for at, outcome in result.partitions.items():
            role = broker.roles.get(at)
            if outcome.error_code is ErrorCode.NONE and role is not None and role.leader_epoch == outcome.leader_epoch:
                role.isr, role.zk_version = outcome.isr, outcome.zk_version


def _wish(
    cluster: Cluster, broker: FakeBroker, at: TopicPartition, role: LeaderAndIsrPartition, caught_up: CaughtUp
) -> AlterPartitionItem | None:
    if role.leader != broker.broker_id:
        return None
    followers = [
        each
        for each in role.replicas
        if each in cluster.brokers
        and not cluster.brokers[each].is_deaf
        and cluster.brokers[each].leads.get(at) == role.leader_epoch
        and caught_up(broker, cluster.brokers[each], at)
    ]
    joined = tuple(dict.fromkeys((*role.isr, *followers)))
    if joined == role.isr:
        return None
    return AlterPartitionItem(at.topic, at.partition, role.leader_epoch, joined, role.zk_version)


async def reassign(cluster: Cluster, name: str, targets: dict[int, list[int] | None]) -> Outcomes:
    """Ask the controller to move partitions of a topic."""
    controller = active(cluster)
    assert controller is not None
    wanted = {
        TopicPartition(name, number): None if ids is None else tuple(map(BrokerId, ids))
        for number, ids in targets.items()
    }
    return await controller.ask(AlterReassignments(wanted))


async def reassign_by_znode(cluster: Cluster, name: str, targets: dict[int, list[int]]) -> None:
    """What an old tool does."""
    wanted = {TopicPartition(name, number): tuple(map(BrokerId, ids)) for number, ids in targets.items()}
    await cluster.tool.write(Create(paths.REASSIGN_PARTITIONS, ReassignPartitions(wanted).encode()))


def assignment(cluster: Cluster, name: str) -> TopicAssignment:
    znode = cluster.zk.tree.get(paths.topic(name))
    assert znode is not None
    return TopicAssignment.decode(znode.data)
