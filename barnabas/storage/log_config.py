"""The settings of one log: a topic's own values over the broker's, resolved by whoever reads configuration.

Fields are named as Kafka's topic keys with underscores; the defaults are those of Kafka 2.7. -1 means no limit where
Kafka means it so.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from barnabas.protocol.batch import CURRENT_MAGIC, Codec

MAX_INT32: Final = 2**31 - 1
MAX_INT64: Final = 2**63 - 1
MOST_INFLATED_BYTES: Final = 512 * 1024 * 1024
_OFFSET_ENTRY_BYTES: Final = 8
_TIME_ENTRY_BYTES: Final = 12


class TimestampType(StrEnum):
    """Who sets the timestamp of a record (KIP-32). The text is the value of `message.timestamp.type`."""

    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


class RecordValidation(StrEnum):
    """How far the records of a client's batch of more than 16 KB are looked at (`barnabas.record.validation`)."""

    HEADER = "header"
    FULL = "full"


@dataclass(slots=True, frozen=True)
class LogConfig:
    """What a log acts on. Sizes are bytes, times milliseconds."""

    segment_bytes: int = 1024**3
    segment_ms: int = 7 * 24 * 3600 * 1000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 * 1024 * 1024
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * 24 * 3600 * 1000
    retention_bytes: int = -1
    max_message_bytes: int = 1024 * 1024 + 12
    flush_messages: int = MAX_INT64
    flush_ms: int = MAX_INT64
    file_delete_delay_ms: int = 60_000
    message_timestamp_type: TimestampType = TimestampType.CREATE_TIME
    message_timestamp_difference_max_ms: int = MAX_INT64
    delete: bool = True
    compact: bool = False
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = MAX_INT64
    delete_retention_ms: int = 24 * 3600 * 1000
    message_format: int = 2
    """The magic of what is appended (`message.format.version`)."""
    compression: Codec | None = None
    """What records are compressed with, None for what the producer chose (`compression.type`)."""
    message_downconversion_enable: bool = True
    """Whether readers of older message formats get records converted."""
    record_validation: RecordValidation = RecordValidation.HEADER
    max_decompressed_bytes: int = MOST_INFLATED_BYTES

    # What every append asks, worked out once.
    limits_timestamps: bool = field(init=False, repr=False, compare=False)
    """Whether the timestamps of a client's records are held against the clock."""
    walks_all_records: bool = field(init=False, repr=False, compare=False)
    """Whether all records of a client's batch are looked at, however large it is."""
    stores_as_sent: bool = field(init=False, repr=False, compare=False)
    """Whether a client's record batch is stored as it came, whatever its codec."""
    roll_ms: int = field(init=False, repr=False, compare=False)
    """The age at which a segment is rolled: of a compacted log the cleaner must reach its records in time (KIP-354)."""
    index_entries: int = field(init=False, repr=False, compare=False)
    """How many entries an offset index may have."""
    time_index_entries: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        assert self.segment_bytes >= 14
        assert self.segment_index_bytes >= 4
        assert self.segment_ms >= 1
        assert 0 <= self.message_format <= CURRENT_MAGIC
        limits_timestamps = (
            self.message_timestamp_type is TimestampType.CREATE_TIME
            and self.message_timestamp_difference_max_ms < MAX_INT64
        )
        walks_all = self.record_validation is RecordValidation.FULL or self.compact or limits_timestamps
        object.__setattr__(self, "limits_timestamps", limits_timestamps)
        object.__setattr__(self, "stores_as_sent", self.message_format == CURRENT_MAGIC and self.compression is None)
        object.__setattr__(self, "walks_all_records", walks_all)
        object.__setattr__(
            self,
            "roll_ms",
            min(self.segment_ms, self.max_compaction_lag_ms)
            if self.compact and self.max_compaction_lag_ms > 0
            else self.segment_ms,
        )
        object.__setattr__(self, "index_entries", self.segment_index_bytes // _OFFSET_ENTRY_BYTES)
        object.__setattr__(self, "time_index_entries", self.segment_index_bytes // _TIME_ENTRY_BYTES)
