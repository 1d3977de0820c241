"""Where a flow goes on in each partition of its source, and whether the logs there still are what was read.

A log is known again by the batch before the offset that was reached (see source/offsets.py). What is gone before
it was mirrored ends the mirror, unless it is told to go on; then it begins anew with what is there, and says so.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from barnabas.client.admin import EARLIEST, LATEST, Admin
from barnabas.client.batch_probe import headers_at
from barnabas.client.cluster import Cluster
from barnabas.client.consumer_options import IsolationLevel
from barnabas.pipeline.job_clusters import config_value
from barnabas.pipeline.jobs.job import JobFailed
from barnabas.pipeline.mirror.state_records import ProgressRecord
from barnabas.pipeline.mirror.watch import Watch
from barnabas.pipeline.source.data_loss import Progress, find_progress, find_strangers
from barnabas.pipeline.source.offsets import Stamp, StreamOffset
from barnabas.pipeline.source.planning import LogSpan, Spans
from barnabas.protocol.ids import TopicPartition

_LOOKS: Final = 3
_PAUSE_S: Final = 0.5


class Positions:
    """Looks at the partitions of one source."""

    def __init__(self, source: Cluster, alias: str, *, goes_on_after_loss: bool, watch: Watch) -> None:
        self._source = source
        self._admin = Admin(source)
        self._alias = alias
        self._goes_on = goes_on_after_loss
        self._watch = watch

    async def ends(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Where what is committed ends now."""
        found = await self._admin.list_offsets(
            dict.fromkeys(partitions, LATEST), isolation_level=IsolationLevel.READ_COMMITTED
        )
        return {at: each.offset for at, each in found.items()}

    async def look(
        self, partitions: list[TopicPartition], progress: Mapping[TopicPartition, ProgressRecord], *, new_at_end: bool
    ) -> dict[TopicPartition, ProgressRecord]:
        """What is to be written down before reading goes on: partitions that are new, and those that lost something.

        Raises JobFailed where records are gone, and ClientError.
        """
        spans, found = await self._look_again(partitions, progress)
        if found.losses:
            told = "; ".join(map(str, found.losses[:20]))
            if not self._goes_on:
                raise JobFailed(
                    f"{self._alias}: records are gone that were not mirrored: {told}. With on_data_loss='continue' the "
                    "mirror goes on with what is there; a topic that is deleted for good may be left out by exclude"
                )
            self._watch.add("losses", len(found.losses))
            self._watch.tell(f"{self._alias}: records are gone that were not mirrored: {told}")
        news = {
            at: ProgressRecord(
                begin=span.end if new_at_end else span.start, offset=span.end if new_at_end else span.start
            )
            for at, span in spans.items()
            if at not in progress
        }
        for loss in found.losses:
            # Of a partition that is gone nothing is known any more; should it come again, it is another log.
            before, begin = progress[loss.topic_partition], found.begins.get(loss.topic_partition, 0)
            news[loss.topic_partition] = ProgressRecord(
                begin=begin, offset=begin, log=before.log + 1, behind=before.behind
            )
        stamps = await self._stamps({at: record.offset for at, record in news.items() if at in spans})
        return {
            at: ProgressRecord(
                begin=record.begin,
                offset=record.offset,
                log=record.log,
                behind=record.behind,
                stamp=stamps.get(at),
            )
            for at, record in news.items()
        }

    async def _look_again(
        self, partitions: list[TopicPartition], progress: Mapping[TopicPartition, ProgressRecord]
    ) -> tuple[Spans, Progress]:
        """Losses are believed when they are seen again: a broker that has just started may not know a topic."""
        there = set(partitions)
        # Of a partition that is not there and of which nothing was read nothing is lost.
        known_ones = {at: each for at, each in progress.items() if each.offset or at in there}
        start = StreamOffset(
            None,
            {at: record.offset for at, record in known_ones.items()},
            {at: record.stamp for at, record in known_ones.items() if record.stamp is not None},
        )
        for attempt in range(_LOOKS):
            if attempt:
                await asyncio.sleep(_PAUSE_S)
            spans = await self._spans(partitions)
            known = {at: span for at, span in spans.items() if at in progress}
            inside = {at: start.offsets[at] for at, span in known.items() if span.start < start.offsets[at] <= span.end}
            stamps = await self._stamps({at: offset for at, offset in inside.items() if at in start.stamps})
            strangers = find_strangers(start, stamps)
            compacted = {at.topic for at in strangers if await self._is_compacted(at.topic)}
            found = find_progress(start, known, stamps, compacted=compacted)
            if not found.losses:
                break
        return spans, found

    async def _spans(self, partitions: list[TopicPartition]) -> dict[TopicPartition, LogSpan]:
        starts = await self._admin.list_offsets(dict.fromkeys(partitions, EARLIEST))
        ends = await self.ends(partitions)
        return {at: LogSpan(starts[at].offset, max(ends[at], starts[at].offset)) for at in partitions}

    async def _stamps(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, Stamp]:
        headers = await headers_at(self._source, {at: offset - 1 for at, offset in offsets.items() if offset > 0})
        return {
            at: Stamp(header.base_offset, header.leader_epoch, header.crc)
            for at, header in headers.items()
            if header.base_offset < offsets[at]
        }

    async def _is_compacted(self, topic: str) -> bool:
        return "compact" in (await config_value(self._source, topic, "cleanup.policy") or "")
