"""Reading the records of a part of a segment as columns."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from barnabas.pipeline.columns.decoder import ColumnDecoder, DecodeOptions
from barnabas.pipeline.columns.visibility import Visibility
from barnabas.pipeline.segments.log_copies import LogEndsEarly
from barnabas.pipeline.segments.splits import SegmentSplit
from barnabas.pipeline.segments.windows import WINDOW_BYTES, read_windows
from barnabas.runtime.disk import Disk


def read_split(
    disk: Disk, split: SegmentSplit, columns: Sequence[str], *, window_bytes: int = WINDOW_BYTES
) -> Iterator[pa.RecordBatch]:
    """The records of the split. Raises CorruptRecords, LogEndsEarly and OSError."""
    decoder = ColumnDecoder(split.topic_partition, columns, DecodeOptions(torn_tail_allowed=split.last))
    file = disk.open(split.path, writable=False)
    try:
        windows = read_windows(
            file, split.position, split.end_position, zeros_end_it=split.last, window_bytes=window_bytes
        )
        visibility = Visibility(split.aborted)
        contents = (content for _, content in windows)
        yield from decoder.decode_all(contents, start=split.start, end=split.end, visibility=visibility)
        end = max(decoder.next_offset, split.base_offset)
        if split.expected_end is not None and end < split.expected_end:
            raise LogEndsEarly(split.topic_partition, end=end, expected_end=split.expected_end)
    finally:
        file.close()
