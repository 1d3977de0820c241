"""ApiVersions (API key 18), versions 0 to 3: which APIs the broker serves, in which versions.

The first thing that most clients ask. A version that is too high is answered in version 0 with UNSUPPORTED_VERSION
(see `broker.dispatch`), so that the client can ask again.

Versions: 1 adds the throttle time, 3 is flexible, takes the client's name and version (KIP-511) and tells the
features of the cluster (KIP-584). This version supports none; what stands finalized in `/feature` is passed on.
"""

import re
from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages import api_versions as messages
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey
from broker.dispatch import versions_of
from broker.registry import Handler
from broker.request_context import RequestContext

_SOFTWARE_SINCE: Final = 3
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
    """Answer from the registry; a client name or version of odd characters is refused, as in Kafka."""
    if context.version >= _SOFTWARE_SINCE and not (
        _SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    response = versions_of(context.broker.registry.handlers())
    if context.version >= _SOFTWARE_SINCE:
        features = context.broker.features
        response.finalized_features_epoch = features.epoch
        response.finalized_features = [
            FinalizedFeatureKey(name=name, max_version_level=levels.highest, min_version_level=levels.lowest)
            for name, levels in features.features.items()
        ]
    return response


API: Final[Handler] = Handler(messages.API, handle, oldest=0, newest=3)
