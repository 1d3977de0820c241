"""The options of the source: names and rules of Spark's own Kafka source, as values. Pure.

How options are taken, and that none is left over, stands in given_options.py.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from barnabas.pipeline.given_options import (
    MIB,
    GivenOptions,
    OptionError,
    boolean,
    duration_ms,
    isolation,
    natural,
    plaintext,
    positive,
    positive_int32,
)
from barnabas.pipeline.source.partition_json import parse_numbers, parse_partitions
from barnabas.pipeline.source.subscription import (
    EARLIEST,
    LATEST,
    AtOffsets,
    AtTime,
    AtTimes,
    Edge,
    LogEdge,
    Partitions,
    Subscription,
    TopicPattern,
    Topics,
)

T = TypeVar("T")

MOST_BATCH_BYTES: Final = 1024 * MIB - 1
"""What one compressed batch may hold at most; Arrow's arrays of bytes end at twice that."""


@dataclass(frozen=True)
class Fetching:
    """How brokers are asked: sizes of answers, patience, and what one task may hold.

    `in_flight_bytes` bounds what a task has fetched, the answer that is being decoded included; `batch_bytes` what one
    compressed batch may hold.
    """

    client_id: str = "barnabas-spark"
    partition_max_bytes: int = 4 * MIB
    min_bytes: int = 1
    max_wait_ms: int = 500
    connect_timeout_ms: int = 10_000
    request_timeout_ms: int = 30_000
    timeout_ms: int = 60_000
    in_flight_bytes: int = 16 * MIB
    batch_bytes: int = 256 * MIB
    rows_per_batch: int = 10_000


@dataclass(frozen=True)
class SourceOptions:
    """All that a query says. A stream has `end` LATEST; None is no limit."""

    bootstrap_servers: str
    subscription: Subscription
    start: Edge
    end: Edge = LogEdge.LATEST
    start_at_latest_without_record: bool = False
    fail_on_data_loss: bool = True
    include_headers: bool = False
    read_committed: bool = False
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 15 * 60_000
    offset_attempts: int = 3
    offset_pause_ms: int = 500
    fetching: Fetching = Fetching()


def parse_batch_options(given: Mapping[str, str]) -> SourceOptions:
    """The options of a batch query: from earliest to latest unless they say otherwise. Raises OptionError."""
    options = GivenOptions(given)
    options.refuse(_STREAM_ONLY, "it acts in streaming queries alone; take it away")
    start = _edge(options, "starting", LogEdge.EARLIEST)
    end = _edge(options, "ending", LogEdge.LATEST)
    if start is LogEdge.LATEST or _holds(start, LATEST):
        options.fail("startingOffsets", "a batch query cannot start at the end (latest, -1); name offsets or a time")
    if end is LogEdge.EARLIEST or _holds(end, EARLIEST):
        options.fail("endingOffsets", "a batch query cannot end at the start (earliest, -2); name offsets or a time")
    return _common(options, start, end)


def parse_stream_options(given: Mapping[str, str]) -> SourceOptions:
    """The options of a streaming query: from latest on unless they say otherwise. Raises OptionError."""
    options = GivenOptions(given)
    options.refuse(_BATCH_ONLY, "is of batch queries: a streaming query has no end; take it away")
    return _common(options, _edge(options, "starting", LogEdge.LATEST), LogEdge.LATEST)


def _common(options: GivenOptions, start: Edge, end: Edge) -> SourceOptions:
    options.refuse(_REFUSED, "")
    strategy = options.text(_STRATEGY) or "error"
    if strategy.lower() not in {"error", "latest"}:
        options.fail(_STRATEGY, "it must be error or latest")
    least, most = (options.maybe(f"{name}OffsetsPerTrigger", positive) for name in ("min", "max"))
    if least is not None and most is not None and least > most:
        options.fail("minOffsetsPerTrigger", f"it is greater than maxOffsetsPerTrigger={most}")
    if least is None and options.text("maxTriggerDelay") is not None:
        options.fail("maxTriggerDelay", "it bounds the wait for minOffsetsPerTrigger, which is not given")
    if not isinstance(start, AtTime | AtTimes) and options.text(_STRATEGY) is not None:
        options.fail(_STRATEGY, "it acts where the query starts at a time; take it away")
    parsed = SourceOptions(
        bootstrap_servers=options.bootstrap_servers(),
        subscription=_subscription(options),
        start=start,
        end=end,
        start_at_latest_without_record=strategy.lower() == "latest",
        fail_on_data_loss=options.read("failOnDataLoss", boolean, default=True),
        include_headers=options.read("includeHeaders", boolean, default=False),
        read_committed=options.read("kafka.isolation.level", isolation, default=False),
        min_partitions=options.maybe("minPartitions", positive),
        max_records_per_partition=options.maybe("maxRecordsPerPartition", positive),
        max_offsets_per_trigger=most,
        min_offsets_per_trigger=least,
        max_trigger_delay_ms=options.read("maxTriggerDelay", duration_ms, SourceOptions.max_trigger_delay_ms),
        offset_attempts=options.read("fetchOffset.numRetries", positive, SourceOptions.offset_attempts),
        offset_pause_ms=options.read("fetchOffset.retryIntervalMs", natural, SourceOptions.offset_pause_ms),
        fetching=_fetching(options),
    )
    options.read("kafka.security.protocol", plaintext, None)
    options.refuse_the_rest(of="the source barnabas", names=_NAMES, client_names=_CLIENT_NAMES)
    return parsed


def _subscription(options: GivenOptions) -> Subscription:
    names = ("subscribe", "subscribePattern", "assign")
    given = [name for name in names if options.text(name) is not None]
    if len(given) != 1:
        raise OptionError(f"exactly one of the options {', '.join(names)} must be given, not {given or 'none'}")
    (name,) = given
    if name == "assign":
        return Partitions(options.read(name, _some(parse_partitions), frozenset()))
    if name == "subscribe":
        return Topics(options.read(name, _some(_topics), ()))
    return TopicPattern(options.read(name, _some(_pattern), ""))


def _edge(options: GivenOptions, side: str, default: Edge) -> Edge:
    """A time for all goes before times, times before offsets, as in Spark's source; all that is given must be right."""
    at_offsets = options.read(f"{side}Offsets", _offsets, default)
    at_times = options.maybe(f"{side}OffsetsByTimestamp", _times)
    at_time = options.maybe(f"{side}Timestamp", _time)
    return at_time or at_times or at_offsets


def _fetching(options: GivenOptions) -> Fetching:
    names = {
        "kafka.max.partition.fetch.bytes": "partition_max_bytes",
        "kafka.fetch.min.bytes": "min_bytes",
        "kafka.fetch.max.wait.ms": "max_wait_ms",
        "kafka.socket.connection.setup.timeout.ms": "connect_timeout_ms",
        "kafka.request.timeout.ms": "request_timeout_ms",
        "kafka.default.api.timeout.ms": "timeout_ms",
        "maxBytesInFlight": "in_flight_bytes",
        "maxBatchBytes": "batch_bytes",
        "rowsPerArrowBatch": "rows_per_batch",
    }
    numbers = {field: options.maybe(name, positive_int32) for name, field in names.items()}
    client_id = options.text("kafka.client.id") or Fetching.client_id
    fetching = Fetching(client_id, **{field: number for field, number in numbers.items() if number is not None})
    if fetching.batch_bytes > MOST_BATCH_BYTES:
        options.fail("maxBatchBytes", f"it is more than {MOST_BATCH_BYTES}")
    if fetching.in_flight_bytes < fetching.partition_max_bytes:
        options.fail(
            "maxBytesInFlight",
            f"it is less than one answer (kafka.max.partition.fetch.bytes={fetching.partition_max_bytes})",
        )
    return fetching


def _holds(edge: Edge, offset: int) -> bool:
    return isinstance(edge, AtOffsets) and offset in edge.offsets.values()


def _some(parse: Callable[[str], T]) -> Callable[[str], T]:
    def parse_some(text: str) -> T:
        parsed = parse(text)
        if not parsed:
            raise ValueError("it names nothing")
        return parsed

    return parse_some


def _topics(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for each in text.split(",") if (name := each.strip())))


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"it is no regular expression: {error}") from None
    return text


def _offsets(text: str) -> Edge:
    if text.lower() in {"earliest", "latest"}:
        return LogEdge(text.lower())
    offsets = parse_numbers(text)
    for each, offset in offsets.items():
        if offset < EARLIEST:
            raise ValueError(f"{each} has {offset}; -2 is earliest, -1 latest, all others are offsets")
    return AtOffsets(offsets)


def _times(text: str) -> AtTimes:
    times = parse_numbers(text)
    for each, time in times.items():
        if time < 0:
            raise ValueError(f"{each} has {time}, which is no time in milliseconds")
    return AtTimes(times)


def _time(text: str) -> AtTime:
    return AtTime(natural(text))


_STRATEGY: Final = "startingOffsetsByTimestampStrategy"
_STREAM_ONLY: Final = (
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)
_BATCH_ONLY: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")

_NO_DESERIALIZER: Final = "keys and values are given as bytes; cast them in the query"
_NO_GROUP: Final = "no consumer group is used: progress is kept in the checkpoint; take it away"
_REFUSED: Final = {
    "kafka.auto.offset.reset": "where to begin is told by startingOffsets",
    "kafka.key.deserializer": _NO_DESERIALIZER,
    "kafka.value.deserializer": _NO_DESERIALIZER,
    "kafka.enable.auto.commit": "nothing is committed to a group; progress is kept in the checkpoint",
    "kafka.interceptor.classes": "there are no interceptors",
    "kafka.group.id": _NO_GROUP,
    "groupIdPrefix": _NO_GROUP,
    "kafka.check.crcs": "checksums are always looked at; take it away",
    "kafka.fetch.max.bytes": "a request is for one partition; say kafka.max.partition.fetch.bytes",
    "kafka.max.poll.records": "rows come in Arrow batches; say rowsPerArrowBatch",
    "kafkaConsumer.pollTimeoutMs": "there is no poll; say kafka.request.timeout.ms",
    "path": "topics are named by subscribe, subscribePattern or assign; call load() without a path",
}
_CLIENT_NAMES: Final = (
    "kafka.bootstrap.servers",
    "kafka.client.id",
    "kafka.default.api.timeout.ms",
    "kafka.fetch.max.wait.ms",
    "kafka.fetch.min.bytes",
    "kafka.isolation.level",
    "kafka.max.partition.fetch.bytes",
    "kafka.request.timeout.ms",
    "kafka.security.protocol",
    "kafka.socket.connection.setup.timeout.ms",
)
_NAMES: Final = (
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    _STRATEGY,
    *_BATCH_ONLY,
    *_STREAM_ONLY,
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "includeHeaders",
    "maxBytesInFlight",
    "maxBatchBytes",
    "rowsPerArrowBatch",
    "kafka.*",
)
