"""Fetch (API key 1): reads record batches from many partitions, waiting for some if there are too few yet.

Consumers send it to a leader or, knowing its rack, to a follower nearby; followers send it to their leader.

Version 1 adds the throttle time.
Version 2 may answer messages with timestamps, format 1 (KIP-32).
Version 3 adds the limit of bytes for the whole response, so that the order of partitions matters (KIP-74).
Version 4 adds the isolation level and aborted transactions, and answers record batches, format 2 (KIP-98).
Version 5 adds the log start offset on both sides (KIP-107).
Version 6 lets the broker answer KAFKA_STORAGE_ERROR (KIP-112).
Version 7 adds sessions, in which only changes travel (KIP-227).
Version 8 is throttled after the response, not before it (KIP-219).
Version 9 adds the leader epoch that the asker knows (KIP-320).
Version 10 allows zstd (KIP-110).
Version 11 adds the asker's rack and the replica it should rather ask (KIP-392).
Version 12 is flexible; it adds the last fetched epoch, so that the leader can tell where logs diverge (KIP-595).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I8, I16, I32, I64, NullableStr, Records, Str
from barnabas.protocol.schema import Api, field, message, struct


@struct
class FetchPartition:
    """Where to read in one partition; `log_start_offset` is a follower's own."""

    partition: I32 = 0
    current_leader_epoch: I32 = field(default=-1, since=9, ignorable=True)
    fetch_offset: I64 = 0
    last_fetched_epoch: I32 = field(default=-1, since=12)
    log_start_offset: I64 = field(default=-1, since=5, ignorable=True)
    partition_max_bytes: I32 = 0


@struct
class FetchTopic:
    """What to read of one topic."""

    topic: Str = ""
    partitions: list[FetchPartition] = field(default_factory=list)


@struct
class ForgottenTopic:
    """Partitions that the session shall drop."""

    topic: Str = ""
    partitions: list[I32] = field(default_factory=list)


@message(versions=(0, 12), flexible=12)
class FetchRequest:
    """What to read; `replica_id` is -1 for a consumer, `session_epoch` -1 for a fetch without a session."""

    cluster_id: NullableStr = field(default=None, since=12, tag=0)
    replica_id: I32 = 0
    max_wait_ms: I32 = 0
    min_bytes: I32 = 0
    max_bytes: I32 = field(default=0x7FFFFFFF, since=3, ignorable=True)
    isolation_level: I8 = field(default=0, since=4, ignorable=True)
    session_id: I32 = field(default=0, since=7, ignorable=True)
    session_epoch: I32 = field(default=-1, since=7, ignorable=True)
    topics: list[FetchTopic] = field(default_factory=list)
    forgotten_topics_data: list[ForgottenTopic] = field(default_factory=list, since=7)
    rack_id: Str = field(default="", since=11, ignorable=True)


@struct
class EpochEndOffset:
    """Where the newest epoch that both logs have ends; epoch -1 where they do not diverge."""

    epoch: I32 = -1
    end_offset: I64 = -1


@struct
class LeaderIdAndEpoch:
    """The leader that the asker should know."""

    leader_id: I32 = -1
    leader_epoch: I32 = -1


@struct
class AbortedTransaction:
    """A transaction that was aborted within what was read."""

    producer_id: I64 = 0
    first_offset: I64 = 0


@struct
class FetchablePartitionResponse:
    """What was read of one partition; the last batch may be cut off."""

    partition: I32 = 0
    error_code: I16 = 0
    high_watermark: I64 = 0
    last_stable_offset: I64 = field(default=-1, since=4, ignorable=True)
    log_start_offset: I64 = field(default=-1, since=5, ignorable=True)
    diverging_epoch: EpochEndOffset = field(default_factory=EpochEndOffset, since=12, tag=0)
    current_leader: LeaderIdAndEpoch = field(default_factory=LeaderIdAndEpoch, since=12, tag=1)
    aborted_transactions: list[AbortedTransaction] | None = field(default_factory=list, since=4, ignorable=True)
    preferred_read_replica: I32 = field(default=-1, since=11)
    record_set: Records = None


@struct
class FetchableTopicResponse:
    """What was read of one topic."""

    topic: Str = ""
    partition_responses: list[FetchablePartitionResponse] = field(default_factory=list)


@message(versions=(0, 12), flexible=12)
class FetchResponse:
    """What was read; `session_id` 0 means that there is no session."""

    throttle_time_ms: I32 = field(default=0, since=1, ignorable=True)
    error_code: I16 = field(default=0, since=7, ignorable=True)
    session_id: I32 = field(default=0, since=7)
    responses: list[FetchableTopicResponse] = field(default_factory=list)


API: Final = Api(ApiKey.FETCH, FetchRequest, FetchResponse)
