"""A whole simulated cluster: ZooKeeper, machines with brokers, wires between them; and the verbs of what befalls it.

Everything is drawn from the seed through streams of chance that do not touch each other, so that one more draw here
moves nothing there. Every verb counts itself in `acted` under its class when it had something to act on.

A scripted plan uses the verbs directly; `faults` draws them; `trial` runs a whole seed.
"""

import asyncio
import errno
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from barnabas.client.admin import Admin, NewTopic
from barnabas.client.connection import Address
from barnabas.client.errors import ClientError
from barnabas.protocol.ids import TopicPartition
from barnabas.simulation.bit_rot import BitRot
from barnabas.simulation.history import History
from barnabas.simulation.invariants import Invariants
from barnabas.simulation.load import ClientProcess, LoadSettings, Stage
from barnabas.simulation.loop import Life, SimulationLoop, pass_on
from barnabas.simulation.machine import LISTENER_PORT, Machine, Surroundings
from barnabas.simulation.wires import Wires
from broker.replica_selector import RACK_AWARE_SELECTOR
from broker.serve import StartFailed
from zk_schema.memory import MemoryZooKeeper
from zk_schema.pipeline import Write

_RESTART_S: Final = (0.5, 4.0)
_AFTER_A_CUT_S: Final = (0.0002, 0.002)
_LOST_ALL_DIRECTORIES: Final = "the last log directory"


def rack_of(number: int, racks: int) -> str:
    """Where the so-manyeth broker or reader stands."""
    return f"rack-{number % racks}"


class World:
    """See the module. Made inside a running `SimulationLoop`, in its world's life."""

    def __init__(
        self,
        loop: SimulationLoop,
        seed: str,
        *,
        brokers: int,
        settings: Mapping[str, str] | None = None,
        racks: int = 0,
    ) -> None:
        self.loop = loop
        self.seed = seed
        self.acted: Counter[str] = Counter()
        self.violations: list[str] = []
        self.notes: list[str] = []
        self.disturbed_s: dict[str, float] = {}
        """When something befell a machine last."""
        self.wires = Wires(loop, random.Random(f"{seed}/wires"))
        self.zookeeper = MemoryZooKeeper(latency=self._zookeeper_latency)
        self.chance = random.Random(f"{seed}/world")
        self._zookeeper_chance = random.Random(f"{seed}/zookeeper")
        self.zookeeper_latency_s = (0.0005, 0.004)
        surroundings = Surroundings(loop, self.wires, self.zookeeper, seed, self._on_process_failed)
        self.surroundings = surroundings
        self.machines = {
            number: Machine(surroundings, number, self._broker_settings(number, settings or {}, racks))
            for number in range(1, brokers + 1)
        }
        self.rot = BitRot(loop)
        self.invariants = Invariants(list(self.machines.values()), self.zookeeper, self.rot, self.violate)
        for machine in self.machines.values():
            machine.disk.on_cut = partial(self._on_cut, machine)
        self.history = History()
        self.restarts_by_itself = True
        self.stage = Stage(
            loop,
            self.wires,
            [Address(machine.host, LISTENER_PORT) for machine in self.machines.values()],
            seed,
            self.history,
            LoadSettings(),
            on_violation=self.violate,
            on_out_of_range=self._on_out_of_range,
            may_be_damaged=self.rot.may_be_read,
        )
        self._clients = 0
        loop.on_failure = self._on_life_failed

    @staticmethod
    def _broker_settings(number: int, settings: Mapping[str, str], racks: int) -> dict[str, str]:
        given = {
            "broker.id": str(number),
            "zookeeper.connect": "zookeeper:2181",
            "zookeeper.session.timeout.ms": "6000",
            "zookeeper.connection.timeout.ms": "10000",
            "listeners": f"PLAINTEXT://broker-{number}:{LISTENER_PORT}",
            "log.dirs": "/data/a,/data/b",
            "auto.create.topics.enable": "false",
        }
        if racks:
            # Consumers read from the replica in their rack (KIP-392).
            given |= {"broker.rack": rack_of(number, racks), "replica.selector.class": RACK_AWARE_SELECTOR}
        return given | dict(settings)

    # What went wrong.

    def violate(self, text: str) -> None:
        """Note that something is not as it must be."""
        if len(self.violations) < 50:
            self.violations.append(f"{self.loop.now_s:.3f} s: {text}")

    def tell(self, text: str, *hosts: str) -> None:
        """Note what befell the cluster, and whom."""
        for host in hosts:
            self.disturbed_s[host] = self.loop.now_s
        self.notes.append(f"{self.loop.now_s:.3f} {text}")
        self.loop.note(text.encode())

    def _on_life_failed(self, life: Life, what: str, error: BaseException | None) -> None:
        machine = next((each for each in self.machines.values() if each.life is life), None)
        if machine is None:
            raise AssertionError(f"{life}: {what}") from error
        self._on_process_failed(machine, what, error)

    def _on_process_failed(self, machine: Machine, what: str, error: BaseException | None) -> None:
        """A broker ends its own process."""
        pass_on(error)
        if machine.life is None:
            return
        self.tell(f"{machine.host} ends itself: {what}: {error!r}", machine.host)
        machine.last_failure = what
        if what != _LOST_ALL_DIRECTORIES and not isinstance(error, StartFailed):
            self.violate(f"{machine.host} failed: {what}: {error!r}")
        machine.kill()
        if self.restarts_by_itself:
            self.start_later(machine.broker_id, self.chance.uniform(*_RESTART_S))

    def _on_out_of_range(self, at: TopicPartition, position: int, number: int) -> None:
        """A replica that lags may say so; a leader must have all that any reader was ever given."""
        machine = self.machines[number]
        partition = None if machine.broker is None else machine.broker.services.replicas.partition(at)
        if partition is not None and self.invariants.is_true_leader(machine, partition):
            self.violate(f"{at}: broker {number} leads and has not {position}, which a reader was told to read next")

    def _on_cut(self, machine: Machine, path: str) -> None:
        """A file became shorter: what that means for its log is known when the call that did it has ended."""
        if path.endswith(".log") and machine.broker is not None:
            for delay_s in _AFTER_A_CUT_S:
                self.loop.call_in(self.loop.world, delay_s, self.invariants.on_cut, machine, path.rpartition("/")[0])

    # Verbs: processes and machines.

    def start(self, number: int) -> None:
        """Start a broker, unless it runs."""
        machine = self.machines[number]
        if not machine.is_up:
            self.tell(f"start {machine.host}", machine.host)
            machine.start()

    def start_later(self, number: int, delay_s: float) -> None:
        self.loop.call_in(self.loop.world, delay_s, self.start, number)

    def kill(self, number: int) -> bool:
        """SIGKILL; the page cache stays."""
        machine = self.machines[number]
        if not machine.is_up:
            return False
        self.tell(f"kill {machine.host}", machine.host)
        self._unpause(machine)
        machine.kill()
        self.acted["crash"] += 1
        return True

    def power_cut(self, number: int, *, keep_some: bool = True) -> bool:
        """The machine loses power and what was not synced; with `keep_some` chance saves a part of that."""
        machine = self.machines[number]
        if not machine.is_up:
            return False
        self._unpause(machine)
        lost = machine.power_cut(keep=machine.chance if keep_some else None)
        self.tell(f"power cut {machine.host}: {lost} changes lost", machine.host)
        self.acted["crash with lost bytes" if lost else "power cut"] += 1
        return True

    async def stop(self, number: int) -> bool:
        """SIGTERM; returns when the process has ended."""
        machine = self.machines[number]
        if not machine.is_serving or machine.is_pausing:
            return False
        self.tell(f"stop {machine.host}", machine.host)
        self.acted["clean stop"] += 1
        life = machine.life
        await machine.stop()
        if machine.life is life:
            machine.kill()
        return True

    def pause(self, number: int) -> bool:
        """SIGSTOP; ZooKeeper hears nothing from it either."""
        machine = self.machines[number]
        if machine.life is None or machine.is_pausing:
            return False
        self.tell(f"pause {machine.host}", machine.host)
        machine.is_pausing = True
        self.loop.hold(machine.life)
        self._fall_silent(machine)
        self.acted["pause"] += 1
        return True

    def resume(self, number: int) -> None:
        machine = self.machines[number]
        if machine.is_pausing and machine.life is not None:
            self.tell(f"resume {machine.host}", machine.host)
            self._unpause(machine)

    def _unpause(self, machine: Machine) -> None:
        if machine.is_pausing and machine.life is not None:
            machine.is_pausing = False
            self.loop.release(machine.life)

    def _fall_silent(self, machine: Machine) -> None:
        """ZooKeeper hears no more of a session: it ends after its timeout, unless it is heard again."""
        session, life = machine.session, machine.life
        if session is None or session.session_id == 0:
            return
        connection, session_id = session.connection, session.session_id
        timeout_s = int(machine.settings["zookeeper.session.timeout.ms"]) / 1000

        def expire() -> None:
            still = machine.life is life and session.session_id == session_id and session.connection is connection
            if still and (machine.is_pausing or machine.host in self.surroundings.zookeeper_cuts):
                self.tell(f"session of {machine.host} expires", machine.host)
                self.zookeeper.expire(session)
                self.acted["session expiry"] += 1

        self.loop.call_in(self.loop.world, timeout_s, expire)

    # Verbs: disks.

    def crash_in_change(self, number: int, change: int) -> None:
        """Let the process end in the middle of the `change`th change of its disk from now."""
        machine = self.machines[number]

        def on_crash() -> None:
            if machine.is_up:
                self.tell(f"{machine.host} crashes in a change of its disk", machine.host)
                self._unpause(machine)
                machine.kill()
                self.acted["crash in a write"] += 1

        machine.disk.on_crash = on_crash
        machine.disk.crash_at(change, machine.chance)

    async def fail_disk(self, number: int, path: str, operation: str, code: int, *, heals_after_s: float) -> None:
        """Let an operation in a log directory fail from now on; then mend it and start the broker anew."""
        machine = self.machines[number]
        fault = machine.disk.fail(operation, path, error=code)
        self.tell(f"{operation} in {path} of {machine.host} fails with {errno.errorcode[code]}", machine.host)
        await self.until(lambda: fault.hits > 0, timeout_s=15)
        await asyncio.sleep(heals_after_s)
        machine.disk.heal()
        if fault.hits:
            self.acted[f"{errno.errorcode[code]} {operation}"] += 1
            await self.restart(number)

    async def fill_disk(self, number: int, *, room_bytes: int, lasts_s: float) -> None:
        """Leave the disk so much room; later give it back and start the broker anew."""
        machine = self.machines[number]
        hits_before = machine.disk.full_hits
        machine.disk.capacity_bytes = machine.disk.used_bytes + room_bytes
        self.tell(f"disk of {machine.host} has room for {room_bytes} bytes", machine.host)
        await asyncio.sleep(lasts_s)
        machine.disk.capacity_bytes = None
        if machine.disk.full_hits > hits_before:
            self.acted["full disk"] += 1
            await self.restart(number)

    async def slow_disk(self, number: int, path: str, *, seconds: float, lasts_s: float) -> None:
        """Let every operation in a log directory take so long."""
        machine = self.machines[number]
        hits = 0

        def delay(_kind: str, at: str) -> None:
            nonlocal hits
            if at.startswith(path) and machine.life is not None:
                hits += 1
                self.loop.stall(machine.life, seconds)

        self.tell(f"{path} of {machine.host} takes {seconds:.3f} s an operation", machine.host)
        machine.disk.on_operation = delay
        await asyncio.sleep(lasts_s)
        machine.disk.on_operation = None
        self.disturbed_s[machine.host] = self.loop.now_s
        self.acted["slow disk"] += hits > 0

    async def restart(self, number: int) -> None:
        """Kill what runs, and start it again."""
        self.kill(number)
        await asyncio.sleep(self.chance.uniform(*_RESTART_S))
        self.start(number)

    # Verbs: network.

    def cut(self, source: str, target: str) -> None:
        """Let nothing pass from one host to another until `heal`."""
        self.tell(f"cut {source} -> {target}", source, target)
        self.wires.cut(source, target)

    def heal(self, source: str, target: str) -> None:
        self.tell(f"heal {source} -> {target}", source, target)
        self.wires.heal(source, target)

    def reset(self, one: str, other: str) -> int:
        """Reset the connections between two hosts."""
        count = self.wires.reset_between(one, other)
        if count:
            self.tell(f"reset {count} wires {one} - {other}", one, other)
            self.acted["reset"] += 1
        return count

    def slow(self, ways: Mapping[tuple[str, str], float]) -> None:
        """Let ways take so many seconds more."""
        self.tell(f"{len(ways)} slow ways", *(host for way in ways for host in way))
        self.wires.slow_s.update(ways)

    def quicken(self, ways: Iterable[tuple[str, str]]) -> None:
        """The ways are as quick as ever."""
        for way in ways:
            self.wires.slow_s.pop(way, None)
            self.disturbed_s.update(dict.fromkeys(way, self.loop.now_s))

    @property
    def hosts(self) -> list[str]:
        """All hosts, brokers' and clients'."""
        brokers = [machine.host for machine in self.machines.values()]
        return brokers + [f"client-{number}" for number in range(1, self._clients + 1)]

    # Verbs: ZooKeeper.

    def expire_session(self, number: int) -> bool:
        """ZooKeeper forgets a session; its client learns it at once."""
        machine = self.machines[number]
        session = machine.session
        if session is None or session.session_id == 0:
            return False
        self.tell(f"expire {machine.host}", machine.host)
        self.zookeeper.expire(session)
        self.acted["session expiry"] += 1
        return True

    def lose_zookeeper_connection(self, number: int, *, apply_under_way: bool) -> bool:
        """The connection to ZooKeeper breaks with requests under way, done or not; it comes back."""
        session = self.machines[number].session
        if session is None or session.connection is None:
            return False
        self.tell(f"zookeeper connection of broker-{number} breaks", f"broker-{number}")
        unknown = session.writes_under_way
        self.zookeeper.disconnect(session, apply_under_way=apply_under_way)
        self.acted["unknown outcome" if unknown else "connection loss"] += 1
        return True

    async def break_at_write(
        self, number: int, path: str, *, is_done: bool, hold_s: float, wait_s: float, skip: int = 0
    ) -> bool:
        """The connection breaks just before or after a write at or below a path is done; it stays away for `hold_s`.

        The first `skip` such writes pass. Whether there was one within `wait_s`.
        """
        session = self.machines[number].session
        if session is None:
            return False
        left = skip

        def matches(write: Write) -> bool:
            nonlocal left
            if not any(f"{operation.path}/".startswith(f"{path}/") for operation in write.operations):
                return False
            left -= 1
            session.is_held |= left < 0 < hold_s
            return left < 0

        wanted = self.zookeeper.break_at_write(session, matches, is_done=is_done)
        self.tell(
            f"zookeeper connection of broker-{number} is to break {'after' if is_done else 'at'} a write in {path}"
        )
        await self.until(lambda: wanted.has_hit, timeout_s=wait_s, step_s=0.002)
        self.zookeeper.break_no_more(wanted)
        if wanted.has_hit:
            self.acted["unknown outcome"] += 1
            self.tell(f"zookeeper connection of broker-{number} broke", f"broker-{number}")
            if hold_s:
                self.cut_zookeeper(number)
                await asyncio.sleep(hold_s)
                self.heal_zookeeper(number)
        return wanted.has_hit

    def cut_zookeeper(self, number: int) -> None:
        """A machine reaches ZooKeeper no more; its session ends after its timeout."""
        machine = self.machines[number]
        cuts = self.surroundings.zookeeper_cuts
        cuts[machine.host] = cuts.get(machine.host, 0) + 1
        self.tell(f"cut {machine.host} from zookeeper", machine.host)
        session = machine.session
        if session is None:
            return
        self.acted["cut from zookeeper"] += 1
        if session.connection is not None:
            self._fall_silent(machine)
            self.zookeeper.withhold(session, requests=True, answers=True)
            self.loop.call_in(self.loop.world, self.chance.uniform(0, 4), self._notice_cut, machine, session)
        session.is_held = True

    def _notice_cut(self, machine: Machine, session: object) -> None:
        """The client's pings go unanswered: it gives its connection up and seeks another."""
        if machine.session is session and machine.host in self.surroundings.zookeeper_cuts:
            assert machine.session is not None
            self.zookeeper.disconnect(machine.session, hold=True, apply_under_way=False)

    def heal_zookeeper(self, number: int) -> None:
        machine = self.machines[number]
        cuts = self.surroundings.zookeeper_cuts
        cuts[machine.host] -= 1
        if not cuts[machine.host]:
            del cuts[machine.host]
            self.tell(f"heal {machine.host} to zookeeper", machine.host)
            session = machine.session
            if session is not None:
                if session.connection is not None:
                    # What was lost on the way breaks the connection at last.
                    self.zookeeper.disconnect(session, apply_under_way=False)
                self.zookeeper.release(session)

    def stop_zookeeper(self) -> None:
        """The ensemble has no quorum: it serves nobody, and no session ends."""
        self.tell("zookeeper has no quorum", *self.hosts)
        self.zookeeper.stop()
        self.acted["zookeeper without quorum"] += 1

    def start_zookeeper(self) -> None:
        self.tell("zookeeper has a quorum", *self.hosts)
        self.zookeeper.start()

    def _zookeeper_latency(self) -> float:
        low, high = self.zookeeper_latency_s
        return low + (high - low) * self._zookeeper_chance.random()

    # Clients.

    def client(self) -> ClientProcess:
        """A client's process on a host of its own."""
        return ClientProcess(self.stage, self.client_name())

    def client_name(self) -> str:
        self._clients += 1
        return f"client-{self._clients}"

    async def create_topics(self, topics: list[NewTopic]) -> None:
        """Create topics, trying until the cluster does it."""
        client = self.client()

        async def create() -> None:
            left = list(topics)
            while left:
                try:
                    outcomes = await Admin(client.cluster).create_topics(left)
                    left = [each for each in left if (error := outcomes[each.name]) and error.error.name != _EXISTS]
                except ClientError:
                    await asyncio.sleep(0.5)

        await client.start(create())

    async def until(self, holds: Callable[[], bool], *, timeout_s: float, step_s: float = 0.1) -> bool:
        """Wait until something holds; whether it came to."""
        deadline_s = self.loop.now_s + timeout_s
        while not holds():
            if self.loop.now_s >= deadline_s:
                return False
            await asyncio.sleep(step_s)
        return True


_EXISTS: Final = "TOPIC_ALREADY_EXISTS"
