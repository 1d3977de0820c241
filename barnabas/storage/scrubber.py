"""Checks all that a broker has on disk, again and again, at a bounded rate.

One task per broker. It goes through the logs of a directory in the order of their names, segment by segment up to what
is published, a piece at a time, directories in turn; each piece is read in a thread of its own (`scrub:<path>`), so
that no write or flush stands behind it, and the pages that it brought into memory are let go. Where a pass is, and
what is damaged, stands in `barnabas.scrub` of the directory, so that a restart goes on where the last life was. A place
that somebody could not read is looked at at once: from there on, until damage is found or the segment ends; so it is
where nothing else is checked (a rate of 0). Such a place, like the one where a pass goes on, is one that an index
names: where the first batch there is not good, the segment is checked from its beginning, for no batch may begin there
at all.

A piece was read while the loop went on: its result counts only if the segment still is the log's and nothing was cut or
taken away meanwhile (`Log.generation`). What is damaged is noted in `Log.damage`; from then on it is not served, and
`on_damage` hears of it, once for each range. Mending is not done here: a follower asks its leader
(`replication.mending`).

An index of aborted transactions that cannot be read is built again (`aborted_rebuilding`), and so are the others where
a reader found that they lie (`index_rebuilding`).

Left out: indexes that nobody reads, and what lies below the log's start.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from barnabas.protocol.ids import TopicPartition
from barnabas.runtime.clock import Clock
from barnabas.runtime.disk import Disk
from barnabas.runtime.files import File
from barnabas.runtime.offload import Offload
from barnabas.storage.aborted_rebuilding import lacks_aborted, rebuild_aborted
from barnabas.storage.damage import DamagedRange
from barnabas.storage.directories import LogDirectories
from barnabas.storage.directory import LogDirectory
from barnabas.storage.file_names import LOG_SUFFIX, TXN_INDEX_SUFFIX
from barnabas.storage.gaps import may_have_gaps
from barnabas.storage.index import CorruptIndex
from barnabas.storage.index_rebuilding import rebuild_indexes
from barnabas.storage.known_damage import known_damage
from barnabas.storage.log import Log
from barnabas.storage.scan import CorruptSegment
from barnabas.storage.scrub_record import SCRUB_RECORD, ScrubRecord
from barnabas.storage.scrub_scan import Extent, Place, ScrubPiece, check_piece
from barnabas.storage.segment import Segment

log = logging.getLogger(__name__)

PIECE_BYTES: Final = 256 * 1024
"""Read at once."""
PIECE_BATCHES: Final = 400
"""Looked at at once: each holds up the loop as long as it takes."""
_RECORD_EACH_MS: Final = 30_000
_IDLE_MS: Final = 1_000
_MOST_SUSPECTS: Final = 1_000
_SUSPECTS_BYTES_PER_SECOND: Final = 4 * 1024 * 1024
"""At which rate places are looked at that somebody could not read, where nothing else is checked."""
_CLEARED_FOR_MS: Final = 10 * 60_000
"""How long a place where nothing was found is not looked at again: who cannot read there must not hold up the pass."""
_LEAST_COST_BYTES: Final = 16 * 1024
"""What a piece counts for at least, so that thousands of small logs are no burst."""


@dataclass(slots=True)
class ScrubSettings:
    """`barnabas.scrub.bytes.per.second` (0: no passes) and `barnabas.scrub.interval.ms`, between their beginnings."""

    bytes_per_second: int = 4 * 1024 * 1024
    interval_ms: int = 24 * 3600 * 1000


@dataclass(slots=True)
class ScrubCount:
    """What was done since the broker started."""

    checked_bytes: int = 0
    passes: int = 0
    found: int = 0
    mended: int = 0


@dataclass(slots=True, frozen=True)
class _GoodRun:
    """Bytes of a segment that were checked one piece after the other, and are good."""

    segment: Segment
    generation: int
    position: int
    end_position: int


@dataclass(slots=True)
class _Course:
    """Where the scrubber is in one directory. `place` is in `segment` of `current`.

    `suspected` is the offset that is looked at out of turn, None in the pass. `is_unsure` says that only an index names
    the place.
    """

    record: ScrubRecord
    current: TopicPartition | None = None
    suspected: int | None = None
    is_unsure: bool = False
    segment: Segment | None = None
    looked_up: Segment | None = None
    """The segment whose aborted transactions are known to be readable, or were tried to be made so."""
    place: Place | None = None
    ahead: list[TopicPartition] = field(default_factory=list)
    """The logs that come next in the pass, the nearest last: among thousands each step would look for it again."""
    run: _GoodRun | None = None
    written: bytes = b""
    written_ms: int = 0
    suspects: dict[tuple[TopicPartition, int], None] = field(default_factory=dict)
    cleared: dict[tuple[TopicPartition, int], int] = field(default_factory=dict)
    """Where nothing was found, and when it may be looked at again."""


class Scrubber:
    """See the module. `run` is its task."""

    def __init__(
        self,
        directories: LogDirectories,
        *,
        disk: Disk,
        clock: Clock,
        offload: Offload,
        settings: ScrubSettings,
        on_damage: Callable[[Log], None],
    ) -> None:
        self.settings = settings
        self.count = ScrubCount()
        self._directories = directories
        self._disk = disk
        self._clock = clock
        self._offload = offload
        self._on_damage = on_damage
        self._courses: dict[LogDirectory, _Course] = {}

    async def run(self) -> None:
        """Scrub until cancelled."""
        self.recall()
        while True:
            cost_bytes = 0
            for directory in self._directories.directories:
                if not directory.is_offline:
                    cost_bytes += await self.step(directory)
            rate = self.settings.bytes_per_second or _SUSPECTS_BYTES_PER_SECOND
            await asyncio.sleep(cost_bytes / rate if cost_bytes else _IDLE_MS / 1000)

    def damaged(self) -> list[Log]:
        """The logs that have known damage."""
        return [member for member in self._directories.logs() if member.damage]

    def ailing(self) -> list[Log]:
        """The logs that have known damage, or do not know yet what damage hid that is mended."""
        return [member for member in self._directories.logs() if member.damage or member.hidden_from is not None]

    def damaged_ranges(self) -> int:
        return sum(len(member.damage) for member in self._directories.logs())

    async def note_mended(self, member: Log, count: int = 1) -> None:
        """Damage of a log is gone: keep that."""
        self.count.mended += count
        directory = self._directories.directory_of(member.topic_partition)
        if directory is not None and not directory.is_offline:
            await self._keep(directory, self._courses[directory])

    # What a directory remembers.

    def _recall(self, directory: LogDirectory) -> None:
        course = self._courses[directory] = _Course(directory.scrub_record)
        for at, member in directory.logs.items():
            if member.hidden_from is not None and not member.damage:
                course.suspects[at, member.hidden_from] = None
                self._on_damage(member)
            if member.damage:
                # Looked at again first: it may have been mended, or cut by recovery.
                course.suspects |= dict.fromkeys((at, damaged.start_offset) for damaged in member.damage)
                log.warning("%s: known to be damaged: %s", at, "; ".join(map(str, member.damage)))
                self._on_damage(member)

    async def _keep(self, directory: LogDirectory, course: _Course) -> None:
        """Write the record, if it says something else now."""
        record = course.record
        record.damage = known_damage(directory)
        data = record.encode()
        course.written_ms = self._clock.monotonic_ms()
        if data == course.written:
            return
        try:
            await self._offload.thread(
                _lane(directory), self._disk.write_durably, f"{directory.path}/{SCRUB_RECORD}", data
            )
            course.written = data
        except OSError as error:
            directory.fail(error)

    # The pass.

    def recall(self) -> None:
        """Begin with what is known to be damaged, when the logs are loaded."""
        for directory in self._directories.directories:
            if directory not in self._courses:
                self._recall(directory)

    async def step(self, directory: LogDirectory) -> int:
        """Check one piece of the directory; its cost in bytes, 0 when there is nothing to do now."""
        course = self._courses[directory]
        self._take_suspects(directory, course)
        member = self._next_log(directory, course)
        if member is None:
            if course.record.damage:
                # It may have been cut since.
                await self._keep(directory, course)
            return 0
        found = self._next_segment(directory, member, course)
        if found is None:
            self._leave(course, directory)
            if course.current is None:
                await self._keep(directory, course)
            return _LEAST_COST_BYTES
        segment, extent, place = found
        if course.looked_up is not segment:
            course.looked_up = segment
            if await self._has_mended_index(directory, member, segment):
                # The log may be another by now.
                return _LEAST_COST_BYTES
        piece = await self._read(directory, member, segment, extent, place)
        if piece is not None:
            is_sure = self._take(course, member, segment, piece)
            if course.suspected is not None and piece.damaged and is_sure:
                self._leave(course, directory)
            await self._maybe_keep(directory, course)
        if piece is None:
            return _LEAST_COST_BYTES
        return max(_LEAST_COST_BYTES, piece.cost_bytes)

    def _take_suspects(self, directory: LogDirectory, course: _Course) -> None:
        """Note what is to be looked at, and leave the pass for it: it goes on where its record says."""
        now_ms = self._clock.monotonic_ms()
        for suspect, offset in directory.suspects.items():
            place = suspect.topic_partition, offset
            if len(course.suspects) < _MOST_SUSPECTS and course.cleared.get(place, now_ms) <= now_ms:
                course.suspects[place] = None
        directory.suspects.clear()
        if course.suspected is None and (course.suspects or not self.settings.bytes_per_second):
            course.current = None

    def _next_log(self, directory: LogDirectory, course: _Course) -> Log | None:
        """The log that is looked at, or comes next; None between two passes."""
        for _ in range(len(directory.logs) + len(course.suspects) + 1):
            if course.current is None and not self._choose(directory, course):
                return None
            member = directory.logs.get(course.current) if course.current is not None else None
            if member is not None and not member.offline:
                return member
            self._leave(course, directory)
        return None

    def _choose(self, directory: LogDirectory, course: _Course) -> bool:
        """Begin with a suspect, or go on with the pass, or begin one if it is time. Whether there is anything to do."""
        record, now_ms = course.record, self._clock.wall_ms()
        course.place = course.segment = course.looked_up = None
        if course.suspects:
            suspect = next(iter(course.suspects))
            del course.suspects[suspect]
            course.current, course.suspected = suspect
            return True
        if not self.settings.bytes_per_second:
            return False
        if record.partition is None:
            # A clock that went back must not stop it for good.
            if not directory.logs or 0 <= now_ms - record.pass_started_ms < self.settings.interval_ms:
                return False
            record.pass_started_ms, record.partition, record.next_offset = now_ms, min(directory.logs), 0
        course.current = record.partition
        return True

    def _leave(self, course: _Course, directory: LogDirectory) -> None:
        """The present log is done. The pass ends after the last one."""
        done, course.current = course.current, None
        record = course.record
        if course.suspected is not None:
            member = None if done is None else directory.logs.get(done)
            if done is not None and member is not None and not member.damage:
                if len(course.cleared) >= _MOST_SUSPECTS:
                    course.cleared.clear()
                course.cleared[done, course.suspected] = self._clock.monotonic_ms() + _CLEARED_FOR_MS
            course.suspected = None
            return
        if done is None:
            return
        record.next_offset = 0
        record.partition = self._next_after(done, course, directory)
        if record.partition is not None:
            self._choose(directory, course)
            return
        self.count.passes += 1
        log.info("%s: all logs were checked; %d ranges are damaged", directory.path, self.damaged_ranges())

    @staticmethod
    def _next_after(done: TopicPartition, course: _Course, directory: LogDirectory) -> TopicPartition | None:
        """The next log of the pass by name. One that was made meanwhile may be left to the next pass."""
        if not course.ahead or course.ahead[-1] <= done:
            course.ahead = sorted((at for at in directory.logs if at > done), reverse=True)
        while course.ahead:
            at = course.ahead.pop()
            if at > done and at in directory.logs:
                return at
        return None

    def _next_segment(
        self, directory: LogDirectory, member: Log, course: _Course
    ) -> tuple[Segment, Extent, Place] | None:
        """Where to go on in the log; None at its end."""
        place = course.place
        segments = member.segments
        if place is None or course.segment is None:
            in_pass = course.suspected is None
            wanted = course.record.next_offset if course.suspected is None else course.suspected
            start = max(wanted, member.log_start_offset)
            number = max(0, segments.place_of(start))
            place = self._place_in(segments[number], start, is_exact=in_pass)
            course.is_unsure = place.position > 0
        elif course.suspected is not None and place.position >= course.segment.size_bytes:
            return None
        else:
            number = max(0, segments.place_of(course.segment.base_offset))
            # One that was cleaned meanwhile has other batches, and begins where the old one did.
            if segments[number] is not course.segment:
                place, course.is_unsure = Place(0, segments[number].base_offset), False
        while place.position >= segments[number].size_bytes:
            number += 1
            if number >= len(segments):
                return None
            place = Place(0, segments[number].base_offset)
        segment = segments[number]
        course.segment, course.place = segment, place
        next_base = segments[number + 1].base_offset if number + 1 < len(segments) else member.log_end_offset
        return segment, _extent(directory, member, segment, next_base), place

    @staticmethod
    def _place_in(segment: Segment, offset: int, *, is_exact: bool) -> Place:
        """Where to begin in a segment to look at `offset`: there, or some batches before, or at its beginning."""
        begin = Place(0, segment.base_offset)
        if offset <= segment.base_offset:
            return begin
        try:
            position = segment.position_of(offset) if is_exact else segment.indexed_position(offset - 1)
        except (CorruptSegment, CorruptIndex, OSError):
            return begin
        # The batch there may begin before the offset.
        return Place(position, segment.base_offset) if position and position < segment.size_bytes else begin

    async def _has_mended_index(self, directory: LogDirectory, member: Log, segment: Segment) -> bool:
        """Have the segment's indexes built again that cannot be read, or were found to lie; whether that was so."""
        problem = None
        try:
            if (problem := lacks_aborted(segment)) is not None:
                log.error("%s: %s", segment.path(TXN_INDEX_SUFFIX), problem)
                await rebuild_aborted(directory, member, segment, offload=self._offload, lane=_lane(directory))
            elif segment.growing is None and (problem := segment.index_problem) is not None:
                await rebuild_indexes(directory, member, segment, offload=self._offload, lane=_lane(directory))
        except CorruptSegment as error:
            # Tried again when somebody asks, or in the next pass.
            log.warning("%s: its indexes cannot be built again now: %s", segment.path(LOG_SUFFIX), error)
        except OSError as error:
            # A log that was deleted or moved meanwhile took its files along.
            if not member.offline and not isinstance(error, FileNotFoundError):
                directory.fail(error)
        return problem is not None

    async def _read(
        self, directory: LogDirectory, member: Log, segment: Segment, extent: Extent, place: Place
    ) -> ScrubPiece | None:
        """Check a piece in a thread; None when it does not count."""
        generation = member.generation
        segment.pin()
        try:
            file = segment.log_file
            piece = await self._offload.thread(_lane(directory), _check_and_let_go, file, extent, place)
        except OSError as error:
            directory.fail(error)
            return None
        finally:
            segment.unpin()
        still_there = member.segments[max(0, member.segments.place_of(segment.base_offset))] is segment
        if member.offline or member.generation != generation or not still_there:
            return None
        return piece

    def _take(self, course: _Course, member: Log, segment: Segment, piece: ScrubPiece) -> bool:
        """Note what was found in the piece that began at the course's place; False where no batch may begin there."""
        assert course.place is not None
        self.count.checked_bytes += piece.checked_bytes
        was_unsure, course.is_unsure = course.is_unsure, False
        if was_unsure and piece.damaged and piece.damaged[0].position == course.place.position:
            course.place = Place(0, segment.base_offset)
            return False
        lost = _lost_end(member, segment, piece.place)
        if lost is not None:
            piece.damaged.append(lost)
        known = list(member.damage)
        # What is known may be longer than a piece.
        begin, end = self._begin_of_run(course, member, segment), piece.place.position
        if known:
            member.damage.forget(segment.base_offset, position=begin, end_position=end)
        good_from = piece.damaged[-1].end_position if piece.damaged else begin
        course.run = _GoodRun(segment, member.generation, good_from, end)
        is_new = False
        for damaged in piece.damaged:
            if damaged.end_offset > member.log_start_offset:
                member.damage.add(damaged)
                if damaged not in known:
                    is_new = True
                    self.count.found += 1
                    log.error("%s: damaged, and not served: %s", member.topic_partition, damaged)
        course.place = piece.place
        if course.suspected is None:
            course.record.next_offset = piece.place.next_offset
        if list(member.damage) != known:
            course.written = b""
        if is_new:
            self._on_damage(member)
        return True

    @staticmethod
    def _begin_of_run(course: _Course, member: Log, segment: Segment) -> int:
        """Where the good bytes begin that end where the piece does that was just checked."""
        assert course.place is not None
        run, position = course.run, course.place.position
        if run is None or run.segment is not segment or run.generation != member.generation:
            return position
        return run.position if run.end_position == position else position

    async def _maybe_keep(self, directory: LogDirectory, course: _Course) -> None:
        if not course.written or self._clock.monotonic_ms() - course.written_ms >= _RECORD_EACH_MS:
            await self._keep(directory, course)


def _lane(directory: LogDirectory) -> str:
    return f"scrub:{directory.path}"


def _extent(directory: LogDirectory, member: Log, segment: Segment, next_base: int) -> Extent:
    return Extent(
        segment.base_offset,
        next_base,
        segment.size_bytes,
        member.leader_epochs.entries,
        member.config.max_decompressed_bytes,
        may_have_gaps(directory, member),
    )


def _lost_end(member: Log, segment: Segment, place: Place) -> DamagedRange | None:
    """What a closed segment that is good up to `place` has lost behind it, if that is its end and nobody knows yet.

    A gap before the next segment says nothing where a log is compacted; but the last entry of the time index names a
    batch. A start looks only whether an index points behind the end, and not each batch has an entry there.
    """
    next_place = member.segments.place_of(segment.base_offset) + 1
    if segment.growing is not None or place.position != segment.size_bytes or next_place == len(member.segments):
        return None
    lost_from, end_offset = place.next_offset, member.segments[next_place].base_offset
    if not lost_from <= segment.offset_of_max_timestamp < end_offset:
        return None
    if member.damage.has_lost_end(segment.base_offset, above=lost_from):
        return None
    end, problem = place.position, f"the segment has lost its end: it held offset {segment.offset_of_max_timestamp}"
    return DamagedRange(segment.base_offset, end, end, lost_from, end_offset, problem)


def _check_and_let_go(file: File, extent: Extent, place: Place) -> ScrubPiece:
    """Check a piece; what was not in memory before need not stay there."""
    size = min(PIECE_BYTES, extent.end - place.position)
    was_cached = file.is_cached(place.position, size)
    piece = check_piece(file, extent, place, max_bytes=PIECE_BYTES, max_batches=PIECE_BATCHES)
    if not was_cached:
        file.let_go(place.position, piece.place.position - place.position)
    return piece
