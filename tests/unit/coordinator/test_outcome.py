import pytest

from barnabas.coordinator.outcome import coordinator_error
from barnabas.protocol.error_code import ErrorCode


@pytest.mark.parametrize(
    ("error", "heard"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.MESSAGE_TOO_LARGE),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_a_client_hears_of_the_coordinator_and_not_of_its_log(error: ErrorCode, heard: ErrorCode) -> None:
    assert coordinator_error(error) is heard


def test_an_api_names_what_a_timeout_and_a_size_become() -> None:
    assert (
        coordinator_error(ErrorCode.REQUEST_TIMED_OUT, timed_out=ErrorCode.REBALANCE_IN_PROGRESS)
        is ErrorCode.REBALANCE_IN_PROGRESS
    )
    assert (
        coordinator_error(ErrorCode.RECORD_LIST_TOO_LARGE, too_large=ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
        is ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    )
