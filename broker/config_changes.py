"""What operators change in ZooKeeper while the broker runs: settings of topics and of brokers.

Whoever changes an entity's settings writes them below /config and then a notification below /config/changes (Kafka's
DynamicConfig). On each notification the entity is read again. A topic's settings act on its partitions here at once;
those of brokers make the broker's configuration (`broker.dynamic_config`), and all topics here follow where it gives
them other defaults.

At the start, and after a connection was lost, all notifications that are there and were not heard yet are heard: they
bear numbers, and stay for a quarter of an hour. Whoever hears of one removes what is so much older than it, by
ZooKeeper's clock.
"""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import Final

from barnabas.protocol.ids import BrokerId
from broker.dynamic_config import DynamicConfig, read_layers
from broker.topic_configs import TopicConfigs, default_topic_values
from replication.replicas import Replicas
from zk_schema import paths
from zk_schema.json_text import InvalidPayload
from zk_schema.ops import Delete, OutcomeUnknown, SessionLost, WriteRefused, ZooKeeperError
from zk_schema.payloads import ConfigChange
from zk_schema.port import ChildrenChanged, Resync, ZooKeeper, ZooKeeperEvent

log = logging.getLogger(__name__)

_KEPT_MS: Final = 15 * 60 * 1000
_AT_ONCE: Final = 100
"""Topics whose settings are asked for together."""


class ConfigChanges:
    """See the module."""

    def __init__(
        self,
        broker_id: BrokerId,
        zk: ZooKeeper,
        dynamic_config: DynamicConfig,
        replicas: Replicas,
    ) -> None:
        self._broker_id = broker_id
        self._zk = zk
        self._dynamic_config = dynamic_config
        self._topic_configs = TopicConfigs(dynamic_config, zk)
        self._replicas = replicas
        self._heard = ""
        self._has_read_broker = False
        self._topics_lag = False
        self._changed = asyncio.Event()
        self._waiting: dict[asyncio.Future[None], str] = {}

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

    async def until_heard(self, notification: str, *, timeout_ms: int) -> bool:
        """Wait until the notification at this path was attended to here; whether it was in that time."""
        name = notification.rpartition("/")[2]
        if name <= self._heard:
            return True
        heard: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[heard] = name
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_ms / 1000):
                    await heard
            return heard.done() and not heard.cancelled()
        finally:
            del self._waiting[heard]

    def _on_event(self, event: ZooKeeperEvent) -> None:
        if isinstance(event, Resync) or event == ChildrenChanged(paths.CONFIG_CHANGES):
            self._changed.set()

    async def _hear(self) -> None:
        names = await self._zk.children(paths.CONFIG_CHANGES, watch=True) or []
        if not self._has_read_broker:
            await self._read_brokers()
        for name in sorted(name for name in names if name > self._heard):
            znode = await self._zk.get(f"{paths.CONFIG_CHANGES}/{name}")
            if znode is not None:
                await self._apply(name, znode.data)
            self._heard = name
            for waiting, awaited in self._waiting.items():
                if awaited <= name and not waiting.done():
                    waiting.set_result(None)
        await self._remove_old(names)

    async def _remove_old(self, names: Sequence[str]) -> None:
        """Those that everybody had time to hear; they are in the order in which they were made."""
        newest = None if len(names) < 2 else await self._zk.exists(f"{paths.CONFIG_CHANGES}/{names[-1]}")
        if newest is None:
            return
        for name in names[:-1]:
            path = f"{paths.CONFIG_CHANGES}/{name}"
            stat = await self._zk.exists(path)
            if stat is not None and stat.created_ms >= newest.created_ms - _KEPT_MS:
                return
            # Another broker may be faster.
            with contextlib.suppress(WriteRefused, OutcomeUnknown):
                await self._zk.write(Delete(path))

    async def _apply(self, name: str, data: bytes) -> None:
        try:
            kind, _, entity = ConfigChange.decode(data).entity_path.partition("/")
        except InvalidPayload as error:
            log.error("%s/%s cannot be read: %s", paths.CONFIG_CHANGES, name, error)
            return
        if kind == paths.TOPICS:
            await self._read_topic(entity)
        elif kind == paths.CONFIG_BROKERS and entity in (paths.DEFAULT_ENTITY, str(self._broker_id)):
            await self._read_brokers()

    async def _read_topic(self, topic: str) -> None:
        changed = self._replicas.configure(topic, await self._topic_configs.settings(topic))
        log.info("topic %s: other settings act on %d replicas", topic, changed)

    async def _read_brokers(self) -> None:
        of_all_brokers, of_this_broker = await read_layers(self._zk, self._broker_id)
        before = default_topic_values(self._dynamic_config.current)
        self._dynamic_config.apply(of_all_brokers=of_all_brokers, of_this_broker=of_this_broker)
        self._has_read_broker = True
        if before != default_topic_values(self._dynamic_config.current):
            self._topics_lag = True
        if self._topics_lag:
            await self._have_topics_follow()
            self._topics_lag = False

    async def _have_topics_follow(self) -> None:
        # Who assigns replicas by settings that were read before finds by this that they are others now.
        self._replicas.configured += 1
        topics = list(dict.fromkeys(partition.topic_partition.topic for partition in self._replicas.partitions()))
        for start in range(0, len(topics), _AT_ONCE):
            some = topics[start : start + _AT_ONCE]
            found = await asyncio.gather(*map(self._topic_configs.settings, some))
            for topic, settings in zip(some, found, strict=True):
                self._replicas.configure(topic, settings)
        log.info("broker %d: other settings act on %d topics", self._broker_id, len(topics))
