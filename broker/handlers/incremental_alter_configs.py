"""IncrementalAlterConfigs, versions 0 and 1: sets, deletes, extends and shortens single settings (KIP-339).

Of topics, of this broker, with an empty name of all brokers, and of this broker's loggers (KIP-412: their levels, which
last until the process ends). Errors are those of AlterConfigs; INVALID_REQUEST also for a key that is changed twice,
for an operation that there is not, and for appending to what is no list or taking from it. A resource of another type
fails the whole request. Of a resource that is named twice the last naming counts, as in Kafka. Answered when the change
acts on this broker; others hear of it within moments.

1 flexible
"""

from collections.abc import Mapping
from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages import incremental_alter_configs as messages
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from broker.config_alteration import alter_broker, alter_each, alter_loggers, alter_topic, refuse_all
from broker.config_keys import BROKER_KEYS, TOPIC_KEYS
from broker.config_operations import Change, Operation, apply_changes, check_changes
from broker.config_resources import ResourceRefused, ResourceType, told
from broker.registry import Handler
from broker.request_context import RequestContext

_KEY: Final = messages.API.key


async def handle(request: IncrementalAlterConfigsRequest, context: RequestContext) -> IncrementalAlterConfigsResponse:
    """Change each resource by itself."""

    async def alter(resource: AlterConfigsResource) -> str | None:
        return await _alter(resource, context, validate_only=request.validate_only)

    named = [(each.resource_type, each.resource_name) for each in request.resources]
    unknown = sorted({kind for kind, _ in named}.difference(map(int, ResourceType)))
    if unknown:
        outcomes = refuse_all(context.broker, _KEY, named, f"A resource of type {unknown[0]} cannot be altered.")
    else:
        resources = dict(zip(named, request.resources, strict=True))
        outcomes = await alter_each(context.broker, _KEY, resources, alter)
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(*told(refused), kind, name) for (kind, name), refused in outcomes.items()
        ]
    )


async def _alter(resource: AlterConfigsResource, context: RequestContext, *, validate_only: bool) -> str | None:
    kind, name = resource.resource_type, resource.resource_name
    changes = [Change(each.name, each.config_operation, each.value) for each in resource.configs]
    if kind == ResourceType.BROKER_LOGGER:
        alter_loggers(context.broker, name, changes, validate_only=validate_only)
        return None
    check_changes(changes)
    keys, change = (TOPIC_KEYS, alter_topic) if kind == ResourceType.TOPIC else (BROKER_KEYS, alter_broker)

    def decide(present: Mapping[str, str] | None) -> dict[str, str]:
        if present is None:
            message = "What is set now cannot be read: replace it as a whole."
            raise ResourceRefused(ErrorCode.UNKNOWN_SERVER_ERROR, message)
        return apply_changes(present, changes, keys)

    asked = {each.name for each in changes if each.operation != Operation.DELETE}
    return await change(context.broker, name, decide, asked=asked, validate_only=validate_only)


API: Final[Handler] = Handler(messages.API, handle, oldest=0, newest=1)
