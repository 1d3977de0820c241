"""Count events: what a producer says that it sent, as JSON in a topic.

    {"version": 1, "producer": "web", "instance": "5f0c…", "sequence": 3, "last": false, "counts": [
      {"topic": "views", "partition": 0, "hour": "2026-11-22T13:00:00Z", "records": 120, "checksum": "9a3f…",
       "first_offset": 4000, "last_offset": 4119}]}

An instance is one producer from its start to its end. Its events count from 1 without a gap, and each tells of records
that no other one told of; so an event that is there twice is known by instance and sequence, and one that is lost is
missed. The last one says so. `checksum` is the sum of the records' content checksums modulo 2**64 (see
`columns/checksums.py`) in 16 hexadecimal digits, `hour` the one in which their timestamps lie.

A reader takes no event of another version, and lets keys be that it does not know.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, NamedTuple

import msgspec

from barnabas.pipeline.audit.tallies import HOUR_MS, NO_OFFSET, Cell, Tally

VERSION: Final = 1
MOST_COUNTS: Final = 500
"""In one event: some 100 KB at most."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_TOPIC_CHARS: Final = 249
_MOST: Final = (1 << 63) - 1

Natural = Annotated[int, msgspec.Meta(ge=0, le=_MOST)]
Checksum = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{16}$")]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=_MOST_TOPIC_CHARS)]


class BadCountEvent(ValueError):
    """What stands in the topic of count events is none, or of a version that is not known."""


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """What was sent to a partition with timestamps in one hour; NO_OFFSET where the producer was told no offsets."""

    topic: Name
    partition: Annotated[int, msgspec.Meta(ge=0, le=(1 << 31) - 1)]
    hour: datetime
    records: Natural
    checksum: Checksum
    first_offset: Annotated[int, msgspec.Meta(ge=-1, le=_MOST)] = NO_OFFSET
    last_offset: Annotated[int, msgspec.Meta(ge=-1, le=_MOST)] = NO_OFFSET


class CountEvent(msgspec.Struct, frozen=True, kw_only=True):
    """See the module."""

    version: int
    producer: Name
    instance: Name
    sequence: Annotated[int, msgspec.Meta(ge=1, le=_MOST)]
    last: bool = False
    counts: Sequence[Count] = ()


class _Versioned(msgspec.Struct, frozen=True):
    version: int


class Told(NamedTuple):
    """What an event says of one cell."""

    cell: Cell
    tally: Tally


def encode_event(
    told: Iterable[tuple[Cell, Tally]], *, producer: str, instance: str, sequence: int, is_last: bool
) -> bytes:
    """An event as JSON. Cells whose hour no calendar has are of no producer."""
    counts = [
        Count(
            topic=cell.topic,
            partition=cell.partition,
            hour=_EPOCH + timedelta(milliseconds=cell.hour_ms),
            records=tally.records,
            checksum=f"{tally.content:016x}",
            first_offset=tally.least_offset,
            last_offset=tally.most_offset,
        )
        for cell, tally in told
    ]
    assert len(counts) <= MOST_COUNTS
    event = CountEvent(
        version=VERSION, producer=producer, instance=instance, sequence=sequence, last=is_last, counts=counts
    )
    return msgspec.json.encode(event)


def decode_event(value: bytes | None) -> CountEvent:
    """The event. Raises BadCountEvent."""
    if value is None:
        raise BadCountEvent("it has no value")
    try:
        version = msgspec.json.decode(value, type=_Versioned).version
        if version != VERSION:
            raise BadCountEvent(f"it is of version {version}, and {VERSION} is known")
        event = msgspec.json.decode(value, type=CountEvent)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadCountEvent(str(error)) from None
    for count in event.counts:
        if count.hour.tzinfo is None or _milliseconds(count.hour) % HOUR_MS:
            raise BadCountEvent(f"{count.hour.isoformat()} is not the beginning of an hour of UTC")
    return event


def counts_of(event: CountEvent) -> list[Told]:
    """What an event tells."""
    return [
        Told(
            Cell(each.topic, each.partition, _milliseconds(each.hour)),
            Tally(
                each.records,
                int(each.checksum, 16),
                least_offset=each.first_offset,
                most_offset=each.last_offset,
            ),
        )
        for each in event.counts
    ]


def _milliseconds(at: datetime) -> int:
    return (at.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)
