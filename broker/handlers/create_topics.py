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
from collections.abc import Mapping
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
from broker.config import BrokerConfig
from broker.config_description import describe_topic
from broker.registry import Handler
from broker.request_context import RequestContext
from broker.services import Services
from broker.topic_creation import NewTopic, is_led, plan_topic, wait_for_leaders, write_topic
from broker.turns import Turns
from controller.topics import Assignment, TopicRefused
from zk_schema.ops import ZooKeeperError

log = logging.getLogger(__name__)


MAX_DESCRIBED: Final = 2_000
"""Topics whose configuration one answer shows, so that a request of many small topics has no huge answer."""


async def handle(request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
    """Check and write each topic in turn, then wait for all of them."""
    broker = context.broker
    turns = Turns(broker.clock)
    counts = Counter(topic.name for topic in request.topics)
    described = _Described(broker.config)
    made: dict[str, int] = {}
    results = []
    for topic in request.topics:
        if not broker.controller.is_active:
            result = CreatableTopicResult(topic.name, ErrorCode.NOT_CONTROLLER)
        elif counts[topic.name] > 1:
            message = "The request names this topic more than once."
            result = CreatableTopicResult(topic.name, ErrorCode.INVALID_REQUEST, message)
        else:
            result = await _create(topic, broker, described, validate_only=request.validate_only)
            if result.error_code == ErrorCode.NONE and not request.validate_only:
                made[topic.name] = result.num_partitions
        results.append(result)
        await turns.maybe_yield()
    if made and request.timeout_ms > 0:
        await wait_for_leaders(broker, made, timeout_ms=request.timeout_ms)
    for index, result in enumerate(results):
        if result.name in made and not (
            request.timeout_ms > 0 and is_led(broker.metadata, result.name, made[result.name])
        ):
            result = results[index] = CreatableTopicResult(result.name, ErrorCode.REQUEST_TIMED_OUT, None)
        if result.error_code != ErrorCode.NONE:
            broker.metrics.count_error(ApiKey.CREATE_TOPICS, ErrorCode(result.error_code))
        await turns.maybe_yield()
    return CreateTopicsResponse(topics=results)


class _Described:
    """The configurations that an answer shows; topics that set the same share one list."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._shown = 0
        self._lists: dict[frozenset[tuple[str, str]], list[CreatableTopicConfigs]] = {}

    def of(self, overrides: Mapping[str, str]) -> list[CreatableTopicConfigs] | None:
        """What a topic with these overrides has; None when the answer shows enough."""
        self._shown += 1
        if self._shown > MAX_DESCRIBED:
            return None
        key = frozenset(overrides.items())
        if key not in self._lists:
            self._lists[key] = [
                CreatableTopicConfigs(
                    name=each.name,
                    value=each.value,
                    read_only=each.read_only,
                    config_source=each.source,
                    is_sensitive=each.is_sensitive,
                )
                for each in describe_topic(self._config, overrides)
            ]
        return self._lists[key]


async def _create(
    topic: CreatableTopic, broker: Services, described: _Described, *, validate_only: bool
) -> CreatableTopicResult:
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
        log.debug("topic %.300r: not created: %.600r", topic.name, refused.message)
        return CreatableTopicResult(topic.name, refused.error, refused.message)
    except ZooKeeperError as error:
        log.warning("topic %.300r: not created: %s", topic.name, error)
        return CreatableTopicResult(topic.name, ErrorCode.REQUEST_TIMED_OUT, "ZooKeeper cannot be reached.")
    return _made(topic.name, assignment, wanted, described)


def _made(name: str, assignment: Assignment, wanted: NewTopic, described: _Described) -> CreatableTopicResult:
    configs = described.of({key: value for key, value in wanted.config.items() if value is not None})
    return CreatableTopicResult(
        name,
        ErrorCode.NONE,
        None,
        topic_config_error_code=ErrorCode.NONE if configs is not None else ErrorCode.INVALID_REQUEST,
        num_partitions=len(assignment),
        replication_factor=len(assignment[0]),
        configs=configs,
    )


API: Final[Handler] = Handler(create_topics.API, handle, oldest=0, newest=6)
