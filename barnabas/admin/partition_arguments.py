"""Partitions on the command line, TOPIC or TOPIC:PARTITION, and what became of each."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import click

from barnabas.admin.failures import NOT_FOUND, CommandFailed, explain, report
from barnabas.admin.options import find_topic
from barnabas.admin.output import Column, Format, show_rows
from barnabas.client.errors import KafkaError
from barnabas.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster

_OUTCOME_COLUMNS: Final = (
    Column("topic", "TOPIC"),
    Column("partition", "PARTITION", is_number=True),
    Column("outcome", "OUTCOME"),
)


def parse_partition(text: str) -> tuple[str, int | None]:
    """TOPIC or TOPIC:PARTITION. Raises click.BadParameter."""
    name, colon, number = text.partition(":")
    if not name or (colon and not (number.isascii() and number.isdecimal())):
        raise click.BadParameter(f"{text!r} is not TOPIC or TOPIC:PARTITION")
    return name, int(number) if colon else None


async def named_partitions(cluster: "Cluster", texts: Sequence[str]) -> list[TopicPartition]:
    """The partitions that are meant, each once; a topic stands for all of its own.

    Raises ClientError; CommandFailed for a partition that is not there.
    """
    found: dict[TopicPartition, None] = {}
    for name, number in map(parse_partition, texts):
        if number is not None:
            at = TopicPartition(name, number)
            await require_partitions(cluster, [at])
            found[at] = None
        else:
            topic = await find_topic(cluster, name)
            found.update((TopicPartition(name, each), None) for each in sorted(topic.partitions))
    return list(found)


async def require_partitions(cluster: "Cluster", partitions: Iterable[TopicPartition]) -> None:
    """Fail at once where one of them is not there. Raises ClientError, CommandFailed."""
    for at in partitions:
        there = (await find_topic(cluster, at.topic)).partitions
        if at.partition not in there:
            raise CommandFailed(lacks_partition(at, there), status=NOT_FOUND)


def lacks_partition(at: TopicPartition, there: Collection[int]) -> str:
    """What to say of a partition that is not among those of its topic."""
    return f"{at.topic} has partitions 0 to {len(there) - 1}, not {at.partition}"


def show_outcomes(outcomes: Mapping[TopicPartition, KafkaError | None], done: str, output: Format) -> None:
    """Print what became of each partition; what failed goes to standard error, the last of it ends the command."""
    rows = [
        {"topic": at.topic, "partition": at.partition, "outcome": done}
        for at, error in outcomes.items()
        if error is None
    ]
    if rows or output is not Format.TABLE:
        show_rows(rows, _OUTCOME_COLUMNS, output)
    failed = [explain(error) or CommandFailed(str(error)) for error in outcomes.values() if error is not None]
    for failure in failed[:-1]:
        report(str(failure), failure.hint)
    if failed:
        raise failed[-1]
