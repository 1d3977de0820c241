"""The load clients as processes: started on a host of a world, told to end, and followed while they run."""

import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from barnabas.protocol.ids import TopicPartition
from tests.failover.load.arguments import Task
from tests.failover.load.history_file import now_us
from tests.failover.world.network import Host

# A reader of millions of records on a busy machine; one to whom nothing new comes gives up much earlier.
_END_SECONDS = 900.0


class Kind(StrEnum):
    """Which client, and what it does."""

    CONFLUENT = "confluent_producer"
    CONFLUENT_READER = "confluent_reader"
    AIOKAFKA = "aiokafka_producer"
    AIOKAFKA_READER = "aiokafka_reader"
    BARNABAS = "barnabas_producer"
    BARNABAS_READER = "barnabas_reader"
    JAVA = "produce"
    JAVA_READER = "read"


_JAVA_OPTIONS = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    f"-Dlog4j.configuration={Path(__file__).with_name('log4j.properties').as_uri()}",
)


class LoadClient:
    """One process. `java_class_path` is where FailoverLoad stands, for the two kinds of the Java client."""

    def __init__(self, kind: Kind, task: Task, host: Host, *, java_class_path: str | None = None) -> None:
        self.kind = kind
        self.task = task
        self.output = task.history.with_suffix(".out")
        if kind in {Kind.JAVA, Kind.JAVA_READER}:
            assert java_class_path is not None
            program = ["java", *_JAVA_OPTIONS, "-cp", java_class_path, "FailoverLoad", kind.value]
        else:
            program = [sys.executable, "-m", f"tests.failover.load.{kind.value}"]
        with self.output.open("wb") as output:
            self._process = subprocess.Popen(
                [*host.wrapper, *program, *task.arguments()],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def history(self) -> Path:
        return self.task.history

    def tell_to_end(self) -> None:
        """It stops sending and waits for what is open."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def wait(self) -> None:
        """Return when it has ended; fails on another status than 0, or when it takes too long."""
        try:
            status = self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.task.client} had not ended after {_END_SECONDS} s") from None
        assert status == 0, f"{self.task.client} ended with {status}:\n{self.output.read_text()[-3000:]}"

    def check(self) -> None:
        """Fails when the client has ended by itself."""
        status = self._process.poll()
        assert status is None, f"{self.task.client} ended with {status}:\n{self.output.read_text()[-3000:]}"

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@dataclass(slots=True)
class Mark:
    """A moment, and how each of some partitions took records from then on.

    `pending`: records sent before the moment and not answered by then. `resumed_ms`: when, after the moment, the first
    record that was sent after it was acknowledged. `silent_ms`: the longest time from the moment on in which none was;
    a broker that goes may serve on for a while first.
    """

    at_us: int
    partitions: frozenset[TopicPartition]
    pending: dict[TopicPartition, int] = field(default_factory=dict)
    resumed_ms: dict[TopicPartition, int] = field(default_factory=dict)
    silent_ms: dict[TopicPartition, int] = field(default_factory=dict)
    _last_us: dict[TopicPartition, int] = field(default_factory=dict)

    def acknowledged(self, where: TopicPartition, at_us: int) -> None:
        """A record was, in the order of time."""
        silent_ms = (at_us - self._last_us.get(where, self.at_us)) // 1000
        self.silent_ms[where] = max(silent_ms, self.silent_ms.get(where, 0))
        self._last_us[where] = at_us

    @property
    def pending_count(self) -> int:
        return sum(self.pending.values())

    @property
    def has_resumed(self) -> bool:
        return self.partitions <= self.resumed_ms.keys()

    @property
    def slowest_ms(self) -> int:
        return max(self.resumed_ms.values(), default=0)

    @property
    def longest_silence_ms(self) -> int:
        return max(self.silent_ms.values(), default=0)


class Follower:
    """Reads the producers' files as they grow."""

    def __init__(self, clients: Sequence[LoadClient]) -> None:
        self._clients = clients
        self._files = [client.history.open("rb") for client in clients]
        self._rests = [b"" for _ in clients]
        self._open: dict[tuple[int, int, int], int] = {}
        self._marks: list[Mark] = []
        self.acknowledged = 0
        self.given_up = 0
        self.complaints: list[str] = []
        self.last_at_us: dict[TopicPartition, int] = {}

    def look(self) -> None:
        """Take in what was written since the last look. Fails when a client is gone or says that it cannot go on."""
        for number, (client, file) in enumerate(zip(self._clients, self._files, strict=True)):
            lines = (self._rests[number] + file.read()).split(b"\n")
            self._rests[number] = lines.pop()
            for line in lines:
                self._take(number, client, line.split(b" "))
        assert not self.complaints, self.complaints

    def mark(self, partitions: Sequence[TopicPartition], at_us: int | None = None) -> Mark:
        """Watch these partitions from now on, or from a moment that came after the last look."""
        if at_us is None:
            self.look()
        made = Mark(now_us() if at_us is None else at_us, frozenset(partitions))
        self._marks.append(made)
        return made

    def forget(self, mark: Mark) -> None:
        self._marks.remove(mark)

    def await_acknowledged(self, more: int, *, seconds: float) -> None:
        """Return when so many more records were acknowledged."""
        wanted = self.acknowledged + more
        deadline = time.monotonic() + seconds
        while self.acknowledged < wanted:
            assert time.monotonic() < deadline, f"{wanted - self.acknowledged} of {more} acknowledgements did not come"
            self.watch(0.1)

    def await_pending(self, partitions: Sequence[TopicPartition], *, seconds: float) -> None:
        """Return when a record of one of these partitions is under way: producers pause now and then."""
        deadline = time.monotonic() + seconds
        while True:
            self.look()
            for number, partition, _ in self._open:
                if TopicPartition(self._clients[number].task.topic, partition) in partitions:
                    return
            assert time.monotonic() < deadline, f"nothing was sent for {seconds} s: {partitions}"
            time.sleep(0.001)

    def await_resumed(self, mark: Mark, *, seconds: float) -> None:
        """Return when every partition of the mark takes records again."""
        deadline = time.monotonic() + seconds
        while not mark.has_resumed:
            missing = sorted(mark.partitions - mark.resumed_ms.keys())
            assert time.monotonic() < deadline, f"nothing acknowledged for {seconds} s: {missing}"
            self.watch(0.05)

    def watch(self, seconds: float) -> None:
        """Look on for so long."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.look()
            for client in self._clients:
                client.check()
            time.sleep(min(left, 0.05))
        self.look()

    def _take(self, number: int, client: LoadClient, words: list[bytes]) -> None:
        kind = words[0]
        if kind == b"i":
            _, partition, _, _, sequence, _ = words[2].split(b"|", 5)
            self._open[number, int(partition), int(sequence)] = int(words[1])
        elif kind in {b"k", b"u", b"f"}:
            sent_us = self._open.pop((number, int(words[2]), int(words[3])))
            where = TopicPartition(client.task.topic, int(words[2]))
            self._answered(where, sent_us, int(words[1]), is_acknowledged=kind == b"k")
        elif kind == b"e":
            self.complaints.append(f"{client.task.client}: {b' '.join(words[2:]).decode()}")

    def _answered(self, where: TopicPartition, sent_us: int, at_us: int, *, is_acknowledged: bool) -> None:
        self.acknowledged += is_acknowledged
        self.given_up += not is_acknowledged
        self.last_at_us[where] = at_us
        for mark in self._marks:
            if where not in mark.partitions:
                continue
            if is_acknowledged and at_us > mark.at_us:
                mark.acknowledged(where, at_us)
            if sent_us <= mark.at_us < at_us:
                mark.pending[where] = mark.pending.get(where, 0) + 1
            elif is_acknowledged and sent_us > mark.at_us and where not in mark.resumed_ms:
                mark.resumed_ms[where] = (at_us - mark.at_us) // 1000
