"""Settings of topics and brokers, changed in ZooKeeper with a notification, as by Kafka's kafka-configs."""

from collections.abc import Iterable, Mapping
from typing import Final

from barnabas.simulation.world import World
from zk_schema import paths
from zk_schema.memory import MemorySession
from zk_schema.ops import Create, OutcomeUnknown, Set, WriteRefused
from zk_schema.payloads import ConfigChange, EntityConfig

THROTTLED: Final = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


class SettingsTool:
    """A session of its own, of the process in which it is made."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._session: MemorySession | None = None

    async def change_topic(self, topic: str, changes: Mapping[str, str | None]) -> None:
        """Set these, or remove what is None. Raises ZooKeeperError."""
        await self._change(paths.topic_entity(topic), changes)

    async def change_broker(self, number: int, changes: Mapping[str, str | None]) -> None:
        """Set these for one broker, or remove what is None. Raises ZooKeeperError."""
        await self._change(paths.broker_entity(number), changes)

    async def throttle(self, topics: Iterable[str], *, bytes_per_s: int | None) -> None:
        """Throttle all replicas of the topics on every broker, or with None no longer. Raises ZooKeeperError."""
        rate = None if bytes_per_s is None else str(bytes_per_s)
        for number in self._world.machines:
            await self.change_broker(number, dict.fromkeys(RATES, rate))
        for topic in topics:
            await self.change_topic(topic, dict.fromkeys(THROTTLED, None if rate is None else "*"))

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _change(self, entity: str, changes: Mapping[str, str | None]) -> None:
        if self._session is None:
            self._session = MemorySession(self._world.zookeeper)
            await self._session.open()
        path = paths.entity_config(entity)
        while True:
            znode = await self._session.get(path)
            values = {} if znode is None else dict(EntityConfig.decode(znode.data).config)
            for key, value in changes.items():
                if value is None:
                    values.pop(key, None)
                else:
                    values[key] = value
            data = EntityConfig(values).encode()
            operation = Create(path, data) if znode is None else Set(path, data, znode.stat.version)
            told = Create(paths.CONFIG_CHANGE_PREFIX, ConfigChange(entity).encode(), sequential=True)
            try:
                await self._session.write(operation)
                await self._session.write(told)
            except (WriteRefused, OutcomeUnknown):
                # Somebody else changed it, or nobody knows: to set it again does no harm.
                continue
            return
