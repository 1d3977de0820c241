"""What is counted: the configuration of the job activity, checked before Spark is started."""

import re
from typing import Annotated, Final, Literal

import msgspec

from barnabas.pipeline.jobs.config import ClusterConfig, ConfigError, SparkConfig, duration_ms, refuse

Text = Annotated[str, msgspec.Meta(min_length=1)]
Fields = Annotated[tuple[Text, ...], msgspec.Meta(min_length=1)]

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_FIELD: Final = re.compile(r"[^.\s`]+(\.[^.\s`]+)*")


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A section of the file."""


class SourceConfig(Section, frozen=True, kw_only=True):
    """Which topics are read, and from where on when a count is new; `options` are further ones of the source."""

    topics: Annotated[tuple[Text, ...], msgspec.Meta(min_length=1)]
    start: Literal["earliest", "latest"] = "earliest"
    max_offsets_per_batch: Annotated[int, msgspec.Meta(ge=1)] = 1_000_000
    read_committed: bool = True
    options: dict[str, str] = msgspec.field(default_factory=dict)


class EventConfig(Section, frozen=True, kw_only=True):
    """Where the time of an event stands: in a field of its JSON, or, without `time`, in the record's timestamp.

    `time_format` is ISO 8601 (UTC where it names no zone) or a number of seconds or milliseconds since 1970. An event
    whose time is later than its record's timestamp by more than `ahead` would move the watermark and so make all
    others late; it is left out and counted.
    """

    time: Text | None = None
    time_format: Literal["iso8601", "s", "ms"] = "iso8601"
    ahead: Text = "1d"


class CountConfig(Section, frozen=True, kw_only=True):
    """Events for each value of the `keys` in each window of time; windows overlap where `slide` is shorter."""

    name: Text
    keys: Fields
    window: Text
    slide: Text | None = None


class SessionConfig(Section, frozen=True, kw_only=True):
    """Events of one value of the `keys` between which never lies more than `gap`."""

    name: Text
    keys: Fields
    gap: Text


class OutputConfig(Section, frozen=True, kw_only=True):
    """The topic that gets the results, each once if `transactional`; `options` are further ones of the sink."""

    topic: Text
    transactional: bool = True
    options: dict[str, str] = msgspec.field(default_factory=dict)


class ActivityConfig(Section, frozen=True, kw_only=True):
    """See README. Without `every` what is there is counted, and the job ends; with it a batch begins that often.

    `state_partitions` is fixed by the checkpoint when a count is new.
    """

    cluster: ClusterConfig
    source: SourceConfig
    output: OutputConfig
    checkpoint: Text
    watermark: Text
    event: EventConfig = EventConfig()
    counts: tuple[CountConfig, ...] = ()
    sessions: tuple[SessionConfig, ...] = ()
    every: Text | None = None
    state_partitions: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 4
    spark: SparkConfig = SparkConfig()


def check(config: ActivityConfig) -> None:
    """Raise ConfigError for what cannot be, with the key, the value and what would do."""
    duration_ms("watermark", config.watermark)
    duration_ms("event.ahead", config.event.ahead)
    if config.every is not None and duration_ms("every", config.every) == 0:
        refuse("every", config.every, "it must be longer than nothing")
    if not config.counts and not config.sessions:
        raise ConfigError("there is nothing to count: add a section [[counts]] or [[sessions]]")
    if config.output.topic in config.source.topics:
        refuse(
            "output.topic", config.output.topic, "it is read too, and each result would be an event; write elsewhere"
        )
    if config.event.time is not None:
        _check_field("event.time", config.event.time)
    described: tuple[CountConfig | SessionConfig, ...] = (*config.counts, *config.sessions)
    names = [each.name for each in described]
    for each in described:
        if not _NAME.fullmatch(each.name):
            refuse(
                "name", each.name, "it names a folder of the checkpoint: letters, digits, dots, hyphens, underscores"
            )
        if names.count(each.name) > 1:
            refuse("name", each.name, "two counts have it; each needs one of its own")
        for field in each.keys:
            _check_field(f"keys of {each.name}", field)
        if len(set(each.keys)) < len(each.keys):
            refuse(f"keys of {each.name}", list(each.keys), "a field stands there twice")
    for count in config.counts:
        _check_window(count)
    for session in config.sessions:
        if duration_ms(f"gap of {session.name}", session.gap) == 0:
            refuse(f"gap of {session.name}", session.gap, "it must be longer than nothing")


def _check_window(count: CountConfig) -> None:
    window_ms = duration_ms(f"window of {count.name}", count.window)
    if window_ms == 0:
        refuse(f"window of {count.name}", count.window, "it must be longer than nothing")
    if count.slide is not None:
        slide_ms = duration_ms(f"slide of {count.name}", count.slide)
        if not 0 < slide_ms <= window_ms:
            refuse(f"slide of {count.name}", count.slide, f"it must be longer than nothing and at most {count.window}")


def _check_field(key: str, name: str) -> None:
    if not _FIELD.fullmatch(name):
        refuse(key, name, "name a field of the JSON object, or one in an object in it as outer.inner")


def interval(duration: str) -> str:
    """A time that was checked, as Spark writes it. A day is 24 hours."""
    return f"{duration_ms('', duration)} milliseconds"
