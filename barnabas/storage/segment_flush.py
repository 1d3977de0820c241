"""What a thread does to bring a segment to the disk."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.runtime.files import File

if TYPE_CHECKING:
    from barnabas.storage.segment import Segment


@dataclass(slots=True, frozen=True)
class SegmentFlush:
    """What to write and to sync so that a segment survives a power cut as it was when this was made."""

    segment: "Segment"
    log_file: File
    size_bytes: int
    index_files: tuple[tuple[File, bytes], ...]
    is_sealed: bool
    """Whether it was so when this was made: what came after that is not in it."""

    def sync(self) -> None:
        """Write and sync; may run in a thread. Raises OSError."""
        try:
            for file, data in self.index_files:
                file.pwrite(data, 0)
                file.truncate(len(data))
                file.fsync()
            self.log_file.fsync()
        finally:
            for file, _ in self.index_files:
                file.close()
