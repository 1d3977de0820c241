"""ElectLeaders, versions 0 to 2: answered by the controller alone, by any other with NOT_CONTROLLER for each partition.

Preferred elections (type 0, the only ones of version 0) and unclean ones (type 1). The answer waits until this broker
knows the new leaders, at most `timeout_ms`: then REQUEST_TIMED_OUT. Null asks for all partitions, and the answer leaves
those out that need no election. A type that there is not fails the whole with UNKNOWN_SERVER_ERROR, as in Kafka.

ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE (unclean, and nobody lives),
UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION (it is being deleted).

1 types, an error of the whole (KIP-460) · 2 flexible
"""

from collections.abc import Generator, Mapping
from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey, BrokerId, TopicPartition
from barnabas.protocol.messages import elect_leaders as messages
from barnabas.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from broker.registry import Handler
from broker.request_context import RequestContext
from broker.services import Services
from broker.turns import Turns
from controller.inbox import NotController
from controller.questions import DONE, ElectionKind, ElectLeaders, Outcome, Outcomes

_TIMED_OUT: Final = Outcome(ErrorCode.REQUEST_TIMED_OUT)


async def handle(request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
    """Ask the controller, then wait for the leaders."""
    broker = context.broker
    turns = Turns(broker.clock)
    wanted = tuple(await turns.finish(_wanted(request, broker)))
    try:
        kind = ElectionKind(request.election_type)
    except ValueError:
        unknown = Outcome(ErrorCode.UNKNOWN_SERVER_ERROR)
        results = await turns.finish(_results(dict.fromkeys(wanted, unknown), broker))
        return ElectLeadersResponse(error_code=unknown.error, replica_election_results=results)
    try:
        elected = await broker.controller.ask(ElectLeaders(kind, wanted))
    except NotController:
        outcomes = dict.fromkeys(wanted, Outcome(ErrorCode.NOT_CONTROLLER))
    else:
        outcomes = elected.refused | await _await_leaders(broker, elected.leaders, timeout_ms=request.timeout_ms)
    if request.topic_partitions is None:
        outcomes = {at: each for at, each in outcomes.items() if each.error is not ErrorCode.ELECTION_NOT_NEEDED}
    return ElectLeadersResponse(replica_election_results=await turns.finish(_results(outcomes, broker)))


def _wanted(request: ElectLeadersRequest, broker: Services) -> Generator[None, None, dict[TopicPartition, None]]:
    wanted: dict[TopicPartition, None] = {}
    if request.topic_partitions is None:
        # A list at once: what is known changes while others have their turn.
        for partition in list(broker.metadata):
            wanted[partition.topic_partition] = None
            yield
    for topic in request.topic_partitions or ():
        for number in topic.partition_id:
            wanted[TopicPartition(topic.topic, number)] = None
            yield
    return wanted


async def _await_leaders(
    broker: Services, leaders: Mapping[TopicPartition, BrokerId], *, timeout_ms: int
) -> dict[TopicPartition, Outcome]:
    """Which of these leaders this broker knows of by the end of the time."""
    left = dict(leaders)

    def all_known() -> bool:
        for at in list(left):
            known = broker.metadata.partition(at)
            if known is not None and known.leader == left[at]:
                del left[at]
        return not left

    if not all_known() and timeout_ms > 0:
        topics = list(dict.fromkeys(at.topic for at in left))
        await broker.metadata.wait_until(topics, all_known, timeout_ms=timeout_ms)
    return {at: _TIMED_OUT if at in left else DONE for at in leaders}


def _results(outcomes: Outcomes, broker: Services) -> Generator[None, None, list[ReplicaElectionResult]]:
    topics: dict[str, ReplicaElectionResult] = {}
    for (name, number), outcome in outcomes.items():
        if outcome.error is not ErrorCode.NONE:
            broker.metrics.count_error(ApiKey.ELECT_LEADERS, outcome.error)
        topic = topics.setdefault(name, ReplicaElectionResult(name))
        topic.partition_result.append(PartitionResult(number, outcome.error, outcome.message))
        yield
    return list(topics.values())


API: Final[Handler] = Handler(messages.API, handle, oldest=0, newest=2)
