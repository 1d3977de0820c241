"""The view of the cluster: what UpdateMetadata changes, and who waits for a change."""

import asyncio

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition
from broker.metadata_view import MetadataView
from controller.commands import Endpoint, LiveBroker, UpdateMetadata, UpdateMetadataPartition


def live(broker_id: int, *listeners: str) -> LiveBroker:
    endpoints = tuple(Endpoint(name, f"host{broker_id}", 9000 + broker_id) for name in listeners)
    return LiveBroker(BrokerId(broker_id), endpoints)


def partition(topic: str, number: int, leader: int = 1) -> UpdateMetadataPartition:
    return UpdateMetadataPartition(
        topic, number, ControllerEpoch(1), BrokerId(leader), LeaderEpoch(0), (BrokerId(1),), 0, (BrokerId(1),)
    )


def update(
    *partitions: UpdateMetadataPartition,
    epoch: int = 1,
    brokers: tuple[LiveBroker, ...] = (),
    broker_epoch: int = 1,
    ends: bool = False,
) -> UpdateMetadata:
    epochs = (ControllerEpoch(epoch), BrokerEpoch(broker_epoch))
    return UpdateMetadata(BrokerId(1), *epochs, list(partitions), brokers, ends)


def test_an_empty_view_knows_nobody() -> None:
    view = MetadataView()
    assert view.controller_id == -1
    assert view.topics() == []
    assert dict(view.brokers_on("PLAINTEXT")) == {}
    assert view.partition(TopicPartition("a", 0)) is None
    assert dict(view.partitions("a")) == {}


def test_brokers_are_replaced_whole_and_told_in_order_by_listener() -> None:
    view = MetadataView()
    view.apply(update(brokers=(live(2, "A", "B"), live(1, "A"))))
    assert list(view.brokers) == [1, 2]
    assert [node.host for node in view.brokers_on("A").values()] == ["host1", "host2"]
    assert list(view.brokers_on("B")) == [2]
    reached = view.endpoint(BrokerId(2), "B")
    assert reached is not None
    assert reached.host == "host2"
    assert view.endpoint(BrokerId(1), "B") is view.endpoint(BrokerId(1), "C") is None
    view.apply(update(brokers=(live(2, "A"),)))
    assert list(view.brokers) == [2]
    assert dict(view.brokers_on("B")) == {}
    assert view.endpoint(BrokerId(2), "B") is None


def test_partitions_that_a_command_does_not_name_stay() -> None:
    view = MetadataView()
    view.apply(update(partition("a", 0), partition("b", 0)))
    view.apply(update(partition("a", 0, leader=-1), partition("a", 1)))
    assert view.topics() == ["a", "b"]
    assert [(each.partition, each.leader) for each in view.partitions("a").values()] == [(0, -1), (1, 1)]
    assert not view.has_leader(TopicPartition("a", 0))
    assert view.has_leader(TopicPartition("a", 1))
    assert len(list(view)) == 3


def test_a_leader_of_minus_two_forgets_the_partition_and_at_last_the_topic() -> None:
    view = MetadataView()
    view.apply(update(partition("a", 0), partition("a", 1)))
    view.apply(update(partition("a", 0, leader=-2)))
    assert view.has_topic("a")
    assert view.partition(TopicPartition("a", 0)) is None
    view.apply(update(partition("a", 1, leader=-2), partition("never", 0, leader=-2)))
    assert view.topics() == []


@pytest.mark.parametrize("later", [{"epoch": 2}, {"broker_epoch": 2}])
def test_what_a_welcome_does_not_name_is_forgotten_at_its_end(later: dict[str, int]) -> None:
    view = MetadataView()
    view.apply(update(partition("a", 0), partition("a", 1), partition("b", 0)))
    view.apply(update(partition("c", 0), ends=True))
    assert view.topics() == ["a", "b", "c"]
    view.apply(update(partition("a", 0, leader=2), **later))
    assert view.topics() == ["a", "b", "c"], "while it lasts all is there"
    view.apply(update(partition("d", 0), **later, ends=True))
    assert sorted(each.topic_partition for each in view) == [("a", 0), ("d", 0)]


def test_after_a_welcome_nothing_is_forgotten_for_not_being_named() -> None:
    view = MetadataView()
    view.apply(update(partition("a", 0), ends=True))
    view.apply(update(partition("b", 0)))
    view.apply(update(ends=True))
    assert view.topics() == ["a", "b"]


async def test_who_waits_for_a_topic_to_go_is_woken_when_a_welcome_does_not_name_it() -> None:
    view = MetadataView()
    view.apply(update(partition("a", 0)))
    waiting = asyncio.create_task(view.wait_until(["a"], lambda: not view.has_topic("a"), timeout_ms=60_000))
    await asyncio.sleep(0)
    view.apply(update(epoch=2, ends=True))
    assert await waiting


def test_an_older_controller_changes_nothing() -> None:
    view = MetadataView()
    view.apply(update(epoch=5))
    assert view.apply(update(partition("a", 0), epoch=4)) is ErrorCode.STALE_CONTROLLER_EPOCH
    assert view.topics() == []
    assert view.apply(update(partition("a", 0), epoch=5)) is ErrorCode.NONE
    assert view.topics() == ["a"]


def test_an_entry_that_was_handed_out_is_not_written_to() -> None:
    view = MetadataView()
    view.apply(update(partition("a", 0, leader=1)))
    held = view.partition(TopicPartition("a", 0))
    view.apply(update(partition("a", 0, leader=-1)))
    assert held is not None
    assert held.leader == 1


async def test_whoever_waits_is_woken_when_the_condition_holds() -> None:
    view = MetadataView()
    waiting = asyncio.create_task(
        view.wait_until(["a"], lambda: view.has_leader(TopicPartition("a", 1)), timeout_ms=60_000)
    )
    await asyncio.sleep(0)
    view.apply(update(partition("a", 0)))
    view.apply(update(partition("b", 1)))
    await asyncio.sleep(0)
    assert not waiting.done()
    view.apply(update(partition("a", 1)))
    assert await waiting


async def test_a_broker_and_topics_can_be_waited_for() -> None:
    view = MetadataView()
    waiting = asyncio.create_task(view.wait_for_all(BrokerId(2), {"a": 2, "b": 1}, timeout_ms=60_000))
    both = (live(1, "A"), live(2, "A"))
    for told in (update(brokers=(live(1, "A"),)), update(brokers=both), update(partition("b", 0), brokers=both)):
        view.apply(told)
        await asyncio.sleep(0)
        assert not waiting.done()
    view.apply(update(partition("a", 0), brokers=both))
    await asyncio.sleep(0)
    assert not waiting.done()
    view.apply(update(partition("a", 1), brokers=both))
    assert await waiting
    assert not await view.wait_for_all(BrokerId(3), {}, timeout_ms=0)
    assert not await view.wait_for_all(BrokerId(2), {"c": 1}, timeout_ms=0)


async def test_a_condition_that_holds_already_is_not_waited_for() -> None:
    assert await MetadataView().wait_until(["a"], lambda: True, timeout_ms=0)


@pytest.mark.parametrize("timeout_ms", [0, 1])
async def test_waiting_ends_with_its_time(timeout_ms: int) -> None:
    view = MetadataView()
    assert not await view.wait_until(["a"], lambda: view.has_topic("a"), timeout_ms=timeout_ms)
    view.apply(update(partition("a", 0)))
    assert view.has_topic("a")


async def test_a_cancelled_wait_leaves_nothing_behind() -> None:
    view = MetadataView()
    waiting = asyncio.create_task(view.wait_until(["a"], lambda: view.has_topic("a"), timeout_ms=60_000))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert view._waiters == {}
