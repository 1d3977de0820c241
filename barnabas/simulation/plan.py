"""Scripted fault plans: a small cluster of whole brokers, and the story that befalls it.

    async def story(scene: Scene) -> None:
        assert await scene.produce()
        old = scene.leader()
        scene.world.kill(old)
        await scene.until(lambda: scene.leader() not in (old, None))
        scene.world.start(old)

    tally = run_plan(story)

A plan is run from its seed like any other: the verbs of `World` are what happens, the invariants are looked at all the
time, and at the end everything heals, the cluster must become whole, and the history of all clients is judged. What is
wrong stands in `tally.violations`. A story that fails by an assertion of its own adds that to them.
"""

import asyncio
import random
import traceback
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from barnabas.protocol.ids import TopicPartition
from barnabas.simulation.convergence import why_not_converged
from barnabas.simulation.draws import Draws
from barnabas.simulation.history import ACKS_ALL
from barnabas.simulation.load import LoadSettings, ProducerProcess, ReaderProcess
from barnabas.simulation.loop import SimulationLoop
from barnabas.simulation.trial import Tally, Trial, run_trial
from barnabas.simulation.wires import WireWeather
from barnabas.simulation.world import World

_WAIT_S: Final = 60.0
TOPIC: Final = "t0"


class Scene:
    """A cluster that is up, with one topic `t0`, and what a story asks of it."""

    def __init__(self, trial: Trial) -> None:
        self.world: World = trial.world
        self.partition = TopicPartition(TOPIC, 0)
        self._trial = trial
        self._producers: dict[int, ProducerProcess] = {}
        self._reader: ReaderProcess | None = None

    # Who is who.

    def leader(self, at: TopicPartition | None = None) -> int | None:
        """The broker that leads a partition as ZooKeeper says it, while it runs and knows; None else."""
        at = at or self.partition
        state = self.world.invariants.state(at)
        for machine, partition in self.world.invariants.replicas():
            told = (machine.broker_id, partition.leader_epoch)
            is_it = partition.topic_partition == at and partition.is_leader
            if is_it and state is not None and (state.leader, state.leader_epoch) == told:
                return machine.broker_id
        return None

    def replicas(self, at: TopicPartition | None = None) -> tuple[int, ...]:
        """The assigned brokers."""
        at = at or self.partition
        assignment = self.world.invariants.assignment(at.topic)
        assert assignment is not None
        return tuple(assignment.partitions[at.partition])

    def followers(self, at: TopicPartition | None = None) -> list[int]:
        leader = self.leader(at)
        return [number for number in self.replicas(at) if number != leader]

    def isr(self, at: TopicPartition | None = None) -> tuple[int, ...]:
        """As ZooKeeper says it."""
        state = self.world.invariants.state(at or self.partition)
        return () if state is None else tuple(state.isr)

    def controller(self) -> int | None:
        """The broker that holds the office and knows."""
        for number, machine in self.world.machines.items():
            if machine.broker is not None and machine.broker.services.controller.is_active:
                return number
        return None

    def end(self, number: int, at: TopicPartition | None = None) -> int:
        """Where a broker's log ends; -1 where it holds none."""
        broker = self.world.machines[number].broker
        partition = None if broker is None else broker.services.replicas.partition(at or self.partition)
        return -1 if partition is None else partition.log.log_end_offset

    # What happens.

    async def produce(self, batches: int = 1, *, acks: int = ACKS_ALL, at: TopicPartition | None = None) -> bool:
        """Send batches one after the other; whether all were acknowledged."""
        producer = self._producers.get(acks)
        if producer is None:
            name = self.world.client_name()
            producer = self._producers[acks] = ProducerProcess(
                self.world.stage, name, [at or self.partition], acks=acks
            )
        acknowledged = True
        for _ in range(batches):
            acknowledged &= bool(await producer.start(producer.produce(at or self.partition)))
        return acknowledged

    def produce_soon(self, batches: int = 1, *, acks: int = ACKS_ALL) -> "asyncio.Task[bool]":
        """The same while the story goes on, by a client of its own."""
        producer = ProducerProcess(self.world.stage, self.world.client_name(), [self.partition], acks=acks)

        async def send() -> bool:
            outcomes = [await producer.produce(self.partition) for _ in range(batches)]
            return all(outcomes)

        return producer.start(send())

    async def read(self, at: TopicPartition | None = None) -> None:
        """Fetch once, going on where the last one ended."""
        if self._reader is None:
            self._reader = ReaderProcess(self.world.stage, self.world.client_name(), [at or self.partition])
        await self._reader.start(self._reader.poll(at or self.partition, wait_ms=0))

    async def until(self, holds: Callable[[], bool], *, timeout_s: float = _WAIT_S) -> None:
        """Wait until something holds; it must."""
        assert await self.world.until(holds, timeout_s=timeout_s, step_s=0.02), "it never came to that"

    async def await_leader(self, *, otherwise: int | None = None, at: TopicPartition | None = None) -> int:
        """Who leads, once somebody but `otherwise` does and knows: a leader that has just been moved does not yet."""
        await self.until(lambda: self.leader(at) not in (None, otherwise))
        leader = self.leader(at)
        assert leader is not None
        return leader

    async def settle(self) -> None:
        """Wait until the cluster is whole."""
        await self.until(lambda: not why_not_converged(self.world))

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def run_plan(
    story: Callable[[Scene], Awaitable[None]],
    *,
    seed: str = "plan",
    brokers: int = 3,
    replication_factor: int = 3,
    min_in_sync: int = 2,
    partitions: int = 1,
    settings: Mapping[str, str] | None = None,
    topic_settings: Mapping[str, str] | None = None,
) -> Tally:
    """Run a story on a fresh cluster to its verdict."""
    draws = _calm(
        brokers=brokers, replication_factor=replication_factor, min_in_sync=min_in_sync, partitions=partitions
    )
    draws.settings = {"replica.lag.time.max.ms": "4000", "zookeeper.session.timeout.ms": "6000"} | dict(settings or {})
    draws.topic_settings = {"min.insync.replicas": str(min_in_sync)} | dict(topic_settings or {})
    loop = SimulationLoop(random.Random(f"{seed}/loop"))  # type: ignore[abstract]
    trials: list[Trial] = []

    async def main() -> None:
        trial = Trial(loop, seed, draws)
        trials.append(trial)

        async def tell_story() -> None:
            try:
                scene = Scene(trial)
                await scene.settle()
                await story(scene)
            except AssertionError as error:
                place = traceback.extract_tb(error.__traceback__)[-1]
                trial.world.violate(f"the story: {error or place.line}")

        await trial.run(tell_story)

    run_trial(loop, main(), lambda text: trials[0].world.violate(text))  # noqa: PLW0108 - made only in `main`
    return trials[0].finish()


def _calm(*, brokers: int, replication_factor: int, min_in_sync: int, partitions: int) -> Draws:
    """A cluster without faults on a quick network."""
    return Draws(
        brokers=brokers,
        replication_factor=replication_factor,
        min_in_sync=min_in_sync,
        partitions=partitions,
        topics=1,
        lasts_s=0.0,
        shuffle=0.0,
        syncs_each_append=False,
        settings={},
        topic_settings={},
        weather=WireWeather(),
        load=LoadSettings(max_records=6, request_timeout_ms=4_000, give_up_s=25.0),
        producers=0,
        readers=0,
        weights={},
        mean_gap_s=1.0,
        mean_length_s=1.0,
        max_at_once=0,
        errands=(),
        errand_gap_s=1.0,
    )
