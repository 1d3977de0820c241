"""Exactly once: copies of a topic and a bank, in transactions, while brokers, coordinators and clients are killed.

Copiers of librdkafka, of ours and of Kafka's Java client copy what they read, in transactions with its offsets, and
abort one in five for no reason: three are members of one group, three others read one partition each outside of any,
as Kafka's TransactionalMessageCopier does with its group mode and without. A teller moves money between 100 accounts.
After each fault all of them must commit again, and readers of committed records must get past everything that stood in
the logs. In the end each copy must be the source, read by each of the three clients.
"""

import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from confluent_kafka import Consumer, IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from barnabas.launcher.cluster import LocalCluster
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.failover.bank import Values, balance, logged, read_by_barnabas, read_by_java, read_by_librdkafka
from tests.failover.load.confluent_teller import ACCOUNTS
from tests.failover.load.transactional import Job
from tests.failover.load.transactional_clients import Client, Program, Source
from tests.failover.world.view import ClusterView
from tests.support.api_client import ApiConnection
from tests.support.cluster import new_cluster
from tests.support.java import compile_java
from tests.support.kafka_jars import CLIENT_JARS, class_path

SECONDS: Final = 90.0
PARTITIONS: Final = 3
BROKERS: Final = (1, 2, 3)
SOURCE: Final = "source"
BANK: Final = "bank"
MEMBERS: Final = "members"
ALONE: Final = "alone"
COPIES: Final = {MEMBERS: "copied-by-members", ALONE: "copied-alone"}
"""What the copiers of each group write to."""
_INTERNAL: Final = ("__consumer_offsets", "__transaction_state")
_WRITTEN: Final = (*COPIES.values(), BANK)
_DEPOSIT: Final = 1000
_COPIERS: Final = (Program.CONFLUENT, Program.BARNABAS, Program.JAVA)
_PAUSE_SECONDS: Final = 8.0
"""Longer than a member's session."""

DRAWN: Final = (
    "kill-copier",
    "kill-transaction-coordinator",
    "kill-teller",
    "kill-group-coordinator",
    "kill-leader",
    "stop-transaction-coordinator",
    "pause-transaction-coordinator",
    "pause-member",
)

PROPERTIES: Final = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "min.insync.replicas": "2",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is copied: `records` at most, `rate` a second, `most` in a transaction.

    `most_open` wait to be copied at most, by the group that is behind: enough for all others while one cannot go on.
    """

    records: int
    rate: int
    most: int
    most_open: int


@dataclass(slots=True)
class Seen:
    """What was played, and what is wrong with it. `faults`: what, and after how many seconds all was whole again."""

    faults: list[tuple[str, float]] = field(default_factory=list)
    transactions: dict[str, dict[str, int]] = field(default_factory=dict)
    records: int = 0
    seconds: float = 0.0
    findings: list[str] = field(default_factory=list)

    @property
    def slowest(self) -> tuple[str, float]:
        return max(self.faults, key=lambda fault: fault[1])


def until(holds: Callable[[], bool], what: Callable[[], str], *, seconds: float = SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what()}"
        time.sleep(0.05)


class Copied(threading.Thread):
    """Asks all the time how much of the source the groups have committed; `least` is of the group that has less."""

    def __init__(self, servers: str) -> None:
        super().__init__(daemon=True)
        self._servers = servers
        self._stopped = threading.Event()
        self.by_group = dict.fromkeys(COPIES, 0)

    @property
    def least(self) -> int:
        return min(self.by_group.values())

    def run(self) -> None:
        settings = {"bootstrap.servers": self._servers, "isolation.level": "read_uncommitted"}
        consumers = {group: Consumer({**settings, "group.id": group}) for group in COPIES}
        while not self._stopped.wait(0.2):
            for group, consumer in consumers.items():
                try:
                    found = consumer.committed([TopicPartition(SOURCE, n) for n in range(PARTITIONS)], timeout=5)
                except KafkaException:
                    continue  # its coordinator is away
                self.by_group[group] = sum(max(each.offset, 0) for each in found)
        for consumer in consumers.values():
            consumer.close()

    def stop(self) -> None:
        self._stopped.set()
        self.join(SECONDS)


class Stage:
    """The cluster with its clients; faults are its methods, each of which returns when all is whole again."""

    def __init__(self, cluster: LocalCluster, directory: Path, plan: Plan, *, seed: int, java_class_path: str) -> None:
        self.cluster = cluster
        self.directory = directory
        self.plan = plan
        self.random = random.Random(seed)
        self.servers = cluster.bootstrap_servers
        self.view = ClusterView(cluster.connect_string)
        self._java_class_path = java_class_path
        self._admin = AdminClient({"bootstrap.servers": self.servers})
        self.clients: list[Client] = []
        made = self._admin.create_topics([NewTopic(name, PARTITIONS, 3) for name in (SOURCE, *_WRITTEN)])
        for each in made.values():
            each.result(30)
        self._open_accounts()
        self.copied = Copied(self.servers)
        self.source = Source(
            self.servers,
            SOURCE,
            PARTITIONS,
            rate=plan.rate,
            most=plan.records,
            most_open=plan.most_open,
            copied=lambda: self.copied.least,
        )

    def __enter__(self) -> Self:
        self.copied.start()
        self.source.start()
        for number, program in enumerate(_COPIERS):
            for group, partition in ((MEMBERS, -1), (ALONE, number)):
                self._start(program, group, COPIES[group], partition=partition)
        self.teller = self._start(Program.TELLER, "tellers", BANK)
        return self

    def __exit__(self, *_: object) -> None:
        for client in self.clients:
            client.kill()
        self.copied.stop()
        self.view.close()

    def _open_accounts(self) -> None:
        producer = Producer({"bootstrap.servers": self.servers, "enable.idempotence": True})
        for account in range(ACCOUNTS):
            producer.produce(BANK, f"opening|{account}|{_DEPOSIT}", partition=account % PARTITIONS)
        assert producer.flush(SECONDS) == 0

    def job(self, name: str, group: str, target: str, *, partition: int = -1) -> Job:
        seed = self.random.randrange(1 << 30)
        log = self.directory / f"{name}.txt"
        most = self.plan.most
        return Job(self.servers, name, group, SOURCE, target, PARTITIONS, log, seed, most=most, partition=partition)

    def _start(self, program: Program, group: str, target: str, *, partition: int = -1) -> Client:
        job = self.job(f"{program.name.lower()}-{group}", group, target, partition=partition)
        self.clients.append(Client(program, job, java_class_path=self._java_class_path))
        return self.clients[-1]

    # Who is who.

    def coordinator(self, key: str, kind: int) -> int:
        """Who coordinates the group (0) or the transactional id (1)."""
        found: list[int] = []

        def is_found() -> bool:
            with ApiConnection(self.cluster.host, self.cluster.port(1)) as connection:
                response = connection.call(ApiKey.FIND_COORDINATOR, 1, FindCoordinatorRequest(key, kind))
            found.append(int(response.node_id))
            return bool(response.error_code == ErrorCode.NONE)

        until(is_found, lambda: f"a coordinator of {key}")
        return found[-1]

    def _transaction_coordinator(self) -> int:
        return self.coordinator(self.random.choice(self.clients).name, 1)

    # Faults.

    def kill_transaction_coordinator(self) -> str:
        return self._kill_broker(self._transaction_coordinator())

    def kill_group_coordinator(self) -> str:
        return self._kill_broker(self.coordinator(self.random.choice(sorted(COPIES)), 0))

    def kill_leader(self) -> str:
        states = self.view.partitions([self.random.choice(_WRITTEN)])
        return self._kill_broker(states[self.random.choice(sorted(states))].leader)

    def stop_transaction_coordinator(self) -> str:
        broker = self._transaction_coordinator()
        self.cluster.stop_broker(broker)
        self.await_commits()
        self.cluster.start_broker(broker)
        return f"SIGTERM of broker {broker}"

    def pause_transaction_coordinator(self) -> str:
        """Others take its place; it wakes up and does not know yet."""
        broker = self._transaction_coordinator()
        self.cluster.pause(broker)
        try:
            self.await_commits()
        finally:
            self.cluster.resume(broker)
        return f"SIGSTOP of broker {broker}"

    def kill_copier(self) -> str:
        return self._kill_client(self.random.choice([each for each in self.clients if each is not self.teller]))

    def kill_teller(self) -> str:
        return self._kill_client(self.teller)

    def pause_member(self) -> str:
        """The group goes on without it; it wakes up and goes on with its transaction."""
        client = self.random.choice([each for each in self.clients if each.is_member])
        client.pause()
        time.sleep(_PAUSE_SECONDS)
        client.resume()
        return f"SIGSTOP of {client.name}"

    def _kill_broker(self, broker: int) -> str:
        self.cluster.kill(broker)
        self.await_commits()
        self.cluster.start_broker(broker)
        return f"SIGKILL of broker {broker}"

    def _kill_client(self, client: Client) -> str:
        client.kill()
        client.run()
        return f"SIGKILL of {client.name}"

    def play(self, fault: str) -> tuple[str, float]:
        """What was done, and how many seconds it took until all was whole."""
        began = time.monotonic()
        what = getattr(self, fault.replace("-", "_"))()
        self.await_commits()
        self.view.await_full_isr((SOURCE, *_WRITTEN, *_INTERNAL), len(BROKERS), seconds=SECONDS)
        self._await_stable()
        return f"{fault}: {what}", round(time.monotonic() - began, 1)

    # What must be after each.

    def await_commits(self, count: int = 3) -> None:
        """All clients go on, as long as there is something to copy."""
        wanted = {client: client.committed() + count for client in self.clients}

        def late() -> list[str]:
            return [each.name for each, least in wanted.items() if each.committed() < least]

        until(lambda: self.is_copied or not late(), lambda: f"{count} more commits of {late()}")

    def _ends(self, isolation: IsolationLevel) -> dict[tuple[str, int], int]:
        """The ends of what is written to, as readers of that kind may read."""
        asked = {TopicPartition(topic, n): OffsetSpec.latest() for topic in _WRITTEN for n in range(PARTITIONS)}
        deadline = time.monotonic() + SECONDS
        while True:
            answers = self._admin.list_offsets(asked, isolation_level=isolation, request_timeout=SECONDS)
            try:
                return {(each.topic, each.partition): answer.result(SECONDS).offset for each, answer in answers.items()}
            except KafkaException as exception:
                # It knows the leaders of before, and this request does not have it look for the new ones; or a new one
                # is not sure of its end yet. Neither does librdkafka ask again by itself.
                code = exception.args[0].code()
                if code < 0 or not ErrorCode(code).retriable or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
                self._admin = AdminClient({"bootstrap.servers": self.servers})

    def _await_stable(self) -> None:
        """The last stable offsets get past everything that is in the logs now."""
        wanted = self._ends(IsolationLevel.READ_UNCOMMITTED)

        def is_past() -> bool:
            stable = self._ends(IsolationLevel.READ_COMMITTED)
            return all(stable[where] >= offset for where, offset in wanted.items())

        until(is_past, lambda: f"last stable offsets past {wanted}")

    # The end.

    @property
    def is_copied(self) -> bool:
        return self.source.has_sent_all and self.copied.least >= self.plan.records

    def finish(self) -> None:
        """No more input; the copiers copy all that is there, and everybody ends."""
        self.source.stop()
        while (before := self.copied.least) < self.source.sent:
            for client in self.clients:
                client.committed()
            until(lambda least=before: self.copied.least > least, lambda: f"more copied than {before}")  # type: ignore[misc]
        for client in self.clients:
            client.end()

    def read_by(self, program: Program, topic: str, counts: list[int]) -> Values:
        """All that is committed, by partition, as that client reads it."""
        if program is Program.CONFLUENT:
            return read_by_librdkafka(self.servers, topic, PARTITIONS)
        if program is Program.BARNABAS:
            return read_by_barnabas(self.servers, topic, counts)
        job = self.job(f"{topic}-by-java", "not-joined", topic)
        Client(Program.JAVA_READER, job, java_class_path=self._java_class_path).end(seconds=SECONDS * 10)
        return read_by_java(job.log, PARTITIONS)

    def judge(self) -> list[str]:
        """What is wrong with the copies and with the books, whoever reads them."""
        sent = self.source.sent
        expected = [[b"%d" % n for n in range(first, sent, PARTITIONS)] for first in range(PARTITIONS)]
        counts = [len(each) for each in expected]
        found = _compared(SOURCE, Program.CONFLUENT, self.read_by(Program.CONFLUENT, SOURCE, counts), expected)
        for topic in COPIES.values():
            for program in _COPIERS:
                found += _compared(topic, program, self.read_by(program, topic, counts), expected)
        bank = self.read_by(Program.CONFLUENT, BANK, [])
        found += balance(bank, logged([self.teller.job.log]), opening=ACCOUNTS * _DEPOSIT)
        for program in (Program.BARNABAS, Program.JAVA):
            found += _compared(BANK, program, self.read_by(program, BANK, [len(each) for each in bank]), bank)
        return found


def _compared(topic: str, program: Program, read: Values, expected: Values) -> list[str]:
    """Where the two differ first, in each partition."""
    found = []
    for partition, (values, wanted) in enumerate(zip(read, expected, strict=True)):
        if values != wanted:
            pairs = enumerate(zip(values, wanted, strict=False))
            at = next((at for at, (one, other) in pairs if one != other), min(len(values), len(wanted)))
            found.append(
                f"{topic}-{partition} by {program.name}: {len(values)} records instead of {len(wanted)}, "
                f"from record {at} on {values[at : at + 5]} instead of {wanted[at : at + 5]}"
            )
    return found


def play(
    directory: Path, plan: Plan, faults: Sequence[str], *, seed: int, goes_on: Callable[[Stage], str | None]
) -> Seen:
    """These faults, then those that `goes_on` draws until it draws none; what is seen is printed as it comes."""
    seen = Seen()
    began = time.monotonic()
    java = compile_java(
        Path(__file__).parent / "load" / "TransactionalCopier.java",
        jars=class_path(CLIENT_JARS),
        output=directory / "java",
    )
    with (
        new_cluster(directory / "data", brokers=len(BROKERS), properties=PROPERTIES) as cluster,
        Stage(cluster, directory, plan, seed=seed, java_class_path=java) as stage,
    ):
        stage.await_commits()
        planned = list(faults)
        while fault := planned.pop(0) if planned else goes_on(stage):
            seen.faults.append(stage.play(fault))
            what, seconds = seen.faults[-1]
            print(f"{len(seen.faults):>4} {seconds:>6} s  {what}, {stage.copied.by_group} copied", flush=True)
        stage.finish()
        seen.records = stage.source.sent
        seen.transactions = {
            client.name: {
                "committed": client.said("c"),
                "aborted": client.said("a"),
                "stuck": client.stuck,
                "renumbered": client.renumbered,
            }
            for client in stage.clients
        }
        seen.seconds = round(time.monotonic() - began, 1)
        seen.findings = stage.judge()
    return seen
