"""A log directory that fails goes offline alone and for good; nothing is acknowledged from it after that.

A broker with two log directories, and a topic with a partition in each. Faults come from the disk port of a real
process (`tests.support.faulty_disk`), where the journal shows that they acted, and from a file system that is full.
"""

import errno
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from tests.failover.conftest import MakeBroker
from tests.support.api_client import ApiConnection, batch_of
from tests.support.broker_process import BrokerProcess
from tests.support.faulty_broker import ENTRY
from tests.support.faulty_disk import FSYNC, PWRITE, Fault, FaultControl
from tests.support.topics import create_topic, wait_for_leaders

FATAL_EXIT = 70
FIRST_LOG = "00000000000000000000.log"
DURABLE = {"flush.messages": "1"}


@dataclass(slots=True)
class TwoDirectories:
    """A running broker, and the partition that lives in each of its directories."""

    broker: BrokerProcess
    faults: FaultControl
    paths: tuple[Path, Path]
    partitions: tuple[TopicPartition, TopicPartition]

    def connect(self) -> ApiConnection:
        return ApiConnection(self.broker.host, self.broker.port)

    def fail(self, place: int, kind: str, *, error: int = errno.EIO, times: int | None = 1) -> None:
        self.faults.set(Fault(kind, f"{self.paths[place]}/", error=error, times=times))


@pytest.fixture
def two(make_broker: MakeBroker, tmp_path: Path) -> TwoDirectories:
    faults = FaultControl(tmp_path / "faults")
    paths = (tmp_path / "first", tmp_path / "second")
    broker = make_broker({"log.dirs": f"{paths[0]},{paths[1]}"}, entry=ENTRY, environment=faults.environment)
    broker.start()
    made = create_topic(broker.bootstrap, "t", partitions=2, settings=DURABLE)
    first, second = sorted(made, key=lambda partition: not (paths[0] / f"t-{partition.partition}").exists())
    assert (paths[1] / f"t-{second.partition}").exists(), "a partition in each directory"
    return TwoDirectories(broker, faults, paths, (first, second))


@pytest.mark.processes
@pytest.mark.parametrize("kind", [FSYNC, PWRITE])
def test_a_disk_that_fails_once_is_offline_for_good(two: TwoDirectories, kind: str) -> None:
    failing, other = two.partitions
    with two.connect() as client:
        acknowledged = [client.produce(partition, b"before") for partition in two.partitions]
        assert [answer.error_code for answer in acknowledged] == [ErrorCode.NONE] * 2
        two.fail(0, kind)
        for number in range(5):
            client.send_produce(failing, batch_of([b"during %d" % number]))
        assert {client.receive_produced().error_code for _ in range(5)} == {ErrorCode.KAFKA_STORAGE_ERROR}
        refused_ns = time.monotonic_ns()
        (failed,) = [entry for entry in two.faults.journal() if entry.error is not None]
        assert (failed.kind, failed.error) == (kind, "EIO")
        assert client.produce(failing, b"after").error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert client.produce(failing, b"after", acks=1).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert client.fetch(failing, 0).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert client.produce(other, b"after").error_code == ErrorCode.NONE
        assert client.fetch(other, 0).high_watermark == 2
    (new,) = create_topic(two.broker.bootstrap, "made-later", settings=DURABLE)
    with two.connect() as client:
        assert client.produce(new, b"into the directory that lives").base_offset == 0
    two.broker.wait_for(f"{two.paths[0]}: the log directory is offline for good")
    touched_after = [
        entry
        for entry in two.faults.journal()
        if entry.path.startswith(f"{two.paths[0]}/") and entry.begin_ns > refused_ns
    ]
    assert touched_after == []


@pytest.mark.processes
def test_a_broker_whose_last_log_directory_fails_ends(two: TwoDirectories) -> None:
    with two.connect() as client:
        for place, partition in enumerate(two.partitions):
            assert two.broker.exit_status is None
            assert client.produce(partition, b"before").error_code == ErrorCode.NONE
            two.fail(place, FSYNC)
            client.send_produce(partition, batch_of([b"during"]))
            if place == 0:
                assert client.receive_produced().error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert two.broker.wait_for_end() == FATAL_EXIT
    assert "the last log directory failed" in two.broker.output_of_this_life
    two.faults.set()
    two.broker.start()
    wait_for_leaders(two.broker.bootstrap, two.partitions)
    with two.connect() as client:
        for partition in two.partitions:
            assert b"before" in client.fetch_bytes(partition, 0)


@pytest.mark.processes
@pytest.mark.parametrize("acks", [-1, 1])
def test_no_answer_leaves_before_its_fsync_returned(two: TwoDirectories, acks: int) -> None:
    partition, _ = two.partitions
    delay_ms, count = 30, 40
    two.faults.set(Fault(FSYNC, f"/t-{partition.partition}/", delay_ms=delay_ms))
    answered_ns: dict[int, int] = {}
    with two.connect() as client:
        for number in range(count):
            client.send_produce(partition, batch_of([b"record %d" % number]), acks=acks)
        for _ in range(count):
            answer = client.receive_produced()
            answered_ns[answer.base_offset] = time.monotonic_ns()
            assert answer.error_code == ErrorCode.NONE
    assert sorted(answered_ns) == list(range(count))
    journal = [entry for entry in two.faults.journal() if entry.path.endswith(f"/t-{partition.partition}/{FIRST_LOG}")]
    writes = sorted((entry for entry in journal if entry.kind == PWRITE), key=lambda entry: entry.position)
    syncs = [entry for entry in journal if entry.kind == FSYNC and entry.end_ns - entry.begin_ns >= delay_ms * 1e6]
    assert len(writes) == count
    for offset, write in enumerate(writes):
        synced = [entry.end_ns for entry in syncs if entry.begin_ns >= write.end_ns]
        assert synced, f"offset {offset} was acknowledged and never synced"
        assert min(synced) <= answered_ns[offset], f"offset {offset} was acknowledged before it was synced"
    assert len(syncs) < count, "appends that wait together share an fsync"
