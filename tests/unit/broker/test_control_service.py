"""The controller's orders on the broker's side: fenced before anything is touched, and carried out in order."""

import asyncio
from collections.abc import Callable

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition
from broker.config_changes import ConfigChanges
from broker.control_service import ControlService
from broker.dynamic_config import DynamicConfig
from broker.topic_configs import TopicConfigs
from controller.commands import (
    Command,
    CommandResult,
    LeaderAndIsr,
    LeaderAndIsrPartition,
    LogEnd,
    ReportLogEnds,
    StopReplica,
    StopReplicaPartition,
    UpdateMetadata,
    UpdateMetadataPartition,
)
from tests.support.clock import ManualClock
from tests.support.virtual_time import turns, virtual_time
from tests.unit.broker.data_broker import DataBroker
from tests.unit.broker.small_broker import describe, live_broker, make_config
from tests.unit.replication.replica_world import ME, OTHER, append_now
from zk_schema import paths
from zk_schema.memory import MemorySession, MemoryZooKeeper
from zk_schema.ops import Create, Set
from zk_schema.payloads import EntityConfig

CONTROLLER = BrokerId(9)
T0 = TopicPartition("t", 0)


class BusyClock(ManualClock):
    """Time passes whenever somebody looks: a tenth of a turn."""

    def monotonic_us(self) -> int:
        self._monotonic_us += 200
        return super().monotonic_us()


class Ordered:
    """A broker with epoch 100 whose controller had epoch 5 so far."""

    def __init__(self) -> None:
        self.broker = DataBroker()
        self.server = MemoryZooKeeper()
        self.zk = MemorySession(self.server)
        self.epoch = BrokerEpoch(100)
        self.dynamic_config = DynamicConfig(make_config())
        self.service = ControlService(
            metadata=self.broker.view,
            metrics=self.broker.metrics,
            replicas=self.broker.services.replicas,
            log_directories=self.broker.services.log_directories,
            topic_configs=TopicConfigs(self.dynamic_config, self.zk),
            broker_epoch=lambda: self.epoch,
            clock=BusyClock(),
        )

    async def open(self) -> "Ordered":
        await self.zk.open()
        await self.broker.open()
        for path in ("/config", "/config/topics"):
            await self.zk.write(Create(path, None))
        assert (await self.obey(self.tell())).error_code is ErrorCode.NONE
        return self

    async def set_config(self, topic: str, **config: str) -> None:
        given = {name.replace("_", "."): text for name, text in config.items()}
        await self.zk.write(Create(paths.topic_config(topic), EntityConfig(given).encode()))

    async def obey(self, command: Command) -> CommandResult:
        match command:
            case LeaderAndIsr():
                return await self.service.on_leader_and_isr(command)
            case StopReplica():
                return await self.service.on_stop_replica(command)
            case UpdateMetadata():
                return await self.service.on_update_metadata(command)
            case ReportLogEnds():
                return await self.service.on_report_log_ends(command)

    def lead(
        self, *numbers: int, topic: str = "t", epoch: int = 0, controller: int = 5, broker: int = 100
    ) -> LeaderAndIsr:
        partitions = [
            LeaderAndIsrPartition(
                topic,
                number,
                ControllerEpoch(controller),
                ME,
                LeaderEpoch(epoch),
                (ME,),
                3,
                (ME,),
                is_new=True,
            )
            for number in numbers
        ]
        return LeaderAndIsr(CONTROLLER, ControllerEpoch(controller), BrokerEpoch(broker), partitions)

    def stop(self, *numbers: int, epoch: int = -2, controller: int = 5, broker: int = 100) -> StopReplica:
        partitions = [StopReplicaPartition("t", number, LeaderEpoch(epoch), delete=True) for number in numbers]
        return StopReplica(CONTROLLER, ControllerEpoch(controller), BrokerEpoch(broker), partitions)

    def tell(
        self, *numbers: int, leader: int = ME, controller: int = 5, broker: int = 100, live: tuple[int, ...] = (1,)
    ) -> UpdateMetadata:
        partitions = [describe("t", number, leader=leader) for number in numbers]
        return UpdateMetadata(
            CONTROLLER, ControllerEpoch(controller), BrokerEpoch(broker), partitions, tuple(map(live_broker, live))
        )

    def holds(self, at: TopicPartition = T0) -> bool:
        return self.broker.world.replicas.partition(at) is not None


Make = Callable[[Ordered, int, int], Command]
ORDERS: dict[str, Make] = {
    "LeaderAndIsr": lambda ordered, controller, broker: ordered.lead(0, controller=controller, broker=broker),
    "StopReplica": lambda ordered, controller, broker: ordered.stop(7, controller=controller, broker=broker),
    "UpdateMetadata": lambda ordered, controller, broker: ordered.tell(0, controller=controller, broker=broker),
    "ReportLogEnds": lambda _, controller, broker: ReportLogEnds(
        CONTROLLER, ControllerEpoch(controller), BrokerEpoch(broker), [T0]
    ),
}


@pytest.mark.parametrize("make", ORDERS.values(), ids=ORDERS.keys())
@pytest.mark.parametrize(
    ("controller", "broker", "expected"),
    [
        (5, 100, ErrorCode.NONE),
        (6, 100, ErrorCode.NONE),
        (4, 100, ErrorCode.STALE_CONTROLLER_EPOCH),
        (5, 99, ErrorCode.STALE_BROKER_EPOCH),
        (5, 101, ErrorCode.NONE),
        (5, -1, ErrorCode.NONE),
        (4, 99, ErrorCode.STALE_CONTROLLER_EPOCH),
    ],
)
def test_an_order_is_held_against_both_epochs(make: Make, controller: int, broker: int, expected: ErrorCode) -> None:
    @virtual_time
    async def run() -> None:
        ordered = await Ordered().open()
        result = await ordered.obey(make(ordered, controller, broker))
        assert result.error_code is expected

    run()


@virtual_time
async def test_what_is_refused_touches_nothing() -> None:
    ordered = await Ordered().open()
    await ordered.obey(ordered.lead(0))
    await ordered.obey(ordered.tell(0))
    for controller, broker in ((4, 100), (5, 99)):
        await ordered.obey(ordered.lead(1, controller=controller, broker=broker))
        await ordered.obey(ordered.stop(0, controller=controller, broker=broker))
        await ordered.obey(ordered.tell(0, leader=-2, controller=controller, broker=broker))
    assert (ordered.holds(), ordered.holds(TopicPartition("t", 1))) == (True, False)
    assert ordered.broker.view.partition(T0) is not None


@pytest.mark.parametrize("make", ORDERS.values(), ids=ORDERS.keys())
def test_an_order_of_a_later_controller_fences_the_earlier_one(make: Make) -> None:
    @virtual_time
    async def run() -> None:
        ordered = await Ordered().open()
        await ordered.obey(make(ordered, 6, 100))
        for old in ORDERS.values():
            assert (await ordered.obey(old(ordered, 5, 100))).error_code is ErrorCode.STALE_CONTROLLER_EPOCH

    run()


@virtual_time
async def test_an_order_that_was_refused_for_its_broker_epoch_does_not_raise_the_controllers() -> None:
    ordered = await Ordered().open()
    assert (await ordered.obey(ordered.lead(0, controller=8, broker=99))).error_code is ErrorCode.STALE_BROKER_EPOCH
    assert (await ordered.obey(ordered.lead(0, controller=5))).error_code is ErrorCode.NONE


@virtual_time
async def test_a_broker_that_registered_again_has_another_epoch_at_once() -> None:
    ordered = await Ordered().open()
    ordered.epoch = BrokerEpoch(200)
    assert (await ordered.obey(ordered.lead(0))).error_code is ErrorCode.STALE_BROKER_EPOCH
    assert (await ordered.obey(ordered.lead(0, broker=200))).error_code is ErrorCode.NONE


@virtual_time
async def test_partitions_are_made_with_what_their_topic_sets_for_itself() -> None:
    ordered = await Ordered().open()
    await ordered.set_config("t", min_insync_replicas="2", max_message_bytes="77", flush_messages="1")
    await ordered.set_config("odd", nonsense="1", max_message_bytes="x")
    command = ordered.lead(0, 1)
    command.partitions += ordered.lead(0, topic="odd").partitions
    assert await ordered.obey(command) == CommandResult()
    replicas = ordered.broker.world.replicas
    for at in (T0, TopicPartition("t", 1)):
        partition = replicas.partition(at)
        assert partition is not None
        assert partition.leadership is not None
        assert (partition.min_in_sync_replicas, partition.leadership.isr.zk_version) == (2, 3)
        assert (partition.log.config.max_message_bytes, partition.log.config.flush_messages) == (77, 1)
    odd = replicas.partition(TopicPartition("odd", 0))
    assert odd is not None
    assert odd.log.config.max_message_bytes == 1048588


@virtual_time
async def test_each_partition_is_answered_for_itself() -> None:
    ordered = await Ordered().open()
    await ordered.obey(ordered.lead(0, epoch=3))
    result = await ordered.obey(ordered.lead(0, 1, epoch=3))
    assert result == CommandResult(partition_errors={T0: ErrorCode.STALE_CONTROLLER_EPOCH})
    result = await ordered.obey(ordered.stop(0, 1, epoch=3))
    errors = {TopicPartition("t", number): ErrorCode.FENCED_LEADER_EPOCH for number in (0, 1)}
    assert result == CommandResult(partition_errors=errors)
    assert await ordered.obey(ordered.stop(0, 1, 2)) == CommandResult()
    assert not ordered.holds()


@virtual_time
async def test_a_deleted_topic_is_forgotten_by_the_view_and_the_metrics_when_its_last_partition_goes() -> None:
    ordered = await Ordered().open()
    await ordered.obey(ordered.tell(0, 1))
    ordered.broker.metrics.topic("t").bytes_in = 5
    await ordered.obey(ordered.tell(0, leader=-2))
    assert ordered.broker.metrics.topic("t").bytes_in == 5
    await ordered.obey(ordered.tell(1, leader=-2))
    assert not ordered.broker.view.has_topic("t")
    assert ordered.broker.metrics.topic("t").bytes_in == 0


@virtual_time
async def test_a_topic_that_went_unheard_of_is_forgotten_by_the_view_and_the_metrics_when_a_welcome_ends() -> None:
    ordered = await Ordered().open()
    await ordered.obey(ordered.tell(0, 1))
    ordered.broker.metrics.topic("t").bytes_in = 5
    await ordered.obey(ordered.tell(0, controller=6))
    last = ordered.tell(controller=6)
    last.ends_welcome = True
    await ordered.obey(last)
    assert list(ordered.broker.view.partitions("t")) == [0]
    assert ordered.broker.metrics.topic("t").bytes_in == 5
    last = ordered.tell(controller=7)
    last.ends_welcome = True
    await ordered.obey(last)
    assert not ordered.broker.view.has_topic("t")
    assert ordered.broker.metrics.topic("t").bytes_in == 0


@virtual_time
async def test_a_session_that_ends_during_an_order_refuses_it_and_touches_nothing() -> None:
    ordered = await Ordered().open()
    ordered.server.withhold(ordered.zk, requests=True, answers=True)
    obeying = asyncio.get_running_loop().create_task(ordered.obey(ordered.lead(0, 1)))
    await turns()
    ordered.server.expire(ordered.zk)
    assert await obeying == CommandResult(ErrorCode.STALE_BROKER_EPOCH)
    assert not ordered.holds()
    await turns()
    assert await ordered.obey(ordered.lead(0, 1)) == CommandResult()


@virtual_time
async def test_a_connection_that_is_away_only_delays_an_order() -> None:
    ordered = await Ordered().open()
    ordered.server.disconnect(ordered.zk, hold=True)
    obeying = asyncio.get_running_loop().create_task(ordered.obey(ordered.lead(0)))
    await turns()
    assert not obeying.done()
    ordered.server.release(ordered.zk)
    assert await obeying == CommandResult()
    assert ordered.holds()


@virtual_time
async def test_clients_have_their_turn_while_many_partitions_are_made_and_removed() -> None:
    ordered = await Ordered().open()
    (partition,) = await ordered.broker.lead("served")
    order = asyncio.get_running_loop().create_task(ordered.obey(ordered.lead(*range(200))))
    turns_between = 0
    while not order.done():
        append_now(partition)
        await asyncio.sleep(0)
        turns_between += 0 < len(ordered.broker.world.replicas.partitions()) < 201
    assert turns_between >= 10
    assert await order == CommandResult()
    assert len(ordered.broker.world.replicas.partitions()) == 201
    assert await ordered.obey(ordered.stop(*range(200))) == CommandResult()
    assert len(ordered.broker.world.replicas.partitions()) == 1


@virtual_time
async def test_the_ends_of_logs_are_told_whether_or_not_a_controller_spoke_of_them() -> None:
    ordered = await Ordered().open()
    await ordered.obey(ordered.lead(0, epoch=3))
    missing = TopicPartition("t", 9)
    result = await ordered.obey(ReportLogEnds(CONTROLLER, ControllerEpoch(5), BrokerEpoch(100), [T0, missing]))
    assert result == CommandResult(log_ends={T0: LogEnd(LeaderEpoch(3), 0), missing: LogEnd(LeaderEpoch(-1), 0)})
    directory = ordered.broker.services.log_directories.directory_of(T0)
    assert directory is not None
    directory.fail(OSError("planted"))
    result = await ordered.obey(ReportLogEnds(CONTROLLER, ControllerEpoch(5), BrokerEpoch(100), [T0, missing]))
    assert result == CommandResult(partition_errors=dict.fromkeys([T0, missing], ErrorCode.KAFKA_STORAGE_ERROR))


@virtual_time
async def test_a_replica_that_was_moved_away_meanwhile_is_removed() -> None:
    ordered = await Ordered().open()
    await ordered.obey(ordered.lead(0, 1, epoch=3))
    elsewhere = describe("t", 0, leader=7, replicas=(7, 8), epoch=4)
    stale = describe("t", 1, leader=7, replicas=(7, 8), epoch=3)
    command = UpdateMetadata(
        CONTROLLER, ControllerEpoch(5), BrokerEpoch(100), [elsewhere, stale], (live_broker(1), live_broker(7))
    )
    assert await ordered.obey(command) == CommandResult()
    assert not ordered.holds(T0)
    assert ordered.holds(TopicPartition("t", 1)), "what is told of an epoch that is over removes nothing"


@virtual_time
async def test_a_replica_that_was_moved_away_to_where_nobody_leads_is_served_no_more_and_stays() -> None:
    ordered = await Ordered().open()
    await ordered.obey(ordered.lead(0, epoch=3))
    elsewhere = describe("t", 0, leader=-1, replicas=(7, 8), epoch=4)
    brokers = (live_broker(1), live_broker(7))
    await ordered.obey(UpdateMetadata(CONTROLLER, ControllerEpoch(5), BrokerEpoch(100), [elsewhere], brokers))
    assert not ordered.holds(T0)
    assert ordered.broker.services.log_directories.log(T0) is not None


@virtual_time
async def test_a_log_that_stays_as_nobody_leads_is_removed_once_somebody_does() -> None:
    ordered = await Ordered().open()
    logs = ordered.broker.services.log_directories
    moved, empty, back, nowhere = places = [TopicPartition("t", number) for number in range(4)]
    for at in (moved, back, nowhere):
        logs.create_log(at).assign_leader_epoch(3, start_offset=0)
    follows = ordered.lead(1, epoch=3)
    follows.partitions[0].leader = OTHER
    await ordered.obey(follows)

    async def there_after(*told: UpdateMetadataPartition, live: tuple[int, ...]) -> list[TopicPartition]:
        brokers = tuple(map(live_broker, live))
        await ordered.obey(UpdateMetadata(CONTROLLER, ControllerEpoch(5), BrokerEpoch(100), [*told], brokers))
        return [at for at in places if logs.log(at) is not None]

    nobody = [describe("t", number, leader=-1, replicas=(7, 8), epoch=4) for number in range(4)]
    elected = [describe("t", number, leader=7, replicas=(7, 8), epoch=5) for number in range(3)]
    assert await there_after(*nobody, live=(1,)) == places
    assert not ordered.holds(empty)
    assert await there_after(*elected, live=(1,)) == places, "the broker that leads is not known yet"
    ours_again = describe("t", 2, leader=7, replicas=(7, ME), epoch=6)
    assert await there_after(ours_again, live=(1,)) == places
    assert await there_after(live=(1, 7)) == [back, nowhere]


@virtual_time
async def test_the_log_of_a_replica_that_was_moved_away_while_its_broker_was_down_is_removed() -> None:
    ordered = await Ordered().open()
    logs = ordered.broker.services.log_directories
    moved, back, stays, last_copy, unknown = (TopicPartition("t", number) for number in range(5))
    for at in (moved, back, stays, last_copy):
        logs.create_log(at).assign_leader_epoch(3, start_offset=0)
    logs.create_log(unknown)
    told = [
        describe("t", 0, leader=7, replicas=(7, 8), epoch=4),
        describe("t", 1, leader=7, replicas=(7, 8), epoch=3),
        describe("t", 2, leader=7, replicas=(7, ME), epoch=4),
        describe("t", 3, leader=-1, replicas=(7, 8), epoch=4),
        describe("t", 4, leader=7, replicas=(7, 8), epoch=4),
    ]
    brokers = (live_broker(1), live_broker(7))
    await ordered.obey(UpdateMetadata(CONTROLLER, ControllerEpoch(5), BrokerEpoch(100), told, brokers))
    there = [logs.log(at) is not None for at in (moved, back, stays, last_copy, unknown)]
    assert there == [False, True, True, True, True]


@virtual_time
async def test_a_command_waits_until_the_broker_is_registered() -> None:
    ordered = await Ordered().open()
    registered = asyncio.Event()
    ordered.service._registered = registered.wait
    ordered.epoch = BrokerEpoch(-1)
    order = asyncio.get_running_loop().create_task(ordered.obey(ordered.lead(0, broker=100)))
    await asyncio.sleep(5)
    assert not order.done()
    ordered.epoch = BrokerEpoch(101)
    registered.set()
    assert await order == CommandResult(ErrorCode.STALE_BROKER_EPOCH)
    assert not ordered.holds()


@virtual_time
async def test_settings_that_change_while_replicas_are_made_reach_all_of_them() -> None:
    ordered = await Ordered().open()
    await ordered.set_config("t", min_insync_replicas="1")
    replicas = ordered.broker.services.replicas
    changes = ConfigChanges(ME, ordered.zk, ordered.dynamic_config, replicas)
    order = asyncio.get_running_loop().create_task(ordered.obey(ordered.lead(*range(100))))
    while not replicas.partitions():  # noqa: ASYNC110 - what is waited for has no event
        await asyncio.sleep(0)
    config = EntityConfig({"min.insync.replicas": "2"})
    await ordered.zk.write(Set(paths.topic_config("t"), config.encode()))
    await changes._read_topic("t")
    assert 0 < len(replicas.partitions()) < 100, "the change came in the midst of it"
    assert await order == CommandResult()
    assert [partition.min_in_sync_replicas for partition in replicas.partitions()] == [2] * 100


@virtual_time
async def test_settings_of_brokers_that_change_while_replicas_are_made_reach_all_of_them() -> None:
    ordered = await Ordered().open()
    replicas = ordered.broker.services.replicas
    changes = ConfigChanges(ME, ordered.zk, ordered.dynamic_config, replicas)
    await ordered.zk.write(Create(f"{paths.CONFIG}/brokers", None))
    config = EntityConfig({"min.insync.replicas": "2"})
    await ordered.zk.write(Create(paths.broker_config(None), config.encode()))
    order = asyncio.get_running_loop().create_task(ordered.obey(ordered.lead(*range(400))))
    while not replicas.partitions():  # noqa: ASYNC110 - what is waited for has no event
        await asyncio.sleep(0)
    await changes._read_brokers()
    assert 0 < len(replicas.partitions()) < 400, "the change came in the midst of it"
    assert await order == CommandResult()
    assert [partition.min_in_sync_replicas for partition in replicas.partitions()] == [2] * 400


@virtual_time
async def test_a_deletion_of_records_waits_no_longer_for_a_broker_that_is_gone() -> None:
    ordered = await Ordered().open()
    world = ordered.broker.world
    await ordered.obey(ordered.tell(0, live=(ME, OTHER)))
    await world.assign(replicas=(ME, OTHER))
    partition = world.partition()
    append_now(partition, b"a", b"b", acks=1)
    partition.on_follower_fetch(OTHER, leader_epoch=partition.leader_epoch, fetch_offset=2, log_start_offset=0)
    deleted = partition.deletion.delete(1)
    await turns()
    assert deleted is not None
    assert not deleted.done()
    # The last that is heard of it: nobody fetches after this.
    del world.live[OTHER]
    await ordered.obey(ordered.tell(0, live=(ME,)))
    assert deleted.done()
