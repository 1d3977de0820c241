"""Log directories as brokers leave them, written for tests: segments with their indexes, snapshots, checkpoints."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from barnabas.protocol.ids import TopicPartition
from barnabas.runtime.disk import SystemDisk
from barnabas.storage.checkpoints import encode_offsets
from barnabas.storage.file_names import (
    HIGH_WATERMARK_CHECKPOINT,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    partition_directory,
    segment_file,
)
from barnabas.storage.producer_snapshot import encode_snapshot
from barnabas.storage.producer_state import ProducerState
from barnabas.storage.scan import scan_segment
from barnabas.storage.txn_index import encode_aborted

PAGES = TopicPartition("pages", 0)


def write_log(
    root: Path,
    segments: Sequence[tuple[int, bytes]],
    topic_partition: TopicPartition = PAGES,
    *,
    snapshots: bool = True,
    interval_bytes: int = 100,
) -> Path:
    """The directory of a partition with these segments as (base offset, content), all but the last with indexes."""
    directory = root / partition_directory(topic_partition)
    directory.mkdir(parents=True)
    producers = ProducerState()
    for at, (base_offset, content) in enumerate(segments):
        path = directory / segment_file(base_offset, LOG_SUFFIX)
        path.write_bytes(content)
        if snapshots:
            (directory / segment_file(base_offset, SNAPSHOT_SUFFIX)).write_bytes(encode_snapshot(producers))
        if at + 1 == len(segments):
            continue
        scan = scan_segment(
            SystemDisk(),
            str(path),
            base_offset=base_offset,
            next_base_offset=segments[at + 1][0],
            index_interval_bytes=interval_bytes,
            producers=producers,
        )
        assert scan.problem is None
        scan.time_index.maybe_append(scan.max_timestamp, max(0, scan.offset_of_max_timestamp - base_offset))
        (directory / segment_file(base_offset, INDEX_SUFFIX)).write_bytes(scan.offset_index.encode())
        (directory / segment_file(base_offset, TIME_INDEX_SUFFIX)).write_bytes(scan.time_index.encode())
        if scan.aborted:
            (directory / segment_file(base_offset, TXN_INDEX_SUFFIX)).write_bytes(encode_aborted(scan.aborted))
    return directory


def write_high_watermarks(root: Path, high_watermarks: Mapping[TopicPartition, int]) -> None:
    (root / HIGH_WATERMARK_CHECKPOINT).write_bytes(encode_offsets(high_watermarks))
