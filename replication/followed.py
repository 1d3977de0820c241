"""A partition that this broker follows in one leader epoch: what a fetcher remembers of it, and does to its log.

Everything names the epoch and is refused (`PartitionRefused`) when that is over.
"""

from barnabas.storage.append import UnexpectedOffset
from replication.follower import AskAgain, FollowedPartition, RestartAt, TruncateTo
from replication.replica import Replica


class Followed(FollowedPartition):
    """See the module."""

    __slots__ = ("failures", "lag", "replica")

    def __init__(self, replica: Replica) -> None:
        super().__init__(replica.topic_partition, replica.leader_epoch)
        self.replica = replica
        self.failures = 0
        """Errors in a row."""
        self.lag: int | None = None
        """Committed records that are not here yet; None before the leader has told."""

    @property
    def waits_for_disk(self) -> bool:
        """Whether an append would wait, so that others must not wait for it."""
        replica = self.replica
        is_quick = replica.directory.writes_inline and not replica.is_being_written
        return not is_quick or replica.log.config.flush_messages == 1

    @property
    def is_ahead_of_disk(self) -> bool:
        """Whether a power cut would take records though the topic flushes each; asking for the next ones tells of them.

        So it is after an epoch that ended with a flush under way, after a term as leader, after a start, and where the
        topic has just been set so.
        """
        log_ = self.replica.log
        return log_.config.flush_messages == 1 and log_.needs_flush()

    async def flush(self) -> None:
        """Have everything on the disk. Raises PartitionRefused."""
        await self.replica.flush_as_follower(leader_epoch=self.leader_epoch)

    def take_at_once(self, records: memoryview, *, high_watermark: int, log_start_offset: int) -> memoryview | None:
        """As `take`, as far as nothing has to be waited for: the records that are left for it, None where all is done.

        Raises PartitionRefused or AppendRejected.
        """
        if len(records):
            try:
                taken_bytes = self.replica.try_append_as_follower(records, leader_epoch=self.leader_epoch)
            except UnexpectedOffset:
                return records
            if taken_bytes < len(records):
                return records[taken_bytes:]
        self._apply_progress(high_watermark, log_start_offset)
        return None

    async def take(self, records: memoryview, *, high_watermark: int, log_start_offset: int) -> None:
        """Append what the leader sent, and take over how far it is committed there and where the log starts.

        Raises PartitionRefused or AppendRejected.
        """
        if len(records):
            await self._append(records)
        self._apply_progress(high_watermark, log_start_offset)

    def _apply_progress(self, high_watermark: int, log_start_offset: int) -> None:
        replica = self.replica
        replica.apply_leader_progress(
            leader_epoch=self.leader_epoch, high_watermark=high_watermark, log_start_offset=log_start_offset
        )
        self.lag = max(0, high_watermark - replica.log.log_end_offset)

    async def _append(self, records: memoryview) -> None:
        replica, epoch = self.replica, self.leader_epoch
        try:
            await replica.append_as_follower(records, leader_epoch=epoch)
        except UnexpectedOffset as error:
            end = replica.log.log_end_offset
            if not error.first_offset < end <= error.last_offset:
                raise
            if any(each.start_offset <= error.first_offset and each.end_offset == end for each in replica.log.damage):
                # It ends with what is damaged, of which it is not known where the last batch ended.
                await replica.truncate_to(error.first_offset, leader_epoch=epoch)
            elif replica.log.log_start_offset == end:
                # The leader's log starts within a batch, and it can only send whole ones (KAFKA-6975).
                await replica.restart_at(error.first_offset, leader_epoch=epoch)
            else:
                raise
            await replica.append_as_follower(records, leader_epoch=epoch)

    async def put(self, step: TruncateTo | AskAgain | RestartAt) -> None:
        """Bring the log to where it can go on. Raises PartitionRefused, CorruptSegment or CorruptIndex."""
        if isinstance(step, RestartAt):
            await self.replica.restart_at(step.offset, leader_epoch=self.leader_epoch)
        else:
            await self.replica.truncate_to(step.offset, leader_epoch=self.leader_epoch)
