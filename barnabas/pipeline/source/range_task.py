"""What one task does: it fetches the raw batches of a range of offsets and decodes them into Arrow columns.

The loop runs only while the task waits for an answer; the next request is on its way while an answer is decoded, so
that the broker and the socket work meanwhile. Held are the answer that is decoded and those of `in_flight_bytes`; a
single batch may be larger than that.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from barnabas.client.admin import EARLIEST, LATEST, Admin
from barnabas.client.consumer_options import IsolationLevel
from barnabas.client.errors import ClientError, KafkaError
from barnabas.client.range_reader import FetchedBatches, OffsetRange, RangeReader, RangeReaderOptions
from barnabas.pipeline.columns.decoder import ColumnDecoder, DecodeOptions
from barnabas.pipeline.connecting import reach
from barnabas.pipeline.source.cluster_view import connect
from barnabas.pipeline.source.data_loss import Loss, data_lost
from barnabas.pipeline.source.offsets import Stamp
from barnabas.pipeline.source.options import Fetching, SourceOptions
from barnabas.pipeline.source.planning import TopicRange
from barnabas.protocol.entries import iterate_entries
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition

log = logging.getLogger(__name__)

_HELD_BESIDE_THE_QUEUE: Final = 2
"""The answer that is decoded and the one that is being received."""


@dataclass(frozen=True, slots=True)
class PlannedRange:
    """A range, and what holds its last record: a log that was made anew since it was planned is noticed."""

    range: TopicRange
    stamp: Stamp | None = None


class ReadStalled(Exception):
    """The broker gives nothing, though there should be something."""


def read_range(planned: PlannedRange, columns: Sequence[str], options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """The records of a range, with these columns in this order.

    Raises ClientError, CorruptRecords, DataLost, ReadStalled.
    """
    fetching = options.fetching
    decoder = ColumnDecoder(
        planned.range.topic_partition,
        columns,
        DecodeOptions(max_rows=fetching.rows_per_batch, max_inflated_bytes=fetching.batch_bytes),
    )
    with asyncio.Runner() as runner:
        answers = fetch_range(planned, options)
        try:
            while (answer := runner.run(next_answer(answers, planned, fetching))) is not None:
                yield from decoder.decode(answer.record_set, start=answer.start, end=answer.end, aborted=answer.aborted)
        finally:
            runner.run(answers.aclose())


async def next_answer(
    answers: AsyncGenerator[FetchedBatches, None], planned: PlannedRange, fetching: Fetching
) -> FetchedBatches | None:
    """The next answer, None after the last one. Raises ReadStalled."""
    # The client gives up earlier where it knows why nothing comes.
    patience_ms = fetching.timeout_ms * 3 // 2
    try:
        async with asyncio.timeout(patience_ms / 1000):
            return await anext(answers, None)
    except TimeoutError:
        raise ReadStalled(
            f"{planned.range.topic_partition}: nothing came for {patience_ms} ms while offsets "
            f"{planned.range.start} to {planned.range.end} were read; the log may have lost its end. Look at the "
            "partition's leader, or raise kafka.default.api.timeout.ms"
        ) from None


async def fetch_range(planned: PlannedRange, options: SourceOptions) -> AsyncGenerator[FetchedBatches, None]:
    """Answers in order; after a loss that is borne from the first record that is there."""
    at, position, end = planned.range.topic_partition, planned.range.start, planned.range.end
    async with AsyncExitStack() as exits:
        cluster = await exits.enter_async_context(connect(options.bootstrap_servers, options.fetching))
        # The planner had an answer a moment ago: who does not answer now is being started again.
        await reach(cluster)
        while position < end:
            reader = RangeReader(cluster, {at: OffsetRange(position, end)}, options=_reader_options(options))
            try:
                async with aclosing(reader.batches()) as answers:
                    async for answer in answers:
                        _check(planned, answer, options)
                        position = answer.next_offset
                        yield answer
            except ClientError as error:
                start = await _first_offset_left(Admin(cluster), at, error)
                loss = Loss(at, position, _what(error, start))
                if options.fail_on_data_loss:
                    raise data_lost([loss]) from error
                log.warning("data was lost, and failOnDataLoss is false: %s", loss)
                if start is None or start <= position:
                    return
                position = start
            else:
                return


def _reader_options(options: SourceOptions) -> RangeReaderOptions:
    fetching = options.fetching
    return RangeReaderOptions(
        max_wait_ms=fetching.max_wait_ms,
        min_bytes=fetching.min_bytes,
        max_bytes=fetching.partition_max_bytes,
        partition_max_bytes=fetching.partition_max_bytes,
        isolation_level=IsolationLevel.READ_COMMITTED if options.read_committed else IsolationLevel.READ_UNCOMMITTED,
        queued_answers=max(fetching.in_flight_bytes // fetching.partition_max_bytes - _HELD_BESIDE_THE_QUEUE, 1),
    )


def _check(planned: PlannedRange, answer: FetchedBatches, options: SourceOptions) -> None:
    """Whether the batch with the last record is the one that was there when the range was planned."""
    last = planned.range.end - 1
    if planned.stamp is None or answer.next_offset <= last:
        return
    for _, header in iterate_entries(answer.record_set):
        if header.base_offset <= last <= header.last_offset:
            found = Stamp(header.base_offset, header.leader_epoch, header.crc)
            if found != planned.stamp:
                what = "the log is another one than when this was planned; the topic was deleted and made anew"
                loss = Loss(planned.range.topic_partition, last, what)
                if options.fail_on_data_loss:
                    raise data_lost([loss])
                log.warning("data was lost, and failOnDataLoss is false: %s", loss)
            return


async def _first_offset_left(admin: Admin, at: TopicPartition, error: ClientError) -> int | None:
    """Where the log starts now, None where it is gone. Raises `error` if it tells of no loss."""
    if not isinstance(error, KafkaError) or error.error not in _LOSSES:
        raise error
    if error.error is not ErrorCode.OFFSET_OUT_OF_RANGE:
        return None
    start = (await admin.list_offsets({at: EARLIEST}))[at].offset
    end = (await admin.list_offsets({at: LATEST}))[at].offset
    return start if start < end else None


def _what(error: ClientError, start: int | None) -> str:
    return f"the log starts at {start}" if start is not None else f"nothing is left of it ({error})"


_LOSSES: Final = {ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
