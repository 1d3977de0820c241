"""The finalized features of the cluster: which changes of them are legal, and making them (KIP-584).  [P]

A feature is finalized between two levels. Its highest level rises by an update, falls by one that allows a downgrade,
and at less than 1 the feature is deleted. What this version supports stands in `SUPPORTED`: nothing yet, as in Kafka
2.7. So what can be changed is what another version has left behind, and that can only be deleted.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from barnabas.protocol.error_code import ErrorCode
from controller.actions import ReadFeatures
from controller.events import Confirmed, FeaturesRead
from controller.office import Office, Procedure
from controller.questions import DONE, FeaturesUpdated, FeatureUpdate, Outcome, UpdateFeatures
from zk_schema import paths
from zk_schema.ops import Create, Op, Set, Written
from zk_schema.payloads import FeatureStatus, FeatureZnode, VersionRange

SUPPORTED: Final[Mapping[str, VersionRange]] = {}
_MAX_ROUNDS: Final = 20


def decide_update(
    update: FeatureUpdate, present: VersionRange | None, supported: VersionRange | None
) -> VersionRange | str | None:
    """The levels after an update, None when the feature is deleted, or why it cannot be, in words."""
    wanted = update.max_version_level
    if not update.feature:
        return "The name of a feature must not be empty."
    if wanted < 1:
        if not update.allow_downgrade:
            return f"Level {wanted} deletes the feature, which must be allowed as a downgrade."
        return "A feature that is not finalized cannot be deleted." if present is None else None
    if present is not None:
        if wanted == present.highest:
            return f"The feature has level {wanted} already."
        if (wanted < present.highest) != update.allow_downgrade:
            direction = "down" if wanted < present.highest else "up"
            return f"From level {present.highest} to {wanted} is {direction}, but allow_downgrade says otherwise."
        if wanted < present.lowest:
            return f"Level {wanted} is below the lowest finalized level {present.lowest}."
    if supported is None:
        return "The feature is not supported."
    if not supported.lowest <= wanted <= supported.highest:
        return f"Level {wanted} is not supported: {supported.lowest} to {supported.highest} are."
    return VersionRange(supported.lowest, wanted)


def on_update(office: Office, request: UpdateFeatures) -> Procedure[FeaturesUpdated]:
    """Check each update, and write those that are legal together."""
    tried: FeaturesUpdated | None = None
    wanted: dict[str, VersionRange] = {}
    for _ in range(_MAX_ROUNDS):
        (read,) = yield [ReadFeatures()]
        known = read if isinstance(read, FeaturesRead) else None
        features = dict(known.znode.features) if known is not None else {}
        if tried is not None and known is not None and features == wanted:
            # The answer to the write was lost.
            return replace(tried, epoch=known.version)
        outcomes: dict[str, Outcome] = {}
        for update in request.updates:
            decision = decide_update(update, features.get(update.feature), SUPPORTED.get(update.feature))
            if isinstance(decision, str):
                outcomes[update.feature] = Outcome(ErrorCode.INVALID_REQUEST, decision)
                continue
            outcomes[update.feature] = DONE
            features.pop(update.feature, None)
            if decision is not None:
                features[update.feature] = decision
        tried, wanted = FeaturesUpdated(outcomes), features
        if features == (known.znode.features if known is not None else {}):
            return tried
        after = FeatureZnode(FeatureStatus.ENABLED, features).encode()
        operation: Op = Create(paths.FEATURE, after) if known is None else Set(paths.FEATURE, after, known.version)
        (reply,) = yield [office.fenced(operation, reason=f"features {sorted(features)}")]
        if isinstance(reply, Confirmed):
            result = reply.results[-1]
            return replace(tried, epoch=result.stat.version if isinstance(result, Written) else 0)
    failed = Outcome(ErrorCode.FEATURE_UPDATE_FAILED, "Somebody else keeps changing the features.")
    return FeaturesUpdated(dict.fromkeys((update.feature for update in request.updates), failed))
