"""DescribeConfigs, versions 0 to 3: the configuration of topics, of this broker, and of its loggers.

A broker describes itself when it is named by its id; with an empty name the cluster's dynamic defaults are meant, of
which this version has none. Another broker's id is answered INVALID_REQUEST, an unknown topic
UNKNOWN_TOPIC_OR_PARTITION. One resource of a type that there is not fails the whole request with INVALID_REQUEST.
Values of secrets are null. No keys, or null, ask for all of them; a key that there is not is left out.

Version 0 has a flag for defaults that Kafka 2.7 never sets; so here.

1 sources and synonyms · 3 types and documentation (KIP-569)
"""

import logging
import re
from enum import IntEnum
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
from broker.config_description import Description, describe_broker, describe_topic
from broker.registry import Handler
from broker.services import RequestContext
from broker.topic_configs import TopicConfigs
from controller.topics import TopicRefused, check_topic_name
from zk_schema.json_text import InvalidPayload
from zk_schema.ops import ZooKeeperError

log = logging.getLogger(__name__)

_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_LOGGER_SOURCE: Final = 6
_LEVEL_NAMES: Final = {logging.CRITICAL: "FATAL", logging.WARNING: "WARN"}


class ResourceType(IntEnum):
    """What can be described. The number is that of Kafka's ConfigResource."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8


class _Refused(Exception):
    """A resource that is answered with an error."""

    def __init__(self, error: ErrorCode, message: str | None) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


async def handle(request: DescribeConfigsRequest, context: RequestContext) -> DescribeConfigsResponse:
    """Describe each resource by itself."""
    known = {int(kind) for kind in ResourceType}
    unknown = sorted({each.resource_type for each in request.resources} - known)
    if unknown:
        refused = _Refused(ErrorCode.INVALID_REQUEST, f"Resource type {unknown[0]} is not known.")
        return DescribeConfigsResponse(results=[_failed(context, each, refused) for each in request.resources])
    results = []
    for resource in request.resources:
        try:
            configs = await _describe(request, context, resource)
        except _Refused as refused:
            results.append(_failed(context, resource, refused))
        else:
            name = resource.resource_name
            results.append(DescribeConfigsResult(ErrorCode.NONE, "", resource.resource_type, name, configs))
    return DescribeConfigsResponse(results=results)


def _failed(context: RequestContext, resource: DescribeConfigsResource, refused: _Refused) -> DescribeConfigsResult:
    context.broker.metrics.count_error(ApiKey.DESCRIBE_CONFIGS, refused.error)
    return DescribeConfigsResult(refused.error, refused.message, resource.resource_type, resource.resource_name)


async def _describe(
    request: DescribeConfigsRequest, context: RequestContext, resource: DescribeConfigsResource
) -> list[DescribeConfigsResourceResult]:
    broker = context.broker
    keys = resource.configuration_keys
    if resource.resource_type == ResourceType.TOPIC:
        descriptions = describe_topic(broker.config, await _overrides(context, resource.resource_name), keys)
    elif resource.resource_type == ResourceType.BROKER:
        if not resource.resource_name:
            return []
        _require_this_broker(context, resource.resource_name, "or an empty name")
        descriptions = describe_broker(broker.config, keys)
    else:
        if not resource.resource_name:
            raise _Refused(ErrorCode.INVALID_REQUEST, "A broker's loggers are asked for by its id.")
        _require_this_broker(context, resource.resource_name)
        return _loggers(keys)
    return [
        _result(each, synonyms=request.include_synonyms, documentation=request.include_documentation)
        for each in descriptions
    ]


async def _overrides(context: RequestContext, topic: str) -> dict[str, str]:
    try:
        check_topic_name(topic)
    except TopicRefused as error:
        raise _Refused(error.error, error.message) from error
    if not context.broker.metadata.has_topic(topic):
        raise _Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    try:
        return await TopicConfigs(context.broker.config, context.broker.zk).overrides(topic)
    except (ZooKeeperError, InvalidPayload) as error:
        log.warning("topic %s: its configuration cannot be read: %s", topic, error)
        raise _Refused(ErrorCode.UNKNOWN_SERVER_ERROR, "The topic's configuration cannot be read.") from error


def _require_this_broker(context: RequestContext, name: str, otherwise: str = "") -> None:
    if not _INTEGER.fullmatch(name) or not -(2**31) <= int(name) < 2**31:
        raise _Refused(ErrorCode.INVALID_REQUEST, f"A broker's id is a number, not '{name}'.")
    if int(name) != context.broker.broker_id:
        message = f"This is broker {context.broker.broker_id}: ask it for that {otherwise}".rstrip()
        raise _Refused(ErrorCode.INVALID_REQUEST, f"{message}, not for {name}.")


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


def _loggers(keys: list[str] | None) -> list[DescribeConfigsResourceResult]:
    """The process's loggers and their levels in Kafka's words. They cannot be changed from outside in this version."""
    root = logging.getLogger()
    named = {name: each for name, each in root.manager.loggerDict.items() if isinstance(each, logging.Logger)}
    levels = {name: each.getEffectiveLevel() for name, each in sorted(named.items())}
    return [
        DescribeConfigsResourceResult(
            name=name,
            value=_LEVEL_NAMES.get(level, logging.getLevelName(level)),
            read_only=True,
            config_source=_LOGGER_SOURCE,
        )
        for name, level in ({"root": root.getEffectiveLevel()} | levels).items()
        if not keys or name in keys
    ]


API: Final = Handler(describe_configs.API, handle, oldest=0, newest=3)
