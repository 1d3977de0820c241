"""UpdateFeatures (API key 57): changes the features that the cluster has agreed on (KIP-584).

Administrators send it to the controller.

Version 0 is flexible.
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I32, Bool, NullableStr, Str
from barnabas.protocol.schema import Api, field, message, struct


@struct
class FeatureUpdateKey:
    """A feature and its new highest version; less than 1 deletes it, which must be allowed as a downgrade."""

    feature: Str = ""
    max_version_level: I16 = 0
    allow_downgrade: Bool = False


@message(versions=(0, 0), flexible=0)
class UpdateFeaturesRequest:
    """What to change."""

    timeout_ms: I32 = 60000
    feature_updates: list[FeatureUpdateKey] = field(default_factory=list)


@struct
class UpdatableFeatureResult:
    """What became of one feature."""

    feature: Str = ""
    error_code: I16 = 0
    error_message: NullableStr = ""


@message(versions=(0, 0), flexible=0)
class UpdateFeaturesResponse:
    """What was changed."""

    throttle_time_ms: I32 = 0
    error_code: I16 = 0
    error_message: NullableStr = ""
    results: list[UpdatableFeatureResult] = field(default_factory=list)


API: Final = Api(ApiKey.UPDATE_FEATURES, UpdateFeaturesRequest, UpdateFeaturesResponse)
