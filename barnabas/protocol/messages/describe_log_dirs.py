"""DescribeLogDirs (API key 35): the log directories of a broker and the sizes of the replicas in them (KIP-113).

Administrators send it to the broker itself.

Version 1 is throttled after the response, not before it (KIP-219).
Version 2 is flexible (KIP-482).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I32, I64, Bool, Str
from barnabas.protocol.schema import Api, field, message, struct


@struct
class DescribableLogDirTopic:
    """The partitions of one topic to describe."""

    topic: Str = ""
    partition_index: list[I32] = field(default_factory=list)


@message(versions=(0, 2), flexible=2)
class DescribeLogDirsRequest:
    """Which topics to describe; null means all."""

    topics: list[DescribableLogDirTopic] | None = field(default_factory=list)


@struct
class DescribeLogDirsPartition:
    """A replica: its bytes, how far it lags, and whether it shall replace the current one after a move.

    Two are our own, in tagged fields that others skip: how many ranges of it are damaged and not served, and whether
    compaction may have taken records from among the others, under an earlier policy too.
    """

    partition_index: I32 = 0
    partition_size: I64 = 0
    offset_lag: I64 = 0
    is_future_key: Bool = False
    damaged_ranges: I32 = field(default=0, since=2, tag=10_000, ignorable=True)
    may_have_gaps: Bool = field(default=False, since=2, tag=10_001, ignorable=True)


@struct
class DescribeLogDirsTopic:
    """The replicas of one topic."""

    name: Str = ""
    partitions: list[DescribeLogDirsPartition] = field(default_factory=list)


@struct
class DescribeLogDirsResult:
    """A log directory."""

    error_code: I16 = 0
    log_dir: Str = ""
    topics: list[DescribeLogDirsTopic] = field(default_factory=list)


@message(versions=(0, 2), flexible=2)
class DescribeLogDirsResponse:
    """The log directories."""

    throttle_time_ms: I32 = 0
    results: list[DescribeLogDirsResult] = field(default_factory=list)


API: Final = Api(ApiKey.DESCRIBE_LOG_DIRS, DescribeLogDirsRequest, DescribeLogDirsResponse)
