"""What znodes hold: one class per kind, written byte for byte in the form that Kafka 2.7 writes, and read. Pure.

Order of keys, version numbers and the oddities are Kafka's: the version of /cluster/id and 64-bit numbers are text,
/controller_epoch is plain text. Readers ignore unknown keys, read older versions, and raise `InvalidPayload` for data
that is not of the kind. Access control lists, SCRAM credentials and tokens stand in `security_payloads`.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import ClassVar, Final, NamedTuple, Self

from barnabas.protocol.ids import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition
from zk_schema.json_text import InvalidPayload, Json, JsonObject, decode_integer_text, encode_json

_ENDPOINT: Final = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")
_PLAINTEXT: Final = "PLAINTEXT"
_BROKER_EPOCHS: Final = "barnabas_broker_epochs"
# Before listeners had names (versions 2 and 3) an endpoint was named by its security protocol.
_SECURITY_PROTOCOLS: Final = (_PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")

Replicas = tuple[BrokerId, ...]


class Endpoint(NamedTuple):
    """Where clients reach a broker under one listener's name."""

    listener_name: str
    host: str | None
    port: int
    security_protocol: str

    def __str__(self) -> str:
        host = self.host or ""
        return f"{self.listener_name}://{f'[{host}]' if ':' in host else host}:{self.port}"


class VersionRange(NamedTuple):
    """Lowest and highest version of a feature, both inclusive (KIP-584)."""

    lowest: int
    highest: int


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """/brokers/ids/ID, ephemeral.

    Keys of ours, which Kafka's readers ignore: `control_endpoint` (`host:port`); `boot_id`, the start of the machine;
    `clean_stop`, false for a broker that may have lost what it had not flushed before it started.
    """

    VERSION: ClassVar[int] = 5

    endpoints: tuple[Endpoint, ...]
    timestamp_ms: int
    rack: str | None = None
    jmx_port: int = -1
    features: Mapping[str, VersionRange] = field(default_factory=dict)
    control_endpoint: str | None = None
    boot_id: str | None = None
    clean_stop: bool | None = None

    @property
    def plaintext_endpoint(self) -> Endpoint | None:
        """What clients older than the list of endpoints see as host and port."""
        return next((each for each in self.endpoints if each.security_protocol == _PLAINTEXT), None)

    @property
    def host(self) -> str | None:
        return None if self.plaintext_endpoint is None else self.plaintext_endpoint.host

    @property
    def port(self) -> int:
        return -1 if self.plaintext_endpoint is None else self.plaintext_endpoint.port

    def endpoint(self, listener_name: str) -> Endpoint | None:
        return next((each for each in self.endpoints if each.listener_name == listener_name), None)

    def encode(self) -> bytes:
        features = {
            name: {"min_version": each.lowest, "max_version": each.highest} for name, each in self.features.items()
        }
        return encode_json(
            {
                "features": features,
                "listener_security_protocol_map": {
                    each.listener_name: each.security_protocol for each in self.endpoints
                },
                "endpoints": [str(each) for each in self.endpoints],
                **({} if self.rack is None else {"rack": self.rack}),
                "jmx_port": self.jmx_port,
                "port": self.port,
                "host": self.host,
                "version": self.VERSION,
                "timestamp": str(self.timestamp_ms),
                **({} if self.control_endpoint is None else {"barnabas_control": self.control_endpoint}),
                **({} if self.boot_id is None else {"barnabas_boot_id": self.boot_id}),
                **({} if self.clean_stop is None else {"barnabas_clean_stop": self.clean_stop}),
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Versions 1 (host and port alone) to 5."""
        json = JsonObject.parse("broker registration", data)
        version = json.integer("version")
        if version < 1:
            raise InvalidPayload(f"broker registration: version {version} is not known")
        if version == 1:
            endpoints: tuple[Endpoint, ...] = (
                Endpoint(_PLAINTEXT, json.text("host"), json.integer("port"), _PLAINTEXT),
            )
        else:
            protocols = json.optional_object("listener_security_protocol_map")
            endpoints = tuple(_endpoint(text, protocols) for text in json.texts("endpoints"))
        return cls(
            endpoints=endpoints,
            timestamp_ms=json.integer_text("timestamp") if "timestamp" in json else -1,
            rack=json.optional_text("rack"),
            jmx_port=json.integer("jmx_port") if "jmx_port" in json else -1,
            features=_ranges(json.optional_object("features"), lowest="min_version", highest="max_version"),
            control_endpoint=json.optional_text("barnabas_control"),
            boot_id=json.optional_text("barnabas_boot_id"),
            clean_stop=json.optional_flag("barnabas_clean_stop"),
        )


@dataclass(frozen=True, slots=True)
class ControllerRegistration:
    """/controller, ephemeral: who is the controller."""

    broker_id: BrokerId
    timestamp_ms: int

    def encode(self) -> bytes:
        return encode_json({"version": 1, "brokerid": self.broker_id, "timestamp": str(self.timestamp_ms)})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        json = JsonObject.parse("controller", data)
        timestamp_ms = json.integer_text("timestamp") if "timestamp" in json else -1
        return cls(BrokerId(json.integer("brokerid")), timestamp_ms)


@dataclass(frozen=True, slots=True)
class ControllerEpochText:
    """/controller_epoch: plain decimal text. The fence is the znode's version, not this number."""

    epoch: ControllerEpoch

    def encode(self) -> bytes:
        return str(self.epoch).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        return cls(ControllerEpoch(decode_integer_text("controller epoch", data)))


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """/brokers/topics/T: the replicas of each partition; those being added or removed while a reassignment runs.

    `topic_id` is never made here, and kept where a later Kafka wrote one (version 3).
    """

    partitions: Mapping[int, Replicas]
    adding_replicas: Mapping[int, Replicas] = field(default_factory=dict)
    removing_replicas: Mapping[int, Replicas] = field(default_factory=dict)
    topic_id: str | None = None

    def encode(self) -> bytes:
        return encode_json(
            {
                "removing_replicas": _replicas_json(self.removing_replicas),
                "partitions": _replicas_json(self.partitions, with_empty=True),
                **({} if self.topic_id is None else {"topic_id": self.topic_id}),
                "adding_replicas": _replicas_json(self.adding_replicas),
                "version": 2 if self.topic_id is None else 3,
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Versions 1 (partitions alone) to 3."""
        json = JsonObject.parse("topic", data)
        return cls(
            partitions=_replicas(json.optional_object("partitions")),
            adding_replicas=_replicas(json.optional_object("adding_replicas")),
            removing_replicas=_replicas(json.optional_object("removing_replicas")),
            topic_id=json.optional_text("topic_id"),
        )


@dataclass(frozen=True, slots=True)
class PartitionState:
    """/brokers/topics/T/partitions/P/state. The leader is -1 while there is none; the ISR keeps its last member.

    A key of ours, which Kafka's readers ignore: `broker_epochs`, the registrations of the members that the controller
    knew when it wrote this; None where the writer did not say (Kafka does not).
    """

    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: Replicas
    controller_epoch: ControllerEpoch
    broker_epochs: Mapping[BrokerId, BrokerEpoch] | None = field(default=None, compare=False)

    def encode(self) -> bytes:
        written: dict[str, Json] = {
            "controller_epoch": self.controller_epoch,
            "leader": self.leader,
            "version": 1,
            "leader_epoch": self.leader_epoch,
            "isr": list(self.isr),
        }
        if self.broker_epochs is not None:
            written[_BROKER_EPOCHS] = {str(broker): epoch for broker, epoch in self.broker_epochs.items()}
        return encode_json(written)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        json = JsonObject.parse("partition state", data)
        return cls(
            leader=BrokerId(json.integer("leader")),
            leader_epoch=LeaderEpoch(json.integer("leader_epoch")),
            isr=tuple(map(BrokerId, json.integers("isr"))),
            controller_epoch=ControllerEpoch(json.integer("controller_epoch")),
            broker_epochs=_broker_epochs(json.object(_BROKER_EPOCHS)) if _BROKER_EPOCHS in json else None,
        )


@dataclass(frozen=True, slots=True)
class EntityConfig:
    """/config/TYPE/NAME: what is set for a topic, client, user or broker, defaults left out."""

    config: Mapping[str, str]

    def encode(self) -> bytes:
        return encode_json({"version": 1, "config": dict(self.config)})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """A znode without data sets nothing."""
        if not data:
            return cls({})
        config = JsonObject.parse("configuration", data).optional_object("config")
        return cls({key: config.scalar_text(key) for key in config})


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """/config/changes/config_change_N: whose configuration changed, e.g. `topics/foo`."""

    entity_path: str

    def encode(self) -> bytes:
        return encode_json({"version": 2, "entity_path": self.entity_path})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Version 2, and version 1 with entity type and name."""
        json = JsonObject.parse("configuration change", data)
        version = json.integer("version")
        if version == 1:
            return cls(f"{json.text('entity_type')}/{json.text('entity_name')}")
        if version != 2:
            raise InvalidPayload(f"configuration change: version {version} is not known")
        return cls(json.text("entity_path"))


@dataclass(frozen=True, slots=True)
class ClusterId:
    """/cluster/id: 22 characters of base64url. Its version is text."""

    cluster_id: str

    def encode(self) -> bytes:
        return encode_json({"version": "1", "id": self.cluster_id})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        return cls(JsonObject.parse("cluster id", data).text("id"))


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """/latest_producer_id_block: the ids that a broker took last; both ends inclusive, both written as text."""

    broker_id: BrokerId
    first: int
    last: int

    def encode(self) -> bytes:
        return encode_json(
            {"version": 1, "broker": self.broker_id, "block_start": str(self.first), "block_end": str(self.last)}
        )

    @classmethod
    def decode(cls, data: bytes) -> Self:
        json = JsonObject.parse("producer id block", data)
        first, last = json.integer_text("block_start"), json.integer_text("block_end")
        return cls(BrokerId(json.integer("broker")), first, last)


class FeatureStatus(IntEnum):
    """Whether finalised features count (KIP-584)."""

    DISABLED = 0
    ENABLED = 1


@dataclass(frozen=True, slots=True)
class FeatureZnode:
    """/feature: the finalised features of the cluster."""

    status: FeatureStatus
    features: Mapping[str, VersionRange] = field(default_factory=dict)

    def encode(self) -> bytes:
        features = {
            name: {"min_version_level": each.lowest, "max_version_level": each.highest}
            for name, each in self.features.items()
        }
        return encode_json({"features": features, "version": 1, "status": int(self.status)})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        json = JsonObject.parse("features", data)
        if (version := json.integer("version")) < 1:
            raise InvalidPayload(f"features: version {version} is not known")
        status = json.integer("status")
        if status not in tuple(FeatureStatus):
            raise InvalidPayload(f"features: status {status} is not known")
        features = _ranges(json.object("features"), lowest="min_version_level", highest="max_version_level")
        return cls(FeatureStatus(status), features)


@dataclass(frozen=True, slots=True)
class ReassignPartitions:
    """/admin/reassign_partitions: what a tool older than the API asks for."""

    partitions: Mapping[TopicPartition, Replicas]

    def encode(self) -> bytes:
        partitions = [
            {"topic": each.topic, "partition": each.partition, "replicas": list(replicas)}
            for each, replicas in self.partitions.items()
        ]
        return encode_json({"version": 1, "partitions": partitions})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        objects = JsonObject.parse("reassignment", data).objects("partitions")
        return cls({_topic_partition(each): tuple(map(BrokerId, each.integers("replicas"))) for each in objects})


@dataclass(frozen=True, slots=True)
class PreferredReplicaElection:
    """/admin/preferred_replica_election: what a tool older than the API asks for."""

    partitions: tuple[TopicPartition, ...]

    def encode(self) -> bytes:
        return _encode_partitions(self.partitions)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        return cls(_decode_partitions("preferred replica election", data))


@dataclass(frozen=True, slots=True)
class IsrChangeNotification:
    """/isr_change_notification/isr_change_N: partitions whose leader of an older Kafka changed the ISR."""

    partitions: tuple[TopicPartition, ...]

    def encode(self) -> bytes:
        return _encode_partitions(self.partitions)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        return cls(_decode_partitions("ISR change", data))


@dataclass(frozen=True, slots=True)
class LogDirEvent:
    """/log_dir_event_notification/log_dir_event_N: a broker lost a log directory."""

    broker_id: BrokerId

    def encode(self) -> bytes:
        return encode_json({"version": 1, "broker": self.broker_id, "event": 1})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        return cls(BrokerId(JsonObject.parse("log directory event", data).integer("broker")))


@dataclass(frozen=True, slots=True)
class ConsumerOffset:
    """/consumers/G/offsets/T/P: plain decimal text, as OffsetCommit v0 stores it."""

    offset: int

    def encode(self) -> bytes:
        return str(self.offset).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        return cls(decode_integer_text("consumer offset", data))


class SubscriptionPattern(Enum):
    """What the keys of a member's subscription are: names, or one expression that names match or do not match."""

    STATIC = "static"
    WHITE_LIST = "white_list"
    BLACK_LIST = "black_list"


@dataclass(frozen=True, slots=True)
class ConsumerRegistration:
    """/consumers/G/ids/C, ephemeral: how many streams a member has for each topic, or for all that fit a pattern."""

    subscription: Mapping[str, int]
    pattern: SubscriptionPattern = SubscriptionPattern.STATIC
    timestamp_ms: int = -1

    def encode(self) -> bytes:
        return encode_json(
            {
                "version": 1,
                "subscription": dict(self.subscription),
                "pattern": self.pattern.value,
                "timestamp": str(self.timestamp_ms),
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> Self:
        json = JsonObject.parse("consumer registration", data)
        counts = json.object("subscription")
        pattern = json.optional_text("pattern") or SubscriptionPattern.STATIC.value
        try:
            kind = SubscriptionPattern(pattern)
        except ValueError:
            raise InvalidPayload(f"consumer registration: pattern {pattern!r:.100} is not known") from None
        timestamp_ms = json.integer_text("timestamp") if "timestamp" in json else -1
        return cls({name: counts.integer(name) for name in counts}, kind, timestamp_ms)


def _endpoint(text: str, protocols: JsonObject) -> Endpoint:
    match = _ENDPOINT.fullmatch(text)
    if match is None:
        raise InvalidPayload(f"broker registration: {text!r:.100} is no endpoint")
    name, host, port = match.groups()
    if name in protocols:
        protocol = protocols.text(name)
    elif name in _SECURITY_PROTOCOLS:
        protocol = name
    else:
        raise InvalidPayload(f"broker registration: listener {name!r:.100} has no security protocol")
    return Endpoint(name, host or None, int(port), protocol)


def _ranges(json: JsonObject, *, lowest: str, highest: str) -> dict[str, VersionRange]:
    """Ranges by feature; later versions of the znode leave the lowest out."""
    ranges: dict[str, VersionRange] = {}
    for name in json:
        levels = json.object(name)
        ranges[name] = VersionRange(levels.integer(lowest) if lowest in levels else 1, levels.integer(highest))
    return ranges


def _replicas_json(replicas: Mapping[int, Replicas], *, with_empty: bool = False) -> dict[str, list[int]]:
    return {str(number): list(replicas[number]) for number in sorted(replicas) if with_empty or replicas[number]}


def _replicas(json: JsonObject) -> dict[int, Replicas]:
    numbers = {decode_integer_text("partition", key): key for key in json}
    return {number: tuple(map(BrokerId, json.integers(numbers[number]))) for number in sorted(numbers)}


def _broker_epochs(json: JsonObject) -> dict[BrokerId, BrokerEpoch]:
    return {BrokerId(decode_integer_text("broker id", key)): BrokerEpoch(json.integer(key)) for key in json}


def _topic_partition(json: JsonObject) -> TopicPartition:
    return TopicPartition(json.text("topic"), json.integer("partition"))


def _encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    rows = [{"topic": each.topic, "partition": each.partition} for each in partitions]
    return encode_json({"version": 1, "partitions": rows})


def _decode_partitions(kind: str, data: bytes) -> tuple[TopicPartition, ...]:
    return tuple(_topic_partition(each) for each in JsonObject.parse(kind, data).objects("partitions"))
