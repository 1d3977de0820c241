"""Answers as plain values that two servers can be compared by.

Replaced is what no two servers can have in common: addresses, the cluster's id, producer ids, session ids and the
random ends of member ids (by the order in which a scenario met them), wall-clock times (recognised by being near now:
the corpus stamps its records in 2020), and what an operator's paths and addresses put into configuration values. Words
for humans, which are error messages and documentation, are kept as being there, empty or absent. Lists in which Kafka
promises no order become maps by their key, and replicas in sync are sorted. Topics and groups of other scenarios are
left out of an answer that lists all. Everything else is kept, and fields that the version lacks are left out.
"""

import re
import time
import zlib
from collections.abc import Sequence
from typing import Any

from barnabas.protocol.batch import HEADER_BYTES, CorruptBatch, read_header, verify_crc
from barnabas.protocol.primitives import RecordSet
from barnabas.protocol.records import iterate_records
from barnabas.protocol.schema import ArrayOf, Field, StructOf, describe
from tests.differential.message_sets import Entry, entries

Value = None | bool | int | float | str | list["Value"] | dict[str, "Value"]

_DAY_MS = 86_400_000
_MAGIC_AT = 16
_ENTRY_HEAD_BYTES = 12
_LONGEST_SHOWN = 40
_SHOWN_AT_START, _SHOWN_AT_END = 8, 3
_MAX_INFLATED_BYTES = 1 << 24
_OWN_TAGS_FROM = 10_000
_NAMED_IDS = {"producer_id": "producer", "session_id": "session"}
_ADDRESSES = {"host", "port", "log_dir"}
_NO_ADDRESS = ("", -1)
_MEMBERS = {"member_id", "leader"}
_GIVEN_ID = re.compile("(.*)-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", re.DOTALL)
_SET = "isr_nodes"
_ROLES = {
    ("MetadataResponse", "controller_id"): "controller",
    ("DescribeClusterResponse", "controller_id"): "controller",
    ("FindCoordinatorResponse", "node_id"): "coordinator",
}
_TOPICS_OF_ALL = {"OngoingTopicReassignment": "name", "ReplicaElectionResult": "topic"}
_OF_A_CLUSTER = "cluster-"
_TEXTS = {"error_message", "documentation", "batch_index_error_message"}
_TIMES = {"log_append_time_ms", "timestamp", "first_timestamp", "max_timestamp"}
_LOCAL_CONFIGS = {
    "advertised.host.name",
    "advertised.listeners",
    "advertised.port",
    "host.name",
    "listeners",
    "log.dir",
    "log.dirs",
    "port",
    "zookeeper.connect",
}
_KEYS_OF_UNORDERED: dict[str, tuple[str, ...]] = {
    "AddPartitionsToTxnPartitionResult": ("partition_index",),
    "AddPartitionsToTxnTopicResult": ("name",),
    "AlterConfigsResourceResponse": ("resource_type", "resource_name"),
    "AlterReplicaLogDirPartitionResult": ("partition_index",),
    "AlterReplicaLogDirTopicResult": ("topic_name",),
    "ApiVersionsResponseKey": ("api_key",),
    "CreatableTopicConfigs": ("name",),
    "CreatableTopicResult": ("name",),
    "CreatePartitionsTopicResult": ("name",),
    "DeletableGroupResult": ("group_id",),
    "DeletableTopicResult": ("name",),
    "DeleteRecordsPartitionResult": ("partition_index",),
    "DeleteRecordsTopicResult": ("name",),
    "DescribedGroupMember": ("member_id",),
    "DescribeConfigsResourceResult": ("name",),
    "DescribeConfigsResult": ("resource_type", "resource_name"),
    "DescribeLogDirsPartition": ("partition_index",),
    "DescribeLogDirsTopic": ("name",),
    "JoinGroupResponseMember": ("member_id",),
    "ListedGroup": ("group_id",),
    "ListOffsetPartitionResponse": ("partition_index",),
    "ListOffsetTopicResponse": ("name",),
    "MetadataResponseBroker": ("node_id",),
    "MetadataResponsePartition": ("partition_index",),
    "MetadataResponseTopic": ("name",),
    "OffsetCommitResponsePartition": ("partition_index",),
    "OffsetCommitResponseTopic": ("name",),
    "OffsetDeleteResponsePartition": ("partition_index",),
    "OffsetDeleteResponseTopic": ("name",),
    "OffsetFetchResponsePartition": ("partition_index",),
    "OffsetFetchResponseTopic": ("name",),
    "OffsetForLeaderPartitionResult": ("partition_index",),
    "OngoingPartitionReassignment": ("partition_index",),
    "OngoingTopicReassignment": ("name",),
    "PartitionResult": ("partition_id",),
    "ReassignablePartitionResponse": ("partition_index",),
    "ReassignableTopicResponse": ("name",),
    "ReplicaElectionResult": ("topic",),
    "UpdatableFeatureResult": ("feature",),
    "OffsetForLeaderTopicResult": ("name",),
    "PartitionProduceResponse": ("partition_index",),
    "TopicProduceResponse": ("name",),
    "TxnOffsetCommitResponsePartition": ("partition_index",),
    "TxnOffsetCommitResponseTopic": ("name",),
    "WritableTxnMarkerPartitionResult": ("partition_index",),
    "WritableTxnMarkerResult": ("producer_id",),
    "WritableTxnMarkerTopicResult": ("name",),
}


def _is_unsaid(declared: Field, message: Any) -> bool:
    """Whether the field is one of our own, in a tag that Kafka does not know, and is not on the wire."""
    return (declared.tag or 0) >= _OWN_TAGS_FROM and not getattr(message, declared.name)


class Normaliser:
    """Replaces what differs from server to server; ids keep their names through one scenario."""

    def __init__(self, topic_prefix: str) -> None:
        self._topic_prefix = topic_prefix
        self.shows_content = False
        """Whether batches are shown by their records: where the server compresses, sizes and checksums are its own."""
        self.names_roles = False
        """Whether the controller and coordinators are named by what they are: one of several brokers becomes each."""
        self._ids: dict[tuple[str, int | str], str] = {}

    def message(self, message: Any, version: int) -> dict[str, Value]:
        """A message or a nested struct as a map from field names to values."""
        return {
            declared.name: self._field(declared, message, version)
            for declared in describe(type(message))
            if declared.present_in(version) and not _is_unsaid(declared, message)
        }

    def _field(self, declared: Field, owner: Any, version: int) -> Value:
        name, value = declared.name, getattr(owner, declared.name)
        if isinstance(declared.kind, RecordSet):
            return None if value is None else _folded(self._records(value))
        if isinstance(declared.kind, StructOf):
            return self.message(value, version)
        if isinstance(declared.kind, ArrayOf):
            if name == _SET:
                value = sorted(value)
            return None if value is None else self._array(value, version)
        if name == "value" and getattr(owner, "name", None) in _LOCAL_CONFIGS:
            return value if value is None else "<local>"
        if self.names_roles and (role := _ROLES.get((type(owner).__name__, name))) and value >= 0:
            return self._numbered(role, value)
        return self._scalar(name, value)

    def _array(self, items: Sequence[Any], version: int) -> Value:
        kind = type(items[0]).__name__ if items else ""
        if kind == "MetadataResponseTopic":
            items = [one for one in items if one.name is None or self._is_ours(one.name, alone=len(items) == 1)]
        if kind == "ListedGroup":
            items = [one for one in items if one.group_id.startswith(f"{self._topic_prefix}-")]
        if kind == "DescribeLogDirsTopic":
            items = [one for one in items if self._is_ours(one.name, alone=False)]
        if self.names_roles and kind in _TOPICS_OF_ALL:
            items = [one for one in items if not self._is_of_another(getattr(one, _TOPICS_OF_ALL[kind]))]
        if kind not in _KEYS_OF_UNORDERED:
            return [self.message(one, version) if hasattr(one, "__slots__") else one for one in items]
        names = _KEYS_OF_UNORDERED[kind]
        keyed: dict[str, Value] = {}
        for one in sorted(items, key=lambda one: [getattr(one, name) for name in names]):
            rest = self.message(one, version)
            key = " ".join(str(rest.pop(name)) for name in names)
            keyed[key if key not in keyed else f"{key} again, {len(keyed)}"] = rest
        return keyed

    def _is_ours(self, topic: str, *, alone: bool) -> bool:
        return alone or re.fullmatch(f"{re.escape(self._topic_prefix)}-\\d+", topic) is not None

    def _is_of_another(self, topic: str) -> bool:
        """Whether another scenario of a cluster made the topic."""
        return topic.startswith(_OF_A_CLUSTER) and not self._is_ours(topic, alone=False)

    def _scalar(self, name: str, value: Any) -> Value:
        if name in _NAMED_IDS:
            return self._named_id(_NAMED_IDS[name], value)
        if name in _MEMBERS and isinstance(value, str) and (given := _GIVEN_ID.fullmatch(value)):
            return f"{given[1]}-{self._numbered('member', given[2])}"
        if name in _ADDRESSES:
            return value if value in _NO_ADDRESS else f"<{name}>"
        if name == "cluster_id":
            return None if value is None else "<cluster id>"
        if name in _TEXTS:
            return "<text>" if value else value
        if name in _TIMES:
            return self._time(value)
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value).hex()
        assert value is None or isinstance(value, bool | int | float | str)
        return value

    def _named_id(self, kind: str, value: int) -> Value:
        if value <= 0 and (kind, value) != ("producer", 0):
            return value
        return self._numbered(kind, value)

    def _numbered(self, kind: str, value: int | str) -> str:
        """A name for an id by the order in which the scenario met those of its kind."""
        return self._ids.setdefault((kind, value), f"<{kind} {1 + sum(key[0] == kind for key in self._ids)}>")

    def _time(self, value: int) -> Value:
        return "<time>" if abs(value - time.time() * 1000) < _DAY_MS else value

    def _records(self, data: bytes | bytearray | memoryview) -> list[Value]:
        """The batches by their headers; the checksum, which is verified, stands for the records.

        What the server compressed itself is shown by what it holds: no two codecs give the same bytes.
        """
        found: list[Value] = []
        position = 0
        while position < len(data):
            left = len(data) - position
            if (
                left > _MAGIC_AT
                and data[position + _MAGIC_AT] < 2
                and (entry := next(entries(bytes(data[position:])), None))
            ):
                found.append(self._entry(entry))
                position += entry.size_bytes
                continue
            if left < HEADER_BYTES or data[position + _MAGIC_AT] != 2:
                return [*found, *self._piece(data[position:])]
            header = read_header(data, position)
            if left < header.size_bytes:
                if self.shows_content:
                    return [*found, "a piece"]
                return [*found, f"{left} bytes of a batch of {header.size_bytes} at {header.base_offset}"]
            found.append(self._batch(data, position))
            position += header.size_bytes
        return found

    def _piece(self, data: bytes | bytearray | memoryview) -> list[Value]:
        """What is no whole batch: cut by a limit of bytes, or what fills up an answer that came out too short."""
        if self.shows_content:
            return ["a piece"] if data[:8] != b"\xff" * 8 else []
        if len(data) < _ENTRY_HEAD_BYTES:
            return [f"{len(data)} bytes of a batch"]
        offset = int.from_bytes(data[:8], "big", signed=True)
        length = int.from_bytes(data[8:12], "big", signed=True)
        return [f"{len(data)} bytes of a batch of {_ENTRY_HEAD_BYTES + length} at {offset}"]

    def _entry(self, entry: Entry) -> str:
        """A message of format 0 or 1."""
        valid = "" if entry.is_valid else ", wrong checksum"
        if not entry.codec:
            return f"format {entry.magic}, {self._message(entry)}, {entry.size_bytes} bytes{valid}"
        inner = "; ".join(f"format {one.magic}, {self._message(one)}" for one in entry.inner())
        head = f"format {entry.magic} at {entry.offset}, attributes {entry.attributes}, time {self._at(entry)}"
        return f"{head}{valid}, holds [{inner}]"

    def _message(self, entry: Entry) -> str:
        return (
            f"offset {entry.offset}, attributes {entry.attributes}, time {self._at(entry)}, "
            f"key {_shown(entry.key)}, value {_shown(entry.value)}" + ("" if entry.is_valid else ", wrong checksum")
        )

    def _at(self, entry: Entry) -> Value:
        return None if entry.timestamp_ms is None else self._time(entry.timestamp_ms)

    def _batch(self, data: bytes | bytearray | memoryview, position: int) -> str:
        header = read_header(data, position)
        try:
            verify_crc(data, position, header)
        except CorruptBatch as error:
            return f"{type(error).__name__} at offset {header.base_offset}"
        producer = self._named_id("producer", header.producer_id)
        times = [self._time(header.first_timestamp), self._time(header.max_timestamp)]
        is_stable = "<time>" not in times and producer == header.producer_id
        described = (
            f"offsets {header.base_offset} to {header.last_offset}, {header.record_count} records, "
            f"{header.size_bytes} bytes, leader epoch {header.leader_epoch}, attributes {header.attributes}, "
            f"times {times[0]} to {times[1]}, producer {producer} epoch {header.producer_epoch} "
            f"sequence {header.base_sequence}, crc {format(header.crc, '08x') if is_stable else '<valid>'}"
        )
        if not self.shows_content:
            return described
        records = "; ".join(
            f"{record.offset} at {self._time(record.timestamp)}, key {_shown(record.key)}, value {_shown(record.value)}"
            for record in iterate_records(data, position, header, _MAX_INFLATED_BYTES)
        )
        return re.sub(r"\d+ bytes, |, crc .*", "", described) + f", holds [{records}]"


def _folded(batches: list[Value]) -> list[Value]:
    """Of many batches the first and last; a checksum stands for what is said of the others."""
    left_out = batches[_SHOWN_AT_START:-_SHOWN_AT_END]
    if len(left_out) <= 1:
        return batches
    checksum = zlib.crc32("\n".join(map(str, left_out)).encode())
    text = f"and {len(left_out)} more, told by the checksum {checksum:08x}"
    return [*batches[:_SHOWN_AT_START], text, *batches[-_SHOWN_AT_END:]]


def _shown(data: bytes | None) -> str:
    if data is None:
        return "null"
    return repr(data)[1:] if len(data) <= _LONGEST_SHOWN else f"{len(data)} bytes of checksum {zlib.crc32(data):08x}"
