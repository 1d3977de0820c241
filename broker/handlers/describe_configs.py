"""DescribeConfigs, versions 0 to 3: the configuration of topics, of this broker, and of its loggers.

A broker describes itself when it is named by its id; with an empty name what ZooKeeper sets for all brokers is meant.
Another broker's id is answered INVALID_REQUEST, an unknown topic UNKNOWN_TOPIC_OR_PARTITION. One resource of a type
that there is not fails the whole request with INVALID_REQUEST. Values of secrets are null. No keys, or null, ask for
all of them; a key that there is not is left out. A key that Kafka changes in a running broker and this version does not
is told as read-only.

An answer is bounded: what a request names beyond `MAX_RESOURCES` and `MAX_ANSWER_BYTES` is answered INVALID_REQUEST.

Version 0 has a flag for defaults that Kafka 2.7 never sets; so here.

1 sources and synonyms · 3 types and documentation (KIP-569)
"""

import logging
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages import describe_configs
from barnabas.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from broker import logger_levels
from broker.config_description import ConfigSource, Description, describe_all_brokers, describe_broker, describe_topic
from broker.config_resources import ResourceRefused, ResourceType, require_this_broker
from broker.registry import Handler
from broker.request_context import RequestContext
from broker.topic_configs import TopicConfigs
from broker.turns import Turns
from controller.topics import TopicRefused, check_topic_name
from zk_schema.json_text import InvalidPayload
from zk_schema.ops import ZooKeeperError

log = logging.getLogger(__name__)

MAX_RESOURCES: Final = 2_000
MAX_ANSWER_BYTES: Final = 8 * 1024 * 1024
"""An answer is many times its request, the more if that names a thing again and again."""
_TEXT_BYTES: Final = 4
"""A text's length and its share of the numbers beside it."""


@dataclass(slots=True)
class _Told:
    """What became of one naming: configurations, or an error with its message."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = ""
    configs: list[DescribeConfigsResourceResult] = field(default_factory=list)
    size_bytes: int = 0
    """About what it takes in an answer."""


_TOO_MUCH: Final = _Told(
    ErrorCode.INVALID_REQUEST,
    f"The request asks for more than one answer holds: {MAX_RESOURCES} resources, or {MAX_ANSWER_BYTES} bytes.",
)


async def handle(request: DescribeConfigsRequest, context: RequestContext) -> DescribeConfigsResponse:
    """Describe each resource by itself; what is named again shares what was found the first time."""
    turns = Turns(context.broker.clock)
    refused = _unknown_type(request)
    found: dict[tuple[int, str, frozenset[str]], _Told] = {}
    overrides: dict[str, dict[str, str]] = {}
    results = []
    room_bytes = MAX_ANSWER_BYTES
    for index, resource in enumerate(request.resources):
        if refused is not None:
            told = refused
        elif index >= MAX_RESOURCES or room_bytes <= 0:
            told = _TOO_MUCH
        else:
            key = (resource.resource_type, resource.resource_name, frozenset(resource.configuration_keys or ()))
            known = found.get(key)
            if known is None:
                known = found[key] = await _tell(request, context, resource, overrides)
            told = known
            room_bytes -= told.size_bytes
        if told.error is not ErrorCode.NONE:
            context.broker.metrics.count_error(ApiKey.DESCRIBE_CONFIGS, told.error)
        results.append(
            DescribeConfigsResult(
                told.error, told.message, resource.resource_type, resource.resource_name, told.configs
            )
        )
        await turns.maybe_yield()
    return DescribeConfigsResponse(results=results)


def _unknown_type(request: DescribeConfigsRequest) -> _Told | None:
    unknown = {each.resource_type for each in request.resources} - {int(kind) for kind in ResourceType}
    return _Told(ErrorCode.INVALID_REQUEST, f"Resource type {min(unknown)} is not known.") if unknown else None


async def _tell(
    request: DescribeConfigsRequest,
    context: RequestContext,
    resource: DescribeConfigsResource,
    overrides: dict[str, dict[str, str]],
) -> _Told:
    try:
        configs = await _describe(request, context, resource, overrides)
    except ResourceRefused as refused:
        return _Told(refused.error, refused.message)
    return _Told(configs=configs, size_bytes=sum(map(_size_bytes, configs)))


def _size_bytes(config: DescribeConfigsResourceResult) -> int:
    texts = [config.name, config.value, config.documentation]
    for synonym in config.synonyms:
        texts += (synonym.name, synonym.value)
    return sum(_TEXT_BYTES + len(text or "") for text in texts)


async def _describe(
    request: DescribeConfigsRequest,
    context: RequestContext,
    resource: DescribeConfigsResource,
    overrides: dict[str, dict[str, str]],
) -> list[DescribeConfigsResourceResult]:
    broker = context.broker
    name, keys = resource.resource_name, resource.configuration_keys
    if resource.resource_type == ResourceType.TOPIC:
        if name not in overrides:
            overrides[name] = await _overrides(context, name)
        descriptions = describe_topic(broker.config, overrides[name], keys)
    elif resource.resource_type == ResourceType.BROKER:
        if name:
            require_this_broker(broker.broker_id, name)
        descriptions = (describe_broker if name else describe_all_brokers)(broker.config, keys)
    else:
        if not name:
            raise ResourceRefused(ErrorCode.INVALID_REQUEST, "A broker's loggers are asked for by its id.")
        require_this_broker(broker.broker_id, name)
        return _loggers(frozenset(keys or ()))
    return [
        _result(each, synonyms=request.include_synonyms, documentation=request.include_documentation)
        for each in descriptions
    ]


async def _overrides(context: RequestContext, topic: str) -> dict[str, str]:
    try:
        check_topic_name(topic)
    except TopicRefused as error:
        raise ResourceRefused(error.error, error.message) from error
    if not context.broker.metadata.has_topic(topic):
        raise ResourceRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    try:
        return await TopicConfigs(context.broker.dynamic_config, context.broker.zk).overrides(topic)
    except (ZooKeeperError, InvalidPayload) as error:
        log.warning("topic %s: its configuration cannot be read: %s", topic, error)
        raise ResourceRefused(ErrorCode.UNKNOWN_SERVER_ERROR, "The topic's configuration cannot be read.") from error


def _result(described: Description, *, synonyms: bool, documentation: bool) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=described.name,
        value=described.value,
        read_only=described.read_only,
        config_source=described.source,
        is_sensitive=described.is_sensitive,
        synonyms=[
            DescribeConfigsSynonym(each.name, each.value, each.source)
            for each in (described.synonyms if synonyms else ())
        ],
        config_type=described.type,
        documentation=described.documentation if documentation else None,
    )


def _loggers(keys: Collection[str]) -> list[DescribeConfigsResourceResult]:
    return [
        DescribeConfigsResourceResult(name=name, value=level, read_only=False, config_source=ConfigSource.LOGGER)
        for name, level in logger_levels.levels().items()
        if not keys or name in keys
    ]


API: Final[Handler] = Handler(describe_configs.API, handle, oldest=0, newest=3)
