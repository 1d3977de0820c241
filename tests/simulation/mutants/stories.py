"""Scripted plans for the bugs that drawn seeds meet too rarely: what has to happen, in order, on whole brokers.

Each plan holds on the shipped code and fails with its bug put back. `follower` and `leader` are of the topic's one
partition. What a plan looks at beside the invariants and the clients' history it asserts itself.
"""

import errno
from dataclasses import replace

from barnabas.protocol.messages import delete_records
from barnabas.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from barnabas.simulation.load import ClientProcess
from barnabas.simulation.plan import Scene
from barnabas.simulation.wires import WireWeather
from replication.partition import Partition


def host(number: int) -> str:
    return f"broker-{number}"


def cut(scene: Scene, one: int, other: int) -> None:
    """Nothing passes between two brokers."""
    scene.world.cut(host(one), host(other))
    scene.world.cut(host(other), host(one))


def heal(scene: Scene, one: int, other: int) -> None:
    scene.world.heal(host(one), host(other))
    scene.world.heal(host(other), host(one))


def partition_on(scene: Scene, number: int) -> Partition | None:
    """A broker's replica; None while the broker does not run or knows of none."""
    broker = scene.world.machines[number].broker
    return None if broker is None else broker.services.replicas.partition(scene.partition)


async def a_replica_joins_too_early(scene: Scene) -> None:
    """6. A leader whose high watermark is old takes in a replica that lacks what was committed before, and goes."""
    leader = await scene.await_leader()
    behind, other = scene.followers()
    assert await scene.produce()
    scene.world.kill(behind)
    await scene.until(lambda: behind not in scene.isr())
    assert await scene.produce(30)
    scene.world.kill(leader)
    scene.world.kill(other)
    await scene.sleep(15)
    survivor = scene.isr()[0]
    scene.world.start(survivor)
    await scene.until(lambda: scene.leader() == survivor)
    scene.world.wires.weather = WireWeather(latency_s=(0.03, 0.04))
    scene.world.start(behind)
    await scene.until(lambda: behind in scene.isr())
    scene.world.kill(survivor)
    await scene.await_leader(otherwise=survivor)


async def a_follower_begins_above_its_log(scene: Scene) -> None:
    """13. What a follower lacks was deleted: its high watermark comes along with the start of its log."""
    behind = scene.followers()[0]
    assert await scene.produce()
    scene.world.kill(behind)
    await scene.until(lambda: behind not in scene.isr())
    assert await scene.produce(5)
    await delete_before(scene, -1)
    restarts = 0

    def look(partition: Partition | None) -> None:
        nonlocal restarts
        if partition is not None:
            log = partition.log
            restarts += log.log_start_offset > 0
            assert log.high_watermark >= log.log_start_offset, "the high watermark is below the log"

    cut(scene, behind, await scene.await_leader())
    scene.world.start(behind)
    await scene.sleep(8)
    heal(scene, behind, await scene.await_leader())
    while behind not in scene.isr():
        look(partition_on(scene, behind))
        await scene.sleep(0.001)
    assert restarts, "it never began anew"


async def a_session_outlives_an_epoch(scene: Scene) -> None:
    """15. A follower goes on in its session with a leader that was deposed, cut and elected again meanwhile."""
    first, second, cut_off = scene.replicas()
    while scene.controller() in (None, *scene.replicas()):
        if (controller := scene.controller()) is not None:
            scene.world.expire_session(controller)
        await scene.sleep(1)
    await scene.settle()
    await scene.until(lambda: scene.leader() == first)
    controller = scene.controller()
    assert controller is not None
    # What the two leaders write begins at the same offsets, so that one fits behind the other.
    scene.world.stage.settings = replace(scene.world.stage.settings, max_records=1)
    assert await scene.produce(2)
    cut(scene, controller, cut_off)
    cut(scene, second, cut_off)
    cut(scene, first, second)
    soon = scene.produce_soon(3, acks=1)
    await scene.until(lambda: scene.end(cut_off) > scene.end(second))
    await soon
    scene.world.expire_session(first)
    await scene.until(lambda: scene.leader() == second)
    heal(scene, first, second)
    await scene.until(lambda: first in scene.isr())
    assert await scene.produce(8)
    scene.world.expire_session(second)
    await scene.until(lambda: scene.leader() == first)
    assert await scene.produce(3)
    await scene.sleep(8)
    heal(scene, controller, cut_off)
    heal(scene, second, cut_off)


async def the_last_replica_loses_power(scene: Scene) -> None:
    """18. The last one in sync loses what it had not synced; one that had left the set still has it."""
    leader = await scene.await_leader()
    others = scene.followers()
    assert await scene.produce(5)
    for other in others:
        scene.world.kill(other)
    await scene.until(lambda: scene.isr() == (leader,))
    scene.world.power_cut(leader, keep_some=False)
    await scene.sleep(10)
    scene.world.start(leader)
    await scene.sleep(10)
    for other in others:
        scene.world.start(other)
    await scene.settle()
    assert await scene.produce()


async def a_log_starts_within_a_batch(scene: Scene) -> None:
    """20. Records are deleted up to the middle of a batch; a replica that has nothing must still be able to begin."""
    behind = scene.followers()[0]
    scene.world.kill(behind)
    await scene.until(lambda: behind not in scene.isr())
    end = 0
    while end < 2:  # Batches of one record have no middle.
        before = scene.end(await scene.await_leader())
        assert await scene.produce()
        end = scene.end(await scene.await_leader()) - before
    await delete_before(scene, scene.end(await scene.await_leader()) - 1)
    scene.world.start(behind)
    await scene.until(lambda: behind in scene.isr())


async def a_dead_broker_is_proposed(scene: Scene) -> None:
    """25. A leader proposes a follower; when the controller hears of it, that broker is gone."""
    leader = await scene.await_leader()
    if leader == scene.controller():
        scene.world.expire_session(leader)
        await scene.await_leader(otherwise=leader)
        await scene.settle()
        leader = await scene.await_leader()
    controller = scene.controller()
    assert controller not in (None, leader)
    assert controller is not None
    follower = next(each for each in scene.followers() if each != controller)
    await scene.until(lambda: follower in scene.isr())
    scene.world.kill(follower)
    await scene.until(lambda: follower not in scene.isr() and not _is_proposed(scene, leader, follower))
    scene.world.start(follower)
    # Before it can be proposed, so that the controller hears of it only when all is over.
    scene.world.cut(host(leader), host(controller))
    await scene.until(lambda: _is_proposed(scene, leader, follower))
    scene.world.kill(follower)
    await scene.sleep(12)
    scene.world.heal(host(leader), host(controller))
    for _ in range(600):
        assert follower not in scene.isr(), "a dead broker is in sync"
        await scene.sleep(0.02)
    scene.world.start(follower)


def _is_proposed(scene: Scene, leader: int, follower: int) -> bool:
    partition = partition_on(scene, leader)
    if partition is None or partition.leadership is None:
        return False
    return follower in partition.leadership.isr.maximal


async def a_command_comes_to_the_next_life(scene: Scene) -> None:
    """26. A leader loses power and starts at once; a new controller takes its old registration for the present one.

    The controller is paused when the broker registers, so that nobody corrects it.
    """
    leader = await scene.await_leader()
    if leader == scene.controller():
        scene.world.expire_session(leader)
        await scene.await_leader(otherwise=leader)
        await scene.settle()
        leader = await scene.await_leader()
    assert await scene.produce(10)
    controller = scene.controller()
    assert controller not in (None, leader)
    assert controller is not None
    scene.world.power_cut(leader, keep_some=False)
    scene.world.start(leader)
    await scene.sleep(0.5)
    scene.world.expire_session(controller)
    await scene.sleep(14)
    controller = scene.controller()
    assert controller not in (None, leader)
    assert controller is not None
    scene.world.pause(controller)
    await scene.until(lambda: scene.world.machines[leader].is_serving)
    await scene.sleep(8)
    scene.world.resume(controller)
    await scene.sleep(10)
    assert await scene.produce()


async def a_sync_fails(scene: Scene) -> None:
    """38. A sync fails; nothing may be taken in that log directory any more, since the next sync would succeed."""
    leader = await scene.await_leader()
    assert await scene.produce()
    disk = scene.world.machines[leader].disk
    fault = disk.fail("fsync", f"{scene.partition}/", error=errno.EIO)
    soon = scene.produce_soon(6)
    await scene.until(lambda: fault.hits > 0)
    disk.heal()
    await scene.sleep(10)
    scene.world.power_cut(leader, keep_some=False)
    await scene.sleep(1)
    scene.world.start(leader)
    await soon


async def delete_before(scene: Scene, offset: int) -> None:
    """DeleteRecords of the topic's partition, -1 for all that is committed."""
    client = ClientProcess(scene.world.stage, scene.world.client_name())
    topic = DeleteRecordsTopic(
        name=scene.partition.topic,
        partitions=[DeleteRecordsPartition(partition_index=scene.partition.partition, offset=offset)],
    )
    request = DeleteRecordsRequest(topics=[topic], timeout_ms=3_000)
    leader = await scene.await_leader()
    scene.world.history.allow_deletion(scene.partition, scene.end(leader) if offset < 0 else offset)

    async def ask() -> None:
        answer = await client.cluster.ask(leader, delete_records.API, request)
        error = answer.topics[0].partitions[0].error_code
        assert error in (0, 7), f"DeleteRecords: {error}"  # A dead replica lets it time out.

    await client.start(ask())


async def a_request_outlives_its_broker(scene: Scene) -> None:
    """KIP-903. A follower that is not in sync asks for what comes next, loses power and with it what it has just got.

    Its request reaches the leader when it is registered again.
    """
    leader = await scene.await_leader()
    if leader == scene.controller():
        scene.world.expire_session(leader)
        await scene.await_leader(otherwise=leader)
        await scene.settle()
        leader = await scene.await_leader()
    assert scene.controller() not in (None, leader)
    other = next(each for each in scene.followers() if each == scene.controller())
    lost = next(each for each in scene.followers() if each != other)
    world = scene.world
    # The producer has its id before a broker that could be asked for one has lost ZooKeeper.
    assert await scene.produce()
    cut(scene, leader, lost)
    world.cut_zookeeper(lost)
    assert await scene.produce(4)
    await scene.until(lambda: lost not in scene.isr())
    await scene.sleep(8)
    world.wires.weather = WireWeather(latency_s=(0.05, 0.06))
    heal(scene, leader, lost)
    await scene.until(lambda: scene.end(lost) == scene.end(leader))
    world.cut(host(lost), host(leader))
    world.power_cut(lost, keep_some=False)
    world.heal_zookeeper(lost)
    world.start(lost)
    await scene.until(lambda: world.machines[lost].is_serving)
    await scene.sleep(1)
    world.cut(host(leader), host(lost))
    world.heal(host(lost), host(leader))
    await scene.sleep(2)
    world.kill(leader)
    world.kill(other)
    await scene.sleep(12)
    world.heal(host(leader), host(lost))
    world.start(leader)
    world.start(other)
