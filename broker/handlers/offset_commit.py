"""OffsetCommit, versions 0 to 8: how far a group has come. Answered once that is replicated.

Version 0 keeps offsets in ZooKeeper (`broker.zookeeper_offsets`), later ones with the group's coordinator. Partitions
that do not exist are answered UNKNOWN_TOPIC_OR_PARTITION and the others stored; where there are no others nobody is
asked.

1 generation and member, with a timestamp · 2 retention time · 3 throttle time · 5 without retention time ·
6 leader epoch · 7 static members · 8 flexible
"""

from dataclasses import replace
from typing import Final

from barnabas.coordinator.offsets.commits import refuse_commit
from barnabas.coordinator.offsets.refused_partitions import add_refused_commits, split
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages import offset_commit
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from broker.coordinator_access import ask_group, is_known
from broker.registry import Handler
from broker.services import RequestContext
from broker.zookeeper_offsets import commit_in_zookeeper


async def handle(request: OffsetCommitRequest, context: RequestContext) -> OffsetCommitResponse:
    """Ask the group's coordinator, for what there is."""
    broker = context.broker
    known, unknown = split(request.topics, is_known(broker))
    wanted = replace(request, topics=known)
    if not known:
        response = OffsetCommitResponse()
    elif context.version == 0:
        response = await commit_in_zookeeper(broker, wanted)
    else:
        response = await ask_group(
            context,
            request.group_id,
            lambda machine, ticket, now_ms, wall_ms: machine.commit(ticket, wanted, now_ms=now_ms, wall_ms=wall_ms),
            lambda error: refuse_commit(wanted, error),
        )
    add_refused_commits(response.topics, unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    for topic in response.topics:
        for partition in topic.partitions:
            broker.metrics.count_error(ApiKey.OFFSET_COMMIT, ErrorCode(partition.error_code))
    return response


API: Final = Handler(offset_commit.API, handle, oldest=0, newest=8)
