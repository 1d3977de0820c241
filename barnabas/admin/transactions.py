"""`barnabas txn`: which transactions there are, where they stand, which hang, and an end for those."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from barnabas.admin.failures import NOT_FOUND, CommandFailed
from barnabas.admin.options import Reach, cluster_options, complete_topics, confirm, output_option
from barnabas.admin.output import Column, Format, show_rows
from barnabas.admin.partition_arguments import named_partitions, parse_partition, require_partitions
from barnabas.client.transaction_admin import HangingTransaction, TransactionAdmin, TransactionDescription
from barnabas.protocol.ids import TopicPartition
from barnabas.runtime.clock import SystemClock

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster

_LIST_COLUMNS: Final = (
    Column("transactional_id", "TRANSACTIONAL ID"),
    Column("state", "STATE"),
    Column("producer_id", "PRODUCER", is_number=True),
    Column("coordinator", "COORDINATOR", is_number=True),
)
_DESCRIBE_COLUMNS: Final = (
    Column("transactional_id", "TRANSACTIONAL ID"),
    Column("state", "STATE"),
    Column("producer_id", "PRODUCER", is_number=True),
    Column("producer_epoch", "EPOCH", is_number=True),
    Column("timeout_ms", "TIMEOUT MS", is_number=True),
    Column("started", "STARTED"),
    Column("partitions", "PARTITIONS"),
    Column("coordinator", "COORDINATOR", is_number=True),
)
_HANGING_COLUMNS: Final = (
    Column("topic", "TOPIC"),
    Column("partition", "PARTITION", is_number=True),
    Column("start_offset", "START OFFSET", is_number=True),
    Column("producer_id", "PRODUCER", is_number=True),
    Column("producer_epoch", "EPOCH", is_number=True),
    Column("coordinator_epoch", "COORDINATOR EPOCH", is_number=True),
    Column("last", "LAST RECORD"),
    Column("transactional_id", "TRANSACTIONAL ID"),
)
_LONGEST_TRANSACTION_MINUTES: Final = 15.0


@click.group()
def txn() -> None:
    """Look at transactions, and abort what hangs."""


@txn.command("list")
@click.option("--state", "states", multiple=True, metavar="STATE", help="Only ids in this state; repeatable.")
@output_option
@cluster_options
def list_all(*, states: tuple[str, ...], reach: Reach, output: Format) -> None:
    """List the transactional ids with their states."""
    found = reach.run(lambda cluster: TransactionAdmin(cluster).list_transactions(states=states))
    rows = [
        {
            "transactional_id": each.transactional_id,
            "state": each.state,
            "producer_id": each.producer_id,
            "coordinator": each.coordinator,
        }
        for each in found
    ]
    show_rows(rows, _LIST_COLUMNS, output)


@txn.command()
@click.argument("ids", nargs=-1, required=True, metavar="TRANSACTIONAL_ID...")
@output_option
@cluster_options
def describe(*, ids: tuple[str, ...], reach: Reach, output: Format) -> None:
    """Show where transactional ids stand, and the partitions of their open transactions."""

    async def work(cluster: "Cluster") -> list[TransactionDescription]:
        return [await TransactionAdmin(cluster).describe(each) for each in ids]

    rows = [
        {
            "transactional_id": each.transactional_id,
            "state": each.state,
            "producer_id": each.producer_id,
            "producer_epoch": each.producer_epoch,
            "timeout_ms": each.timeout_ms,
            "started": _time(each.start_time_ms),
            "partitions": [str(at) for at in each.partitions],
            "coordinator": each.coordinator,
        }
        for each in reach.run(work)
    ]
    show_rows(rows, _DESCRIBE_COLUMNS, output)


@txn.command("find-hanging")
@click.argument("partitions", nargs=-1, metavar="[TOPIC[:PARTITION]]...", shell_complete=complete_topics)
@click.option(
    "--older-than",
    type=click.FloatRange(min=0),
    default=_LONGEST_TRANSACTION_MINUTES,
    show_default=True,
    metavar="MINUTES",
    help="Without a record for so long; transaction.max.timeout.ms of the brokers is the least.",
)
@output_option
@cluster_options
def find_hanging(*, partitions: tuple[str, ...], older_than: float, reach: Reach, output: Format) -> None:
    """Find transactions that are open in partitions, or in all, and that no coordinator will end."""
    found = reach.run(lambda cluster: _hanging(cluster, partitions, older_than))
    rows = [
        {
            "topic": each.partition.topic,
            "partition": each.partition.partition,
            "start_offset": each.producer.txn_start_offset,
            "producer_id": each.producer.producer_id,
            "producer_epoch": each.producer.producer_epoch,
            "coordinator_epoch": each.producer.coordinator_epoch,
            "last": _time(each.producer.last_timestamp),
            "transactional_id": each.transactional_id,
        }
        for each in found
    ]
    if rows or output is not Format.TABLE:
        show_rows(rows, _HANGING_COLUMNS, output)
    else:
        click.echo("no transaction hangs")


@txn.command()
@click.argument("partition", metavar="TOPIC:PARTITION", shell_complete=complete_topics)
@click.option("--start-offset", type=click.IntRange(min=0), help="Where it begins, as find-hanging shows it.")
@click.option("--producer-id", type=click.IntRange(min=0), help="Whose it is; for brokers that cannot tell.")
@click.option("--producer-epoch", type=click.IntRange(min=0), help="With --producer-id.")
@click.option("--coordinator-epoch", type=click.IntRange(min=-1), help="With --producer-id.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@cluster_options
def abort(
    *,
    partition: str,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
    yes: bool,
    reach: Reach,
) -> None:
    """Abort a hanging transaction in one partition, past its coordinator.

    What its coordinator may still commit in other partitions would be torn by that.
    """
    topic, number = parse_partition(partition)
    if number is None:
        raise click.UsageError(f"{partition!r} is not TOPIC:PARTITION")
    at = TopicPartition(topic, number)
    by_hand = (producer_id, producer_epoch, coordinator_epoch)
    if (start_offset is None) == (None in by_hand) or (start_offset is not None and by_hand != (None, None, None)):
        raise click.UsageError("say --start-offset, or --producer-id, --producer-epoch and --coordinator-epoch")
    given = None
    if producer_id is not None and producer_epoch is not None and coordinator_epoch is not None:
        given = _marker(producer_id, producer_epoch, coordinator_epoch)

    async def find(cluster: "Cluster") -> dict[str, int]:
        await require_partitions(cluster, [at])
        if given is not None:
            return given
        for each in (await TransactionAdmin(cluster).producers([at]))[at]:
            if each.txn_start_offset == start_offset:
                return _marker(each.producer_id, each.producer_epoch, each.coordinator_epoch)
        raise CommandFailed(
            f"{at}: no open transaction begins at offset {start_offset}",
            status=NOT_FOUND,
            hint="`barnabas txn find-hanging` shows those that hang",
        )

    marker = reach.run(find)
    if not yes:
        confirm(f"{at}: the transaction of producer {marker['producer_id']} is aborted")
    reach.run(lambda cluster: TransactionAdmin(cluster).abort(at, **marker))


def _marker(producer_id: int, producer_epoch: int, coordinator_epoch: int) -> dict[str, int]:
    return {
        "producer_id": producer_id,
        "producer_epoch": producer_epoch,
        "coordinator_epoch": coordinator_epoch,
    }


async def _hanging(cluster: "Cluster", named: tuple[str, ...], minutes: float) -> list[HangingTransaction]:
    if named:
        partitions = await named_partitions(cluster, named)
    else:
        topics = (await cluster.metadata(None)).topics
        partitions = [TopicPartition(name, each) for name in sorted(topics) for each in topics[name].partitions]
    return await TransactionAdmin(cluster).find_hanging(
        partitions, older_than_ms=int(minutes * 60_000), now_ms=SystemClock().wall_ms()
    )


def _time(time_ms: int) -> Any:
    if time_ms < 0:
        return None
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
