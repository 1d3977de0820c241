"""A topic goes while it is read: readers are told, others notice nothing, files go after the last slice of them.

And a topic of the same name is a new one.
"""

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import AdminClient

from barnabas.protocol.compiler import decode
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.frames import decode_response_header, frame_request
from barnabas.protocol.ids import ApiKey, TopicPartition
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.failover.conftest import MakeBroker
from tests.support.api_client import FETCH_VERSION, ApiConnection
from tests.support.broker_process import BrokerProcess
from tests.support.load_client import LoadClient, read_everything
from tests.support.load_history import LoadHistory
from tests.support.topics import create_topic

pytestmark = [pytest.mark.processes, pytest.mark.timeout(120)]

VALUE = b"v" * 500_000
VALUES = 40
BIG = len(VALUE) * VALUES
WAIT_SECONDS = 30.0
DELAY_MS = 1000
SETTINGS = {"auto.create.topics.enable": "false", "log.segment.delete.delay.ms": str(DELAY_MS)}


@pytest.fixture
def broker(make_broker: MakeBroker) -> BrokerProcess:
    made = make_broker(SETTINGS)
    made.start()
    return made


def until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"{what}: not within {WAIT_SECONDS} s"
        time.sleep(0.02)


def delete(broker: BrokerProcess, topic: str) -> None:
    """Delete the topic; returns when its replica is none any more."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics([topic])[topic].result(WAIT_SECONDS)
    until(lambda: not (broker.log_directory / f"{topic}-0").exists(), f"{topic} goes")


def filled(broker: BrokerProcess, topic: str, *, values: int = VALUES, value: bytes = VALUE) -> TopicPartition:
    (partition,) = create_topic(broker.bootstrap, topic)
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for _ in range(values):
        producer.produce(topic, value, partition=0)
        producer.poll(0)
    assert producer.flush(WAIT_SECONDS) == 0
    return partition


def open_files(broker: BrokerProcess, topic: str) -> list[str]:
    """What the broker has open of this topic, under whatever name."""
    found = []
    for entry in Path(f"/proc/{broker.pid}/fd").iterdir():
        try:
            found.append(os.readlink(entry))
        except OSError:
            continue
    return [path for path in found if f"/{topic}-0" in path]


def left_on_disk(broker: BrokerProcess, topic: str) -> list[str]:
    return [path.name for path in broker.log_directory.iterdir() if path.name.startswith(f"{topic}-0")]


def fetch_frame(partition: TopicPartition) -> bytes:
    """A request for everything."""
    wanted = FetchPartition(partition=partition.partition, fetch_offset=0, partition_max_bytes=2 * BIG)
    topic = FetchTopic(topic=partition.topic, partitions=[wanted])
    request = FetchRequest(None, -1, 0, 1, 2 * BIG, topics=[topic])
    frame = frame_request(ApiKey.FETCH, FETCH_VERSION, correlation_id=7, client_id="test", request=request)
    return b"".join(cast("list[bytes]", frame))


def error_of(client: ApiConnection, partition: TopicPartition) -> ErrorCode:
    return ErrorCode(client.fetch(partition, 0).error_code)


def test_what_is_being_sent_comes_whole_and_then_the_topic_is_unknown(broker: BrokerProcess) -> None:
    partition = filled(broker, "sent")
    before = (broker.log_directory / "sent-0" / "00000000000000000000.log").read_bytes()
    with socket.socket() as slow, ApiConnection(broker.host, broker.port) as other:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.settimeout(WAIT_SECONDS)
        slow.connect((broker.host, broker.port))
        slow.sendall(fetch_frame(partition))
        begun = slow.recv(1000)
        delete(broker, "sent")
        assert error_of(other, partition) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        time.sleep(2 * DELAY_MS / 1000)  # The files' time has come while a part of them is still to be sent.
        assert open_files(broker, "sent"), "nothing was under way any more"
        size = int.from_bytes(begun[:4])
        assert size > BIG
        data = bytearray(begun[4:])
        while len(data) < size:
            data += slow.recv(1 << 20)
        _, position = decode_response_header(ApiKey.FETCH, FETCH_VERSION, data)
        answer, _ = decode(FetchResponse, FETCH_VERSION, data, position)
        (part,) = answer.responses[0].partition_responses
        assert bytes(cast("memoryview", part.record_set)) == before
    until(lambda: not open_files(broker, "sent"), "its files are closed")
    until(lambda: not left_on_disk(broker, "sent"), "its files are removed")


def test_who_waits_for_records_is_told_at_once(broker: BrokerProcess) -> None:
    partition = filled(broker, "awaited", values=1, value=b"v")
    with ApiConnection(broker.host, broker.port) as client:
        asked = FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=1000)
        topic = FetchTopic(topic=partition.topic, partitions=[asked])
        client.send(ApiKey.FETCH, FETCH_VERSION, FetchRequest(None, -1, 25_000, 1, 1000, topics=[topic]))
        assert not client.has_input(0.5), "it does not wait"
        began = time.monotonic()
        delete(broker, "awaited")
        answer = client.receive()
        assert time.monotonic() - began < 10
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_session_tells_it_and_goes_on_with_the_rest(broker: BrokerProcess) -> None:
    goes, stays = (filled(broker, name, values=1, value=b"v") for name in ("goes", "stays"))
    sessions: list[int] = []
    with ApiConnection(broker.host, broker.port) as client:

        def ask(session_id: int, epoch: int, *topics: TopicPartition) -> dict[str, int]:
            wanted = [FetchTopic(each.topic, [FetchPartition(0, -1, 1, -1, -1, 1000)]) for each in topics]
            request = FetchRequest(None, -1, 0, 1, 10_000, 0, session_id, epoch, wanted)
            answer = client.call(ApiKey.FETCH, FETCH_VERSION, request)
            assert answer.error_code == ErrorCode.NONE
            sessions.append(answer.session_id)
            return {topic.topic: topic.partition_responses[0].error_code for topic in answer.responses}

        assert ask(0, 0, goes, stays) == {"goes": 0, "stays": 0}
        (session,) = sessions
        assert session > 0
        delete(broker, "goes")
        assert ask(session, 1)["goes"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        with ApiConnection(broker.host, broker.port) as producer:
            assert producer.produce(stays, b"more").error_code == ErrorCode.NONE
        assert ask(session, 2)["stays"] == 0


def test_others_notice_nothing(broker: BrokerProcess) -> None:
    partitions = create_topic(broker.bootstrap, "busy", partitions=2)
    history = LoadHistory()
    with LoadClient(broker.bootstrap, partitions, history) as load:
        for number in range(3):
            load.wait_for_acknowledgements(200)
            filled(broker, f"passing-{number}", values=4)
            delete(broker, f"passing-{number}")
        load.wait_for_acknowledgements(200)
    assert history.given_up == []
    assert history.anomalies(read_everything(broker.bootstrap, partitions)) == []
    assert "Traceback" not in broker.output


def consumer_of_librdkafka(broker: BrokerProcess) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 500,
            "topic.metadata.propagation.max.ms": 500,
            "log_level": 0,
        }
    )


def test_a_topic_of_the_same_name_is_a_new_one_to_librdkafka(broker: BrokerProcess) -> None:
    filled(broker, "again", values=50, value=b"old")
    consumer = consumer_of_librdkafka(broker)

    def values(count: int) -> list[tuple[int, bytes | None]]:
        found: list[tuple[int, bytes | None]] = []

        def are_there() -> bool:
            records = consumer.consume(100, timeout=0.2)
            found.extend((one.offset() or 0, one.value()) for one in records if one.error() is None)
            return len(found) >= count

        until(are_there, f"{count} records")
        return found

    consumer.assign([confluent_kafka.TopicPartition("again", 0, confluent_kafka.OFFSET_BEGINNING)])
    assert values(50) == [(offset, b"old") for offset in range(50)]
    delete(broker, "again")

    assert all(record.error() is not None for record in consumer.consume(10, timeout=1))
    with pytest.raises(confluent_kafka.KafkaException, match=r"UNKNOWN_TOPIC_OR_PART|_UNKNOWN_PARTITION"):
        consumer.get_watermark_offsets(confluent_kafka.TopicPartition("again", 0), timeout=WAIT_SECONDS)
    filled(broker, "again", values=20, value=b"new")
    # It goes on at offset 50, is told that this is out of range, and begins anew.
    assert values(20) == [(offset, b"new") for offset in range(20)]
    consumer.close()


def test_a_topic_of_the_same_name_is_a_new_one_to_kafka_python(broker: BrokerProcess) -> None:
    filled(broker, "python", values=50, value=b"old")
    where = kafka.TopicPartition("python", 0)
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=broker.bootstrap, group_id=None, auto_offset_reset="earliest", metadata_max_age_ms=500
    )

    def values(count: int) -> list[tuple[int, bytes]]:
        found: list[tuple[int, bytes]] = []

        def are_there() -> bool:
            found.extend((one.offset, one.value) for one in consumer.poll(200).get(where, ()))
            return len(found) >= count

        until(are_there, f"{count} records")
        return found

    consumer.assign([where])
    assert values(50) == [(offset, b"old") for offset in range(50)]
    delete(broker, "python")
    assert consumer.poll(1000) == {}
    filled(broker, "python", values=20, value=b"new")
    # As with Kafka, it does not go back by itself.
    consumer.seek_to_beginning(where)
    assert values(20) == [(offset, b"new") for offset in range(20)]
    consumer.close()
