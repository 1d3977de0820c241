"""A host of the simulated world: what outlives its processes (disk, clock, name) and the broker that runs on it.

    down -- boot --> starting --> serving -- stop (asked) --> down
                        |            |
                        +-- kill / power cut / its own failure --> down

A killed process leaves its page cache and tells its peers; a machine that loses power does neither. A start that fails
is tried again, as whoever looks after a real broker would.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from barnabas.runtime.offload import Offload
from barnabas.runtime.tasks import Supervisor
from barnabas.simulation.clock import SimulatedClock, WallClock
from barnabas.simulation.control_plane import SimulatedControlPlane
from barnabas.simulation.disk import SimulatedDisk
from barnabas.simulation.loop import Life, SimulationLoop
from barnabas.simulation.network import SimulatedNetwork
from barnabas.simulation.offload import SimulatedOffload
from barnabas.simulation.wires import Wires
from broker.config import BrokerConfig, resolve_broker_config
from broker.serve import Broker, Ports, serve
from zk_schema.memory import MemorySession, MemoryZooKeeper

LISTENER_PORT = 9092


@dataclass(slots=True)
class Surroundings:
    """What all machines of a world share."""

    loop: SimulationLoop
    wires: Wires
    zookeeper: MemoryZooKeeper
    seed: str
    on_failure: Callable[["Machine", str, BaseException | None], None]
    zookeeper_cuts: dict[str, int] = field(default_factory=dict)
    """Hosts whose clients cannot reach ZooKeeper, and for how many reasons."""


class Machine:
    """One host and its broker."""

    def __init__(self, world: Surroundings, broker_id: int, settings: Mapping[str, str]) -> None:
        self.world = world
        self.broker_id = broker_id
        self.host = f"broker-{broker_id}"
        self.settings = dict(settings)
        self.chance = random.Random(f"{world.seed}/{self.host}")
        self.wall = WallClock()
        self.disk = SimulatedDisk(lambda: self.wall.at_ms(world.loop.now_s))
        self.incarnation = 0
        self.boot = 0
        self.life: Life | None = None
        self.broker: Broker | None = None
        self.session: MemorySession | None = None
        self.last_failure: str | None = None
        self.is_pausing = False
        self.is_stopping = False
        self.thread_delay_s = (0.0001, 0.003)
        for path in self.settings["log.dirs"].split(","):
            self.disk.make_directory(path)
            self.disk.fsync_directory(path.rpartition("/")[0])
        self.disk.fsync_directory("/")

    @property
    def is_up(self) -> bool:
        """Whether a process runs, starting or serving."""
        return self.life is not None

    @property
    def is_serving(self) -> bool:
        return self.broker is not None

    @property
    def is_controller(self) -> bool:
        """Whether its broker holds the controller's office, or thinks so."""
        return self.broker is not None and self.broker.services.controller.is_active

    @property
    def has_lost_a_directory(self) -> bool:
        """Whether its broker serves without one of its log directories."""
        return self.broker is not None and bool(self.broker.services.log_directories.offline_directories())

    # What happens to it.

    def start(self) -> None:
        """Boot the machine and start its broker."""
        assert self.life is None
        self.incarnation += 1
        self.world.wires.dark_hosts.pop(self.host, None)
        if self.disk.life < self.incarnation:
            self.disk.restart()
        self.life = life = self.world.loop.life(f"{self.host}.{self.incarnation}")
        life.context.copy().run(self._begin, life)

    def kill(self) -> None:
        """SIGKILL, or the process ended itself: peers are told, what was written stays."""
        self._end(says_so=True)
        self.disk.kill()

    def power_cut(self, *, keep: random.Random | None) -> int:
        """The machine loses power; how many changes its disk lost."""
        self._end(says_so=False)
        lost_before = self.disk.lost_changes
        self.disk.power_cut(keep)
        self.boot += 1
        return self.disk.lost_changes - lost_before

    async def stop(self) -> None:
        """SIGTERM: the broker takes itself down. Returns when its process has ended, by whatever end."""
        life, broker = self.life, self.broker
        assert life is not None
        assert broker is not None
        self.is_stopping = True
        done = asyncio.get_running_loop().create_future()
        life.context.copy().run(self._begin_stop, broker, done)
        while not done.done() and self.life is life:  # noqa: ASYNC110 - its death has no event
            await asyncio.sleep(0.05)
        if self.life is life:
            self.kill()

    def _begin_stop(self, broker: Broker, done: "asyncio.Future[None]") -> None:
        async def stop() -> None:
            await broker.stop()
            if not done.done():
                done.set_result(None)

        asyncio.get_running_loop().create_task(stop(), name=f"{self.host} stops")

    def _end(self, *, says_so: bool) -> None:
        life, world = self.life, self.world
        assert life is not None
        world.loop.end(life)
        world.wires.process_died(life, says_so=says_so)
        if not says_so:
            world.wires.dark_hosts[self.host] = None
        if self.session is not None:
            world.zookeeper.disconnect(self.session, hold=True, apply_under_way=self.chance.random() < 0.5)
        self.life = self.broker = self.session = None
        self.is_stopping = False

    # Its process.

    def _begin(self, life: Life) -> None:
        asyncio.get_running_loop().create_task(self._run(life), name=f"{self.host} main")

    async def _run(self, life: Life) -> None:
        supervisor = Supervisor(lambda what, error: self.world.on_failure(self, what, error))
        config = resolve_broker_config(self.settings)
        try:
            broker = await serve(self._ports(life, supervisor), config)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the end of the process
            if not life.is_dead:
                self.world.on_failure(self, "start", error)
            return
        if not life.is_dead:
            self.broker = broker

    def _ports(self, life: Life, supervisor: Supervisor) -> Ports:
        loop, chance = self.world.loop, random.Random(f"{self.world.seed}/{life.name}")
        network = SimulatedNetwork(self.world.wires, life, self.host)

        def open_network(
            config: BrokerConfig,
            offload: Offload,  # noqa: ARG001 - wires read slices themselves
            supervisor: Supervisor,  # noqa: ARG001 - and need no task
        ) -> SimulatedNetwork:
            network.max_frame_bytes = config.socket_request_max_bytes
            return network

        return Ports(
            clock=SimulatedClock(loop, life, started_ms=chance.randrange(10**9), wall=self.wall),
            disk=self.disk,
            offload=SimulatedOffload(self._thread_delay),
            supervisor=supervisor,
            random=chance,
            open_network=open_network,
            open_zookeeper=self._open_zookeeper,
            boot_id=f"{self.host}-{self.boot}",
            open_control_plane=lambda config, tasks: SimulatedControlPlane(network, tasks),  # noqa: ARG005
        )

    def _thread_delay(self, _lane: str) -> float:
        low, high = self.thread_delay_s
        return low + (high - low) * self.chance.random()

    async def _open_zookeeper(self, config: BrokerConfig) -> MemorySession:
        session = MemorySession(
            self.world.zookeeper,
            session_timeout_ms=config.zookeeper_session_timeout_ms,
            max_in_flight=config.zookeeper_max_in_flight_requests,
        )
        session.is_held = self.host in self.world.zookeeper_cuts
        self.session = session
        await session.open(timeout_ms=config.zookeeper_connection_timeout_ms)
        return session
