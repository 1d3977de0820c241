"""Logs on their way to another directory of the same broker (KIP-113).

Such a log gathers in a directory `topic-partition.<32 hex digits>-future` below its destination, is filled by
`replication.log_moves`, and in the end takes the place of the present one:

    everything synced, checkpoints written -> present: renamed to -delete, synced -> future: renamed to topic-partition

A crash before the first rename leaves the move to be gone on with. One between the renames leaves a log that gathers,
one that waits for its removal, and no other: at the next start with all directories the first takes the place.

Owned by the event loop, like the directories.
"""

import logging
from collections.abc import Callable, Sequence
from random import Random

from barnabas.protocol.ids import TopicPartition
from barnabas.runtime.disk import Disk
from barnabas.storage.creation import create_log
from barnabas.storage.directory import LogDirectory
from barnabas.storage.file_names import (
    RECOVERY_POINT_CHECKPOINT,
    future_directory,
    parse_partition_directory,
    partition_directory,
)
from barnabas.storage.leader_epochs import LeaderEpochs
from barnabas.storage.log import Log, LogOffline
from barnabas.storage.log_config import LogConfig
from barnabas.storage.log_parts import LogPorts

log = logging.getLogger(__name__)


class FutureLogs:
    """See the module."""

    def __init__(
        self,
        directories: Sequence[LogDirectory],
        *,
        disk: Disk,
        random: Random,
        ports_of: Callable[[LogDirectory], LogPorts],
    ) -> None:
        self._directories = directories
        self._disk = disk
        self._random = random
        self._ports_of = ports_of

    def find(self, topic_partition: TopicPartition) -> tuple[LogDirectory, Log] | None:
        """The log that gathers for a partition, and where."""
        for directory in self._directories:
            found = directory.futures.get(topic_partition)
            if found is not None and not directory.is_offline:
                return directory, found
        return None

    def create(self, topic_partition: TopicPartition, directory: LogDirectory, config: LogConfig) -> Log:
        """Begin to gather a log in `directory`, empty and at offset 0. Raises LogOffline.

        It may be the directory of the present log, which the new one is to replace; a start gives that up.
        """
        assert self.find(topic_partition) is None
        name = future_directory(topic_partition, self._unique())
        assert name is not None, f"{topic_partition}: a name too long to be moved"
        try:
            directory.forget_stale(topic_partition)
            made = create_log(topic_partition, f"{directory.path}/{name}", config, self._ports_of(directory))
        except OSError as error:
            directory.fail(error)
            raise LogOffline(str(topic_partition)) from error
        directory.futures[topic_partition] = made
        if topic_partition in directory.logs:
            log.info("%s: gathers anew in %s", topic_partition, directory.path)
            return made
        # What is copied from now on is clean as far as the present log is: later cleanings count for that one alone.
        directory.first_dirty.pop(topic_partition, None)
        for each in self._directories:
            if topic_partition in each.logs and topic_partition in each.first_dirty:
                directory.first_dirty[topic_partition] = each.first_dirty[topic_partition]
        log.info("%s: gathers in %s", topic_partition, directory.path)
        return made

    def discard(self, topic_partition: TopicPartition) -> None:
        """Give up a log that gathers, if there is one. Raises LogOffline."""
        found = self.find(topic_partition)
        if found is not None:
            directory, member = found
            directory.detach(member, self._unique(), member.config.file_delete_delay_ms)

    @staticmethod
    async def truncate(directory: LogDirectory, member: Log, offset: int) -> None:
        """Cut a log that gathers, durably. Raises LogOffline or CorruptSegment."""
        directory.lower_recovery_point(member, offset)
        await directory.checkpoint(RECOVERY_POINT_CHECKPOINT)
        await directory.truncate(member, offset)

    @staticmethod
    async def restart_at(directory: LogDirectory, member: Log, offset: int) -> None:
        """Let a log that gathers begin again at `offset`, durably. Raises as `truncate`."""
        directory.lower_recovery_point(member, offset)
        await directory.checkpoint(RECOVERY_POINT_CHECKPOINT)
        await directory.restart(member, offset)

    async def put_in_place(self, present: Log, source: LogDirectory) -> tuple[Log, LogDirectory]:
        """Let the log that gathers take the place of `present`; both hold the same records, and nobody writes.

        Returns when that is durable. Raises LogOffline.
        """
        topic_partition = present.topic_partition
        found = self.find(topic_partition)
        if found is None:
            raise LogOffline(str(topic_partition))
        directory, future = found
        assert future.log_end_offset == present.log_end_offset
        try:
            _take_over(future, present)
        except OSError as error:
            directory.fail(error)
            raise LogOffline(str(topic_partition)) from error
        await directory.flush(future, future.log_end_offset)
        if source is directory:
            # They share an entry, and no segment of the new one need begin where one of the present log does.
            present.recovery_point = min(present.recovery_point, future.recovery_point_to_keep)
        else:
            _lower_first_dirty(topic_partition, directory, source)
        # With its entry: a crash from here on finds it as it is now.
        await directory.checkpoint_all()
        if source.is_offline or directory.is_offline or future.offline:
            raise LogOffline(str(topic_partition))
        source.detach(present, self._unique(), present.config.file_delete_delay_ms)
        try:
            # Before the other's: after a power cut there must not be two.
            self._disk.fsync_directory(source.path)
        except OSError as error:
            source.fail(error)
            raise LogOffline(str(topic_partition)) from error
        self._take_place(directory, future)
        await source.checkpoint_all()
        # A leader may have told more of how far all is committed, or begins, while the disk was waited for.
        try:
            _follow_marks(future, present)
        except OSError as error:
            directory.fail(error)
            raise LogOffline(str(topic_partition)) from error
        return future, directory

    def settle(self) -> None:
        """After a start: finish what a crash left between the renames; what gathers twice does so once. LogOffline.

        While a directory is offline nothing takes a place: the present log may lie there, and what waits for its
        removal may be left from an earlier move.
        """
        has_seen_all = not any(directory.is_offline for directory in self._directories)
        seen = {topic_partition for directory in self._directories for topic_partition in directory.logs}
        removed = {parse_partition_directory(name) for name in self._to_be_removed()}
        for directory in self._directories:
            for topic_partition, member in list(directory.futures.items()):
                if topic_partition in directory.logs or self.find(topic_partition) != (directory, member):
                    directory.detach(member, self._unique(), member.config.file_delete_delay_ms)
                elif has_seen_all and topic_partition in removed and topic_partition not in seen:
                    self._take_place(directory, member)

    def _to_be_removed(self) -> list[str]:
        return [
            removal.directory.rpartition("/")[2]
            for directory in self._directories
            for removal in directory.removals
            if removal.directory is not None
        ]

    def _take_place(self, directory: LogDirectory, future: Log) -> None:
        topic_partition = future.topic_partition
        path = f"{directory.path}/{partition_directory(topic_partition)}"
        try:
            self._disk.rename(future.directory, path)
            self._disk.fsync_directory(directory.path)
        except OSError as error:
            directory.fail(error)
            raise LogOffline(str(topic_partition)) from error
        for removal in directory.removals:
            if removal.segment is not None and removal.segment.directory == future.directory:
                removal.segment.directory = path
        future.move(path)
        del directory.futures[topic_partition]
        directory.logs[topic_partition] = future
        log.info("%s: lies in %s now", topic_partition, directory.path)

    def _unique(self) -> str:
        return f"{self._random.getrandbits(128):032x}"


def _lower_first_dirty(topic_partition: TopicPartition, directory: LogDirectory, source: LogDirectory) -> None:
    """What was cut off the present log since the new one began, and written anew, is not clean in either."""
    clean_until = source.first_dirty.get(topic_partition)
    if clean_until is None:
        directory.first_dirty.pop(topic_partition, None)
    elif topic_partition in directory.first_dirty:
        directory.first_dirty[topic_partition] = min(clean_until, directory.first_dirty[topic_partition])


def _take_over(future: Log, present: Log) -> None:
    """Beside the records: what the log knows of epochs, producers and how far it is committed."""
    future.config = present.config
    future.leader_epochs = LeaderEpochs.of_either(present.leader_epochs.entries, future.leader_epochs.entries)
    future.note_epochs_changed()
    future.producers = present.producers
    future.hidden_from = present.hidden_from
    _follow_marks(future, present)
    future.write_snapshot()


def _follow_marks(future: Log, present: Log) -> None:
    future.set_high_watermark(present.high_watermark)
    future.advance_log_start_offset(present.log_start_offset)
