"""Which leader epoch began at which offset (KIP-101, KIP-279), and the text of `leader-epoch-checkpoint`.

Epochs and start offsets rise strictly from entry to entry. An entry at or after the log's end speaks of records that
are not there: `truncate_from_end` removes it. Pure: whoever changes the entries sees to it that they reach the disk.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple

from barnabas.storage.checkpoints import CorruptCheckpoint, decode_lines, encode_lines

UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1


class EpochEntry(NamedTuple):
    """The first offset that the leader of an epoch wrote, or would have written."""

    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """The end (exclusive) of the greatest epoch not above the one asked for; (-1, -1) where nothing is known."""

    epoch: int
    end_offset: int


class LeaderEpochs:
    """The entries of one log, in order. Each mutator says whether it changed something."""

    __slots__ = ("_entries", "latest_epoch")

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._entries: list[EpochEntry] = []
        self.latest_epoch: int = UNDEFINED_EPOCH
        for entry in entries:
            self.assign(entry.epoch, start_offset=entry.start_offset)

    @classmethod
    def of_either(cls, one: Iterable[EpochEntry], other: Iterable[EpochEntry]) -> "LeaderEpochs":
        """What two logs of one partition know together, of which one may lack records that the other has.

        Who copied a compacted log saw an epoch begin with the first record that was left of it: the earlier is right.
        """
        begun: dict[int, int] = {}
        for epoch, start_offset in (*one, *other):
            begun[epoch] = min(start_offset, begun.get(epoch, start_offset))
        return cls(EpochEntry(epoch, begun[epoch]) for epoch in sorted(begun))

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return tuple(self._entries)

    @property
    def earliest(self) -> EpochEntry | None:
        return self._entries[0] if self._entries else None

    @property
    def latest(self) -> EpochEntry | None:
        return self._entries[-1] if self._entries else None

    def assign(self, epoch: int, *, start_offset: int) -> bool:
        """Let `epoch` begin at `start_offset`; entries that are later in either respect were never true and go."""
        assert epoch >= 0, f"leader epoch {epoch}"
        assert start_offset >= 0, f"start offset {start_offset}"
        entries = self._entries
        if entries and entries[-1].epoch == epoch and start_offset >= entries[-1].start_offset:
            return False
        while entries and (entries[-1].epoch >= epoch or entries[-1].start_offset >= start_offset):
            entries.pop()
        entries.append(EpochEntry(epoch, start_offset))
        self.latest_epoch = epoch
        return True

    def assign_from_batch(self, found: EpochEntry, *, floor: int, said: Iterable[EpochEntry]) -> None:
        """Note the epoch of a batch; it began at the batch, or after `floor`, the end of what is before it.

        Only compaction leaves room between the two. Epochs that a checkpoint `said` to begin there are believed.
        """
        if found.epoch < self.latest_epoch:
            return
        for entry in said:
            if self.latest_epoch < entry.epoch <= found.epoch and floor <= entry.start_offset <= found.start_offset:
                self.assign(entry.epoch, start_offset=entry.start_offset)
        self.assign(found.epoch, start_offset=found.start_offset)

    def end_offset_for(self, epoch: int, *, log_end_offset: int) -> EpochEnd:
        """Where the leader of `epoch` stopped writing (OffsetForLeaderEpoch; KIP-279 adds the epoch of the answer)."""
        if epoch == UNDEFINED_EPOCH:
            return EpochEnd(UNDEFINED_EPOCH, UNDEFINED_OFFSET)
        if epoch == self.latest_epoch:
            return EpochEnd(epoch, log_end_offset)
        after = bisect_right(self._entries, epoch, key=_epoch)
        if after == len(self._entries):
            return EpochEnd(UNDEFINED_EPOCH, UNDEFINED_OFFSET)
        found = self._entries[after - 1].epoch if after else epoch
        return EpochEnd(found, self._entries[after].start_offset)

    def truncate_from_end(self, end_offset: int) -> bool:
        """Forget the epochs that begin at or after `end_offset`."""
        entries = self._entries
        count = len(entries)
        while entries and entries[-1].start_offset >= end_offset:
            entries.pop()
        self.latest_epoch = entries[-1].epoch if entries else UNDEFINED_EPOCH
        return len(entries) != count

    def truncate_from_start(self, start_offset: int) -> bool:
        """Forget the epochs that ended at or before `start_offset`; the one that was current there begins there."""
        folded = bisect_right(self._entries, start_offset, key=_start_offset)
        if folded == 0 or (folded == 1 and self._entries[0].start_offset == start_offset):
            return False
        self._entries[:folded] = [EpochEntry(self._entries[folded - 1].epoch, start_offset)]
        return True

    def clear(self) -> bool:
        had = bool(self._entries)
        self._entries.clear()
        self.latest_epoch = UNDEFINED_EPOCH
        return had

    def encode(self) -> bytes:
        return encode_lines(f"{entry.epoch} {entry.start_offset}" for entry in self._entries)

    @classmethod
    def decode(cls, data: bytes) -> "LeaderEpochs":
        """Read a checkpoint. Raises CorruptCheckpoint also for entries that do not rise."""
        entries = [_parse_entry(line) for line in decode_lines(data)]
        epochs = cls(entries)
        if epochs.entries != tuple(entries):
            raise CorruptCheckpoint("leader epochs or their start offsets do not rise")
        return epochs


def _parse_entry(line: str) -> EpochEntry:
    try:
        epoch, start_offset = map(int, line.split())
    except ValueError:
        raise CorruptCheckpoint(f"not a leader epoch and a start offset: {line!r}") from None
    if epoch < 0 or start_offset < 0:
        raise CorruptCheckpoint(f"a leader epoch or start offset is negative: {line!r}")
    return EpochEntry(epoch, start_offset)


def _epoch(entry: EpochEntry) -> int:
    return entry.epoch


def _start_offset(entry: EpochEntry) -> int:
    return entry.start_offset
