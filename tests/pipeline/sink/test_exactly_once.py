"""What tasks and drivers leave that are killed at each step, on a real broker: every batch is there once."""

import asyncio
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

from barnabas.client.cluster import open_cluster
from barnabas.client.coordinators import GroupMetadata, OffsetAndMetadata
from barnabas.client.errors import ProducerFenced
from barnabas.client.prepared_transactions import PreparedTransaction, complete_transaction
from barnabas.client.producer import Producer
from barnabas.client.transaction_admin import TransactionAdmin
from barnabas.pipeline.sink.ending import CommitIncomplete, abort_tasks, commit_tasks
from barnabas.pipeline.sink.marks import PLACE, ReplayRefused, RunName
from barnabas.pipeline.sink.options import SinkOptions, parse_batch_options
from barnabas.pipeline.sink.packing import PackedBatch, Packer
from barnabas.pipeline.sink.rows import read_rows
from barnabas.pipeline.sink.task_writer import Task, TaskReport, TopicWriter, group_offsets, write_task
from barnabas.protocol.batch import Codec
from barnabas.runtime.loop_thread import LoopThread
from tests.compatibility.brokers import RunningBroker
from tests.pipeline.sink.topics import read_topic, values

TASKS = 3


class Query:
    """A query that writes batches of rows, each task its own, as Spark would let it."""

    def __init__(self, broker: RunningBroker, *, prefix: str = "sink", **options: str) -> None:
        self.broker = broker
        self.topic = broker.new_topic(partitions=2)
        given = {"kafka.bootstrap.servers": broker.bootstrap, "topic": self.topic, "transactionalIdPrefix": prefix}
        self.options: SinkOptions = parse_batch_options(given | options)
        self.prefix = prefix

    def task(self, number: int, batch: int) -> Task:
        return Task(RunName(self.prefix, self.topic, batch), number)

    def write(self, batch: int, tasks: Iterable[int] = range(TASKS)) -> list[TaskReport]:
        return [write_task([rows_of(batch, task)], self.options, self.task(task, batch)) for task in tasks]

    def commit(self, reports: Sequence[TaskReport]) -> None:
        asyncio.run(commit_tasks(self.options, reports))

    def abort(self, reports: Sequence[TaskReport]) -> None:
        asyncio.run(abort_tasks(self.options, reports))

    def end(self, *reports: TaskReport, commit: bool = True) -> None:
        """End the transactions of some tasks, as a driver that is killed then."""

        async def work() -> None:
            async with open_cluster(self.broker.bootstrap) as cluster:
                for each in reports:
                    assert each.prepared is not None
                    await complete_transaction(cluster, each.prepared, commit=commit)

        asyncio.run(work())

    async def send_after(self) -> None:
        """A record without a transaction in each partition: whoever reads it waits for no transaction before it."""
        async with open_cluster(self.broker.bootstrap) as cluster, Producer(cluster) as producer:
            await (await producer.send(self.topic, None, b"after", partition=0))

    async def state_of(self, transactional_id: str) -> str:
        async with open_cluster(self.broker.bootstrap) as cluster:
            return (await TransactionAdmin(cluster).describe(transactional_id)).state

    def begin_and_die(self, batch: int, task: int) -> PreparedTransaction:
        """A worker that is killed when all of its rows are written, and before it reports."""
        with LoopThread("dying") as loop:
            writer = TopicWriter(self.options, self.task(task, batch))
            loop.run(writer.open())
            loop.run(writer.send(self.packed(batch, task)))
            assert writer._producer is not None
            return loop.run(writer._producer.prepare_transaction())

    def packed(self, batch: int, task: int) -> list[PackedBatch]:
        packer = Packer(batch_bytes=1000, codec=Codec.NONE, random=random.Random(1))
        return list(packer.pack(read_rows(rows_of(batch, task), topic=self.topic), {self.topic: 2}, now_ms=0))

    def written(self, *, is_committed: bool = True) -> list[bytes]:
        return values(read_topic(self.broker, self.topic, is_committed=is_committed))


def rows_of(batch: int, task: int, *, count: int = 20, mark: str = "") -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array([f"{batch}/{task}/{row}{mark}".encode() for row in range(count)])})


def expected(*batches: int) -> list[bytes]:
    tables = [rows_of(batch, task) for batch in batches for task in range(TASKS)]
    return sorted(value for table in tables for value in table["value"].to_pylist())


@pytest.fixture
def query(broker: RunningBroker) -> Query:
    query = Query(broker)
    query.commit(query.write(0))
    return query


def test_batches_are_seen_when_they_are_committed(query: Query) -> None:
    reports = query.write(1)
    assert query.written() == expected(0)
    assert query.written(is_committed=False) == expected(0, 1)
    query.commit(reports)
    assert query.written() == expected(0, 1)


def test_a_batch_that_is_aborted_is_never_seen(query: Query) -> None:
    query.abort(query.write(1))
    assert query.written() == expected(0)
    assert query.written(is_committed=False) == expected(0, 1)
    query.commit(query.write(2))
    assert query.written() == expected(0, 2)


def test_a_worker_that_is_killed_before_it_reports_leaves_nothing(query: Query) -> None:
    query.begin_and_die(1, task=1)
    query.commit(query.write(1))
    assert query.written() == expected(0, 1)


def test_what_a_killed_task_left_open_is_aborted_with_the_others(query: Query) -> None:
    reports = query.write(1, [0])
    query.begin_and_die(1, 1)
    asyncio.run(abort_tasks(query.options, reports, [query.task(1, 1), query.task(2, 1)]))
    asyncio.run(query.send_after())
    assert query.written() == sorted([*expected(0), b"after"])


def test_a_task_that_fails_aborts_what_it_wrote(query: Query) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield rows_of(1, 0)
        while len(query.written(is_committed=False)) < len(expected(0)) + 20:
            """They are on their way while the task waits for more."""
        raise ZeroDivisionError

    options = replace(query.options, sending=replace(query.options.sending, linger_ms=0))
    with pytest.raises(ZeroDivisionError):
        write_task(failing(), options, query.task(0, 1))
    assert asyncio.run(query.state_of(query.task(0, 1).transactional_id)) in {"PrepareAbort", "CompleteAbort"}
    query.commit(query.write(1))
    assert query.written() == expected(0, 1)


def test_a_driver_that_is_killed_before_it_ends_a_transaction_leaves_nothing(query: Query) -> None:
    query.write(1)
    query.commit(query.write(1))
    assert query.written() == expected(0, 1)


@pytest.mark.parametrize("ended", [(0,), (2,), (0, 1), (0, 1, 2)])
def test_a_driver_that_is_killed_between_two_ends_writes_the_others_again(query: Query, ended: tuple[int, ...]) -> None:
    reports = query.write(1)
    query.end(*[reports[task] for task in ended])
    again = query.write(1)
    assert [each.task.number for each in again if each.task and not each.prepared] == list(ended)
    query.commit(again)
    assert query.written() == expected(0, 1)
    query.commit(query.write(2))
    assert query.written() == expected(0, 1, 2)


def test_a_replay_that_meets_a_commit_on_its_way_sees_it_or_ends_it(query: Query) -> None:
    for batch in range(1, 6):
        reports = query.write(batch)
        with LoopThread("late driver") as loop:

            async def begin() -> "asyncio.Task[None]":
                return asyncio.create_task(commit_tasks(query.options, reports))  # noqa: B023 - it ends in this turn

            late = loop.run(begin())
            query.commit(query.write(batch))

            async def ended() -> None:
                await asyncio.wait([late])  # noqa: B023

            loop.run(ended())
            # It committed all, or was fenced by the replay.
            assert late.exception() is None or isinstance(late.exception(), CommitIncomplete)
    assert query.written() == expected(*range(6))


def test_a_zombie_can_neither_write_nor_be_committed(query: Query) -> None:
    zombie = query.begin_and_die(1, task=0)
    with LoopThread("zombie") as loop:
        late = TopicWriter(query.options, query.task(1, 1))
        loop.run(late.open())
        reports = query.write(1)
        loop.run(late.send(query.packed(1, 1)))
        with pytest.raises(ProducerFenced):
            loop.run(late.finish(20, 0))
        loop.run(late.close())
    others = [TaskReport(query.task(task, 1), None, 0) for task in (1, 2)]
    with pytest.raises(CommitIncomplete, match="1 of 1 transactions could not be committed; a replay of the batch"):
        query.commit([TaskReport(query.task(0, 1), zombie, 20), *others])
    query.commit(reports)
    assert query.written() == expected(0, 1)


def test_a_transaction_whose_time_is_over_is_written_again(broker: RunningBroker) -> None:
    query = Query(broker, **{"kafka.transaction.timeout.ms": "1000"})
    reports = query.write(0)

    async def timed_out() -> None:
        for each in reports:
            assert each.prepared is not None
            while await query.state_of(each.prepared.transactional_id) != "CompleteAbort":  # noqa: ASYNC110
                await asyncio.sleep(0.1)

    asyncio.run(timed_out())
    with pytest.raises(CommitIncomplete, match="3 of 3 transactions"):
        query.commit(reports)
    assert query.written() == []
    query.options = replace(query.options, transaction_timeout_ms=60_000)
    query.commit(query.write(0))
    assert query.written() == expected(0)


def test_rows_that_are_others_in_a_replay_are_refused(query: Query) -> None:
    reports = query.write(1)
    query.end(reports[0])
    for other in (rows_of(1, 0, count=21), rows_of(1, 0, mark="!"), rows_of(1, 0, count=0)):
        with pytest.raises(ReplayRefused, match=f"sink/{query.topic}/0 has committed batch 1 with rows=20"):
            write_task([other], query.options, query.task(0, 1))
    order = rows_of(1, 0).take(pa.array(range(19, -1, -1)))
    assert write_task([order.slice(0, 7), order.slice(7)], query.options, query.task(0, 1)).prepared is None
    query.commit(query.write(1))
    assert query.written() == expected(0, 1)


def test_a_replay_in_another_number_of_tasks_is_refused(query: Query) -> None:
    reports = query.write(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("barnabas.pipeline.sink.ending._end_all", _killed)
        with pytest.raises(SystemExit):
            query.commit(reports)
    query.end(reports[2])
    fewer = query.write(1, range(2))
    with pytest.raises(ReplayRefused, match=r"batch 1 was written by 3 tasks.*comes again in 2"):
        query.commit(fewer)
    query.abort(fewer)
    query.commit(query.write(1))
    assert query.written() == expected(0, 1)


async def _killed(*_: object, **__: object) -> None:
    raise SystemExit


def test_batches_older_than_what_is_committed_are_refused(query: Query) -> None:
    query.commit(query.write(1))
    with pytest.raises(ReplayRefused, match="has committed batch 1, and now batch 0 comes: the checkpoint is older"):
        query.write(0)
    assert query.written() == expected(0, 1)


def test_tasks_without_rows_leave_no_transaction(query: Query) -> None:
    nothing = [write_task([], query.options, query.task(task, 1)) for task in range(TASKS)]
    assert [each.prepared for each in nothing] == [None] * TASKS
    query.commit(nothing)
    query.commit(query.write(2))
    assert query.written() == expected(0, 2)


def test_two_queries_with_one_prefix_do_not_meet(broker: RunningBroker) -> None:
    one, other = Query(broker), Query(broker)
    reports = [one.write(0), other.write(0)]
    one.commit(reports[0])
    other.commit(reports[1])
    assert one.written() == other.written() == expected(0)


def test_a_group_of_others_is_not_taken_for_a_mark(query: Query) -> None:
    async def commit() -> None:
        async with open_cluster(query.broker.bootstrap) as cluster:
            group = query.task(0, 1).transactional_id
            offsets = {PLACE: OffsetAndMetadata(7)}
            await group_offsets(cluster, group).begin_commit(offsets, lambda: GroupMetadata(group))

    asyncio.run(commit())
    with pytest.raises(ReplayRefused, match="which this sink did not write; choose another transactionalIdPrefix"):
        query.write(1)
