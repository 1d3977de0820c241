"""Faults of processes: brokers that are killed, ended, held still; ZooKeepers likewise; sessions that expire."""

import signal

from tests.failover.load.history_file import now_us
from tests.failover.world.broker_node import SESSION_TIMEOUT_MS, BrokerNode
from tests.failover.world.fault import BrokerFault, DidNotAct, DidNotHeal, Fault, Role, Scene, answers, prove_serves


class Kill(BrokerFault):
    """SIGKILL; started again when others have taken over, `down_seconds` later at the earliest, or `at_once`."""

    def __init__(self, role: Role, *, partition: int = 0, down_seconds: float = 0.0, at_once: bool = False) -> None:
        super().__init__(role, partition=partition)
        self.hold_seconds = down_seconds
        self.fails_over = not at_once

    @property
    def name(self) -> str:
        down = f", down for {self.hold_seconds:g} s" if self.hold_seconds else ""
        return f"SIGKILL of the {self.role}{down}" + ("" if self.fails_over else ", started again at once")

    def start(self, scene: Scene) -> None:
        self._epoch = scene.world.view.broker_epoch(self.broker.id)
        self._pid = self.broker.process.pid
        self.moment_us = now_us()
        self.broker.kill()

    def prove_acted(self, scene: Scene) -> str:
        if self.broker.is_running or answers(self.broker):
            raise DidNotAct(f"broker {self.broker.id} lives")
        return f"pid {self._pid} of broker {self.broker.id} is gone"

    def stop(self, scene: Scene) -> None:
        self.broker.launch()

    def prove_healed(self, scene: Scene) -> str:
        def is_registered_anew() -> bool:
            return scene.world.view.broker_epoch(self.broker.id) not in {None, self._epoch}

        if not scene.wait_until(is_registered_anew, seconds=30):
            raise DidNotHeal(f"broker {self.broker.id} is not registered anew")
        return prove_serves(scene, self.broker)


class Terminate(Kill):
    """SIGTERM: the broker hands over what it leads and ends with status 0."""

    @property
    def name(self) -> str:
        return f"SIGTERM of the {self.role}"

    def start(self, scene: Scene) -> None:
        self._epoch = scene.world.view.broker_epoch(self.broker.id)
        self._pid = self.broker.process.pid
        self.moment_us = now_us()
        self.broker.process.send_signal(signal.SIGTERM)

    def prove_acted(self, scene: Scene) -> str:
        if not scene.wait_until(lambda: self.broker.process.exit_status is not None, seconds=40):
            raise DidNotAct(f"broker {self.broker.id} goes on 40 s after SIGTERM")
        status = self.broker.process.wait_for_end()
        assert status == 0, f"broker {self.broker.id} ended with {status} after SIGTERM"
        return f"pid {self._pid} of broker {self.broker.id} ended with status 0"


class Pause(BrokerFault):
    """SIGSTOP for a time, shorter or longer than a session of ZooKeeper."""

    def __init__(self, role: Role, *, seconds: float) -> None:
        super().__init__(role)
        self.hold_seconds = seconds
        # A shorter one is over before anybody else may lead: the pause is not drawn out until somebody does.
        self.fails_over = seconds * 1000 > SESSION_TIMEOUT_MS

    @property
    def name(self) -> str:
        return f"SIGSTOP of the {self.role} for {self.hold_seconds:g} s"

    def start(self, scene: Scene) -> None:
        self.moment_us = now_us()
        self.broker.pause()

    def prove_acted(self, scene: Scene) -> str:
        if not scene.wait_until(lambda: self.broker.is_paused, seconds=1) or answers(self.broker):
            raise DidNotAct(f"broker {self.broker.id} runs")
        return f"broker {self.broker.id} is stopped and answers nobody"

    def stop(self, scene: Scene) -> None:
        self.broker.resume()

    def prove_healed(self, scene: Scene) -> str:
        return prove_serves(scene, self.broker)


class KillAll(Fault):
    """SIGKILL of every broker, and all started again."""

    fails_over = False
    name = "SIGKILL of all brokers"

    def aim(self, scene: Scene) -> list[BrokerNode]:
        return list(scene.world.brokers.values())

    def start(self, scene: Scene) -> None:
        self.moment_us = now_us()
        for broker in scene.world.brokers.values():
            broker.process.send_signal(signal.SIGKILL)
        for broker in scene.world.brokers.values():
            broker.kill()

    def prove_acted(self, scene: Scene) -> str:
        if any(broker.is_running or answers(broker) for broker in scene.world.brokers.values()):
            raise DidNotAct("a broker lives")
        return "no broker runs or answers"

    def stop(self, scene: Scene) -> None:
        for broker in scene.world.brokers.values():
            broker.launch()

    def prove_healed(self, scene: Scene) -> str:
        return "; ".join(prove_serves(scene, broker) for broker in scene.world.brokers.values())


class ExpireSession(BrokerFault):
    """The broker's session with ZooKeeper ends from outside; the broker lives."""

    fails_over = False

    @property
    def name(self) -> str:
        return f"session expiry of the {self.role}"

    def start(self, scene: Scene) -> None:
        self._sessions = self.broker.session_count()
        self._epoch = scene.world.view.broker_epoch(self.broker.id)
        self.moment_us = now_us()
        scene.world.zookeepers.end_session(self.broker.session_id)

    def prove_acted(self, scene: Scene) -> str:
        if not scene.wait_until(lambda: self.broker.session_count() > self._sessions, seconds=20):
            raise DidNotAct(f"broker {self.broker.id} keeps its session")
        return f"broker {self.broker.id} opened session {self.broker.session_id:#x}"

    def stop(self, scene: Scene) -> None:
        """The broker mends it itself."""

    def prove_healed(self, scene: Scene) -> str:
        healed = scene.wait_until(
            lambda: scene.world.view.broker_epoch(self.broker.id) not in {None, self._epoch}, seconds=30
        )
        if not healed:
            raise DidNotHeal(f"broker {self.broker.id} is not registered anew")
        return prove_serves(scene, self.broker)


class KillZooKeeperLeader(Fault):
    """SIGKILL of the ZooKeeper that leads: the others choose another."""

    fails_over = False
    name = "SIGKILL of ZooKeeper's leader"
    hold_seconds = 3.0

    def start(self, scene: Scene) -> None:
        self._killed = scene.world.zookeepers.await_leader()
        self.moment_us = now_us()
        scene.world.zookeepers.members[self._killed].kill()

    def prove_acted(self, scene: Scene) -> str:
        chosen = scene.world.zookeepers.await_leader(other_than=self._killed)
        return f"ZooKeeper {self._killed} led and is gone, {chosen} leads"

    def stop(self, scene: Scene) -> None:
        scene.world.zookeepers.start()

    def prove_healed(self, scene: Scene) -> str:
        modes = scene.world.zookeepers.modes()
        if sorted(modes.values()) != ["follower", "follower", "leader"]:
            raise DidNotHeal(f"{modes}")
        return f"{modes}"


class LoseZooKeeperQuorum(Fault):
    """SIGKILL of two ZooKeepers: nobody decides anything, and brokers go on with what they have."""

    fails_over = False
    name = "ZooKeeper without a quorum"

    def __init__(self, *, seconds: float = 4.0) -> None:
        self.hold_seconds = seconds

    def start(self, scene: Scene) -> None:
        members = scene.world.zookeepers.members
        self._killed = sorted(members)[:2]
        self.moment_us = now_us()
        for server_id in self._killed:
            members[server_id].kill()

    def prove_acted(self, scene: Scene) -> str:
        zookeepers = scene.world.zookeepers
        if not scene.wait_until(lambda: set(zookeepers.modes().values()) == {"none"}, seconds=15):
            raise DidNotAct(f"{zookeepers.modes()}")
        return f"ZooKeepers {self._killed} are gone and the third serves nobody"

    def stop(self, scene: Scene) -> None:
        scene.world.zookeepers.start()

    def prove_healed(self, scene: Scene) -> str:
        return f"ZooKeeper {scene.world.zookeepers.await_leader()} leads; " + "; ".join(
            prove_serves(scene, broker) for broker in scene.world.brokers.values()
        )
