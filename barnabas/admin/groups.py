"""`barnabas groups`: which groups there are, who is in them, how far they are behind; and where they go on reading."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from barnabas.admin.failures import NOT_FOUND, CommandFailed, explain, report
from barnabas.admin.offset_reset import (
    Held,
    InvalidReset,
    Step,
    Target,
    decide_reset,
    parse_ago,
    read_offsets,
)
from barnabas.admin.offsets import Anchor, Bound, OffsetSyntax, parse_time
from barnabas.admin.options import Decorated, Reach, cluster_options, confirm, output_option
from barnabas.admin.output import Column, Format, redraw_rows, show_rows
from barnabas.admin.partition_arguments import named_partitions, require_partitions, show_outcomes
from barnabas.client.admin import EARLIEST, LATEST, Admin
from barnabas.client.coordinators import OffsetAndMetadata
from barnabas.client.group_admin import GroupAdmin, GroupDescription, Outcomes
from barnabas.protocol.ids import TopicPartition
from barnabas.runtime.clock import SystemClock

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster

_LIST_COLUMNS: Final = (
    Column("group", "GROUP"),
    Column("state", "STATE"),
    Column("type", "TYPE"),
    Column("coordinator", "COORDINATOR", is_number=True),
)
_DESCRIBE_COLUMNS: Final = (
    Column("group", "GROUP"),
    Column("state", "STATE"),
    Column("type", "TYPE"),
    Column("protocol", "PROTOCOL"),
    Column("coordinator", "COORDINATOR", is_number=True),
    Column("members", "MEMBERS", is_number=True),
    Column("committed", "COMMITTED", is_number=True),
    Column("lag", "LAG", is_number=True),
)
_MEMBER_COLUMNS: Final = (
    Column("member", "MEMBER"),
    Column("instance", "INSTANCE"),
    Column("client", "CLIENT"),
    Column("host", "HOST"),
    Column("partitions", "PARTITIONS"),
)
_LAG_COLUMNS: Final = (
    Column("topic", "TOPIC"),
    Column("partition", "PARTITION", is_number=True),
    Column("committed", "COMMITTED", is_number=True),
    Column("end", "END", is_number=True),
    Column("lag", "LAG", is_number=True),
    Column("lag_seconds", "SECONDS", is_number=True),
    Column("client", "CLIENT"),
)
_RESET_COLUMNS: Final = (
    Column("topic", "TOPIC"),
    Column("partition", "PARTITION", is_number=True),
    Column("committed", "COMMITTED", is_number=True),
    Column("target", "TARGET", is_number=True),
)
_NO_MEMBERS: Final = ("Empty", "Dead")


@click.group()
def groups() -> None:
    """Look at consumer groups, and change where they read."""


@groups.command("list")
@click.option("--state", "states", multiple=True, metavar="STATE", help="Only groups in this state; repeatable.")
@output_option
@cluster_options
def list_all(*, states: tuple[str, ...], reach: Reach, output: Format) -> None:
    """List the groups with their states and coordinators."""
    found = reach.run(lambda cluster: GroupAdmin(cluster).list_groups(states))
    rows = [
        {"group": each.group_id, "state": each.state, "type": each.protocol_type, "coordinator": each.coordinator}
        for each in found
    ]
    show_rows(rows, _LIST_COLUMNS, output)


@groups.command()
@click.argument("names", nargs=-1, required=True, metavar="GROUP...")
@output_option
@cluster_options
def describe(*, names: tuple[str, ...], reach: Reach, output: Format) -> None:
    """Show the state of groups, and how far they are behind in all."""

    async def work(cluster: "Cluster") -> list[dict[str, Any]]:
        return [_described(await _existing(cluster, name), await _lag_rows(cluster, name, {})) for name in names]

    show_rows(reach.run(work), _DESCRIBE_COLUMNS, output)


@groups.command()
@click.argument("name", metavar="GROUP")
@output_option
@cluster_options
def members(*, name: str, reach: Reach, output: Format) -> None:
    """Show the members of a group and what each of them reads."""
    found = reach.run(lambda cluster: _existing(cluster, name))
    rows = [
        {
            "member": each.member_id,
            "instance": each.group_instance_id,
            "client": each.client_id,
            "host": each.host,
            "partitions": None if each.assignment is None else [str(at) for at in sorted(each.assignment)],
        }
        for each in found.members
    ]
    show_rows(rows, _MEMBER_COLUMNS, output)


@groups.command()
@click.argument("name", metavar="GROUP")
@click.option("--watch", is_flag=True, help="Look again and again, until interrupted; on a terminal in the same place.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="How often --watch looks.",
)
@output_option
@cluster_options
def lag(*, name: str, watch: bool, interval: float, reach: Reach, output: Format) -> None:
    """Show how far a group is behind, in records and in seconds.

    The seconds are the age of the first record that is committed by nobody yet.
    """

    async def work(cluster: "Cluster") -> None:
        while True:
            found = await _existing(cluster, name)
            clients = {at: each.client_id for each in found.members for at in each.assignment or ()}
            rows = await _lag_rows(cluster, name, clients, seconds=True)
            if not watch:
                show_rows(rows, _LAG_COLUMNS, output)
                return
            redraw_rows(rows, _LAG_COLUMNS, output, title=f"group {name} ({found.state}), every {interval:g} s")
            await asyncio.sleep(interval)

    reach.run(work)


def _target_options(command: Decorated) -> Decorated:
    options: list[Callable[[Decorated], Decorated]] = [
        click.option("--to-earliest", is_flag=True, help="To the first record of each partition."),
        click.option("--to-latest", is_flag=True, help="Behind the last record of each partition."),
        click.option("--to-offset", type=click.IntRange(min=0), metavar="OFFSET", help="To this offset."),
        click.option("--to-datetime", metavar="TIME", help="To the first record at or after a time."),
        click.option(
            "--by-duration", metavar="DURATION", help="To the first record of the last 90s, 2h30m, 7d, PT2H30M."
        ),
        click.option("--shift-by", type=int, metavar="N", help="N records on from what is committed; -N back."),
        click.option(
            "--from-file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="To the offsets of a file: topic,partition,offset as Kafka's tool exports, or what `-o json` printed.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@groups.command()
@click.argument("name", metavar="GROUP")
@click.argument("partitions", nargs=-1, metavar="[TOPIC[:PARTITION]]...")
@click.option("--all-topics", is_flag=True, help="Every partition that the group committed.")
@_target_options
@click.option("--execute", is_flag=True, help="Do it; without it only the plan is shown.")
@output_option
@cluster_options
def reset(
    *,
    name: str,
    partitions: tuple[str, ...],
    all_topics: bool,
    execute: bool,
    reach: Reach,
    output: Format,
    **target_options: Any,
) -> None:
    """Set where a group goes on reading. It must have no members."""
    target = _target(name, **target_options)
    named = sum((bool(partitions), all_topics, target.offsets is not None))
    if named != 1:
        raise click.UsageError("say which partitions: TOPIC, TOPIC:PARTITION, --all-topics, or those of --from-file")

    async def plan(cluster: "Cluster") -> list[Step]:
        group = await GroupAdmin(cluster).describe(name)
        if group.state not in _NO_MEMBERS:
            raise CommandFailed(
                f"group {name} has {len(group.members)} members ({group.state})", hint="stop its consumers first"
            )
        committed = await GroupAdmin(cluster).committed(name)
        if all_topics:
            # What was committed of topics that are gone stays as it is.
            wanted = await _present(cluster, committed)
        elif target.offsets is not None:
            wanted = list(target.offsets)
            await require_partitions(cluster, wanted)
        else:
            wanted = await named_partitions(cluster, partitions)
        return decide_reset(target, await _held(cluster, wanted, committed, target))

    try:
        steps = reach.run(plan)
    except InvalidReset as error:
        raise CommandFailed(str(error)) from error
    if not steps:
        raise CommandFailed(f"group {name} has committed nothing", status=NOT_FOUND, hint="name the topics")
    if output is Format.TABLE or not execute:
        rows = [
            {"topic": at.topic, "partition": at.partition, "committed": committed, "target": offset}
            for at, committed, offset in ((each.partition, each.committed, each.target) for each in steps)
        ]
        show_rows(rows, _RESET_COLUMNS, output)
    if not execute:
        click.echo("nothing was done: --execute does it", err=True)
        return
    offsets = {each.partition: OffsetAndMetadata(each.target) for each in steps}

    async def work(cluster: "Cluster") -> Outcomes:
        return await GroupAdmin(cluster).commit(name, offsets)

    show_outcomes(reach.run(work), "reset", output)


@groups.command()
@click.argument("names", nargs=-1, required=True, metavar="GROUP...")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@cluster_options
def delete(*, names: tuple[str, ...], yes: bool, reach: Reach) -> None:
    """Delete groups without members, with all that they committed."""
    if not yes:
        confirm("\n".join(f"group {name} and its offsets go" for name in names))

    async def work(cluster: "Cluster") -> list[CommandFailed]:
        outcomes = [await GroupAdmin(cluster).delete(name) for name in dict.fromkeys(names)]
        return [explain(error) or CommandFailed(str(error)) for error in outcomes if error is not None]

    failed = reach.run(work)
    for failure in failed[:-1]:
        report(str(failure), failure.hint)
    if failed:
        raise failed[-1]


@groups.command("delete-offsets")
@click.argument("name", metavar="GROUP")
@click.argument("partitions", nargs=-1, required=True, metavar="TOPIC[:PARTITION]...")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@output_option
@cluster_options
def delete_offsets(*, name: str, partitions: tuple[str, ...], yes: bool, reach: Reach, output: Format) -> None:
    """Forget what a group committed for partitions that it does not subscribe to."""
    if not yes:
        confirm("\n".join(f"what group {name} committed for {each} goes" for each in partitions))

    async def work(cluster: "Cluster") -> Outcomes:
        return await GroupAdmin(cluster).delete_offsets(name, await named_partitions(cluster, partitions))

    show_outcomes(reach.run(work), "deleted", output)


async def _existing(cluster: "Cluster", name: str) -> GroupDescription:
    found = await GroupAdmin(cluster).describe(name)
    if found.state == "Dead":
        raise CommandFailed(f"there is no group {name}", status=NOT_FOUND, hint="`barnabas groups list` shows them")
    return found


def _described(found: GroupDescription, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "group": found.group_id,
        "state": found.state,
        "type": found.protocol_type,
        "protocol": found.protocol,
        "coordinator": found.coordinator,
        "members": len(found.members),
        "committed": len(rows),
        "lag": sum(row["lag"] or 0 for row in rows),
    }


async def _lag_rows(
    cluster: "Cluster", name: str, clients: Mapping[TopicPartition, str], *, seconds: bool = False
) -> list[dict[str, Any]]:
    """A row for each partition that the group committed; of a topic that is gone there is no end and no lag."""
    committed = await GroupAdmin(cluster).committed(name)
    present = await _present(cluster, committed)
    ends = {at: each.offset for at, each in (await Admin(cluster).list_offsets(dict.fromkeys(present, LATEST))).items()}
    times: dict[TopicPartition, int] = {}
    if seconds:
        starts = await Admin(cluster).list_offsets(dict.fromkeys(present, EARLIEST))
        unread = {at: max(committed[at].offset, starts[at].offset) for at in present}
        times = await GroupAdmin(cluster).times_of(unread, ends)
    now_ms = SystemClock().wall_ms()
    rows: list[dict[str, Any]] = []
    for at in sorted({*committed, *clients}):
        offset = committed[at].offset if at in committed else None
        behind = None if offset is None or at not in ends else max(0, ends[at] - offset)
        row = {"topic": at.topic, "partition": at.partition, "committed": offset, "end": ends.get(at), "lag": behind}
        if seconds:
            row["lag_seconds"] = 0 if behind == 0 else _age_s(times.get(at), now_ms)
            row["client"] = clients.get(at)
        rows.append(row)
    return rows


def _age_s(timestamp: int | None, now_ms: int) -> float | None:
    return None if timestamp is None else round(max(0, now_ms - timestamp) / 1000, 1)


async def _present(cluster: "Cluster", partitions: Mapping[TopicPartition, object]) -> list[TopicPartition]:
    """Those of the partitions that exist."""
    topics = (await cluster.metadata(sorted({at.topic for at in partitions}))).topics if partitions else {}
    return [at for at in partitions if at.topic in topics and at.partition in topics[at.topic].partitions]


async def _held(
    cluster: "Cluster",
    partitions: list[TopicPartition],
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    target: Target,
) -> dict[TopicPartition, Held]:
    admin = Admin(cluster)
    starts = await admin.list_offsets(dict.fromkeys(partitions, EARLIEST))
    ends = await admin.list_offsets(dict.fromkeys(partitions, LATEST))
    time_ms = None if target.bound is None else target.bound.time_ms
    times = {} if time_ms is None else await admin.list_offsets(dict.fromkeys(partitions, time_ms))
    return {
        at: Held(
            starts[at].offset,
            ends[at].offset,
            committed[at].offset if at in committed else None,
            times[at].offset if at in times else None,
        )
        for at in partitions
    }


def _offsets_of(path: Path, group: str) -> dict[TopicPartition, int]:
    try:
        return read_offsets(path.read_text(encoding="utf-8"), group=group)
    except UnicodeDecodeError as error:
        raise InvalidReset(f"{path}: no UTF-8: {error}") from None
    except InvalidReset as error:
        raise InvalidReset(f"{path}: {error}") from None


def _target(
    group: str,
    *,
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    to_datetime: str | None,
    by_duration: str | None,
    shift_by: int | None,
    from_file: Path | None,
) -> Target:
    now_ms = SystemClock().wall_ms()
    chosen: list[Target] = []
    try:
        if to_earliest:
            chosen.append(Target(Bound(Anchor.START)))
        if to_latest:
            chosen.append(Target(Bound(Anchor.END)))
        if to_offset is not None:
            chosen.append(Target(Bound(Anchor.ZERO, to_offset)))
        if to_datetime is not None:
            chosen.append(Target(Bound(Anchor.TIME, parse_time(to_datetime, now_ms=now_ms))))
        if by_duration is not None:
            chosen.append(Target(Bound(Anchor.TIME, parse_ago(by_duration, now_ms=now_ms))))
        if shift_by is not None:
            chosen.append(Target(shift=shift_by))
        if from_file is not None:
            chosen.append(Target(offsets=_offsets_of(from_file, group)))
    except (OffsetSyntax, InvalidReset) as error:
        raise click.UsageError(str(error)) from None
    if len(chosen) != 1:
        raise click.UsageError("say where to, once: --to-earliest, --to-latest, --to-offset, --to-datetime, …")
    return chosen[0]
