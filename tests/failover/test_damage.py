"""A broker that was killed finds its files damaged: it starts, cuts what the rules say and no more, and says so."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from barnabas.protocol.entries import iterate_entries
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import iterate_records
from tests.failover.conftest import MakeBroker
from tests.support.api_client import ApiConnection
from tests.support.broker_process import BrokerProcess
from tests.support.topics import create_topic, wait_for_leaders

pytestmark = pytest.mark.processes

COUNT = 20
NOTHING = "nothing"


@dataclass(slots=True)
class Partition:
    """The files of one partition whose batches hold one record each, all of one size."""

    broker: BrokerProcess
    partition: TopicPartition
    batch_bytes: int = 0

    @property
    def directory(self) -> Path:
        return self.broker.log_directory / f"{self.partition.topic}-{self.partition.partition}"

    def file(self, suffix: str) -> Path:
        (found,) = self.directory.glob(f"*{suffix}")
        return found


def torn_last_batch(partition: Partition) -> str:
    log = partition.file(".log")
    log.write_bytes(log.read_bytes()[:-10])
    return f"cut {partition.batch_bytes - 10} bytes"


def end_of_a_torn_write(partition: Partition) -> str:
    log = partition.file(".log")
    data = log.read_bytes()
    log.write_bytes(data + data[: partition.batch_bytes // 2])
    return f"cut {partition.batch_bytes // 2} bytes"


def flipped_bit(partition: Partition) -> str:
    log = partition.file(".log")
    data = bytearray(log.read_bytes())
    data[15 * partition.batch_bytes + 70] ^= 4
    log.write_bytes(data)
    return f"cut {5 * partition.batch_bytes} bytes"


def zero_filled_tail(partition: Partition) -> str:
    with partition.file(".log").open("ab") as log:
        log.write(bytes(4096))
    return "cut 4096 bytes"


def index_past_the_log(partition: Partition) -> str:
    partition.file(".index").write_bytes(b"\x00\x00\x00\x05\x7f\xff\xff\xff" * 4)
    return f"cut {NOTHING}"


def missing_indexes(partition: Partition) -> str:
    partition.file(".index").unlink()
    partition.file(".timeindex").unlink()
    return f"cut {NOTHING}"


def corrupt_checkpoint(partition: Partition) -> str:
    (partition.broker.log_directory / "recovery-point-offset-checkpoint").write_bytes(b"0\n1\nwhat is this\n")
    return f"cut {NOTHING}"


def corrupt_snapshot(partition: Partition) -> str:
    (partition.directory / "00000000000000000020.snapshot").write_bytes(b"\x00\x01rubbish")
    return f"cut {NOTHING}"


@pytest.mark.parametrize(
    ("damage", "kept"),
    [
        (torn_last_batch, COUNT - 1),
        (end_of_a_torn_write, COUNT),
        (flipped_bit, 15),
        (zero_filled_tail, COUNT),
        (index_past_the_log, COUNT),
        (missing_indexes, COUNT),
        (corrupt_checkpoint, COUNT),
        (corrupt_snapshot, COUNT),
    ],
    ids=lambda value: value.__name__ if callable(value) else None,
)
def test_damage_is_cut_and_told(make_broker: MakeBroker, damage: Callable[[Partition], str], kept: int) -> None:
    broker = make_broker()
    broker.start()
    (partition,) = create_topic(broker.bootstrap, "t")
    with ApiConnection(broker.host, broker.port) as client:
        for number in range(COUNT):
            assert client.produce(partition, value(number)).error_code == ErrorCode.NONE
    broker.kill()
    files = Partition(broker, partition)
    whole = files.file(".log").read_bytes()
    files.batch_bytes = len(whole) // COUNT
    told = damage(files)
    broker.start()
    wait_for_leaders(broker.bootstrap, [partition])
    assert told in broker.wait_for(f"{partition.topic}-0: recovered: scanned 1 segments, {kept} batches")
    assert files.file(".log").read_bytes() == whole[: kept * files.batch_bytes]
    with ApiConnection(broker.host, broker.port) as client:
        assert records(client.fetch_bytes(partition, 0)) == [(number, value(number)) for number in range(kept)]
        assert client.produce(partition, b"what follows").base_offset == kept


def value(number: int) -> bytes:
    return b"value %03d" % number


def records(data: bytes) -> list[tuple[int, bytes | None]]:
    return [
        (record.offset, record.value)
        for position, header in iterate_entries(data)
        for record in iterate_records(data, position, header, 1 << 20)
    ]
