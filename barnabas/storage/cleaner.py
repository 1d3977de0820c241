"""Compacts the logs of a broker (KIP-58, KIP-354): picks the one that needs it most, has it cleaned, and again.

The decisions are those of `cleaning.clean_plan`. The work is done by the broker's worker process, one log at a time: it
reads closed segments and writes `.cleaned` files; whenever a group of segments is finished, its result is put into
place (replacement.py) while the worker goes on. In the end the offset up to which the log is clean is noted in
`cleaner-offset-checkpoint`, and retention looks at the log, which it left alone meanwhile.

A log that is cut, deleted, moved or starts elsewhere meanwhile has another generation: what the worker still tells is
thrown away and the worker stopped. What is in place by then stays: it is as good as what it replaced. A cleaning that
fails for any other reason marks its log uncleanable until the broker starts again; where it failed in reading or
writing, the directory is lost as with any other failure.

Damage is the scrubber's to find and the mender's to mend: a log with any is left alone, as is one that is being mended.
A cleaning that comes upon it ends, has the scrubber look, and the log waits until it has changed, which a mended one
has. The scrubber may see nothing wrong, or be off: so it is also tried again after a while.

Owned by the event loop, one task.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from barnabas.protocol.ids import TopicPartition
from barnabas.runtime.clock import Clock
from barnabas.runtime.disk import OUT_OF_RESOURCES, Disk
from barnabas.runtime.offload import Offload
from barnabas.storage.cleaner_job import (
    CleanerSettings,
    choose_sources,
    describe_log,
    make_job,
    measure_sources,
)
from barnabas.storage.cleaner_report import (
    CLEANED,
    FAILED,
    GIVEN_UP,
    REPORT_FILE,
    RUNNING,
    CleanerRun,
    CorruptReport,
    decode_report,
    encode_report,
)
from barnabas.storage.cleaning.clean_job import (
    CleanedSegment,
    CleanJob,
    CleanProgress,
    CleanResult,
    CorruptSource,
)
from barnabas.storage.cleaning.clean_plan import CleanRange, decide_filthiest, decide_range, is_due
from barnabas.storage.cleaning.clean_run import clean
from barnabas.storage.directories import LogDirectories
from barnabas.storage.directory import LogDirectory
from barnabas.storage.file_names import CLEANER_CHECKPOINT, RECOVERY_POINT_CHECKPOINT
from barnabas.storage.index import CorruptIndex
from barnabas.storage.leftovers import remove_cleaned
from barnabas.storage.log import Log
from barnabas.storage.maintenance import sweep_log
from barnabas.storage.replacement import replace_segments
from barnabas.storage.scan import CorruptSegment

log = logging.getLogger(__name__)

_LOGS_AT_ONCE: Final = 100
_REPORT_INTERVAL_MS: Final = 5_000
_CLEANING: Final = "cleaning"
_SUSPECT_FOR_MS: Final = 10 * 60 * 1000


class LogChanged(Exception):
    """The log is not as it was when its cleaning began."""


class CleaningFailed(Exception):
    """The log cannot be cleaned, and it would be no different the next time."""


class SourceDamaged(Exception):
    """The log holds what cannot be read, in the segment at `offset` or after."""

    def __init__(self, problem: str, offset: int) -> None:
        super().__init__(problem)
        self.offset = offset


@dataclass(slots=True)
class CleanerFigures:
    """What the metrics show besides the runs. Ratios are 0 to 1; those of a run are of the last one that ended well."""

    runs: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    last_run_ms: int = 0
    recopied: float = 0.0
    map_filled: float = 0.0
    max_dirty_ratio: float = 0.0
    max_compaction_delay_ms: int = 0
    last_looked_ms: int = -1


@dataclass(slots=True, frozen=True)
class _Candidate:
    directory: LogDirectory
    member: Log
    range: CleanRange
    generation: int


@dataclass(slots=True, frozen=True)
class _Suspicion:
    """A log was found to be damaged when it had this generation; it is tried again then at the latest."""

    reason: str
    generation: int
    until_ms: int


class Cleaner:
    """See the module."""

    def __init__(
        self,
        directories: LogDirectories,
        *,
        disk: Disk,
        clock: Clock,
        offload: Offload,
        random: Random,
        settings: CleanerSettings,
    ) -> None:
        self._directories = directories
        self._disk = disk
        self._clock = clock
        self._offload = offload
        self._random = random
        self._settings = settings
        self._changed = asyncio.Event()
        self._uncleanable: dict[Log, str] = {}
        self._suspicions: dict[Log, _Suspicion] = {}
        self._told_ms = clock.monotonic_ms()
        self.runs: dict[TopicPartition, CleanerRun] = {}
        """The run under way or the last one, of each log that had any since the start."""
        self.figures = CleanerFigures()

    def configure(self, settings: CleanerSettings) -> None:
        """Go on with these settings; a run under way ends with those that it began with."""
        if settings != self._settings:
            self._settings = settings
            self._changed.set()

    async def run(self) -> None:
        """Clean until cancelled."""
        await self.recall()
        while True:
            self._changed.clear()
            if await self.clean_filthiest():
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._settings.backoff_ms / 1000):
                    await self._changed.wait()

    async def recall(self) -> None:
        """Go on with what the reports say of an earlier life."""
        for directory in self._directories.directories:
            path = f"{directory.path}/{REPORT_FILE}"
            try:
                report = await self._offload.thread(f"flush:{directory.path}", self._disk.read_bytes, path)
                runs = decode_report(report)
            except FileNotFoundError:
                continue
            except (OSError, CorruptReport) as error:
                log.warning("%s: goes unused: %s", path, error)
                continue
            for run in runs:
                if run.topic_partition in directory.logs:
                    self.runs[run.topic_partition] = (
                        run.ended(GIVEN_UP, now_ms=run.started_ms, reason="the broker ended")
                        if run.state == RUNNING
                        else run
                    )
            await self._tell(directory)

    async def clean_filthiest(self) -> bool:
        """Clean the log that needs it most; False when none does, or that one has to wait."""
        due = await self._due()
        chosen = decide_filthiest((candidate, candidate.range) for candidate in due)
        # Much may have been found, or have changed, while the others were looked at.
        if chosen is None or chosen.member.offline or self._has_to_wait(chosen.directory, chosen.member):
            return False
        if chosen.member.generation != chosen.generation:
            return False
        return await self._clean(chosen)

    def uncleanable(self) -> Iterator[tuple[LogDirectory, Log, str]]:
        """The logs that are not cleaned any more, or only once they are mended, where they lie, and why."""
        for directory in self._directories.directories:
            for member in directory.logs.values():
                if member in self._uncleanable:
                    yield directory, member, self._uncleanable[member]
                elif member in self._suspicions:
                    yield directory, member, self._suspicions[member].reason

    # Choosing

    async def _due(self) -> list[_Candidate]:
        """The logs that are to be cleaned. What is gone is forgotten."""
        members = [
            (directory, member)
            for directory in self._directories.directories
            if not directory.is_offline
            for member in directory.logs.values()
        ]
        here = {member.topic_partition: member for _, member in members}
        self._uncleanable = {
            member: why for member, why in self._uncleanable.items() if here.get(member.topic_partition) is member
        }
        self._suspicions = {
            member: found for member, found in self._suspicions.items() if here.get(member.topic_partition) is member
        }
        self.runs = {topic_partition: run for topic_partition, run in self.runs.items() if topic_partition in here}
        due: list[_Candidate] = []
        max_ratio, max_delay_ms = 0.0, 0
        for number, (directory, member) in enumerate(members):
            if number % _LOGS_AT_ONCE == _LOGS_AT_ONCE - 1:
                await asyncio.sleep(0)
            if not member.config.compact or member.offline or self._has_to_wait(directory, member):
                continue
            found = self._range_of(directory, member)
            if found is None or not found.cleanable_bytes:
                continue
            max_ratio = max(max_ratio, found.dirty_ratio)
            max_delay_ms = max(max_delay_ms, found.compaction_delay_ms)
            if is_due(found, min_cleanable_dirty_ratio=member.config.min_cleanable_dirty_ratio):
                due.append(_Candidate(directory, member, found, member.generation))
        self.figures.max_dirty_ratio, self.figures.max_compaction_delay_ms = max_ratio, max_delay_ms
        self.figures.last_looked_ms = self._clock.wall_ms()
        return due

    def _has_to_wait(self, directory: LogDirectory, member: Log) -> bool:
        is_ailing = member.damage or member.hidden_from is not None
        if member in self._uncleanable or is_ailing or directory.mending is member:
            return True
        found = self._suspicions.get(member)
        if found is not None and found.generation == member.generation:
            return self._clock.monotonic_ms() < found.until_ms
        self._suspicions.pop(member, None)
        return False

    def _range_of(self, directory: LogDirectory, member: Log) -> CleanRange | None:
        """The part of the log that is dirty. A log that cannot be read is marked."""
        try:
            facts = describe_log(member, checkpoint=directory.first_dirty.get(member.topic_partition))
        except CorruptSegment as error:
            self._suspect(directory, member, str(error), member.log_start_offset)
            return None
        except OSError as error:
            _fail(directory, error)
            return None
        found = decide_range(facts, now_ms=self._clock.wall_ms())
        if found.checkpoint_was_reset:
            # Where retention takes the oldest records it passes the checkpoint as a matter of course.
            log.log(
                logging.DEBUG if member.config.delete else logging.WARNING,
                "%s: its cleaning begins again at its start %d: the checkpoint %s is not in the log, which ends at %d",
                member.topic_partition,
                found.first_dirty_offset,
                facts.checkpoint,
                member.log_end_offset,
            )
            directory.first_dirty[member.topic_partition] = found.first_dirty_offset
        return found

    # Cleaning

    async def _clean(self, chosen: _Candidate) -> bool:
        """Clean one log; False when it has to wait."""
        directory, member = chosen.directory, chosen.member
        run = self.runs[member.topic_partition] = CleanerRun(
            *member.topic_partition,
            RUNNING,
            self._clock.wall_ms(),
            total_bytes=chosen.range.cleanable_bytes + chosen.range.total_bytes,
            dirty_ratio=chosen.range.dirty_ratio,
            first_dirty_offset=chosen.range.first_dirty_offset,
        )
        directory.cleaning = member
        state, reason = GIVEN_UP, "the broker stops"
        try:
            result = await self._work(chosen)
            self._note_result(member.topic_partition, result)
            state, reason = CLEANED, ""
        except LogChanged:
            reason = "the log has changed"
            log.info("%s: its cleaning is given up: %s", member.topic_partition, reason)
        except OSError as error:
            state, reason = FAILED, str(error)
            log.warning("%s: cannot be cleaned now: %s", member.topic_partition, error)
            _fail(directory, error)
        except SourceDamaged as error:
            state, reason = FAILED, str(error)
            self._suspect(directory, member, reason, error.offset)
        except CorruptIndex as error:
            state, reason = FAILED, str(error)
            self._suspect(directory, member, reason, member.log_start_offset)
        except CleaningFailed as error:
            state, reason = FAILED, str(error)
            self._mark(member, reason)
        finally:
            directory.cleaning = None
            self.runs[member.topic_partition] = self.runs.get(member.topic_partition, run).ended(
                state, now_ms=self._clock.wall_ms(), reason=reason
            )
        if state != CLEANED and not member.offline:
            await self._tidy(directory, member)
        sweep_log(directory, member, self._clock.wall_ms())
        await self._tell(directory)
        return state == CLEANED

    async def _work(self, chosen: _Candidate) -> CleanResult:
        """Have the log cleaned and put the result into place. Raises LogChanged and whatever the worker raises."""
        try:
            return await self._clean_whole(chosen, chosen.generation)
        except OSError:
            # What was deleted or moved meanwhile is not found any more.
            _require_unchanged(chosen.member, chosen.generation)
            raise

    async def _clean_whole(self, chosen: _Candidate, generation: int) -> CleanResult:
        directory, member = chosen.directory, chosen.member
        # The sources are below the recovery point. A start must know: what is above it, it takes for damage.
        await directory.checkpoint(RECOVERY_POINT_CHECKPOINT)
        sources = await self._offload.thread(
            f"flush:{directory.path}",
            measure_sources,
            self._disk,
            member.directory,
            choose_sources(member, chosen.range),
        )
        _require_unchanged(member, generation)
        job = make_job(member, chosen.range, sources, self._settings, hash_key=self._random.randbytes(32))
        result = await self._run_worker(directory, member, job, generation)
        _require_unchanged(member, generation)
        if result.first_dirty_offset <= job.first_dirty_offset:
            raise CleaningFailed(f"nothing from offset {job.first_dirty_offset} on fits into the map of keys")
        directory.first_dirty[member.topic_partition] = result.first_dirty_offset
        await directory.checkpoint(CLEANER_CHECKPOINT)
        return result

    async def _run_worker(self, directory: LogDirectory, member: Log, job: CleanJob, generation: int) -> CleanResult:
        """The worker beside the replacement of what it has finished."""
        told: asyncio.Queue[CleanedSegment | CleanProgress | None] = asyncio.Queue()

        def on_report(report: CleanProgress | CleanedSegment) -> None:
            if isinstance(report, CleanedSegment) or self._note_progress(member.topic_partition, report):
                told.put_nowait(report)
            if member.generation != generation:
                told.put_nowait(None)

        worker = asyncio.ensure_future(self._offload.steps(on_report, clean, self._disk, self._clock, job))
        worker.add_done_callback(lambda _: told.put_nowait(None))
        try:
            while (report := await told.get()) is not None:
                if isinstance(report, CleanProgress):
                    await self._tell(directory)
                else:
                    await self._put_in_place(directory, member, report, generation)
            _require_unchanged(member, generation)
            return worker.result()
        except (OSError, LogChanged, asyncio.CancelledError):
            raise
        except (CorruptSource, CorruptSegment) as error:
            _require_unchanged(member, generation)
            offset = error.base_offset if isinstance(error, CorruptSource) else member.log_start_offset
            raise SourceDamaged(str(error), offset) from error
        except Exception as error:
            raise CleaningFailed(f"{type(error).__name__}: {error}") from error
        finally:
            if not worker.done():
                worker.cancel()
                await asyncio.wait([worker])
            if not worker.cancelled():
                # Where the log has changed it does not matter how the worker ended.
                worker.exception()

    async def _put_in_place(
        self, directory: LogDirectory, member: Log, cleaned: CleanedSegment, generation: int
    ) -> None:
        if not await replace_segments(directory, member, cleaned, generation=generation, offload=self._offload):
            raise LogChanged

    # Telling

    def _mark(self, member: Log, reason: str) -> None:
        self._uncleanable[member] = reason
        log.error("%s: is not cleaned any more until the broker starts again: %s", member.topic_partition, reason)

    def _suspect(self, directory: LogDirectory, member: Log, reason: str, offset: int) -> None:
        until_ms = self._clock.monotonic_ms() + _SUSPECT_FOR_MS
        self._suspicions[member] = _Suspicion(reason, member.generation, until_ms)
        directory.suspect(member, offset)
        log.error("%s: is not cleaned until it is mended: %s", member.topic_partition, reason)

    def _note_progress(self, topic_partition: TopicPartition, progress: CleanProgress) -> bool:
        """Whether it is time to tell of it."""
        run = self.runs.get(topic_partition)
        if run is None:
            return False
        mapped = run.total_bytes - progress.total_bytes if progress.phase == _CLEANING else 0
        self.runs[topic_partition] = replace(run, phase=progress.phase, done_bytes=mapped + progress.done_bytes)
        return self._clock.monotonic_ms() - self._told_ms >= _REPORT_INTERVAL_MS

    def _note_result(self, topic_partition: TopicPartition, result: CleanResult) -> None:
        run, figures = self.runs[topic_partition], self.figures
        now_ms = self._clock.wall_ms()
        self.runs[topic_partition] = run = replace(
            run,
            done_bytes=run.total_bytes,
            first_dirty_offset=result.first_dirty_offset,
            bytes_read=result.bytes_read,
            bytes_written=result.bytes_written,
            records_read=result.records_read,
            records_kept=result.records_kept,
            map_entries=result.map_entries,
            map_capacity=result.map_capacity,
            memory_bytes=result.memory_bytes,
        )
        figures.runs += 1
        figures.bytes_read += result.bytes_read
        figures.bytes_written += result.bytes_written
        figures.last_run_ms = now_ms - run.started_ms
        figures.recopied = result.bytes_written / result.bytes_read if result.bytes_read else 0.0
        figures.map_filled = result.map_entries / result.map_capacity if result.map_capacity else 0.0
        log.info(
            "%s: cleaned up to offset %d in %d ms: read %d bytes and %d records, kept %d bytes and %d records",
            topic_partition,
            result.first_dirty_offset,
            figures.last_run_ms,
            result.bytes_read,
            result.records_read,
            result.bytes_written,
            result.records_kept,
        )

    async def _tell(self, directory: LogDirectory) -> None:
        """Write the report of the directory's logs. Nothing depends on it: a failure costs only the report."""
        self._told_ms = self._clock.monotonic_ms()
        if directory.is_offline:
            return
        report = encode_report(self.runs[tp] for tp in directory.logs if tp in self.runs)
        try:
            await self._offload.thread(
                f"flush:{directory.path}", self._disk.write_durably, f"{directory.path}/{REPORT_FILE}", report
            )
        except OSError as error:
            log.warning("%s/%s: cannot be written: %s", directory.path, REPORT_FILE, error)

    async def _tidy(self, directory: LogDirectory, member: Log) -> None:
        """Remove what the worker has left over."""
        try:
            await self._offload.thread(f"flush:{directory.path}", remove_cleaned, self._disk, member.directory)
        except FileNotFoundError:
            return
        except OSError as error:
            _fail(directory, error)


def _require_unchanged(member: Log, generation: int) -> None:
    if member.offline or member.generation != generation:
        raise LogChanged


def _fail(directory: LogDirectory, error: OSError) -> None:
    if error.errno not in OUT_OF_RESOURCES:
        directory.fail(error)
