"""DescribeConfigs (API key 32): the configuration of topics, brokers and loggers (KIP-133).

Administrators send it to any broker, and to the broker itself for its own configuration.

Version 1 adds synonyms and a source in place of the default flag (KIP-226).
Version 2 is throttled after the response, not before it (KIP-219).
Version 3 adds types and documentation (KIP-569).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I8, I16, I32, Bool, NullableStr, Str
from barnabas.protocol.schema import Api, field, message, struct


@struct
class DescribeConfigsResource:
    """A resource; null asks for all its keys."""

    resource_type: I8 = 0
    resource_name: Str = ""
    configuration_keys: list[Str] | None = field(default_factory=list)


@message(versions=(0, 3))
class DescribeConfigsRequest:
    """What to describe."""

    resources: list[DescribeConfigsResource] = field(default_factory=list)
    include_synonyms: Bool = field(default=False, since=1)
    include_documentation: Bool = field(default=False, since=3)


@struct
class DescribeConfigsSynonym:
    """Another place that sets the key, the one that counts first."""

    name: Str = ""
    value: NullableStr = ""
    source: I8 = 0


@struct
class DescribeConfigsResourceResult:
    """A key; the value is null where it is sensitive or not set."""

    name: Str = ""
    value: NullableStr = ""
    read_only: Bool = False
    is_default: Bool = field(default=False, until=0)
    config_source: I8 = field(default=-1, since=1, ignorable=True)
    is_sensitive: Bool = False
    synonyms: list[DescribeConfigsSynonym] = field(default_factory=list, since=1, ignorable=True)
    config_type: I8 = field(default=0, since=3, ignorable=True)
    documentation: NullableStr = field(default="", since=3, ignorable=True)


@struct
class DescribeConfigsResult:
    """The configuration of one resource."""

    error_code: I16 = 0
    error_message: NullableStr = ""
    resource_type: I8 = 0
    resource_name: Str = ""
    configs: list[DescribeConfigsResourceResult] = field(default_factory=list)


@message(versions=(0, 3))
class DescribeConfigsResponse:
    """The configurations."""

    throttle_time_ms: I32 = 0
    results: list[DescribeConfigsResult] = field(default_factory=list)


API: Final = Api(ApiKey.DESCRIBE_CONFIGS, DescribeConfigsRequest, DescribeConfigsResponse)
