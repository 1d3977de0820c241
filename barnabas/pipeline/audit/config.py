"""What an audit is asked: its configuration, and the range of times that it means."""

from datetime import UTC, datetime
from typing import Annotated, Literal

import msgspec

from barnabas.pipeline.audit.tallies import HOUR_MS, hour_of
from barnabas.pipeline.jobs.config import ClusterConfig, ConfigError, SparkConfig

Text = Annotated[str, msgspec.Meta(min_length=1)]


class LakeConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table that a load writes; `dead_letters` where they are not beside it as usual."""

    path: Text
    dead_letters: Text | None = None


class ProducersConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The topic of count events."""

    topic: Text


class RangeConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which records are compared.

    `through` is the end by offsets: of the topic now, or of what the lake's ledger says was loaded. Times bound them by
    record timestamp, in whole hours; hours that ended less than `settle_minutes` ago are left out.
    """

    through: Literal["latest", "loaded"] = "latest"
    since: datetime | None = None
    until: datetime | None = None
    settle_minutes: Annotated[int, msgspec.Meta(ge=0)] | None = None


class AuditConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """See README. `named_offsets` bounds how many differing offsets are looked at one by one."""

    cluster: ClusterConfig
    topics: Annotated[list[Text], msgspec.Meta(min_length=1)]
    lake: LakeConfig
    producers: ProducersConfig | None = None
    range: RangeConfig = RangeConfig()
    isolation_level: Literal["read_committed", "read_uncommitted"] = "read_committed"
    named_offsets: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 10_000
    spark: SparkConfig = SparkConfig()


def time_bounds(asked: RangeConfig, now_ms: int) -> tuple[int | None, int | None]:
    """The range of times in milliseconds. Raises ConfigError for times that are not whole hours."""
    since_ms = None if asked.since is None else _whole_hour("range.since", asked.since)
    until_ms = None if asked.until is None else _whole_hour("range.until", asked.until)
    if asked.settle_minutes is not None:
        settled_ms = hour_of(now_ms - asked.settle_minutes * 60_000)
        until_ms = settled_ms if until_ms is None else min(until_ms, settled_ms)
    return since_ms, until_ms


def _whole_hour(key: str, at: datetime) -> int:
    at = at.replace(tzinfo=at.tzinfo or UTC)
    at_ms = round(at.timestamp() * 1000)
    if at_ms % HOUR_MS:
        raise ConfigError(f"{key} = {at.isoformat()} is not the beginning of an hour of UTC; hours are audited whole")
    return at_ms
