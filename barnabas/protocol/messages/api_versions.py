"""ApiVersions (API key 18): which APIs and versions a broker has (KIP-35).

Clients and brokers send it first on a connection, to any broker. The response header is always version 0, and a version
that the broker does not have is answered in version 0 with UNSUPPORTED_VERSION and the table (KIP-511).

Version 1 adds the throttle time.
Version 2 is throttled after the response, not before it (KIP-219).
Version 3 is flexible; it adds the client's software (KIP-511) and the features of the cluster (KIP-584).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I32, I64, Str
from barnabas.protocol.schema import Api, field, message, struct


@message(versions=(0, 3), flexible=3)
class ApiVersionsRequest:
    """Which software asks."""

    client_software_name: Str = field(default="", since=3, ignorable=True)
    client_software_version: Str = field(default="", since=3, ignorable=True)


@struct
class ApiVersionsResponseKey:
    """An API and its versions, both ends included."""

    api_key: I16 = 0
    min_version: I16 = 0
    max_version: I16 = 0


@struct
class SupportedFeatureKey:
    """A feature that the broker has, in a range of versions."""

    name: Str = ""
    min_version: I16 = 0
    max_version: I16 = 0


@struct
class FinalizedFeatureKey:
    """A feature that the cluster has agreed on, in a range of versions."""

    name: Str = ""
    max_version_level: I16 = 0
    min_version_level: I16 = 0


@message(versions=(0, 3), flexible=3)
class ApiVersionsResponse:
    """The table of APIs; the features' epoch is -1 where it is unknown."""

    error_code: I16 = 0
    api_keys: list[ApiVersionsResponseKey] = field(default_factory=list)
    throttle_time_ms: I32 = field(default=0, since=1, ignorable=True)
    supported_features: list[SupportedFeatureKey] = field(default_factory=list, since=3, tag=0)
    finalized_features_epoch: I64 = field(default=-1, since=3, tag=1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = field(default_factory=list, since=3, tag=2)


API: Final = Api(ApiKey.API_VERSIONS, ApiVersionsRequest, ApiVersionsResponse)
