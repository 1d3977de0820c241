"""FindCoordinator, versions 0 to 3: the broker that coordinates a group, or from 1 on a transactional id.

It is the leader of one partition of an internal topic. Whoever asks first has the topic made, and is answered
COORDINATOR_NOT_AVAILABLE as long as there is no leader, for which it asks again.

1 transactional ids, throttle time and error messages · 3 flexible
"""

import logging
from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey, TopicPartition
from barnabas.protocol.messages import find_coordinator
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from broker.internal_topic_creation import create_internal_topic
from broker.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from broker.registry import Handler
from broker.request_context import RequestContext
from zk_schema.json_text import InvalidPayload
from zk_schema.ops import ZooKeeperError

log = logging.getLogger(__name__)

GROUP: Final = 0
TRANSACTION: Final = 1
_TOPICS: Final = {GROUP: CONSUMER_OFFSETS, TRANSACTION: TRANSACTION_STATE}
_NO_NODE: Final = -1
_MESSAGES: Final = {
    ErrorCode.NONE: "NONE",
    ErrorCode.INVALID_REQUEST: "Unknown coordinator type.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
}


async def handle(request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse:
    """Look where the partition's leader is."""
    topic = _TOPICS.get(request.key_type)
    if topic is None:
        return _refuse(context, ErrorCode.INVALID_REQUEST)
    broker = context.broker
    try:
        partition = await broker.coordination.partition_of(topic, request.key)
    except (ZooKeeperError, InvalidPayload) as error:
        log.warning("%s: how many partitions there are is not known: %s", topic, error)
        return _refuse(context, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if partition is None:
        await create_internal_topic(broker, topic)
        return _refuse(context, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    known = broker.metadata.partition(TopicPartition(topic, partition))
    leader = None if known is None else broker.metadata.endpoint(known.leader, context.listener_name)
    if known is None or leader is None:
        return _refuse(context, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return FindCoordinatorResponse(
        error_message=_MESSAGES[ErrorCode.NONE], node_id=known.leader, host=leader.host, port=leader.port
    )


def _refuse(context: RequestContext, error: ErrorCode) -> FindCoordinatorResponse:
    context.broker.metrics.count_error(ApiKey.FIND_COORDINATOR, error)
    return FindCoordinatorResponse(
        error_code=error, error_message=_MESSAGES[error], node_id=_NO_NODE, host="", port=_NO_NODE
    )


API: Final[Handler] = Handler(find_coordinator.API, handle, oldest=0, newest=3)
