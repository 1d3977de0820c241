"""Groups, transactions and the shipped idempotent producer as a load of a simulated cluster: who takes part, and when
nothing is left undone.

`CoordinatorLoad` is what a seed draws. The `Troupe` starts the clients, keeps their places filled, and says what is
still under way when all else has come to rest: open transactions, groups that are not stable, records not read.
"""

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from barnabas.client.admin import NewTopic
from barnabas.client.coordinators import CoordinatorKind, Coordinators
from barnabas.client.errors import ClientError
from barnabas.client.group_admin import GroupAdmin
from barnabas.coordinator.groups.states import GroupState
from barnabas.coordinator.transaction_records import TransactionState
from barnabas.coordinator.transactions.requests import Filters
from barnabas.coordinator.transactions.states import IDLE, NAMES
from barnabas.protocol.ids import TopicPartition
from barnabas.simulation.keepers import Keeper
from barnabas.simulation.load import ClientProcess
from barnabas.simulation.members import CopierProcess, GroupPlan, MemberProcess
from barnabas.simulation.transactors import IdempotentProcess, TransactorProcess
from barnabas.simulation.world import World

COPIES: Final = "o0"
INTERNAL_TOPICS: Final = ("__consumer_offsets", "__transaction_state")
_PROGRESS: Final = 3
"""So many batches more show that a member gets on with what is left; all of it may take long."""

_READERS: Final = "readers"
_COPIERS: Final = "copiers"
_OPEN: Final = frozenset(NAMES[state] for state in TransactionState if state not in IDLE)


@dataclass(slots=True)
class CoordinatorLoad:
    """How many of each. With no member, no transactor and no copier there are no coordinators."""

    members: int = 0
    transactors: int = 0
    copiers: int = 0
    idempotent: int = 0
    assignor: str = "range"
    copiers_assignor: str = "range"
    is_static: bool = False
    copies: int = 1
    """So many partitions has the topic that copiers write to."""

    transaction_timeout_ms: int = 8_000
    mean_gap_s: float = 30.0
    """Between two things that befall a client."""

    @property
    def has_coordinators(self) -> bool:
        return bool(self.members or self.transactors or self.copiers)


class Troupe:
    """The clients of a `CoordinatorLoad`; `plain` are the partitions that they read and write."""

    def __init__(self, world: World, load: CoordinatorLoad, plain: list[TopicPartition]) -> None:
        self.copies = [TopicPartition(COPIES, number) for number in range(load.copies if load.copiers else 0)]
        self.internal: list[TopicPartition] = []
        self._world = world
        self._load = load
        self._plain = plain
        first = plain[0].topic if plain else ""
        read = tuple(at for at in plain if at.topic == first)
        self._readers = GroupPlan(_READERS, read, load.assignor, load.is_static)
        self._copiers = GroupPlan(_COPIERS, read, load.copiers_assignor, load.is_static)
        self._members: list[Keeper[MemberProcess]] = []
        self._transactors: list[Keeper[TransactorProcess]] = []
        self._tasks: list[asyncio.Task[Any]] = []

    def topics(self, replication_factor: int, settings: dict[str, str]) -> list[NewTopic]:
        """What has to be there before."""
        return [NewTopic(COPIES, len(self.copies), replication_factor, settings)] if self.copies else []

    async def find_coordinators(self) -> None:
        """Let the cluster make its internal topics, and know their partitions."""
        if not self._load.has_coordinators:
            return
        client = self._world.client()

        async def find() -> None:
            for kind in CoordinatorKind:
                coordinators = Coordinators(client.cluster)
                while True:
                    try:
                        await coordinators.find(kind, "anybody")
                        break
                    except ClientError:
                        await asyncio.sleep(0.3)

        await client.start(find())
        await client.start(client.cluster.close())
        for topic in INTERNAL_TOPICS:
            assignment = self._world.invariants.assignment(topic)
            assert assignment is not None
            self.internal += [TopicPartition(topic, number) for number in sorted(assignment.partitions)]

    def start(self) -> None:
        """Start all of them, and what befalls them."""
        world, load = self._world, self._load
        stage = world.stage
        for _ in range(load.idempotent):
            producer = IdempotentProcess(stage, world.client_name(), self._plain)
            producer.start(producer.run())
        for number in range(load.transactors):
            host, transactional_id = world.client_name(), f"transfers-{number}"
            self._transactors.append(self._keeper(host, self._transactor(host, transactional_id)))
        for _ in range(load.members):
            host = world.client_name()
            self._members.append(self._keeper(host, self._member(host)))
        for _ in range(load.copiers):
            host = world.client_name()
            self._members.append(self._keeper(host, self._copier(host)))
        keepers: list[Keeper[Any]] = [*self._transactors, *self._members]
        for keeper in keepers:
            keeper.begin()
            self._tasks.append(asyncio.ensure_future(keeper.keep()))

    def _keeper(self, host: str, make: Any) -> Keeper[Any]:
        return Keeper(self._world, host, make, mean_gap_s=self._load.mean_gap_s)

    def _transactor(self, host: str, transactional_id: str) -> Any:
        return lambda name: TransactorProcess(
            self._world.stage,
            name,
            self._plain,
            host=host,
            transactional_id=transactional_id,
            timeout_ms=self._load.transaction_timeout_ms,
        )

    def _member(self, host: str) -> Any:
        return lambda name: MemberProcess(self._world.stage, name, self._readers, host=host)

    def _copier(self, host: str) -> Any:
        return lambda name: CopierProcess(
            self._world.stage,
            name,
            self._copiers,
            self.copies,
            host=host,
            timeout_ms=self._load.transaction_timeout_ms,
        )

    # At the end.

    def why_not_at_work(self) -> str:
        """What keeps the groups from doing their work; empty when nothing does."""
        keepers: list[Keeper[Any]] = [*self._transactors, *self._members]
        for keeper in keepers:
            if keeper.is_acting:
                return f"something happens to {keeper.host}"
        return self._unstable_group() or self._not_read()

    def open_transaction(self) -> str:
        """A transaction that nobody has ended; empty when there is none."""
        world = self._world
        for machine, partition in world.invariants.replicas():
            at, log = partition.topic_partition, partition.log
            if at in world.invariants.watched and log.last_stable_offset != log.high_watermark:
                return (
                    f"{at} on {machine.host}: a transaction is open at {log.last_stable_offset}, "
                    f"below {log.high_watermark}"
                )
        for coordinator in self._shards("transactions"):
            found = coordinator.listing(0, Filters(states=_OPEN), wall_ms=0).replies
            for _, described in found:
                if described:
                    return f"a coordinator has {described[0]}"
        return ""

    def _shards(self, kind: str) -> list[Any]:
        brokers = [machine.broker for machine in self._world.machines.values() if machine.broker is not None]
        shards = [shard for broker in brokers for shard in getattr(broker.services.coordination, kind).values()]
        return [shard.machine for shard in shards if shard.machine is not None]

    def _unstable_group(self) -> str:
        wanted = {_READERS: self._load.members, _COPIERS: self._load.copiers}
        states = {
            listed.group_id: listed.group_state
            for coordinator in self._shards("groups")
            for _, some in coordinator.list_groups(0, ()).replies
            for listed in some
        }
        for name, count in wanted.items():
            if count and states.get(name) != GroupState.STABLE:
                return f"group {name} is {states.get(name)}"
        return ""

    def _not_read(self) -> str:
        """A partition that no member has, or has neither read to its end nor got on with."""
        ends = {
            partition.topic_partition: partition.log.high_watermark
            for _, partition in self._world.invariants.replicas()
            if partition.is_leader
        }
        for group in (self._readers, self._copiers):
            members = [keeper.process for keeper in self._members if keeper.process.group is group]
            for at in group.partitions if members else ():
                owners = [each for each in members if each.consumer is not None and at in each.consumer.assignment]
                told = [f"{each.name} at {each.consumer.positions().get(at)}" for each in owners if each.consumer]
                if len(owners) != 1:
                    return f"group {group.name}: {at} is read by {told}"
                (owner,) = owners
                assert owner.consumer is not None
                is_at_end = not owner.in_hand and owner.consumer.positions().get(at) == ends.get(at)
                if not is_at_end and owner.worked_after_all < _PROGRESS:
                    return f"group {group.name}: {at} ends at {ends.get(at)}, {told}, {owner.in_hand} in hand"
        return ""

    async def end(self) -> None:
        """Let members leave, and wait until they have. Then nobody writes who was not seen to end, a zombie neither."""
        self._world.stage.readers_may_end = True
        for task in self._tasks:
            task.cancel()
        keepers: list[Keeper[Any]] = [*self._transactors, *self._members]
        for keeper in keepers:
            await keeper.end()

    async def read_offsets(self) -> None:
        """Read for the last time what the groups committed. Raises ClientError."""
        reader = self._world.client()
        for group in (self._readers, self._copiers):
            if any(keeper.process.group is group for keeper in self._members):
                await reader.start(_read_offsets(reader, group))


async def _read_offsets(reader: ClientProcess, group: GroupPlan) -> None:
    operation = reader.stage.history.groups.read(reader.name, group.name, group.partitions, reader.now(), final=True)
    found = await GroupAdmin(reader.cluster).committed(group.name)
    operation.ok({at: each.offset for at, each in found.items()}, reader.now())
