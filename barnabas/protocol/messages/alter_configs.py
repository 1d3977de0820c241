"""AlterConfigs (API key 33): replaces the configuration of topics and brokers (KIP-133).

Administrators send it to any broker, and to the broker itself for its own configuration.

Version 1 is throttled after the response, not before it (KIP-219).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I8, I16, I32, Bool, NullableStr, Str
from barnabas.protocol.schema import Api, field, message, struct


@struct
class AlterableConfig:
    """A key and its value."""

    name: Str = ""
    value: NullableStr = ""


@struct
class AlterConfigsResource:
    """A resource and all that shall be set on it."""

    resource_type: I8 = 0
    resource_name: Str = ""
    configs: list[AlterableConfig] = field(default_factory=list)


@message(versions=(0, 1))
class AlterConfigsRequest:
    """What to replace, or with `validate_only` to try."""

    resources: list[AlterConfigsResource] = field(default_factory=list)
    validate_only: Bool = False


@struct
class AlterConfigsResourceResponse:
    """What became of one resource."""

    error_code: I16 = 0
    error_message: NullableStr = ""
    resource_type: I8 = 0
    resource_name: Str = ""


@message(versions=(0, 1))
class AlterConfigsResponse:
    """What was replaced."""

    throttle_time_ms: I32 = 0
    responses: list[AlterConfigsResourceResponse] = field(default_factory=list)


API: Final = Api(ApiKey.ALTER_CONFIGS, AlterConfigsRequest, AlterConfigsResponse)
