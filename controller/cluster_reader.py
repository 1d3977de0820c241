"""Reading the cluster from ZooKeeper into the controller's events, watches armed.

Reads are pipelined, at most `WINDOW` at a time, so that taking over many partitions costs a few round trips and leaves
the loop turning. Requests to delete topics are read before the topics: whatever is asked to go is then among them. A
znode that cannot be understood is logged and counts as missing; its watch stays armed, so a correction is seen.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Container, Iterable
from typing import Final, TypeVar

from barnabas.protocol.ids import BrokerEpoch, BrokerId, TopicPartition
from controller.commands import Endpoint, LiveBroker
from controller.events import (
    BrokersRead,
    ClusterRead,
    ConfigChangesRead,
    DeletionsRead,
    FeaturesRead,
    IsrChangesRead,
    LogDirectoryEventsRead,
    PreferredElectionsRead,
    ReassignmentsRead,
    TopicConfigRead,
    TopicNamesRead,
    TopicZnodeRead,
)
from controller.office import batches
from controller.state import Assignment, RegisteredBroker, StateRead, TopicRead
from zk_schema import paths
from zk_schema.json_text import InvalidPayload
from zk_schema.ops import ReadForbidden, Znode
from zk_schema.payloads import (
    BrokerRegistration,
    ConfigChange,
    EntityConfig,
    FeatureZnode,
    IsrChangeNotification,
    LogDirEvent,
    PartitionState,
    PreferredReplicaElection,
    ReassignPartitions,
    TopicAssignment,
)
from zk_schema.port import ZooKeeper

log = logging.getLogger(__name__)

WINDOW: Final = 250
K = TypeVar("K")
V = TypeVar("V")


class ClusterReader:
    """Reads for one term in office."""

    def __init__(self, zk: ZooKeeper) -> None:
        self._zk = zk
        self._seen_changes: frozenset[str] = frozenset()

    async def everything(self) -> ClusterRead:
        # All are under way at once; ZooKeeper answers in the order of the questions.
        brokers, deletions, topics = await asyncio.gather(self.brokers(), self.deletions(), self.topics(known=()))
        partitions = (
            TopicPartition(name, number) for name, topic in topics.unknown.items() for number in topic.partitions
        )
        states = await _read_all(partitions, self.state)
        return ClusterRead(brokers.brokers, topics.unknown, states, deletions.names)

    async def brokers(self) -> BrokersRead:
        names = await self._zk.children(paths.BROKER_IDS, watch=True) or []
        ids = sorted(BrokerId(int(name)) for name in names if name.isdecimal())
        return BrokersRead(await _read_all(ids, self._broker))

    async def topics(self, *, known: Container[str]) -> TopicNamesRead:
        """All names, and the znodes of those not in `known`. One that goes in between counts as not there."""
        names = await self._zk.children(paths.BROKER_TOPICS, watch=True) or []
        unknown = await _read_all([name for name in names if name not in known], self._topic)
        return TopicNamesRead(frozenset(name for name in names if name in known or name in unknown), unknown)

    async def topic(self, name: str) -> TopicZnodeRead:
        return TopicZnodeRead(name, await self._topic(name))

    async def deletions(self) -> DeletionsRead:
        return DeletionsRead(tuple(await self._zk.children(paths.DELETE_TOPICS, watch=True) or ()))

    async def reassignments(self) -> ReassignmentsRead | None:
        """What a tool wrote into /admin/reassign_partitions; nothing, to be removed, where it cannot be read."""
        znode = await self._get(paths.REASSIGN_PARTITIONS, watch=True)
        if znode is None:
            return None
        asked = _decode(paths.REASSIGN_PARTITIONS, ReassignPartitions.decode, znode)
        return ReassignmentsRead({} if asked is None else asked.partitions, znode.stat.version)

    async def preferred_elections(self) -> PreferredElectionsRead | None:
        """What a tool wrote into /admin/preferred_replica_election; nothing, to be removed, where it cannot be read."""
        znode = await self._get(paths.PREFERRED_REPLICA_ELECTION, watch=True)
        if znode is None:
            return None
        asked = _decode(paths.PREFERRED_REPLICA_ELECTION, PreferredReplicaElection.decode, znode)
        return PreferredElectionsRead(() if asked is None else asked.partitions, znode.stat.version)

    async def log_directory_events(self) -> LogDirectoryEventsRead:
        """Which brokers lost a log directory."""
        found = await self._notifications(paths.LOG_DIR_EVENT_NOTIFICATION, LogDirEvent.decode)
        brokers = dict.fromkeys(event.broker_id for event in found.values() if event is not None)
        return LogDirectoryEventsRead(tuple(brokers), tuple(found))

    async def isr_changes(self) -> IsrChangesRead:
        """Whose in-sync set the leaders of an older Kafka changed."""
        found = await self._notifications(paths.ISR_CHANGE_NOTIFICATION, IsrChangeNotification.decode)
        partitions = dict.fromkeys(at for change in found.values() if change is not None for at in change.partitions)
        return IsrChangesRead(tuple(partitions), tuple(found))

    async def config_changes(self) -> ConfigChangesRead:
        """The topics whose configuration changed since this was read last; at first since nobody knows when."""
        parent = paths.CONFIG_CHANGES
        names = await self._zk.children(parent, watch=True) or []
        fresh = [f"{parent}/{name}" for name in names if name not in self._seen_changes]
        self._seen_changes = frozenset(names)
        changes = (await _read_all(fresh, self._get)).items()
        decoded = [_decode(path, ConfigChange.decode, znode) for path, znode in changes]
        entities = [change.entity_path for change in decoded if change is not None]
        topics = [path.removeprefix("topics/") for path in entities if path.startswith("topics/")]
        return ConfigChangesRead(tuple(dict.fromkeys(topics)))

    async def _notifications(self, parent: str, decode: Callable[[bytes], V]) -> dict[str, V | None]:
        """The paths of the children and what they say, None where that cannot be read."""
        names = await self._zk.children(parent, watch=True) or []
        znodes = await _read_all([f"{parent}/{name}" for name in names], self._get)
        return {path: _decode(path, decode, znode) for path, znode in znodes.items()}

    async def features(self) -> FeaturesRead | None:
        znode = await self._get(paths.FEATURE)
        read = None if znode is None else _decode(paths.FEATURE, FeatureZnode.decode, znode)
        return None if znode is None or read is None else FeaturesRead(read, znode.stat.version)

    async def state(self, at: TopicPartition) -> StateRead | None:
        znode = await self._get(paths.partition_state(at.topic, at.partition))
        state = None if znode is None else _decode(str(at), PartitionState.decode, znode)
        return None if znode is None or state is None else StateRead(state, znode.stat.version, znode.stat.mzxid)

    async def topic_config(self, name: str) -> TopicConfigRead | None:
        znode = await self._get(paths.topic_config(name))
        config = None if znode is None else _decode(f"configuration of {name}", EntityConfig.decode, znode)
        return None if config is None else TopicConfigRead(config.config)

    async def tree(self, root: str) -> tuple[str, ...]:
        """The paths at and below `root`, parents first; none when it does not exist."""
        found: list[str] = []
        level = [root]
        while level:
            children = await _read_all(level, self._zk.children)
            found += children
            level = [f"{path}/{name}" for path, names in children.items() for name in names]
        return tuple(found)

    async def _get(self, path: str, *, watch: bool = False) -> Znode | None:
        try:
            return await self._zk.get(path, watch=watch)
        except ReadForbidden as error:
            log.error("%s is ignored: %s", path, error)
            return None

    async def _broker(self, broker: BrokerId) -> RegisteredBroker | None:
        znode = await self._get(paths.broker(broker), watch=True)
        registration = None if znode is None else _decode(f"broker {broker}", BrokerRegistration.decode, znode)
        if znode is None or registration is None:
            return None
        if registration.control_endpoint is None:
            log.error("broker %d names no control endpoint: it is ignored, as it cannot be told anything", broker)
            return None
        endpoints = tuple(
            Endpoint(each.listener_name, each.host or "", each.port, each.security_protocol)
            for each in registration.endpoints
        )
        epoch = BrokerEpoch(znode.stat.czxid)
        info = LiveBroker(broker, endpoints, registration.rack, registration.control_endpoint, epoch)
        return RegisteredBroker(info, epoch, is_intact=registration.clean_stop is not False)

    async def _topic(self, name: str) -> TopicRead | None:
        znode = await self._get(paths.topic(name), watch=True)
        assignment = None if znode is None else _decode(f"topic {name}", TopicAssignment.decode, znode)
        if znode is None or assignment is None:
            return None
        partitions = {
            number: Assignment(
                replicas=replicas,
                adding=assignment.adding_replicas.get(number, ()),
                removing=assignment.removing_replicas.get(number, ()),
            )
            for number, replicas in sorted(assignment.partitions.items())
        }
        return TopicRead(partitions, znode.stat.version, assignment.topic_id)


def _decode(what: str, decode: Callable[[bytes], V], znode: Znode) -> V | None:
    try:
        return decode(znode.data)
    except InvalidPayload as error:
        log.error("%s is ignored: %s", what, error)
        return None


async def _read_all(keys: Iterable[K], read: Callable[[K], Awaitable[V | None]]) -> dict[K, V]:
    """What exists of `keys`, read in windows, in their order."""
    found: dict[K, V] = {}
    for window in batches(keys, WINDOW):
        values = await asyncio.gather(*(read(key) for key in window))
        found.update((key, value) for key, value in zip(window, values, strict=True) if value is not None)
    return found
