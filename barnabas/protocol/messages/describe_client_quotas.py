"""DescribeClientQuotas (API key 48): the quotas that match a filter (KIP-546).

Administrators send it to any broker.

Version 0 is not flexible.
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import F64, I8, I16, I32, Bool, NullableStr, Str
from barnabas.protocol.schema import Api, field, message, struct


@struct
class ComponentData:
    """One part of the filter: `match_type` 0 is that name, 1 the default, 2 any name."""

    entity_type: Str = ""
    match_type: I8 = 0
    match: NullableStr = ""


@message(versions=(0, 0))
class DescribeClientQuotasRequest:
    """The filter; `strict` leaves out entities that have more parts than it names."""

    components: list[ComponentData] = field(default_factory=list)
    strict: Bool = False


@struct
class EntityData:
    """One part of an entity; null is the default of its type."""

    entity_type: Str = ""
    entity_name: NullableStr = ""


@struct
class ValueData:
    """A quota."""

    key: Str = ""
    value: F64 = 0.0


@struct
class EntryData:
    """An entity and its quotas."""

    entity: list[EntityData] = field(default_factory=list)
    values: list[ValueData] = field(default_factory=list)


@message(versions=(0, 0))
class DescribeClientQuotasResponse:
    """The quotas."""

    throttle_time_ms: I32 = 0
    error_code: I16 = 0
    error_message: NullableStr = ""
    entries: list[EntryData] | None = field(default_factory=list)


API: Final = Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, DescribeClientQuotasRequest, DescribeClientQuotasResponse)
