"""What a query has lost, and where it goes on; offsets that travel through a checkpoint."""

import json

import pytest

from barnabas.pipeline.source.data_loss import (
    Loss,
    WrongCluster,
    check_cluster,
    clip_ranges,
    data_lost,
    find_progress,
    find_strangers,
)
from barnabas.pipeline.source.offsets import BadOffset, Stamp, StreamOffset, read_stream_offset
from barnabas.pipeline.source.planning import LogSpan, TopicRange
from barnabas.protocol.ids import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
STAMP = Stamp(base_offset=40, leader_epoch=3, crc=4_000_000_000)
AT_50 = StreamOffset("c", {T0: 50}, {T0: STAMP})


def test_an_offset_survives_the_checkpoint_and_equal_ones_have_equal_text() -> None:
    offset = StreamOffset("c", {T1: 7, T0: 50}, {T0: STAMP}, {T1: 0})
    again = StreamOffset("c", {T0: 50, T1: 7}, {T0: STAMP}, {T1: 0})
    text = json.dumps(offset.to_json())
    assert text == json.dumps(again.to_json())
    assert read_stream_offset(json.loads(text)) == offset


@pytest.mark.parametrize("found", [{}, {"version": 2}, {"version": 1, "offsets": {"t": 5}}, {"t": {"0": 5}}])
def test_an_offset_of_another_source_is_refused(found: dict[str, object]) -> None:
    with pytest.raises(BadOffset, match="the checkpoint has an offset that this source did not write"):
        read_stream_offset(found)


def test_a_log_that_grew_is_read_on() -> None:
    progress = find_progress(AT_50, {T0: LogSpan(50, 60)}, {T0: STAMP})
    assert (progress.begins, progress.moved, progress.losses) == ({T0: 50}, {}, [])


def test_a_new_partition_is_read_from_its_start() -> None:
    progress = find_progress(AT_50, {T0: LogSpan(0, 60), T1: LogSpan(0, 3)}, {})
    assert (progress.begins, progress.moved, progress.losses) == ({T0: 50, T1: 0}, {T1: 0}, [])


def test_a_new_partition_that_lost_its_first_records_is_a_loss() -> None:
    progress = find_progress(AT_50, {T0: LogSpan(0, 60), T1: LogSpan(2, 3)}, {})
    assert progress.begins[T1] == 2
    assert [loss.topic_partition for loss in progress.losses] == [T1]


@pytest.mark.parametrize(
    ("span", "stamp", "what"),
    [
        (LogSpan(51, 60), STAMP, "the log starts at 51; retention or DeleteRecords was faster"),
        (LogSpan(0, 49), None, "the log ends at 49; the topic was deleted and made anew"),
        (LogSpan(0, 60), STAMP._replace(crc=1), "the log is another one; the topic was deleted and made anew"),
        (LogSpan(0, 60), STAMP._replace(base_offset=41), "the log is another one"),
    ],
    ids=["retention", "shorter", "other content", "other batch"],
)
def test_records_that_are_gone_are_told_and_reading_goes_on_at_the_start(
    span: LogSpan, stamp: Stamp | None, what: str
) -> None:
    progress = find_progress(AT_50, {T0: span}, {} if stamp is None else {T0: stamp})
    (loss,) = progress.losses
    assert (loss.topic_partition, loss.offset) == (T0, 50)
    assert loss.what.startswith(what)
    assert progress.begins == progress.moved == {T0: span.start}


def test_a_partition_that_is_gone_is_a_loss_and_not_read() -> None:
    progress = find_progress(AT_50, {}, {})
    assert progress.begins == {}
    assert [(loss.topic_partition, loss.offset) for loss in progress.losses] == [(T0, 50)]


def test_compaction_may_give_a_batch_another_checksum() -> None:
    rewritten = {T0: STAMP._replace(crc=1)}
    assert find_strangers(AT_50, rewritten) == [T0]
    assert find_progress(AT_50, {T0: LogSpan(0, 60)}, rewritten, compacted={"t"}).losses == []
    other_epoch = {T0: STAMP._replace(crc=1, leader_epoch=0)}
    assert find_progress(AT_50, {T0: LogSpan(0, 60)}, other_epoch, compacted={"t"}).losses != []


def test_a_batch_that_nobody_saw_proves_nothing() -> None:
    assert find_progress(StreamOffset("c", {T0: 50}), {T0: LogSpan(0, 60)}, {T0: STAMP}).losses == []
    assert find_progress(AT_50, {T0: LogSpan(0, 60)}, {}).losses == []


def test_a_batch_query_reads_what_is_there_and_tells_what_is_not() -> None:
    spans = {T0: LogSpan(5, 60), T1: LogSpan(0, 9)}
    ranges, losses = clip_ranges({T0: 0, T1: 0}, {T0: 70, T1: 9}, spans)
    assert ranges == [TopicRange(T0, 5, 60), TopicRange(T1, 0, 9)]
    assert [str(loss) for loss in losses] == [
        "t-0 at offset 0: the log starts at 5",
        "t-0 at offset 70: the log ends at 60",
    ]
    assert clip_ranges({T0: 9, T1: 9}, {T0: 9, T1: 4}, spans) == ([], [])


def test_another_cluster_is_noticed() -> None:
    check_cluster("a", "a")
    check_cluster(None, "a")
    with pytest.raises(WrongCluster, match=r"checkpoint is of cluster a, and kafka\.bootstrap\.servers leads to b"):
        check_cluster("a", "b")


def test_an_error_names_each_loss_and_what_to_do() -> None:
    text = str(data_lost([Loss(T0, 50, "it is gone")] * 25))
    assert text.count("t-0 at offset 50: it is gone") == 20
    assert "and 5 more. Set failOnDataLoss=false" in text
