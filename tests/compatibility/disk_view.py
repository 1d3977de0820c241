"""All that a broker shows of partitions, so that two brokers on one directory can be held against each other.

What is raw comes over a bare connection: the stored bytes, offsets, what a time or an offset finds, leader epochs,
aborted transactions. What clients see comes through librdkafka, with either isolation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

import confluent_kafka

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey, TopicPartition
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.list_offsets import ListOffsetPartition, ListOffsetRequest, ListOffsetTopic
from barnabas.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.compatibility.disk_life import T0_MS, wait_until
from tests.support.api_client import ApiConnection
from tests.support.topics import wait_for_leaders

_EARLIEST, _LATEST = -2, -1
_FETCH_VERSION: Final = 11
_MAX_BYTES: Final = 1 << 20
_LOOKUP_STEP: Final = 41
_PATIENCE_SECONDS: Final = 60.0

Shown = tuple[int, int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


@dataclass(slots=True)
class PartitionView:
    """One partition. `lookups`: for some offsets, how many bytes of the log come before what a fetch there gives."""

    start_offset: int = 0
    end_offset: int = 0
    stable_end_offset: int = 0
    stored: bytes = b""
    lookups: dict[int, int] = field(default_factory=dict)
    times: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    epochs: dict[int, tuple[int, int]] = field(default_factory=dict)
    aborted: set[tuple[int, int]] = field(default_factory=set)
    uncommitted: list[Shown] = field(default_factory=list)
    committed: list[Shown] = field(default_factory=list)


View = dict[TopicPartition, PartitionView]


def differences(one: View, other: View) -> list[str]:
    """Where two views differ, by partition and field."""
    found = [f"only in one: {where}" for where in sorted(one.keys() ^ other.keys())]
    for where in sorted(one.keys() & other.keys()):
        for each in fields(PartitionView):
            first, second = getattr(one[where], each.name), getattr(other[where], each.name)
            if first != second:
                found.append(f"{where.topic}-{where.partition}: {each.name}: {_differing(first, second)}")
    return found


def _differing(first: Any, second: Any) -> str:
    if isinstance(first, dict):
        keys = [key for key in first.keys() | second.keys() if first.get(key) != second.get(key)]
        first, second = ({key: one.get(key) for key in sorted(keys)[:5]} for one in (first, second))
    elif isinstance(first, bytes | list):
        same = next((at for at, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), None)
        at = min(len(first), len(second)) if same is None else same
        there = f"{first[at : at + 1]!r}, {second[at : at + 1]!r}"
        return f"{len(first)} and {len(second)} of them, the same up to {at}: {there}"
    return f"{first} and {second}"


def view(bootstrap: str, partitions: Sequence[TopicPartition], *, epochs: int) -> View:
    """What the broker shows; of leader epochs those below `epochs`."""
    wait_for_leaders(bootstrap, partitions)
    host, port = bootstrap.split(":")
    with ApiConnection(host, int(port), timeout_seconds=_PATIENCE_SECONDS) as client:
        found = {where: _raw_view(client, where, epochs) for where in partitions}
    for isolation in ("uncommitted", "committed"):
        for where, records in read_records(bootstrap, partitions, isolation=isolation).items():
            setattr(found[where], isolation, records)
    return found


def _raw_view(client: ApiConnection, where: TopicPartition, epochs: int) -> PartitionView:
    seen = PartitionView()
    wait_until(lambda: _list_offset(client, where, _LATEST)[0] == ErrorCode.NONE, f"{where} has no leader")
    seen.start_offset = _list_offset(client, where, _EARLIEST)[1][1]
    seen.end_offset = _list_offset(client, where, _LATEST)[1][1]
    seen.stable_end_offset = _list_offset(client, where, _LATEST, isolation_level=1)[1][1]
    fetches: dict[int, bytes] = {}
    offset = seen.start_offset
    while offset < seen.end_offset:
        data, aborted = _fetch(client, where, offset)
        if not data:
            break
        fetches[offset] = data
        seen.aborted |= aborted
        offset = _end_of(data)
    seen.stored = b"".join(fetches.values())
    for at in range(seen.start_offset, seen.end_offset, _LOOKUP_STEP):
        # Where the batches of this fetch stand in all that is stored.
        seen.lookups[at] = seen.stored.find(_fetch(client, where, at)[0][:128])
    for timestamp in (0, T0_MS, T0_MS + 305, T0_MS + 1234, T0_MS + 1_000_000):
        error, answer = _list_offset(client, where, timestamp)
        seen.times[timestamp] = answer if error == ErrorCode.NONE else (error, -1, -1)
    for epoch in range(epochs):
        asked = OffsetForLeaderPartition(where.partition, -1, epoch)
        request = OffsetForLeaderEpochRequest(-2, [OffsetForLeaderTopic(where.topic, [asked])])
        result = client.call(ApiKey.OFFSET_FOR_LEADER_EPOCH, 3, request).topics[0].partitions[0]
        assert result.error_code == ErrorCode.NONE
        seen.epochs[epoch] = (result.leader_epoch, result.end_offset)
    return seen


def _list_offset(
    client: ApiConnection, where: TopicPartition, timestamp: int, *, isolation_level: int = 0
) -> tuple[int, tuple[int, int, int]]:
    """The error; timestamp, offset and leader epoch of the answer."""
    topic = ListOffsetTopic(where.topic, [ListOffsetPartition(where.partition, -1, timestamp)])
    request = ListOffsetRequest(-1, isolation_level, [topic])
    answer = client.call(ApiKey.LIST_OFFSETS, 5, request).topics[0].partitions[0]
    return answer.error_code, (answer.timestamp, answer.offset, answer.leader_epoch)


def _fetch(client: ApiConnection, where: TopicPartition, offset: int) -> tuple[bytes, set[tuple[int, int]]]:
    wanted = FetchPartition(partition=where.partition, fetch_offset=offset, partition_max_bytes=_MAX_BYTES)
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=_MAX_BYTES,
        topics=[FetchTopic(topic=where.topic, partitions=[wanted])],
    )
    data = b""
    aborted: set[tuple[int, int]] = set()
    for isolation_level in (1, 0):
        request.isolation_level = isolation_level
        answer = client.call(ApiKey.FETCH, _FETCH_VERSION, request).responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.NONE, (where, offset, ErrorCode(answer.error_code).name)
        data = bytes(answer.record_set or b"")
        aborted |= {(txn.producer_id, txn.first_offset) for txn in answer.aborted_transactions or ()}
    return data, aborted


def _end_of(data: bytes) -> int:
    """The offset after the last whole entry."""
    at, end_offset = 0, -1
    while at + 12 <= len(data) and at + 12 + (size := int.from_bytes(data[at + 8 : at + 12])) <= len(data):
        delta = int.from_bytes(data[at + 23 : at + 27]) if data[at + 16] == 2 else 0
        end_offset = int.from_bytes(data[at : at + 8]) + delta + 1
        at += 12 + size
    assert end_offset >= 0, "a fetch without a whole batch"
    return end_offset


def read_records(
    bootstrap: str, partitions: Sequence[TopicPartition], *, isolation: str
) -> Mapping[TopicPartition, list[Shown]]:
    """Every record that a client is given: offset, kind of time, time, key, value, headers."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "not-joined",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "isolation.level": f"read_{isolation}",
            "check.crcs": True,
            "log_level": 0,
        }
    )
    found: dict[TopicPartition, list[Shown]] = {where: [] for where in partitions}
    unread = set(partitions)
    at_start = confluent_kafka.OFFSET_BEGINNING
    consumer.assign([confluent_kafka.TopicPartition(topic, number, at_start) for topic, number in partitions])

    def is_read() -> bool:
        record: Any
        for record in consumer.consume(1000, timeout=0.5):
            where = TopicPartition(record.topic(), record.partition())
            if record.error() is not None:
                assert record.error().name() == "_PARTITION_EOF", record.error()
                unread.discard(where)
                continue
            kind, time_ms = record.timestamp()
            headers = tuple((name, value) for name, value in record.headers() or ())
            found[where].append((record.offset(), kind, time_ms, record.key(), record.value(), headers))
        return not unread

    try:
        wait_until(is_read, "not read to the ends", seconds=_PATIENCE_SECONDS)
    finally:
        consumer.close()
    return found
