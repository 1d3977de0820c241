"""What brokers ask of their controller as protobuf messages, and back; the fields' meaning stands in `commands`."""

from barnabas.protocol.ids import BrokerEpoch, BrokerId, LeaderEpoch, TopicPartition
from controller import control_pb2 as wire
from controller.channel_messages import error_from_wire
from controller.commands import (
    AlterPartition,
    AlterPartitionItem,
    AlterPartitionOutcome,
    AlterPartitionResult,
    ControlledShutdown,
    ControlledShutdownResult,
)


def alter_partition_to_wire(request: AlterPartition) -> wire.AlterPartitionRequest:
    """The message of a request."""
    return wire.AlterPartitionRequest(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        partitions=[
            wire.AlterPartitionItem(
                topic=item.topic,
                partition=item.partition,
                leader_epoch=item.leader_epoch,
                new_isr=item.new_isr,
                zk_version=item.zk_version,
                joiner_epoch=item.joiner_epoch,
                resigns=item.resigns,
            )
            for item in request.partitions
        ],
    )


def alter_partition_from_wire(message: wire.AlterPartitionRequest) -> AlterPartition:
    """The request."""
    items = [
        AlterPartitionItem(
            topic=item.topic,
            partition=item.partition,
            leader_epoch=LeaderEpoch(item.leader_epoch),
            new_isr=tuple(map(BrokerId, item.new_isr)),
            zk_version=item.zk_version,
            joiner_epoch=BrokerEpoch(item.joiner_epoch),
            resigns=item.resigns,
        )
        for item in message.partitions
    ]
    return AlterPartition(BrokerId(message.broker_id), BrokerEpoch(message.broker_epoch), items)


def alter_partition_result_to_wire(result: AlterPartitionResult) -> wire.AlterPartitionResponse:
    """The message of an answer."""
    return wire.AlterPartitionResponse(
        error_code=result.error_code,
        partitions=[
            wire.AlterPartitionOutcome(
                topic=at.topic,
                partition=at.partition,
                error_code=outcome.error_code,
                leader=outcome.leader,
                leader_epoch=outcome.leader_epoch,
                isr=outcome.isr,
                zk_version=outcome.zk_version,
            )
            for at, outcome in result.partitions.items()
        ],
    )


def alter_partition_result_from_wire(message: wire.AlterPartitionResponse) -> AlterPartitionResult:
    """The answer."""
    outcomes = {
        TopicPartition(outcome.topic, outcome.partition): AlterPartitionOutcome(
            error_code=error_from_wire(outcome.error_code),
            leader=BrokerId(outcome.leader),
            leader_epoch=LeaderEpoch(outcome.leader_epoch),
            isr=tuple(map(BrokerId, outcome.isr)),
            zk_version=outcome.zk_version,
        )
        for outcome in message.partitions
    }
    return AlterPartitionResult(error_from_wire(message.error_code), outcomes)


def controlled_shutdown_to_wire(request: ControlledShutdown) -> wire.ControlledShutdownRequest:
    """The message of a request."""
    return wire.ControlledShutdownRequest(broker_id=request.broker_id, broker_epoch=request.broker_epoch)


def controlled_shutdown_from_wire(message: wire.ControlledShutdownRequest) -> ControlledShutdown:
    """The request."""
    return ControlledShutdown(BrokerId(message.broker_id), BrokerEpoch(message.broker_epoch))


def controlled_shutdown_result_to_wire(result: ControlledShutdownResult) -> wire.ControlledShutdownResponse:
    """The message of an answer."""
    return wire.ControlledShutdownResponse(
        error_code=result.error_code,
        remaining=[wire.TopicPartition(topic=at.topic, partition=at.partition) for at in result.remaining],
    )


def controlled_shutdown_result_from_wire(message: wire.ControlledShutdownResponse) -> ControlledShutdownResult:
    """The answer."""
    remaining = [TopicPartition(at.topic, at.partition) for at in message.remaining]
    return ControlledShutdownResult(error_from_wire(message.error_code), remaining)
