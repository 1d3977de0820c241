"""OffsetCommit, versions 0 to 8: how far a group has come. Answered once that is replicated.

Version 0 keeps offsets in ZooKeeper (`broker.zookeeper_offsets`), later ones with the group's coordinator. Partitions
that do not exist are answered UNKNOWN_TOPIC_OR_PARTITION and the others stored; where there are no others nobody is
asked.

1 generation and member, with a timestamp · 2 retention time · 3 throttle time · 5 without retention time ·
6 leader epoch · 7 static members · 8 flexible
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from barnabas.coordinator.offsets.commits import refuse_commit
from barnabas.coordinator.offsets.refused_partitions import add_refused_commits, split
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages import offset_commit
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from broker.coordinator_access import is_known, start_asking_group
from broker.registry import Handler
from broker.request_context import RequestContext
from broker.zookeeper_offsets import commit_in_zookeeper


def handle(request: OffsetCommitRequest, context: RequestContext) -> Any:
    """Ask the group's coordinator, for what there is. Gives a response or, see `broker.registry`, what waits for it."""
    known, unknown = split(request.topics, is_known(context.broker))
    if unknown:
        request = replace(request, topics=known)
    if not known:
        return _finished(OffsetCommitResponse(), unknown, context)
    if context.version == 0:
        return _commit_in_zookeeper(request, unknown, context)
    asked = start_asking_group(
        context,
        request.group_id,
        lambda machine, ticket, now_ms, wall_ms: machine.commit(
            ticket, request, now_ms=now_ms, wall_ms=wall_ms, accepted_us=context.accepted_us
        ),
        lambda error: refuse_commit(request, error),
        may_be_nameless=True,
    )
    if isinstance(asked, OffsetCommitResponse):
        return _finished(asked, unknown, context)
    # It comes before the connection's own: the response is whole when it is sent.
    asked.add_done_callback(lambda done: None if done.cancelled() else _finished(done.result(), unknown, context))
    return asked


async def _commit_in_zookeeper(
    request: OffsetCommitRequest, unknown: Sequence[tuple[str, int]], context: RequestContext
) -> OffsetCommitResponse:
    return _finished(await commit_in_zookeeper(context.broker, request), unknown, context)


def _finished(
    response: OffsetCommitResponse, unknown: Sequence[tuple[str, int]], context: RequestContext
) -> OffsetCommitResponse:
    """Refuse what does not exist, and count."""
    if unknown:
        add_refused_commits(response.topics, unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    metrics = context.broker.metrics
    for topic in response.topics:
        for partition in topic.partitions:
            metrics.count_error(ApiKey.OFFSET_COMMIT, ErrorCode(partition.error_code))
    return response


API: Final[Handler] = Handler(offset_commit.API, handle, oldest=0, newest=8)
