"""OffsetDelete, and offsets whose topics are gone."""

from barnabas.coordinator.group_records import OffsetAndMetadata, encode_offset_key
from barnabas.coordinator.offsets.committed import CommittedOffsets
from barnabas.coordinator.offsets.deletion import (
    delete_offsets,
    leaves_nothing,
    partitions_of,
    refuse_delete,
    tombstones,
)
from barnabas.coordinator.outcome import Outcome, Ticket
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

VALUE = OffsetAndMetadata(5, -1, "", 1)


def offsets_of(*partitions: tuple[str, int], pending: tuple[str, int] | None = None) -> CommittedOffsets:
    offsets = CommittedOffsets("g")
    for topic, partition in partitions:
        offsets.replay(topic, partition, VALUE)
    if pending is not None:
        offsets.replay_pending(*pending, VALUE, 1)
    return offsets


def request(**topics: list[int]) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        "g",
        [
            OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(each) for each in partitions])
            for name, partitions in topics.items()
        ],
    )


def answer(outcome: Outcome) -> tuple[int, dict[tuple[str, int], int]]:
    ((ticket, response),) = outcome.replies
    assert ticket == 1
    found = {
        (topic.name, each.partition_index): each.error_code for topic in response.topics for each in topic.partitions
    }
    return response.error_code, found


def keys(outcome: Outcome) -> list[bytes]:
    assert all(value is None for _, value in outcome.records)
    return [key for key, _ in outcome.records]


def test_offsets_of_topics_that_are_consumed_stay() -> None:
    offsets = offsets_of(("a", 0), ("b", 0))
    outcome = delete_offsets(Ticket(1), request(a=[0, 1], b=[0]), offsets, lambda topic: topic == "b")
    assert keys(outcome) == [encode_offset_key("g", "a", 0)]
    assert answer(outcome) == (0, {("a", 0): 0, ("a", 1): 0, ("b", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC})


def test_to_delete_what_is_not_there_succeeds_and_writes_nothing() -> None:
    outcome = delete_offsets(Ticket(1), request(a=[0, 0]), None, lambda topic: False)
    assert (outcome.records, answer(outcome)) == ([], (0, {("a", 0): 0}))
    outcome = delete_offsets(Ticket(1), request(a=[]), offsets_of(("a", 0)), lambda topic: False)
    assert (outcome.records, answer(outcome)) == ([], (0, {}))


def test_what_the_log_refuses_is_an_error_of_the_whole_request() -> None:
    outcome = delete_offsets(Ticket(1), request(a=[0]), offsets_of(("a", 0)), lambda topic: False)
    assert outcome.if_failed is not None
    assert outcome.if_failed(ErrorCode.NOT_LEADER_OR_FOLLOWER) == [(1, refuse_delete(ErrorCode.NOT_COORDINATOR))]


def test_deleting_what_only_an_open_transaction_knows_takes_it_from_there() -> None:
    offsets = offsets_of(pending=("a", 0))
    (record,) = tombstones(offsets, [("a", 0), ("a", 1)])
    assert record == (encode_offset_key("g", "a", 0), None)
    offsets.replay("a", 0, None)
    offsets.replay_marker(1, commit=True)
    assert offsets.is_empty


def test_of_deleted_topics_a_group_loses_what_it_has_of_them() -> None:
    offsets = offsets_of(("a", 1), ("a", 0), ("b", 0), pending=("c", 0))
    gone = {("a", 0), ("a", 1), ("a", 2), ("c", 0), ("d", 0)}
    assert partitions_of(offsets, gone) == [("a", 0), ("a", 1), ("c", 0)]


def test_whether_anything_is_left_counts_open_transactions() -> None:
    assert leaves_nothing(offsets_of(("a", 0), ("b", 0)), [("a", 0), ("b", 0), ("z", 0)])
    assert not leaves_nothing(offsets_of(("a", 0), ("b", 0)), [("a", 0), ("a", 0)])
    assert not leaves_nothing(offsets_of(("a", 0), ("b", 0)), [("a", 0), ("z", 0)])
    assert not leaves_nothing(offsets_of(("a", 0), pending=("b", 0)), [("a", 0)])
    assert leaves_nothing(offsets_of(("a", 0), pending=("b", 0)), [("a", 0), ("b", 0)])
    assert leaves_nothing(offsets_of(), [])
