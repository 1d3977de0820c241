"""Changes of configurations by the client: what may be asked for again, and what must not."""

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.client.admin import Admin, ConfigChange, ConfigOperation, ConfigResource, ResourceType
from barnabas.client.cluster import Cluster
from barnabas.client.errors import KafkaError, OutcomeUnknown
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from tests.unit.client.small_cluster import Asked, Hangup, SmallCluster

TOPIC = ConfigResource(ResourceType.TOPIC, "t")
APPEND = ConfigChange("cleanup.policy", ConfigOperation.APPEND, "delete")
SET = ConfigChange("cleanup.policy", ConfigOperation.SET, "delete")


def hang_up(_: Asked) -> Any:
    raise Hangup


def refuse(error: ErrorCode) -> Callable[[Asked], Any]:
    def answer(_: Asked) -> IncrementalAlterConfigsResponse:
        return IncrementalAlterConfigsResponse(
            responses=[AlterConfigsResourceResponse(error, None, TOPIC.type, TOPIC.name)]
        )

    return answer


def first_then_done(small: SmallCluster, first: Callable[[Asked], Any]) -> list[Asked]:
    """The first request is answered so, later ones are done; returns all that come."""
    came: list[Asked] = []

    def answer(asked: Asked) -> Any:
        if asked.key is not ApiKey.INCREMENTAL_ALTER_CONFIGS:
            return None
        came.append(asked)
        return first(asked) if len(came) == 1 else refuse(ErrorCode.NONE)(asked)

    small.on_request = answer
    return came


@pytest.mark.parametrize("first", [hang_up, refuse(ErrorCode.REQUEST_TIMED_OUT)], ids=["lost", "timed out"])
async def test_an_append_whose_answer_is_lost_is_not_asked_for_again(
    small: SmallCluster, cluster: Cluster, first: Callable[[Asked], Any]
) -> None:
    came = first_then_done(small, first)
    with pytest.raises(OutcomeUnknown, match="topic t: whether it was appended is not known"):
        await Admin(cluster).alter_configs(TOPIC, [SET, APPEND])
    assert len(came) == 1


async def test_an_append_that_was_surely_not_done_is_asked_for_again(small: SmallCluster, cluster: Cluster) -> None:
    came = first_then_done(small, refuse(ErrorCode.NOT_CONTROLLER))
    await Admin(cluster).alter_configs(TOPIC, [APPEND])
    assert len(came) == 2


async def test_an_append_that_is_refused_says_why(small: SmallCluster, cluster: Cluster) -> None:
    came = first_then_done(small, refuse(ErrorCode.INVALID_CONFIG))
    with pytest.raises(KafkaError, match="INVALID_CONFIG"):
        await Admin(cluster).alter_configs(TOPIC, [APPEND])
    assert len(came) == 1


@pytest.mark.parametrize(("change", "validate_only"), [(SET, False), (APPEND, True)])
async def test_what_does_no_harm_twice_is_asked_for_again(
    small: SmallCluster, cluster: Cluster, *, change: ConfigChange, validate_only: bool
) -> None:
    came = first_then_done(small, hang_up)
    await Admin(cluster).alter_configs(TOPIC, [change], validate_only=validate_only)
    assert len(came) == 2
