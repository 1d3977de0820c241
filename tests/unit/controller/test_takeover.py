"""Leaving office, taking it over, and everything that can come between a decision and its confirmation."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from barnabas.protocol.ids import ControllerEpoch, LeaderEpoch, TopicPartition
from controller.commands import LeaderAndIsr
from tests.unit.controller.cluster import Cluster, until
from zk_schema import paths
from zk_schema.ops import Create, Delete, Set
from zk_schema.payloads import PartitionState


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    cluster = Cluster()
    await cluster.open()
    yield cluster
    await cluster.close()


async def started(cluster: Cluster, *numbers: int) -> None:
    """Brokers that all stand for election; the first wins."""
    for number in numbers:
        await cluster.start_broker(number)
        await cluster.start_controller(number)


def active(cluster: Cluster) -> dict[int, int | None]:
    return {
        number: controller.controller_epoch
        for number, controller in cluster.controllers.items()
        if controller.is_active
    }


async def test_when_the_controllers_session_ends_another_takes_over(cluster: Cluster) -> None:
    await started(cluster, 1, 2, 3)
    await cluster.create("t", {0: [2, 3], 1: [1, 3]})
    await cluster.until_led("t", 1, by=1)
    cluster.kill(1)
    await cluster.until_led("t", 1, by=3)
    (winner,) = active(cluster)
    assert active(cluster) == {winner: 2}
    assert {cluster.controllers[each].active_controller_id for each in (2, 3)} == {winner}
    state = cluster.state("t", 0)
    assert state is not None
    assert (state.leader_epoch, state.controller_epoch) == (0, 1), "what was right is not written again"


async def test_a_new_controller_tells_all_brokers_of_all_partitions(cluster: Cluster) -> None:
    await started(cluster, 1, 2, 3)
    await cluster.create("t", {0: [2], 1: [3, 2]})
    await cluster.until_led("t", 1, by=3)
    for broker in cluster.brokers.values():
        broker.told.clear()
        broker.leads.clear()
    await cluster.controllers[1].stop()
    await cluster.until_led("t", 0, by=2)
    await cluster.until_led("t", 1, by=3)
    await until(lambda: len(cluster.brokers[2].leads) == 2)
    assert cluster.brokers[2].controller_epoch == 2


async def test_a_controller_that_stops_gives_the_office_up_at_once(cluster: Cluster) -> None:
    await started(cluster, 1, 2)
    await cluster.controllers[1].stop()
    assert not cluster.controllers[1].is_active
    await until(lambda: active(cluster) == {2: 2})
    assert cluster.brokers[1].session.session_id, "its broker lives on"


async def test_an_expired_controller_stands_again_with_its_new_session(cluster: Cluster) -> None:
    await started(cluster, 1)
    session = cluster.brokers[1].session
    cluster.zk.expire(session)
    await until(lambda: session.session_id == 0)
    assert not cluster.controllers[1].is_active
    await until(lambda: active(cluster) == {1: 2})


async def test_the_office_is_filled_when_its_znode_is_removed_by_hand(cluster: Cluster) -> None:
    await started(cluster, 1, 2)
    await cluster.tool.write(Delete(paths.CONTROLLER))
    await until(lambda: list(active(cluster).values()) == [2])


async def test_a_controller_that_was_replaced_unseen_leaves_when_it_sees(cluster: Cluster) -> None:
    await started(cluster, 1, 2)
    cluster.zk.disconnect(cluster.brokers[1].session, hold=True)
    await cluster.tool.write(Delete(paths.CONTROLLER))
    await until(lambda: cluster.controllers[2].is_active)
    cluster.zk.release(cluster.brokers[1].session)
    await until(lambda: active(cluster) == {2: 2})
    assert cluster.controllers[1].active_controller_id == 2


async def test_a_controller_that_was_replaced_unseen_cannot_write(cluster: Cluster) -> None:
    await started(cluster, 1, 2, 3)
    await cluster.create("t", {0: [3, 2]})
    await cluster.until_led("t", by=3)
    cluster.zk.disconnect(cluster.brokers[1].session, hold=True)
    await cluster.tool.write(Delete(paths.CONTROLLER))
    await until(lambda: cluster.controllers[2].is_active or cluster.controllers[3].is_active)
    assert cluster.controllers[1].is_active, "it cannot know yet"
    driver = cluster.controllers[1]._driver
    cluster.checks_sent = False
    cluster.kill(3)
    cluster.zk.release(cluster.brokers[1].session)
    await cluster.until_led("t", by=2)
    await until(lambda: not cluster.controllers[1].is_active)
    assert driver is not None
    assert driver.is_over
    state = cluster.state("t", 0)
    assert state is not None
    assert (state.leader_epoch, state.controller_epoch) >= (1, 2)


async def test_a_moved_epoch_ends_the_term_at_the_next_write(cluster: Cluster) -> None:
    await started(cluster, 1)
    await cluster.tool.write(Set(paths.CONTROLLER_EPOCH, b"7"))
    await cluster.create("t", {0: [1]})
    await cluster.until_led("t", by=1)
    state = cluster.state("t", 0)
    assert state is not None
    assert state.controller_epoch == 8
    assert active(cluster) == {1: 8}


async def test_a_state_of_a_later_controller_ends_the_term(cluster: Cluster) -> None:
    await started(cluster, 1, 2)
    await cluster.create("t", {0: [2, 1]})
    await cluster.until_led("t", by=2)
    later = PartitionState(
        cluster.brokers[1].broker_id, LeaderEpoch(5), (cluster.brokers[1].broker_id,), ControllerEpoch(2)
    )
    await cluster.tool.write(Set(paths.partition_state("t", 0), later.encode()))
    cluster.kill(2)
    await until(lambda: active(cluster) == {1: 2})
    await cluster.until_led("t", by=1)
    assert cluster.state("t", 0) == later


async def test_a_broker_that_heard_a_later_controller_ends_the_term(cluster: Cluster) -> None:
    await started(cluster, 1)
    cluster.brokers[1].controller_epoch = ControllerEpoch(3)
    await cluster.create("t", {0: [1]})
    await cluster.until_led("t", by=1)
    assert active(cluster) == {1: 3}


async def test_a_state_that_changed_under_the_controller_is_read_and_decided_anew(cluster: Cluster) -> None:
    await started(cluster, 1, 2, 3)
    await cluster.create("t", {0: [2, 3, 1]})
    await cluster.until_led("t", by=2)
    before = cluster.state("t", 0)
    assert before is not None
    shrunk = PartitionState(
        before.leader, before.leader_epoch, (before.leader, cluster.brokers[1].broker_id), ControllerEpoch(1)
    )
    await cluster.tool.write(Set(paths.partition_state("t", 0), shrunk.encode()))
    cluster.kill(2)
    await cluster.until_led("t", by=1)
    state = cluster.state("t", 0)
    assert state is not None
    assert (state.leader_epoch, state.isr) == (1, (1,))


@pytest.mark.parametrize("applied", [True, False])
async def test_a_write_of_unknown_outcome_is_looked_up_before_anybody_hears(cluster: Cluster, *, applied: bool) -> None:
    await started(cluster, 1, 2)
    await cluster.create("t", {number: [2, 1] for number in range(30)})
    state_path = paths.partition_state("t", 0)
    await until(lambda: cluster.exists(state_path))
    cluster.zk.disconnect(cluster.brokers[1].session, apply_under_way=applied)
    for number in range(30):
        await cluster.until_led("t", number, by=2)
    states = [cluster.state("t", number) for number in range(30)]
    assert {state.leader_epoch for state in states if state is not None} == {0}
    assert active(cluster) == {1: 1}
    leads = [command for command in cluster.brokers[2].heard if isinstance(command, LeaderAndIsr)]
    assert {each.is_new for command in leads for each in command.partitions} == {True}
    await until(lambda: all(len(broker.leads) == 30 for broker in cluster.brokers.values()))


@pytest.mark.parametrize("turns", range(0, 40, 3))
@pytest.mark.parametrize("applied", [True, False])
async def test_an_election_of_unknown_outcome_ends_with_one_controller(
    cluster: Cluster, *, turns: int, applied: bool
) -> None:
    broker = await cluster.start_broker(1)
    left = [turns]

    def countdown() -> bool:
        left[0] -= 1
        return left[0] < 0

    async def cut() -> None:
        await until(countdown)
        cluster.zk.disconnect(broker.session, apply_under_way=applied)

    task = cluster.supervisor.spawn(cut(), name="cut")
    await cluster.start_controller(1)
    await task
    await cluster.create("t", {0: [1]})
    await cluster.until_led("t", by=1)
    (epoch,) = active(cluster).values()
    znode = cluster.zk.tree.get(paths.CONTROLLER_EPOCH)
    assert znode is not None
    assert znode.data == str(epoch).encode()


async def test_a_takeover_finishes_what_was_left_half_done(cluster: Cluster) -> None:
    await started(cluster, 1, 2)
    await cluster.create("whole", {0: [2], 1: [2]})
    await cluster.until_led("whole", 1, by=2)
    cluster.zk.disconnect(cluster.brokers[1].session, hold=True)
    # A topic without any znode below, one with a bare partition, one half removed.
    await cluster.create("bare", {0: [2], 1: [2]})
    await cluster.tool.write(Create(paths.topic_partitions("bare"), None))
    await cluster.tool.write(Create(paths.partition("bare", 1), None))
    await cluster.create("new", {0: [2]})
    await cluster.create("parent", {0: [2]})
    await cluster.tool.write(Create(paths.topic_partitions("parent"), None))
    await cluster.delete("whole")
    await cluster.tool.write(Delete(paths.partition_state("whole", 0)), Delete(paths.partition("whole", 0)))
    cluster.kill(1)
    for name, number in (("bare", 0), ("bare", 1), ("new", 0), ("parent", 0)):
        await cluster.until_led(name, number, by=2)
    await until(lambda: not cluster.exists(paths.topic("whole")))
    logs = {("bare", 0), ("bare", 1), ("new", 0), ("parent", 0)}
    assert cluster.brokers[2].logs == {TopicPartition(*each) for each in logs}


@pytest.mark.parametrize("turns", range(12))
async def test_a_topic_created_and_deleted_during_a_takeover_is_deleted(cluster: Cluster, *, turns: int) -> None:
    await cluster.start_broker(1)
    cluster.start_controller_later(1)
    await until(lambda: cluster.exists(paths.CONTROLLER))
    for _ in range(turns):
        await asyncio.sleep(0)
    await asyncio.gather(cluster.create("t", {0: [1]}), cluster.delete("t"))
    await until(lambda: not cluster.exists(paths.delete_topic("t")))
    assert not cluster.exists(paths.topic("t"))


async def test_a_topic_that_vanishes_is_forgotten_and_its_logs_stay(cluster: Cluster) -> None:
    await started(cluster, 1)
    await cluster.create("t", {0: [1]})
    await cluster.until_led("t", by=1)
    for path in (paths.partition_state("t", 0), paths.partition("t", 0), paths.topic_partitions("t"), paths.topic("t")):
        await cluster.tool.write(Delete(path))
    await until(lambda: not cluster.brokers[1].told)
    assert cluster.brokers[1].logs == {TopicPartition("t", 0)}


async def test_what_changed_while_the_connection_was_away_is_caught_up_with(cluster: Cluster) -> None:
    await started(cluster, 1, 2, 3)
    await cluster.create("grown", {0: [1]})
    await cluster.create("gone", {0: [3, 1]})
    await cluster.create("led", {0: [3, 2]})
    await cluster.until_led("led", by=3)
    cluster.zk.disconnect(cluster.brokers[1].session, hold=True)
    await cluster.grow("grown", {1: [2]})
    await cluster.delete("gone")
    await cluster.create("new", {0: [2]})
    cluster.kill(3)
    cluster.zk.release(cluster.brokers[1].session)
    await cluster.until_led("grown", 1, by=2)
    await cluster.until_led("new", by=2)
    await cluster.until_led("led", by=2)
    assert active(cluster) == {1: 1}
    await cluster.start_broker(3)
    await until(lambda: not cluster.exists(paths.topic("gone")))


async def test_a_takeover_of_many_partitions_lets_the_loop_turn(cluster: Cluster) -> None:
    await started(cluster, 1, 2)
    partitions = 1_500
    await cluster.create("t", {number: [1, 2] for number in range(partitions)})
    await cluster.until_led("t", partitions - 1, by=1)
    cluster.kill(1)
    await cluster.until_led("t", partitions - 1, by=2)
    assert len(cluster.brokers[2].leads) == partitions
    leads = [command for command in cluster.brokers[2].heard if isinstance(command, LeaderAndIsr)]
    assert max(len(command.partitions) for command in leads) <= 250


async def test_telling_a_new_broker_of_many_partitions_lets_the_loop_turn(cluster: Cluster) -> None:
    await started(cluster, 1)
    await cluster.create("t", {number: [1] for number in range(1_500)})
    await cluster.until_led("t", 1_499, by=1)
    broker = await cluster.start_broker(2)
    seen = set[int]()

    def is_told() -> bool:
        seen.add(len(broker.told))
        return len(broker.told) == 1_500

    await until(is_told)
    assert {250, 500, 750, 1_000, 1_250} <= seen
