"""What a task does: it reads a range, notices what is gone, and does not wait for ever."""

import pytest

from barnabas.client.errors import ClientError
from barnabas.client.range_reader import FetchedBatches
from barnabas.pipeline.columns.decoder import ColumnDecoder
from barnabas.pipeline.source.data_loss import DataLost
from barnabas.pipeline.source.offsets import Stamp
from barnabas.pipeline.source.options import SourceOptions, parse_batch_options
from barnabas.pipeline.source.planning import TopicRange
from barnabas.pipeline.source.range_task import PlannedRange, ReadStalled, fetch_range, next_answer
from barnabas.protocol.entries import iterate_entries
from tests.unit.client.small_cluster import Asked, Hangup, SmallCluster
from tests.unit.pipeline.source.topics import T0, delete_records, fill, make_anew, options_of


def options(small: SmallCluster, **given: str) -> SourceOptions:
    return parse_batch_options(options_of(small, **given))


async def offsets_of(planned: PlannedRange, wanted: SourceOptions) -> list[int]:
    answers = fetch_range(planned, wanted)
    decoder = ColumnDecoder(T0, ("offset",))
    found: list[int] = []
    try:
        while (answer := await next_answer(answers, planned, wanted.fetching)) is not None:
            assert isinstance(answer, FetchedBatches)
            for batch in decoder.decode(answer.record_set, start=answer.start, end=answer.end, aborted=answer.aborted):
                found += batch.column("offset").to_pylist()
    finally:
        await answers.aclose()
    return found


def stamp_of_last(small: SmallCluster) -> Stamp:
    ((_, header),) = iterate_entries(small.logs[T0].batches[-1])
    return Stamp(header.base_offset, header.leader_epoch, header.crc)


@pytest.fixture(autouse=True)
def topic(small: SmallCluster) -> None:
    small.add_topic("t")
    fill(small, T0, 10)


async def test_a_range_is_read_in_small_answers(small: SmallCluster) -> None:
    wanted = options(small, **{"kafka.max.partition.fetch.bytes": "200", "maxBytesInFlight": "400"})
    assert await offsets_of(PlannedRange(TopicRange(T0, 3, 42)), wanted) == list(range(3, 42))


async def test_brokers_that_are_being_started_again_are_waited_for(small: SmallCluster) -> None:
    refused = 0

    def start_slowly(asked: Asked) -> None:
        nonlocal refused
        if refused < 3:
            refused += 1
            raise Hangup

    small.on_request = start_slowly
    planned = PlannedRange(TopicRange(T0, 3, 42))
    assert await offsets_of(planned, options(small)) == list(range(3, 42))
    assert refused == 3


async def test_a_log_that_starts_later_ends_the_task_or_is_read_from_its_start(small: SmallCluster) -> None:
    delete_records(small, T0, 20)
    planned = PlannedRange(TopicRange(T0, 3, 42))
    with pytest.raises(DataLost, match="t-0 at offset 3: the log starts at 20"):
        await offsets_of(planned, options(small))
    assert await offsets_of(planned, options(small, failOnDataLoss="false")) == list(range(20, 42))


async def test_a_log_that_lost_all_ends_the_task_or_gives_nothing(small: SmallCluster) -> None:
    small.logs[T0].batches.clear()
    small.logs[T0].end_offset = 2
    planned = PlannedRange(TopicRange(T0, 3, 42))
    with pytest.raises(DataLost, match="t-0 at offset 3"):
        await offsets_of(planned, options(small))
    assert await offsets_of(planned, options(small, failOnDataLoss="false")) == []


async def test_a_log_that_was_made_anew_since_it_was_planned_ends_the_task(small: SmallCluster) -> None:
    planned = PlannedRange(TopicRange(T0, 0, 50), stamp_of_last(small))
    assert await offsets_of(planned, options(small)) == list(range(50))
    make_anew(small, T0, 10)
    with pytest.raises(DataLost, match="t-0 at offset 49: the log is another one than when this was planned"):
        await offsets_of(planned, options(small))
    assert await offsets_of(planned, options(small, failOnDataLoss="false")) == list(range(50))


async def test_an_end_that_never_comes_is_not_waited_for(small: SmallCluster) -> None:
    wanted = options(small, **{"kafka.default.api.timeout.ms": "200", "kafka.fetch.max.wait.ms": "20"})
    with pytest.raises(ReadStalled, match="t-0: nothing came for 300 ms while offsets 0 to 60 were read"):
        await offsets_of(PlannedRange(TopicRange(T0, 0, 60)), wanted)


async def test_brokers_that_are_not_there_are_told(small: SmallCluster) -> None:
    wanted = options(small, **{"kafka.bootstrap.servers": "127.0.0.1:1"})
    with pytest.raises(ClientError, match=r"127\.0\.0\.1:1"):
        await offsets_of(PlannedRange(TopicRange(T0, 0, 5)), wanted)
