"""A log as files alone: batches are written into segments, a cleaning runs over them and its files take their place."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from barnabas.protocol.batch import BatchHeader, Codec
from barnabas.protocol.entries import iterate_entries, iterate_entry_records, verify_entry
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import (
    ControlRecordType,
    EndTxnMarker,
    Record,
    build_batch,
    build_end_txn_marker,
)
from barnabas.runtime.disk import Disk, SystemDisk
from barnabas.runtime.offload import Pause
from barnabas.storage.cleaning.clean_job import (
    CleanedSegment,
    CleanJob,
    CleanLimits,
    CleanProgress,
    CleanResult,
    LastOfProducer,
)
from barnabas.storage.cleaning.clean_plan import SourceSegment, delete_horizon_ms
from barnabas.storage.cleaning.clean_run import clean
from barnabas.storage.file_names import SEGMENT_SUFFIXES, segment_file
from barnabas.storage.producer_state import ProducerState
from barnabas.storage.scan import SegmentScan, apply_to_producers, scan_segment
from barnabas.storage.txn_index import AbortedTxn, decode_aborted, encode_aborted
from tests.support.clock import ManualClock

TP = TopicPartition("topic", 0)
NOW = 1_600_000_000_000
LIMITS = CleanLimits(
    segment_bytes=1 << 20,
    segment_index_bytes=1 << 16,
    index_interval_bytes=100,
    offset_map_bytes=1 << 16,
    offset_map_load_factor=0.9,
    io_buffer_bytes=4096,
    max_bytes_per_second=1.7976931348623157e308,
    max_decompressed_bytes=1 << 24,
)


@dataclass
class Cleaned:
    """What a cleaning told."""

    result: CleanResult
    segments: list[CleanedSegment] = field(default_factory=list)
    progress: list[CleanProgress] = field(default_factory=list)
    pauses: list[Pause] = field(default_factory=list)


@dataclass
class SegmentWorld:
    """Segments by base offset; the last one is active. `modified_ms` are what a cleaning is told of their age."""

    directory: str
    disk: Disk = field(default_factory=SystemDisk)
    now_ms: int = NOW
    next_offset: int = 0
    first_dirty: int = 0
    bases: list[int] = field(default_factory=lambda: [0])
    modified_ms: dict[int, int] = field(default_factory=lambda: {0: NOW})
    aborted: dict[int, list[AbortedTxn]] = field(default_factory=lambda: {0: []})
    producers: ProducerState = field(default_factory=ProducerState)
    last_put: list[Record] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._file(0).close()

    # Writing

    def write(self, data: bytes) -> BatchHeader:
        """Append entries whose offsets continue the log, or jump ahead."""
        last: BatchHeader | None = None
        for at, header in iterate_entries(data):
            done = apply_to_producers(self.producers, data[at : at + header.size_bytes], header)
            if done is not None:
                self.aborted[self.bases[-1]].append(done)
            assert header.last_offset >= self.next_offset
            self.next_offset, last = header.next_offset, header
        assert last is not None
        file = self._file(self.bases[-1])
        file.pwrite(data, file.size())
        file.close()
        return last

    def put(
        self,
        *records: tuple[str | None, str | None],
        codec: Codec = Codec.NONE,
        producer: tuple[int, int, int] = (-1, -1, -1),
        transactional: bool = False,
        append_time: int | None = None,
    ) -> int:
        """Append a batch of (key, value) pairs, with a millisecond between any two; its base offset."""
        base = self.next_offset
        made = [
            Record(base + n, self.now_ms + base + n, _bytes(key), _bytes(value), (("n", b"%d" % (base + n)),))
            for n, (key, value) in enumerate(records)
        ]
        self.last_put = made
        self.write(
            build_batch(
                made,
                base_offset=base,
                codec=codec,
                producer_id=producer[0],
                producer_epoch=producer[1],
                base_sequence=producer[2],
                transactional=transactional,
                log_append_time_ms=append_time,
                leader_epoch=3,
            )
        )
        return base

    def end(self, producer_id: int, epoch: int, *, commit: bool, coordinator_epoch: int = 0) -> int:
        """Append a marker; its offset."""
        base = self.next_offset
        kind = ControlRecordType.COMMIT if commit else ControlRecordType.ABORT
        marker = EndTxnMarker(kind, coordinator_epoch)
        self.write(
            build_end_txn_marker(
                marker,
                producer_id=producer_id,
                producer_epoch=epoch,
                timestamp=self.now_ms + base,
                base_offset=base,
                leader_epoch=3,
            )
        )
        return base

    def roll(self, modified_ms: int = NOW) -> None:
        """Close the active segment, changed last at that time, and begin another."""
        base = self.bases[-1]
        if self.next_offset == base:
            return
        self.modified_ms[base] = modified_ms
        if self.aborted[base]:
            self.disk.write_durably(self.path(base, ".txnindex"), encode_aborted(self.aborted[base]))
        self.bases.append(self.next_offset)
        self.modified_ms[self.next_offset] = NOW
        self.aborted[self.next_offset] = []
        self._file(self.next_offset).close()

    # Cleaning

    def job(self, *, upto: int | None = None, retention_ms: int = 10**9, limits: CleanLimits = LIMITS) -> CleanJob:
        """A cleaning of the closed segments, or of those up to `upto`."""
        bound = self.bases[-1] if upto is None else upto
        sources = tuple(
            SourceSegment(
                base,
                end,
                self.disk.size(self.path(base, ".log")),
                0,
                0,
                self.modified_ms[base],
                bool(self.aborted[base]),
            )
            for base, end in zip(self.bases, self.bases[1:], strict=False)
            if end <= bound
        )
        later = [txn for base in self.bases if base >= bound for txn in self.aborted[base] if txn.first_offset < bound]
        return CleanJob(
            TP,
            self.directory,
            sources,
            self.first_dirty,
            delete_horizon_ms(sources, first_dirty_offset=self.first_dirty, delete_retention_ms=retention_ms),
            tuple(later),
            tuple(
                LastOfProducer(each.producer_id, each.epoch, each.batches[-1].last_offset if each.batches else -1)
                for each in self.producers
            ),
            limits,
            b"0123456789abcdef0123456789abcdef",
        )

    def clean(self, job: CleanJob | None = None, *, clock: ManualClock | None = None, **settings: int) -> Cleaned:
        """Run a cleaning and put its files into the place of the sources."""
        cleaned = run(self.disk, job or self.job(**settings), clock)
        for segment in cleaned.segments:
            self.replace(segment)
        self.first_dirty = cleaned.result.first_dirty_offset
        return cleaned

    def replace(self, segment: CleanedSegment) -> None:
        for base in segment.sources:
            for suffix in SEGMENT_SUFFIXES:
                self.disk.remove(self.path(base, suffix))
            self.bases.remove(base)
            del self.aborted[base]
        base = segment.base_offset
        for suffix in SEGMENT_SUFFIXES:
            written = self.path(base, suffix) + ".cleaned"
            assert self.disk.exists(written) == (suffix != ".txnindex" or segment.has_txn_index)
            if self.disk.exists(written):
                self.disk.rename(written, self.path(base, suffix))
        self.bases = sorted([*self.bases, base])
        self.modified_ms[base] = segment.modified_ms
        assert self.disk.modified_ms(self.path(base, ".log")) == segment.modified_ms
        assert self.disk.size(self.path(base, ".log")) == segment.size_bytes
        self.aborted[base] = []
        if segment.has_txn_index:
            self.aborted[base] = decode_aborted(self.disk.read_bytes(self.path(base, ".txnindex")), base_offset=base)

    # Looking

    def content(self, base: int) -> bytes:
        return self.disk.read_bytes(self.path(base, ".log"))

    def batches(self) -> list[tuple[BatchHeader, bytes]]:
        """Every entry of the log with its bytes, its checksum verified."""
        found = []
        for base in self.bases:
            data = self.content(base)
            for at, header in iterate_entries(data):
                verify_entry(data, at, header)
                found.append((header, data[at : at + header.size_bytes]))
        return found

    def records(self, *, committed: bool = False) -> list[Record]:
        """The records of all data batches; `committed` leaves out what the indexes say was aborted."""
        aborted = [txn for each in self.aborted.values() for txn in each]
        return [
            record
            for header, data in self.batches()
            if not header.is_control and not (committed and _is_aborted(header, aborted))
            for record in iterate_entry_records(data, 0, header, 1 << 24)
        ]

    def pairs(self) -> list[tuple[int, str | None, str | None]]:
        """The records as (offset, key, value)."""
        return [(record.offset, _text(record.key), _text(record.value)) for record in self.records()]

    def markers(self) -> list[int]:
        return [header.base_offset for header, _ in self.batches() if header.is_control]

    def scan(self, base: int, producers: ProducerState | None = None) -> SegmentScan:
        """What recovery would find in a segment, which must be sound."""
        ends = dict(zip(self.bases, self.bases[1:], strict=False))
        scan = scan_segment(
            self.disk,
            self.path(base, ".log"),
            base_offset=base,
            next_base_offset=ends.get(base),
            index_interval_bytes=LIMITS.index_interval_bytes,
            producers=ProducerState() if producers is None else producers,
        )
        assert scan.problem is None, scan.problem
        return scan

    def rebuilt_producers(self) -> ProducerState:
        """What recovery would know of the producers, from the files alone."""
        producers = ProducerState()
        for base in self.bases:
            producers.end_offset = max(producers.end_offset, base)
            self.scan(base, producers)
        return producers

    def path(self, base: int, suffix: str) -> str:
        return f"{self.directory}/{segment_file(base, suffix)}"

    def _file(self, base: int):  # type: ignore[no-untyped-def]
        return self.disk.open(self.path(base, ".log"), create=True)


def run(disk: Disk, job: CleanJob, clock: ManualClock | None = None) -> Cleaned:
    """Advance a cleaning to its end; pauses pass on the clock."""
    clock = clock or ManualClock(NOW)
    segments: list[CleanedSegment] = []
    progress: list[CleanProgress] = []
    pauses: list[Pause] = []
    steps = clean(disk, clock, job)
    while True:
        try:
            told = next(steps)
        except StopIteration as done:
            return Cleaned(done.value, segments, progress, pauses)
        if isinstance(told, CleanedSegment):
            segments.append(told)
        elif isinstance(told, CleanProgress):
            progress.append(told)
        else:
            pauses.append(told)
            clock.advance(told.ms)


def _is_aborted(header: BatchHeader, aborted: Sequence[AbortedTxn]) -> bool:
    return header.is_transactional and any(
        txn.producer_id == header.producer_id and txn.first_offset <= header.base_offset <= txn.last_offset
        for txn in aborted
    )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()
