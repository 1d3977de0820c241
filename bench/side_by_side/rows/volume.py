"""Rows of bytes in and out: produce and consume, by loads that are not the limit and by real clients.

All shapes (sizes, partitions, replicas, codecs) are crossed with all ways to write and to read them.
"""

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from bench import bare_sendfile
from bench.side_by_side import clients
from bench.side_by_side.clients import Shape, Volume
from bench.side_by_side.contestants import SHIPPED, RunningCluster
from bench.side_by_side.copies import copied_bytes
from bench.side_by_side.figures import Figure, Target
from bench.side_by_side.row import CPU_S_GB, LESS_CPU, MB_S, MORE, Row, Run, volume_figures
from bench.side_by_side.usage import usable_cpus

_FULL: Final = (("barnabas.record.validation", "full"),)
_PAYLOAD: Final = 1_000_000_000
_CLIENT_PAYLOAD: Final = 500_000_000
_READ_AGAIN: Final = 40
"""How many times over what is in memory is read: at 7 GB/s, which is a fast JVM's rate, for some 3 s."""
_COUNTED_CPU_S: Final = 0.6
"""From which on a cost is judged (`usage.too_few_ticks`), and a little more."""
_MOST_RUNS: Final = 20
_COPIED_PAYLOAD: Final = 100_000_000
_MANY: Final = 6
"""Readers at once."""
PHYSICAL: Final = "share of a bare sendfile loop's rate"
_BARE_LEAST_BYTES: Final = 4_000_000
_BROKER_BOUND: Final = {MB_S: MORE, CPU_S_GB: LESS_CPU}
_CLIENT_BOUND: Final = {CPU_S_GB: LESS_CPU}

Measure = Callable[[Run], list[Figure]]
Consume = Callable[[RunningCluster, str, Shape, int], Volume]


def _shape(run: Run, shape: Shape) -> Shape:
    return replace(shape, payload_bytes=max(2_000_000, int(shape.payload_bytes * run.scale)))


@contextlib.contextmanager
def _topic(run: Run, shape: Shape) -> Iterator[str]:
    replicas = 3 if len(run.cluster.ports) >= 3 else 1
    with run.cluster.topic(partitions=shape.partitions, replication_factor=replicas) as topic:
        yield topic


def _pins() -> tuple[list[int], list[int]]:
    """CPUs of the brokers, and of the client."""
    cpus = sorted(usable_cpus())
    return cpus[:-1] or cpus, cpus[-1:]


@contextlib.contextmanager
def pinned_to(run: Run, pinned: bool) -> Iterator[Sequence[int] | None]:
    """The brokers on their CPUs; yields those of the client."""
    if not pinned:
        yield None
        return
    brokers, client = _pins()
    run.cluster.pin(brokers)
    try:
        yield client
    finally:
        run.cluster.pin(None)


def replayed(shape: Shape, *, pinned: bool = False, validates_all: bool = False) -> Row:
    """With `validates_all` we look at every record, as Kafka always does."""

    def measure(run: Run) -> list[Figure]:
        given = _shape(run, shape)
        with _topic(run, given) as topic, pinned_to(run, pinned) as cpus:
            return volume_figures(clients.replay(run.cluster, topic, given, cpus=cpus))

    how = "broker-bound, pinned" if pinned else "broker-bound"
    return _written(how, shape, measure, _BROKER_BOUND, validates_all=validates_all)


def by_librdkafka(shape: Shape, *, validates_all: bool = False) -> Row:
    def measure(run: Run) -> list[Figure]:
        given = _shape(run, shape)
        with _topic(run, given) as topic:
            return volume_figures(_counted(run, lambda: clients.kcat_produce(run.cluster, topic, given, run.scratch)))

    return _written("librdkafka", shape, measure, _CLIENT_BOUND, validates_all=validates_all)


def by_producer_performance(shape: Shape, *, validates_all: bool = False) -> Row:
    def measure(run: Run) -> list[Figure]:
        given = _shape(run, shape)
        with _topic(run, given) as topic:
            return volume_figures(_counted(run, lambda: clients.performance_produce(run.cluster, topic, given)))

    return _written("ProducerPerformance", shape, measure, _CLIENT_BOUND, validates_all=validates_all)


def _written(
    how: str, shape: Shape, measure: Measure, targets: Mapping[str, Target], *, validates_all: bool = False
) -> Row:
    name = f"produce, {how}, {_told(shape)}" + (", full validation" if validates_all else "")
    own = _FULL if validates_all else ()
    return Row(name, measure, targets, _brokers(shape), own_properties=own, alike=f"produce, {how}, {shape.codec}")


def _read(how: str, shape: Shape, measure: Measure, targets: Mapping[str, Target], *kinds: str) -> Row:
    way = ", ".join(filter(None, ("consume", how, *kinds)))
    return Row(f"{way}, {_told(shape)}", measure, targets, _brokers(shape), alike=f"{way}, {shape.codec}")


def _at_once(consumers: int, usual: int) -> str:
    return "" if consumers == usual else f"{consumers} at once"


def drained(shape: Shape, *, connections: int = clients.CONNECTIONS, pinned: bool = False) -> Row:
    """Fetches of 1 MiB of what was just written, several times over, all over the topic by each connection."""

    def measure(run: Run) -> list[Figure]:
        given = _shape(run, shape)
        with _topic(run, given) as topic:
            written = clients.replay(run.cluster, topic, given)
            answer_bytes = int(_READ_AGAIN * shape.payload_bytes * run.scale)
            with pinned_to(run, pinned) as cpus:
                volume = _drain(run, topic, given, answer_bytes, connections=connections, cpus=cpus)
            figures = volume_figures(_with_records(run, topic, written, volume))
            # A loop of one process is beside one broker.
            if not pinned and len(run.cluster.ports) == 1:
                segments = [_segment(run, f"{topic}-{number}") for number in range(given.partitions)]
                bare = bare_rate(lambda buffer: _served_bare(run, segments, answer_bytes, connections, buffer))
                figures.append(physical_share(figures[0], bare))
            return figures

    targets = dict(_BROKER_BOUND)
    if not pinned and _brokers(shape) == 1:
        targets[PHYSICAL] = Target(at_least=True, absolute=0.7)
    kinds = "warm", "pinned" if pinned else "", _at_once(connections, clients.CONNECTIONS)
    return _read("broker-bound", shape, measure, targets, *kinds)


def copied(shape: Shape, *, cold: bool = False) -> Row:
    """What the broker copies through user space while a little of what was just written is read. It is traced."""

    def measure(run: Run) -> list[Figure]:
        given = _shape(run, shape)
        with _topic(run, given) as topic:
            written = clients.replay(run.cluster, topic, given)
            if cold:
                drop_from_memory(run, topic)
            read: list[Volume] = []

            def work() -> None:
                if cold:
                    read.append(clients.drain_once(run.cluster, topic, given))
                else:
                    read.append(_drain(run, topic, given, written.payload_bytes))

            pids = [member.pid for system in run.cluster.systems() for member in system.members()]
            copied_megabytes = copied_bytes(pids, work) / 1e6
            return [Figure("copied through user space", copied_megabytes / (read[0].payload_bytes / 1e9), "MB/GB")]

    return _read("copies", shape, measure, {}, "cold" if cold else "warm")


def drained_cold(shape: Shape, *, connections: int = clients.CONNECTIONS) -> Row:
    """Fetches of 1 MiB of what only the disk has, each once; again with a cold cache until the CPU is counted."""

    def measure(run: Run) -> list[Figure]:
        given = _shape(run, shape)
        with _topic(run, given) as topic:
            written = clients.replay(run.cluster, topic, given)

            def read() -> Volume:
                drop_from_memory(run, topic)
                return clients.drain_once(run.cluster, topic, given, connections=connections)

            return volume_figures(_with_records(run, topic, written, _counted(run, read)))

    return _read("broker-bound", shape, measure, _BROKER_BOUND, "cold", _at_once(connections, clients.CONNECTIONS))


def _drain(
    run: Run,
    topic: str,
    shape: Shape,
    answer_bytes: int,
    *,
    connections: int = clients.CONNECTIONS,
    cpus: Sequence[int] | None = None,
) -> Volume:
    """Read what was written by the shape, round and round."""
    return clients.drain(
        run.cluster,
        topic,
        partitions=shape.partitions,
        records=shape.records // shape.partitions,
        answer_bytes=answer_bytes,
        connections=connections,
        cpus=cpus,
    )


def read_by_librdkafka(shape: Shape, consumers: int = 1, *, cold: bool = False) -> Row:
    return _read_whole("librdkafka", clients.kcat_consume, shape, consumers, cold=cold)


def read_by_consumer_performance(shape: Shape, consumers: int = 1, *, cold: bool = False) -> Row:
    return _read_whole("ConsumerPerformance", clients.performance_consume, shape, consumers, cold=cold)


def _read_whole(how: str, consume: Consume, shape: Shape, consumers: int, *, cold: bool) -> Row:
    """Each of the consumers reads the whole topic, so that nothing is fetched ahead which does not count."""

    def measure(run: Run) -> list[Figure]:
        given = _shape(run, shape)
        with _topic(run, given) as topic:
            whole = replace(given, payload_bytes=clients.replay(run.cluster, topic, given).payload_bytes)

            def read() -> Volume:
                if cold:
                    drop_from_memory(run, topic)
                return consume(run.cluster, topic, whole, consumers)

            return volume_figures(_counted(run, read))

    return _read(how, shape, measure, _CLIENT_BOUND, "cold" if cold else "", _at_once(consumers, 1))


def _counted(run: Run, work: Callable[[], Volume]) -> Volume:
    """Of as many runs of a client as it takes for the brokers' CPU to be counted: many cost them next to nothing."""
    volume = work()
    for _ in range(_MOST_RUNS - 1):
        if volume.usage.brokers >= _COUNTED_CPU_S * run.scale:
            break
        volume += work()
    return volume


def _with_records(run: Run, topic: str, written: Volume, read: Volume) -> Volume:
    """What a drain has read, with its records: as many of what was written as its bytes are of the logs."""
    assert written.records is not None
    log_bytes = sum(log.stat().st_size for log in run.cluster.directory.glob(f"broker-1/logs/{topic}-*/*.log"))
    return replace(read, records=round(read.payload_bytes / log_bytes * written.records))


def _told(shape: Shape) -> str:
    replicas = "acks=all RF 3" if shape.acks == -1 else "acks=1 RF 1"
    partitions = "1 partition" if shape.partitions == 1 else f"{shape.partitions} partitions"
    codec = "" if shape.codec == "none" else f", {shape.codec}"
    return f"{shape.record_bytes} B, {partitions}, {replicas}{codec}"


def _brokers(shape: Shape) -> int:
    return 3 if shape.acks == -1 else 1


def drop_from_memory(run: Run, topic: str) -> None:
    """Let the page cache forget what a topic's logs hold, once it is on the disk."""
    os.sync()
    for path in run.cluster.directory.glob(f"broker-*/logs/{topic}-*/*.log"):
        with path.open("rb") as segment:
            os.posix_fadvise(segment.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def physical_share(rate: Figure, bare: float) -> Figure:
    """What a broker's rate is of the bare loop's. Above 1 the loop was held up, and says nothing."""
    share = rate.value / bare
    unjudged = "a bare loop that was slower than a broker" if share > 1 else ""
    return Figure(PHYSICAL, share, "x", rate.limiter, is_rate=True, unjudged=unjudged)


def bare_rate(served: Callable[[int], float]) -> float:
    """MB/s of sendfile into the same drain of the same bytes from the page cache, with the better of two buffers.

    One is the system's, the other what brokers set by `socket.send.buffer.bytes`: which is faster depends on the caches
    of the processor, and the physical rate is no broker's if one of them can be above it for that.
    """
    return max(served(buffer) for buffer in (0, int(SHIPPED["socket.send.buffer.bytes"])))


def _segment(run: Run, partition: str) -> Path:
    """The largest that the first broker has; a file of the scratch where a smoke run wrote next to nothing."""
    segment = max(run.cluster.directory.glob(f"broker-1/logs/{partition}/*.log"), key=lambda file: file.stat().st_size)
    if segment.stat().st_size < _BARE_LEAST_BYTES:
        segment = run.scratch / "bare"
        segment.write_bytes(bytes(_BARE_LEAST_BYTES))
    return segment


def _served_bare(run: Run, files: Sequence[Path], answer_bytes: int, connections: int, send_buffer_bytes: int) -> float:
    file_bytes = min(file.stat().st_size for file in files)
    with bare_sendfile.serving(files, send_buffer_bytes=send_buffer_bytes) as port:
        return clients.drain_bare(
            port,
            files=len(files),
            file_bytes=file_bytes,
            answer_bytes=answer_bytes,
            connections=connections,
            note=run.cluster.note,
        )


_CORE: Final = (
    replayed(Shape(_PAYLOAD, 100)),
    replayed(Shape(_PAYLOAD, 1000, partitions=6, acks=-1)),
    by_librdkafka(Shape(_PAYLOAD, 100)),
    by_producer_performance(Shape(_CLIENT_PAYLOAD, 1000, partitions=6, acks=-1)),
    drained(Shape(_CLIENT_PAYLOAD, 1000)),
)
_RECORD_BYTES: Final = (100, 1000)
_PARTITIONS: Final = (1, 6)
_ACKS: Final = (1, -1)
_CODECS: Final = ("none", "lz4", "zstd")


def _all_rows() -> Iterator[Row]:
    for crossed in itertools.product(_RECORD_BYTES, _PARTITIONS, _ACKS, _CODECS):
        large, small = Shape(_PAYLOAD, *crossed), Shape(_CLIENT_PAYLOAD, *crossed)
        for validates_all in (False, True):
            yield replayed(large, validates_all=validates_all)
            yield by_librdkafka(large, validates_all=validates_all)
            yield by_producer_performance(small, validates_all=validates_all)
        yield replayed(large, pinned=True)
        for connections in (clients.CONNECTIONS, _MANY):
            yield drained(small, connections=connections)
            yield drained_cold(small, connections=connections)
        yield drained(small, pinned=True)
        for consumers, cold in itertools.product((1, _MANY), (False, True)):
            yield read_by_librdkafka(small, consumers, cold=cold)
            yield read_by_consumer_performance(small, consumers, cold=cold)
        for cold in (False, True):
            yield copied(replace(small, payload_bytes=_COPIED_PAYLOAD), cold=cold)


def rows() -> list[Row]:
    """The core ones first; none twice."""
    core = {row.name: replace(row, is_core=True) for row in _CORE}
    return [*core.values(), *(row for row in _all_rows() if row.name not in core)]
