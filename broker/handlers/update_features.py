"""UpdateFeatures, version 0: answered by the controller alone, by any other with NOT_CONTROLLER (KIP-584).

Each feature stands for itself; one that the request names twice counts as it was named first. What cannot be done is
INVALID_REQUEST, and as no feature is supported yet, that is everything but the deletion of what another version left
behind. The answer waits until this broker has read what was written, at most `timeout_ms`: then FEATURE_UPDATE_FAILED.
"""

from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages import update_features as messages
from barnabas.protocol.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from broker.registry import Handler
from broker.request_context import RequestContext
from controller.inbox import NotController
from controller.questions import FeatureUpdate, Outcome, UpdateFeatures

_UNSEEN: Final = Outcome(ErrorCode.FEATURE_UPDATE_FAILED, "The features were written and are not seen here yet.")


async def handle(request: UpdateFeaturesRequest, context: RequestContext) -> UpdateFeaturesResponse:
    """Ask the controller, then wait until the change is known here."""
    broker = context.broker
    updates: dict[str, FeatureUpdate] = {}
    for each in request.feature_updates:
        update = FeatureUpdate(each.feature, each.max_version_level, allow_downgrade=each.allow_downgrade)
        updates.setdefault(each.feature, update)
    try:
        done = await broker.controller.ask(UpdateFeatures(tuple(updates.values())))
    except NotController as elsewhere:
        error = ErrorCode.NOT_CONTROLLER
        broker.metrics.count_error(ApiKey.UPDATE_FEATURES, error)
        return UpdateFeaturesResponse(error_code=error, error_message=str(elsewhere))
    outcomes = done.outcomes
    if done.epoch is not None and not await broker.features.wait_for(done.epoch, timeout_ms=request.timeout_ms):
        outcomes = {name: _UNSEEN if each.error is ErrorCode.NONE else each for name, each in outcomes.items()}
    for outcome in outcomes.values():
        if outcome.error is not ErrorCode.NONE:
            broker.metrics.count_error(ApiKey.UPDATE_FEATURES, outcome.error)
    results = [UpdatableFeatureResult(name, each.error, each.message) for name, each in outcomes.items()]
    return UpdateFeaturesResponse(error_message=None, results=results)


API: Final[Handler] = Handler(messages.API, handle, oldest=0, newest=0)
