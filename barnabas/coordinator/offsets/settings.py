"""What the broker's configuration says of committed offsets. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OffsetSettings:
    """offset.metadata.max.bytes, offsets.retention.minutes and offsets.retention.check.interval.ms."""

    metadata_max_bytes: int = 4096
    """Kafka counts UTF-16 units, whatever the key's name says."""
    retention_ms: int = 7 * 24 * 60 * 60 * 1000
    check_interval_ms: int = 10 * 60 * 1000
