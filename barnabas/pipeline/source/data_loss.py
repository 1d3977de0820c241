"""When records that a query should have read are gone, and where it goes on if it may. Pure.

Gaps inside a log (compaction, transaction markers) are no loss. With failOnDataLoss a loss ends the query before
anything of the batch is read; without it each is logged and reading goes on at the first record that is there. After a
topic was made anew, or a log lost its end, that is the start of the log: nothing of what is there is left out, and
after a lost end rows come twice.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from barnabas.pipeline.source.offsets import Stamp, StreamOffset
from barnabas.pipeline.source.planning import LogSpan, Spans, TopicRange
from barnabas.protocol.ids import TopicPartition


class DataLost(Exception):
    """Records that should have been read are gone, and failOnDataLoss is true."""


class WrongCluster(Exception):
    """The brokers belong to another cluster than the one that the checkpoint is of."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Something that is gone: in which partition, at which offset, and in words."""

    topic_partition: TopicPartition
    offset: int
    what: str

    def __str__(self) -> str:
        return f"{self.topic_partition} at offset {self.offset}: {self.what}"


@dataclass(frozen=True, slots=True)
class Progress:
    """Where the next batch begins in every partition, which of these differ from where the last one ended, losses."""

    begins: Mapping[TopicPartition, int]
    moved: Mapping[TopicPartition, int]
    losses: list[Loss]


def data_lost(losses: Iterable[Loss]) -> DataLost:
    """The error for losses that end a query."""
    told = list(losses)
    return DataLost(
        f"records that the query has not read are gone: {'; '.join(map(str, told[:20]))}"
        + (f" and {len(told) - 20} more" if len(told) > 20 else "")
        + ". Set failOnDataLoss=false to go on with what is there."
    )


def check_cluster(expected: str | None, found: str | None) -> None:
    """Raise WrongCluster unless both are the same cluster, as far as ids are known."""
    if expected is not None and found is not None and expected != found:
        raise WrongCluster(
            f"the checkpoint is of cluster {expected}, and kafka.bootstrap.servers leads to {found}: its offsets mean "
            "nothing there; give the right address, or a new checkpoint"
        )


def find_strangers(start: StreamOffset, stamps: Mapping[TopicPartition, Stamp]) -> list[TopicPartition]:
    """The partitions whose batch before the offset of `start` has changed: `stamps` holds what could be looked at.

    Where the batch is not there any more, nothing is proved.
    """
    return [each for each, stamp in stamps.items() if start.stamps.get(each, stamp) != stamp]


def find_progress(
    start: StreamOffset, spans: Spans, stamps: Mapping[TopicPartition, Stamp], *, compacted: Collection[str] = ()
) -> Progress:
    """Where to go on from `start` in the partitions that there are now; `compacted` are topics that are compacted."""
    others = {
        each
        for each in find_strangers(start, stamps)
        if not start.stamps[each].is_of_same_log(stamps[each], is_compacted=each.topic in compacted)
    }
    begins: dict[TopicPartition, int] = {}
    losses = [
        Loss(each, offset, "the partition is gone; its topic was deleted, or is not read any more")
        for each, offset in start.offsets.items()
        if each not in spans
    ]
    for each, span in spans.items():
        offset = start.offsets.get(each)
        begins[each] = span.start if offset is None else offset
        what = _loss_of_new(span) if offset is None else _loss_of_known(span, offset, is_other_log=each in others)
        if what is not None:
            losses.append(Loss(each, offset or 0, what))
            begins[each] = span.start
    moved = {each: begin for each, begin in begins.items() if start.offsets.get(each) != begin}
    return Progress(begins, moved, losses)


def _loss_of_new(span: LogSpan) -> str | None:
    if span.start > 0:
        return f"the partition is new to the query, and its log starts at {span.start} already"
    return None


def _loss_of_known(span: LogSpan, offset: int, *, is_other_log: bool) -> str | None:
    if span.end < offset:
        return f"the log ends at {span.end}; the topic was deleted and made anew, or the log lost its end"
    if is_other_log:
        return "the log is another one; the topic was deleted and made anew, or the log lost its end"
    if span.start > offset:
        return f"the log starts at {span.start}; retention or DeleteRecords was faster than the query"
    return None


def clip_ranges(
    begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], spans: Spans
) -> tuple[list[TopicRange], list[Loss]]:
    """The ranges of a batch query within what the logs hold, and what of them is not there."""
    ranges: list[TopicRange] = []
    losses: list[Loss] = []
    for each, span in spans.items():
        begin, end = begins[each], ends[each]
        if begin >= end:
            continue
        if begin < span.start:
            losses.append(Loss(each, begin, f"the log starts at {span.start}"))
        if end > span.end:
            losses.append(Loss(each, end, f"the log ends at {span.end}"))
        clipped = TopicRange(each, max(begin, span.start), min(end, span.end))
        if clipped.size > 0:
            ranges.append(clipped)
    return ranges, losses
