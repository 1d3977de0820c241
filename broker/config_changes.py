"""What operators change in ZooKeeper while the broker runs: settings of topics, and the bounds of replication.

Tools write an entity's settings below /config and then a notification below /config/changes (Kafka's DynamicConfig).
On each notification the entity is read again. A topic's settings act on its partitions here at once. Of a broker's the
three bounds of replication act, which Kafka 2.7 knows nowhere else; others are told in the log and left alone.

At the start, and after a connection was lost, all notifications that are there and were not heard yet are heard: they
stay for a quarter of an hour, and bear numbers.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from barnabas.protocol.ids import BrokerId
from broker.topic_configs import TopicConfigs
from replication.quota import ReplicationQuotas
from replication.replicas import Replicas
from zk_schema import paths
from zk_schema.json_text import InvalidPayload
from zk_schema.ops import SessionLost, ZooKeeperError
from zk_schema.payloads import ConfigChange, EntityConfig
from zk_schema.port import ChildrenChanged, Resync, ZooKeeper, ZooKeeperEvent

log = logging.getLogger(__name__)

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
MOVE_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
_RATES: Final = (LEADER_RATE, FOLLOWER_RATE, MOVE_RATE)


class ConfigChanges:
    """See the module."""

    def __init__(
        self,
        broker_id: BrokerId,
        zk: ZooKeeper,
        topic_configs: TopicConfigs,
        replicas: Replicas,
    ) -> None:
        self._broker_id = broker_id
        self._zk = zk
        self._topic_configs = topic_configs
        self._replicas = replicas
        self._heard = ""
        self._has_read_broker = False
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Hear of changes until cancelled."""
        unlisten = self._zk.listen(self._on_event)
        self._changed.set()
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                try:
                    await self._hear()
                except SessionLost:
                    # The next session announces itself, and then they are read.
                    continue
                except ZooKeeperError as error:
                    log.error("changes of configuration cannot be read: %s", error)
        finally:
            unlisten()

    def _on_event(self, event: ZooKeeperEvent) -> None:
        if isinstance(event, Resync) or event == ChildrenChanged(paths.CONFIG_CHANGES):
            self._changed.set()

    async def _hear(self) -> None:
        names = await self._zk.children(paths.CONFIG_CHANGES, watch=True) or []
        if not self._has_read_broker:
            await self._read_broker()
        for name in sorted(name for name in names if name > self._heard):
            znode = await self._zk.get(f"{paths.CONFIG_CHANGES}/{name}")
            if znode is not None:
                await self._apply(name, znode.data)
            self._heard = name

    async def _apply(self, name: str, data: bytes) -> None:
        try:
            kind, _, entity = ConfigChange.decode(data).entity_path.partition("/")
        except InvalidPayload as error:
            log.error("%s/%s cannot be read: %s", paths.CONFIG_CHANGES, name, error)
            return
        if kind == paths.TOPICS:
            await self._read_topic(entity)
        elif kind == paths.CONFIG_BROKERS and entity in (paths.DEFAULT_ENTITY, str(self._broker_id)):
            await self._read_broker()

    async def _read_topic(self, topic: str) -> None:
        changed = self._replicas.configure(topic, await self._topic_configs.settings(topic))
        log.info("topic %s: other settings act on %d replicas", topic, changed)

    async def _read_broker(self) -> None:
        given: dict[str, str] = {}
        for path in (paths.broker_config(None), paths.broker_config(self._broker_id)):
            znode = await self._zk.get(path)
            if znode is not None:
                try:
                    given |= EntityConfig.decode(znode.data).config
                except InvalidPayload as error:
                    log.error("%s cannot be read: %s", path, error)
        self._has_read_broker = True
        for name in given:
            if name not in _RATES:
                log.warning("broker %d: %s is set in ZooKeeper and does not act", self._broker_id, name)
        apply_rates(self._replicas.quotas, given)


def apply_rates(quotas: ReplicationQuotas, given: Mapping[str, str]) -> None:
    """Bound replication as these settings say; what is not a number of bytes is left out."""
    for name, quota in ((LEADER_RATE, quotas.leader), (FOLLOWER_RATE, quotas.follower), (MOVE_RATE, quotas.moves)):
        text = given.get(name)
        bound = int(text) if text is not None and text.isascii() and text.isdecimal() else None
        if text is not None and bound is None:
            log.warning("%s is %s; allowed is a number of bytes", name, text)
        if quota.bytes_per_second != bound:
            quota.bytes_per_second = bound
            log.info("%s: %s", name, "no bound" if bound is None else f"{bound} bytes a second")
