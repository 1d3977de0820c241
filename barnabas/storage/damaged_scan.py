"""Scanning a segment of which a part was synced before: what is bad there was good once, so it is damage.

A bad batch behind what was synced is the torn end of what a crash left, and the log is cut there. Below that nothing is
cut: the scan notes what is damaged, as the scrubber does, and goes on with the next good batch, so the records that
follow are kept, and what is lost is mended from the leader, or reported by the leader. Where no good batch follows in
the last segment the damage ends where the synced part does, and so does the log.
"""

from dataclasses import dataclass, replace

from barnabas.runtime.disk import Disk
from barnabas.runtime.files import File
from barnabas.storage.log_config import MAX_INT32, MOST_INFLATED_BYTES
from barnabas.storage.producer_state import ProducerState
from barnabas.storage.scan import SegmentScan, scan_on, scan_segment
from barnabas.storage.scrub_scan import Extent, Place, find_damage


@dataclass(slots=True, frozen=True)
class ScanTask:
    """The scan of a segment as values, which can be pickled.

    Of what lies below `trusted_to` only headers are read. With `synced_to` damage below that is noted instead.
    """

    disk: Disk
    path: str
    base_offset: int
    next_base_offset: int | None
    index_interval_bytes: int
    producers: ProducerState
    trusted_to: int = 0
    synced_to: int = 0
    may_have_gaps: bool = True

    def run(self) -> SegmentScan:
        """Scan the segment. Raises OSError."""
        if self.synced_to:
            return _scan_over_damage(self)
        return scan_segment(
            self.disk,
            self.path,
            base_offset=self.base_offset,
            next_base_offset=self.next_base_offset,
            index_interval_bytes=self.index_interval_bytes,
            producers=self.producers,
            trusted_to=self.trusted_to,
            may_have_gaps=self.may_have_gaps,
        )


def run_scan(task: ScanTask) -> SegmentScan:
    """Carry out a scan; a plain function, so that a worker process can be told of it."""
    return task.run()


def _scan_over_damage(task: ScanTask) -> SegmentScan:
    """Check every batch of the segment, and go over those that are bad below `task.synced_to`."""
    scan = SegmentScan(0, task.base_offset, producers=task.producers)
    file = task.disk.open(task.path, writable=False)
    try:
        while True:
            scan_on(
                scan,
                file,
                base_offset=task.base_offset,
                next_base_offset=task.next_base_offset,
                index_interval_bytes=task.index_interval_bytes,
                may_have_gaps=task.may_have_gaps,
            )
            if scan.problem is None or scan.next_offset >= task.synced_to:
                return scan
            _go_over(scan, file, task, scan.problem)
    finally:
        file.close()


def _go_over(scan: SegmentScan, file: File, task: ScanTask, problem: str) -> None:
    end = file.size()
    next_base = task.next_base_offset
    extent = Extent(
        task.base_offset,
        task.base_offset + MAX_INT32 + 1 if next_base is None else next_base,
        end,
        (),
        MOST_INFLATED_BYTES,
        task.may_have_gaps,
    )
    damaged = find_damage(file, extent, Place(scan.valid_bytes, scan.next_offset), problem=problem)
    if damaged.end_position == end and next_base is None:
        damaged = replace(damaged, end_offset=task.synced_to)
    scan.damaged.append(damaged)
    scan.valid_bytes, scan.next_offset, scan.problem = damaged.end_position, damaged.end_offset, None
