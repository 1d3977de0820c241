"""IncrementalAlterConfigs (API key 44): changes single configuration keys of topics, brokers and loggers (KIP-339).

Administrators send it to any broker, and to the broker itself for its own configuration.

Version 1 is flexible (KIP-482).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I8, I16, I32, Bool, NullableStr, Str
from barnabas.protocol.schema import Api, field, message, struct


@struct
class AlterableConfig:
    """A key; `config_operation` 0 sets, 1 deletes, 2 appends to a list, 3 takes away from it."""

    name: Str = ""
    config_operation: I8 = 0
    value: NullableStr = ""


@struct
class AlterConfigsResource:
    """A resource and what shall change on it."""

    resource_type: I8 = 0
    resource_name: Str = ""
    configs: list[AlterableConfig] = field(default_factory=list)


@message(versions=(0, 1), flexible=1)
class IncrementalAlterConfigsRequest:
    """What to change, or with `validate_only` to try."""

    resources: list[AlterConfigsResource] = field(default_factory=list)
    validate_only: Bool = False


@struct
class AlterConfigsResourceResponse:
    """What became of one resource."""

    error_code: I16 = 0
    error_message: NullableStr = ""
    resource_type: I8 = 0
    resource_name: Str = ""


@message(versions=(0, 1), flexible=1)
class IncrementalAlterConfigsResponse:
    """What was changed."""

    throttle_time_ms: I32 = 0
    responses: list[AlterConfigsResourceResponse] = field(default_factory=list)


API: Final = Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse)
