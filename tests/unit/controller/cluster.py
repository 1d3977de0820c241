"""A cluster in memory around real controllers: ZooKeeper's fake, and brokers that obey as a broker must."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import (
    LEADER_DURING_DELETE,
    NO_LEADER,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    TopicPartition,
)
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.tasks import Supervisor
from controller.commands import (
    UNKNOWN_BROKER_EPOCH,
    AnswerListener,
    Command,
    CommandResult,
    LeaderAndIsr,
    LeaderAndIsrPartition,
    LiveBroker,
    LogEnd,
    ReportLogEnds,
    StopReplica,
    UpdateMetadata,
    UpdateMetadataPartition,
)
from controller.driver import Controller
from controller.fencing import decide_fence
from controller.office import Settings
from controller.topics import creation_ops, deletion_ops, growth_ops
from zk_schema import paths
from zk_schema.memory import MemorySession, MemoryZooKeeper
from zk_schema.ops import Create
from zk_schema.payloads import BrokerRegistration, Endpoint, PartitionState, TopicAssignment

TURNS = 20_000
NO_EPOCH = ControllerEpoch(0)


async def until(predicate: Callable[[], bool], what: str = "") -> None:
    """Let the loop turn until it holds."""
    for _ in range(TURNS):
        if predicate():
            return
        await asyncio.sleep(0)
    raise AssertionError(f"never came true: {what or predicate}")


@dataclass
class FakeBroker:
    """One start of a broker: obeys commands at once, remembers what it was told."""

    broker_id: BrokerId
    session: MemorySession
    epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH
    is_deaf: bool = False
    is_doubtful: bool = False
    has_bad_disk: bool = False
    controller_epoch: ControllerEpoch = NO_EPOCH
    heard: list[Command] = field(default_factory=list)
    leads: dict[TopicPartition, int] = field(default_factory=dict)
    roles: dict[TopicPartition, LeaderAndIsrPartition] = field(default_factory=dict)
    logs: set[TopicPartition] = field(default_factory=set)
    log_ends: dict[TopicPartition, LogEnd] = field(default_factory=dict)
    told: dict[TopicPartition, UpdateMetadataPartition] = field(default_factory=dict)
    live: tuple[LiveBroker, ...] = ()

    def obey(self, command: Command) -> CommandResult:
        self.heard.append(command)
        fence = decide_fence(known_controller_epoch=self.controller_epoch, own_broker_epoch=self.epoch, command=command)
        if fence is not ErrorCode.NONE:
            return CommandResult(fence)
        self.controller_epoch = command.controller_epoch
        errors = {}
        ends: dict[TopicPartition, LogEnd] = {}
        match command:
            case UpdateMetadata():
                self.live = command.live_brokers
                for told in command.partitions:
                    if told.leader == LEADER_DURING_DELETE:
                        self.told.pop(told.topic_partition, None)
                    else:
                        self.told[told.topic_partition] = told
            case LeaderAndIsr():
                for lead in command.partitions:
                    at = lead.topic_partition
                    if self.has_bad_disk:
                        errors[at] = ErrorCode.KAFKA_STORAGE_ERROR
                    elif lead.leader_epoch <= self.leads.get(at, -1):
                        errors[at] = ErrorCode.STALE_CONTROLLER_EPOCH
                    else:
                        assert lead.leader in {broker.broker_id for broker in self.live} | {-1}, "leader not known"
                        self.leads[at] = lead.leader_epoch
                        self.roles[at] = replace(lead)
                        self.logs.add(at)
            case StopReplica():
                for stop in command.partitions:
                    if self.has_bad_disk:
                        errors[stop.topic_partition] = ErrorCode.KAFKA_STORAGE_ERROR
                        continue
                    if 0 <= stop.leader_epoch <= self.leads.get(stop.topic_partition, -1):
                        errors[stop.topic_partition] = ErrorCode.FENCED_LEADER_EPOCH
                        continue
                    self.leads.pop(stop.topic_partition, None)
                    self.roles.pop(stop.topic_partition, None)
                    if stop.delete:
                        self.logs.discard(stop.topic_partition)
            case ReportLogEnds():
                nothing = LogEnd(LeaderEpoch(-1), 0)
                ends = {at: self.log_ends.get(at, nothing) for at in command.partitions if not self.has_bad_disk}
        return CommandResult(partition_errors=errors, log_ends=ends)


class FakeChannel:
    """Carries each command at once and its answer one step of the loop later, unless the broker is deaf."""

    def __init__(self, cluster: "Cluster", endpoint: str, on_answer: AnswerListener) -> None:
        self._cluster = cluster
        self._endpoint = endpoint
        self._on_answer = on_answer
        self.is_closed = False
        self.waiting: list[Command] = []

    def send(self, command: Command) -> None:
        self._cluster.check_sent(command)
        self.waiting.append(command)
        asyncio.get_running_loop().call_soon(self.deliver)

    def deliver(self) -> None:
        broker = self._cluster.by_endpoint.get(self._endpoint)
        while self.waiting and not self.is_closed and broker is not None and not broker.is_deaf:
            command = self.waiting.pop(0)
            try:
                result = broker.obey(command)
            except AssertionError as error:
                self._cluster.failures.append(f"broker {broker.broker_id}: {error}")
                return
            asyncio.get_running_loop().call_soon(self._answer, command, result)

    def _answer(self, command: Command, result: CommandResult) -> None:
        if not self.is_closed:
            self._on_answer(command, result)

    def close(self) -> None:
        self.is_closed = True


class Cluster:
    """ZooKeeper, brokers, controllers. `close` checks that no task died."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.zk = MemoryZooKeeper()
        self.settings = settings or Settings()
        self.supervisor = Supervisor(self._on_fatal)
        self.brokers: dict[int, FakeBroker] = {}
        self.by_endpoint: dict[str, FakeBroker] = {}
        self.channels: list[FakeChannel] = []
        self.controllers: dict[int, Controller] = {}
        self.tool = MemorySession(self.zk)
        self.failures: list[str] = []
        self.shut: set[int] = set()
        """Brokers that asked for a controlled shutdown and are still there."""
        self.checks_sent = True
        self.make_broker: Callable[[BrokerId, MemorySession], FakeBroker] = FakeBroker
        self._starts = 0
        self._last_epochs: dict[tuple[TopicPartition, int], int] = {}
        self._leaders: dict[tuple[TopicPartition, int, int], BrokerId] = {}

    async def open(self) -> None:
        await self.tool.open()
        for path in paths.PERSISTENT_PATHS:
            for each in (*paths.parents(path), path):
                if await self.tool.exists(each) is None:
                    await self.tool.write(Create(each, None))

    async def close(self) -> None:
        for controller in self.controllers.values():
            await controller.stop()
        await self.supervisor.stop()
        for broker in self.brokers.values():
            await broker.session.close()
        await self.tool.close()
        assert not self.failures, self.failures

    # What happens.

    async def start_broker(self, number: int, *, rack: str | None = None, clean_stop: bool | None = None) -> FakeBroker:
        """Register; nobody waits for what follows."""
        self._starts += 1
        endpoint = f"host-{number}:{self._starts}"
        session = MemorySession(self.zk)
        await session.open()
        broker = self.brokers[number] = self.make_broker(BrokerId(number), session)
        broker.is_doubtful = clean_stop is False
        self.by_endpoint[endpoint] = broker
        listener = Endpoint("PLAINTEXT", f"host-{number}", 9092, "PLAINTEXT")
        registration = BrokerRegistration((listener,), 0, rack=rack, control_endpoint=endpoint, clean_stop=clean_stop)
        await session.write(Create(paths.broker(number), registration.encode(), ephemeral=True))
        stat = await session.exists(paths.broker(number))
        assert stat is not None
        broker.epoch = BrokerEpoch(stat.czxid)
        return broker

    async def start_controller(self, number: int) -> Controller:
        """Stand for election in the broker's session; returns when there is a controller."""
        controller = self.make_controller(number)
        await controller.start()
        return controller

    async def start_brokers(self, *numbers: int) -> None:
        """Brokers, the first of which is the controller."""
        for number in numbers:
            await self.start_broker(number)
        await self.start_controller(numbers[0])

    def start_controller_later(self, number: int) -> None:
        """As in a real broker: nobody waits for the outcome, which there may not be while connections are cut."""
        controller = self.make_controller(number)

        async def start() -> None:
            if self.controllers.get(number) is controller:
                await controller.start()

        self.supervisor.spawn(start(), name=f"start of controller {number}")

    def make_controller(self, number: int) -> Controller:
        controller = self.controllers[number] = Controller(
            BrokerId(number),
            zk=self.brokers[number].session,
            clock=SystemClock(),
            supervisor=self.supervisor,
            open_channel=self._open_channel,
            settings=self.settings,
        )
        return controller

    def kill(self, number: int) -> None:
        """The process is gone, its controller with it; its session ends at once."""
        broker = self.brokers.pop(number)
        controller = self.controllers.pop(number, None)
        if controller is not None and controller._unlisten is not None and controller._task is not None:
            controller._unlisten()
            controller._task.cancel()
            controller._end_term()
        self.zk.expire(broker.session)
        broker.session.is_held = True
        broker.is_deaf = True

    async def create(self, name: str, assignment: Mapping[int, Sequence[int]]) -> None:
        replicas = {number: [BrokerId(each) for each in ids] for number, ids in assignment.items()}
        await self.tool.write(*creation_ops(name, replicas, {}))

    async def grow(self, name: str, added: Mapping[int, Sequence[int]]) -> None:
        znode = await self.tool.get(paths.topic(name))
        assert znode is not None
        replicas = {number: [BrokerId(each) for each in ids] for number, ids in added.items()}
        present = TopicAssignment.decode(znode.data)
        await self.tool.write(*growth_ops(name, present, replicas, version=znode.stat.version))

    async def delete(self, name: str) -> None:
        await self.tool.write(*deletion_ops(name))

    # What is to be seen.

    def state(self, name: str, number: int) -> PartitionState | None:
        znode = self.zk.tree.get(paths.partition_state(name, number))
        return None if znode is None else PartitionState.decode(znode.data)

    def leader(self, name: str, number: int = 0) -> int | None:
        state = self.state(name, number)
        return None if state is None else state.leader

    def in_sync(self, name: str, number: int = 0) -> list[int]:
        state = self.state(name, number)
        return [] if state is None else list(state.isr)

    def exists(self, path: str) -> bool:
        return self.zk.tree.get(path) is not None

    def known_leader(self, name: str, number: int = 0) -> set[int | None]:
        """Whom the brokers take for the leader."""
        at = TopicPartition(name, number)
        return {broker.told[at].leader if at in broker.told else None for broker in self.brokers.values()}

    async def until_led(self, name: str, number: int = 0, *, by: int | None) -> None:
        """Until ZooKeeper says so and all brokers know."""
        await until(lambda: self.leader(name, number) == by and self.known_leader(name, number) == {by}, f"{name} led")

    def check_sent(self, command: Command) -> None:
        """Nobody hears of what does not stand in ZooKeeper."""
        if not self.checks_sent or isinstance(command, StopReplica | ReportLogEnds):
            return
        for entry in command.partitions:
            if entry.leader == LEADER_DURING_DELETE:
                continue
            znode = self.zk.tree.get(paths.partition_state(entry.topic, entry.partition))
            assert znode is not None, f"{entry} is not in ZooKeeper"
            topic = self.zk.tree.get(paths.topic(entry.topic))
            assert topic is not None
            life = (entry.topic_partition, topic.stat.czxid)
            assert entry.leader_epoch >= self._last_epochs.get(life, 0), "a leader epoch fell"
            self._last_epochs[life] = entry.leader_epoch
            if entry.leader != NO_LEADER:
                led_by = self._leaders.setdefault((*life, entry.leader_epoch), entry.leader)
                assert led_by == entry.leader, f"{entry} is led by {led_by} in this epoch"
            assert set(entry.isr) <= set(entry.replicas), f"{entry} has strangers in sync"
            sent = PartitionState(entry.leader, entry.leader_epoch, entry.isr, entry.controller_epoch)
            assert (PartitionState.decode(znode.data), znode.stat.version) == (sent, entry.zk_version)

    def _open_channel(self, broker: BrokerId, endpoint: str, on_answer: AnswerListener) -> FakeChannel:
        channel = FakeChannel(self, endpoint, on_answer)
        self.channels.append(channel)
        return channel

    def _on_fatal(self, name: str, error: BaseException | None) -> None:
        self.failures.append(f"{name}: {error!r}")
