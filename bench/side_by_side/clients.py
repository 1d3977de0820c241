"""The programs that load a cluster, the same for every contestant, and what each of their runs came to.

`replay` and `drain` send encoded frames and throw answers away: loads that are not the limit. kcat is librdkafka;
`ProducerPerformance` and `ConsumerPerformance` are Kafka's own tools, of the newest release for every contestant.
"""

import json
import math
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from bench import frames
from bench.kafka_releases import KAFKA_3_9
from bench.side_by_side.contestants import HOST
from bench.side_by_side.usage import ClientFailed, ClientRun, Usage, run_clients
from bench.systems import Deployment
from tests.support.kafka_jars import java_command

CONNECTIONS: Final = 4
"""To each broker, of a load that is not the limit."""
_FETCH_BYTES: Final = 1 << 20
_JVM: Final = ("-server", "-Xms256M", "-Xmx512M", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-Djava.awt.headless=true")
_SENT: Final = re.compile(r"^(\d+) records sent, .*?([\d.]+) records/sec", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Shape:
    """What is written: how many bytes of values in all, in records of which size, batched and sent how."""

    payload_bytes: int
    record_bytes: int
    partitions: int = 1
    acks: int = 1
    codec: str = "none"
    batch_bytes: int = 100_000

    @property
    def records(self) -> int:
        return self.payload_bytes // self.record_bytes

    @property
    def records_a_batch(self) -> int:
        return max(1, self.batch_bytes // self.record_bytes)


@dataclass(frozen=True, slots=True)
class Volume:
    """So many bytes in so many seconds: values, or of a drain, which looks at no record, whole answers."""

    payload_bytes: int
    seconds: float
    usage: Usage
    records: int | None = None
    """None where nobody counted, as in a drain."""
    answers: int | None = None
    """To Fetches; of a drain only."""

    def __add__(self, other: "Volume") -> "Volume":
        """Of both, one after the other."""
        return Volume(
            self.payload_bytes + other.payload_bytes,
            self.seconds + other.seconds,
            self.usage + other.usage,
            _sum(self.records, other.records),
            _sum(self.answers, other.answers),
        )


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _volume(records: int, shape: "Shape", seconds: float, usage: Usage) -> Volume:
    return Volume(records * shape.record_bytes, seconds, usage, records=records)


def _drained(result: Mapping[str, Any], usage: Usage) -> Volume:
    return Volume(result["answer_bytes"], result["seconds"], usage, answers=result["answers"])


def replay(
    cluster: Deployment, topic: str, shape: Shape, *, window: int = 8, cpus: Sequence[int] | None = None
) -> Volume:
    """Write by encoded Produce frames, on four connections to each leader; as many batches to each partition.

    That is at least what the shape says, and up to three batches a partition more.
    """
    turn = CONNECTIONS * shape.partitions
    answers = math.ceil(shape.records / shape.records_a_batch / turn) * turn
    given = {
        "kind": "produce",
        "answers": answers,
        "records": shape.records_a_batch,
        "record_bytes": shape.record_bytes,
        "acks": shape.acks,
        "codec": shape.codec,
    }
    result, usage = _load(cluster, topic, shape.partitions, given, window=window, cpus=cpus)
    return _volume(result["answers"] * shape.records_a_batch, shape, result["seconds"], usage)


def single_records(
    cluster: Deployment, topic: str, *, requests: int, connections: int, window: int
) -> tuple[int, float, Usage]:
    """Requests of one record of 100 bytes: how many, in how many seconds."""
    given = {"kind": "produce", "answers": requests, "records": 1, "record_bytes": 100}
    result, usage = _load(cluster, topic, 1, given, window=window, connections=connections)
    return result["answers"], result["seconds"], usage


def drain(
    cluster: Deployment,
    topic: str,
    *,
    partitions: int,
    records: int,
    answer_bytes: int,
    connections: int = CONNECTIONS,
    cpus: Sequence[int] | None = None,
) -> Volume:
    """Read a MiB at each hundredth of `records` in each partition, round and round; payload is what came on the wire.

    So a fifth of 500 MB is read, and all of 100 MB; it is in memory in any case, and in no cache of a processor.
    """
    given = _round(records, answer_bytes)
    result, usage = _load(cluster, topic, partitions, given, window=2, connections=connections, cpus=cpus)
    return _drained(result, usage)


def drain_once(cluster: Deployment, topic: str, shape: Shape, *, connections: int = CONNECTIONS) -> Volume:
    """Read the whole of what was written, each MiB once and in order on each connection: nothing comes from memory."""
    records = shape.records // shape.partitions
    # A little less than what fits into an answer, as batches have headers: none is read twice but those at the edges.
    step = max(1, _FETCH_BYTES // shape.record_bytes * 9 // 10)
    given = {**_fetching(0, offsets=max(1, records - step), step=step), "once": True}
    result, usage = _load(cluster, topic, shape.partitions, given, window=2, connections=connections)
    return _drained(result, usage)


def drain_bare(
    port: int,
    *,
    files: int,
    file_bytes: int,
    answer_bytes: int,
    connections: int = CONNECTIONS,
    note: Callable[[Sequence[Sequence[str]]], None],
) -> float:
    """MB/s at which the same drain reads from `bench.bare_sendfile` so many files, of so many bytes each at least."""
    endpoints = [{"host": HOST, "port": port, "connections": connections, "partitions": list(range(files))}]
    given = {"topic": "none", "endpoints": endpoints, "window": 2, **_round(file_bytes, answer_bytes)}
    command = [sys.executable, "-m", "bench.load", json.dumps(given)]
    note([command])
    result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return float(result["answer_bytes"] / result["seconds"] / 1e6)


def _round(end: int, answer_bytes: int) -> dict[str, Any]:
    """Fetches at each hundredth of what goes from 0 to `end`, less the last two, where less than a MiB may be left."""
    return _fetching(answer_bytes, offsets=max(1, end - end // 50), step=max(1, end // 100))


def _fetching(answer_bytes: int, *, offsets: int, step: int) -> dict[str, Any]:
    answers = max(1, answer_bytes // _FETCH_BYTES)
    return {"kind": "fetch", "answers": answers, "offsets": offsets, "step": step, "max_bytes": _FETCH_BYTES}


def _load(
    cluster: Deployment,
    topic: str,
    partitions: int,
    given: Mapping[str, Any],
    *,
    window: int,
    connections: int = CONNECTIONS,
    cpus: Sequence[int] | None = None,
) -> tuple[dict[str, Any], Usage]:
    ids = list(cluster.ports)
    endpoints = [
        {"host": HOST, "port": cluster.ports[broker_id], "connections": connections, "partitions": led}
        for index, broker_id in enumerate(ids)
        if (led := list(range(index, partitions, len(ids))))
    ]
    request = json.dumps({"topic": topic, "endpoints": endpoints, "window": window, **given})
    run = run_clients(cluster, [[sys.executable, "-m", "bench.load", request]], cpus=cpus)
    return of_load(run)


def of_load(run: ClientRun) -> tuple[dict[str, Any], Usage]:
    """What a load of one thread has told, and who used the CPU in its own time, of which its start is no part."""
    result: dict[str, Any] = json.loads(run.outputs[0])
    cpu = result["client_cpu_seconds"]
    return result, replace(run.over(result["seconds"]), client=cpu, busiest_client_thread=cpu)


class ProgramMissing(Exception):
    """A program that a row needs is not on the PATH; the text says which, and how to come by it."""


def _kcat(cluster: Deployment, topic: str, *options: str, at_once: int = 1) -> Usage:
    kcat = shutil.which("kcat")
    if kcat is None:
        raise ProgramMissing("no kcat on PATH (Debian: apt install kcat)")
    command = [kcat, "-b", cluster.bootstrap, "-t", topic, "-q", *options]
    return run_clients(cluster, [command] * at_once).usage


def kcat_produce(
    cluster: Deployment, topic: str, shape: Shape, scratch: Path, settings: Mapping[str, int] | None = None
) -> Volume:
    """Write lines of a file, spread over the partitions; `settings` of librdkafka in place of ours."""
    lines = scratch / f"letters-{shape.record_bytes}-{shape.records}"
    if not lines.exists():
        block = b"".join(value + b"\n" for value in frames.values(1000, shape.record_bytes))
        with lines.open("wb") as file:
            for _ in range(shape.records // 1000):
                file.write(block)
    ours = {"acks": shape.acks, "compression.codec": shape.codec, "linger.ms": 5, "batch.size": 1_000_000}
    options = [text for key, value in {**ours, **(settings or {})}.items() for text in ("-X", f"{key}={value}")]
    usage = _kcat(cluster, topic, "-P", *options, "-l", str(lines))
    return _volume(shape.records // 1000 * 1000, shape, usage.seconds, usage)


def kcat_consume(cluster: Deployment, topic: str, shape: Shape, consumers: int = 1) -> Volume:
    """Read so many records from the start of all partitions, by each of the consumers."""
    usage = _kcat(cluster, topic, "-C", "-o", "beginning", "-c", str(shape.records), "-f", "", at_once=consumers)
    return _volume(shape.records * consumers, shape, usage.seconds, usage)


def performance_produce(cluster: Deployment, topic: str, shape: Shape) -> Volume:
    """Kafka's ProducerPerformance; the rate is what it prints, so without the start of its JVM."""
    properties = {
        "bootstrap.servers": cluster.bootstrap,
        "acks": shape.acks,
        "compression.type": shape.codec,
        "batch.size": 65536,
        "linger.ms": 5,
        # As of a client of 2.7; from 3.0 on it is the default, and these programs are of 3.9.
        "enable.idempotence": "false",
    }
    arguments = ["--topic", topic, "--num-records", str(shape.records), "--record-size", str(shape.record_bytes)]
    arguments += ["--throughput", "-1", "--producer-props", *(f"{key}={value}" for key, value in properties.items())]
    run = run_clients(cluster, [_java("org.apache.kafka.tools.ProducerPerformance", arguments)])
    (output,) = run.outputs
    found = _SENT.findall(output)
    if not found:
        raise ClientFailed(f"ProducerPerformance told no rate:\n{output[-2000:]}")
    records, rate = int(found[-1][0]), float(found[-1][1])
    return _volume(records, shape, records / rate, run.over(records / rate))


def performance_consume(cluster: Deployment, topic: str, shape: Shape, consumers: int = 1) -> Volume:
    """Kafka's ConsumerPerformance, each in a group of its own.

    The time is that of its fetching, without the start of its JVM or its group; of several, which do not begin in one
    moment, the longest.
    """
    arguments = ["--bootstrap-server", cluster.bootstrap, "--topic", topic, "--messages", str(shape.records)]
    run = run_clients(cluster, [_java("org.apache.kafka.tools.ConsumerPerformance", arguments)] * consumers)
    read = [_consumed(output, shape) for output in run.outputs]
    seconds = max(seconds for _, seconds in read)
    return _volume(sum(records for records, _ in read), shape, seconds, run.over(seconds))


def _consumed(output: str, shape: Shape) -> tuple[int, float]:
    """How many records a ConsumerPerformance has read in how many seconds, by what it printed."""
    first, *_, last = (line.split(",") for line in output.strip().splitlines())
    values = {name.strip(): value.strip() for name, value in zip(first, last, strict=True)}
    records, seconds = int(values["data.consumed.in.nMsg"]), float(values["fetch.time.ms"]) / 1000
    if records < shape.records:
        # It gives up after ten seconds without a record, and ends as if nothing were.
        raise ClientFailed(f"ConsumerPerformance read {records} of {shape.records} records:\n{output[-2000:]}")
    return records, seconds


def _java(main_class: str, arguments: Sequence[str]) -> list[str]:
    return [java_command(), *_JVM, "-cp", KAFKA_3_9.class_path(), main_class, *arguments]
