"""UpdateMetadata (API key 6): tells a broker the cluster that it describes to clients.

The controller sends it to brokers. Controller epoch and broker epoch fence it.

Version 1 adds endpoints with security protocols.
Version 2 adds racks (KIP-36).
Version 3 adds listener names (KIP-103).
Version 4 adds the offline replicas (KIP-112).
Version 5 adds the broker epoch and groups partitions by topic (KIP-380).
Version 6 is flexible (KIP-482).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I32, I64, NullableStr, Str
from barnabas.protocol.schema import Api, field, message, struct


@struct
class UpdateMetadataPartitionState:
    """The state of one partition; leader -2 means that its topic is being deleted."""

    topic_name: Str = field(default="", until=4, ignorable=True)
    partition_index: I32 = 0
    controller_epoch: I32 = 0
    leader: I32 = 0
    leader_epoch: I32 = 0
    isr: list[I32] = field(default_factory=list)
    zk_version: I32 = 0
    replicas: list[I32] = field(default_factory=list)
    offline_replicas: list[I32] = field(default_factory=list, since=4, ignorable=True)


@struct
class UpdateMetadataTopicState:
    """The partitions of one topic that changed."""

    topic_name: Str = ""
    partition_states: list[UpdateMetadataPartitionState] = field(default_factory=list)


@struct
class UpdateMetadataEndpoint:
    """An address of a broker."""

    port: I32 = 0
    host: Str = ""
    listener: Str = field(default="", since=3, ignorable=True)
    security_protocol: I16 = 0


@struct
class UpdateMetadataBroker:
    """A live broker."""

    id: I32 = 0
    v0_host: Str = field(default="", until=0, ignorable=True)
    v0_port: I32 = field(default=0, until=0, ignorable=True)
    endpoints: list[UpdateMetadataEndpoint] = field(default_factory=list, since=1, ignorable=True)
    rack: NullableStr = field(default="", since=2, ignorable=True)


@message(versions=(0, 6), flexible=6)
class UpdateMetadataRequest:
    """Partitions that changed and all live brokers; `broker_epoch` -1 is not checked."""

    controller_id: I32 = 0
    controller_epoch: I32 = 0
    broker_epoch: I64 = field(default=-1, since=5, ignorable=True)
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = field(default_factory=list, until=4)
    topic_states: list[UpdateMetadataTopicState] = field(default_factory=list, since=5)
    live_brokers: list[UpdateMetadataBroker] = field(default_factory=list)


@message(versions=(0, 6), flexible=6)
class UpdateMetadataResponse:
    """What became of the request."""

    error_code: I16 = 0


API: Final = Api(ApiKey.UPDATE_METADATA, UpdateMetadataRequest, UpdateMetadataResponse)
