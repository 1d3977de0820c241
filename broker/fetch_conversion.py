"""What a Fetch of an older version gets otherwise than it was read, once that is settled (Kafka 2.7, KIP-110, KIP-283).

Before version 10 no partition of a topic that is configured for zstd is answered. Before version 4 records of newer
formats than the version's consumers know are converted (`broker.down_conversion`), unless
`message.downconversion.enable` is off for the topic: then UNSUPPORTED_VERSION. Followers are always converted for.

Unlike Kafka a log that holds newer formats than its topic is now configured for is converted too.
"""

import logging
from collections.abc import Sequence
from typing import Final

from barnabas.protocol.batch import Codec, CorruptBatch
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.format_conversion import ConversionRefused
from barnabas.runtime.disk import OUT_OF_RESOURCES
from barnabas.runtime.files import FileSlice
from barnabas.storage.log_config import LogConfig
from broker.down_conversion import convert_set, needs_conversion, newest_magic_of
from broker.fetch_reader import PartitionRead, release
from broker.services import Services

log = logging.getLogger(__name__)

ZSTD_SINCE: Final = 10


def refuse_zstd(reads: Sequence[PartitionRead], broker: Services) -> None:
    """Answer UNSUPPORTED_COMPRESSION_TYPE for topics whose logs are all zstd, whatever else was found there."""
    for read in reads:
        partition = broker.replicas.partition(read.wanted.topic_partition)
        if partition is not None and partition.log.config.compression is Codec.ZSTD:
            refuse(read, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


async def convert_reads(reads: Sequence[PartitionRead], broker: Services, *, version: int, is_follower: bool) -> None:
    """Convert what needs it, a partition after the other. Slices that are not sent then are released."""
    if all(read.records is None for read in reads):
        # It waits for no other's conversion.
        return
    to_magic = newest_magic_of(version)
    try:
        async with broker.conversions.place:
            for read in reads:
                if read.records is not None:
                    await _convert(read, broker, to_magic=to_magic, is_follower=is_follower)
    except BaseException:
        release(reads)
        raise


async def _convert(read: PartitionRead, broker: Services, *, to_magic: int, is_follower: bool) -> None:
    assert read.records is not None
    topic_partition = read.wanted.topic_partition
    partition = broker.replicas.partition(topic_partition)
    # A replica that has gone meanwhile does not take with it what was read of it.
    config = LogConfig() if partition is None else partition.log.config
    try:
        records = await _bytes_of(read.records, broker)
        if not needs_conversion(records, to_magic):
            return
        if not (config.message_downconversion_enable or is_follower):
            refuse(read, ErrorCode.UNSUPPORTED_VERSION)
            return
        steps = convert_set(records, to_magic=to_magic, first_offset=read.wanted.fetch_offset, config=config)
        converted = await broker.conversions.finish(steps, broker.clock)
    except ConversionRefused as refused:
        log.info("%s: not converted to format %d: %s", topic_partition, to_magic, refused)
        refuse(read, refused.error)
    except CorruptBatch as error:
        log.error("%s: cannot be converted at offset %d: %s", topic_partition, read.wanted.fetch_offset, error)
        if partition is not None:
            partition.directory.suspect(partition.log, read.wanted.fetch_offset)
        refuse(read, ErrorCode.CORRUPT_MESSAGE)
    except OSError as error:
        if error.errno not in OUT_OF_RESOURCES and partition is not None:
            partition.directory.fail(error)
        # As the reader tells clients of that time, who do not know KAFKA_STORAGE_ERROR.
        refuse(read, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    else:
        release((read,))
        read.converted = converted.data
        broker.metrics.topic(topic_partition.topic).fetch_message_conversions += converted.record_count


async def _bytes_of(part: FileSlice, broker: Services) -> bytes:
    """The slice's bytes, read by a thread where that would wait for the device."""
    if part.file.is_cached(part.position, part.size):
        return part.read()
    directory = part.file.path.rpartition("/")[0].rpartition("/")[0]
    return await broker.offload.thread(f"read {directory}", part.read)


def refuse(read: PartitionRead, error: ErrorCode) -> None:
    """Answer `error` in place of what was read, and let go of that."""
    release((read,))
    read.error = error
    read.high_watermark = read.last_stable_offset = read.log_start_offset = -1
    read.aborted = None
