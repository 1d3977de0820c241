"""The Java client of one version of Apache Kafka, driven through `java/ClientDriver.java`."""

import itertools
import struct
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path

from barnabas.protocol.ids import TopicPartition
from tests.compatibility.messages import MAX_REQUEST_BYTES, Delivery, Message, Received
from tests.compatibility.progress import Progress
from tests.support.java import compile_java, run_java
from tests.support.kafka_jars import Jar, class_path

_SOURCE = Path(__file__).parent / "java" / "ClientDriver.java"


class JavaClient:
    """Compiled at its first use into a directory that lives as long as the object."""

    sends_records_of_nothing = True

    def __init__(self, version: str, jars: tuple[Jar, ...]) -> None:
        self.name = f"java-{version}"
        self._jars = jars
        self._directory = tempfile.TemporaryDirectory(prefix="java-client-")
        self._numbers = itertools.count()
        self._class_path: str | None = None

    def produce(
        self, bootstrap: str, messages: Sequence[Message], *, codec: str = "none", one_by_one: bool = False
    ) -> Sequence[Delivery]:
        records, results = self._path("records"), self._path("results")
        records.write_bytes(b"".join(map(_encoded, messages)))
        settings = {
            "compression.type": codec,
            "max.request.size": MAX_REQUEST_BYTES,
            "acks": "all",
            "enable.idempotence": "false" if one_by_one else "true",
        }
        self._run("produce-one-by-one" if one_by_one else "produce", records, results, bootstrap, settings)
        return [_delivery(line) for line in results.read_text().splitlines()]

    def consume(
        self, bootstrap: str, counts: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, Sequence[Received]]:
        wanted, records = self._path("wanted"), self._path("records")
        wanted.write_text("".join(f"{topic} {number} {count}\n" for (topic, number), count in counts.items()))
        self._run("consume", wanted, records, bootstrap, {"enable.auto.commit": "false"})
        progress = Progress(counts)
        for received in _decoded(records.read_bytes()):
            progress.add(received)
        return progress.received

    def _run(self, command: str, first: Path, second: Path, bootstrap: str, settings: Mapping[str, object]) -> None:
        properties = self._path("properties")
        lines = {"bootstrap.servers": bootstrap, **settings}.items()
        properties.write_text("".join(f"{key}={value}\n" for key, value in lines))
        if self._class_path is None:
            output = Path(self._directory.name) / "classes"
            self._class_path = compile_java(_SOURCE, jars=class_path(self._jars), output=output)
        run_java(self._class_path, "ClientDriver", [command, str(first), str(second), str(properties)])

    def _path(self, name: str) -> Path:
        return Path(self._directory.name) / f"{name}-{next(self._numbers)}"


def _encoded(message: Message) -> bytes:
    partition = -1 if message.partition is None else message.partition
    assert message.timestamp_ms is not None
    parts = [
        _sized(message.topic.encode()),
        struct.pack(">iqq", partition, -1, message.timestamp_ms),
        _sized(message.key),
        _sized(message.value),
        struct.pack(">i", len(message.headers)),
    ]
    for name, value in message.headers:
        parts += [_sized(name.encode()), _sized(value)]
    return b"".join(parts)


def _sized(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def _decoded(data: bytes) -> Iterator[Received]:
    source = BytesIO(data)
    while source.tell() < len(data):
        topic = _required(source).decode()
        partition, offset, timestamp_ms = struct.unpack(">iqq", source.read(20))
        key, value = _bytes(source), _bytes(source)
        (header_count,) = struct.unpack(">i", source.read(4))
        headers = tuple((_required(source).decode(), _bytes(source)) for _ in range(header_count))
        yield Received(offset, Message(topic, partition, key, value, headers, timestamp_ms))


def _bytes(source: BytesIO) -> bytes | None:
    (length,) = struct.unpack(">i", source.read(4))
    return None if length < 0 else source.read(length)


def _required(source: BytesIO) -> bytes:
    data = _bytes(source)
    assert data is not None
    return data


def _delivery(line: str) -> Delivery:
    first, second = line.split(" ", 1)
    return Delivery(error=second) if first == "error" else Delivery(int(first), int(second))
