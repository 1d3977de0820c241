"""What tests of the mirror do: topics with records at the sources, mirrors as processes, and reading what arrived.

Records are read by librdkafka, with read_committed, as somebody else's eyes.
"""

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import confluent_kafka
from confluent_kafka.admin import AdminClient

from barnabas.client import Admin, Codec, NewTopic, Producer, ProducerOptions, open_cluster
from tests.support.broker_process import BrokerProcess

SECONDS = 90.0


@dataclass(frozen=True)
class Clusters:
    """Two sources and a target."""

    paris: BrokerProcess
    lima: BrokerProcess
    world: BrokerProcess


class Seen(NamedTuple):
    """A record as a consumer sees it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...]

    @property
    def content(self) -> tuple[Any, ...]:
        return self[2:]


class Sent(NamedTuple):
    """A record to write."""

    key: bytes | None
    value: bytes | None
    partition: int | None = None
    timestamp: int = 1_700_000_000_000
    headers: tuple[tuple[str, bytes | None], ...] = ()


def make_topic(broker: BrokerProcess, topic: str, partitions: int = 1, **configs: str) -> None:
    """Make a topic; `_` in the names of settings stands for a dot."""

    async def make() -> None:
        async with open_cluster(broker.bootstrap) as cluster:
            settings = {key.replace("_", "."): value for key, value in configs.items()}
            (error,) = (await Admin(cluster).create_topics([NewTopic(topic, partitions, 1, settings)])).values()
            assert error is None, error

    asyncio.run(make())


def delete_topic(broker: BrokerProcess, topic: str) -> None:
    async def delete() -> None:
        async with open_cluster(broker.bootstrap) as cluster:
            (error,) = (await Admin(cluster).delete_topics([topic])).values()
            assert error is None, error

    asyncio.run(delete())


def make_topic_again(broker: BrokerProcess, topic: str) -> None:
    """Make a topic whose deletion may be under way still."""

    def is_made() -> bool:
        try:
            make_topic(broker, topic)
        except AssertionError:
            return False
        return True

    eventually(is_made, f"{topic} is deleted")


def add_partitions(broker: BrokerProcess, topic: str, total: int) -> None:
    async def add() -> None:
        async with open_cluster(broker.bootstrap) as cluster:
            (error,) = (await Admin(cluster).create_partitions({topic: total})).values()
            assert error is None, error

    asyncio.run(add())


def write(
    broker: BrokerProcess,
    topic: str,
    records: Iterable[Sent],
    *,
    codec: Codec = Codec.NONE,
    batch_bytes: int = 32 * 1024,
    transactions: Callable[[int], bool] | None = None,
) -> None:
    """Write records. With `transactions` each hundred of them is one, committed where its number gives True."""
    options = ProducerOptions(
        codec=codec,
        batch_bytes=batch_bytes,
        transactional_id=None if transactions is None else f"writer-of-{topic}",
    )

    async def work() -> None:
        async with open_cluster(broker.bootstrap) as cluster, Producer(cluster, options=options) as producer:
            for number, each in enumerate(records):
                if transactions is not None and number % 100 == 0:
                    if number:
                        await _end(producer, commits=transactions(number // 100 - 1))
                    producer.begin_transaction()
                await producer.send(
                    topic,
                    each.key,
                    each.value,
                    partition=each.partition,
                    timestamp=each.timestamp,
                    headers=each.headers,
                )
            if transactions is not None:
                await _end(producer, commits=transactions(number // 100))

    asyncio.run(work())


async def _end(producer: "Producer[bytes, bytes]", *, commits: bool) -> None:
    if commits:
        await producer.commit_transaction()
    else:
        await producer.flush()
        await producer.abort_transaction()


def partition_count(broker: BrokerProcess, topic: str) -> int:
    """How many partitions a topic has, 0 where there is none."""
    found = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=SECONDS).topics.get(topic)
    return 0 if found is None else len(found.partitions)


def read(broker: BrokerProcess, topic: str, *, offsets: Mapping[int, int] | None = None) -> list[Seen]:
    """All that is committed in a topic, from these offsets on or from the start, partition by partition."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "readers-of-tests",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            # A topic that is written to all the time has an end too.
            "fetch.wait.max.ms": 10,
        }
    )
    start = offsets or {}
    partitions = [
        confluent_kafka.TopicPartition(topic, number, start.get(number, confluent_kafka.OFFSET_BEGINNING))
        for number in range(partition_count(broker, topic))
    ]
    seen: list[Seen] = []
    left = {each.partition for each in partitions}
    deadline = time.monotonic() + SECONDS
    try:
        consumer.assign(partitions)
        while left:
            assert time.monotonic() < deadline, f"{topic}: partitions {left} have no end"
            message = consumer.poll(0.2)
            if message is None:
                continue
            error = message.error()
            if error is not None:
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                left.discard(message.partition())
                continue
            seen.append(
                Seen(
                    message.partition(),
                    message.offset(),
                    message.key(),
                    message.value(),
                    message.timestamp()[1],
                    tuple(message.headers() or ()),
                )
            )
    finally:
        consumer.close()
    return sorted(seen, key=lambda each: each[:2])


class MirrorProcess:
    """`barnabas pipeline JOB` as a process, with its configuration and its report under one directory."""

    def __init__(self, directory: Path, config: Mapping[str, Any], *, job: str = "mirror") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._job = job
        self.config_path = directory / f"{job}.toml"
        self.config_path.write_text(_toml(config))
        self._report_path = directory / f"{job}.json"
        self._output_path = directory / f"{job}.out"
        self._process: subprocess.Popen[bytes] | None = None
        self._output_start = 0

    @property
    def output(self) -> str:
        return self._output_path.read_text(errors="replace") if self._output_path.exists() else ""

    @property
    def output_of_this_life(self) -> str:
        return self.output[self._output_start :]

    @property
    def report(self) -> dict[str, Any]:
        return dict(json.loads(self._report_path.read_text()))

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, **overrides: object) -> None:
        assert not self.is_running
        command = [sys.executable, "-m", "barnabas.admin.main", "pipeline", self._job, str(self.config_path)]
        for key, value in overrides.items():
            command += ["--set", f"{key}={json.dumps(value)}"]
        command += ["--report", str(self._report_path)]
        self._output_start = len(self.output)
        with self._output_path.open("ab") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    def run(self, **overrides: object) -> dict[str, Any]:
        """Run to the end, which must be a good one, and return the report."""
        status = self.run_to_its_end(**overrides)
        assert status == 0, self.output
        return self.report

    def run_to_its_end(self, **overrides: object) -> int:
        self.start(**overrides)
        assert self._process is not None
        return self._process.wait(SECONDS)

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + SECONDS
        while text not in self.output_of_this_life:
            assert self.is_running, self.output
            assert time.monotonic() < deadline, f"it did not say {text!r}: {self.output}"
            time.sleep(0.05)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_running:
            self.kill()


def eventually(happened: Callable[[], bool], what: str) -> None:
    """Look again and again until it happened."""
    deadline = time.monotonic() + SECONDS
    while not happened():
        assert time.monotonic() < deadline, f"it did not happen in time: {what}"
        time.sleep(0.1)


def _toml(config: Mapping[str, Any]) -> str:
    """TOML of nested tables; JSON's values are TOML's."""
    plain = {key: value for key, value in config.items() if not isinstance(value, Mapping) and key != "sources"}
    lines = [f"{key} = {json.dumps(value)}" for key, value in plain.items()]
    for key, value in config.items():
        if isinstance(value, Mapping):
            lines.append(f"[{key}]")
            lines += [f"{inner} = {json.dumps(each)}" for inner, each in value.items()]
    for source in config.get("sources", ()):
        options = source.get("options", {})
        lines.append("[[sources]]")
        lines += [f"{inner} = {json.dumps(each)}" for inner, each in source.items() if inner != "options"]
        lines.append("[sources.options]")
        lines += [f"{json.dumps(inner)} = {json.dumps(each)}" for inner, each in options.items()]
    return "\n".join(lines) + "\n"


def source(broker: BrokerProcess, alias: str, **more: Any) -> dict[str, Any]:
    return {"alias": alias, "bootstrap_servers": broker.bootstrap, **more}


def mirror_config(
    target: BrokerProcess, alias: str, name: str, *sources: dict[str, Any], **more: Any
) -> dict[str, Any]:
    return {
        "name": name,
        "alias": alias,
        "mode": "catch_up",
        **more,
        "cluster": {"bootstrap_servers": target.bootstrap},
        "sources": list(sources),
    }
