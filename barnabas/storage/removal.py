"""Files that wait for their removal: those of a segment, or the whole directory of a deleted partition."""

from dataclasses import dataclass

from barnabas.storage.file_names import LOG_SUFFIX
from barnabas.storage.log import Log
from barnabas.storage.segment import Segment


@dataclass(slots=True)
class Removal:
    """Due at a time of the monotonic clock, and once no slice of them is under way."""

    due_ms: int
    segment: Segment | None = None
    directory: str | None = None
    log: Log | None = None

    @property
    def is_pinned(self) -> bool:
        if self.segment is not None:
            return self.segment.is_pinned
        return self.log is not None and any(segment.is_pinned for segment in self.log.segments)

    @property
    def path(self) -> str:
        """What to call them in the log."""
        if self.segment is not None:
            return self.segment.path(LOG_SUFFIX)
        assert self.directory is not None
        return self.directory
