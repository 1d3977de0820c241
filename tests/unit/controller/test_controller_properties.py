"""Brokers come, go and lose connections, topics come and go, in any order: in the end all is as it should be."""

import asyncio
from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerId, TopicPartition
from controller.commands import AlterPartition, AlterPartitionItem, ControlledShutdown
from tests.unit.controller.cluster import Cluster
from tests.unit.controller.replication import active, replicate
from zk_schema import paths
from zk_schema.ops import Create, NodeExists
from zk_schema.payloads import LogDirEvent, TopicAssignment

Step = tuple[Any, ...]
Led = dict[TopicPartition, tuple[int, int, tuple[int, ...]]]
"""Leader, leader epoch and in-sync set of each partition."""

BROKERS = st.sampled_from([1, 2, 3])
TOPICS = st.sampled_from(["a", "b"])
REPLICAS = st.permutations([1, 2, 3]).flatmap(lambda ids: st.integers(1, 3).map(lambda count: ids[:count]))
STEP = st.one_of(
    st.tuples(st.just("start"), BROKERS),
    st.tuples(st.just("kill"), BROKERS),
    st.tuples(st.just("bounce"), BROKERS),
    st.tuples(st.just("cut"), BROKERS, st.booleans()),
    st.tuples(st.just("create"), TOPICS, st.lists(REPLICAS, min_size=1, max_size=3)),
    st.tuples(st.just("grow"), TOPICS, REPLICAS),
    st.tuples(st.just("delete"), TOPICS),
    st.tuples(st.just("turn"), st.integers(1, 60)),
    st.tuples(st.just("shut"), BROKERS),
    st.tuples(st.just("machine"), BROKERS),
    st.tuples(st.just("disk"), BROKERS),
    st.just(("isr",)),
    st.tuples(st.just("lag"), BROKERS),
)


@given(script=st.lists(STEP, max_size=25), everybody_returns=st.booleans())
@settings(max_examples=150)
def test_the_cluster_converges(script: list[Step], *, everybody_returns: bool) -> None:
    asyncio.run(play(script, everybody_returns=everybody_returns))


async def play(script: list[Step], *, everybody_returns: bool) -> None:
    cluster = Cluster()
    await cluster.open()
    await start(cluster, 1)
    for step in script:
        await perform(cluster, *step)
    for number, broker in list(cluster.brokers.items()):
        # Who was shut down stops, and who lost a disk comes back with another.
        if broker.has_bad_disk or number in cluster.shut:
            cluster.kill(number)
    for number in (1, 2, 3) if everybody_returns else (1,):
        if number not in cluster.brokers:
            await start(cluster, number)
    wrong = ["not looked at"]
    for _ in range(600):
        wrong = list(differences(cluster))
        if not wrong or cluster.failures:
            break
        for _ in range(20):
            await asyncio.sleep(0)
    await cluster.close()
    assert not wrong, wrong


async def start(cluster: Cluster, number: int, *, clean_stop: bool = True) -> None:
    cluster.shut.discard(number)
    await cluster.start_broker(number, clean_stop=clean_stop)
    cluster.start_controller_later(number)


async def perform(cluster: Cluster, kind: str, *what: object) -> None:
    match kind, *what:
        case ("turn", int() as turns):
            for _ in range(turns):
                await asyncio.sleep(0)
        case ("start", int() as number) if number not in cluster.brokers:
            await start(cluster, number)
        case ("kill", int() as number) if number in cluster.brokers:
            cluster.kill(number)
        case ("bounce", int() as number) if number in cluster.brokers:
            cluster.kill(number)
            await start(cluster, number)
        case ("machine", int() as number) if number in cluster.brokers:
            cluster.kill(number)
            await start(cluster, number, clean_stop=False)
        case ("shut", int() as number) if number in cluster.brokers:
            controller, broker = active(cluster), cluster.brokers[number]
            if controller is not None:
                cluster.shut.add(number)
                request = ControlledShutdown(broker.broker_id, broker.epoch)
                cluster.supervisor.spawn(controller.controlled_shutdown(request), name="request to shut down")
        case ("disk", int() as number) if number in cluster.brokers:
            cluster.brokers[number].has_bad_disk = True
            event = LogDirEvent(BrokerId(number)).encode()
            await cluster.tool.write(Create(paths.LOG_DIR_EVENT_PREFIX, event, sequential=True))
        case ("isr",):
            cluster.supervisor.spawn(replicate(cluster), name="in-sync sets grow")
        case ("lag", int() as number):
            cluster.supervisor.spawn(shrink(cluster, number), name="in-sync sets shrink")
        case ("cut", int() as number, bool() as applied) if number in cluster.brokers:
            cluster.zk.disconnect(cluster.brokers[number].session, apply_under_way=applied)
        case ("create", str() as name, list() as replicas) if not cluster.exists(paths.topic(name)):
            await cluster.create(name, dict(enumerate(replicas)))
        case ("grow", str() as name, list() as replicas) if cluster.exists(paths.topic(name)):
            await cluster.grow(name, {len(assignment(cluster, name)): replicas})
        case ("delete", str() as name):
            try:
                await cluster.delete(name)
            except NodeExists:
                return


async def shrink(cluster: Cluster, laggard: int) -> None:
    """Each leader asks to leave a replica out of the in-sync set."""
    for broker in list(cluster.brokers.values()):
        items = [
            AlterPartitionItem(
                at.topic,
                at.partition,
                role.leader_epoch,
                tuple(each for each in role.isr if each != laggard),
                role.zk_version,
            )
            for at, role in broker.roles.items()
            if role.leader == broker.broker_id != laggard and laggard in role.isr
        ]
        controller = active(cluster)
        if controller is not None and items:
            result = await controller.alter_partition(AlterPartition(broker.broker_id, broker.epoch, items))
            for at, outcome in result.partitions.items():
                now = broker.roles.get(at)
                is_taken = outcome.error_code is ErrorCode.NONE
                if is_taken and now is not None and now.leader_epoch == outcome.leader_epoch:
                    now.isr, now.zk_version = outcome.isr, outcome.zk_version


def assignment(cluster: Cluster, name: str) -> dict[int, tuple[int, ...]]:
    znode = cluster.zk.tree.get(paths.topic(name))
    assert znode is not None
    return dict(TopicAssignment.decode(znode.data).partitions)


def differences(cluster: Cluster) -> Iterator[str]:
    """Where ZooKeeper is not as it should be, or a broker does not know what stands there."""
    active = [controller for controller in cluster.controllers.values() if controller.is_active]
    if len(active) != 1:
        yield f"{len(active)} controllers"
    led: Led = {}
    for name in cluster.zk.tree.children(paths.BROKER_TOPICS) or []:
        is_going = cluster.exists(paths.delete_topic(name))
        for number, replicas in assignment(cluster, name).items():
            at = TopicPartition(name, number)
            if is_going:
                if any(at in broker.leads for broker in cluster.brokers.values()):
                    yield f"{at} is being deleted and still led"
                continue
            yield from _check_state(cluster, at, replicas, led)
        if is_going and all(set(each) <= set(cluster.brokers) for each in assignment(cluster, name).values()):
            yield f"{name} could be deleted"
    for name in cluster.zk.tree.children(paths.DELETE_TOPICS) or []:
        if not cluster.exists(paths.topic(name)):
            yield f"{name} is asked to be deleted and is not there"
    for broker in cluster.brokers.values():
        told = {at: (each.leader, each.leader_epoch, each.isr) for at, each in broker.told.items()}
        if told != led:
            yield f"broker {broker.broker_id} was told {told}, but {led}"
        if {each.broker_id for each in broker.live} != set(cluster.brokers):
            yield f"broker {broker.broker_id} takes {broker.live} for live"


def _check_state(
    cluster: Cluster,
    at: TopicPartition,
    replicas: tuple[int, ...],
    led: dict[TopicPartition, tuple[int, int, tuple[int, ...]]],
) -> Iterator[str]:
    state, live = cluster.state(*at), [broker for broker in replicas if broker in cluster.brokers]
    if state is None:
        if live:
            yield f"{at} could be led by {live}"
        return
    led[at] = (state.leader, state.leader_epoch, state.isr)
    if not state.isr or not set(state.isr) <= set(replicas):
        yield f"{at} has in sync {state.isr} of {replicas}"
    back = [number for number in live if number in state.isr]
    waits = all(cluster.brokers[number].is_doubtful for number in back) and set(live) != set(replicas)
    if state.leader == -1 and back and not waits:
        yield f"{at} has no leader though {back} live"
    if state.leader != -1 and state.leader not in {broker for broker in live if broker in state.isr}:
        yield f"{at} is led by {state.leader}, which is not live or not in sync"
    if state.leader != -1 and not set(state.isr) <= set(live):
        yield f"{at} has the dead in sync"
    for broker in live:
        if cluster.brokers[broker].leads.get(at) != state.leader_epoch:
            yield f"broker {broker} does not know epoch {state.leader_epoch} of {at}"
