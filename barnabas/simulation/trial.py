"""One seed from its first to its last moment: a cluster comes up, works under faults, is healed, and is judged.

    boot -> topics -> load and faults -> heal -> converge -> final reads -> verdict

The verdict holds what was violated and what the history shows; a seed counts when it was large enough (`Tally.counts`).
"""

import asyncio
import logging
import random
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

from barnabas.client.admin import NewTopic
from barnabas.client.errors import ClientError
from barnabas.protocol.ids import TopicPartition
from barnabas.simulation import group_endings, script
from barnabas.simulation.comparison import differences
from barnabas.simulation.consumers import ConsumerProcess
from barnabas.simulation.convergence import Recovery, why_not_converged
from barnabas.simulation.coordinator_load import Troupe
from barnabas.simulation.decay import Decay
from barnabas.simulation.draws import Draws, draw, schedule
from barnabas.simulation.errands import Errands
from barnabas.simulation.faults import Damage, Storm
from barnabas.simulation.format_errands import FormatErrands
from barnabas.simulation.group_check import check_groups
from barnabas.simulation.history_check import check
from barnabas.simulation.liveness import Liveness
from barnabas.simulation.load import ProducerProcess, ReaderProcess
from barnabas.simulation.loop import SimulationLoop
from barnabas.simulation.old_clients import OldProducer, OldReader
from barnabas.simulation.settings_tool import SettingsTool
from barnabas.simulation.transaction_check import check_transactions
from barnabas.simulation.world import World, rack_of

_BOOT_S: Final = 60.0
_CONVERGE_S: Final = 120.0
_READ_S: Final = 600.0
_LOOK_S: Final = 0.25
_LIVENESS_EVERY: Final = 2
_COMPARE_EVERY: Final = 8
_COMPACTED: Final = "c0"
_MOST_STEPS: Final = 3_000_000
_LEAST_SIMULATED_S: Final = 120.0


@dataclass(slots=True)
class Tally:
    """What a seed came to."""

    seed: str
    digest: int = 0
    steps: int = 0
    simulated_s: float = 0.0
    brokers: int = 0
    operations: int = 0
    acknowledged: int = 0
    acted: dict[str, int] = field(default_factory=dict)
    leader_changes: int = 0
    converged: bool = False
    converged_after_s: float = 0.0
    led_after_s: float | None = None
    in_sync_after_s: float | None = None
    compactions: int = 0
    blemishes: int = 0
    """Places of replicas that rotted; all were mended, if it converged."""

    looked: int = 0
    """How often something was due by then, and had come about (`Liveness.looked`)."""

    violations: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    script: str = ""
    """What was drawn, if it failed (`script.loads`)."""

    @property
    def passed(self) -> bool:
        return not self.violations

    @property
    def counts(self) -> bool:
        """Whether the seed was large enough to say something."""
        return (
            self.passed
            and 3 <= self.brokers <= 5
            and self.simulated_s >= _LEAST_SIMULATED_S
            and self.operations >= 300
            and self.acknowledged >= 100
            and sum(self.acted.values()) >= 5
            and len(self.acted) >= 2
            and self.leader_changes >= 1
            and self.converged
        )


class Trial:
    """The phases of one seed."""

    def __init__(self, loop: SimulationLoop, seed: str, draws: Draws) -> None:
        self._loop = loop
        self._seed = seed
        self._draws = draws
        self.world = World(loop, seed, brokers=draws.brokers, settings=draws.settings, racks=draws.racks)
        self.liveness = Liveness(self.world)
        self.tally = Tally(seed, brokers=draws.brokers)
        self._recovery: Recovery | None = None
        self._partitions: list[TopicPartition] = []
        self._troupe = Troupe(self.world, draws.coordinators, [])

    async def run(self, story: Callable[[], Awaitable[None]] | None = None) -> None:
        """All phases, with a story instead of drawn faults; what is wrong stands in the world's violations."""
        world = self.world
        watching = asyncio.ensure_future(self._watch())
        watching.add_done_callback(self._on_watch_over)
        world.stage.on_late = self.liveness.on_late
        with group_endings.heard_of(lambda group: world.history.groups.end(group, world.stage.now())):
            if await self._boot():
                await (self._rage() if story is None else story())
                await self._heal()
                if await self._converge():
                    if story is None:
                        await asyncio.sleep(max(0.0, _LEAST_SIMULATED_S + 1 - self._loop.now_s))
                    await self._read_all()
        watching.cancel()
        self._loop.let_go_of_done_tasks()
        world.history.settle_transactions()
        for found in (*check(world.history), *check_transactions(world.history), *check_groups(world.history)):
            world.violate(str(found))

    async def _boot(self) -> bool:
        world, draws = self.world, self._draws
        world.wires.weather = draws.weather
        world.stage.settings = draws.load
        for number, machine in world.machines.items():
            machine.wall.drift = draws.drift.get(number, 0.0)
            world.start(number)
        up = await world.until(lambda: all(each.is_serving for each in world.machines.values()), timeout_s=_BOOT_S)
        if not up:
            world.violate(f"not up after {_BOOT_S:.0f} s: {why_not_converged(world)}")
            return False
        names = [f"t{number}" for number in range(draws.topics)]
        plain = [TopicPartition(name, number) for name in names for number in range(draws.partitions)]
        self._troupe = troupe = Troupe(world, draws.coordinators, plain)
        topics = [NewTopic(each, draws.partitions, draws.replication_factor, draws.topic_settings) for each in names]
        if draws.compacted:
            settings = draws.compacted_settings
            topics.append(NewTopic(_COMPACTED, draws.compacted, draws.replication_factor, settings))
        topics += troupe.topics(draws.replication_factor, draws.topic_settings)
        try:
            async with asyncio.timeout(_BOOT_S):
                await world.create_topics(topics)
                await troupe.find_coordinators()
        except TimeoutError:
            world.violate(f"topics were not made in {_BOOT_S:.0f} s")
            return False
        keyed = [TopicPartition(_COMPACTED, number) for number in range(draws.compacted)]
        self._partitions = plain + keyed
        world.history.compacted = dict.fromkeys(keyed)
        world.invariants.watched = dict.fromkeys([*self._partitions, *troupe.copies, *troupe.internal])
        world.invariants.compacted = dict.fromkeys([*keyed, *troupe.internal])
        return True

    async def _rage(self) -> None:
        """Load and faults."""
        world, draws = self.world, self._draws
        stage = world.stage
        clients: list[ProducerProcess | ReaderProcess] = []
        for number in range(draws.producers):
            acks = draws.acks_of(number)
            clients.append(ProducerProcess(stage, world.client_name(), self._partitions, acks=acks))
        for number in range(draws.readers):
            rack = rack_of(number, draws.racks) if draws.racks else ""
            clients.append(ReaderProcess(stage, world.client_name(), self._partitions, rack=rack))
        clients += self._old_clients()
        for client in clients:
            client.start(client.run())
        if draws.errands_at:
            errands = Errands(world, world.client_name(), draws.errands_at, least_in_sync=draws.min_in_sync)
            errands.start(errands.run())
        if draws.format_errands_at:
            about_formats = FormatErrands(world, world.client_name(), draws.format_errands_at)
            about_formats.start(about_formats.run())
        for _ in range(draws.consumers):
            consumer = ConsumerProcess(stage, world.client_name(), self._partitions)
            consumer.start(consumer.run())
        self._troupe.start()
        damage = Damage(
            world,
            may_lose_all=draws.syncs_each_append,
            may_lose_one=draws.may_lose_one,
        )
        storm = Storm(
            world,
            random.Random(f"{self._seed}/faults"),
            damage,
            mean_length_s=draws.mean_length_s,
            max_at_once=draws.max_at_once,
        )
        until_s = self._loop.now_s + draws.lasts_s
        await asyncio.gather(storm.rage(draws.strikes or ()), Decay(world, damage).rage(draws.rots_at or ()))
        await asyncio.sleep(max(0.0, until_s - self._loop.now_s))

    def _old_clients(self) -> list[ProducerProcess | ReaderProcess]:
        """Those that know only the formats before 2."""
        world, draws = self.world, self._draws
        stage = world.stage
        plain = [at for at in self._partitions if at not in world.invariants.compacted]
        return [
            *(OldProducer(stage, world.client_name(), self._partitions) for _ in range(draws.old_producers)),
            *(OldReader(stage, world.client_name(), plain) for _ in range(draws.old_readers)),
        ]

    async def _heal(self) -> None:
        """End what faults may have left, and stop the load."""
        world = self.world
        world.tell("healed")
        for number, machine in world.machines.items():
            machine.disk.heal()
            machine.disk.on_operation = None
            machine.disk.crash_no_more()
            world.resume(number)
            if machine.has_lost_a_directory:
                await world.restart(number)
            world.start(number)
        if "throttle" in self._draws.errands:
            tool = SettingsTool(world)
            await tool.throttle(dict.fromkeys(at.topic for at in self._partitions), bytes_per_s=None)
            await tool.close()

    async def _converge(self) -> bool:
        """The cluster becomes whole by itself, while clients go on for a while."""
        world, healed_s = self.world, self._loop.now_s
        recovery = self._recovery = Recovery(world)
        await world.until(lambda: recovery.led_after_s is not None, timeout_s=_CONVERGE_S)
        await asyncio.sleep(2)
        world.stage.is_over = True
        troupe = self._troupe
        if not await world.until(lambda: not troupe.why_not_at_work(), timeout_s=_CONVERGE_S, step_s=0.5):
            world.violate(f"not at work {_CONVERGE_S:.0f} s after the last fault: {troupe.why_not_at_work()}")
            return False
        await troupe.end()
        if not await world.until(lambda: not self._why_not_whole(), timeout_s=_CONVERGE_S, step_s=0.5):
            world.violate(f"not whole {_CONVERGE_S:.0f} s after the last fault: {self._why_not_whole()}")
            return False
        self.tally.converged = True
        self.tally.converged_after_s = self._loop.now_s - healed_s
        return True

    def _why_not_whole(self) -> str:
        return why_not_converged(self.world) or self._troupe.open_transaction()

    async def _read_all(self) -> None:
        world, troupe = self.world, self._troupe
        partitions = self._partitions + troupe.copies
        readers = [ReaderProcess(world.stage, world.client_name(), partitions)]
        if world.history.transactions:
            readers.append(ReaderProcess(world.stage, world.client_name(), partitions, read_committed=True))
        try:
            async with asyncio.timeout(_READ_S):
                await troupe.read_offsets()
                for reader in readers:
                    await reader.start(reader.read_all())
        except (ClientError, TimeoutError) as error:
            world.violate(f"the final reads failed: {error!r}")
        world.invariants.look()
        world.invariants.compare_logs()
        for difference in differences(world):
            world.violate(difference)

    def _on_watch_over(self, watching: "asyncio.Future[None]") -> None:
        if not watching.cancelled() and (error := watching.exception()) is not None:
            place = traceback.extract_tb(error.__traceback__)[-1]
            self.world.violate(f"what must hold could not be looked at: {error!r} in {place.name}")

    async def _watch(self) -> None:
        """Look at the invariants all the time."""
        invariants, turn = self.world.invariants, 0
        liveness = self.liveness
        while True:
            await asyncio.sleep(_LOOK_S)
            turn += 1
            invariants.look()
            if self._recovery is not None:
                self._recovery.look()
            if not turn % _LIVENESS_EVERY:
                liveness.look()
            if not turn % _COMPARE_EVERY:
                invariants.look_at_znodes()
                invariants.look_at_returned_replicas(self._loop.now_s)
                invariants.compare_logs()

    def finish(self) -> Tally:
        """The seed's result."""
        world, tally = self.world, self.tally
        tally.digest, tally.steps = self._loop.digest, self._loop.steps
        tally.simulated_s = self._loop.now_s
        tally.operations = world.stage.count.requests + world.stage.count.polls
        tally.acknowledged = world.history.acknowledged_count
        tally.acted = dict(sorted(world.acted.items()))
        tally.looked = self.liveness.looked
        if self._recovery is not None:
            tally.led_after_s, tally.in_sync_after_s = self._recovery.led_after_s, self._recovery.in_sync_after_s
        tally.leader_changes = world.invariants.leader_changes
        tally.compactions = sum(machine.disk.swaps for machine in world.machines.values())
        tally.blemishes = world.rot.struck
        tally.violations = world.violations
        tally.notes = world.notes
        return tally


def run_seed(
    seed: str | int,
    *,
    trace: Callable[[str], None] | None = None,
    change: Callable[[Draws], None] | None = None,
) -> Tally:
    """Run a seed; `change` alters its draws before the world is made."""
    draws = draw(str(seed))
    if change is not None:
        change(draws)
    return run_drawn(str(seed), draws, trace=trace)


def run_drawn(seed: str, draws: Draws, *, trace: Callable[[str], None] | None = None) -> Tally:
    """Run what was drawn, now or long ago."""
    schedule(seed, draws)
    loop = SimulationLoop(random.Random(f"{seed}/loop"), shuffle=draws.shuffle)  # type: ignore[abstract]
    loop.trace = trace
    trials: list[Trial] = []

    async def main() -> None:
        trials.append(Trial(loop, seed, draws))
        await trials[0].run()

    run_trial(loop, main(), lambda text: trials[0].world.violate(text))  # noqa: PLW0108 - made only in `main`
    tally = trials[0].finish()
    if not tally.passed:
        tally.script = script.dumps(seed, draws)
    return tally


def run_trial(loop: SimulationLoop, main: Coroutine[Any, Any, None], on_violation: Callable[[str], None]) -> None:
    """Run a world to its end. What brokers log with a traceback is a mistake of theirs."""
    listener = _Tracebacks(loop, on_violation)
    root = logging.getLogger()
    root.addHandler(listener)
    try:
        loop.run_until_complete(main)
    except Exception as error:  # noqa: BLE001 - the seed has failed, and the others go on
        place = traceback.extract_tb(error.__traceback__)[-1]
        on_violation(f"{type(error).__name__}: {error or place.line}")
    finally:
        root.removeHandler(listener)
        loop.close()


class _Tracebacks(logging.Handler):
    """Hears of exceptions that a broker caught and did not expect."""

    def __init__(self, loop: SimulationLoop, on_violation: Callable[[str], None]) -> None:
        super().__init__(logging.ERROR)
        self._loop = loop
        self._on_violation = on_violation

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            error = record.exc_info[1]
            place = traceback.extract_tb(record.exc_info[2])[-1:]
            where = "".join(f"{each.name} in {each.filename.rpartition('/')[2]}" for each in place)
            self._on_violation(f"{self._loop.current_life()}: {record.getMessage()}: {error!r} at {where}")
