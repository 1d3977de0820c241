"""Commands and answers as protobuf messages, and back. The meaning of the fields stands in `commands`."""

from collections.abc import Iterable

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition
from controller import control_pb2 as wire
from controller.commands import (
    Command,
    CommandResult,
    Endpoint,
    LeaderAndIsr,
    LeaderAndIsrPartition,
    LiveBroker,
    LiveLeader,
    LogEnd,
    ReportLogEnds,
    StopReplica,
    StopReplicaPartition,
    UpdateMetadata,
    UpdateMetadataPartition,
)


def command_to_wire(command: Command, *, sequence: int, number: int) -> wire.Command:
    """The message of a command: the `sequence`-th of its stream, and `number` among all of its controller."""
    message = wire.Command(
        sequence=sequence,
        number=number,
        controller_id=command.controller_id,
        controller_epoch=command.controller_epoch,
        broker_epoch=command.broker_epoch,
    )
    match command:
        case LeaderAndIsr():
            message.leader_and_isr.SetInParent()
            message.leader_and_isr.partitions.extend(map(_lead_to_wire, command.partitions))
            message.leader_and_isr.live_leaders.extend(
                wire.LiveLeader(broker_id=leader.broker_id, host=leader.host, port=leader.port)
                for leader in command.live_leaders
            )
        case StopReplica():
            message.stop_replica.SetInParent()
            message.stop_replica.partitions.extend(
                wire.StopReplicaPartition(
                    topic=entry.topic,
                    partition=entry.partition,
                    leader_epoch=entry.leader_epoch,
                    delete=entry.delete,
                )
                for entry in command.partitions
            )
        case UpdateMetadata():
            message.update_metadata.SetInParent()
            message.update_metadata.partitions.extend(map(_metadata_to_wire, command.partitions))
            message.update_metadata.live_brokers.extend(map(_broker_to_wire, command.live_brokers))
            message.update_metadata.ends_welcome = command.ends_welcome
        case ReportLogEnds():
            message.report_log_ends.SetInParent()
            message.report_log_ends.partitions.extend(
                wire.TopicPartition(topic=at.topic, partition=at.partition) for at in command.partitions
            )
    return message


def command_from_wire(message: wire.Command) -> Command | None:
    """The command, or None when it is of a kind that is not known here."""
    controller_id, controller_epoch = BrokerId(message.controller_id), ControllerEpoch(message.controller_epoch)
    broker_epoch = BrokerEpoch(message.broker_epoch)
    match message.WhichOneof("body"):
        case "leader_and_isr":
            leaders = tuple(
                LiveLeader(BrokerId(leader.broker_id), leader.host, leader.port)
                for leader in message.leader_and_isr.live_leaders
            )
            leads = list(map(_lead_from_wire, message.leader_and_isr.partitions))
            return LeaderAndIsr(controller_id, controller_epoch, broker_epoch, leads, leaders)
        case "stop_replica":
            stops = [
                StopReplicaPartition(entry.topic, entry.partition, LeaderEpoch(entry.leader_epoch), entry.delete)
                for entry in message.stop_replica.partitions
            ]
            return StopReplica(controller_id, controller_epoch, broker_epoch, stops)
        case "update_metadata":
            metadata = list(map(_metadata_from_wire, message.update_metadata.partitions))
            brokers = tuple(map(_broker_from_wire, message.update_metadata.live_brokers))
            ends_welcome = message.update_metadata.ends_welcome
            return UpdateMetadata(controller_id, controller_epoch, broker_epoch, metadata, brokers, ends_welcome)
        case "report_log_ends":
            asked = [TopicPartition(at.topic, at.partition) for at in message.report_log_ends.partitions]
            return ReportLogEnds(controller_id, controller_epoch, broker_epoch, asked)
        case _:
            return None


def result_to_wire(sequence: int, result: CommandResult) -> wire.Answer:
    """The message of an answer; partitions without an error are left out."""
    return wire.Answer(
        sequence=sequence,
        error_code=result.error_code,
        partition_errors=[
            wire.PartitionError(topic=at.topic, partition=at.partition, error_code=error)
            for at, error in result.partition_errors.items()
            if error is not ErrorCode.NONE
        ],
        log_ends=[
            wire.LogEnd(
                topic=at.topic, partition=at.partition, leader_epoch=end.leader_epoch, end_offset=end.end_offset
            )
            for at, end in result.log_ends.items()
        ],
    )


def result_from_wire(message: wire.Answer) -> CommandResult:
    """The answer; an error code that is not known here counts as UNKNOWN_SERVER_ERROR."""
    errors = {
        TopicPartition(entry.topic, entry.partition): error_from_wire(entry.error_code)
        for entry in message.partition_errors
    }
    ends = {
        TopicPartition(end.topic, end.partition): LogEnd(LeaderEpoch(end.leader_epoch), end.end_offset)
        for end in message.log_ends
    }
    return CommandResult(error_from_wire(message.error_code), errors, ends)


def error_from_wire(code: int) -> ErrorCode:
    """The error code; one that is not known here counts as UNKNOWN_SERVER_ERROR."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def _ids(values: Iterable[int]) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, values))


def _lead_to_wire(entry: LeaderAndIsrPartition) -> wire.LeaderAndIsrPartition:
    return wire.LeaderAndIsrPartition(
        topic=entry.topic,
        partition=entry.partition,
        controller_epoch=entry.controller_epoch,
        leader=entry.leader,
        leader_epoch=entry.leader_epoch,
        isr=entry.isr,
        zk_version=entry.zk_version,
        replicas=entry.replicas,
        adding_replicas=entry.adding_replicas,
        removing_replicas=entry.removing_replicas,
        is_new=entry.is_new,
    )


def _lead_from_wire(entry: wire.LeaderAndIsrPartition) -> LeaderAndIsrPartition:
    return LeaderAndIsrPartition(
        topic=entry.topic,
        partition=entry.partition,
        controller_epoch=ControllerEpoch(entry.controller_epoch),
        leader=BrokerId(entry.leader),
        leader_epoch=LeaderEpoch(entry.leader_epoch),
        isr=_ids(entry.isr),
        zk_version=entry.zk_version,
        replicas=_ids(entry.replicas),
        adding_replicas=_ids(entry.adding_replicas),
        removing_replicas=_ids(entry.removing_replicas),
        is_new=entry.is_new,
    )


def _metadata_to_wire(entry: UpdateMetadataPartition) -> wire.UpdateMetadataPartition:
    return wire.UpdateMetadataPartition(
        topic=entry.topic,
        partition=entry.partition,
        controller_epoch=entry.controller_epoch,
        leader=entry.leader,
        leader_epoch=entry.leader_epoch,
        isr=entry.isr,
        zk_version=entry.zk_version,
        replicas=entry.replicas,
        offline_replicas=entry.offline_replicas,
    )


def _metadata_from_wire(entry: wire.UpdateMetadataPartition) -> UpdateMetadataPartition:
    return UpdateMetadataPartition(
        topic=entry.topic,
        partition=entry.partition,
        controller_epoch=ControllerEpoch(entry.controller_epoch),
        leader=BrokerId(entry.leader),
        leader_epoch=LeaderEpoch(entry.leader_epoch),
        isr=_ids(entry.isr),
        zk_version=entry.zk_version,
        replicas=_ids(entry.replicas),
        offline_replicas=_ids(entry.offline_replicas),
    )


def _broker_to_wire(broker: LiveBroker) -> wire.LiveBroker:
    return wire.LiveBroker(
        broker_id=broker.broker_id,
        endpoints=[
            wire.Endpoint(
                listener_name=each.listener_name,
                host=each.host,
                port=each.port,
                security_protocol=each.security_protocol,
            )
            for each in broker.endpoints
        ],
        rack=broker.rack,
        control_endpoint=broker.control_endpoint,
        broker_epoch=broker.broker_epoch,
    )


def _broker_from_wire(broker: wire.LiveBroker) -> LiveBroker:
    return LiveBroker(
        broker_id=BrokerId(broker.broker_id),
        endpoints=tuple(
            Endpoint(each.listener_name, each.host, each.port, each.security_protocol) for each in broker.endpoints
        ),
        rack=broker.rack if broker.HasField("rack") else None,
        control_endpoint=broker.control_endpoint if broker.HasField("control_endpoint") else None,
        broker_epoch=BrokerEpoch(broker.broker_epoch),
    )
