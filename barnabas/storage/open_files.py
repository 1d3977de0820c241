"""The closed segments whose files are open: a bounded number, least recently used first.

A segment that is pinned (a slice of it is under way, or it is being flushed) keeps its files beyond the bound.
"""

from typing import Protocol


class HoldsFiles(Protocol):
    """Something whose files can be closed and open again on use."""

    @property
    def is_pinned(self) -> bool: ...

    def close_files(self) -> None: ...


class OpenFiles:
    """Closes the files of whoever used theirs longest ago."""

    __slots__ = ("_holders", "_limit")

    def __init__(self, limit: int) -> None:
        assert limit >= 1
        self._limit = limit
        self._holders: dict[HoldsFiles, None] = {}

    def __len__(self) -> int:
        return len(self._holders)

    def touch(self, holder: HoldsFiles) -> None:
        """Say that `holder` has files open and uses them now."""
        holders = self._holders
        if holder in holders:
            del holders[holder]
        elif len(holders) >= self._limit:
            self._close_one()
        holders[holder] = None

    def forget(self, holder: HoldsFiles) -> None:
        """Say that `holder` closed its files."""
        self._holders.pop(holder, None)

    def _close_one(self) -> None:
        for holder in self._holders:
            if not holder.is_pinned:
                del self._holders[holder]
                holder.close_files()
                return
