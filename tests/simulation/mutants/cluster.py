"""What takes the place of rules of the controller and of brokers. Each function gets the original."""

from dataclasses import replace
from typing import Any

from barnabas.protocol.error_code import ErrorCode
from controller.actions import Write
from controller.commands import AlterPartition, AlterPartitionItem, AlterPartitionOutcome
from controller.state import ClusterState
from tests.simulation.mutants.mutant import Rule


def obey_any_leader(_original: Rule) -> Rule:
    """21. An in-sync set is written whoever asks, from whatever epoch and version."""

    def decide_isr(state: ClusterState, _request: AlterPartition, item: AlterPartitionItem) -> Any:
        partition = state.partition(item.topic_partition)
        if partition is None or partition.leadership is None:
            return AlterPartitionOutcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return replace(partition.leadership, isr=item.new_isr)

    return decide_isr


def never_tell_the_version(original: Rule) -> Rule:
    """22. A leader with an old version is refused for ever, even with what stands already."""

    def decide_isr(state: ClusterState, request: AlterPartition, item: AlterPartitionItem) -> Any:
        partition = state.partition(item.topic_partition)
        if partition is not None and item.zk_version != partition.version:
            return AlterPartitionOutcome(ErrorCode.INVALID_UPDATE_VERSION)
        return original(state, request, item)

    return decide_isr


def write_without_fence(_original: Rule) -> Rule:
    """27. A controller does not check that it still is one when it writes."""

    def fenced(_self: Any, *operations: Any, reason: str) -> Write:
        return Write(operations, reason)

    return fenced


def obey_any_controller(_original: Rule) -> Rule:
    """27. A broker does what any controller says."""

    def decide_fence(**_: Any) -> ErrorCode:
        return ErrorCode.NONE

    return decide_fence


def obey_old_commands(original: Rule) -> Rule:
    """26. A command for an earlier life of the broker is obeyed."""

    def decide_fence(*, own_broker_epoch: int, **named: Any) -> Any:
        return original(own_broker_epoch=-1, **named)

    return decide_fence


def lead_before_metadata(_original: Rule) -> Rule:
    """32. Brokers are not told of each other before they are told of partitions."""

    def greet(_self: Any, _brokers: Any) -> None:
        return

    return greet
