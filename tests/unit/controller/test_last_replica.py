"""The last-replica defence in a cluster of fake brokers around a real controller."""

from collections.abc import AsyncIterator

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import LeaderEpoch, TopicPartition
from controller.commands import LogEnd, ReportLogEnds
from controller.office import Settings
from controller.questions import ElectionKind, ElectLeaders
from tests.unit.controller.cluster import Cluster, FakeBroker, until
from tests.unit.controller.replication import reassign
from zk_schema import paths
from zk_schema.ops import Create, Set
from zk_schema.payloads import ConfigChange, EntityConfig, LogDirEvent

AT = TopicPartition("t", 0)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    cluster = await with_a_dead_last_replica(Settings())
    yield cluster
    await cluster.close()


async def with_a_dead_last_replica(settings: Settings, replicas: tuple[int, ...] = (2, 3, 4)) -> Cluster:
    """Partition t-0 on brokers 2, 3 and 4; 2 was the last one in sync and is gone, and so are the others."""
    cluster = Cluster(settings)
    await cluster.open()
    for number in (1, 2, 3, 4):
        await cluster.start_broker(number)
    await cluster.start_controller(1)
    await cluster.create("t", {0: [*replicas]})
    await cluster.until_led("t", by=replicas[0])
    for number in (4, 3):
        cluster.kill(number)
        await until(lambda: number not in cluster.in_sync("t"))  # noqa: B023
    cluster.kill(2)
    await cluster.until_led("t", by=-1)
    assert cluster.in_sync("t") == [2]
    return cluster


async def back(cluster: Cluster, number: int, epoch: int, end: int, *, clean_stop: bool | None = False) -> FakeBroker:
    broker = await cluster.start_broker(number, clean_stop=clean_stop)
    broker.log_ends[AT] = LogEnd(LeaderEpoch(epoch), end)
    return broker


async def rest(cluster: Cluster) -> None:
    """Until the controller has done what it could."""
    await cluster.create("rest", {0: [1]})
    await cluster.until_led("rest", by=1)
    await cluster.delete("rest")
    await until(lambda: not cluster.exists(paths.topic("rest")))


def was_asked(broker: FakeBroker) -> bool:
    return any(isinstance(command, ReportLogEnds) and AT in command.partitions for command in broker.heard)


@pytest.mark.parametrize("clean_stop", [True, None])
async def test_a_last_replica_that_lost_nothing_leads_at_once(cluster: Cluster, clean_stop: bool | None) -> None:
    await back(cluster, 2, 0, 5, clean_stop=clean_stop)
    await cluster.until_led("t", by=2)


async def test_a_last_replica_whose_machine_went_down_waits_for_the_others_and_the_best_log_leads(
    cluster: Cluster,
) -> None:
    second = await back(cluster, 2, 0, 5)
    await until(lambda: was_asked(second))
    await rest(cluster)
    assert cluster.leader("t") == -1
    await back(cluster, 3, 0, 7)
    await rest(cluster)
    assert cluster.leader("t") == -1
    await back(cluster, 4, 0, 6)
    await cluster.until_led("t", by=3)
    assert cluster.in_sync("t") == [3]
    assert [type(command) for command in second.heard].count(ReportLogEnds) == 1


async def test_of_equal_logs_the_one_that_was_in_sync_leads() -> None:
    cluster = await with_a_dead_last_replica(Settings(), (3, 4, 2))
    for number in (2, 3, 4):
        await back(cluster, number, 0, 7)
    await cluster.until_led("t", by=2)
    await cluster.close()


@pytest.mark.parametrize("target", [[4, 2, 3], [2, 1], [2]])
async def test_a_move_does_not_elect_who_may_have_lost_records(cluster: Cluster, target: list[int]) -> None:
    await back(cluster, 2, 0, 5)
    await rest(cluster)
    await reassign(cluster, "t", {0: target})
    await rest(cluster)
    assert cluster.leader("t") == -1
    await back(cluster, 3, 0, 7)
    await back(cluster, 4, 0, 6)
    await cluster.until_led("t", by=3)


async def test_the_wait_ends_where_who_is_waited_for_is_to_hold_it_no_more(cluster: Cluster) -> None:
    await back(cluster, 2, 0, 5)
    await back(cluster, 3, 0, 7)
    (await cluster.start_broker(5)).has_bad_disk = True
    await reassign(cluster, "t", {0: [2, 3, 5]})
    await back(cluster, 4, 0, 6)
    await rest(cluster)
    assert cluster.leader("t") == -1, "5 cannot tell"
    await reassign(cluster, "t", {0: None})
    await cluster.until_led("t", by=3)


async def test_a_later_epoch_beats_a_longer_log(cluster: Cluster) -> None:
    await back(cluster, 2, 1, 5)
    await back(cluster, 3, 0, 700)
    await back(cluster, 4, 0, 6)
    await cluster.until_led("t", by=2)


async def test_of_equal_logs_the_one_in_sync_leads(cluster: Cluster) -> None:
    for number in (4, 3, 2):
        await back(cluster, number, 0, 5)
    await cluster.until_led("t", by=2)


async def test_what_a_broker_told_before_it_started_anew_counts_no_more(cluster: Cluster) -> None:
    await back(cluster, 2, 0, 5)
    third = await back(cluster, 3, 0, 9)
    await until(lambda: was_asked(third))
    await rest(cluster)
    cluster.kill(3)
    await rest(cluster)
    await back(cluster, 4, 0, 6)
    await rest(cluster)
    assert cluster.leader("t") == -1
    await back(cluster, 3, 0, 0)
    await cluster.until_led("t", by=4)


async def test_a_replica_that_cannot_tell_is_waited_for(cluster: Cluster) -> None:
    await back(cluster, 2, 0, 5)
    await back(cluster, 3, 0, 6)
    fourth = await back(cluster, 4, 0, 6)
    fourth.has_bad_disk = True
    await rest(cluster)
    assert cluster.leader("t") == -1


async def test_a_replica_whose_disk_fails_after_it_has_told_is_waited_for(cluster: Cluster) -> None:
    await back(cluster, 2, 0, 5)
    third = await back(cluster, 3, 0, 9)
    await until(lambda: was_asked(third))
    await rest(cluster)
    third.has_bad_disk = True
    await third.session.write(Create(paths.LOG_DIR_EVENT_PREFIX, LogDirEvent(3).encode(), sequential=True))
    await rest(cluster)
    await back(cluster, 4, 0, 6)
    await rest(cluster)
    assert cluster.leader("t") == -1
    assert cluster.state("t", 0).isr == (2,)


async def test_an_operator_who_allows_unclean_elections_ends_the_wait(cluster: Cluster) -> None:
    await back(cluster, 2, 0, 5)
    await back(cluster, 3, 0, 6)
    await rest(cluster)
    assert cluster.leader("t") == -1
    config = EntityConfig({"unclean.leader.election.enable": "true"})
    await cluster.tool.write(Set(paths.topic_config("t"), config.encode()))
    change = Create(paths.CONFIG_CHANGE_PREFIX, ConfigChange("topics/t").encode(), sequential=True)
    await cluster.tool.write(change)
    await cluster.until_led("t", by=2)


async def test_a_preferred_election_does_not_end_the_wait_and_an_unclean_one_does(cluster: Cluster) -> None:
    await back(cluster, 2, 0, 5)
    await rest(cluster)
    controller = cluster.controllers[1]
    elected = await controller.ask(ElectLeaders(ElectionKind.PREFERRED, (AT,)))
    assert elected.refused[AT].error is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert cluster.leader("t") == -1
    elected = await controller.ask(ElectLeaders(ElectionKind.UNCLEAN, (AT,)))
    assert elected.leaders == {AT: 2}
    await cluster.until_led("t", by=2)


async def test_what_was_told_before_somebody_led_counts_no_more(cluster: Cluster) -> None:
    await back(cluster, 2, 0, 5)
    third = await back(cluster, 3, 0, 9)
    await until(lambda: was_asked(third))
    await rest(cluster)
    await cluster.controllers[1].ask(ElectLeaders(ElectionKind.UNCLEAN, (AT,)))
    await cluster.until_led("t", by=2)
    # As a follower of 2 it has lost what was not there.
    third.log_ends[AT] = LogEnd(LeaderEpoch(1), 1)
    cluster.kill(2)
    await cluster.until_led("t", by=-1)
    await back(cluster, 2, 1, 5)
    await back(cluster, 4, 0, 0)
    await cluster.until_led("t", by=2)


async def test_a_new_controller_asks_again(cluster: Cluster) -> None:
    await back(cluster, 2, 0, 5)
    await back(cluster, 3, 0, 9)
    await rest(cluster)
    await cluster.start_controller(3)
    cluster.kill(1)
    await until(lambda: cluster.controllers[3].is_active)
    await back(cluster, 4, 0, 6)
    await cluster.until_led("t", by=3)


async def test_a_partition_with_one_replica_needs_nobody_else() -> None:
    cluster = Cluster()
    await cluster.open()
    await cluster.start_broker(1)
    await cluster.start_broker(2)
    await cluster.start_controller(1)
    await cluster.create("t", {0: [2]})
    await cluster.until_led("t", by=2)
    cluster.kill(2)
    await cluster.until_led("t", by=-1)
    await back(cluster, 2, 0, 5)
    await cluster.until_led("t", by=2)
    await cluster.close()


async def test_without_the_defence_the_last_replica_leads_as_in_kafka() -> None:
    cluster = await with_a_dead_last_replica(Settings(last_replica_defence=False))
    await back(cluster, 2, 0, 5)
    await cluster.until_led("t", by=2)
    await cluster.close()
