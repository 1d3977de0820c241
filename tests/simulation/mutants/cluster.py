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
        item.zk_version = partition.version
        return replace(partition.leadership, isr=item.new_isr)

    return decide_isr


def obey_any_registration(original: Rule) -> Rule:
    """21. A request for other in-sync sets is obeyed though its sender is not registered any more."""

    def on_alter_partition(office: Any, token: int, request: AlterPartition) -> Any:
        brokers = office.state.brokers
        if request.broker_id not in brokers and brokers:
            broker = min(brokers)
            request = AlterPartition(broker, brokers[broker].epoch, request.partitions)
        return original(office, token, request)

    return on_alter_partition


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


def stay_in_office(original: Rule) -> Rule:
    """27. A controller does not notice that another one was elected."""

    def end_term(self: Any) -> None:
        if self._driver is None or self._driver.is_over:
            original(self)

    return end_term


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
    return lambda *_: None


def high_watermark_stays(_original: Rule) -> Rule:
    """13. The high watermark is not raised to the start of the log."""

    def set_high_watermark(self: Any, offset: int) -> int:
        self.high_watermark = min(offset, self.log_end_offset)
        self.producers.apply_high_watermark(self.high_watermark)
        return int(self.high_watermark)

    return set_high_watermark


def forget_the_epoch(original: Rule) -> Rule:
    """15. A fetch session does not remember under which leader epoch its partitions are fetched."""

    def begin_or_update(self: Any, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named)
        self.current_leader_epoch = -1

    return begin_or_update


def append_or_fail(_original: Rule) -> Rule:
    """20. A batch that begins below the log's end is refused, also where the log is empty."""

    async def append(self: Any, records: memoryview) -> None:
        await self.replica.append_as_follower(records, leader_epoch=self.leader_epoch)

    return append


def everybody_may_join(_original: Rule) -> Rule:
    """25. Whoever the leader proposes joins, dead or leaving."""
    return lambda *_: True


def do_not_wait(original: Rule) -> Rule:
    """26. A process takes commands before it is registered."""

    async def fence(self: Any, command: Any) -> Any:
        self._registered = None
        return await original(self, command)

    return fence


def go_on_after_a_failure(_original: Rule) -> Rule:
    """38. A log directory that failed goes on."""
    return lambda *_: None


def forgive_a_failed_sync(original: Rule) -> Rule:
    """38. A log whose sync failed is not taken offline."""

    def finish_flush(self: Any, flush: Any, *, succeeded: bool) -> None:
        original(self, flush, succeeded=succeeded)
        self.offline = False

    return finish_flush


def sessions_outlive_brokers(original: Rule) -> Rule:
    """KIP-903. A follower's fetch session goes on whatever became of its broker."""

    def plan(self: Any, **named: Any) -> Any:
        return original(self, **{**named, "broker_epoch": None})

    return plan


def every_request_is_proven(original: Rule) -> Rule:
    """KIP-903. The first request of a session lets a replica join."""

    def on_follower_fetch(self: Any, replica_id: Any, **named: Any) -> None:
        original(self, replica_id, **{**named, "is_proven": True})

    return on_follower_fetch
