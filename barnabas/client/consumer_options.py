"""How a consumer reads, as settings, and the errors that only a consumer raises."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum

from barnabas.client.assignors.assignor import Assignor
from barnabas.client.assignors.range_assignor import RangeAssignor
from barnabas.client.errors import ClientError
from barnabas.protocol.ids import TopicPartition


class OffsetReset(Enum):
    """Where to begin in a partition without a usable offset; the value is the timestamp of ListOffsets."""

    EARLIEST = -2
    LATEST = -1
    NONE = None
    """Nowhere: reading raises NoOffset, OffsetOutOfRange or LogTruncated."""


class IsolationLevel(IntEnum):
    """Which records of transactions are seen (KIP-98); the numbers travel."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


@dataclass(slots=True, frozen=True)
class ConsumerOptions:
    """How a consumer reads. Names are Kafka's, with the units in them; limits of bytes are those of fetch requests."""

    group_id: str | None = None
    """Needed to subscribe and to commit."""
    group_instance_id: str | None = None
    """Of a static member (KIP-345): its partitions wait for it during the session timeout when it leaves."""
    assignors: Sequence[Assignor] = (RangeAssignor(),)
    """The best liked one first; the group takes one that all members have. Cooperative only if all of these are."""
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    """How long a batch may be worked on; a member that takes longer leaves its group until it asks for more."""
    auto_commit_interval_ms: int | None = 5_000
    """How often what was worked on is committed; None leaves commits to the caller."""
    offset_reset: OffsetReset = OffsetReset.LATEST
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 16 * 1024 * 1024
    partition_max_bytes: int = 1024 * 1024
    max_decompressed_bytes: int = 256 * 1024 * 1024
    client_rack: str = ""
    """Where this consumer is: it reads from a follower in its rack where the leader names one (KIP-392)."""
    metadata_max_age_ms: int = 300_000
    """How often new topics, partitions and leaders are looked for when nothing says that there are any; how long a
    follower is read from before the leader is asked again."""


class NoOffset(ClientError):
    """Nothing is committed for a partition, and `offset_reset` is NONE."""

    def __init__(self, topic_partition: TopicPartition) -> None:
        super().__init__(f"{topic_partition}: no offset is committed, and offset_reset is NONE")
        self.topic_partition = topic_partition


class OffsetOutOfRange(ClientError):
    """The log does not have the position, and `offset_reset` is NONE."""

    def __init__(self, topic_partition: TopicPartition, offset: int) -> None:
        super().__init__(f"{topic_partition}: the log has no offset {offset}, and offset_reset is NONE")
        self.topic_partition = topic_partition
        self.offset = offset


class LogTruncated(ClientError):
    """Records before the position were replaced by others after an unclean election (KIP-320).

    `divergence` is the first offset that may hold another record than the one that was read, -1 where nobody knows.
    """

    def __init__(self, topic_partition: TopicPartition, offset: int, divergence: int) -> None:
        super().__init__(f"{topic_partition}: position {offset} was read from a log that diverges at {divergence}")
        self.topic_partition = topic_partition
        self.offset = offset
        self.divergence = divergence


class CommitFailed(ClientError):
    """The group went on without this member: its partitions may be somebody else's, and nothing was committed."""
