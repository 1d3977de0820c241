"""Faults of the network: who is cut off from whom, in which direction."""

from enum import StrEnum

from tests.failover.load.history_file import now_us
from tests.failover.world.fault import BrokerFault, DidNotAct, DidNotHeal, Role, Scene, prove_serves
from tests.failover.world.network import Cut, Host, both_ways


class From(StrEnum):
    """Whom a broker does not reach. OTHERS are brokers, ZooKeepers and clients."""

    OTHERS = "everybody"
    BROKERS = "the other brokers"
    ZOOKEEPERS = "ZooKeeper"


class Direction(StrEnum):
    """Which way is cut. Of one way only what is for listening ports is dropped: answers still pass."""

    BOTH = "both ways"
    TO = "what it is sent"
    FROM = "what it sends"


class Isolate(BrokerFault):
    """The broker that has a role is cut off."""

    needs_network = True

    def __init__(
        self, role: Role, cut_from: From, direction: Direction = Direction.BOTH, *, seconds: float = 10.0
    ) -> None:
        super().__init__(role)
        self.cut_from = cut_from
        self.direction = direction
        self.hold_seconds = seconds
        # Who keeps its session with ZooKeeper is not deposed.
        self.fails_over = cut_from is not From.BROKERS and direction is not Direction.TO

    @property
    def name(self) -> str:
        return f"the {self.role} cut off from {self.cut_from}, {self.direction}"

    def start(self, scene: Scene) -> None:
        self._cuts = [cut for other, ports in self._others(scene) for cut in self._cut(other, ports)]
        # A pair that is open before is closed by the cut, not by something else.
        source, target, port = self._probe(scene)
        assert scene.world.network.can_connect(source, target, port)
        scene.world.network.cut(self._cuts)
        self.moment_us = now_us()

    def prove_acted(self, scene: Scene) -> str:
        network = scene.world.network
        source, target, port = self._probe(scene)
        if network.can_connect(source, target, port):
            raise DidNotAct(f"{source.name} reaches {target.name}:{port}")
        if not scene.wait_until(lambda: network.dropped(self._cuts) > 0, seconds=5):
            raise DidNotAct("no packet met the cut")
        return f"{source.name} does not reach {target.name}:{port}; {len(self._cuts)} cuts"

    def stop(self, scene: Scene) -> None:
        self.dropped = scene.world.network.heal(self._cuts)

    def prove_healed(self, scene: Scene) -> str:
        network = scene.world.network
        source, target, port = self._probe(scene)
        if network.rules() or not network.can_connect(source, target, port, seconds=3):
            raise DidNotHeal(f"{source.name} does not reach {target.name}:{port}; {network.rules()} rules")
        return f"{self.dropped} packets had been dropped; {prove_serves(scene, self.broker)}"

    def _others(self, scene: Scene) -> list[tuple[Host, tuple[int, ...]]]:
        world = scene.world
        brokers: list[tuple[Host, tuple[int, ...]]] = []
        brokers += [(one.host, one.ports) for one in world.brokers.values() if one is not self.broker]
        zookeepers: list[tuple[Host, tuple[int, ...]]] = []
        zookeepers += [
            (host, (world.zookeepers.members[server_id].port,)) for server_id, host in world.zookeepers.hosts.items()
        ]
        if self.cut_from is From.BROKERS:
            return brokers
        if self.cut_from is From.ZOOKEEPERS:
            return zookeepers
        return [*brokers, *zookeepers, (world.clients, ())]

    def _cut(self, other: Host, ports: tuple[int, ...]) -> list[Cut]:
        if self.direction is Direction.BOTH:
            return both_ways(self.broker.host, other)
        if self.direction is Direction.TO:
            return [Cut(other, self.broker.host, self.broker.ports)]
        return [Cut(self.broker.host, other, ports)] if ports else []

    def _probe(self, scene: Scene) -> tuple[Host, Host, int]:
        """A connection that cannot be made while the fault lasts."""
        other, ports = self._others(scene)[0]
        if self.direction is Direction.TO:
            return other, self.broker.host, self.broker.ports[0]
        return self.broker.host, other, ports[0]
