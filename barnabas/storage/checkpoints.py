"""The text of Kafka's checkpoint files: a version line `0`, the number of entries, one entry a line.

Of a log directory's files, `recovery-point-offset-checkpoint`, `log-start-offset-checkpoint` and
`replication-offset-checkpoint` share the entry `topic partition offset`. Two blanks before the offset, which Kafka
takes for one, say that the entry is ours: Kafka's recovery points mean nearly the same, but not all of it.

Pure: the files are written through `Disk.write_durably`, so a file is whole or the old one; what cannot be read is
`CorruptCheckpoint`, and the reader decides what it goes without.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from barnabas.protocol.ids import TopicPartition

_VERSION: Final = "0"
_OURS: Final = "  "


class CorruptCheckpoint(Exception):
    """The content is not a checkpoint, or not a whole one."""


def encode_lines(entries: Iterable[str]) -> bytes:
    """The content of a checkpoint with these entries."""
    lines = list(entries)
    return "\n".join([_VERSION, str(len(lines)), *lines, ""]).encode()


def decode_lines(data: bytes) -> list[str]:
    """The entries of a checkpoint. Raises CorruptCheckpoint."""
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError:
        raise CorruptCheckpoint("the content is not text") from None
    if lines[0].strip() != _VERSION:
        raise CorruptCheckpoint(f"the version is {lines[0][:20]!r}, not {_VERSION!r}")
    entries = [line for line in lines[2:] if line.strip()]
    if len(lines) < 2 or lines[1].strip() != str(len(entries)):
        announced = lines[1][:20] if len(lines) > 1 else ""
        raise CorruptCheckpoint(f"{announced!r} entries are announced, {len(entries)} are there")
    return entries


def encode_offsets(offsets: Mapping[TopicPartition, int], *, says_whose: bool = False) -> bytes:
    """The content of a checkpoint of an offset per partition."""
    gap = _OURS if says_whose else " "
    return encode_lines(f"{tp.topic} {tp.partition}{gap}{offset}" for tp, offset in sorted(offsets.items()))


def whose_offsets(data: bytes) -> bool | None:
    """Whether a checkpoint that says so is ours; None where it has no entry that could say it."""
    try:
        entries = decode_lines(data)
    except CorruptCheckpoint:
        return None
    return any(_OURS in entry for entry in entries) if entries else None


def decode_offsets(data: bytes) -> dict[TopicPartition, int]:
    """Read `topic partition offset` entries. Raises CorruptCheckpoint."""
    return dict(map(_parse_offset, decode_lines(data)))


def _parse_offset(line: str) -> tuple[TopicPartition, int]:
    try:
        topic, partition, offset = line.split()
        topic_partition, value = TopicPartition(topic, int(partition)), int(offset)
    except ValueError:
        raise CorruptCheckpoint(f"not a topic, a partition and an offset: {line!r}") from None
    if topic_partition.partition < 0 or value < 0:
        raise CorruptCheckpoint(f"a partition or an offset is negative: {line!r}")
    return topic_partition, value
