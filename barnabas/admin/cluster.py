"""`barnabas cluster`: status, health, brokers, controller."""

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import click

from barnabas.admin.failures import UNHEALTHY
from barnabas.admin.health import Health, examine
from barnabas.admin.options import Reach, cluster_options, output_option
from barnabas.admin.output import Column, Format, show_document, show_rows
from barnabas.client.errors import ClientError
from barnabas.client.replica_admin import ReplicaAdmin

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster
    from barnabas.client.metadata import ClusterMetadata

_WATCH_S: Final = 2.0
_STATUS_COLUMNS: Final = (Column("what", "WHAT"), Column("value", "VALUE"))
_BROKER_COLUMNS: Final = (
    Column("broker", "BROKER", is_number=True),
    Column("address", "ADDRESS"),
    Column("rack", "RACK"),
    Column("controller", "CONTROLLER"),
    Column("leaders", "LEADERS", is_number=True),
    Column("preferred", "PREFERRED", is_number=True),
    Column("replicas", "REPLICAS", is_number=True),
    Column("in_sync", "IN SYNC", is_number=True),
)
_CONTROLLER_COLUMNS: Final = (
    Column("broker", "BROKER", is_number=True),
    Column("address", "ADDRESS"),
    Column("rack", "RACK"),
)


@click.group()
def cluster() -> None:
    """Show the cluster's brokers and controller, and whether all is well."""


@cluster.command()
@output_option
@cluster_options
def status(*, reach: Reach, output: Format) -> None:
    """Show the cluster in a few numbers."""

    async def work(cluster: "Cluster") -> dict[str, Any]:
        metadata, health = await _look(cluster)
        moving = await ReplicaAdmin(cluster).list_reassignments()
        return {
            "cluster_id": metadata.cluster_id,
            "controller": health.controller if health.controller >= 0 else None,
            "brokers": len(metadata.nodes),
            "topics": len(metadata.topics),
            "partitions": health.partitions,
            "unavailable": len(health.unavailable),
            "under_min_isr": len(health.under_min_isr),
            "under_replicated": len(health.under_replicated),
            "reassigned": len(moving),
        }

    found = reach.run(work)
    if output is Format.TABLE:
        show_rows(
            ({"what": key.replace("_", " "), "value": each} for key, each in found.items()), _STATUS_COLUMNS, output
        )
    else:
        show_document(found, output)


@cluster.command()
@click.option(
    "--watch",
    "every_s",
    is_flag=False,
    flag_value=_WATCH_S,
    type=click.FloatRange(min=0.1),
    metavar="[SECONDS]",
    help="Look again and again, and tell whenever it changes.",
)
@output_option
@cluster_options
def health(*, every_s: float | None, reach: Reach, output: Format) -> int:
    """Say in one line whether all is well; exit with 4 when it is not."""
    if every_s is not None:
        reach.run(lambda cluster: _watch(cluster, every_s, output))
    found = reach.run(_health)
    _show_health(found, output)
    return UNHEALTHY if found["problems"] else 0


async def _health(cluster: "Cluster") -> dict[str, Any]:
    try:
        _, found = await _look(cluster)
    except ClientError as error:
        return {"healthy": False, "problems": [str(error)], "line": f"unhealthy: {error}"}
    return {**found.document(), "line": found.line}


async def _watch(cluster: "Cluster", every_s: float, output: Format) -> None:
    told = ""
    while True:
        found = await _health(cluster)
        if found["line"] != told:
            told = found["line"]
            _show_health(found, Format.TABLE if output is Format.TABLE else Format.JSONL)
        await asyncio.sleep(every_s)


def _show_health(found: dict[str, Any], output: Format) -> None:
    if output is Format.TABLE:
        click.echo(found["line"])
    else:
        show_document({key: each for key, each in found.items() if key != "line"}, output)


@cluster.command()
@output_option
@cluster_options
def brokers(*, reach: Reach, output: Format) -> None:
    """List the live brokers and what they hold."""

    async def work(cluster: "Cluster") -> list[dict[str, Any]]:
        return _broker_rows(await cluster.metadata(None))

    show_rows(reach.run(work), _BROKER_COLUMNS, output)


@cluster.command()
@output_option
@cluster_options
def controller(*, reach: Reach, output: Format) -> int:
    """Show the broker that is the controller; exit with 4 when there is none."""

    async def work(cluster: "Cluster") -> list[dict[str, Any]]:
        metadata = await cluster.metadata()
        node = metadata.nodes.get(metadata.controller_id)
        return [] if node is None else [{"broker": node.node_id, "address": str(node.address), "rack": node.rack}]

    rows = reach.run(work)
    show_rows(rows, _CONTROLLER_COLUMNS, output)
    return 0 if rows else UNHEALTHY


def _broker_rows(metadata: "ClusterMetadata") -> list[dict[str, Any]]:
    leaders, preferred, replicas, in_sync = Counter[int](), Counter[int](), Counter[int](), Counter[int]()
    for topic in metadata.topics.values():
        for partition in topic.partitions.values():
            leaders[partition.leader] += 1
            preferred.update(partition.replicas[:1])
            replicas.update(partition.replicas)
            in_sync.update(partition.isr)
    return [
        {
            "broker": node_id,
            "address": str(node.address),
            "rack": node.rack,
            "controller": node_id == metadata.controller_id,
            "leaders": leaders[node_id],
            "preferred": preferred[node_id],
            "replicas": replicas[node_id],
            "in_sync": in_sync[node_id],
        }
        for node_id, node in sorted(metadata.nodes.items())
    ]


async def _look(cluster: "Cluster") -> "tuple[ClusterMetadata, Health]":
    metadata = await cluster.metadata(None)
    admin = ReplicaAdmin(cluster)
    min_isr = await admin.min_insync_replicas(metadata.topics)
    health = examine(metadata, min_isr)
    if health.under_replicated and health.controller >= 0:
        health = examine(metadata, min_isr, await admin.count_adding())
    health.damaged, health.silent = await admin.damaged_replicas(metadata.nodes)
    return metadata, health
