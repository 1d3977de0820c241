"""DeleteTopics, versions 0 to 5, answered by the controller alone; any other broker answers NOT_CONTROLLER.

With `delete.topic.enable=false` TOPIC_DELETION_DISABLED is answered, before version 3 INVALID_REQUEST. The answer waits
until this broker knows the topics no more, at most `timeout_ms`: then, and at once where the timeout is not positive,
REQUEST_TIMED_OUT, though the deletion goes on. Asking again for a topic that is being deleted waits for it.

1 throttle time · 3 TOPIC_DELETION_DISABLED · 4 flexible · 5 error messages (none are given), THROTTLING_QUOTA_EXCEEDED
"""

import logging
from collections.abc import Generator, Mapping
from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages import delete_topics
from barnabas.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from broker.registry import Handler
from broker.request_context import RequestContext
from broker.services import Services
from broker.topic_creation import request_deletion, wait_until_gone
from broker.turns import Turns
from controller.topics import TopicRefused
from zk_schema.ops import ZooKeeperError

log = logging.getLogger(__name__)


async def handle(request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
    """Ask for each deletion in turn, then wait for all of them."""
    broker = context.broker
    names = list(dict.fromkeys(request.topic_names))
    if not broker.controller.is_active:
        errors = dict.fromkeys(names, ErrorCode.NOT_CONTROLLER)
    elif not broker.config.delete_topic_enable:
        disabled = ErrorCode.TOPIC_DELETION_DISABLED if context.version >= 3 else ErrorCode.INVALID_REQUEST
        errors = dict.fromkeys(names, disabled)
    else:
        turns = Turns(broker.clock)
        errors = {}
        for name in names:
            errors[name] = await _request(broker, name)
            await turns.maybe_yield()
        going = [name for name in names if errors[name] is ErrorCode.NONE]
        if going and request.timeout_ms > 0:
            await wait_until_gone(broker, going, timeout_ms=request.timeout_ms)
        for name in going:
            if request.timeout_ms <= 0 or broker.metadata.has_topic(name):
                errors[name] = ErrorCode.REQUEST_TIMED_OUT
    return await Turns(broker.clock).finish(_answer(broker, request, errors))


def _answer(
    broker: Services, request: DeleteTopicsRequest, errors: Mapping[str, ErrorCode]
) -> Generator[None, None, DeleteTopicsResponse]:
    for error in errors.values():
        if error is not ErrorCode.NONE:
            broker.metrics.count_error(ApiKey.DELETE_TOPICS, error)
        yield
    responses = []
    for name in request.topic_names:
        responses.append(DeletableTopicResult(name, errors[name]))
        yield
    return DeleteTopicsResponse(responses=responses)


async def _request(broker: Services, name: str) -> ErrorCode:
    if not broker.metadata.has_topic(name):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        await request_deletion(broker, name)
    except TopicRefused as refused:
        return refused.error
    except ZooKeeperError as error:
        log.warning("topic %.300r: deletion not requested: %s", name, error)
        return ErrorCode.REQUEST_TIMED_OUT
    return ErrorCode.NONE


API: Final[Handler] = Handler(delete_topics.API, handle, oldest=0, newest=5)
