"""What a batch query reads: planned once, on the driver."""

import logging

from barnabas.pipeline.source.cluster_view import ClusterView
from barnabas.pipeline.source.data_loss import Loss, clip_ranges, data_lost
from barnabas.pipeline.source.filters import Pushed
from barnabas.pipeline.source.options import SourceOptions
from barnabas.pipeline.source.planning import (
    NO_RECORD,
    TopicRange,
    questions,
    resolve_end,
    resolve_start,
    split_ranges,
)

log = logging.getLogger(__name__)


async def plan_batch(view: ClusterView, options: SourceOptions, pushed: Pushed) -> list[TopicRange]:
    """The tasks of a batch query.

    Raises ClientError, OptionError, EdgeError, and DataLost where offsets that are asked for are not there.
    """
    partitions = await view.partitions(all_must_exist=True)
    spans = await view.spans(partitions)
    starts = await view.offsets_at(questions(options.start, partitions))
    ends = await view.offsets_at(questions(options.end, partitions))
    begins = resolve_start(options.start, spans, starts, latest_without_record=options.start_at_latest_without_record)
    ranges, losses = clip_ranges(begins, resolve_end(options.end, spans, ends), spans)
    report(losses, options)
    ranges = await _narrow(view, ranges, pushed)
    segments = None
    if options.min_partitions is not None and options.min_partitions > len(ranges):
        # In a stream cuts stay even: a batch that comes again must be cut as before, and segments go and are merged.
        segments = await view.segment_starts(each.topic_partition for each in ranges)
    return split_ranges(
        ranges,
        min_partitions=options.min_partitions,
        max_records=options.max_records_per_partition,
        segment_starts=segments,
    )


def report(losses: list[Loss], options: SourceOptions) -> None:
    """Raise DataLost, or log each loss where the query goes on without."""
    if losses and options.fail_on_data_loss:
        raise data_lost(losses)
    for loss in losses:
        log.warning("data was lost, and failOnDataLoss is false: %s", loss)


async def _narrow(view: ClusterView, ranges: list[TopicRange], pushed: Pushed) -> list[TopicRange]:
    """Leave out what the predicates that were taken over exclude."""
    wanted = [each for each in ranges if pushed.wants(each.topic_partition)]
    since = {}
    if pushed.since_ms is not None:
        since = await view.offsets_at({each.topic_partition: pushed.since_ms for each in wanted})
    narrowed = []
    for each in wanted:
        first = since.get(each.topic_partition, each.start)
        end = each.end if pushed.end_offset is None else min(each.end, pushed.end_offset)
        start = end if first == NO_RECORD else max(each.start, first, pushed.least_offset or 0)
        if start < end:
            narrowed.append(TopicRange(each.topic_partition, start, end))
    return narrowed
