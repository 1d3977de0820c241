"""A broker's configuration as of now: the one owner of what ZooKeeper lays over the broker's file (KIP-226).

Who needs a value asks `current` each time, or listens. What cannot be is left out with a warning and changes nothing.
Owned by the event loop; `broker.config_changes` tells it what stands in ZooKeeper.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from barnabas.protocol.ids import BrokerId
from broker.config import BrokerConfig
from broker.config_layers import lay
from zk_schema import paths
from zk_schema.json_text import InvalidPayload
from zk_schema.payloads import EntityConfig
from zk_schema.port import ZooKeeper

log = logging.getLogger(__name__)

_MOST_WARNINGS: Final = 20

OnChange = Callable[[BrokerConfig, BrokerConfig], None]
"""Is called with the configuration before and the one from now on."""


class DynamicConfig:
    """See the module."""

    def __init__(self, config: BrokerConfig) -> None:
        self._current = config
        self._listeners: list[OnChange] = []
        self._left_out: list[str] = []

    @property
    def current(self) -> BrokerConfig:
        """What stands now. It never changes: the next change makes another."""
        return self._current

    def listen(self, on_change: OnChange) -> None:
        """Call at each change, after `current` is the new one."""
        self._listeners.append(on_change)

    def apply(self, *, of_all_brokers: Mapping[str, str], of_this_broker: Mapping[str, str]) -> bool:
        """Take what stands in ZooKeeper; whether it changes anything."""
        old = self._current
        new, left_out = lay(old, of_all_brokers=of_all_brokers, of_this_broker=of_this_broker)
        self._warn(left_out)
        if new.layers == old.layers:
            return False
        self._current = new
        for name in sorted(new.given.keys() | old.given.keys()):
            if new.given.get(name) != old.given.get(name):
                # No key that may be set there is a secret.
                log.info("%s=%s from now on", name, new.given.get(name, "(its default)"))
        for listener in self._listeners:
            listener(old, new)
        return True

    def _warn(self, left_out: list[str]) -> None:
        """Each reason once for as long as it lasts."""
        known, self._left_out = set(self._left_out), left_out
        reasons = [reason for reason in left_out if reason not in known]
        for reason in reasons[:_MOST_WARNINGS]:
            log.warning("set in ZooKeeper and left out: %.300s", reason)
        if len(reasons) > _MOST_WARNINGS:
            log.warning("set in ZooKeeper and left out: %d more", len(reasons) - _MOST_WARNINGS)


async def read_layers(zk: ZooKeeper, broker_id: BrokerId) -> tuple[dict[str, str], dict[str, str]]:
    """What ZooKeeper sets for all brokers, and for this one. Raises ZooKeeperError."""
    of_all_brokers, of_this_broker = await asyncio.gather(
        read_entity(zk, paths.broker_entity(None)), read_entity(zk, paths.broker_entity(broker_id))
    )
    return of_all_brokers, of_this_broker


async def read_entity(zk: ZooKeeper, entity: str) -> dict[str, str]:
    """What is set for an entity; nothing, with a line in the log, where that cannot be read. Raises ZooKeeperError."""
    path = paths.entity_config(entity)
    znode = await zk.get(path)
    if znode is None:
        return {}
    try:
        return dict(EntityConfig.decode(znode.data).config)
    except InvalidPayload as error:
        log.error("%s cannot be read: %s", path, error)
        return {}
