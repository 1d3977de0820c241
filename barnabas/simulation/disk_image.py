"""What a simulated disk holds: content and names, each with what of them is durable.

Content is durable after a sync of its file, a name after a sync of its directory. When the power goes, each file keeps
its durable content and of the changes since then none, a prefix, or any, the last one perhaps torn at a sector; each
directory keeps a prefix of its changes.
"""

from random import Random
from typing import Final

Change = tuple[int, bytes] | int
"""A write (position, data), or the new size of a truncation."""
Names = dict[str, "Inode | Directory | None"]
"""Changes of a directory: a name and what it stands for from now on, None where it is removed."""

_SECTOR_BYTES: Final = 512


class Inode:
    """A file's content."""

    __slots__ = ("data", "modified_ms", "pending", "synced")

    def __init__(self) -> None:
        self.data = bytearray()
        self.synced = b""
        self.pending: list[Change] = []
        self.modified_ms = 0

    def change(self, change: Change) -> None:
        _apply(self.data, change)
        self.pending.append(change)

    def sync(self) -> None:
        """Make durable what is pending; what a failed sync dropped from there stays readable and is not."""
        if not self.pending:
            return
        durable = bytearray(self.synced)
        for change in self.pending:
            _apply(durable, change)
        self.synced, self.pending = bytes(durable), []

    def drop_pending(self) -> int:
        """A sync failed: what it was to write never becomes durable. How many changes that are."""
        count = len(self.pending)
        self.pending = []
        return count

    def lose_power(self, random: Random | None) -> int:
        """Keep what is durable and what chance adds; without chance nothing more. How many changes were lost."""
        survived = bytearray(self.synced)
        kept = 0
        for change in self._drawn(random):
            _apply(survived, change)
            kept += 1
        lost = len(self.pending) - kept
        self.data, self.synced, self.pending = survived, bytes(survived), []
        return lost

    def _drawn(self, random: Random | None) -> list[Change]:
        if random is None or not self.pending:
            return []
        kind = random.random()
        if kind < 0.3:
            return []
        if kind < 0.6:
            kept = self.pending[: random.randrange(len(self.pending) + 1)]
        else:
            kept = [change for change in self.pending if random.random() < 0.5]
        if kept and random.random() < 0.4 and not isinstance(last := kept[-1], int):
            kept = [*kept[:-1], *_torn(last, random)]
        return kept


class Directory:
    """The names in a directory."""

    __slots__ = ("children", "durable", "pending")

    def __init__(self) -> None:
        self.children: dict[str, Inode | Directory] = {}
        self.durable: dict[str, Inode | Directory] = {}
        self.pending: list[Names] = []

    def change(self, changes: Names) -> None:
        _apply_names(self.children, changes)
        self.pending.append(changes)

    def sync(self) -> None:
        self.durable, self.pending = dict(self.children), []

    def lose_power(self, random: Random | None) -> int:
        """As of files, for all below too. How many changes were lost."""
        kept = 0 if random is None else random.randrange(len(self.pending) + 1)
        lost = len(self.pending) - kept
        for changes in self.pending[:kept]:
            _apply_names(self.durable, changes)
        self.children, self.pending = dict(self.durable), []
        return lost + sum(child.lose_power(random) for child in self.children.values())


def used_bytes(node: "Inode | Directory") -> int:
    """The sizes of all files below."""
    if isinstance(node, Inode):
        return len(node.data)
    return sum(map(used_bytes, node.children.values()))


def _torn(write: tuple[int, bytes], random: Random) -> list[Change]:
    """Some of the write's sectors: the first ones, or any."""
    position, data = write
    starts = [
        position,
        *range(position - position % _SECTOR_BYTES + _SECTOR_BYTES, position + len(data), _SECTOR_BYTES),
    ]
    if random.random() < 0.5:
        chosen = starts[: random.randrange(len(starts) + 1)]
    else:
        chosen = [start for start in starts if random.random() < 0.5]
    return [
        (start, data[start - position : start - start % _SECTOR_BYTES + _SECTOR_BYTES - position]) for start in chosen
    ]


def _apply(data: bytearray, change: Change) -> None:
    if isinstance(change, int):
        if change <= len(data):
            del data[change:]
        else:
            data.extend(bytes(change - len(data)))
        return
    position, written = change
    if position > len(data):
        data.extend(bytes(position - len(data)))
    data[position : position + len(written)] = written


def _apply_names(names: "dict[str, Inode | Directory]", changes: Names) -> None:
    for name, node in changes.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node
