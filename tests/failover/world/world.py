"""Three ZooKeepers, three brokers and a host for clients, each on its own host.

Made inside a world of its own by `isolation` (network, mounts, processes that end with the first one), or on loopback,
where nothing can be cut off.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from barnabas.protocol.ids import TopicPartition
from tests.failover.world.broker_node import BrokerNode
from tests.failover.world.disks import Disk, Ext4Image, PlainDirectory, SmallMemory
from tests.failover.world.ensemble import Ensemble
from tests.failover.world.network import Network
from tests.failover.world.view import ClusterView

BROKERS = (1, 2, 3)
_ZOOKEEPERS = ("zk1", "zk2", "zk3")
_CLIENTS = "clients"
_PATIENCE_SECONDS = 60.0
_SETTINGS = {
    "replica.lag.time.max.ms": "10000",
    "auto.create.topics.enable": "false",
    "controlled.shutdown.enable": "true",
}


@dataclass(frozen=True, slots=True)
class WorldPlan:
    """What to build. `disk` is `plain`, or `memory` or `ext4` of `disk_bytes`; each broker has so many `disks`."""

    directory: Path
    isolated: bool
    disk: str = "plain"
    disk_bytes: int = 256 << 20
    disks: int = 1
    settings: Mapping[str, str] = field(default_factory=dict)


class World:
    """Running from `start` to `stop`."""

    def __init__(self, plan: WorldPlan) -> None:
        self.plan = plan
        self.directory = plan.directory
        names = [*_ZOOKEEPERS, *(f"broker{broker_id}" for broker_id in BROKERS), _CLIENTS]
        self.network = Network(names, isolated=plan.isolated)
        self.clients = self.network.hosts[_CLIENTS]
        self._cleanup = contextlib.ExitStack()

    def start(self) -> None:
        """Return when all brokers are registered and one is the controller."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.network.build()
        hosts = self.network.hosts
        self.zookeepers = Ensemble(self.directory, [hosts[name] for name in _ZOOKEEPERS])
        self._cleanup.callback(self.zookeepers.stop)
        self.zookeepers.start()
        self.brokers = {broker_id: self._broker(broker_id) for broker_id in BROKERS}
        for broker in self.brokers.values():
            for disk in broker.disks:
                self._cleanup.callback(disk.unmount)
            self._cleanup.callback(broker.kill)
            broker.launch()
        for broker in self.brokers.values():
            broker.await_start()
        self.view = ClusterView(self.zookeepers.connect_string)
        self._cleanup.callback(self.view.close)
        self.await_members()

    def stop(self) -> None:
        self._cleanup.close()

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.process.bootstrap for broker in self.brokers.values())

    def await_members(self, *, seconds: float = _PATIENCE_SECONDS) -> None:
        """Return when every broker is registered and there is a controller."""
        self.view.wait_until(
            lambda: self.view.brokers() == set(BROKERS) and self.view.controller() in BROKERS,
            "all brokers registered, with a controller",
            seconds=seconds,
        )

    def create_topic(
        self, name: str, *, partitions: int, replicas: int, settings: Mapping[str, str] | None = None
    ) -> list[TopicPartition]:
        """Make the topic and return when all its replicas are in sync."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        topic = NewTopic(name, partitions, replicas, config=dict(settings or {}))
        admin.create_topics([topic])[name].result(_PATIENCE_SECONDS)
        self.view.await_full_isr([name], replicas, seconds=_PATIENCE_SECONDS)
        return [TopicPartition(name, number) for number in range(partitions)]

    def _broker(self, broker_id: int) -> BrokerNode:
        return BrokerNode(
            broker_id,
            self.network.hosts[f"broker{broker_id}"],
            [self._disk(f"disk-{broker_id}-{number}") for number in range(self.plan.disks)],
            directory=self.directory / f"broker-{broker_id}",
            zookeeper=self.zookeepers.connect_string,
            settings={**_SETTINGS, **self.plan.settings},
        )

    def _disk(self, name: str) -> Disk:
        path = self.directory / name
        if self.plan.disk == "plain":
            return PlainDirectory(path)
        if self.plan.disk == "memory":
            return SmallMemory(path, size_bytes=self.plan.disk_bytes)
        assert self.plan.disk == "ext4", self.plan.disk
        return Ext4Image(path, image=self.directory / f"{name}.img", size_bytes=self.plan.disk_bytes)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
