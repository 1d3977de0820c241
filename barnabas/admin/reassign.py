"""`barnabas reassign`: plan, execute, status, cancel.

Nothing moves without --execute: a command shows what it would do. Plans are files of the format that
kafka-reassign-partitions reads and writes.
"""

import asyncio
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from barnabas.admin.failures import CommandFailed
from barnabas.admin.move_progress import Progress, bytes_left, in_bytes
from barnabas.admin.options import Decorated, Reach, cluster_options, complete_topics, output_option
from barnabas.admin.output import Column, Format, is_terminal, show_document, show_rows
from barnabas.admin.partition_arguments import named_partitions, show_outcomes
from barnabas.admin.reassignment_plan import InvalidPlan, Move, Plan, decide_plan, document_of, moves_of, read_plan
from barnabas.client.replica_admin import Outcomes, Reassignment, ReplicaAdmin
from barnabas.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster

_PLAN_COLUMNS: Final = (
    Column("topic", "TOPIC"),
    Column("partition", "PARTITION", is_number=True),
    Column("from", "FROM"),
    Column("to", "TO"),
    Column("bytes", "BYTES TO COPY"),
)
_STATUS_COLUMNS: Final = (
    Column("topic", "TOPIC"),
    Column("partition", "PARTITION", is_number=True),
    Column("target", "TARGET"),
    Column("adding", "COME"),
    Column("removing", "GO"),
    Column("bytes", "BYTES LEFT"),
)
_POLL_S: Final = 1.0


@click.group()
def reassign() -> None:
    """Move replicas to other brokers: plan, execute, status, cancel."""


_execute: Callable[[Decorated], Decorated] = click.option(
    "--execute", is_flag=True, help="Do it; without it only the plan is shown."
)
_wait: Callable[[Decorated], Decorated] = click.option(
    "--wait", is_flag=True, help="Show how it goes on until all have moved."
)


@reassign.command()
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...", shell_complete=complete_topics)
@click.option("--brokers", "allowed", metavar="ID[,ID...]", help="Where replicas may be.  [default: all live brokers]")
@click.option("--replication-factor", "-r", type=click.IntRange(min=1), help="How many replicas.  [default: as many]")
@_execute
@_wait
@output_option
@cluster_options
def plan(
    *,
    names: tuple[str, ...],
    allowed: str | None,
    replication_factor: int | None,
    execute: bool,
    wait: bool,
    reach: Reach,
    output: Format,
) -> None:
    """Work out where the replicas of topics should be, moving as little as possible.

    With `-o json` the plan is printed as `reassign execute` and kafka-reassign-partitions read it.
    """
    ids = None if allowed is None else _parse_brokers(allowed)

    async def work(cluster: "Cluster") -> tuple[Plan, list[Move], dict[TopicPartition, int | None]]:
        present = await _present(cluster, names)
        nodes = (await cluster.metadata()).nodes
        unknown = [str(broker) for broker in ids or () if broker not in nodes]
        if unknown:
            raise CommandFailed(f"no live broker {', '.join(unknown)}", hint="`barnabas cluster brokers` lists them")
        racks = {broker: nodes[broker].rack for broker in (nodes if ids is None else ids)}
        chosen = decide_plan(present, racks, replication_factor=replication_factor)
        moves = moves_of(chosen, present)
        return chosen, moves, await _bytes_to_copy(cluster, moves)

    with _plans_fail():
        chosen, moves, sizes = reach.run(work)
    if output is Format.TABLE:
        _show_moves(moves, sizes)
    elif not execute:
        show_document(document_of(chosen), output)
    _finish(moves, execute=execute, wait=wait, reach=reach, output=output)


@reassign.command("execute")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True), metavar="PLAN")
@_execute
@_wait
@output_option
@cluster_options
def execute_plan(*, file: str, execute: bool, wait: bool, reach: Reach, output: Format) -> None:
    """Begin the moves of a plan, a JSON file or - for standard input."""
    with _plans_fail():
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        chosen = read_plan(text)

    async def work(cluster: "Cluster") -> tuple[list[Move], dict[TopicPartition, int | None]]:
        moves = moves_of(chosen, await _present(cluster, tuple(dict.fromkeys(at.topic for at in chosen))))
        return moves, await _bytes_to_copy(cluster, moves)

    with _plans_fail():
        moves, sizes = reach.run(work)
    if output is Format.TABLE or not execute:
        _show_moves(moves, sizes, output)
    _finish(moves, execute=execute, wait=wait, reach=reach, output=output)


@reassign.command()
@_wait
@output_option
@cluster_options
def status(*, wait: bool, reach: Reach, output: Format) -> None:
    """Show what is under way, and how many bytes are left to copy."""

    async def work(cluster: "Cluster") -> list[dict[str, Any]]:
        moving = await ReplicaAdmin(cluster).list_reassignments()
        left = await bytes_left(cluster, moving)
        return [_status_row(at, each, left.get(at), output) for at, each in sorted(moving.items())]

    rows = reach.run(work)
    if rows or output is not Format.TABLE:
        show_rows(rows, _STATUS_COLUMNS, output)
    else:
        click.echo("nothing is being reassigned")
    if wait and rows:
        reach.run(lambda cluster: _await_moves(cluster, None))


@reassign.command()
@click.argument("partitions", nargs=-1, metavar="[TOPIC[:PARTITION]]...", shell_complete=complete_topics)
@click.option("--all", "everything", is_flag=True, help="All that is under way.")
@_execute
@output_option
@cluster_options
def cancel(*, partitions: tuple[str, ...], everything: bool, execute: bool, reach: Reach, output: Format) -> None:
    """Leave partitions where they were."""
    if everything == bool(partitions):
        raise click.UsageError("say which partitions: TOPIC, TOPIC:PARTITION or --all")

    async def find(cluster: "Cluster") -> dict[TopicPartition, Reassignment]:
        moving = await ReplicaAdmin(cluster).list_reassignments()
        if everything:
            return moving
        named = await named_partitions(cluster, partitions)
        return {at: moving[at] for at in named if at in moving}

    found = reach.run(find)
    if not found:
        raise CommandFailed("none of these is being reassigned", hint="`barnabas reassign status` shows what is")
    if not execute:
        show_rows([_status_row(at, each, None, output) for at, each in sorted(found.items())], _STATUS_COLUMNS, output)
        click.echo("nothing was done: --execute does it", err=True)
        return
    outcomes = reach.run(lambda cluster: ReplicaAdmin(cluster).alter_reassignments(dict.fromkeys(found)))
    show_outcomes(outcomes, "cancelled", output)


def _finish(moves: list[Move], *, execute: bool, wait: bool, reach: Reach, output: Format) -> None:
    if not moves:
        click.echo("nothing to do: all replicas are where they should be", err=True)
        return
    if not execute:
        click.echo("nothing was done: --execute does it", err=True)
        return
    targets = {each.partition: each.target for each in moves}

    async def begin(cluster: "Cluster") -> Outcomes:
        return await ReplicaAdmin(cluster).alter_reassignments(targets)

    show_outcomes(reach.run(begin), "begun", output)
    if wait:
        reach.run(lambda cluster: _await_moves(cluster, targets.keys()))


async def _await_moves(cluster: "Cluster", partitions: Collection[TopicPartition] | None) -> None:
    """Until none of these, or nothing at all, moves any more."""
    admin = ReplicaAdmin(cluster)
    with Progress(shown=is_terminal()) as progress:
        while True:
            moving = await admin.list_reassignments()
            ours = {at: each for at, each in moving.items() if partitions is None or at in partitions}
            left = await bytes_left(cluster, ours)
            progress.show(partitions=len(ours), left=sum(each or 0 for each in left.values()))
            if not ours:
                return
            await asyncio.sleep(_POLL_S)


async def _present(cluster: "Cluster", names: tuple[str, ...]) -> dict[TopicPartition, tuple[int, ...]]:
    """Where the replicas of topics are or go to. Raises ClientError."""
    moving = await ReplicaAdmin(cluster).list_reassignments()
    present: dict[TopicPartition, tuple[int, ...]] = {}
    for name in dict.fromkeys(names):
        topic = await cluster.topic(name)
        for number, partition in sorted(topic.partitions.items()):
            at = TopicPartition(name, number)
            leaves = moving[at].removing if at in moving else ()
            present[at] = tuple(broker for broker in partition.replicas if broker not in leaves)
    return present


async def _bytes_to_copy(cluster: "Cluster", moves: list[Move]) -> dict[TopicPartition, int | None]:
    """What each move copies; None where no replica tells its size."""
    wanted = [each.partition for each in moves if each.adding]
    brokers = {broker for each in moves for broker in (*each.present, *each.adding)}
    sizes = await ReplicaAdmin(cluster).replica_bytes(sorted(brokers), wanted) if wanted else {}
    found: dict[TopicPartition, int | None] = {}
    for each in moves:
        held = {broker: logs[each.partition] for broker, logs in sizes.items() if each.partition in logs}
        size = max(held.values(), default=None)
        # Where a move is turned back, a broker that comes may have the log still, or a part of it.
        lacking = None if size is None else sum(size - held.get(broker, 0) for broker in each.adding)
        found[each.partition] = lacking if each.adding else 0
    return found


def _show_moves(moves: list[Move], sizes: Mapping[TopicPartition, int | None], output: Format = Format.TABLE) -> None:
    rows = [
        {
            "topic": each.partition.topic,
            "partition": each.partition.partition,
            "from": list(each.present),
            "to": list(each.target),
            "bytes": _shown(sizes.get(each.partition), output),
        }
        for each in moves
    ]
    if rows or output is not Format.TABLE:
        show_rows(rows, _PLAN_COLUMNS, output)


def _status_row(at: TopicPartition, moving: Reassignment, left: int | None, output: Format) -> dict[str, Any]:
    return {
        "topic": at.topic,
        "partition": at.partition,
        "target": [broker for broker in moving.replicas if broker not in moving.removing],
        "adding": list(moving.adding),
        "removing": list(moving.removing),
        "bytes": _shown(left, output),
    }


def _shown(size: int | None, output: Format) -> Any:
    return in_bytes(size) if size is not None and output is Format.TABLE else size


def _parse_brokers(text: str) -> list[int]:
    try:
        return list(dict.fromkeys(int(each) for each in text.split(",")))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not ID[,ID...]", param_hint="--brokers") from None


@contextmanager
def _plans_fail() -> Iterator[None]:
    """A plan that cannot be is a failure of the command."""
    try:
        yield
    except InvalidPlan as error:
        raise CommandFailed(str(error)) from error
