"""The whole of Debian's package index through kcat into six partitions, and back through every client.

`python -m bench.real_input [--bootstrap HOST:PORT] [--codec NAME ...] [--client NAME ...] [--lines N]`. Without a
bootstrap server it starts ZooKeeper and one broker of its own. Each codec is written unkeyed and keyed into a topic of
its own; each client reads each topic, and what it read must be what was sent, in order per partition. Ends with 1 where
it is not. A client that is not there, or a machine without the index, is said and left out. With the 1.2 million lines
of Debian 12 a run takes some fifteen minutes on two cores.
"""

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from barnabas.protocol.ids import TopicPartition
from tests.compatibility.aiokafka_client import AioKafkaClient
from tests.compatibility.brokers import RunningBroker
from tests.compatibility.confluent_client import ConfluentClient
from tests.compatibility.java_client import JavaClient
from tests.compatibility.kafka_python_client import KafkaPythonClient
from tests.compatibility.kcat_client import KcatConsumer
from tests.compatibility.messages import CODECS, Consumer, Received
from tests.compatibility.package_index import (
    KEY_DELIMITER,
    NoPackageIndex,
    index_files,
    messages_of,
    order_violation,
    read_index,
)
from tests.support.broker_process import BrokerProcess
from tests.support.kafka_jars import (
    CLIENT_JARS,
    KAFKA_VERSION,
    NEWER_CLIENT_JARS,
    NEWER_CLIENT_VERSION,
    JarsNotAvailable,
    class_path,
)
from tests.support.kcat import is_installed, produce_lines
from tests.support.zookeeper import new_zookeeper

PARTITIONS = 6


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; 0 when everything came back as it was sent, 1 when not, 2 when nothing could be tried."""
    parser = argparse.ArgumentParser(prog="python -m bench.real_input")
    parser.add_argument("--bootstrap", help="a broker that runs already")
    parser.add_argument("--codec", action="append", choices=CODECS, help="only these codecs")
    parser.add_argument("--client", action="append", help="only these clients, by the names that are printed")
    parser.add_argument("--lines", type=int, default=sys.maxsize, help="only so many lines")
    options = parser.parse_args(arguments)
    try:
        lines = [line for path in index_files() for line in read_index(path).splitlines()][: options.lines]
    except NoPackageIndex as error:
        print(error)
        return 2
    if not is_installed():
        print("kcat is not installed")
        return 2
    clients = [one for one in available_clients() if not options.client or one.name in options.client]
    print(f"{len(lines)} lines, {sum(map(len, lines)) / 1e6:.1f} MB; clients: {', '.join(one.name for one in clients)}")
    with tempfile.TemporaryDirectory(prefix="real-input-") as directory:
        path = Path(directory) / "lines"
        path.write_bytes(b"\n".join(lines) + b"\n")
        with broker_at(options.bootstrap, Path(directory)) as broker:
            results = [
                run(broker, lines, path, clients, codec=codec, keyed=keyed)
                for codec in options.codec or CODECS
                for keyed in (False, True)
            ]
    print("everything came back as it was sent" if all(results) else "NOT everything came back as it was sent")
    return 0 if all(results) else 1


def run(
    broker: RunningBroker, lines: Sequence[bytes], path: Path, clients: Sequence[Consumer], *, codec: str, keyed: bool
) -> bool:
    """Write the lines into a topic of its own, read them with each client; whether all was right."""
    topic = broker.new_topic(partitions=PARTITIONS)
    try:
        return _round_trips(broker, topic, lines, path, clients, codec=codec, keyed=keyed)
    finally:
        broker.delete_topic(topic)


def _round_trips(
    broker: RunningBroker,
    topic: str,
    lines: Sequence[bytes],
    path: Path,
    clients: Sequence[Consumer],
    *,
    codec: str,
    keyed: bool,
) -> bool:
    started = time.monotonic()
    produce_lines(broker.bootstrap, topic, path, codec=codec, key_delimiter=KEY_DELIMITER if keyed else None)
    print(f"{codec}, {'keyed' if keyed else 'unkeyed'}: written in {time.monotonic() - started:.1f} s", flush=True)
    sent = messages_of(lines, keyed=keyed)
    counts = broker.end_offsets([topic], PARTITIONS)
    right = True
    for client in clients:
        started = time.monotonic()
        received = client.consume(broker.bootstrap, counts)
        took = time.monotonic() - started
        problem = _offsets_problem(received) or order_violation(
            sent,
            {
                place.partition: [(one.message.key, one.message.value) for one in records]
                for place, records in received.items()
            },
        )
        print(f"    {client.name}: read in {took:.1f} s, {problem or 'identical and in order'}", flush=True)
        right = right and problem is None
    return right


def _offsets_problem(received: Mapping[TopicPartition, Sequence[Received]]) -> str | None:
    for place, records in received.items():
        if [one.offset for one in records] != list(range(len(records))):
            return f"{place} has offsets with gaps or repeats"
    return None


def available_clients() -> list[Consumer]:
    """Every client that this machine has."""
    clients: list[Consumer] = [KcatConsumer(), ConfluentClient(), KafkaPythonClient(), AioKafkaClient()]
    try:
        class_path(CLIENT_JARS + NEWER_CLIENT_JARS)
    except JarsNotAvailable as error:
        print(f"without the Java clients: {error}")
        return clients
    return [*clients, JavaClient(KAFKA_VERSION, CLIENT_JARS), JavaClient(NEWER_CLIENT_VERSION, NEWER_CLIENT_JARS)]


@contextlib.contextmanager
def broker_at(bootstrap: str | None, directory: Path) -> Iterator[RunningBroker]:
    """The broker that was named, or one of our own for as long as the context lasts."""
    if bootstrap is not None:
        yield RunningBroker(bootstrap)
        return
    with (
        new_zookeeper(directory / "zookeeper") as zookeeper,
        BrokerProcess(directory / "broker", zookeeper.connect_string) as broker,
    ):
        yield RunningBroker(broker.bootstrap, broker.log_directory)


if __name__ == "__main__":
    sys.exit(main())
