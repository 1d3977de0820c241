"""One log directory: an entry of `log.dirs`, which lives and fails as a whole.

It writes and syncs for its logs. A write goes inline while the recent ones were quick, else through the directory's
writer thread; who waits for a sync shares it with all who came before it began. The first failed write, sync, rename
or creation takes the directory offline for good: nothing is retried, because a later fsync may report success for bytes
that are gone; its logs refuse everything, and `on_failure` hears of it once.

Owned by the event loop. Long work runs in two lanes of threads, `write:<path>` and `flush:<path>`.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from barnabas.protocol.ids import TopicPartition
from barnabas.runtime.clock import Clock
from barnabas.runtime.disk import Disk, FileLock
from barnabas.runtime.offload import Offload
from barnabas.runtime.tasks import uncancelled
from barnabas.storage.append import PreparedAppend
from barnabas.storage.boot_record import BOOT_RECORD, BootRecord, vouches_for
from barnabas.storage.checkpoints import CorruptCheckpoint, decode_offsets, encode_offsets
from barnabas.storage.file_names import (
    CHECKPOINTS,
    CLEAN_SHUTDOWN_MARKER,
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
    deleted_directory,
)
from barnabas.storage.log import Log, LogOffline
from barnabas.storage.meta_properties import MetaProperties
from barnabas.storage.removal import Removal
from barnabas.storage.scrub_record import ScrubRecord
from barnabas.storage.segment import Segment
from barnabas.storage.truncation import cut_offset
from barnabas.storage.unsynced_mark import forget_unsynced, sync_or_mark
from barnabas.storage.write_pace import WritePace

log = logging.getLogger(__name__)

_PINNED_RETRY_MS: Final = 1_000
_CLOSING_LANES: Final = 8

FailureCallback = Callable[[str, OSError], None]


class LogDirectory:
    """The logs of one directory, and what they ask of the disk."""

    def __init__(self, path: str, *, disk: Disk, clock: Clock, offload: Offload, on_failure: FailureCallback) -> None:
        self.path = path
        self.logs: dict[TopicPartition, Log] = {}
        self.futures: dict[TopicPartition, Log] = {}
        """Logs that gather here and take the place of those in other directories when they are whole."""
        self.failure: OSError | None = None
        self.is_loaded = False
        self.was_clean = self.was_unsynced = False
        """Whether the clean-shutdown marker was there when the logs were loaded; whether a sync had failed before."""
        self.meta: MetaProperties | None = None
        self.lock: FileLock | None = None
        self.wake = asyncio.Event()
        self.removals: list[Removal] = []
        self.flush_requests: dict[Log, int] = {}
        self.suspects: dict[Log, int] = {}
        """Logs of which something could not be read, and at which offset: the scrubber looks there next."""
        self.scrub_record = ScrubRecord()
        self.first_dirty: dict[TopicPartition, int] = {}
        """Up to where the cleaner has seen a log."""
        self.cleaning: Log | None = None
        self.mending: Log | None = None
        """The logs that the cleaner and the mender are at, never the same; retention leaves the cleaner's alone."""
        self.replacing: dict[Log, asyncio.Event] = {}
        """Logs between the steps of a replacement (replacement.py): nothing is cut until they are done."""
        self._disk = disk
        self._clock = clock
        self._offload = offload
        self._on_failure = on_failure
        self.writes_inline = True
        """Whether recent writes were quick enough for the next to be done on the loop."""
        self.pace = WritePace(clock)
        self._flushing: dict[Log, asyncio.Task[None]] = {}
        self._keeping_starts: asyncio.Task[None] | None = None
        self._written: dict[str, dict[TopicPartition, int]] = {}
        self.stale: set[TopicPartition] = set()
        """Partitions that are here no more, and of which the checkpoint files may speak."""
        # Held while a checkpoint file is written: a log may be made while a thread writes one.
        self._checkpoint_lock = threading.Lock()

    @property
    def is_offline(self) -> bool:
        return self.failure is not None

    def members(self) -> list[tuple[TopicPartition, Log]]:
        """All logs here, those that gather first: where both are here, the last one counts."""
        return [*self.futures.items(), *self.logs.items()]

    def fail(self, error: OSError) -> None:
        """Take the directory offline for good."""
        if self.failure is not None:
            return
        self.failure = error
        log.error("%s: the log directory is offline for good, with %d logs: %s", self.path, len(self.logs), error)
        for _, member in self.members():
            member.offline = True
        self.wake.set()
        self._on_failure(self.path, error)

    # Writing

    def try_write_inline(self, prepared: PreparedAppend) -> bool:
        """Write at once if recent writes were quick; False when `write_in_thread` is to do it. Raises LogOffline."""
        if not self.writes_inline:
            return False
        if self.failure is not None or prepared.log.offline:
            raise LogOffline(self.path)
        self.pace.begin()
        try:
            prepared.write()
        except OSError as error:
            self.fail(error)
            raise LogOffline(self.path) from error
        self.writes_inline = self.pace.end()
        return True

    async def write_in_thread(self, prepared: PreparedAppend) -> None:
        """Write in the directory's writer thread, in the order of the calls. Raises LogOffline.

        Who is cancelled meanwhile is so when the write has ended; the append is abandoned then.
        """
        self._check(prepared)
        segment = prepared.log.segments.active
        segment.pin()
        self.writes_inline = False
        write = self._offload.thread(f"write:{self.path}", _timed_write, prepared, self._clock)
        try:
            self.pace.note_in_thread(await uncancelled(write))
        except OSError as error:
            self.fail(error)
            raise LogOffline(self.path) from error
        except asyncio.CancelledError:
            prepared.log.abandon(prepared)
            raise
        finally:
            self.writes_inline = self.pace.is_quick
            segment.unpin()
        # The directory may have failed elsewhere meanwhile: then this must not be acknowledged either.
        self._check(prepared)

    def _check(self, prepared: PreparedAppend) -> None:
        if self.failure is not None or prepared.log.offline:
            raise LogOffline(self.path)

    # Flushing

    async def flush(self, member: Log, up_to: int, *, whole: bool = True) -> None:
        """Return once all of the log below `up_to` (and below its end) survives a power cut. Raises LogOffline.

        With `whole` what was appended meanwhile is synced too, so that others who wait need no sync of their own.
        """
        while not member.is_flushed(up_to):
            if member.offline or self.failure is not None:
                raise LogOffline(str(member.topic_partition))
            running = self._flushing.get(member) or self._begin_flush(member, None if whole else up_to)
            # Waiting does not cancel what is waited for: others wait for it too, and a thread cannot be called back.
            await asyncio.wait([running])
            running.result()

    def _begin_flush(
        self, member: Log, up_to: int | None, *, lane: str = "flush", closing: bool = False
    ) -> "asyncio.Task[None]":
        flush = self._flush_now(member, up_to, lane=f"{lane}:{self.path}", closing=closing)
        task = self._flushing[member] = asyncio.get_running_loop().create_task(flush)
        return task

    async def _flush_now(self, member: Log, up_to: int | None, *, lane: str, closing: bool) -> None:
        """Flush the log; it is offline afterwards if that failed."""
        succeeded = False
        try:
            flush = member.plan_flush(up_to, closing=closing)
            try:
                if not flush.is_empty:
                    await self._offload.thread(lane, sync_or_mark, flush.sync, self._disk, self.path)
                succeeded = True
            finally:
                member.finish_flush(flush, succeeded=succeeded)
        except OSError as error:
            # A partition that is deleted meanwhile takes its directory along.
            if any(member is kept for _, kept in self.members()) or not isinstance(error, FileNotFoundError):
                self.fail(error)
        finally:
            del self._flushing[member]

    def flush_soon(self, log: Log, up_to: int) -> None:
        """See LogOwner; the maintenance task carries it out."""
        self.flush_requests[log] = max(up_to, self.flush_requests.get(log, 0))
        self.wake.set()

    def suspect(self, log: Log, offset: int) -> None:
        """See LogOwner. What is known to be damaged needs no second look."""
        if not log.damage.holds(offset):
            self.suspects.setdefault(log, offset)

    async def carry_out_flushes(self) -> None:
        """Flush what `flush_soon` was asked for."""
        while self.flush_requests and self.failure is None:
            member = next(iter(self.flush_requests))
            up_to = self.flush_requests.pop(member)
            if not member.offline:
                try:
                    await self.flush(member, up_to, whole=False)
                except LogOffline:
                    continue

    def lower_recovery_point(self, member: Log, offset: int) -> None:
        """Before a truncation; see Log. Raises LogOffline or CorruptSegment."""
        try:
            member.lower_recovery_point(offset)
        except OSError as error:
            self.fail(error)
            raise LogOffline(str(member.topic_partition)) from error
        seen = self.first_dirty.get(member.topic_partition)
        if seen is not None:
            self.first_dirty[member.topic_partition] = min(seen, cut_offset(member, offset))

    async def settled(self, member: Log) -> None:
        """Return when no replacement of the log's segments is under way."""
        while (done := self.replacing.get(member)) is not None:
            await done.wait()

    async def truncate(self, member: Log, offset: int) -> None:
        """Cut the log and sync the cut. Raises LogOffline or CorruptSegment.

        The recovery point on disk must not be above `offset` any more.
        """
        await self._cut(member, member.truncate_to, offset)

    async def restart(self, member: Log, offset: int) -> None:
        """Drop all records, begin again at `offset` and sync that; else as `truncate`. Raises LogOffline."""
        await self._cut(member, member.truncate_fully_and_start_at, offset)
        member.durable_start_offset = member.log_start_offset

    async def _cut(self, member: Log, cut: Callable[[int], object], offset: int) -> None:
        await self.settled(member)
        start_offset = member.log_start_offset
        try:
            cut(offset)
        except OSError as error:
            self.fail(error)
            raise LogOffline(str(member.topic_partition)) from error
        await self.flush(member, offset)
        if member.log_start_offset < start_offset:
            # Before anything is appended below the start that the checkpoint says.
            await self._checkpoint(LOG_START_OFFSET_CHECKPOINT)

    # Removal

    def remove_later(self, segments: Sequence[Segment], delay_ms: int) -> None:
        """See LogOwner."""
        due_ms = self._clock.monotonic_ms() + delay_ms
        self.removals += [Removal(due_ms, segment=segment) for segment in segments]

    def remove_directory_later(self, directory: str, delay_ms: int, member: Log | None = None) -> None:
        """Remove the directory of a deleted partition after the delay and after the last slice of its log."""
        self.removals.append(Removal(self._clock.monotonic_ms() + delay_ms, directory=directory, log=member))

    async def carry_out_removals(self) -> None:
        """Remove what is due and not in use."""
        now_ms = self._clock.monotonic_ms()
        due = [removal for removal in self.removals if removal.due_ms <= now_ms]
        if not due:
            return
        self.removals = [removal for removal in self.removals if removal.due_ms > now_ms]
        for removal in due:
            if removal.is_pinned:
                removal.due_ms = now_ms + _PINNED_RETRY_MS
                self.removals.append(removal)
                continue
            try:
                if removal.segment is not None:
                    removal.segment.close()
                    await self._offload.thread(f"flush:{self.path}", removal.segment.remove_files)
                else:
                    assert removal.directory is not None
                    await self._offload.thread(f"flush:{self.path}", self._disk.remove_tree, removal.directory)
            except OSError as error:
                self.fail(error)
                return
            # What takes a segment out of its log told so; each cleaning of one gives its files the same name again.
            log.log(logging.DEBUG if removal.segment else logging.INFO, "%s: removed %s", self.path, removal.path)

    def detach(self, member: Log, unique: str, delay_ms: int) -> None:
        """Rename the log's directory, so that the partition is gone, and have it removed later. Raises LogOffline."""
        held = self.logs if self.logs.get(member.topic_partition) is member else self.futures
        del held[member.topic_partition]
        self.flush_requests.pop(member, None)
        if held is self.logs or member.topic_partition not in self.logs:
            self.first_dirty.pop(member.topic_partition, None)
        self.stale.add(member.topic_partition)
        member.release()
        renamed = f"{self.path}/{deleted_directory(member.topic_partition, unique)}"
        try:
            self._disk.rename(member.directory, renamed)
        except OSError as error:
            self.fail(error)
            raise LogOffline(self.path) from error
        member.move(renamed)
        self.remove_directory_later(renamed, delay_ms, member)
        log.info("%s: deleted, renamed to %s", member.topic_partition, renamed)
        self.wake.set()

    # Checkpoints

    def read_checkpoint(self, name: str) -> dict[TopicPartition, int]:
        """The offsets of a checkpoint file; none where it is missing, corrupt or (Kafka) empty. Raises OSError."""
        try:
            data = self._disk.read_bytes(f"{self.path}/{name}")
            return decode_offsets(data) if data else {}
        except FileNotFoundError:
            pass
        except CorruptCheckpoint as error:
            log.warning("%s/%s: goes unused, as if it had no entry: %s", self.path, name, error)
        return {}

    def offsets_to_checkpoint(self, name: str) -> dict[TopicPartition, int]:
        """What the checkpoint file of that name should say now."""
        if name == RECOVERY_POINT_CHECKPOINT:
            return {tp: member.recovery_point_to_keep for tp, member in self.members()}
        if name == HIGH_WATERMARK_CHECKPOINT:
            return {tp: member.high_watermark for tp, member in self.members()}
        if name == CLEANER_CHECKPOINT:
            return {tp: self.first_dirty[tp] for tp, _ in self.members() if tp in self.first_dirty}
        assert name == LOG_START_OFFSET_CHECKPOINT
        # Also where the first segment begins there: the removal of those before it is not synced.
        return {tp: member.log_start_offset for tp, member in self.members() if member.log_start_offset}

    async def checkpoint(self, *names: str) -> None:
        """Write these checkpoint files where they changed. Failure takes the directory offline."""
        for name in names:
            if self._written.get(name) != self.offsets_to_checkpoint(name):
                await self._checkpoint(name)

    async def _checkpoint(self, name: str) -> None:
        if self.failure is not None:
            return
        members, offsets = self.members(), self.offsets_to_checkpoint(name)
        # Who asks meanwhile for what it said before must write it again.
        self._written.pop(name, None)
        try:
            await self._offload.thread(f"flush:{self.path}", self.write_checkpoint, name, offsets)
            if name == RECOVERY_POINT_CHECKPOINT:
                for _, member in self.members():
                    if not member.offline:
                        member.remove_old_snapshots()
        except OSError as error:
            self.fail(error)
            return
        if name == LOG_START_OFFSET_CHECKPOINT:
            for tp, member in members:
                member.durable_start_offset = min(offsets.get(tp, 0), member.log_start_offset)

    async def keep_start(self, member: Log) -> None:
        """Return once the log's start, as it is now, outlives a power cut. All who wait share a write. LogOffline."""
        start_offset = member.log_start_offset
        while member.durable_start_offset < min(start_offset, member.log_start_offset):
            if member.offline or self.failure is not None:
                raise LogOffline(str(member.topic_partition))
            running = self._keeping_starts
            if running is None:
                running = self._keeping_starts = asyncio.get_running_loop().create_task(self._keep_starts())
            await asyncio.wait([running])
            running.result()

    async def _keep_starts(self) -> None:
        try:
            await self._checkpoint(LOG_START_OFFSET_CHECKPOINT)
        finally:
            self._keeping_starts = None

    async def checkpoint_all(self) -> None:
        """Write all checkpoint files; deleted partitions are forgotten."""
        stale = set(self.stale)
        await self.checkpoint(*CHECKPOINTS)
        self.stale -= stale

    def forget_stale(self, topic_partition: TopicPartition) -> None:
        """Before a partition is made again: let no checkpoint speak of its former life. Raises OSError."""
        if topic_partition not in self.stale:
            return
        for name in CHECKPOINTS:
            self.write_checkpoint(name, self.offsets_to_checkpoint(name))
        self.stale.discard(topic_partition)

    def write_checkpoint(self, name: str, offsets: dict[TopicPartition, int]) -> None:
        """Write a checkpoint file durably; may run in a thread. Raises OSError."""
        with self._checkpoint_lock:
            data = encode_offsets(offsets, says_whose=name == RECOVERY_POINT_CHECKPOINT)
            self._disk.write_durably(f"{self.path}/{name}", data)
            self._written[name] = offsets

    # The end

    async def close(self) -> None:
        """Flush and close all logs, write the checkpoints, then the marker that says so. A failure leaves no marker."""
        if self.is_loaded:
            # Side by side: the device syncs several at once, and many logs would keep the stop waiting for minutes.
            waiting = iter([member for _, member in self.members()])
            await asyncio.gather(*(self._close_logs(waiting, lane) for lane in range(_CLOSING_LANES)))
            await self.checkpoint_all()
            await self._mark_clean()
        for _, member in self.members():
            member.release()
        if self.lock is not None:
            self.lock.release()

    async def _close_logs(self, waiting: Iterator[Log], lane: int) -> None:
        for member in waiting:
            if self.failure is None:
                await self._close_log(member, lane)

    async def _close_log(self, member: Log, lane: int) -> None:
        await self.settled(member)
        while (running := self._flushing.get(member)) is not None:
            await asyncio.wait([running])
        try:
            member.write_snapshot()
        except OSError as error:
            self.fail(error)
            return
        await self._begin_flush(member, None, lane=f"close {lane}", closing=True)

    async def _mark_clean(self) -> None:
        if self.failure is not None:
            return
        try:
            marker = f"{self.path}/{CLEAN_SHUTDOWN_MARKER}"
            await self._offload.thread(f"flush:{self.path}", self._disk.write_durably, marker, b"")
        except OSError as error:
            self.fail(error)

    def has_survived(self, boot_id: str) -> bool:
        """Whether all that was written here before is still here, as far as `boot_id` tells."""
        if self.failure is not None or self.was_unsynced:
            return False
        try:
            return vouches_for(self._disk, self.path, boot_id, was_clean=self.was_clean)
        except OSError as error:
            self.fail(error)
            return False

    def write_boot_record(self, record: BootRecord) -> None:
        """Say durably on which start of the machine this broker runs. Failure takes the directory offline."""
        if self.failure is None and self._write_durably(BOOT_RECORD, record.encode()) and self.was_unsynced:
            self.was_unsynced = False
            forget_unsynced(self._disk, self.path)

    def write_meta(self, meta: MetaProperties) -> None:
        """Say durably whose directory this is. Failure takes the directory offline."""
        if self.failure is None and self.meta != meta and self._write_durably(META_PROPERTIES, meta.encode()):
            self.meta = meta

    def _write_durably(self, name: str, data: bytes) -> bool:
        try:
            self._disk.write_durably(f"{self.path}/{name}", data)
        except OSError as error:
            self.fail(error)
        return self.failure is None


def _timed_write(prepared: PreparedAppend, clock: Clock) -> int:
    started_us = clock.monotonic_us()
    prepared.write()
    return clock.monotonic_us() - started_us
