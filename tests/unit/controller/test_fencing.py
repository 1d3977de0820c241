import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerEpoch, BrokerId, ControllerEpoch, TopicPartition
from controller.commands import CommandResult, LeaderAndIsr, StopReplica, UpdateMetadata
from controller.fencing import decide_fence


@pytest.mark.parametrize(
    ("controller_epoch", "broker_epoch", "answer"),
    [
        (5, 100, ErrorCode.NONE),
        (6, 100, ErrorCode.NONE),
        (4, 100, ErrorCode.STALE_CONTROLLER_EPOCH),
        (5, 99, ErrorCode.STALE_BROKER_EPOCH),
        (4, 99, ErrorCode.STALE_CONTROLLER_EPOCH),
        (5, 101, ErrorCode.NONE),
        (5, -1, ErrorCode.NONE),
    ],
)
def test_a_broker_obeys_the_last_controller_and_commands_for_its_present_registration(
    controller_epoch: int, broker_epoch: int, answer: ErrorCode
) -> None:
    header = (BrokerId(1), ControllerEpoch(controller_epoch), BrokerEpoch(broker_epoch))
    for command in (LeaderAndIsr(*header, []), StopReplica(*header, []), UpdateMetadata(*header, [], ())):
        fence = decide_fence(
            known_controller_epoch=ControllerEpoch(5), own_broker_epoch=BrokerEpoch(100), command=command
        )
        assert fence is answer


def test_the_error_of_a_whole_command_is_that_of_each_partition() -> None:
    at, other = TopicPartition("t", 0), TopicPartition("t", 1)
    assert CommandResult(ErrorCode.STALE_BROKER_EPOCH).of(at) is ErrorCode.STALE_BROKER_EPOCH
    result = CommandResult(partition_errors={at: ErrorCode.KAFKA_STORAGE_ERROR})
    assert (result.of(at), result.of(other)) == (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE)
