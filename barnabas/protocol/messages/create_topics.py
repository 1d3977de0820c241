"""CreateTopics (API key 19): creates topics (KIP-4).

Administrators send it to the controller.

Version 1 adds the trial run and error messages.
Version 2 adds the throttle time.
Version 3 is throttled after the response, not before it (KIP-219).
Version 4 lets -1 stand for the broker's default partitions and replication factor (KIP-464).
Version 5 is flexible; it answers what was created, its configuration included (KIP-525).
Version 6 lets the controller answer THROTTLING_QUOTA_EXCEEDED (KIP-599).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I8, I16, I32, Bool, NullableStr, Str
from barnabas.protocol.schema import Api, field, message, struct


@struct
class CreatableReplicaAssignment:
    """The brokers of one partition, the preferred leader first."""

    partition_index: I32 = 0
    broker_ids: list[I32] = field(default_factory=list)


@struct
class CreateableTopicConfig:
    """A configuration of the topic."""

    name: Str = ""
    value: NullableStr = ""


@struct
class CreatableTopic:
    """A topic; with assignments its two numbers are -1."""

    name: Str = ""
    num_partitions: I32 = 0
    replication_factor: I16 = 0
    assignments: list[CreatableReplicaAssignment] = field(default_factory=list)
    configs: list[CreateableTopicConfig] = field(default_factory=list)


@message(versions=(0, 6), flexible=5)
class CreateTopicsRequest:
    """What to create, or with `validate_only` to try."""

    topics: list[CreatableTopic] = field(default_factory=list)
    timeout_ms: I32 = 60000
    validate_only: Bool = field(default=False, since=1)


@struct
class CreatableTopicConfigs:
    """A configuration of the topic that was created."""

    name: Str = ""
    value: NullableStr = ""
    read_only: Bool = False
    config_source: I8 = -1
    is_sensitive: Bool = False


@struct
class CreatableTopicResult:
    """What became of one topic; its configuration is null where the client may not see it."""

    name: Str = ""
    error_code: I16 = 0
    error_message: NullableStr = field(default="", since=1, ignorable=True)
    topic_config_error_code: I16 = field(default=0, since=5, tag=0, ignorable=True)
    num_partitions: I32 = field(default=-1, since=5, ignorable=True)
    replication_factor: I16 = field(default=-1, since=5, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = field(default_factory=list, since=5, ignorable=True)


@message(versions=(0, 6), flexible=5)
class CreateTopicsResponse:
    """What was created."""

    throttle_time_ms: I32 = field(default=0, since=2, ignorable=True)
    topics: list[CreatableTopicResult] = field(default_factory=list)


API: Final = Api(ApiKey.CREATE_TOPICS, CreateTopicsRequest, CreateTopicsResponse)
