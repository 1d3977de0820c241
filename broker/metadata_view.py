"""A broker's view of the cluster: who is alive, which topics there are, who leads them, who the controller is.

Fed by the controller's UpdateMetadata commands alone, applied on the event loop in the order they come. Applying a
command costs what changed, not what is there. The entry of a broker or a partition is replaced, never written to, so
whoever holds one may keep it; the mapping of a topic's partitions is live, so read it without waiting in between.

The view lags behind the controller. It keeps the epoch of the last command and refuses an older controller's.

A controller welcomes each registration of a broker: it tells of all partitions that there are, and at last that this
was all. What it did not name was deleted while no controller reached this broker, and is forgotten.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import (
    LEADER_DURING_DELETE,
    NO_LEADER,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    TopicPartition,
)
from controller.commands import Endpoint, LiveBroker, UpdateMetadata, UpdateMetadataPartition

NO_CONTROLLER: Final = BrokerId(-1)

_BROKERS: Final = "/brokers"
"""Who waits for a broker waits under this name, which no topic can have."""
_NO_NODES: Final[Mapping[BrokerId, Endpoint]] = MappingProxyType({})
_NO_PARTITIONS: Final[Mapping[int, UpdateMetadataPartition]] = MappingProxyType({})


class MetadataView:
    """See the module. `controller_id` is -1 while none is known."""

    def __init__(self) -> None:
        self.controller_id = NO_CONTROLLER
        self.controller_epoch = ControllerEpoch(0)
        self._brokers: Mapping[BrokerId, LiveBroker] = MappingProxyType({})
        self._nodes: dict[str, dict[BrokerId, Endpoint]] = {}
        self._topics: dict[str, dict[int, UpdateMetadataPartition]] = {}
        self._waiters: dict[str, dict[_Waiter, None]] = {}
        self._welcome: tuple[ControllerEpoch, BrokerEpoch] | None = None
        # What was named since the welcome began; None once it has ended.
        self._named: set[TopicPartition] | None = None

    # Reading.

    @property
    def brokers(self) -> Mapping[BrokerId, LiveBroker]:
        """The live brokers by id, in the order of the ids."""
        return self._brokers

    def broker_epoch_of(self, broker_id: BrokerId) -> BrokerEpoch | None:
        """Under which epoch a broker is registered; None when it is not known to be alive."""
        broker = self._brokers.get(broker_id)
        return None if broker is None else broker.broker_epoch

    def brokers_on(self, listener_name: str) -> Mapping[BrokerId, Endpoint]:
        """Where the live brokers that have such a listener are reached by it, in the order of their ids."""
        return MappingProxyType(self._nodes.get(listener_name, {}))

    def endpoint(self, broker_id: BrokerId, listener_name: str) -> Endpoint | None:
        """Where a broker is reached by such a listener; None where it has none or is not known to be alive."""
        return self._nodes.get(listener_name, _NO_NODES).get(broker_id)

    def topics(self) -> list[str]:
        """Names of all topics, sorted."""
        return sorted(self._topics)

    def has_topic(self, topic: str) -> bool:
        return topic in self._topics

    def partitions(self, topic: str) -> Mapping[int, UpdateMetadataPartition]:
        """The partitions of a topic by number, empty when it is not known."""
        partitions = self._topics.get(topic)
        return _NO_PARTITIONS if partitions is None else MappingProxyType(partitions)

    def partition(self, topic_partition: TopicPartition) -> UpdateMetadataPartition | None:
        partitions = self._topics.get(topic_partition.topic)
        return None if partitions is None else partitions.get(topic_partition.partition)

    def has_leader(self, topic_partition: TopicPartition) -> bool:
        """Whether the partition is known and led."""
        partition = self.partition(topic_partition)
        return partition is not None and partition.leader != NO_LEADER

    def __iter__(self) -> Iterator[UpdateMetadataPartition]:
        """Every partition of every topic."""
        for partitions in self._topics.values():
            yield from partitions.values()

    # Changing.

    def apply(self, command: UpdateMetadata) -> ErrorCode:
        """Take over a command's brokers and partitions; STALE_CONTROLLER_EPOCH, and nothing, from an older controller.

        The epoch of the broker is held against its own before this is called.
        """
        if command.controller_epoch < self.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        self.controller_epoch = command.controller_epoch
        self.controller_id = command.controller_id if command.controller_id >= 0 else NO_CONTROLLER
        self._replace_brokers(command.live_brokers)
        welcome = (command.controller_epoch, command.broker_epoch)
        if welcome != self._welcome:
            self._welcome, self._named = welcome, set()
        touched: dict[str, None] = {}
        for partition in command.partitions:
            touched[partition.topic] = None
            if partition.leader == LEADER_DURING_DELETE:
                self._forget(partition.topic, partition.partition)
            else:
                self._topics.setdefault(partition.topic, {})[partition.partition] = partition
            if self._named is not None:
                self._named.add(partition.topic_partition)
        if command.ends_welcome:
            touched |= dict.fromkeys(self._forget_unnamed())
        self._wake(_BROKERS)
        for topic in touched:
            self._wake(topic)
        return ErrorCode.NONE

    def _replace_brokers(self, live_brokers: tuple[LiveBroker, ...]) -> None:
        in_order = sorted(live_brokers, key=lambda broker: broker.broker_id)
        self._brokers = MappingProxyType({broker.broker_id: broker for broker in in_order})
        nodes: dict[str, dict[BrokerId, Endpoint]] = {}
        for broker in in_order:
            for endpoint in broker.endpoints:
                nodes.setdefault(endpoint.listener_name, {})[broker.broker_id] = endpoint
        self._nodes = nodes

    def _forget_unnamed(self) -> list[str]:
        """The topics that this touched."""
        named, self._named = self._named, None
        if named is None:
            return []
        unnamed = [each.topic_partition for each in self if each.topic_partition not in named]
        for at in unnamed:
            self._forget(at.topic, at.partition)
        return [at.topic for at in unnamed]

    def _forget(self, topic: str, partition: int) -> None:
        partitions = self._topics.get(topic)
        if partitions is not None:
            partitions.pop(partition, None)
            if not partitions:
                del self._topics[topic]

    # Waiting.

    async def wait_until(self, topics: list[str], holds: Callable[[], bool], *, timeout_ms: int) -> bool:
        """Wait until `holds()` is true, asked again when one of `topics` changes; False when the time is up first."""
        if holds():
            return True
        waiter = _Waiter(holds)
        for topic in topics:
            self._waiters.setdefault(topic, {})[waiter] = None
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await waiter.done
        except TimeoutError:
            return holds()
        finally:
            for topic in topics:
                self._stop_waiting(topic, waiter)
        return True

    async def wait_for_all(self, broker_id: BrokerId, topics: Mapping[str, int], *, timeout_ms: int) -> bool:
        """Wait until this broker lives and so many partitions of topics are known; False when the time is up first.

        A controller that takes over tells of the brokers first and of partitions, in parts, afterwards.
        """
        missing = list(topics.items())

        def is_told() -> bool:
            while missing and len(self._topics.get(missing[-1][0], ())) >= missing[-1][1]:
                missing.pop()
            return not missing and broker_id in self._brokers

        return await self.wait_until([_BROKERS], is_told, timeout_ms=timeout_ms)

    def _stop_waiting(self, topic: str, waiter: "_Waiter") -> None:
        waiters = self._waiters.get(topic)
        if waiters is not None:
            waiters.pop(waiter, None)
            if not waiters:
                del self._waiters[topic]

    def _wake(self, topic: str) -> None:
        for waiter in tuple(self._waiters.get(topic, ())):
            if not waiter.done.done() and waiter.holds():
                waiter.done.set_result(None)


class _Waiter:
    """A condition on the view and who waits for it."""

    __slots__ = ("done", "holds")

    def __init__(self, holds: Callable[[], bool]) -> None:
        self.holds = holds
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
