"""AlterConfigs, versions 0 and 1: replaces all that is set for topics, for this broker, or with an empty name for all.

Any broker takes a topic's or all brokers' settings; those of one broker only that one (else INVALID_REQUEST). What a
request leaves out is unset. An unknown topic gets UNKNOWN_TOPIC_OR_PARTITION, a topic's key that there is not or does
not act INVALID_CONFIG, all else that may not be INVALID_REQUEST: a value, a null, a broker's key that does not change
while it runs. A resource of another type fails the whole request with INVALID_REQUEST, and so does one that is named
twice (Kafka 2.7: UNKNOWN_SERVER_ERROR). Answered when the change acts on this broker; others hear of it within moments.

1 throttled after the answer (KIP-219)
"""

from collections.abc import Mapping
from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages import alter_configs as messages
from barnabas.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from broker.config_alteration import alter_broker, alter_each, alter_topic, refuse_all
from broker.config_resources import ResourceRefused, ResourceType, told
from broker.registry import Handler
from broker.request_context import RequestContext

_KEY: Final = messages.API.key
_TYPES: Final = (ResourceType.TOPIC, ResourceType.BROKER)


async def handle(request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
    """Replace each resource's settings by themselves."""

    async def alter(resource: AlterConfigsResource) -> str | None:
        unset = [each.name for each in resource.configs if each.value is None]
        if unset:
            raise ResourceRefused(ErrorCode.INVALID_REQUEST, f"A key cannot be set to null: {', '.join(unset)}.")
        wanted = {each.name: each.value for each in resource.configs if each.value is not None}

        def replace(_: Mapping[str, str] | None) -> dict[str, str]:
            return wanted

        change = alter_topic if resource.resource_type == ResourceType.TOPIC else alter_broker
        return await change(
            context.broker, resource.resource_name, replace, asked=wanted, validate_only=request.validate_only
        )

    named = [(each.resource_type, each.resource_name) for each in request.resources]
    unknown = sorted({kind for kind, _ in named}.difference(_TYPES))
    if unknown:
        outcomes = refuse_all(context.broker, _KEY, named, f"A resource of type {unknown[0]} cannot be altered so.")
    elif len(set(named)) < len(named):
        outcomes = refuse_all(context.broker, _KEY, named, "A resource is named twice.")
    else:
        resources = dict(zip(named, request.resources, strict=True))
        outcomes = await alter_each(context.broker, _KEY, resources, alter)
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(*told(refused), kind, name) for (kind, name), refused in outcomes.items()
        ]
    )


API: Final[Handler] = Handler(messages.API, handle, oldest=0, newest=1)
