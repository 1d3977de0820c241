"""CreatePartitions, versions 0 to 3, answered by the controller alone; any other broker answers NOT_CONTROLLER.

`count` is the number of partitions in all and must be greater than the present one. Each topic stands for itself and
is answered once; one that the request names twice with INVALID_REQUEST, one that is being deleted with
INVALID_TOPIC_EXCEPTION. With `validate_only` nothing is written. Else the answer waits until this broker knows a leader
of every partition, at most `timeout_ms`: then, and at once where the timeout is not positive, REQUEST_TIMED_OUT.

2 flexible · 3 THROTTLING_QUOTA_EXCEEDED, which needs quotas
"""

import logging
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass
from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages import create_partitions
from barnabas.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from broker.registry import Handler
from broker.request_context import RequestContext
from broker.services import Services
from broker.topic_creation import grow_topic, is_being_deleted, is_led, wait_for_leaders
from broker.turns import Turns
from controller.topics import TopicRefused
from zk_schema.ops import ZooKeeperError

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Outcome:
    """What became of a topic: an error with its message, or how many partitions it has now."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    count: int = 0


async def handle(request: CreatePartitionsRequest, context: RequestContext) -> CreatePartitionsResponse:
    """Grow each topic in turn, then wait for all of them."""
    broker = context.broker
    turns = Turns(broker.clock)
    if not broker.controller.is_active:
        elsewhere = _Outcome(ErrorCode.NOT_CONTROLLER)
        return await turns.finish(_answer(broker, {topic.name: elsewhere for topic in request.topics}))
    counts = Counter(topic.name for topic in request.topics)
    outcomes: dict[str, _Outcome] = {}
    for topic in request.topics:
        if counts[topic.name] > 1:
            outcomes[topic.name] = _Outcome(ErrorCode.INVALID_REQUEST, "The request names this topic more than once.")
        else:
            outcomes[topic.name] = await _grow(topic, broker, validate_only=request.validate_only)
        await turns.maybe_yield()
    grown = {name: each.count for name, each in outcomes.items() if each.error is ErrorCode.NONE}
    if not request.validate_only:
        if grown and request.timeout_ms > 0:
            await wait_for_leaders(broker, grown, timeout_ms=request.timeout_ms)
        for name, count in grown.items():
            if request.timeout_ms <= 0 or not is_led(broker.metadata, name, count):
                outcomes[name] = _Outcome(ErrorCode.REQUEST_TIMED_OUT)
            await turns.maybe_yield()
    return await turns.finish(_answer(broker, outcomes))


async def _grow(topic: CreatePartitionsTopic, broker: Services, *, validate_only: bool) -> _Outcome:
    manual = None if topic.assignments is None else [each.broker_ids for each in topic.assignments]
    try:
        if await is_being_deleted(broker, topic.name):
            return _Outcome(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{topic.name}' is being deleted.")
        count = await grow_topic(broker, topic.name, total=topic.count, manual=manual, validate_only=validate_only)
    except TopicRefused as refused:
        log.debug("topic %.300r: no partitions added: %.600r", topic.name, refused.message)
        return _Outcome(refused.error, refused.message)
    except ZooKeeperError as error:
        log.warning("topic %.300r: no partitions added: %s", topic.name, error)
        return _Outcome(ErrorCode.REQUEST_TIMED_OUT, "ZooKeeper cannot be reached.")
    return _Outcome(count=count)


def _answer(broker: Services, outcomes: dict[str, _Outcome]) -> Generator[None, None, CreatePartitionsResponse]:
    results = []
    for name, outcome in outcomes.items():
        if outcome.error is not ErrorCode.NONE:
            broker.metrics.count_error(ApiKey.CREATE_PARTITIONS, outcome.error)
        results.append(CreatePartitionsTopicResult(name, outcome.error, outcome.message))
        yield
    return CreatePartitionsResponse(results=results)


API: Final[Handler] = Handler(create_partitions.API, handle, oldest=0, newest=3)
