"""What recovery looked at, cut and kept of one log, and the lines that say so."""

import logging
from dataclasses import dataclass, field

from barnabas.storage.log import Log

log = logging.getLogger(__name__)


@dataclass(slots=True)
class RecoveryReport:
    """See the module. Nothing was scanned where `segments` is 0."""

    segments: int = 0
    batches: int = 0
    scanned_bytes: int = 0
    cut: list[str] = field(default_factory=list)

    def say(self, loaded: Log, *, synced_to: int) -> None:
        """Write the lines of the log that was loaded; all below `synced_to` is known to have been synced."""
        at = loaded.topic_partition
        if self.segments:
            log.log(
                logging.WARNING if self.cut else logging.INFO,
                "%s: recovered: scanned %d segments, %d batches, %d bytes from offset %d on; cut %s; ends at offset %d",
                at,
                self.segments,
                self.batches,
                self.scanned_bytes,
                loaded.segments[len(loaded.segments) - min(self.segments, len(loaded.segments))].base_offset,
                " and ".join(self.cut) if self.cut else "nothing",
                loaded.log_end_offset,
            )
        for damaged in loaded.damage:
            log.error("%s: damaged, though it was synced, and kept: %s", at, damaged)
        if loaded.log_end_offset < synced_to:
            log.error("%s: all below offset %d was synced, and ends at %d", at, synced_to, loaded.log_end_offset)
