"""Clients that write transactions as processes, and the source that copiers read."""

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from tests.failover.load.transactional import BROKEN, STUCK, Job
from tests.support.kafka_jars import java_command

_SECONDS: Final = 90.0
_TICK_SECONDS: Final = 0.05
_JAVA_OPTIONS: Final = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    f"-Dlog4j.configuration={Path(__file__).with_name('log4j.properties').as_uri()}",
)


class Program(StrEnum):
    """Which client, and what it does."""

    CONFLUENT = "confluent_copier"
    BARNABAS = "barnabas_copier"
    JAVA = "copy"
    TELLER = "confluent_teller"
    JAVA_READER = "read"


JAVA: Final = frozenset({Program.JAVA, Program.JAVA_READER})

_RENUMBERED: Final = re.compile(r"ADVBASE.* (\S+ \[\d+\]) advancing epoch base msgid .* in aborted transaction")
_OUT_OF_SEQUENCE: Final = re.compile(
    r"FATAL.*ProduceRequest for (\S+ \[\d+\]) .* due to sequence desynchronization .*MsgPossiblyPersisted"
)
_BEGUN: Final = "Ready -> InTransaction"


def has_renumbered(output: str) -> bool:
    """Whether librdkafka's own doing ended this client: it gave sequences that may be persisted to other records.

    What is in the queue when it aborts gets no sequence (`rd_kafka_toppar_purge_queues` in its 2.16): also what it was
    to send again, and may have been written before its leader went. The next transaction begins with the same numbers,
    is refused, and that is fatal. Both must be told of one partition, with one transaction's begin between them.
    """
    ends = list(_OUT_OF_SEQUENCE.finditer(output))
    renumbered = [each for each in _RENUMBERED.finditer(output) if ends and each[1] == ends[0][1]]
    return bool(renumbered) and output.count(_BEGUN, renumbered[-1].end(), ends[0].start()) == 1


def command(program: Program, job: Job, java_class_path: str | None) -> list[str]:
    """What is run; `java_class_path` is where TransactionalCopier stands, for programs of Java."""
    if program in JAVA:
        assert java_class_path is not None
        return [
            java_command(),
            *_JAVA_OPTIONS,
            "-cp",
            java_class_path,
            "TransactionalCopier",
            program.value,
            *job.arguments(),
        ]
    return [sys.executable, "-m", f"tests.failover.load.{program.value}", *job.arguments()]


class Client:
    """A process with a transactional id; `run` starts it, and again after its end."""

    def __init__(self, program: Program, job: Job, *, java_class_path: str | None = None) -> None:
        self.program, self.job = program, job
        self.process: subprocess.Popen[bytes] | None = None
        self._java_class_path = java_class_path
        self._lives = 0
        self.stuck = self.renumbered = 0
        self._output = job.log.with_suffix(".out")
        self._life_began_at = 0
        self.run()

    @property
    def name(self) -> str:
        return self.job.transactional_id

    @property
    def is_member(self) -> bool:
        """Whether it shares partitions with others."""
        return self.job.partition < 0 and self.program is not Program.TELLER

    def run(self) -> None:
        self._lives += 1
        job = replace(self.job, seed=self.job.seed + self._lives)
        with self._output.open("ab") as output:
            self._life_began_at = output.tell()
            self.process = subprocess.Popen(
                command(self.program, job, self._java_class_path),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def said(self, kind: str) -> int:
        """How many lines of this kind it wrote in all its lives, as in `transactional`."""
        return self.job.log.read_bytes().count(f"\n{kind} ".encode()) if self.job.log.exists() else 0

    def committed(self) -> int:
        """How many transactions it committed in all its lives.

        Fails when it has ended, but for one that was STUCK or `has_renumbered`: that goes on in a new life.
        """
        assert self.process is not None
        status = self.process.poll()
        is_stuck = status == STUCK
        if is_stuck or (status == BROKEN and has_renumbered(self._words_of_this_life())):
            self.stuck += is_stuck
            self.renumbered += not is_stuck
            self.run()
            status = None
        assert status is None, f"{self.name} ended with {status}: {self.last_words()}"
        return self.said("c")

    def _words_of_this_life(self) -> str:
        return self._output.read_bytes()[self._life_began_at :].decode(errors="replace")

    def last_words(self) -> str:
        return self._output.read_text(errors="replace")[-3000:]

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def pause(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def end(self, *, seconds: float = _SECONDS) -> None:
        """Told to end, it does so with status 0."""
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.close()
        status = self.process.wait(seconds)
        assert status == 0, f"{self.name} ended with {status}: {self.last_words()}"


class Source(threading.Thread):
    """Numbers into a topic, in turn over its partitions, until it is stopped or has sent `most`.

    It waits while `copied` says that more than `most_open` of them were not copied.
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        partitions: int,
        *,
        rate: int,
        most: int,
        most_open: int,
        copied: Callable[[], int],
    ) -> None:
        super().__init__(daemon=True)
        self._servers, self._topic, self._partitions = servers, topic, partitions
        self._rate, self._most, self._most_open, self._copied = rate, most, most_open, copied
        self._stopped = threading.Event()
        self.failed: list[str] = []
        self.sent = 0

    @property
    def has_sent_all(self) -> bool:
        return self.sent >= self._most

    def run(self) -> None:
        producer = Producer({"bootstrap.servers": self._servers, "enable.idempotence": True, "linger.ms": 5})
        while not self.has_sent_all and not self._stopped.wait(_TICK_SECONDS):
            due = min(
                int(self._rate * _TICK_SECONDS), self._most - self.sent, self._most_open + self._copied() - self.sent
            )
            for _ in range(due):
                value, partition = b"%d" % self.sent, self.sent % self._partitions
                producer.produce(self._topic, value, partition=partition, on_delivery=self._delivered)
                self.sent += 1
            producer.poll(0)
        assert producer.flush(_SECONDS) == 0

    def _delivered(self, error: object, _: object) -> None:
        if error is not None:
            self.failed.append(str(error))

    def stop(self) -> None:
        self._stopped.set()
        self.join(_SECONDS + 10)
        assert not self.is_alive()
        assert self.failed == []
