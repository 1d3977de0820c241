"""What a debugging consumer (replica id -2) is sent is checked first: it reads to see whether a log is whole.

`logs verify` and brokers that fetch to mend read so. A log whose bytes do not match their checksums, or whose offsets
go back or lie above where its segment ends, goes to the scrubber, which finds out what is damaged. The answer is the
same: its reader is told what stands there.
"""

from collections.abc import Sequence

from barnabas.protocol.entries import find_bad_offset
from barnabas.protocol.error_code import ErrorCode
from barnabas.runtime.disk import OUT_OF_RESOURCES
from barnabas.runtime.files import FileSlice
from barnabas.storage.log import Log
from barnabas.storage.read import end_of_segment
from barnabas.storage.segment import Segment
from broker.fetch_conversion import refuse
from broker.fetch_reader import PartitionRead, release
from broker.services import Services


async def check_reads(reads: Sequence[PartitionRead], broker: Services) -> None:
    """Have the scrubber look at the logs whose bytes are not whole."""
    try:
        for read in reads:
            if read.records is not None:
                await _check(read, read.records, broker)
    except BaseException:
        release(reads)
        raise


async def _check(read: PartitionRead, part: FileSlice, broker: Services) -> None:
    partition = broker.replicas.partition(read.wanted.topic_partition)
    if partition is None:
        return
    member, directory = partition.log, partition.directory
    try:
        offset, end_offset = read.wanted.fetch_offset, _end_offset(member, part)
        bad = await broker.offload.thread(f"read {directory.path}", _first_bad, part, offset, end_offset)
        if bad is not None:
            directory.suspect(member, bad)
    except OSError as error:
        if error.errno not in OUT_OF_RESOURCES:
            directory.fail(error)
        refuse(read, ErrorCode.KAFKA_STORAGE_ERROR)


def _end_offset(member: Log, part: FileSlice) -> int:
    """Below which offset all that is in the slice lies."""
    segment = part.owner
    # What was cut since it was read is looked at in vain.
    return end_of_segment(member, segment.base_offset) if isinstance(segment, Segment) else member.log_end_offset


def _first_bad(part: FileSlice, offset: int, end_offset: int) -> int | None:
    return find_bad_offset(part.read(), offset, end_offset=end_offset)
