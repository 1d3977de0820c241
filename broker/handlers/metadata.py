"""Metadata, versions 0 to 9: brokers, controller, topics with their partitions and leaders.

In version 0 an empty list asks for all topics; from 1 on null does, and an empty list asks for none. A topic that is
missing is made if the request (from 4 on) and the broker allow it, and answered LEADER_NOT_AVAILABLE. A partition
whose leader is not alive is answered LEADER_NOT_AVAILABLE; one whose leader has no listener of the name that was asked
LISTENER_NOT_FOUND, before version 6 LEADER_NOT_AVAILABLE. In version 0 replicas that are not alive are left out and
the partition is answered REPLICA_NOT_AVAILABLE. Without an authorizer every operation is allowed (KIP-430).

The topics of the coordinators are made whoever asks and whatever is allowed, and answered INVALID_REPLICATION_FACTOR
where there are too few brokers for them.

1 controller, racks · 2 cluster id · 3 throttle time · 4 auto-creation · 5 offline replicas · 7 leader epochs ·
8 authorized operations · 9 flexible
"""

from collections.abc import Awaitable, Collection, Generator, Iterable
from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages import metadata
from barnabas.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from broker.internal_topic_creation import create_internal_topic
from broker.internal_topics import is_internal
from broker.metadata_view import MetadataView
from broker.registry import Handler
from broker.request_context import RequestContext
from broker.topic_creation import auto_create
from broker.turns import Turns, in_turns
from controller.commands import UpdateMetadataPartition

NOT_ASKED: Final = -(2**31)
TOPIC_OPERATIONS: Final = 0b1101_1111_1000
"""Read, write, create, delete, alter, describe, describe configs, alter configs: bits 3 to 8, 10 and 11."""
CLUSTER_OPERATIONS: Final = 0b1_1111_1010_0000
"""Create, alter, describe, cluster action, describe configs, alter configs, idempotent write."""
_NO_LEADER: Final = -1
_PARTITIONS_AT_ONCE: Final = 64


async def _create_missing(
    request: MetadataRequest, context: RequestContext, missing: Collection[str], turns: Turns
) -> list[MetadataResponseTopic]:
    topics = []
    for name in missing:
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if is_internal(name):
            error = await create_internal_topic(context.broker, name)
        elif request.allow_auto_topic_creation and context.broker.config.auto_create_topics_enable:
            error = await auto_create(context.broker, name)
        context.broker.metrics.count_error(ApiKey.METADATA, error)
        topics.append(MetadataResponseTopic(error_code=error, name=name, is_internal=is_internal(name)))
        await turns.maybe_yield()
    return topics


async def _handle_missing(
    request: MetadataRequest, context: RequestContext, names: Collection[str], missing: Collection[str]
) -> MetadataResponse:
    turns = Turns(context.broker.clock)
    made = await _create_missing(request, context, missing, turns)
    return await turns.finish(_answer(request, context, [name for name in names if name not in missing], made))


def handle(request: MetadataRequest, context: RequestContext) -> MetadataResponse | Awaitable[MetadataResponse]:
    """Answer at once unless a topic is missing or there is much to tell."""
    view = context.broker.metadata
    if request.topics is None or (context.version == 0 and not request.topics):
        return in_turns(_answer(request, context, view.topics(), ()), context.broker.clock)
    names = dict.fromkeys(topic.name for topic in request.topics)
    missing = {name: None for name in names if not view.has_topic(name)}
    if missing:
        return _handle_missing(request, context, names, missing)
    return in_turns(_answer(request, context, names, ()), context.broker.clock)


def _answer(
    request: MetadataRequest,
    context: RequestContext,
    names: Iterable[str],
    others: Iterable[MetadataResponseTopic],
) -> Generator[None, None, MetadataResponse]:
    broker = context.broker
    view = broker.metadata
    topics = []
    for name in names:
        if view.has_topic(name):
            topics.append((yield from _describe_topic(view, name, context.listener_name, context.version)))
        yield
    topics += others
    if request.include_topic_authorized_operations:
        for topic in topics:
            topic.topic_authorized_operations = TOPIC_OPERATIONS
    return MetadataResponse(
        brokers=_brokers(view, context.listener_name),
        cluster_id=broker.cluster_id,
        controller_id=view.controller_id,
        topics=topics,
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def _brokers(view: MetadataView, listener_name: str) -> list[MetadataResponseBroker]:
    return [
        MetadataResponseBroker(node_id=broker_id, host=node.host, port=node.port, rack=view.brokers[broker_id].rack)
        for broker_id, node in view.brokers_on(listener_name).items()
    ]


def _describe_topic(
    view: MetadataView, name: str, listener_name: str, version: int
) -> Generator[None, None, MetadataResponseTopic]:
    """A topic that the view knows, for a client of this listener and version."""
    nodes = view.brokers_on(listener_name)
    alive = view.brokers
    # The mapping is live and others have turns below, so the partitions are taken out of it first.
    known = view.partitions(name)
    partitions = [known[number] for number in sorted(known)]
    described: list[MetadataResponsePartition] = []
    for start in range(0, len(partitions), _PARTITIONS_AT_ONCE):
        if start:
            yield
        described += [
            _describe_partition(partition, nodes=nodes, alive=alive, version=version)
            for partition in partitions[start : start + _PARTITIONS_AT_ONCE]
        ]
    return MetadataResponseTopic(name=name, is_internal=is_internal(name), partitions=described)


def _describe_partition(
    partition: UpdateMetadataPartition, *, nodes: Collection[int], alive: Collection[int], version: int
) -> MetadataResponsePartition:
    replicas, isr = list[int](partition.replicas), list[int](partition.isr)
    if version == 0:
        replicas = [broker_id for broker_id in replicas if broker_id in nodes]
        isr = [broker_id for broker_id in isr if broker_id in nodes]
    leader: int = partition.leader
    error = ErrorCode.NONE
    if leader not in nodes:
        listener_is_missing = leader in alive and version >= 6
        error = ErrorCode.LISTENER_NOT_FOUND if listener_is_missing else ErrorCode.LEADER_NOT_AVAILABLE
        leader = _NO_LEADER
    elif len(replicas) < len(partition.replicas) or len(isr) < len(partition.isr):
        error = ErrorCode.REPLICA_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=error,
        partition_index=partition.partition,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=list(partition.offline_replicas),
    )


API: Final[Handler] = Handler(metadata.API, handle, oldest=0, newest=9)
