"""`barnabas topics`: list, describe, create, delete, add-partitions."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from barnabas.admin.failures import CommandFailed, explain, report
from barnabas.admin.health import DEFAULT_MIN_ISR, is_unavailable, is_under_min_isr, is_under_replicated
from barnabas.admin.options import Reach, cluster_options, complete_topics, confirm, output_option, parse_pairs
from barnabas.admin.output import Column, Format, show_document, show_rows
from barnabas.client.admin import EARLIEST, LATEST, Admin, ConfigSource, NewTopic, Outcomes
from barnabas.client.errors import KafkaError
from barnabas.client.replica_admin import ReplicaAdmin
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster
    from barnabas.client.metadata import PartitionMetadata, TopicMetadata

_LIST_COLUMNS: Final = (
    Column("topic", "TOPIC"),
    Column("partitions", "PARTITIONS", is_number=True),
    Column("replication_factor", "REPLICAS", is_number=True),
    Column("internal", "INTERNAL"),
)
_PARTITION_COLUMNS: Final = (
    Column("partition", "PARTITION", is_number=True),
    Column("leader", "LEADER", is_number=True),
    Column("leader_epoch", "EPOCH", is_number=True),
    Column("replicas", "REPLICAS"),
    Column("isr", "ISR"),
)
_FAULTY_COLUMNS: Final = (Column("topic", "TOPIC"), *_PARTITION_COLUMNS, Column("offline_replicas", "OFFLINE"))
_OFFSET_COLUMNS: Final = (
    Column("start_offset", "START", is_number=True),
    Column("end_offset", "END", is_number=True),
)
_CONFIG_COLUMNS: Final = (Column("name", "KEY"), Column("value", "VALUE"), Column("source", "SOURCE"))
_NO_HINTS: Final[Mapping[ErrorCode, str]] = {}
_DELETION_GOES_ON: Final = (
    "the deletion stands and goes on by itself: a topic whose replicas move goes after the move (`barnabas reassign "
    "status`), replicas of brokers that are away when these are back"
)


@click.group()
def topics() -> None:
    """List, describe, create, delete and extend topics."""


@topics.command("list")
@output_option
@cluster_options
def list_topics(*, reach: Reach, output: Format) -> None:
    """List the cluster's topics."""

    async def work(cluster: "Cluster") -> list[dict[str, Any]]:
        found = (await cluster.metadata(None)).topics
        return [_summary(found[name]) for name in sorted(found)]

    show_rows(reach.run(work), _LIST_COLUMNS, output)


@topics.command()
@click.argument("names", nargs=-1, metavar="[TOPIC]...", shell_complete=complete_topics)
@click.option("--offsets", is_flag=True, help="Also the first and the next offset of each partition.")
@click.option("--all-configs", is_flag=True, help="Also the configuration keys that have their default.")
@click.option(
    "--under-replicated", "fault", flag_value="under-replicated", help="Partitions with replicas not in sync."
)
@click.option("--unavailable", "fault", flag_value="unavailable", help="Partitions without a leader.")
@click.option("--under-min-isr", "fault", flag_value="under-min-isr", help="Partitions that refuse acks=all.")
@output_option
@cluster_options
def describe(
    *, names: tuple[str, ...], offsets: bool, all_configs: bool, fault: str | None, reach: Reach, output: Format
) -> None:
    """Show partitions, leaders, replicas and configuration of topics.

    With a fault only the partitions that have it, of all topics where none is named.
    """
    if fault is not None:
        show_rows(reach.run(lambda cluster: _faulty(cluster, names, fault)), _FAULTY_COLUMNS, output)
        return
    if not names:
        raise click.UsageError("name topics, or ask for --under-replicated, --unavailable or --under-min-isr")

    async def work(cluster: "Cluster") -> list[dict[str, Any]]:
        return [
            await _describe(cluster, name, with_offsets=offsets, all_configs=all_configs)
            for name in dict.fromkeys(names)
        ]

    described = reach.run(work)
    if output is not Format.TABLE:
        show_document(described, output)
        return
    for place, topic in enumerate(described):
        if place:
            click.echo()
        title = f"{topic['topic']}: partitions {topic['partitions']}, replicas {topic['replication_factor']}"
        columns = _PARTITION_COLUMNS + (_OFFSET_COLUMNS if offsets else ())
        show_rows(topic["partition_list"], columns, output, title=title)
        if topic["configs"]:
            click.echo()
            show_rows(topic["configs"], _CONFIG_COLUMNS, output)


@topics.command()
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...")
@click.option("--partitions", "-p", type=click.IntRange(min=1), help="How many partitions.  [default: the brokers']")
@click.option(
    "--replication-factor", "-r", type=click.IntRange(1, 32_767), help="How many replicas.  [default: the brokers']"
)
@click.option("--config", "-c", "configs", multiple=True, metavar="KEY=VALUE", help="A configuration key; repeatable.")
@click.option(
    "--assign",
    "assigned",
    multiple=True,
    metavar="PARTITION:BROKER[,BROKER...]",
    help="The brokers of a partition, the preferred leader first; repeat it for every partition.",
)
@click.option("--if-not-exists", is_flag=True, help="Be content with a topic that is there already.")
@click.option("--dry-run", is_flag=True, help="Let the cluster check, and create nothing.")
@output_option
@cluster_options
def create(
    *,
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    assigned: tuple[str, ...],
    if_not_exists: bool,
    dry_run: bool,
    reach: Reach,
    output: Format,
) -> None:
    """Create topics."""
    assignments = _parse_assignments(assigned)
    if assignments and (partitions is not None or replication_factor is not None):
        raise click.UsageError("--assign says how many partitions and replicas there are; leave the numbers out")
    wanted = [
        NewTopic(name, partitions or -1, replication_factor or -1, dict(parse_pairs(configs, "--config")), assignments)
        for name in dict.fromkeys(names)
    ]
    outcomes = reach.run(lambda cluster: Admin(cluster).create_topics(wanted, validate_only=dry_run))
    content = {ErrorCode.TOPIC_ALREADY_EXISTS: "exists"} if if_not_exists else {}
    _show_outcomes(outcomes, "could be created" if dry_run else "created", content, output)


@topics.command()
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...", shell_complete=complete_topics)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--if-exists", is_flag=True, help="Be content when a topic is not there.")
@output_option
@cluster_options
def delete(*, names: tuple[str, ...], yes: bool, if_exists: bool, reach: Reach, output: Format) -> None:
    """Delete topics with all their records."""
    if not yes:
        confirm(f"This deletes with all their records: {', '.join(dict.fromkeys(names))}")
    outcomes = reach.run(lambda cluster: Admin(cluster).delete_topics(names))
    content = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "not there"} if if_exists else {}
    _show_outcomes(outcomes, "deleted", content, output, hints={ErrorCode.REQUEST_TIMED_OUT: _DELETION_GOES_ON})


@topics.command("add-partitions")
@click.argument("name", metavar="TOPIC", shell_complete=complete_topics)
@click.option("--to", "total", type=click.IntRange(min=1), help="How many partitions it shall have in all.")
@click.option("--by", "more", type=click.IntRange(min=1), help="How many partitions to add.")
@click.option("--dry-run", is_flag=True, help="Let the cluster check, and add nothing.")
@output_option
@cluster_options
def add_partitions(
    *, name: str, total: int | None, more: int | None, dry_run: bool, reach: Reach, output: Format
) -> None:
    """Add partitions to a topic.

    They cannot be taken away again, and records with a key go to other partitions from then on.
    """
    if (total is None) == (more is None):
        raise click.UsageError("say how many partitions: --to TOTAL or --by MORE")

    async def work(cluster: "Cluster") -> Outcomes:
        count = total if total is not None else len((await cluster.topic(name)).partitions) + (more or 0)
        return await Admin(cluster).create_partitions({name: count}, validate_only=dry_run)

    _show_outcomes(reach.run(work), "could be extended" if dry_run else "extended", {}, output)


async def _faulty(cluster: "Cluster", names: tuple[str, ...], fault: str) -> list[dict[str, Any]]:
    """The partitions that have a fault."""
    if names:
        found = {name: await cluster.topic(name) for name in dict.fromkeys(names)}
    else:
        found = (await cluster.metadata(None)).topics
    admin = ReplicaAdmin(cluster)
    minimum = await admin.min_insync_replicas(found) if fault == "under-min-isr" else {}
    adding = await admin.count_adding() if fault == "under-replicated" else {}

    def has_fault(name: str, part: "PartitionMetadata") -> bool:
        if fault == "unavailable":
            return is_unavailable(part)
        if fault == "under-replicated":
            return is_under_replicated(part, adding.get(TopicPartition(name, part.partition), 0))
        return is_under_min_isr(part, minimum.get(name, DEFAULT_MIN_ISR))

    return [
        {"topic": name, **_partition(part)}
        for name, topic in sorted(found.items())
        for part in topic.partitions.values()
        if has_fault(name, part)
    ]


def _summary(topic: "TopicMetadata") -> dict[str, Any]:
    return {
        "topic": topic.name,
        "partitions": len(topic.partitions),
        "replication_factor": max((len(part.replicas) for part in topic.partitions.values()), default=0),
        "internal": topic.is_internal,
    }


async def _describe(cluster: "Cluster", name: str, *, with_offsets: bool, all_configs: bool) -> dict[str, Any]:
    topic = await cluster.topic(name)
    admin = Admin(cluster)
    partitions = [_partition(part) for part in topic.partitions.values()]
    if with_offsets:
        led = [TopicPartition(name, part.partition) for part in topic.partitions.values() if part.leader >= 0]
        starts, ends = await asyncio.gather(
            admin.list_offsets(dict.fromkeys(led, EARLIEST)), admin.list_offsets(dict.fromkeys(led, LATEST))
        )
        for part in partitions:
            each = TopicPartition(name, part["partition"])
            part["start_offset"] = starts[each].offset if each in starts else None
            part["end_offset"] = ends[each].offset if each in ends else None
    entries = await admin.describe_topic_configs(name)
    configs = [
        {"name": entry.name, "value": entry.value, "source": entry.source.name.lower()}
        for entry in sorted(entries, key=lambda entry: entry.name)
        if all_configs or entry.source is ConfigSource.TOPIC
    ]
    return {**_summary(topic), "partition_list": partitions, "configs": configs}


def _partition(part: "PartitionMetadata") -> dict[str, Any]:
    return {
        "partition": part.partition,
        "leader": part.leader if part.leader >= 0 else None,
        "leader_epoch": part.leader_epoch,
        "replicas": part.replicas,
        "isr": part.isr,
        "offline_replicas": part.offline_replicas,
        "error": part.error.name if part.error else None,
    }


def _parse_assignments(texts: tuple[str, ...]) -> dict[int, list[int]]:
    assignments: dict[int, list[int]] = {}
    for text in texts:
        partition, _, brokers = text.partition(":")
        try:
            assignments[int(partition)] = [int(broker) for broker in brokers.split(",")]
        except ValueError:
            raise click.BadParameter(f"{text!r} is not PARTITION:BROKER[,BROKER...]", param_hint="--assign") from None
    return assignments


def _show_outcomes(
    outcomes: Outcomes,
    done: str,
    content: Mapping[ErrorCode, str],
    output: Format,
    *,
    hints: Mapping[ErrorCode, str] = _NO_HINTS,
) -> None:
    """Print what became of each topic; what failed goes to standard error, and the first failure ends the command."""
    failures: list[tuple[str, KafkaError]] = []
    rows: list[dict[str, str]] = []
    for name, error in outcomes.items():
        if error is None or error.error in content:
            rows.append({"topic": name, "outcome": done if error is None else content[error.error]})
        else:
            failures.append((name, error))
    if rows or output is not Format.TABLE:
        show_rows(rows, (Column("topic", "TOPIC"), Column("outcome", "OUTCOME")), output)
    explained = [explain(error) or CommandFailed(str(error)) for _, error in failures]
    for failure, (_, error) in zip(explained, failures, strict=True):
        failure.hint = hints.get(error.error, failure.hint)
    for failure in explained[:-1]:
        report(str(failure), failure.hint)
    if explained:
        raise explained[-1]
