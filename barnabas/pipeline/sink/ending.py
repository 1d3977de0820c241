"""The driver's part of a transactional write: it decides, and ends the transactions that the tasks have prepared.

    task i    InitProducerId . read mark . write rows . write mark . flush -> report          (transaction i is open)
    driver                                                                   check . decision . EndTxn 0 . EndTxn 1 ...

What holds exactly once is the task's mark (marks.py): it is committed with the rows or not at all. A batch that Spark
replays is known by its number, and a task whose mark says so writes nothing, but looks whether its rows are the same.
Each task of a run has one transactional id, so that whoever writes batch N of task i has fenced all who tried before.

What a kill does, of a worker or of the driver, and Spark then tries the task or the batch again:

- in a task before its report: the transaction is open with some of the rows. The next attempt's InitProducerId aborts
  it, else its time-out. A former attempt that still lives is fenced: it can neither write nor be committed.
- after reports, before the decision: transactions are prepared. The replay's InitProducerId aborts them.
- after the decision, before the first EndTxn: the same. The decision only holds the number of tasks.
- between two EndTxn: some tasks' rows are there with their marks. In the replay these tasks see their marks, and the
  others write. Their leftovers are aborted as above.
- while an EndTxn is carried out: InitProducerId waits until it has ended (CONCURRENT_TRANSACTIONS), and the mark is
  read when no commit is on its way (OffsetFetch with require_stable).
- after all EndTxn, before Spark's own commit log: every task of the replay sees its mark.

A transaction that its time-out ended before the driver could (transaction.timeout.ms) makes the commit fail, and the
batch is replayed as above. Speculative attempts fence each other too: where one takes over after another one's report,
the commit fails, and the replay mends it; `spark.speculation` is better left off.

What would break it is looked at and refused (ReplayRefused): rows that are others in a replay, by count and checksum; a
replay in another number of tasks, as a row of a committed task could come in another one, by the decision; batches
older than what is committed, as with an old copy of a checkpoint. What cannot be seen: marks and decisions expire as
all offsets do, `offsets.retention.minutes` (7 days) after they were written. A replay has to come before that.

A batch write without txnAppId has no number: each of its transactions is committed or not, and nothing is replayed. The
driver ends them all at the end; where it is killed meanwhile, only some are committed. As no replay takes the ids of
its tasks over, a driver that gives the write up does.
"""

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, Final

from barnabas.client.cluster import Cluster
from barnabas.client.coordinators import GroupMetadata, OffsetAndMetadata
from barnabas.client.errors import ClientError
from barnabas.client.prepared_transactions import complete_transaction
from barnabas.client.producer import Producer
from barnabas.client.producer_options import ProducerOptions
from barnabas.pipeline.connecting import connect, reach
from barnabas.pipeline.sink.marks import PLACE, Decision, RunName, check_decision, read_decision
from barnabas.pipeline.sink.options import SinkOptions
from barnabas.pipeline.sink.task_writer import Task, TaskReport, cluster_options, group_offsets

log = logging.getLogger(__name__)

_AT_ONCE: Final = 64
"""How many transactions are ended at a time."""


class CommitIncomplete(Exception):
    """Some of the tasks' transactions could not be committed; the text says how many, and why."""


async def commit_tasks(options: SinkOptions, reports: Sequence[TaskReport]) -> None:
    """Commit what the tasks have prepared. Raises CommitIncomplete, ReplayRefused or ClientError."""
    run = next((each.task.run for each in reports if each.task is not None), None)
    if run is None:
        return
    async with connect(options.bootstrap_servers, cluster_options(options.sending)) as cluster:
        await reach(cluster)
        if run.number is not None:
            await _decide(cluster, run, Decision(run.number, len(reports)))
        failures = await _end_all(cluster, reports, commit=True)
    rows = sum(each.rows for each in reports)
    if failures:
        count = sum(each.prepared is not None for each in reports)
        again = "what is not committed is lost"
        if run.number is not None:
            again = "a replay of the batch writes what is missing, and nothing twice"
        raise CommitIncomplete(
            f"{run.group_id}: {len(failures)} of {count} transactions could not be committed; {again}. The first: "
            f"{failures[0]}"
        ) from failures[0]
    log.info("%s: batch %s is committed: %d rows of %d tasks", run.group_id, run.number, rows, len(reports))


async def abort_tasks(options: SinkOptions, reports: Sequence[TaskReport], lost: Sequence[Task] = ()) -> None:
    """Abort what the tasks have prepared, and what those `lost` left open that did not report.

    As far as it can be: the rest is left to its time-out, before which who reads committed records waits.
    """
    if not lost and not any(each.prepared for each in reports):
        return
    async with connect(options.bootstrap_servers, cluster_options(options.sending)) as cluster:
        try:
            await reach(cluster)
        except ClientError as error:
            log.warning("the tasks' transactions are left to their time-out: %s", error)
            return
        failures = await _end_all(cluster, reports, commit=False)
        failures += await _take_over_all(cluster, options, lost)
        for failure in failures:
            log.warning("a task's transaction was not aborted: %s", failure)


async def _decide(cluster: Cluster, run: RunName, decision: Decision) -> None:
    """Write the decision down, unless it was written before. Raises ReplayRefused."""
    offsets = group_offsets(cluster, run.group_id)
    found = (await offsets.committed([PLACE], must_be_stable=True)).get(PLACE)
    before = None if found is None else read_decision(found.offset, found.metadata, group_id=run.group_id)
    if not check_decision(before, decision, group_id=run.group_id):
        written_down = OffsetAndMetadata(decision.number + 1, metadata=decision.metadata())
        await offsets.begin_commit({PLACE: written_down}, lambda: GroupMetadata(run.group_id))


async def _end_all(cluster: Cluster, reports: Sequence[TaskReport], *, commit: bool) -> list[ClientError]:
    """End every prepared transaction."""
    return await _try_all(
        complete_transaction(cluster, each.prepared, commit=commit) for each in reports if each.prepared is not None
    )


async def _take_over_all(cluster: Cluster, options: SinkOptions, tasks: Sequence[Task]) -> list[ClientError]:
    """End what tasks have open, without knowing of it, and fence those that still run."""

    async def take_over(task: Task) -> None:
        wanted = ProducerOptions(
            transactional_id=task.transactional_id, transaction_timeout_ms=options.transaction_timeout_ms
        )
        async with Producer(cluster, options=wanted) as producer:
            await producer.init_transactions()

    return await _try_all(take_over(each) for each in tasks)


async def _try_all(attempts: Iterable[Coroutine[Any, Any, None]]) -> list[ClientError]:
    """Try all, some at a time, and return what went wrong."""
    free = asyncio.Semaphore(_AT_ONCE)
    failures: list[ClientError] = []

    async def attempt(work: Coroutine[Any, Any, None]) -> None:
        async with free:
            try:
                await work
            except ClientError as error:
                failures.append(error)

    await asyncio.gather(*map(attempt, attempts))
    return failures
