"""Whether the logs of this broker may have lost their ends before it started (the last-replica defence).

A broker registers what it finds at its start; the controller lets it not lead alone what it may have lost. The doubt is
over when every partition that has a replica here has a leader that a controller chose, knowing of the doubt.
"""

import asyncio
import logging
from typing import Final

from barnabas.protocol.ids import NO_LEADER, BrokerId
from barnabas.storage.boot_record import BootRecord
from barnabas.storage.directories import LogDirectories
from broker.metadata_view import MetadataView

log = logging.getLogger(__name__)

_CHECK_INTERVAL_MS: Final = 250


class BootState:
    """See the module. `boot_id` is empty where the machine does not tell it: then each unclean stop is doubtful."""

    def __init__(
        self, log_directories: LogDirectories, metadata: MetadataView, broker_id: BrokerId, boot_id: str
    ) -> None:
        self.boot_id = boot_id
        self._broker_id = broker_id
        self.is_intact = True
        self._log_directories = log_directories
        self._metadata = metadata

    def recall(self) -> None:
        """Compare with what the log directories say of the last start, and say there what is found."""
        self.is_intact = self._log_directories.have_survived(self.boot_id)
        self._log_directories.record_boot(BootRecord(self.boot_id, self.is_intact))
        if not self.is_intact and self._log_directories.logs():
            log.warning("the machine went down, or a sync failed, since the last start: the ends of logs may be lost")

    async def run(self) -> None:
        """Wait for the end of the doubt, and write it down. Begins when a controller has told all that there is."""
        while not self.is_intact:
            if self._is_over():
                self.is_intact = True
                self._log_directories.record_boot(BootRecord(self.boot_id, is_intact=True))
                log.info("every partition with a replica here has a leader: no more doubt about the ends of logs")
            else:
                await asyncio.sleep(_CHECK_INTERVAL_MS / 1000)

    def _is_over(self) -> bool:
        # A log that is gone with its disk is not among the logs, but its partition is told of.
        told = (each for each in self._metadata if self._broker_id in each.replicas)
        return all(each.leader != NO_LEADER for each in told) and all(
            self._metadata.has_leader(each.topic_partition) for each in self._log_directories.logs()
        )
