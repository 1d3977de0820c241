"""What this broker does when its controller speaks: the receiving end of LeaderAndIsr, StopReplica, UpdateMetadata.

Commands come one at a time, in the order in which the controller sent them. Each is held against the controller's
epoch and this broker's own epoch before anything is touched.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import (
    LEADER_DURING_DELETE,
    NO_LEADER_EPOCH,
    BrokerEpoch,
    ControllerEpoch,
    LeaderEpoch,
    TopicPartition,
)
from barnabas.runtime.clock import Clock
from barnabas.storage.directories import LogDirectories
from barnabas.storage.leader_epochs import UNDEFINED_EPOCH
from broker.coordination import Coordination
from broker.metadata_view import MetadataView
from broker.metrics import BrokerMetrics
from broker.topic_configs import TopicConfigs
from broker.turns import Turns
from controller.commands import (
    Command,
    CommandResult,
    LeaderAndIsr,
    LeaderAndIsrPartition,
    LogEnd,
    ReportLogEnds,
    StopReplica,
    UpdateMetadata,
    UpdateMetadataPartition,
)
from controller.fencing import decide_fence
from replication.replicas import ReplicaAssignment, Replicas
from replication.settings import TopicSettings
from zk_schema.ops import SessionLost

log = logging.getLogger(__name__)


class ControlService:
    """Implements `controller.commands.ControlHandler`."""

    def __init__(
        self,
        *,
        metadata: MetadataView,
        metrics: BrokerMetrics,
        replicas: Replicas,
        log_directories: LogDirectories,
        topic_configs: TopicConfigs,
        broker_epoch: Callable[[], BrokerEpoch],
        clock: Clock,
        coordination: Coordination | None = None,
        registered: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self._metadata = metadata
        self._metrics = metrics
        self._replicas = replicas
        self._log_directories = log_directories
        self._topic_configs = topic_configs
        self._broker_epoch = broker_epoch
        self._clock = clock
        self._coordination = coordination
        self._registered = registered
        self._controller_epoch = ControllerEpoch(0)
        self._kept: dict[TopicPartition, int] = {}
        """Logs that go when somebody leads where their partitions are now, and the last leader epoch of each here."""

    async def on_leader_and_isr(self, command: LeaderAndIsr) -> CommandResult:
        """Make the replicas of this broker what the controller decided; the epochs of partitions fence each."""
        error = await self._fence(command)
        if error is not ErrorCode.NONE:
            return CommandResult(error)
        try:
            errors = await self._assign_all(command)
        except SessionLost:
            # So is the registration that the command was meant for.
            return CommandResult(ErrorCode.STALE_BROKER_EPOCH)
        self._replicas.settle()
        return CommandResult(partition_errors=errors)

    async def _assign_all(self, command: LeaderAndIsr) -> dict[TopicPartition, ErrorCode]:
        """Carry out what a command says of each partition; the errors. Raises SessionLost."""
        replicas = self._replicas
        as_of = replicas.configured
        settings = await self._settings(command)
        errors: dict[TopicPartition, ErrorCode] = {}
        turns = Turns(self._clock)
        for partition in command.partitions:
            error = await replicas.assign(self._assignment(partition, settings[partition.topic]))
            if error is not ErrorCode.NONE:
                errors[partition.topic_partition] = error
            await turns.maybe_yield()
        # A change meanwhile has reached the replicas that were there already, and not those that came after it.
        while as_of != replicas.configured:
            as_of = replicas.configured
            settings = await self._settings(command)
            if as_of == replicas.configured:
                for name, topic in settings.items():
                    replicas.configure(name, topic)
                as_of = replicas.configured
        return errors

    def _assignment(self, partition: LeaderAndIsrPartition, settings: TopicSettings) -> ReplicaAssignment:
        return ReplicaAssignment(
            topic_partition=partition.topic_partition,
            leader_id=partition.leader,
            leader_epoch=partition.leader_epoch,
            isr=partition.isr,
            replicas=partition.replicas,
            zk_version=partition.zk_version,
            is_new=partition.is_new,
            settings=settings,
            adding=partition.adding_replicas,
        )

    async def on_stop_replica(self, command: StopReplica) -> CommandResult:
        """Stop serving replicas, and remove the logs of those that are deleted."""
        error = await self._fence(command)
        if error is not ErrorCode.NONE:
            return CommandResult(error)
        errors: dict[TopicPartition, ErrorCode] = {}
        turns = Turns(self._clock)
        for partition in command.partitions:
            error = await self._replicas.stop(
                partition.topic_partition, leader_epoch=partition.leader_epoch, delete=partition.delete
            )
            if error is not ErrorCode.NONE:
                errors[partition.topic_partition] = error
            await turns.maybe_yield()
        self._replicas.settle()
        return CommandResult(partition_errors=errors)

    async def on_update_metadata(self, command: UpdateMetadata) -> CommandResult:
        """Change what clients are told of the cluster."""
        error = await self._fence(command)
        if error is ErrorCode.NONE:
            lived = self._metadata.brokers
            topics = self._metadata.topics() if command.ends_welcome else ()
            error = self._metadata.apply(command)
            if not lived.keys() <= self._metadata.brokers.keys():
                self._replicas.on_brokers_gone()
            turns = Turns(self._clock)
            for partition in (*command.partitions, *self._kept_while_nobody_led()):
                if not self._metadata.has_topic(partition.topic):
                    self._metrics.forget_topic(partition.topic)
                await self._leave_what_went_elsewhere(partition)
                await turns.maybe_yield()
            for topic in topics:
                if not self._metadata.has_topic(topic):
                    log.info("%s is forgotten: it was deleted while no controller reached this broker", topic)
                    self._metrics.forget_topic(topic)
            deleted = [each.topic_partition for each in command.partitions if each.leader == LEADER_DURING_DELETE]
            if deleted and self._coordination is not None:
                self._coordination.on_partitions_deleted(deleted)
        return CommandResult(error)

    def _kept_while_nobody_led(self) -> list[UpdateMetadataPartition]:
        """The partitions of kept logs that a broker leads by now; it may have been told of later than that it leads."""
        told = [partition for at in self._kept if (partition := self._metadata.partition(at)) is not None]
        return [partition for partition in told if partition.leader in self._metadata.brokers]

    async def _leave_what_went_elsewhere(self, partition: UpdateMetadataPartition) -> None:
        """Remove a replica whose partition was moved away while no controller could reach this broker.

        Kafka 2.7 leaves it, and it goes on as leader or follower of an epoch that is over. One of a broker that was
        down then goes too: a later topic of that name would take the log for its own. Where nobody leads, what is
        here may be the last copy: it is served no more, and stays until somebody does.
        """
        at = partition.topic_partition
        kept = self._kept.pop(at, None)
        if self._replicas.broker_id in partition.replicas:
            return
        epoch = self._last_epoch_here(at, kept)
        if epoch is not None and partition.leader_epoch > epoch:
            goes = partition.leader in self._metadata.brokers
            told = "%s: moved to %s meanwhile, in epoch %d: the log of leader epoch %d %s"
            what = "is removed" if goes else "stays, as nobody leads there"
            level = logging.INFO if goes else logging.WARNING
            log.log(level, told, at, partition.replicas, partition.leader_epoch, epoch, what)
            if not goes:
                self._kept[at] = epoch
            await self._replicas.stop(at, leader_epoch=partition.leader_epoch, delete=goes)

    def _last_epoch_here(self, at: TopicPartition, kept: int | None) -> int | None:
        """The last leader epoch that this broker knows to have had a replica in; None where it knows of none.

        That is `kept` for a log that stayed when its replica was left. Another log without epochs, empty or of the
        formats before 2, is left alone: nothing says whether it is the older one.
        """
        held = self._replicas.partition(at)
        if held is not None:
            return held.leader_epoch
        found = self._log_directories.log(at)
        if found is None or found.offline:
            return None
        if kept is not None:
            return kept
        latest = found.leader_epochs.latest_epoch
        return None if latest == UNDEFINED_EPOCH else latest

    async def on_report_log_ends(self, command: ReportLogEnds) -> CommandResult:
        """Tell the last leader epoch and the end of logs, also of those that no controller has spoken of yet."""
        error = await self._fence(command)
        if error is not ErrorCode.NONE:
            return CommandResult(error)
        errors: dict[TopicPartition, ErrorCode] = {}
        ends: dict[TopicPartition, LogEnd] = {}
        for at in command.partitions:
            end = self._log_end(at)
            if end is None:
                errors[at] = ErrorCode.KAFKA_STORAGE_ERROR
            else:
                ends[at] = end
        return CommandResult(partition_errors=errors, log_ends=ends)

    def _log_end(self, at: TopicPartition) -> LogEnd | None:
        """None when it cannot be told; a log that is in no directory ends before its first record."""
        directory = self._log_directories.directory_of(at)
        found = self._log_directories.log(at)
        if directory is None or found is None:
            return None if self._log_directories.offline_directories() else LogEnd(NO_LEADER_EPOCH, 0)
        if directory.is_offline:
            return None
        return LogEnd(LeaderEpoch(found.leader_epochs.latest_epoch), found.log_end_offset)

    async def _settings(self, command: LeaderAndIsr) -> dict[str, TopicSettings]:
        """What the command's topics set for themselves. Raises SessionLost."""
        topics = list(dict.fromkeys(partition.topic for partition in command.partitions))
        found = await asyncio.gather(*map(self._topic_configs.settings, topics))
        return dict(zip(topics, found, strict=True))

    async def _fence(self, command: Command) -> ErrorCode:
        if self._registered is not None:
            # Before that nobody can tell a command for this registration from one for the earlier process.
            await self._registered()
        error = decide_fence(
            known_controller_epoch=self._controller_epoch, own_broker_epoch=self._broker_epoch(), command=command
        )
        if error is ErrorCode.NONE:
            self._controller_epoch = command.controller_epoch
        else:
            log.warning(
                "controller %d epoch %d: %s refused with %s",
                command.controller_id,
                command.controller_epoch,
                type(command).__name__,
                error.name,
            )
        return error
