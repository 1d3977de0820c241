"""CreateTopics, versions 0 to 6, answered by the controller alone; any other broker answers NOT_CONTROLLER.

Each topic stands for itself. A name that occurs twice is answered INVALID_REQUEST at each place. -1 partitions or
replicas take the broker's defaults. With `validate_only` everything is checked and nothing written. Else the answer
waits until this broker knows a leader of every partition, at most `timeout_ms`: then, and at once where the timeout is
not positive, REQUEST_TIMED_OUT, though the topic is being made.

1 validate_only, error messages · 2 throttle time · 4 defaults · 5 flexible, partitions, replication factor and
configuration of what was made (KIP-525) · 6 THROTTLING_QUOTA_EXCEEDED, which needs quotas
"""

import logging
from collections import Counter
from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages import create_topics
from barnabas.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from broker.config_description import describe_topic
from broker.registry import Handler
from broker.services import RequestContext, Services
from broker.topic_creation import NewTopic, is_led, plan_topic, wait_for_leaders, write_topic
from controller.topics import Assignment, TopicRefused
from zk_schema.ops import ZooKeeperError

log = logging.getLogger(__name__)


async def handle(request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
    """Check and write each topic in turn, then wait for all of them."""
    broker = context.broker
    if not broker.controller.is_active:
        results = [CreatableTopicResult(topic.name, ErrorCode.NOT_CONTROLLER) for topic in request.topics]
        return _answer(broker, results)
    counts = Counter(topic.name for topic in request.topics)
    made: dict[str, int] = {}
    results = []
    for topic in request.topics:
        if counts[topic.name] > 1:
            message = "The request names this topic more than once."
            results.append(CreatableTopicResult(topic.name, ErrorCode.INVALID_REQUEST, message))
            continue
        result = await _create(topic, broker, validate_only=request.validate_only)
        if result.error_code == ErrorCode.NONE and not request.validate_only:
            made[topic.name] = result.num_partitions
        results.append(result)
    if made and request.timeout_ms > 0:
        await wait_for_leaders(broker, made, timeout_ms=request.timeout_ms)
    for index, result in enumerate(results):
        if result.name in made and not (
            request.timeout_ms > 0 and is_led(broker.metadata, result.name, made[result.name])
        ):
            results[index] = CreatableTopicResult(result.name, ErrorCode.REQUEST_TIMED_OUT, None)
    return _answer(broker, results)


async def _create(topic: CreatableTopic, broker: Services, *, validate_only: bool) -> CreatableTopicResult:
    wanted = NewTopic(
        topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        manual={each.partition_index: each.broker_ids for each in topic.assignments},
        config={each.name: each.value for each in topic.configs},
    )
    try:
        assignment = await plan_topic(broker, wanted)
        if not validate_only:
            await write_topic(broker, topic.name, assignment, wanted.config)
    except TopicRefused as refused:
        log.info("topic %s: not created: %s", topic.name, refused.message)
        return CreatableTopicResult(topic.name, refused.error, refused.message)
    except ZooKeeperError as error:
        log.warning("topic %s: not created: %s", topic.name, error)
        return CreatableTopicResult(topic.name, ErrorCode.REQUEST_TIMED_OUT, "ZooKeeper cannot be reached.")
    return _made(topic.name, broker, assignment, wanted)


def _made(name: str, broker: Services, assignment: Assignment, wanted: NewTopic) -> CreatableTopicResult:
    overrides = {key: value for key, value in wanted.config.items() if value is not None}
    return CreatableTopicResult(
        name,
        ErrorCode.NONE,
        None,
        num_partitions=len(assignment),
        replication_factor=len(assignment[0]),
        configs=[
            CreatableTopicConfigs(
                name=each.name,
                value=each.value,
                read_only=each.read_only,
                config_source=each.source,
                is_sensitive=each.is_sensitive,
            )
            for each in describe_topic(broker.config, overrides)
        ],
    )


def _answer(broker: Services, results: list[CreatableTopicResult]) -> CreateTopicsResponse:
    for result in results:
        if result.error_code != ErrorCode.NONE:
            broker.metrics.count_error(ApiKey.CREATE_TOPICS, ErrorCode(result.error_code))
    return CreateTopicsResponse(topics=results)


API: Final = Handler(create_topics.API, handle, oldest=0, newest=6)
