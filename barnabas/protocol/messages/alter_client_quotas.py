"""AlterClientQuotas (API key 49): sets and removes quotas (KIP-546).

Administrators send it to any broker.

Version 0 is not flexible.
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import F64, I16, I32, Bool, NullableStr, Str
from barnabas.protocol.schema import Api, field, message, struct


@struct
class EntityData:
    """One part of an entity; null is the default of its type."""

    entity_type: Str = ""
    entity_name: NullableStr = ""


@struct
class OpData:
    """A quota to set or to remove."""

    key: Str = ""
    value: F64 = 0.0
    remove: Bool = False


@struct
class EntryData:
    """An entity and what shall change on it."""

    entity: list[EntityData] = field(default_factory=list)
    ops: list[OpData] = field(default_factory=list)


@message(versions=(0, 0))
class AlterClientQuotasRequest:
    """What to change, or with `validate_only` to try."""

    entries: list[EntryData] = field(default_factory=list)
    validate_only: Bool = False


@struct
class EntryDataResult:
    """What became of one entity."""

    error_code: I16 = 0
    error_message: NullableStr = ""
    entity: list[EntityData] = field(default_factory=list)


@message(versions=(0, 0))
class AlterClientQuotasResponse:
    """What was changed."""

    throttle_time_ms: I32 = 0
    entries: list[EntryDataResult] = field(default_factory=list)


API: Final = Api(ApiKey.ALTER_CLIENT_QUOTAS, AlterClientQuotasRequest, AlterClientQuotasResponse)
