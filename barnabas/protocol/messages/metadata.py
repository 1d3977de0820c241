"""Metadata (API key 3): the brokers, the controller, and the leaders and replicas of topics.

Clients send it to any broker. In version 0 an empty list asks for all topics, from version 1 on null does and an empty
list asks for none.

Version 1 adds racks, the controller and whether a topic is internal.
Version 2 adds the cluster id (KIP-78).
Version 3 adds the throttle time.
Version 4 adds whether missing topics may be created.
Version 5 adds the offline replicas (KIP-112).
Version 6 is throttled after the response, not before it (KIP-219).
Version 7 adds the leader epoch (KIP-320).
Version 8 adds the operations that the client may do (KIP-430).
Version 9 is flexible (KIP-482).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I32, Bool, NullableStr, Str
from barnabas.protocol.schema import Api, field, message, struct


@struct
class MetadataRequestTopic:
    """A topic to describe."""

    name: Str = ""


@message(versions=(0, 9), flexible=9)
class MetadataRequest:
    """Which topics to describe."""

    topics: list[MetadataRequestTopic] | None = field(default_factory=list, nullable_since=1)
    allow_auto_topic_creation: Bool = field(default=True, since=4)
    include_cluster_authorized_operations: Bool = field(default=False, since=8)
    include_topic_authorized_operations: Bool = field(default=False, since=8)


@struct
class MetadataResponseBroker:
    """A live broker, at the address of the listener that was asked."""

    node_id: I32 = 0
    host: Str = ""
    port: I32 = 0
    rack: NullableStr = field(default=None, since=1, ignorable=True)


@struct
class MetadataResponsePartition:
    """A partition; its leader is -1 where there is none."""

    error_code: I16 = 0
    partition_index: I32 = 0
    leader_id: I32 = 0
    leader_epoch: I32 = field(default=-1, since=7, ignorable=True)
    replica_nodes: list[I32] = field(default_factory=list)
    isr_nodes: list[I32] = field(default_factory=list)
    offline_replicas: list[I32] = field(default_factory=list, since=5, ignorable=True)


@struct
class MetadataResponseTopic:
    """A topic, or why it cannot be described."""

    error_code: I16 = 0
    name: Str = ""
    is_internal: Bool = field(default=False, since=1, ignorable=True)
    partitions: list[MetadataResponsePartition] = field(default_factory=list)
    topic_authorized_operations: I32 = field(default=-2147483648, since=8)


@message(versions=(0, 9), flexible=9)
class MetadataResponse:
    """The cluster; authorized operations are bits, or the least int32 where nobody asked."""

    throttle_time_ms: I32 = field(default=0, since=3, ignorable=True)
    brokers: list[MetadataResponseBroker] = field(default_factory=list)
    cluster_id: NullableStr = field(default=None, since=2, ignorable=True)
    controller_id: I32 = field(default=-1, since=1, ignorable=True)
    topics: list[MetadataResponseTopic] = field(default_factory=list)
    cluster_authorized_operations: I32 = field(default=-2147483648, since=8)


API: Final = Api(ApiKey.METADATA, MetadataRequest, MetadataResponse)
