"""Leaders that are asked for, in a cluster of fake brokers and in values."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition
from controller.actions import SetTimer, Timer
from controller.events import ClusterRead, TimerFired
from controller.leader_requests import Balance
from controller.office import Settings
from controller.questions import Elected, ElectionKind, ElectLeaders
from controller.state import Assignment, ClusterState, Leadership, StateRead, Term, TopicRead
from tests.unit.controller.cluster import Cluster, until
from tests.unit.controller.replication import active, replicate
from tests.unit.controller.test_core import Office, brokers, led, topic, writes
from zk_schema import paths
from zk_schema.ops import Create
from zk_schema.payloads import PreferredReplicaElection

AT = TopicPartition("t", 0)


def run(scenario: Callable[[Cluster], Awaitable[None]]) -> None:
    async def play() -> None:
        cluster = Cluster()
        await cluster.open()
        for number in (1, 2, 3):
            await cluster.start_broker(number)
        await cluster.start_controller(1)
        await scenario(cluster)
        await cluster.close()

    asyncio.run(play())


async def elect(cluster: Cluster, kind: ElectionKind, *partitions: TopicPartition) -> Elected:
    controller = active(cluster)
    assert controller is not None
    return await controller.ask(ElectLeaders(kind, partitions))


async def displaced(cluster: Cluster) -> None:
    """The partition's preferred leader 2 is back and in sync, and 3 leads."""
    await cluster.create("t", {0: [2, 3]})
    await cluster.until_led("t", by=2)
    cluster.kill(2)
    await cluster.until_led("t", by=3)
    await cluster.start_broker(2)
    await until(lambda: AT in cluster.brokers[2].leads)


def test_a_preferred_leader_that_is_in_sync_leads_again() -> None:
    async def scenario(cluster: Cluster) -> None:
        await displaced(cluster)
        await replicate(cluster)
        assert await elect(cluster, ElectionKind.PREFERRED, AT) == Elected({AT: BrokerId(2)})
        await cluster.until_led("t", by=2)
        state = cluster.state("t", 0)
        assert state is not None
        assert set(state.isr) == {2, 3}
        refused = (await elect(cluster, ElectionKind.PREFERRED, AT)).refused
        assert refused[AT].error is ErrorCode.ELECTION_NOT_NEEDED

    run(scenario)


def test_a_preferred_leader_that_is_not_in_sync_does_not_lead() -> None:
    async def scenario(cluster: Cluster) -> None:
        await displaced(cluster)
        refused = (await elect(cluster, ElectionKind.PREFERRED, AT)).refused
        assert refused[AT].error is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        assert cluster.leader("t") == 3

    run(scenario)


def test_an_unclean_election_gives_a_partition_without_a_leader_to_who_lives() -> None:
    async def scenario(cluster: Cluster) -> None:
        await displaced(cluster)
        assert (await elect(cluster, ElectionKind.UNCLEAN, AT)).refused[AT].error is ErrorCode.ELECTION_NOT_NEEDED
        cluster.kill(3)
        await cluster.until_led("t", by=-1)
        assert await elect(cluster, ElectionKind.UNCLEAN, AT) == Elected({AT: BrokerId(2)})
        await cluster.until_led("t", by=2)
        cluster.kill(2)
        await cluster.until_led("t", by=-1)
        refused = (await elect(cluster, ElectionKind.UNCLEAN, AT)).refused
        assert refused[AT].error is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE

    run(scenario)


def test_what_does_not_exist_or_is_going_is_told_so() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create("t", {0: [2, 3]})
        await cluster.until_led("t", by=2)
        cluster.brokers[3].is_deaf = True
        await cluster.delete("t")
        await until(lambda: AT not in cluster.brokers[1].told)
        none = TopicPartition("none", 0)
        refused = (await elect(cluster, ElectionKind.PREFERRED, AT, none)).refused
        assert refused[AT].error is ErrorCode.INVALID_TOPIC_EXCEPTION
        assert refused[none].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(scenario)


def test_a_tool_asks_for_preferred_leaders_by_the_old_znode() -> None:
    async def scenario(cluster: Cluster) -> None:
        await displaced(cluster)
        await replicate(cluster)
        data = PreferredReplicaElection((AT, TopicPartition("none", 3))).encode()
        await cluster.tool.write(Create(paths.PREFERRED_REPLICA_ELECTION, data))
        await cluster.until_led("t", by=2)
        await until(lambda: not cluster.exists(paths.PREFERRED_REPLICA_ELECTION))

    run(scenario)


def balanced(*leaders: int, isr: tuple[int, ...] = (1, 2), alive: tuple[int, ...] = (1, 2)) -> ClusterState:
    """Partitions preferred by broker 1 and led by these."""
    state = ClusterState(Term(BrokerId(1), ControllerEpoch(1), 1))
    state.brokers.update(brokers(*alive))
    replicas = Assignment((BrokerId(1), BrokerId(2)))
    state.apply_topic("t", TopicRead(dict.fromkeys(range(len(leaders)), replicas), 0))
    for number, leader in enumerate(leaders):
        leadership = Leadership(BrokerId(leader), LeaderEpoch(0), tuple(map(BrokerId, isr)), ControllerEpoch(1))
        state.apply_state(TopicPartition("t", number), StateRead(leadership, 0))
    return state


def decide_balance(state: ClusterState, *, percentage: int) -> list[TopicPartition]:
    balance = Balance(state)
    balance.look_at(state.all_partitions())
    return balance.decide(percentage=percentage)


def test_the_balance_leaves_a_tenth_where_it_is() -> None:
    assert decide_balance(balanced(2, *[1] * 9), percentage=10) == []
    assert decide_balance(balanced(2, 2, *[1] * 8), percentage=10) == [AT, TopicPartition("t", 1)]
    assert decide_balance(balanced(2, 2, *[1] * 8), percentage=20) == []


@pytest.mark.parametrize("state", [balanced(2, isr=(2,)), balanced(2, alive=(2,))], ids=["not in sync", "not alive"])
def test_the_balance_gives_nothing_to_who_cannot_lead(state: ClusterState) -> None:
    assert decide_balance(state, percentage=10) == []


def test_the_balance_leaves_topics_alone_that_are_going() -> None:
    state = balanced(2)
    state.deletions["t"] = None
    assert decide_balance(state, percentage=10) == []


def test_a_controller_balances_when_its_timer_fires_and_sets_it_again() -> None:
    office = Office(Settings(leader_imbalance_check_interval_ms=7_000))
    actions = office.take_over(1, 2, topics={"t": topic([1, 2])}, states={AT: led(2, 4, [2, 1])})
    assert [each for each in actions if isinstance(each, SetTimer)] == [SetTimer(Timer.LEADER_BALANCE, 5_000)]
    actions = office.handle(TimerFired(Timer.LEADER_BALANCE))
    assert len(writes(actions)) == 1
    assert office.core.state.partition(AT).leadership.leader == 1  # type: ignore[union-attr]
    assert [each for each in actions if isinstance(each, SetTimer)] == [SetTimer(Timer.LEADER_BALANCE, 7_000)]


def test_nothing_is_balanced_while_a_reassignment_runs_and_nothing_at_all_where_it_is_off() -> None:
    office = Office()
    moving = TopicRead({0: Assignment((BrokerId(3), BrokerId(1)), (BrokerId(3),), (BrokerId(1),))}, 0)
    read = ClusterRead(brokers(1, 2), {"m": moving, "t": topic([1, 2])}, {AT: led(2, 4, [2, 1])}, ())
    office.handle(read)
    actions = office.handle(TimerFired(Timer.LEADER_BALANCE))
    assert writes(actions) == []
    assert [each for each in actions if isinstance(each, SetTimer)] != []
    off = Office(Settings(auto_leader_rebalance_enable=False))
    assert [each for each in off.take_over(1, 2) if isinstance(each, SetTimer)] == []
