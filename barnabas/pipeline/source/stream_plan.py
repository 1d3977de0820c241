"""What a streaming query reads next: on the driver, trigger by trigger.

Each trigger looks whether the logs still are what was read, before it decides how far to read. What was decided goes
into the offset, so that a batch that is planned again after a crash is the same batch.
"""

import asyncio
from collections.abc import Mapping

from barnabas.pipeline.source.batch_plan import report
from barnabas.pipeline.source.cluster_view import ClusterView
from barnabas.pipeline.source.data_loss import Progress, check_cluster, find_progress, find_strangers
from barnabas.pipeline.source.offsets import Stamp, StreamOffset
from barnabas.pipeline.source.options import SourceOptions
from barnabas.pipeline.source.planning import (
    Spans,
    TopicRange,
    TriggerDelay,
    limited_ends,
    questions,
    resolve_start,
    split_ranges,
)
from barnabas.pipeline.source.range_task import PlannedRange
from barnabas.protocol.ids import TopicPartition


class StreamPlanner:
    """Plans one streaming query. Methods raise ClientError, OptionError, DataLost, WrongCluster."""

    def __init__(self, view: ClusterView, options: SourceOptions) -> None:
        self._view = view
        self._options = options
        self._delay = TriggerDelay(options.min_offsets_per_trigger or 0, options.max_trigger_delay_ms)
        self._targets: Mapping[TopicPartition, int] | None = None
        self._seen: Spans | None = None
        self._made: StreamOffset | None = None
        """The offset that this process made last: its stamps need not be looked at again when it is planned."""

    async def initial_offset(self) -> StreamOffset:
        """Where a new query begins. Raises EdgeError too."""
        options = self._options
        partitions = await self._view.partitions(all_must_exist=True)
        spans = await self._view.spans(partitions)
        found = await self._view.offsets_at(questions(options.start, partitions))
        latest = options.start_at_latest_without_record
        offsets = resolve_start(options.start, spans, found, latest_without_record=latest)
        progress = find_progress(StreamOffset(self._view.cluster_id, offsets), spans, {})
        report(progress.losses, options)
        return StreamOffset(self._view.cluster_id, progress.begins, await self._view.stamps_before(progress.begins))

    async def fix_targets(self) -> None:
        """From now on read no further than what there is now (Trigger.AvailableNow)."""
        spans = await self._view.spans(await self._view.partitions(all_must_exist=False))
        self._targets = {each: span.end for each, span in spans.items()}

    def latest_ends(self) -> StreamOffset | None:
        """Where the logs ended when they were looked at last, for reports."""
        if self._seen is None:
            return None
        return StreamOffset(self._view.cluster_id, {each: span.end for each, span in self._seen.items()})

    async def next_offset(self, start: StreamOffset, *, limit: int | None, may_wait: bool, now_ms: int) -> StreamOffset:
        """Where the batch that begins at `start` ends: `start` itself where there is nothing to do yet.

        `limit` bounds its offsets; with `may_wait` it may wait for minOffsetsPerTrigger.
        """
        spans, progress = await self._look(start)
        report(progress.losses, self._options)
        ends = {each: max(progress.begins[each], span.end) for each, span in spans.items()}
        if self._targets is not None:
            ends = {each: max(progress.begins[each], min(end, self._targets[each])) for each, end in ends.items()}
        elif may_wait and self._options.min_offsets_per_trigger is not None:
            waiting = sum(end - progress.begins[each] for each, end in ends.items())
            if not self._delay.is_due(waiting, now_ms):
                return start
        if limit is not None:
            ends = limited_ends(progress.begins, ends, limit)
        if ends == start.offsets and not progress.moved:
            return start
        self._made = StreamOffset(
            self._view.cluster_id, ends, await self._stamps_of(ends, start, progress), progress.moved
        )
        return self._made

    async def _look(self, start: StreamOffset) -> tuple[Spans, Progress]:
        """What there is now and where to go on in it; losses are believed when they are seen again and again.

        A broker that has just started may not know of a topic, and a new leader's end may lag for a moment.
        """
        for attempt in range(self._options.offset_attempts):
            if attempt:
                await asyncio.sleep(self._options.offset_pause_ms / 1000)
            partitions = await self._view.partitions(all_must_exist=False)
            check_cluster(start.cluster_id, self._view.cluster_id)
            if self._targets is not None:
                # What came after the targets were fixed is for the next run.
                partitions = [each for each in partitions if each in self._targets]
            self._seen = spans = await self._view.spans(partitions)
            progress = await self._compare(start, spans)
            if not progress.losses:
                break
        return spans, progress

    async def _compare(self, start: StreamOffset, spans: Spans) -> Progress:
        known = {
            each: offset
            for each, offset in start.offsets.items()
            if each in start.stamps and each in spans and spans[each].start < offset <= spans[each].end
        }
        stamps = await self._view.stamps_before(known)
        strangers = find_strangers(start, stamps)
        compacted = await self._view.compacted(each.topic for each in strangers) if strangers else set()
        return find_progress(start, spans, stamps, compacted=compacted)

    async def _stamps_of(
        self, ends: Mapping[TopicPartition, int], start: StreamOffset, progress: Progress
    ) -> dict[TopicPartition, Stamp]:
        kept = {
            each: start.stamps[each]
            for each, end in ends.items()
            if each in start.stamps and start.offsets[each] == end and each not in progress.moved
        }
        return kept | await self._view.stamps_before({each: end for each, end in ends.items() if each not in kept})

    async def ranges(self, start: StreamOffset, end: StreamOffset) -> list[PlannedRange]:
        """The tasks of the batch from `start` to `end`, which may have been decided by an earlier process."""
        ends, stamps = end.offsets, end.stamps
        if end != self._made:
            spans, progress = await self._look(end)
            losses = [loss for loss in progress.losses if loss.topic_partition in ends]
            report(losses, self._options)
            ends = {each: min(offset, spans[each].end) for each, offset in ends.items() if each in spans}
            lost = {loss.topic_partition for loss in losses}
            stamps = await self._view.stamps_before({each: end for each, end in ends.items() if each not in lost})
        begins = {each: end.begins.get(each, start.offsets.get(each, 0)) for each in ends}
        wanted = [TopicRange(each, begins[each], last) for each, last in ends.items()]
        pieces = split_ranges(
            wanted,
            min_partitions=self._options.min_partitions,
            max_records=self._options.max_records_per_partition,
        )
        # The last record of a partition's part is in the last piece.
        return [
            PlannedRange(piece, stamps.get(piece.topic_partition) if piece.end == ends[piece.topic_partition] else None)
            for piece in pieces
        ]
