"""What a row's name says of its load is what its clients are told, and what its topic is made as."""

import contextlib
import itertools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench import kafka_releases
from bench.side_by_side.__main__ import _CORE_MINUTES, all_rows
from bench.side_by_side.contestants import SETTINGS, SHIPPED
from bench.side_by_side.row import Row
from bench.side_by_side.rows import requests, volume
from bench.side_by_side.usage import ClientRun, Machine, Usage
from tests.unit.bench.chosen_answers import run_on
from tests.unit.bench.small_broker import TOPIC

VOLUMES = [row for row in all_rows() if row.name.startswith(("produce", "consume"))]
REQUESTS = [row for row in all_rows() if row.name.startswith("one record")]
LATENCIES = [row for row in all_rows() if row.name.startswith("latency")]
USED = Usage(1.0, 1.0, 0.1, 1.0, 0.1, Machine(1.0, 0.0), 2)
PERCENTILES = dict.fromkeys(("p50", "p99", "p99.9", "max"), 1.0)
CONSUMED = "data.consumed.in.nMsg, fetch.time.ms"


class Noting:
    """A cluster that starts nothing. `asked` has, in order, topics, what each client was told, and dropped caches."""

    def __init__(self, brokers: int, directory: Path) -> None:
        self.ports = {broker_id: 9091 + broker_id for broker_id in range(1, brokers + 1)}
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in self.ports.values())
        self.directory = directory
        self.asked: list[tuple[str, dict[str, Any]]] = []
        for partition in range(6):
            log = directory / f"broker-1/logs/{TOPIC}-{partition}/0.log"
            log.parent.mkdir(parents=True)
            log.write_bytes(bytes(1000))

    @contextlib.contextmanager
    def topic(self, **told: Any) -> Iterator[str]:
        self.asked.append(("topic", told))
        yield TOPIC

    def pin(self, cpus: Sequence[int] | None) -> None: ...

    def systems(self) -> list[object]:
        return []

    def run_clients(self, _: object, commands: Sequence[Sequence[str]], **__: object) -> ClientRun:
        asked = [told_by(command) for command in commands]
        self.asked += asked
        return ClientRun([printed(*each) for each in asked], USED, [])

    def of(self, *kinds: str) -> list[dict[str, Any]]:
        """What was told of these kinds."""
        return [told for kind, told in self.asked if kind in kinds]


def told_by(command: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """What kind of client a command starts, and what it is told."""
    if "bench.load" in command:
        told: dict[str, Any] = json.loads(command[-1])
        return told["kind"], {**told, "connections": {each["connections"] for each in told["endpoints"]}}
    if "bench.latency_load" in command:
        _, _, _, partitions, rate, _, acks = command[-7:]
        return "latency", {"partitions": partitions, "rate": rate, "acks": acks}
    words = list(command)
    told = dict(word.split("=", 1) for word in words if "=" in word)
    told |= {first: second for first, second in itertools.pairwise(words) if first.startswith("-")}
    for main_class in ("ProducerPerformance", "ConsumerPerformance"):
        if any(word.endswith(main_class) for word in words):
            return main_class, told
    return ("kcat -P" if "-P" in command else "kcat -C"), told


def printed(kind: str, told: dict[str, Any]) -> str:
    if kind == "ProducerPerformance":
        return f"{told['--num-records']} records sent, 1000.0 records/sec (1 MB/sec)\n"
    if kind == "ConsumerPerformance":
        return f"{CONSUMED}\n{told['--messages']}, 1000\n"
    answers = told.get("answers") if isinstance(told.get("answers"), int) else 10
    sums = {"answers": answers, "answer_bytes": 10_000, "seconds": 1.0, "client_cpu_seconds": 0.1}
    return json.dumps({**sums, "acknowledged": PERCENTILES, "read": PERCENTILES})


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Row], Noting]:
    """Measures a row on a cluster that notes what it is asked for."""

    def measure(row: Row) -> Noting:
        cluster = Noting(row.brokers, tmp_path)
        for module in (volume.clients, requests):
            monkeypatch.setattr(module, "run_clients", cluster.run_clients)
        monkeypatch.setattr(volume, "drop_from_memory", lambda *_: cluster.asked.append(("drop", {})))
        monkeypatch.setattr(volume, "copied_bytes", lambda _, work: work() or 0.0)
        monkeypatch.setattr(volume, "bare_rate", lambda _: 1.0)
        monkeypatch.setattr(volume.clients.shutil, "which", lambda _: "kcat")
        monkeypatch.setattr(volume.clients, "java_command", lambda: "java")
        monkeypatch.setattr(kafka_releases, "_class_path", lambda _: "no.jar")
        # Telling where a client's time began needs a client that ran.
        monkeypatch.setattr(ClientRun, "over", lambda *_: USED)
        row.measure(run_on(cluster, tmp_path))
        return cluster

    return measure


def test_all_shapes_are_crossed_with_all_ways_to_write_and_read_them() -> None:
    shapes = [
        f"{size} B, {partitions}, {acks}{codec}"
        for size in (100, 1000)
        for partitions in ("1 partition", "6 partitions")
        for acks in ("acks=1 RF 1", "acks=all RF 3")
        for codec in ("", ", lz4", ", zstd")
    ]
    writers = ["broker-bound", "librdkafka", "ProducerPerformance"]
    written = [
        f"produce, {how}, {shape}{checks}"
        for shape in shapes
        for how in writers
        for checks in ("", ", full validation")
    ]
    readers = [
        f"consume, {how}{cache}{at_once}, {shape}"
        for shape in shapes
        for how in ("broker-bound", "librdkafka", "ConsumerPerformance")
        for cache in (", warm" if how == "broker-bound" else "", ", cold")
        for at_once in ("", ", 6 at once")
    ]
    others = [
        f"{how}, {shape}"
        for shape in shapes
        for how in (
            "produce, broker-bound, pinned",
            "consume, broker-bound, warm, pinned",
            "consume, copies, warm",
            "consume, copies, cold",
        )
    ]
    assert (len(written), len(readers)) == (144, 288)
    assert sorted(row.name for row in VOLUMES) == sorted([*written, *readers, *others])


def test_rows_are_alike_that_differ_in_sizes_partitions_replicas_and_checks_alone() -> None:
    """One of these is tried for all: whoever reads or writes in another way, or another codec, is tried by itself."""
    ways: dict[str, set[str]] = {}
    for row in VOLUMES:
        way = re.sub(r", \d+ B, \d+ partitions?, acks=\S+ RF \d", "", row.name).replace(", full validation", "")
        ways.setdefault(row.alike, set()).add(way)
    assert sorted(map(len, ways.values())) == [1] * len(ways)
    assert len({way for found in ways.values() for way in found}) == len(ways) == 3 * (4 + 15)


def number(pattern: str, name: str) -> int:
    """What the name says, or one."""
    found = re.search(pattern, name)
    return int(found[1].replace(",", "")) if found else 1


def acks_of(name: str) -> int:
    return -1 if "acks=all" in name else 1


def codec_of(name: str) -> str:
    return next((codec for codec in ("lz4", "zstd") if name.endswith(codec) or f"{codec}," in name), "none")


@pytest.mark.parametrize("row", VOLUMES, ids=lambda row: row.name)
def test_what_is_written_is_of_the_size_and_codec_and_acknowledged_as_the_name_says(
    row: Row, measured: Callable[[Row], Noting]
) -> None:
    cluster = measured(row)
    replicas = 3 if "RF 3" in row.name else 1
    partitions = number(r" (\d+) partitions", row.name)
    assert cluster.of("topic") == [{"partitions": partitions, "replication_factor": replicas}]
    size, acks, codec = number(r" (\d+) B", row.name), acks_of(row.name), codec_of(row.name)
    writers = cluster.of("produce", "kcat -P", "ProducerPerformance")
    assert len(writers) == 1
    (told,) = writers
    if "librdkafka" in row.name and row.name.startswith("produce"):
        assert (told["acks"], told["compression.codec"]) == (str(acks), codec)
        assert re.search(rf"letters-{size}-", told["-l"])
    elif row.name.startswith("produce, ProducerPerformance"):
        assert (told["acks"], told["compression.type"], told["--record-size"]) == (str(acks), codec, str(size))
    else:
        # Batches of 100 KB.
        assert (told["record_bytes"], told["records"]) == (size, 100_000 // size)
        assert (told["acks"], told["codec"], told["connections"]) == (acks, codec, {4})
        led = [partition for each in told["endpoints"] for partition in each["partitions"]]
        assert sorted(led) == list(range(partitions))


@pytest.mark.parametrize("row", [row for row in VOLUMES if row.name.startswith("consume")], ids=lambda row: row.name)
def test_readers_are_as_many_as_the_name_says_and_find_no_cache_where_it_says_cold(
    row: Row, measured: Callable[[Row], Noting]
) -> None:
    cluster = measured(row)
    kinds = [kind for kind, _ in cluster.asked]
    at_once = number(r", (\d+) at once", row.name)
    if "librdkafka" in row.name:
        readers = ["kcat -C"] * at_once
        assert {told["-o"] for told in cluster.of("kcat -C")} == {"beginning"}
    elif "ConsumerPerformance" in row.name:
        readers = ["ConsumerPerformance"] * at_once
    else:
        readers = ["fetch"]
        (told,) = cluster.of("fetch")
        assert (told["connections"], told["max_bytes"]) == ({4 if "at once" not in row.name else at_once}, 1 << 20)
        assert bool(told.get("once")) is ("cold" in row.name)
    dropped = ["drop"] if "cold" in row.name else []
    assert kinds == ["topic", "produce", *dropped, *readers]


@pytest.mark.parametrize("row", REQUESTS, ids=lambda row: row.name)
def test_requests_of_one_record_are_in_flight_on_as_many_connections_as_the_name_says(
    row: Row, measured: Callable[[Row], Noting]
) -> None:
    cluster = measured(row)
    assert cluster.of("topic") == [{"partitions": 1}]
    (told,) = cluster.of("produce")
    assert (told["records"], told["record_bytes"], told.get("acks", 1)) == (1, 100, 1)
    assert told["window"] == number(r"(\d+) in flight", row.name)
    assert told["connections"] == {number(r"(\d+) connections?$", row.name)}


@pytest.mark.parametrize("row", LATENCIES, ids=lambda row: row.name)
def test_latency_is_at_the_rate_and_with_the_acknowledgement_of_the_name(
    row: Row, measured: Callable[[Row], Noting]
) -> None:
    cluster = measured(row)
    assert cluster.of("topic") == [{"partitions": 1, "replication_factor": 3 if "RF 3" in row.name else 1}]
    rate = number(r"at ([\d,]+) records/s", row.name)
    assert cluster.of("latency") == [{"partitions": "1", "rate": str(rate), "acks": str(acks_of(row.name))}]


def test_brokers_are_told_what_the_server_properties_of_kafka_say() -> None:
    """Kafka's `config/server.properties`, the same in 2.7 and 3.9 with ZooKeeper."""
    assert SHIPPED == {
        "num.network.threads": "3",
        "num.io.threads": "8",
        "socket.send.buffer.bytes": "102400",
        "socket.receive.buffer.bytes": "102400",
        "socket.request.max.bytes": "104857600",
        "num.partitions": "1",
        "num.recovery.threads.per.data.dir": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "log.retention.hours": "168",
        "log.segment.bytes": "1073741824",
        "log.retention.check.interval.ms": "300000",
        "zookeeper.connection.timeout.ms": "18000",
        "group.initial.rebalance.delay.ms": "0",
    }
    assert {key: value for key, value in SETTINGS.items() if key not in SHIPPED} == {
        "log.segment.delete.delay.ms": "1000"
    }


def test_the_core_ends_within_a_hundred_minutes() -> None:
    """The last row that is begun may take a few more."""
    assert 60 <= _CORE_MINUTES <= 95
