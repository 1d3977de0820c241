"""What handlers ask of the controller and make of its answers: ElectLeaders, reassignments, UpdateFeatures."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerId, TopicPartition
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.messages.describe_cluster import DescribeClusterBroker, DescribeClusterRequest
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, PartitionResult, TopicPartitions
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
)
from barnabas.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from broker.handlers import (
    alter_partition_reassignments,
    describe_cluster,
    elect_leaders,
    list_partition_reassignments,
    update_features,
)
from controller.inbox import NotController
from controller.questions import (
    AlterReassignments,
    Elected,
    ElectionKind,
    ElectLeaders,
    FeaturesUpdated,
    ListReassignments,
    Outcome,
    UpdateFeatures,
)
from controller.state import Assignment
from tests.unit.broker.small_broker import SmallBroker, live_broker

AT = TopicPartition("t", 0)
ELECT = ElectLeadersRequest(0, [TopicPartitions("t", [0])], 60_000)


def answer(broker: SmallBroker, reply: Callable[[Any], Any]) -> list[Any]:
    """Let the controller answer so; the questions it gets are returned."""
    asked: list[Any] = []

    async def ask(question: Any) -> Any:
        asked.append(question)
        return reply(question)

    broker.services.controller = SimpleNamespace(ask=ask)
    return asked


def nobody(_question: Any) -> Any:
    raise NotController(BrokerId(1))


async def test_a_broker_that_is_not_the_controller_says_so(broker: SmallBroker) -> None:
    answer(broker, nobody)
    context = broker.context(0)
    not_controller = ErrorCode.NOT_CONTROLLER
    alter = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic("t", [ReassignablePartition(0, [1])])])
    altered = await alter_partition_reassignments.handle(alter, context)
    assert (altered.error_code, altered.responses) == (not_controller, [])
    listed = await list_partition_reassignments.handle(ListPartitionReassignmentsRequest(), context)
    assert (listed.error_code, listed.topics) == (not_controller, [])
    updated = await update_features.handle(UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey("f", 1)]), context)
    assert (updated.error_code, updated.results) == (not_controller, [])
    for told in (altered, listed, updated):
        assert told.error_message == "broker 1 is not the controller; Metadata names the one that is"
    elected = await elect_leaders.handle(ELECT, context)
    assert elected.replica_election_results[0].partition_result == [PartitionResult(0, not_controller, None)]


async def test_targets_and_cancellations_reach_the_controller_and_its_outcomes_the_client(broker: SmallBroker) -> None:
    refused = Outcome(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "why")
    asked = answer(broker, lambda question: dict(zip(question.targets, [Outcome(), refused], strict=True)))
    partitions = [ReassignablePartition(0, [2, 3]), ReassignablePartition(1, None)]
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic("t", partitions)])
    response = await alter_partition_reassignments.handle(request, broker.context(0))
    assert asked == [AlterReassignments({AT: (BrokerId(2), BrokerId(3)), TopicPartition("t", 1): None})]
    outcomes = [
        (each.partition_index, each.error_code, each.error_message) for each in response.responses[0].partitions
    ]
    assert outcomes == [(0, ErrorCode.NONE, None), (1, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "why")]


async def test_what_moves_is_listed_with_what_comes_and_goes(broker: SmallBroker) -> None:
    one, two = BrokerId(1), BrokerId(2)
    asked = answer(broker, lambda _: {AT: Assignment((two, one), (two,), (one,))})
    topics = [ListPartitionReassignmentsTopics("t", [0, 0, 1])]
    response = await list_partition_reassignments.handle(
        ListPartitionReassignmentsRequest(topics=topics), broker.context(0)
    )
    assert asked == [ListReassignments((AT, TopicPartition("t", 1)))]
    assert response.topics[0].partitions == [OngoingPartitionReassignment(0, [2, 1], [2], [1])]


async def test_an_election_is_answered_when_the_leader_is_known_here(broker: SmallBroker) -> None:
    broker.announce("t", leader=3)
    asked = answer(broker, lambda _: Elected({AT: BrokerId(2)}))
    electing = asyncio.create_task(elect_leaders.handle(ELECT, broker.context(2)))
    await broker.until(lambda: asked)
    assert asked == [ElectLeaders(ElectionKind.PREFERRED, (AT,))]
    assert not electing.done()
    broker.announce("t", leader=2)
    assert (await electing).replica_election_results[0].partition_result == [PartitionResult(0, 0, None)]


@pytest.mark.parametrize("timeout_ms", [0, -1, 1])
async def test_an_election_whose_leader_is_not_known_in_time_timed_out(broker: SmallBroker, timeout_ms: int) -> None:
    broker.announce("t", leader=3)
    answer(broker, lambda _: Elected({AT: BrokerId(2)}))
    request = ElectLeadersRequest(0, [TopicPartitions("t", [0])], timeout_ms)
    response = await elect_leaders.handle(request, broker.context(2))
    assert response.replica_election_results[0].partition_result[0].error_code == ErrorCode.REQUEST_TIMED_OUT


async def test_asked_for_all_only_what_needed_an_election_is_told(broker: SmallBroker) -> None:
    broker.announce("t", 2, leader=1)
    not_needed = Outcome(ErrorCode.ELECTION_NOT_NEEDED, "led")
    refused = Outcome(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "dead")
    asked = answer(broker, lambda _: Elected({}, {AT: not_needed, TopicPartition("t", 1): refused}))
    response = await elect_leaders.handle(ElectLeadersRequest(1, None, 0), broker.context(2))
    assert asked == [ElectLeaders(ElectionKind.UNCLEAN, (AT, TopicPartition("t", 1)))]
    assert [each.partition_id for each in response.replica_election_results[0].partition_result] == [1]


async def test_a_feature_is_changed_when_this_broker_has_read_it(broker: SmallBroker) -> None:
    seen: list[tuple[int, int]] = []

    async def wait_for(epoch: int, *, timeout_ms: int) -> bool:
        seen.append((epoch, timeout_ms))
        return epoch < 5

    broker.services.features = SimpleNamespace(wait_for=wait_for)
    request = UpdateFeaturesRequest(77, [FeatureUpdateKey("f", 0, allow_downgrade=True)])
    asked = answer(broker, lambda _: FeaturesUpdated({"f": Outcome()}, 4))
    response = await update_features.handle(request, broker.context(0))
    assert isinstance(asked[0], UpdateFeatures)
    assert [each.error_code for each in response.results] == [ErrorCode.NONE]
    answer(broker, lambda _: FeaturesUpdated({"f": Outcome()}, 5))
    response = await update_features.handle(request, broker.context(0))
    assert [each.error_code for each in response.results] == [ErrorCode.FEATURE_UPDATE_FAILED]
    assert seen == [(4, 77), (5, 77)]


def test_the_cluster_is_described_by_any_broker(broker: SmallBroker) -> None:
    broker.brokers = (live_broker(1), live_broker(2, rack="r"), live_broker(3, listener="OTHER"))
    broker.update()
    response = describe_cluster.handle(DescribeClusterRequest(), broker.context(0))
    assert (response.cluster_id, response.controller_id) == ("cluster", 1)
    assert response.brokers == [
        DescribeClusterBroker(1, "host1", 9091, None),
        DescribeClusterBroker(2, "host2", 9092, "r"),
    ]
    assert response.cluster_authorized_operations == -(2**31)
    asked = describe_cluster.handle(
        DescribeClusterRequest(include_cluster_authorized_operations=True), broker.context(0)
    )
    assert asked.cluster_authorized_operations > 0
