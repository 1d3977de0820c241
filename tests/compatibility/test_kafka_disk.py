"""The disk format, judged by Kafka 2.7.2: its tools read what we wrote. Brokers open it in test_interchange.py."""

import random
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from barnabas.launcher.zookeeper import LocalZooKeeper
from tests.compatibility.brokers import RunningBroker
from tests.compatibility.confluent_client import ConfluentClient
from tests.compatibility.messages import CODECS, Message
from tests.support.broker_process import BrokerProcess
from tests.support.java import run_java
from tests.support.kafka import ONE_BROKER_SETTINGS
from tests.support.kafka_jars import BROKER_JARS, JarsNotAvailable, class_path
from tests.support.zookeeper import new_zookeeper

pytestmark = [pytest.mark.java, pytest.mark.processes, pytest.mark.timeout(240)]

SETTINGS = {**ONE_BROKER_SETTINGS, "zookeeper.session.timeout.ms": "2000"}
SMALL_SEGMENTS = {"segment.bytes": "20000", "index.interval.bytes": "500", "segment.index.bytes": "4096"}
PARTITIONS = 2
RECORDS = 600
RECORDS_IN_A_BATCH = 10
T0_MS = int(time.time() * 1000) - 1_000_000
COMPLAINTS = re.compile(
    r"isvalid: false|mismatch|log offset: |non-?consecutive|corrupt|invalid|exception|out of order", re.IGNORECASE
)


@pytest.fixture(scope="module")
def jars() -> str:
    try:
        return class_path(BROKER_JARS)
    except JarsNotAvailable as error:
        pytest.skip(str(error))


@pytest.fixture
def zookeeper(tmp_path: Path) -> Iterator[LocalZooKeeper]:
    with new_zookeeper(tmp_path / "zookeeper") as running:
        yield running


def messages_for(topic: str) -> list[Message]:
    """Records of different sizes with keys, headers and rising times, spread over the partitions."""
    noise = random.Random(0)
    return [
        Message(
            topic,
            number % PARTITIONS,
            b"key-%d" % number if number % 3 else None,
            noise.randbytes(number * 7 % 400),
            (("number", b"%d" % number),) if number % 5 == 0 else (),
            T0_MS + number * 10,
        )
        for number in range(RECORDS)
    ]


def write(bootstrap: str, messages: list[Message], *, codec: str) -> None:
    deliveries = ConfluentClient(batch_num_messages=RECORDS_IN_A_BATCH).produce(bootstrap, messages, codec=codec)
    assert [one.error for one in deliveries] == [None] * len(messages)


def write_with_each_codec(broker: RunningBroker) -> dict[str, list[Message]]:
    written = {}
    for codec in CODECS:
        topic = broker.new_topic(partitions=PARTITIONS, settings=SMALL_SEGMENTS)
        written[topic] = messages_for(topic)
        write(broker.bootstrap, written[topic], codec=codec)
    return written


def flip_bit(path: Path, *, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def dump(jars: str, files: list[Path], *options: str) -> str:
    names = ",".join(map(str, files))
    return run_java(jars, "kafka.tools.DumpLogSegments", [*options, "--files", names])


def complaints(output: str) -> list[str]:
    return [line for line in output.splitlines() if COMPLAINTS.search(line)]


def offsets_by_replica(output: str) -> dict[str, list[int]]:
    """The offsets of the records that a deep dump shows, by the directories of the replicas."""
    found: dict[str, list[int]] = {}
    for line in output.splitlines():
        if line.startswith("Dumping "):
            current = found.setdefault(Path(line.removeprefix("Dumping ")).parent.name, [])
        elif record := re.match(r"\| offset: (\d+)", line):
            current.append(int(record[1]))
    return found


def assert_kafkas_tools_read(jars: str, directory: Path, written: Mapping[str, list[Message]]) -> None:
    replicas = [directory / f"{topic}-{partition}" for topic in written for partition in range(PARTITIONS)]

    def files(suffix: str) -> list[Path]:
        found = [sorted(replica.glob(f"*.{suffix}")) for replica in replicas]
        assert min(map(len, found)) > 0, f"a replica has no .{suffix}"
        return [path for paths in found for path in paths]

    assert len(files("log")) > 3 * len(replicas)
    deep = dump(jars, files("log"), "--deep-iteration", "--print-data-log")
    assert complaints(deep) == []
    expected = {
        f"{topic}-{partition}": list(range(len([one for one in messages if one.partition == partition])))
        for topic, messages in written.items()
        for partition in range(PARTITIONS)
    }
    assert offsets_by_replica(deep) == expected
    indexes = files("index") + files("timeindex")
    sane = dump(jars, indexes, "--index-sanity-check")
    assert sane.count("passed sanity check") == len(indexes), sane
    assert complaints(dump(jars, indexes)) == []
    assert complaints(dump(jars, files("snapshot"))) == []


def test_kafkas_tools_read_our_directory_without_a_complaint(
    tmp_path: Path, jars: str, zookeeper: LocalZooKeeper
) -> None:
    with BrokerProcess(tmp_path / "broker", zookeeper.connect_string, SETTINGS) as barnabas:
        written = write_with_each_codec(RunningBroker(barnabas.bootstrap))
    assert_kafkas_tools_read(jars, barnabas.log_directory, written)
    # The same tools do complain about damage, so their silence says something.
    replica = barnabas.log_directory / f"{next(iter(written))}-0"
    log, index = min(replica.glob("*.log")), min(replica.glob("*.index"))
    flip_bit(log, at=300)
    flip_bit(index, at=3)
    assert complaints(dump(jars, [log], "--deep-iteration"))
    assert complaints(dump(jars, [index]))
