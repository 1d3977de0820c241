"""This broker's place in the cluster: cluster id, broker id, and the registration that says it is alive.

A registration lives as long as the ZooKeeper session. When the session expired and a new one is there, the broker
registers again and has a new broker epoch from then on; commands meant for the earlier registration are refused by it.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from barnabas.protocol.ids import BrokerEpoch, BrokerId
from barnabas.runtime.clock import Clock
from barnabas.runtime.tasks import Supervisor
from broker.boot_state import BootState
from broker.config import BrokerConfig
from zk_schema.cluster_id import create_or_get_cluster_id, create_persistent_paths, new_cluster_id
from zk_schema.json_text import InvalidPayload
from zk_schema.ops import SessionLost
from zk_schema.payloads import BrokerRegistration, Endpoint
from zk_schema.port import Resync, ZooKeeper, ZooKeeperEvent
from zk_schema.producer_id_block import generate_broker_id
from zk_schema.registration import BrokerIdTaken, register_broker

log = logging.getLogger(__name__)

NO_BROKER_ID: Final = BrokerId(-1)
_EXPIRY_GRACE_MS: Final = 2_000


class MembershipRefused(Exception):
    """This broker cannot be a member as it is configured; the text says why."""


class Membership:
    """See the module. `broker_epoch` is -1 until the broker is registered."""

    def __init__(self, zk: ZooKeeper, config: BrokerConfig, *, clock: Clock, supervisor: Supervisor) -> None:
        self.broker_epoch = BrokerEpoch(-1)
        self.registered = asyncio.Event()
        self._zk = zk
        self._config = config
        self._clock = clock
        self._supervisor = supervisor
        self._broker_id = NO_BROKER_ID
        self._registration: BrokerRegistration | None = None
        self._boot: BootState | None = None
        self._unlisten: Callable[[], None] | None = None
        self._renewing: asyncio.Task[None] | None = None

    async def cluster_id(self, rng: random.Random) -> str:
        """The cluster's id, made by the first broker; also the znodes that every broker expects.

        Raises:
            MembershipRefused: /cluster/id holds something else.
        """
        await create_persistent_paths(self._zk)
        try:
            return await create_or_get_cluster_id(self._zk, new_cluster_id(rng))
        except InvalidPayload as error:
            raise MembershipRefused(f"/cluster/id: {error}") from error

    async def broker_id(self, stored: BrokerId | None) -> BrokerId:
        """The id that is configured, or stored in the log directories, or a new one.

        Raises:
            MembershipRefused: the configured and the stored id differ, or there is none and none may be generated.
        """
        configured = self._config.broker_id
        if configured >= 0:
            if stored is not None and stored != configured:
                raise MembershipRefused(
                    f"broker.id={configured}, but meta.properties in log.dirs says {stored}: "
                    "set broker.id to that, or give this broker directories of its own"
                )
            return BrokerId(configured)
        if stored is not None:
            return stored
        if not self._config.broker_id_generation_enable:
            raise MembershipRefused("broker.id is not set and broker.id.generation.enable is false")
        return await generate_broker_id(self._zk, reserved_max_id=self._config.reserved_broker_max_id)

    async def join(
        self, broker_id: BrokerId, ports: Mapping[str, int], control_endpoint: str, boot: BootState | None = None
    ) -> None:
        """Register, and stay registered until `stop`. `ports` are those that the listeners are bound to.

        Raises:
            MembershipRefused: another broker is alive with this id.
        """
        endpoints = tuple(
            Endpoint(listener.name, listener.host, listener.port or ports[listener.name], listener.security_protocol)
            for listener in self._config.listeners.advertised
        )
        self._broker_id = broker_id
        self._boot = boot
        self._registration = BrokerRegistration(
            endpoints=endpoints,
            timestamp_ms=self._clock.wall_ms(),
            rack=self._config.broker_rack,
            control_endpoint=control_endpoint,
        )
        await self._register()
        self._unlisten = self._zk.listen(self._on_event)

    def stop(self) -> None:
        """Register no more; the end of the session removes the registration."""
        if self._unlisten is not None:
            self._unlisten()
        if self._renewing is not None:
            self._renewing.cancel()

    async def _register(self) -> None:
        assert self._registration is not None
        registration = self._registration
        if self._boot is not None:
            registration = replace(registration, boot_id=self._boot.boot_id, clean_stop=self._boot.is_intact)
        try:
            self.broker_epoch = await register_broker(
                self._zk,
                self._broker_id,
                registration,
                # A broker that was killed and started again finds its earlier session until that expires.
                wait_ms=self._config.zookeeper_session_timeout_ms + _EXPIRY_GRACE_MS,
            )
        except BrokerIdTaken as error:
            raise MembershipRefused(f"broker.id={self._broker_id}: {error}") from error
        self.registered.set()

    def _on_event(self, event: ZooKeeperEvent) -> None:
        if isinstance(event, Resync) and event.new_session:
            log.warning("broker %d: a new ZooKeeper session, registering again", self._broker_id)
            if self._renewing is not None:
                self._renewing.cancel()
            self._renewing = self._supervisor.spawn(self._renew(), name="registration in ZooKeeper")

    async def _renew(self) -> None:
        # If this session is lost as well, the next one comes with an event of its own.
        with contextlib.suppress(SessionLost):
            await self._register()
