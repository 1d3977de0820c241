"""Reassignments in a cluster of fake brokers around real controllers."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerId, TopicPartition
from controller.commands import LeaderAndIsr, StopReplica
from controller.events import ClusterRead
from controller.questions import ListReassignments, Outcome
from controller.state import Assignment, TopicRead
from tests.unit.controller.cluster import Cluster, FakeBroker, until
from tests.unit.controller.replication import active, assignment, reassign, reassign_by_znode, replicate
from tests.unit.controller.test_core import Office, led
from zk_schema import paths
from zk_schema.ops import Create, Delete, Set
from zk_schema.payloads import ReassignPartitions, TopicAssignment

AT = TopicPartition("t", 0)


def run(scenario: Callable[[Cluster], Awaitable[None]], *, brokers: int = 5) -> None:
    async def play() -> None:
        cluster = Cluster()
        await cluster.open()
        for number in range(1, brokers + 1):
            await cluster.start_broker(number)
        await cluster.start_controller(1)
        await scenario(cluster)
        await cluster.close()

    asyncio.run(play())


async def created(cluster: Cluster, *replicas: int) -> None:
    await cluster.create("t", {0: list(replicas)})
    await cluster.until_led("t", by=replicas[0])


async def settled(cluster: Cluster, replicas: tuple[int, ...]) -> None:
    """Until the partition has these replicas, all of them in sync, and nothing is under way."""
    for _ in range(200):
        await replicate(cluster)
        state = cluster.state("t", 0)
        if assignment(cluster, "t") == TopicAssignment({0: replicas}) and state and set(state.isr) == set(replicas):
            return
        await asyncio.sleep(0)
    raise AssertionError(f"{assignment(cluster, 't')}, {cluster.state('t', 0)}")


def heard(broker: FakeBroker, kind: type) -> list[object]:
    return [command for command in broker.heard if isinstance(command, kind)]


def test_a_partition_moves_to_other_brokers_and_its_old_logs_go() -> None:
    async def scenario(cluster: Cluster) -> None:
        await created(cluster, 1, 2)
        assert await reassign(cluster, "t", {0: [3, 4]}) == {AT: Outcome()}
        assert assignment(cluster, "t") == TopicAssignment({0: (3, 4, 1, 2)}, {0: (3, 4)}, {0: (1, 2)})
        await until(lambda: AT in cluster.brokers[3].logs)
        assert cluster.brokers[3].roles[AT].is_new
        assert not cluster.brokers[2].roles[AT].is_new
        await settled(cluster, (3, 4))
        await cluster.until_led("t", by=3)
        await until(lambda: {each for each, broker in cluster.brokers.items() if AT in broker.logs} == {3, 4})
        assert cluster.brokers[3].roles[AT].replicas == (3, 4)
        assert cluster.brokers[3].roles[AT].adding_replicas == ()

    run(scenario)


def test_the_leader_stays_where_it_is_one_of_the_target() -> None:
    async def scenario(cluster: Cluster) -> None:
        await created(cluster, 1, 2)
        await reassign(cluster, "t", {0: [3, 2, 1]})
        await settled(cluster, (3, 2, 1))
        assert cluster.leader("t") == 1

    run(scenario)


def test_fewer_replicas_and_another_order_need_no_waiting() -> None:
    async def scenario(cluster: Cluster) -> None:
        await created(cluster, 1, 2, 3)
        await reassign(cluster, "t", {0: [3, 2]})
        assert assignment(cluster, "t") == TopicAssignment({0: (3, 2)})
        assert cluster.leader("t") == 3
        await reassign(cluster, "t", {0: [2, 3]})
        assert assignment(cluster, "t") == TopicAssignment({0: (2, 3)})
        assert cluster.leader("t") == 3

    run(scenario)


def test_the_same_replicas_again_change_nothing() -> None:
    async def scenario(cluster: Cluster) -> None:
        await created(cluster, 1, 2)
        before = cluster.state("t", 0)
        assert await reassign(cluster, "t", {0: [1, 2]}) == {AT: Outcome()}
        assert cluster.state("t", 0) == before

    run(scenario)


def test_a_cancelled_move_leaves_what_was() -> None:
    async def scenario(cluster: Cluster) -> None:
        await created(cluster, 1, 2)
        cluster.brokers[4].is_deaf = True
        await reassign(cluster, "t", {0: [3, 4]})
        await until(lambda: AT in cluster.brokers[3].logs)
        await replicate(cluster)
        state = cluster.state("t", 0)
        assert state is not None
        assert set(state.isr) == {1, 2, 3}
        assert await reassign(cluster, "t", {0: None}) == {AT: Outcome()}
        assert assignment(cluster, "t") == TopicAssignment({0: (1, 2)})
        state = cluster.state("t", 0)
        assert state is not None
        assert set(state.isr) == {1, 2}
        await until(lambda: AT not in cluster.brokers[3].logs)
        assert (await reassign(cluster, "t", {0: None}))[AT].error is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS

    run(scenario)


def test_a_cancelled_move_takes_no_log_while_nobody_leads() -> None:
    async def scenario(cluster: Cluster) -> None:
        await created(cluster, 2)
        cluster.brokers[4].is_deaf = True
        await reassign(cluster, "t", {0: [3, 4]})
        await until(lambda: AT in cluster.brokers[3].logs)
        # Its log has what was acknowledged until it left the in-sync set.
        await replicate(cluster)
        assert set(cluster.in_sync("t")) == {2, 3}
        cluster.kill(3)
        await until(lambda: cluster.in_sync("t") == [2])
        await cluster.start_broker(3)
        await until(lambda: AT in cluster.brokers[3].logs)
        cluster.kill(2)
        await until(lambda: cluster.leader("t") == -1)
        assert await reassign(cluster, "t", {0: None}) == {AT: Outcome()}
        left = cluster.brokers[3]
        await until(lambda: AT not in left.roles)
        assert AT in left.logs
        assert (left.told[AT].leader, left.told[AT].replicas) == (-1, (2,))
        await cluster.start_broker(2)
        # By this a broker removes the log that it kept.
        await until(lambda: left.told[AT].leader == 2)
        assert left.told[AT].replicas == (2,)

    run(scenario)


def test_another_target_replaces_the_first() -> None:
    async def scenario(cluster: Cluster) -> None:
        await created(cluster, 1, 2)
        cluster.brokers[4].is_deaf = True
        await reassign(cluster, "t", {0: [3, 4]})
        await until(lambda: AT in cluster.brokers[3].logs)
        await replicate(cluster)
        await reassign(cluster, "t", {0: [5, 2]})
        assert assignment(cluster, "t") == TopicAssignment({0: (5, 2, 1)}, {0: (5,)}, {0: (1,)})
        await settled(cluster, (5, 2))
        await until(lambda: {each for each, broker in cluster.brokers.items() if AT in broker.logs} == {2, 5})

    run(scenario)


def test_a_target_that_dies_is_waited_for() -> None:
    async def scenario(cluster: Cluster) -> None:
        await created(cluster, 1, 2)
        cluster.brokers[4].is_deaf = True
        await reassign(cluster, "t", {0: [3, 4]})
        cluster.kill(4)
        await replicate(cluster)
        await until(lambda: 4 not in {each.broker_id for each in cluster.brokers[1].live})
        await replicate(cluster)
        assert assignment(cluster, "t").adding_replicas == {0: (3, 4)}
        await cluster.start_broker(4)
        await until(lambda: AT in cluster.brokers[4].logs)
        await settled(cluster, (3, 4))

    run(scenario)


def test_a_replica_whose_broker_is_away_leaves_all_the_same() -> None:
    async def scenario(cluster: Cluster) -> None:
        await created(cluster, 1, 2)
        cluster.kill(2)
        await until(lambda: (state := cluster.state("t", 0)) is not None and state.isr == (1,))
        await reassign(cluster, "t", {0: [1, 3]})
        await settled(cluster, (1, 3))

    run(scenario)


def test_a_dead_partition_that_never_had_a_leader_gets_one_by_moving() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create("t", {0: [8, 9]})
        await asyncio.sleep(0)
        controller = active(cluster)
        assert controller is not None
        await until(lambda: "t" in (controller._driver._core.state.topics if controller._driver else {}))
        await reassign(cluster, "t", {0: [2, 3]})
        await settled(cluster, (2, 3))

    run(scenario)


def test_whoever_takes_over_goes_on() -> None:
    async def scenario(cluster: Cluster) -> None:
        await created(cluster, 2, 3)
        cluster.brokers[5].is_deaf = True
        await reassign(cluster, "t", {0: [4, 5]})
        cluster.start_controller_later(2)
        cluster.kill(1)
        await until(lambda: cluster.controllers[2].is_active)
        cluster.brokers[5].is_deaf = False
        for channel in cluster.channels:
            channel.deliver()
        await settled(cluster, (4, 5))
        await until(lambda: {each for each, broker in cluster.brokers.items() if AT in broker.logs} == {4, 5})

    run(scenario)


@pytest.mark.parametrize("turns", range(0, 60, 3))
def test_a_controller_may_die_at_any_moment_of_a_move(turns: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        await created(cluster, 2, 3)
        cluster.start_controller_later(5)
        asked = asyncio.ensure_future(reassign(cluster, "t", {0: [4, 3]}))
        for _ in range(turns):
            await asyncio.sleep(0)
        cluster.kill(1)
        await until(lambda: active(cluster) is not None)
        await asyncio.gather(asked, return_exceptions=True)
        await until(lambda: set(cluster.known_leader("t")) <= {2, 3, 4})
        if assignment(cluster, "t") != TopicAssignment({0: (2, 3)}):
            await settled(cluster, (4, 3))
        else:
            await settled(cluster, (2, 3))

    run(scenario)


def test_what_is_under_way_is_listed() -> None:
    async def scenario(cluster: Cluster) -> None:
        await created(cluster, 1, 2)
        await cluster.create("other", {0: [1]})
        await cluster.until_led("other", by=1)
        cluster.brokers[3].is_deaf = True
        await reassign(cluster, "t", {0: [3]})
        controller = active(cluster)
        assert controller is not None
        moving = {AT: Assignment((3, 1, 2), (3,), (1, 2))}  # type: ignore[arg-type]
        assert await controller.ask(ListReassignments()) == moving
        asked = (AT, TopicPartition("other", 0), TopicPartition("none", 5))
        assert await controller.ask(ListReassignments(asked)) == moving
        cluster.brokers[3].is_deaf = False

    run(scenario)


def test_each_partition_of_a_request_stands_for_itself() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create("t", {0: [1, 2], 1: [2, 3]})
        await cluster.until_led("t", by=1)
        await cluster.until_led("t", 1, by=2)
        outcomes = await reassign(cluster, "t", {0: [1, 2, 3], 1: [9], 2: [1], 3: None})
        assert {at.partition: each.error for at, each in outcomes.items()} == {
            0: ErrorCode.NONE,
            1: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            2: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            3: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        }

    run(scenario)


def test_a_topic_that_is_asked_to_be_deleted_while_it_moves_goes_when_it_has_moved() -> None:
    async def scenario(cluster: Cluster) -> None:
        await created(cluster, 1, 2)
        cluster.brokers[4].is_deaf = True
        await reassign(cluster, "t", {0: [3, 4]})
        await cluster.delete("t")
        controller = active(cluster)
        assert controller is not None
        await until(lambda: "t" in controller._driver._core.state.postponed_deletions)  # type: ignore[union-attr]
        assert (await reassign(cluster, "t", {0: [5]}))[AT].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        cluster.brokers[4].is_deaf = False
        for channel in cluster.channels:
            channel.deliver()
        for _ in range(50):
            await replicate(cluster)
        await until(lambda: not cluster.exists(paths.topic("t")))
        await until(lambda: not any(AT in broker.logs for broker in cluster.brokers.values()))

    run(scenario)


def test_whoever_takes_over_remembers_the_deletion_that_waits() -> None:
    async def scenario(cluster: Cluster) -> None:
        await created(cluster, 2, 3)
        cluster.brokers[5].is_deaf = True
        await reassign(cluster, "t", {0: [4, 5]})
        await cluster.delete("t")
        cluster.start_controller_later(2)
        cluster.kill(1)
        await until(lambda: cluster.controllers[2].is_active)
        for _ in range(300):
            await asyncio.sleep(0)
        assert cluster.exists(paths.topic("t"))
        cluster.brokers[5].is_deaf = False
        for channel in cluster.channels:
            channel.deliver()
        for _ in range(50):
            await replicate(cluster)
        await until(lambda: not cluster.exists(paths.topic("t")))

    run(scenario)


def test_a_request_to_delete_that_is_taken_back_while_it_waits_deletes_nothing() -> None:
    async def scenario(cluster: Cluster) -> None:
        await created(cluster, 1, 2)
        cluster.brokers[4].is_deaf = True
        await reassign(cluster, "t", {0: [3, 4]})
        await cluster.delete("t")
        controller = active(cluster)
        assert controller is not None
        postponed = controller._driver._core.state.postponed_deletions  # type: ignore[union-attr]
        await until(lambda: "t" in postponed)
        await cluster.tool.write(Delete(paths.delete_topic("t")))
        await until(lambda: "t" not in postponed)
        cluster.brokers[4].is_deaf = False
        for channel in cluster.channels:
            channel.deliver()
        await settled(cluster, (3, 4))
        assert cluster.exists(paths.topic("t"))

    run(scenario)


@pytest.mark.parametrize(("stopping", "leader"), [((), 3), ((3,), 4), ((3, 4), 3)])
def test_a_broker_that_is_about_to_stop_leads_only_where_nobody_else_can(
    stopping: tuple[int, ...], leader: int
) -> None:
    moving = TopicRead({0: Assignment((3, 4, 1, 2), (3, 4), (1, 2))}, 0)  # type: ignore[arg-type]
    office = Office()
    office.take_over(1, 2, 3, 4, topics={"t": moving}, states={AT: led(1, 4, [1, 2, 3])})
    office.core.state.shutting_down.update((BrokerId(each), None) for each in stopping)
    office.core.state.apply_state(AT, led(1, 5, [1, 2, 3, 4]))
    office.handle(ClusterRead(office.core.state.brokers, {"t": moving}, {AT: led(1, 5, [1, 2, 3, 4])}, ()))
    assert office.core.state.partition(AT).leadership.leader == leader  # type: ignore[union-attr]


def test_a_cancellation_lets_a_deletion_go_on() -> None:
    async def scenario(cluster: Cluster) -> None:
        await created(cluster, 1, 2)
        cluster.brokers[4].is_deaf = True
        await reassign(cluster, "t", {0: [3, 4]})
        cluster.kill(4)
        await cluster.delete("t")
        controller = active(cluster)
        assert controller is not None
        await until(lambda: "t" in controller._driver._core.state.postponed_deletions)  # type: ignore[union-attr]
        assert await reassign(cluster, "t", {0: None}) == {AT: Outcome()}
        await until(lambda: not cluster.exists(paths.topic("t")))

    run(scenario)


def test_a_tool_moves_partitions_by_the_old_znode_which_goes_when_all_have_moved() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create("t", {0: [1, 2], 1: [1, 2]})
        await cluster.until_led("t", by=1)
        await cluster.until_led("t", 1, by=1)
        cluster.brokers[4].is_deaf = True
        await reassign_by_znode(cluster, "t", {0: [2, 3], 1: [4], 7: [1]})
        await until(lambda: assignment(cluster, "t").adding_replicas == {0: (3,), 1: (4,)})
        await until(lambda: AT in cluster.brokers[3].logs)
        await replicate(cluster)
        remaining = ReassignPartitions({TopicPartition("t", 1): (4,)})  # type: ignore[dict-item]
        await until(
            lambda: (z := cluster.zk.tree.get(paths.REASSIGN_PARTITIONS)) is not None and z.data == remaining.encode()
        )
        cluster.brokers[4].is_deaf = False
        for channel in cluster.channels:
            channel.deliver()
        for _ in range(20):
            await replicate(cluster)
        await until(lambda: not cluster.exists(paths.REASSIGN_PARTITIONS))
        assert assignment(cluster, "t") == TopicAssignment({0: (2, 3), 1: (4,)})

    run(scenario)


def test_what_a_tool_asks_in_vain_leaves_the_znode() -> None:
    async def scenario(cluster: Cluster) -> None:
        await created(cluster, 1, 2)
        await reassign_by_znode(cluster, "t", {0: [2, 2], 5: [1]})
        await until(lambda: not cluster.exists(paths.REASSIGN_PARTITIONS))
        assert assignment(cluster, "t") == TopicAssignment({0: (1, 2)})
        await reassign_by_znode(cluster, "t", {0: [1, 2]})
        await until(lambda: not cluster.exists(paths.REASSIGN_PARTITIONS))

    run(scenario)


@pytest.mark.parametrize("data", [b"not JSON", b"[]", b'{"version":1}'])
def test_an_old_znode_that_cannot_be_read_is_removed_and_the_next_one_acts(data: bytes) -> None:
    async def scenario(cluster: Cluster) -> None:
        await created(cluster, 1, 2)
        await cluster.tool.write(Create(paths.REASSIGN_PARTITIONS, data))
        await until(lambda: not cluster.exists(paths.REASSIGN_PARTITIONS))
        await cluster.tool.write(Create(paths.PREFERRED_REPLICA_ELECTION, data))
        await until(lambda: not cluster.exists(paths.PREFERRED_REPLICA_ELECTION))
        await reassign_by_znode(cluster, "t", {0: [2, 3]})
        await settled(cluster, (2, 3))

    run(scenario)


def test_the_old_znode_is_read_by_whoever_takes_over_and_the_api_counts_more() -> None:
    async def scenario(cluster: Cluster) -> None:
        await created(cluster, 2, 3)
        cluster.brokers[4].is_deaf = True
        await reassign_by_znode(cluster, "t", {0: [4]})
        await until(lambda: assignment(cluster, "t").adding_replicas == {0: (4,)})
        cluster.start_controller_later(2)
        cluster.kill(1)
        await until(lambda: cluster.controllers[2].is_active)
        await reassign(cluster, "t", {0: [5]})
        await until(lambda: not cluster.exists(paths.REASSIGN_PARTITIONS))
        await settled(cluster, (5,))
        cluster.brokers[4].is_deaf = False

    run(scenario)


def test_partitions_that_somebody_adds_meanwhile_are_kept() -> None:
    async def scenario(cluster: Cluster) -> None:
        await created(cluster, 1, 2)
        asked = asyncio.ensure_future(reassign(cluster, "t", {0: [3, 2]}))
        await cluster.tool.write(Set(paths.topic("t"), TopicAssignment({0: (1, 2), 1: (4, 5)}).encode()))  # type: ignore[dict-item]
        await asked
        for _ in range(20):
            await replicate(cluster)
        await until(lambda: assignment(cluster, "t") == TopicAssignment({0: (3, 2), 1: (4, 5)}))  # type: ignore[dict-item]
        await cluster.until_led("t", 1, by=4)

    run(scenario)


def test_a_log_is_removed_under_a_leader_epoch_that_its_broker_does_not_know_yet() -> None:
    async def scenario(cluster: Cluster) -> None:
        await created(cluster, 1, 2)
        await reassign(cluster, "t", {0: [3]})
        await until(lambda: AT in cluster.brokers[3].logs)
        await settled(cluster, (3,))
        await until(lambda: AT not in cluster.brokers[1].logs)
        (stop,) = heard(cluster.brokers[1], StopReplica)
        assert isinstance(stop, StopReplica)
        told = [entry.leader_epoch for each in heard(cluster.brokers[1], LeaderAndIsr) for entry in each.partitions]  # type: ignore[attr-defined]
        assert stop.partitions[0].delete
        assert stop.partitions[0].leader_epoch > max(told)

    run(scenario)
