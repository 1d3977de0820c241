"""Bytes on a simulated platter that are no longer what was written, and whether they still are there.

What rots lies in a segment that was closed and synced, all of it below the recovery point that the disk tells of: a
start never cuts it, nor takes the log's end from it. Base offsets and leader epochs alone are spared, because no
checksum covers them: who reads before the scrubber has come by would be told something wrong, by any broker
(`tests/simulation/damage_story.py` hits them, and looks more closely at what is read).

A blemish stands until its bytes are others, or no segment of the replica holds them any more.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from barnabas.protocol.batch import LOG_OVERHEAD_BYTES, CorruptBatch
from barnabas.protocol.entries import read_entry
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.message_set import LEAST_ENTRY_BYTES
from barnabas.simulation.disk_image import Inode
from barnabas.simulation.loop import SimulationLoop
from barnabas.simulation.machine import Machine
from barnabas.storage.checkpoints import CorruptCheckpoint, decode_offsets

_RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
_LOG_SUFFIX: Final = ".log"
_LENGTH_AT: Final = 8
_COVERED_FROM: Final = 16
"""From here on, and in the length, each byte of an entry counts for its checksum, or is it."""

_MOST_ENTRIES: Final = 4
_READ_LATE_S: Final = 20.0
"""What was read off a replica before it was mended may come so late."""


@dataclass(slots=True, frozen=True)
class Entry:
    """Where an entry lies in a file."""

    inode: Inode
    position: int
    size_bytes: int

    @property
    def end(self) -> int:
        return self.position + self.size_bytes


@dataclass(slots=True, frozen=True)
class Blemish:
    """Bytes of a replica's segment, from `position` on, that stand where others were written, perhaps more of them."""

    machine: Machine
    topic_partition: TopicPartition
    inode: Inode
    position: int
    size_bytes: int
    bad: bytes

    @property
    def stands(self) -> bool:
        if len(self.inode.data) < self.position:
            # Cut away; where the file's end had gone, there are no bad bytes to be found others.
            return False
        if self.inode.data[self.position : self.position + self.size_bytes] != self.bad:
            return False
        return any(inode is self.inode for _, inode in _segments(self.machine, self.topic_partition))

    def meets(self, inode: Inode, begin: int, end: int) -> bool:
        """Whether some of it lies in these bytes of a file."""
        return inode is self.inode and self.position < end and begin < self.position + self.size_bytes


class BitRot:
    """All blemishes of a world. The looking changes nothing in the world."""

    def __init__(self, loop: SimulationLoop) -> None:
        self._loop = loop
        self._blemishes: list[Blemish] = []
        self._ended_s: dict[TopicPartition, float] = {}
        self._hit: dict[tuple[int, TopicPartition], None] = {}
        self.struck = 0

    def strike(self, machine: Machine, at: TopicPartition, chance: random.Random, *, below: int) -> bool:
        """Let bytes rot in a replica's synced entries that end at or below an offset; False where there is nothing."""
        found = list(_entries(machine, at, below=min(below, _recovery_point(machine, at))))
        if not found:
            return False
        first = chance.randrange(len(found))
        inode = found[first].inode
        position, bad = draw_damage(chance, found[first : first + _MOST_ENTRIES])
        if inode.data[position : position + len(bad)] == bad:
            return False
        # What has rotted already might become what it was.
        if any(each.meets(inode, position, position + len(bad)) for each in self._left()):
            return False
        durable = bytearray(inode.synced)
        inode.data[position : position + len(bad)] = durable[position : position + len(bad)] = bad
        inode.synced = bytes(durable)
        self.note(Blemish(machine, at, inode, position, len(bad), bad))
        return True

    def note(self, blemish: Blemish) -> None:
        """Know of damage that was done elsewhere."""
        self._blemishes.append(blemish)
        self._hit[blemish.machine.broker_id, blemish.topic_partition] = None
        self.struck += 1

    def stands_on(self, machine: Machine, at: TopicPartition | None = None) -> bool:
        """Whether a replica of a machine, or any of them, is damaged still."""
        return any(
            each.machine is machine and at in (None, each.topic_partition) for each in self._blemishes and self._left()
        )

    def has_hit(self, machine: Machine, at: TopicPartition) -> bool:
        """Whether a replica was ever damaged."""
        return (machine.broker_id, at) in self._hit

    def may_be_read(self, at: TopicPartition) -> bool:
        """Whether somebody may be told what rotted: no broker looks at checksums before it sends."""
        self._left()
        ended_s = self._ended_s.get(at)
        recently = ended_s is not None and self._loop.now_s - ended_s < _READ_LATE_S
        return recently or any(each.topic_partition == at for each in self._blemishes)

    def standing(self) -> str:
        """A replica that is damaged; empty when there is none."""
        for each in self._left():
            return f"{each.topic_partition} on {each.machine.host} is damaged at byte {each.position}"
        return ""

    def _left(self) -> list[Blemish]:
        left: list[Blemish] = []
        for each in self._blemishes:
            if each.stands:
                left.append(each)
            else:
                self._ended_s[each.topic_partition] = self._loop.now_s
        self._blemishes = left
        return left


def draw_damage(chance: random.Random, entries: list[Entry]) -> tuple[int, bytes]:
    """What becomes of the first of these entries, and perhaps of those that follow it: a position and its bytes.

    A bit flips, or zeroes or any bytes stand in a part of an entry, or from there to the end of one that follows.
    """
    first = entries[0]
    kind = chance.choice(["bit", "zeroes", "torn"])
    if kind == "bit":
        places = [*range(_LENGTH_AT, LOG_OVERHEAD_BYTES), *range(_COVERED_FROM, first.size_bytes)]
        position = first.position + chance.choice(places)
        return position, bytes([first.inode.data[position] ^ 1 << chance.randrange(8)])
    if chance.random() < 0.4:
        begin = first.position + chance.randrange(_COVERED_FROM, first.size_bytes)
        end = min(begin + chance.choice([1, 4, 40, 300]), first.end)
    else:
        last = chance.choice([each for each in entries if each.inode is first.inode])
        begin = first.position + chance.choice([0, chance.randrange(_COVERED_FROM, first.size_bytes)])
        end = last.end
    return begin, bytes(end - begin) if kind == "zeroes" else chance.randbytes(end - begin)


def _segments(machine: Machine, at: TopicPartition) -> Iterator[tuple[str, Inode]]:
    for path in machine.settings["log.dirs"].split(","):
        for name, inode in machine.disk.files_in(f"{path}/{at}"):
            if name.endswith(_LOG_SUFFIX):
                yield name, inode


def _entries(machine: Machine, at: TopicPartition, *, below: int) -> Iterator[Entry]:
    """The synced entries of a replica's closed segments that end at or below an offset."""
    segments = list(_segments(machine, at))
    closed = [path for (path, _), (later, _) in pairwise(segments) if _base_offset(later) <= below]
    for path, inode in segments:
        if path not in closed:
            continue
        position = 0
        while len(inode.data) - position >= LEAST_ENTRY_BYTES:
            try:
                header = read_entry(inode.data, position)
            except CorruptBatch:
                break
            end = position + header.size_bytes
            if header.next_offset > below or end > min(len(inode.data), len(inode.synced)):
                break
            yield Entry(inode, position, header.size_bytes)
            position = end


def _base_offset(path: str) -> int:
    return int(path.rpartition("/")[2].removesuffix(_LOG_SUFFIX))


def _recovery_point(machine: Machine, at: TopicPartition) -> int:
    """What the disk tells of a partition; the least of what both log directories may tell."""
    points: list[int] = []
    for path in machine.settings["log.dirs"].split(","):
        for name, inode in machine.disk.files_in(path):
            if name.endswith(_RECOVERY_POINTS):
                try:
                    points += [offset for told, offset in decode_offsets(inode.synced).items() if told == at]
                except CorruptCheckpoint:
                    return 0
    return min(points, default=0)
