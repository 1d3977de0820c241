"""Plays faults against a world under load and measures; afterwards reads everything and judges the history.

A drill has one or more loads, each on a topic of its own. `play` injects one fault and returns when the world is whole
again; `finish` ends the load, reads every topic from its start to its end, compares the replicas, and has the history
checked. What clients say of themselves is in the verdict: one that gives a record up or cannot go on is a finding.
"""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from barnabas.protocol.ids import TopicPartition
from tests.failover.load.arguments import Task
from tests.failover.load.clients import Follower, Kind, LoadClient, Mark
from tests.failover.load.history_file import now_us
from tests.failover.world.fault import Fault, Scene
from tests.failover.world.verdict import Verdict, judge
from tests.failover.world.world import World

ISR_SECONDS = 60.0
_RESUME_SECONDS = 60.0
_READS_ALONG = {Kind.BARNABAS: Kind.BARNABAS_READER}
"""Who reads while a kind of load runs; librdkafka where nothing else is said."""


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """A producer and its topic."""

    kind: Kind
    rate: int
    partitions: int = 12
    topic: str = ""
    value_bytes: int = 200
    most_open: int = 50_000
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def topic_name(self) -> str:
        return self.topic or self.kind.value.replace("_", "-")


@dataclass(slots=True)
class Outcome:
    """What one fault did. Times are milliseconds from the fault on.

    `pending`: records that had no answer when the fault came, of partitions that it took away. `resumed_ms`: until each
    of these partitions took new records, the slowest of them; `silent_ms`: the longest time in which one took none.
    `isr_seconds`: from the healing to the full ISR. `lost_bytes`: of logs, by a power cut.
    """

    fault: str
    broker: int | None
    partitions: int
    pending: int = 0
    resumed_ms: int | None = None
    silent_ms: int | None = None
    lost_bytes: int = 0
    isr_seconds: float = 0.0
    acknowledged: int = 0
    seconds: float = 0.0
    acted: str = ""
    healed: str = ""


class Drill:
    """From `__enter__`, when all loads run, until `finish`."""

    def __init__(
        self,
        world: World,
        loads: Sequence[LoadPlan],
        *,
        replicas: int = 3,
        java_class_path: str | None = None,
        reads_along: bool = False,
    ) -> None:
        self.world = world
        self.loads = list(loads)
        self.replicas = replicas
        self.outcomes: list[Outcome] = []
        self._java_class_path = java_class_path
        self._reads_along = reads_along
        self._directory = Path(world.directory, "histories")
        self._clients: list[LoadClient] = []
        self._readers: list[LoadClient] = []
        self._began = 0.0

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(load.topic_name for load in self.loads)

    def start(self) -> None:
        """Make the topics and start the clients; returns when all of them get records through."""
        self._directory.mkdir(exist_ok=True)
        for load in self.loads:
            settings = {"min.insync.replicas": str(max(1, self.replicas - 1)), **load.settings}
            self.world.create_topic(
                load.topic_name, partitions=load.partitions, replicas=self.replicas, settings=settings
            )
        self._clients = [self._client(load.kind, load, load.rate) for load in self.loads]
        if self._reads_along:
            self._readers = [
                self._client(_READS_ALONG.get(load.kind, Kind.CONFLUENT_READER), load, 1) for load in self.loads
            ]
        self.scene = Scene(self.world, self.topics, self.watch)
        self._await_histories()
        self.follower = Follower(self._clients)
        mark = self.follower.mark(self._partitions())
        self.follower.await_resumed(mark, seconds=_RESUME_SECONDS)
        self.follower.forget(mark)
        self._began = time.monotonic()
        self._acknowledged_before = self.follower.acknowledged

    def watch(self, seconds: float) -> None:
        """Let the load run, and fail when a client is gone."""
        self.follower.watch(seconds)
        for reader in self._readers:
            reader.check()

    def play(self, fault: Fault) -> Outcome:
        """Inject the fault, wait until the world is whole again, and say what was seen."""
        hit = fault.aim(self.scene)
        led = [where for broker in hit for where in self.world.view.led_by(broker.id, self.topics)]
        began, acknowledged = time.monotonic(), self.follower.acknowledged
        outcome = Outcome(fault.name, hit[0].id if len(hit) == 1 else None, len(led))
        if led:
            self.follower.await_pending(led, seconds=_RESUME_SECONDS)
        fault.start(self.scene)
        try:
            mark = self.follower.mark(led, fault.moment_us)
            outcome.acted = fault.prove_acted(self.scene)
            if fault.fails_over and self.replicas > 1:
                self.follower.await_resumed(mark, seconds=_RESUME_SECONDS)
            left = fault.hold_seconds - (now_us() - fault.moment_us) / 1e6
            if left > 0:
                self.watch(left)
        finally:
            fault.stop(self.scene)
        outcome.healed = fault.prove_healed(self.scene)
        self._measure(outcome, mark)
        outcome.lost_bytes = fault.lost_bytes
        outcome.acknowledged = self.follower.acknowledged - acknowledged
        outcome.seconds = round(time.monotonic() - began, 1)
        self.outcomes.append(outcome)
        return outcome

    def finish(self, *, readers: Sequence[Kind] = (Kind.CONFLUENT_READER,)) -> Verdict:
        """End the load, read everything with each of these clients, and judge."""
        seconds = time.monotonic() - self._began
        acknowledged = self.follower.acknowledged - self._acknowledged_before
        self.world.view.await_full_isr(self.topics, self.replicas, seconds=ISR_SECONDS)
        for client in [*self._clients, *self._readers]:
            client.tell_to_end()
        for client in [*self._clients, *self._readers]:
            client.wait()
        self.follower.look()
        last = [self._client(kind, load, 0) for kind in readers for load in self.loads]
        for client in last:
            client.tell_to_end()
            client.wait()
        self.world.view.await_full_isr(self.topics, self.replicas, seconds=ISR_SECONDS)
        verdict = judge([client.history for client in [*self._clients, *self._readers, *last]], self._partitions())
        verdict.rate = round(acknowledged / seconds) if seconds else 0
        verdict.given_up = self.follower.given_up
        return verdict

    @property
    def histories(self) -> dict[str, Path]:
        """The producers' files by topic."""
        return {client.task.topic: client.history for client in self._clients}

    def kill_clients(self) -> None:
        """For a drill that failed."""
        for client in [*self._clients, *self._readers]:
            client.kill()

    def _measure(self, outcome: Outcome, mark: Mark) -> None:
        self.world.await_members()
        if not mark.has_resumed:
            self.follower.await_resumed(mark, seconds=_RESUME_SECONDS)
        self.follower.forget(mark)
        outcome.pending = mark.pending_count
        outcome.resumed_ms = mark.slowest_ms if mark.partitions else None
        outcome.silent_ms = mark.longest_silence_ms if mark.partitions else None
        outcome.isr_seconds = round(self.world.view.await_full_isr(self.topics, self.replicas, seconds=ISR_SECONDS), 2)
        # Also where the fault hit no leader: a record that still waits there would meet the next fault as an old one.
        settled = self.follower.mark(self._partitions())
        self.follower.await_resumed(settled, seconds=_RESUME_SECONDS)
        self.follower.forget(settled)

    def _partitions(self) -> list[TopicPartition]:
        return [TopicPartition(load.topic_name, number) for load in self.loads for number in range(load.partitions)]

    def _client(self, kind: Kind, load: LoadPlan, rate: int) -> LoadClient:
        name = f"{load.topic_name}-{kind.value.replace('_', '-')}-{rate}"
        task = Task(
            bootstrap=self.world.bootstrap,
            topic=load.topic_name,
            partitions=load.partitions,
            client=name,
            history=self._directory / f"{name}.txt",
            rate=rate,
            value_bytes=load.value_bytes,
            most_open=load.most_open,
        )
        return LoadClient(kind, task, self.world.clients, java_class_path=self._java_class_path)

    def _await_histories(self) -> None:
        deadline = time.monotonic() + _RESUME_SECONDS
        while not all(client.history.exists() for client in self._clients):
            assert time.monotonic() < deadline, "the load does not start"
            for client in self._clients:
                client.check()
            time.sleep(0.05)


def as_rows(outcomes: Sequence[Outcome]) -> list[dict[str, object]]:
    """For a JSON report."""
    return [dataclasses.asdict(outcome) for outcome in outcomes]
