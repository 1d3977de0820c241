"""Exactly once: copies of a topic and a bank, in transactions, while coordinators, leaders and clients are killed.

Two copiers, one of librdkafka and one of ours, are members of one group; each copies what it reads, in a transaction
with its offsets, and aborts one in five for no reason. A teller moves money between 100 accounts. After each fault all
of them must commit again, and readers of committed records must get past everything that stood in the logs. An
ordinary run plays each kind of fault once, a soak goes on with faults that the seed draws.
"""

import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from barnabas.launcher.cluster import LocalCluster
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.failover.bank import balance, logged, read_by_barnabas, read_by_librdkafka
from tests.failover.load.confluent_teller import ACCOUNTS
from tests.failover.load.transactional import Job
from tests.failover.world.view import ClusterView
from tests.support import soak
from tests.support.api_client import ApiConnection
from tests.support.cluster import new_cluster

SHARE_OF_A_SOAK = 0.2
SOAK_SECONDS = soak.minutes() * 60 * SHARE_OF_A_SOAK

pytestmark = [pytest.mark.soak, pytest.mark.processes, pytest.mark.timeout(420 + int(soak.minutes() * 60))]

PARTITIONS = 3
SOURCE, TARGET, BANK = "source", "target", "bank"
INTERNAL = ("__consumer_offsets", "__transaction_state")
GROUP = "copiers"
DEPOSIT = 1000
BROKERS = (1, 2, 3)
SECONDS = 90.0
STALE = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    properties = {
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.num.partitions": "3",
        "group.initial.rebalance.delay.ms": "0",
        "min.insync.replicas": "2",
    }
    made = new_cluster(tmp_path / "data", brokers=len(BROKERS), properties=properties)
    made.start()
    yield made
    made.stop()


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"not within {SECONDS} s: {what}"
        time.sleep(0.05)


class Client:
    """A process with a transactional id; `run` starts it, and again after its end."""

    def __init__(self, program: str, job: Job) -> None:
        self.program, self.job = program, job
        self.process: subprocess.Popen[bytes] | None = None
        self._lives = 0
        self._output = job.log.with_suffix(".out")
        self.run()

    @property
    def name(self) -> str:
        return self.job.transactional_id

    def run(self) -> None:
        self._lives += 1
        job = replace(self.job, seed=self.job.seed + self._lives)
        with self._output.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", f"tests.failover.load.{self.program}", *job.arguments()],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def committed(self) -> int:
        """How many transactions it committed in all its lives."""
        assert self.process is not None
        status = self.process.poll()
        assert status is None, f"{self.name} ended with {status}: {self._output.read_text()[-3000:]}"
        return self.job.log.read_bytes().count(b"\nc ") if self.job.log.exists() else 0

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        """Told to end, it does so with status 0."""
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.close()
        status = self.process.wait(SECONDS)
        assert status == 0, f"{self.name} ended with {status}: {self._output.read_text()[-3000:]}"


class Source(threading.Thread):
    """Numbers into the source, in turn over its partitions, until it is stopped."""

    def __init__(self, servers: str) -> None:
        super().__init__(daemon=True)
        self._servers = servers
        self._stopped = threading.Event()
        self.failed: list[str] = []
        self.sent = 0

    def run(self) -> None:
        producer = Producer({"bootstrap.servers": self._servers, "enable.idempotence": True})
        while not self._stopped.wait(0.05):
            for _ in range(20):
                value = b"%d" % self.sent
                producer.produce(SOURCE, value, partition=self.sent % PARTITIONS, on_delivery=self._delivered)
                self.sent += 1
            producer.poll(0)
        assert producer.flush(SECONDS) == 0

    def _delivered(self, error: object, _: object) -> None:
        if error is not None:
            self.failed.append(str(error))

    def stop(self) -> None:
        self._stopped.set()
        self.join(SECONDS + 10)
        assert not self.is_alive()
        assert self.failed == []


class Stage:
    """The cluster with its clients; faults are its methods, each of which returns when all is whole again."""

    def __init__(self, cluster: LocalCluster, directory: Path, seed: int) -> None:
        self.cluster = cluster
        self.directory = directory
        self.random = random.Random(seed)
        self.servers = cluster.bootstrap_servers
        self.view = ClusterView(cluster.connect_string)
        self.admin = AdminClient({"bootstrap.servers": self.servers})
        made = self.admin.create_topics([NewTopic(name, PARTITIONS, 3) for name in (SOURCE, TARGET, BANK)])
        for each in made.values():
            each.result(30)
        self.open_accounts()
        self.source = Source(self.servers)
        self.source.start()
        self.copiers = [self.client(f"{kind}_copier", f"{kind}-copier") for kind in ("confluent", "barnabas")]
        self.teller = self.client("confluent_teller", "teller", target=BANK)
        self.clients = [*self.copiers, self.teller]

    def open_accounts(self) -> None:
        producer = Producer({"bootstrap.servers": self.servers, "enable.idempotence": True})
        for account in range(ACCOUNTS):
            producer.produce(BANK, f"opening|{account}|{DEPOSIT}", partition=account % PARTITIONS)
        assert producer.flush(SECONDS) == 0

    def client(self, program: str, name: str, *, target: str = TARGET) -> Client:
        log = self.directory / f"{name}.txt"
        job = Job(self.servers, name, GROUP, SOURCE, target, PARTITIONS, log, self.random.randrange(1 << 30))
        return Client(program, job)

    # Who is who.

    def coordinator(self, key: str, kind: int) -> int:
        """Who coordinates the group (0) or the transactional id (1)."""
        while True:
            with ApiConnection(self.cluster.host, self.cluster.port(1)) as connection:
                found = connection.call(ApiKey.FIND_COORDINATOR, 1, FindCoordinatorRequest(key, kind))
            if found.error_code == ErrorCode.NONE:
                return int(found.node_id)
            time.sleep(0.05)

    def leader(self, topic: str) -> int:
        states = self.view.partitions([topic])
        return states[self.random.choice(sorted(states))].leader

    # Faults.

    def kill_transaction_coordinator(self) -> None:
        self.kill_broker(self.coordinator(self.random.choice(self.clients).name, 1))

    def kill_group_coordinator(self) -> None:
        self.kill_broker(self.coordinator(GROUP, 0))

    def kill_leader(self) -> None:
        self.kill_broker(self.leader(self.random.choice((TARGET, BANK))))

    def kill_broker(self, broker: int) -> None:
        print(f"SIGKILL of broker {broker}")
        self.cluster.kill(broker)
        self.await_commits()
        self.cluster.start_broker(broker)

    def kill_copier(self) -> None:
        self.kill_client(self.random.choice(self.copiers))

    def kill_teller(self) -> None:
        self.kill_client(self.teller)

    def kill_client(self, client: Client) -> None:
        print(f"SIGKILL of {client.name}")
        client.kill()
        client.run()

    # What must be after each.

    def await_commits(self, count: int = 5) -> None:
        """All clients go on."""
        wanted = {client: client.committed() + count for client in self.clients}
        until(
            lambda: all(client.committed() >= least for client, least in wanted.items()),
            f"more commits: {[(client.name, client.committed(), least) for client, least in wanted.items()]}",
        )

    def ends(self, isolation: IsolationLevel) -> dict[tuple[str, int], int]:
        """The ends of what is written to, as readers of that kind may read."""
        asked = {TopicPartition(topic, n): OffsetSpec.latest() for topic in (TARGET, BANK) for n in range(PARTITIONS)}
        deadline = time.monotonic() + SECONDS
        while True:
            answers = self.admin.list_offsets(asked, isolation_level=isolation, request_timeout=SECONDS)
            try:
                return {(each.topic, each.partition): answer.result(SECONDS).offset for each, answer in answers.items()}
            except KafkaException as exception:
                # It knows the leaders of before, and this request does not have it look for the new ones.
                if exception.args[0].code() not in STALE or time.monotonic() > deadline:
                    raise
                self.admin = AdminClient({"bootstrap.servers": self.servers})

    def await_stable(self) -> None:
        """The last stable offsets get past everything that is in the logs now."""
        wanted = self.ends(IsolationLevel.READ_UNCOMMITTED)

        def is_past() -> bool:
            stable = self.ends(IsolationLevel.READ_COMMITTED)
            return all(stable[where] >= offset for where, offset in wanted.items())

        until(is_past, f"last stable offsets past {wanted}")

    def play(self, fault: str) -> None:
        began = time.monotonic()
        getattr(self, fault.replace("-", "_"))()
        self.await_commits()
        self.view.await_full_isr((SOURCE, TARGET, BANK, *INTERNAL), 3, seconds=SECONDS)
        self.await_stable()
        print(f"{fault}: {time.monotonic() - began:.1f} s")

    def finish(self) -> None:
        """No more input; the copiers copy all that is there, and everybody ends."""
        self.source.stop()
        until(self.is_copied, "all copied")
        for client in self.clients:
            client.end()

    def is_copied(self) -> bool:
        """Whether the group has committed all that was sent."""
        for client in self.clients:
            client.committed()
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": GROUP})
        try:
            found = consumer.committed([TopicPartition(SOURCE, n) for n in range(PARTITIONS)], timeout=SECONDS)
        finally:
            consumer.close()
        return sum(max(each.offset, 0) for each in found) >= self.source.sent

    def close(self) -> None:
        for client in self.clients:
            client.kill()
        self.view.close()


@pytest.fixture
def stage(cluster: LocalCluster, tmp_path: Path, seed: int) -> Iterator[Stage]:
    made = Stage(cluster, tmp_path, seed)
    try:
        yield made
    finally:
        made.close()


FAULTS = ("kill-copier", "kill-transaction-coordinator", "kill-teller", "kill-group-coordinator", "kill-leader")


def test_what_is_copied_is_there_once_and_the_bank_keeps_its_sum(stage: Stage) -> None:
    stage.await_commits()
    began = time.monotonic()
    faults = list(FAULTS)
    while faults or time.monotonic() < began + SOAK_SECONDS:
        stage.play(faults.pop(0) if faults else stage.random.choice(FAULTS))
    stage.finish()
    source = read_by_librdkafka(stage.servers, SOURCE, PARTITIONS)
    assert sum(map(len, source)) == stage.source.sent
    copied = read_by_librdkafka(stage.servers, TARGET, PARTITIONS)
    assert copied == source
    assert read_by_barnabas(stage.servers, TARGET, [len(each) for each in source]) == source
    said = logged([stage.teller.job.log])
    bank = read_by_librdkafka(stage.servers, BANK, PARTITIONS)
    assert balance(bank, said, opening=ACCOUNTS * DEPOSIT) == []
    assert read_by_barnabas(stage.servers, BANK, [len(each) for each in bank]) == bank
    print(f"{stage.source.sent} records copied, {len(said['c'])} transfers committed, {len(said['a'])} aborted")
