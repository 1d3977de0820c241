"""A compacted topic of a running broker, written and read by librdkafka while the cleaner is at work."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.admin.main import main
from tests.support.broker_process import BrokerProcess
from tests.support.zookeeper import new_zookeeper

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

SETTINGS = {
    "log.cleaner.backoff.ms": "50",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.dedupe.buffer.size": "2000000",
    "log.retention.check.interval.ms": "500",
    "log.flush.offset.checkpoint.interval.ms": "1000",
    "zookeeper.session.timeout.ms": "3000",
}
TOPIC_CONFIG = {
    "cleanup.policy": "compact",
    "segment.bytes": "20000",
    "delete.retention.ms": "100",
    "file.delete.delay.ms": "0",
}
KEYS = 40
Values = dict[bytes, bytes | None]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with (
        new_zookeeper(tmp_path / "zookeeper") as zookeeper,
        BrokerProcess(tmp_path, zookeeper.connect_string, SETTINGS) as running,
    ):
        yield running


def make_topic(broker: BrokerProcess, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for made in admin.create_topics([NewTopic(name, 1, 1, config=TOPIC_CONFIG)]).values():
        made.result(30)


def produce(broker: BrokerProcess, topic: str, records: list[tuple[bytes, bytes | None]]) -> None:
    """In small batches, so that there is something to clean in each."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap, "batch.num.messages": 7, "enable.idempotence": True, "linger.ms": 5}
    )
    for key, value in records:
        producer.produce(topic, value, key, partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0


def read(broker: BrokerProcess, topic: str) -> list[tuple[int, bytes, bytes | None]]:
    """All records from the beginning to the end as it is then."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "not-joined",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, confluent_kafka.OFFSET_BEGINNING)])
    found: list[tuple[int, bytes, bytes | None]] = []
    try:
        while True:
            for message in consumer.consume(1000, timeout=0.2):
                error = message.error()
                if error is not None:
                    assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                    return found
                found.append((message.offset(), message.key(), message.value()))
    finally:
        consumer.close()


def last_values(found: list[tuple[int, bytes, bytes | None]]) -> Values:
    return {key: value for _, key, value in found}


def size_of(broker: BrokerProcess, topic: str) -> int:
    return sum(path.stat().st_size for path in (broker.log_directory / f"{topic}-0").glob("*.log"))


def round_of(number: int) -> list[tuple[bytes, bytes | None]]:
    return [(b"key %d" % key, b"%d of " % number + b"v" * 80) for key in range(KEYS)]


def test_a_topic_is_cleaned_while_it_is_written_and_read(
    broker: BrokerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    make_topic(broker, "t")
    written: Values = {}
    for number in range(24):
        records = round_of(number)
        produce(broker, "t", records)
        written |= dict(records)
        if number % 6 == 0:
            # Whatever the cleaner is doing: in order, of each key at least the last value, nothing else.
            found = read(broker, "t")
            assert [offset for offset, _, _ in found] == sorted({offset for offset, _, _ in found})
            assert last_values(found) == written
    everything = 24 * KEYS * 90
    deadline = time.monotonic() + 90
    while size_of(broker, "t") > everything / 3:
        assert time.monotonic() < deadline, f"{size_of(broker, 't')} bytes are left of {everything}"
        time.sleep(0.1)
    found = read(broker, "t")
    assert last_values(found) == written
    assert len(found) < 24 * KEYS / 3
    _tells_of_it(broker, capsys)
    # The same after a stop and a start, which knows what is clean.
    broker.stop()
    broker.start()
    assert last_values(read(broker, "t")) == written
    checkpoint = (broker.log_directory / "cleaner-offset-checkpoint").read_text().splitlines()
    assert checkpoint[:2] == ["0", "1"]
    assert checkpoint[2].startswith("t 0 ")


def _tells_of_it(broker: BrokerProcess, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["logdirs", "t", "-b", broker.bootstrap, "-o", "json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)["brokers"][0]["logDirs"][0]["partitions"]
    assert shown["partition"] == "t-0"
    assert shown["cleaner"]["bytesWritten"] < shown["cleaner"]["bytesRead"]


def test_what_is_deleted_goes_with_its_tombstone_after_a_while(broker: BrokerProcess) -> None:
    make_topic(broker, "t")
    deleted = [(b"key %d" % key, None) for key in range(0, KEYS, 2)]
    produce(broker, "t", [*round_of(0), *round_of(1), *deleted])
    gone = {key for key, _ in deleted}
    deadline = time.monotonic() + 90
    number = 2
    while True:
        # A segment grows old only beside younger ones, and the active one is never cleaned.
        produce(broker, "t", [(b"other %d %d" % (number, key), b"v" * 100) for key in range(200)])
        number += 1
        found = last_values(read(broker, "t"))
        assert all(found.get(key) is None for key in gone), "a deleted key has come back"
        if not gone & found.keys():
            break
        assert time.monotonic() < deadline, "tombstones are still there"
        time.sleep(0.3)
    assert {key for key in found if key.startswith(b"key")} == {b"key %d" % key for key in range(1, KEYS, 2)}


def workers_of(broker: int) -> list[int]:
    """The processes that this one has started."""
    children = Path(f"/proc/{broker}/task").glob("*/children")
    return [int(child) for found in children for child in found.read_text().split()]


def is_alive(process: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except FileNotFoundError:
        return False


def test_kills_amid_cleanings_lose_nothing_and_leave_no_worker(broker: BrokerProcess) -> None:
    make_topic(broker, "t")
    written: Values = {}
    cleaned = workers = 0
    for number in range(4):
        for part in range(3):
            records = round_of(10 * number + part)
            produce(broker, "t", records)
            written |= dict(records)
        # At a different moment of its work each time.
        time.sleep(0.13 * number)
        children = workers_of(broker.pid)
        workers += len(children)
        broker.kill()
        deadline = time.monotonic() + 10
        while any(map(is_alive, children)):
            assert time.monotonic() < deadline, "the worker outlives its broker"
            time.sleep(0.01)
        cleaned += broker.output_of_this_life.count("cleaned the segments at")
        broker.start()
        found = read(broker, "t")
        assert [offset for offset, _, _ in found] == sorted({offset for offset, _, _ in found})
        assert last_values(found) == written
    assert cleaned, "nothing was cleaned in any life"
    assert workers, "no worker was there to be left over"
