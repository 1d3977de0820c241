"""What a log is given, what it is made of when it is loaded, and what a flush of it has to do."""

import os.path
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from barnabas.runtime.clock import Clock
from barnabas.runtime.disk import Disk
from barnabas.runtime.files import File
from barnabas.storage.file_names import LEADER_EPOCH_CHECKPOINT
from barnabas.storage.leader_epochs import LeaderEpochs
from barnabas.storage.producer_state import ProducerState
from barnabas.storage.segment import Segment, SegmentFiles
from barnabas.storage.segment_flush import SegmentFlush
from barnabas.storage.segments import Segments
from barnabas.storage.snapshots import Snapshots

if TYPE_CHECKING:
    from barnabas.storage.log import Log


class LogOwner(Protocol):
    """What a log asks of its directory. None of these waits."""

    def flush_soon(self, log: "Log", up_to: int) -> None:
        """Flush the log up to that offset, and its leader epochs, in the directory's thread."""
        ...

    def remove_later(self, segments: Sequence[Segment], delay_ms: int) -> None:
        """Remove the files of these segments after the delay and after the last slice of them is done."""
        ...

    def suspect(self, log: "Log", offset: int) -> None:
        """Look soon for damage: something of the log could not be read, at `offset` or soon after."""
        ...


@dataclass(slots=True, frozen=True)
class LogPorts:
    """What the logs of one directory share."""

    files: SegmentFiles
    clock: Clock
    random: random.Random
    owner: LogOwner
    producer_expiration_ms: int

    @property
    def disk(self) -> Disk:
        return self.files.disk


@dataclass(slots=True)
class LogState:
    """A log as loading left it."""

    segments: Segments
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    leader_epochs: LeaderEpochs
    producers: ProducerState
    snapshots: Snapshots


@dataclass(slots=True, frozen=True)
class LogFlush:
    """What a flush of a log has to write and sync."""

    disk: Disk
    directory: str
    up_to: int
    segments: tuple[SegmentFlush, ...]
    snapshots: tuple[File, ...]
    named: tuple[Segment, ...]
    """The segments whose names are there to stay once the directory is synced."""
    leader_epochs: bytes | None
    sync_parent: bool
    truncations: int

    @property
    def is_empty(self) -> bool:
        """Whether all of it is on disk already."""
        return not (self.segments or self.snapshots or self.leader_epochs is not None or self.sync_parent)

    @property
    def syncs_directory(self) -> bool:
        """Whether names have changed. After a sealed segment comes another, where the recovery point will be."""
        if self.snapshots or self.leader_epochs is not None:
            return True
        return any(flush.is_sealed or not flush.segment.directory_synced for flush in self.segments)

    def sync(self) -> None:
        """Write and sync; may run in a thread. Raises OSError, and then the directory is lost."""
        for segment in self.segments:
            segment.sync()
        try:
            for snapshot in self.snapshots:
                snapshot.fsync()
        finally:
            for snapshot in self.snapshots:
                snapshot.close()
        if self.leader_epochs is not None:
            self.disk.write_durably(f"{self.directory}/{LEADER_EPOCH_CHECKPOINT}", self.leader_epochs)
        elif self.syncs_directory:
            self.disk.fsync_directory(self.directory)
        if self.sync_parent:
            self.disk.fsync_directory(os.path.dirname(self.directory))
