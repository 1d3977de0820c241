"""What a fault is: it starts, proves that it acted, stops, and proves that it healed.

A fault that cannot prove that it acted fails the drill: an injection that did nothing must not look like a success.
"""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from barnabas.launcher.broker_process import answers_api_versions
from barnabas.protocol.ids import TopicPartition
from tests.failover.world.broker_node import BrokerNode
from tests.failover.world.world import World


class DidNotAct(AssertionError):
    """The fault was injected and the world shows no trace of it."""


class DidNotHeal(AssertionError):
    """The fault was taken back and the world still shows it."""


class Role(StrEnum):
    """Whom a fault is for: the leader of a partition of the first topic, another of its replicas, the controller."""

    LEADER = "leader"
    FOLLOWER = "follower"
    CONTROLLER = "controller"


@dataclass(frozen=True, slots=True)
class Scene:
    """Where a fault is played: the topics that are written to, and how to wait while the load is watched."""

    world: World
    topics: tuple[str, ...]
    watch: Callable[[float], None]

    def cast(self, role: Role, partition: int = 0) -> BrokerNode:
        """Who has the role now, as far as it is one of that partition."""
        view = self.world.view
        controller = view.controller()
        if role is Role.CONTROLLER:
            assert controller is not None
            return self.world.brokers[controller]
        led = view.partitions(self.topics)[TopicPartition(self.topics[0], partition)]
        if role is Role.LEADER:
            return self.world.brokers[led.leader]
        others = [broker_id for broker_id in self.world.brokers if broker_id != led.leader]
        # A follower that is the controller as well would be two faults in one.
        return self.world.brokers[min(others, key=lambda broker_id: (broker_id == controller, broker_id))]

    def wait_until(self, holds: Callable[[], bool], *, seconds: float) -> bool:
        """Whether it held within that time, the load being watched."""
        for _ in range(int(seconds / 0.1)):
            if holds():
                return True
            self.watch(0.1)
        return holds()


class Fault(ABC):
    """One injection. `target` is known from `aim` on, where there is a single one."""

    needs_network: ClassVar[bool] = False
    # The kinds of disk with which it can be played; none: any.
    needs_disk: ClassVar[tuple[str, ...]] = ()
    # Whether writes to what the target led go on elsewhere while the fault lasts, given replicas.
    fails_over: bool = True
    # How long the fault is left alone after it acted, at least.
    hold_seconds: float = 0.0
    target: BrokerNode | None = None
    moment_us: int = 0
    # Of logs, by a power cut.
    lost_bytes: int = 0

    @property
    @abstractmethod
    def name(self) -> str:
        """What is done to whom."""

    def aim(self, scene: Scene) -> list[BrokerNode]:
        """Choose whom it hits; the brokers whose partitions it takes away."""
        return []

    @abstractmethod
    def start(self, scene: Scene) -> None:
        """Inject it; notes `moment_us`, from which on its effect counts."""

    @abstractmethod
    def prove_acted(self, scene: Scene) -> str:
        """What shows that it acts. Raises DidNotAct."""

    @abstractmethod
    def stop(self, scene: Scene) -> None:
        """Take it back."""

    @abstractmethod
    def prove_healed(self, scene: Scene) -> str:
        """What shows that nothing of it is left. Raises DidNotHeal."""


class BrokerFault(Fault):
    """A fault of the one broker that has a role, of a partition where it is one of a partition."""

    def __init__(self, role: Role, *, partition: int = 0) -> None:
        self.role = role
        self.partition = partition

    def aim(self, scene: Scene) -> list[BrokerNode]:
        self.target = scene.cast(self.role, self.partition)
        return [self.target]

    @functools.cached_property
    def broker(self) -> BrokerNode:
        assert self.target is not None, "aim first"
        return self.target


def answers(broker: BrokerNode) -> bool:
    """Whether the broker serves a request."""
    return answers_api_versions(broker.host.address, broker.process.port, timeout_s=0.5)


def prove_serves(scene: Scene, broker: BrokerNode, *, seconds: float = 30.0) -> str:
    """The broker is registered and answers. Raises DidNotHeal."""
    if not scene.wait_until(lambda: broker.id in scene.world.view.brokers() and answers(broker), seconds=seconds):
        raise DidNotHeal(f"broker {broker.id} does not serve again")
    return f"broker {broker.id} is registered, epoch {scene.world.view.broker_epoch(broker.id)}, and answers"
