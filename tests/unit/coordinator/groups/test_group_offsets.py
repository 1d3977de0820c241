"""When a group lets offsets be committed and deleted, and when it goes with the last of them."""

import struct

import pytest

from barnabas.coordinator.group_coordinator import FORGOTTEN
from barnabas.coordinator.group_records import GroupKey, OffsetKey, decode_key
from barnabas.coordinator.groups.turn import ExpiryTimer, SweepTimer
from barnabas.coordinator.offsets.expiry import PIECE_BYTES
from barnabas.coordinator.offsets.settings import OffsetSettings
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tests.unit.coordinator.groups.driving import DELAY_MS, SESSION_MS, Driven

RETENTION_MS = 7 * 24 * 3_600_000
CHECK_MS = 600_000
OK = {ErrorCode.NONE}


@pytest.fixture
def group() -> Driven:
    return Driven()


def subscribed_to(*topics: str) -> tuple[tuple[str, bytes], ...]:
    names = b"".join(struct.pack(">h", len(each)) + each.encode() for each in topics)
    return (("range", b"\0\0" + struct.pack(">i", len(topics)) + names + b"\xff\xff\xff\xff"),)


def fetched(group: Driven, group_id: str = "g") -> dict[tuple[str, int], int]:
    ticket = group.ticket()
    response = group.run(ticket, group.machine.fetch(ticket, OffsetFetchRequest(group_id, None)))
    assert isinstance(response, OffsetFetchResponse)
    return {
        (topic.name, each.partition_index): each.committed_offset
        for topic in response.topics
        for each in topic.partitions
    }


def delete_offsets(group: Driven, *topics: str, group_id: str = "g") -> OffsetDeleteResponse:
    ticket = group.ticket()
    request = OffsetDeleteRequest(
        group_id, [OffsetDeleteRequestTopic(each, [OffsetDeleteRequestPartition(0)]) for each in topics]
    )
    response = group.run(ticket, group.machine.delete_offsets(ticket, request))
    assert isinstance(response, OffsetDeleteResponse)
    return response


def txn_commit(
    group: Driven, *, member_id: str = "", generation_id: int = -1, instance: str | None = None, partition: int = 0
) -> set[int]:
    ticket = group.ticket()
    topic = TxnOffsetCommitRequestTopic("t", [TxnOffsetCommitRequestPartition(partition, 5)])
    request = TxnOffsetCommitRequest("tx", "g", 9, 0, generation_id, member_id, instance, [topic])
    response = group.run(ticket, group.machine.commit_in_transaction(ticket, request, wall_ms=group.wall_ms))
    assert isinstance(response, TxnOffsetCommitResponse)
    return {each.error_code for topic in response.topics for each in topic.partitions}


def test_who_has_no_group_commits_without_a_generation(group: Driven) -> None:
    assert group.commit(generation_id=0) == {ErrorCode.ILLEGAL_GENERATION}
    assert group.commit(7) == OK
    assert fetched(group) == {("t", 0): 7}
    assert group.state() == "Empty"
    assert group.commit(generation_id=0) == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert group.commit(8, group="") == OK, "even without a name"


def test_in_a_group_members_of_its_generation_commit(group: Driven) -> None:
    leader, follower = group.stable()
    assert group.commit(member_id=leader, generation_id=1) == OK
    assert group.commit() == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert group.commit(member_id="x", generation_id=1) == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert group.commit(member_id=leader, generation_id=0) == {ErrorCode.ILLEGAL_GENERATION}
    assert group.commit(member_id=leader, generation_id=-1) == {ErrorCode.ILLEGAL_GENERATION}
    group.join(leader)
    assert group.commit(member_id=follower, generation_id=1) == OK, "what it has read may still be committed"
    group.join(follower)
    assert group.commit(member_id=follower, generation_id=2) == {ErrorCode.REBALANCE_IN_PROGRESS}


def test_a_commit_that_was_tried_again_overwrites_none_that_came_after_it(group: Driven) -> None:
    leader, follower = group.stable()
    as_leader = {"member_id": leader, "generation_id": 1}
    assert group.commit(5, **as_leader, accepted_us=100) == OK
    assert group.commit(5, **as_leader, accepted_us=200) == OK
    assert group.commit(6, **as_leader, accepted_us=200) == OK
    assert group.commit(5, **as_leader, accepted_us=100) == {ErrorCode.REQUEST_TIMED_OUT}
    assert fetched(group) == {("t", 0): 6}
    assert group.commit(7, member_id=follower, generation_id=1, accepted_us=100) == OK, "another's connection"
    group.fail_over()
    assert group.commit(8, **as_leader, accepted_us=50) == OK, "another broker's clock"
    assert group.commit(9, generation_id=-1, group="h", accepted_us=2) == OK
    assert group.commit(10, generation_id=-1, group="h", accepted_us=1) == OK, "nobody knows who that is"


def test_a_transaction_is_held_against_the_group_where_it_names_a_member(group: Driven) -> None:
    ok = {ErrorCode.NONE}
    assert txn_commit(group, generation_id=1) == {ErrorCode.ILLEGAL_GENERATION}
    assert txn_commit(group, member_id="x") == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert txn_commit(group) == ok
    (leader,) = group.stable(1)
    assert txn_commit(group) == ok
    assert txn_commit(group, member_id=leader, generation_id=1) == ok
    assert txn_commit(group, member_id=leader, generation_id=2) == {ErrorCode.ILLEGAL_GENERATION}
    assert txn_commit(group, member_id=leader, generation_id=0) == {ErrorCode.ILLEGAL_GENERATION}
    assert txn_commit(group, member_id="x", generation_id=1) == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert fetched(group) == {}
    group.machine.replay_marker(9, commit=True)
    assert fetched(group) == {("t", 0): 5}


def test_a_fenced_instance_commits_in_no_transaction(group: Driven) -> None:
    ticket = group.join(instance="i")
    group.wait(DELAY_MS)
    old = group.joined(ticket).member_id
    group.settle([old])
    group.join(instance="i")
    assert txn_commit(group, member_id=old, generation_id=1, instance="i") == {ErrorCode.FENCED_INSTANCE_ID}


def test_offsets_of_topics_that_members_consume_stay(group: Driven) -> None:
    (leader,) = group.stable(1, protocols=subscribed_to("used"))
    group.commit(member_id=leader, generation_id=1, topics={"used": (0,), "old": (0,)})
    response = delete_offsets(group, "used", "old", "never")
    errors = {topic.name: topic.partitions[0].error_code for topic in response.topics}
    assert errors == {"used": ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, "old": 0, "never": 0}
    assert fetched(group) == {("used", 0): 1}


def test_topics_of_a_generation_count_from_its_beginning(group: Driven) -> None:
    (leader,) = group.stable(1, protocols=subscribed_to("old"))
    group.commit(member_id=leader, generation_id=1, topics={"new": (0,), "old": (0,)})
    group.join(leader, protocols=subscribed_to("new"))
    assert group.state() == "CompletingRebalance"
    delete_offsets(group, "new", "old")
    assert fetched(group) == {("new", 0): 1}


def test_offsets_of_groups_whose_subscriptions_are_unknown_stay(group: Driven) -> None:
    (leader,) = group.stable(1, protocols=(("range", b"?"),))
    group.commit(member_id=leader, generation_id=1)
    response = delete_offsets(group, "t")
    assert response.topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    group.stable(1, group="h", protocol_type="connect", protocols=(("v0", b""),))
    assert delete_offsets(group, "t", group_id="h").error_code == ErrorCode.NON_EMPTY_GROUP
    assert delete_offsets(group, "t", group_id="none").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_however_many_offsets_are_deleted_the_log_may_divide_them(group: Driven) -> None:
    group.commit(topics={"t": tuple(range(1_000))})
    every = [OffsetDeleteRequestPartition(number) for number in range(1_000)]
    request = OffsetDeleteRequest("g", [OffsetDeleteRequestTopic("t", every)])
    outcome = group.machine.delete_offsets(group.ticket(), request)
    assert (len(outcome.records), outcome.is_divisible) == (1_000, True)
    whole = group.machine.delete_group(group.ticket(), "g", **group.clock)
    assert 0 < len(whole.records) < 1_000
    assert whole.is_divisible
    assert not whole.replies, "it is answered after the last piece"


def test_an_empty_group_goes_with_its_last_offset(group: Driven) -> None:
    (leader,) = group.stable(1)
    group.commit(member_id=leader, generation_id=1, topics={"t": (0,), "u": (0,)})
    group.leave((leader, None))
    delete_offsets(group, "t")
    assert group.state() == "Empty"
    delete_offsets(group, "u")
    assert group.state() == "Dead"
    assert [type(decode_key(each.key)) for each in group.batches[-1]] == [OffsetKey, GroupKey]
    assert all(each.value is None for each in group.batches[-1])


def test_a_group_that_never_was_one_leaves_no_tombstone_of_its_own(group: Driven) -> None:
    group.commit()
    delete_offsets(group, "t")
    assert [type(decode_key(each.key)) for each in group.batches[-1]] == [OffsetKey]
    assert group.listed() == {}


def test_a_refused_deletion_of_offsets_is_told(group: Driven) -> None:
    group.commit()
    group.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    assert delete_offsets(group, "t").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert fetched(group) == {("t", 0): 1}


def test_a_group_is_deleted_with_all_its_offsets_a_piece_at_a_time(group: Driven) -> None:
    (leader,) = group.stable(1)
    partitions = tuple(range(1_000))
    group.commit(member_id=leader, generation_id=1, topics={"a-rather-long-topic-name" * 5: partitions})
    group.leave((leader, None))
    group.batches.clear()
    assert group.delete() is ErrorCode.NONE
    assert len(group.batches) > 5
    assert max(sum(len(each.key) for each in batch) for batch in group.batches) <= PIECE_BYTES + 100
    assert sum(map(len, group.batches)) == len(partitions) + 1
    group.fail_over()
    assert group.listed() == {}
    assert fetched(group) == {}


def test_a_group_is_deleted_with_what_open_transactions_have_for_it(group: Driven) -> None:
    group.commit(topics={"u": (0,)})
    assert txn_commit(group) == OK
    assert group.delete() is ErrorCode.NONE
    group.machine.replay_marker(9, commit=True)
    assert fetched(group) == {}
    assert group.listed() == {}


def test_nobody_joins_a_group_of_which_part_is_deleted(group: Driven) -> None:
    group.commit(topics={"t": tuple(range(1_000))})
    waiting = group.ticket()
    group._apply(group.machine.delete_group(waiting, "g", **group.clock))
    assert group.is_parked(waiting)
    joining = group.join()
    assert group.answers[joining].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    while group.is_parked(waiting):
        group.wait(0)
    assert group.answers[waiting].error_code == ErrorCode.NONE
    assert fetched(group) == {}
    group.stable(1)


def test_a_deletion_that_is_under_way_at_a_failover_is_named_for_its_answer(group: Driven) -> None:
    group.commit(topics={"t": tuple(range(1_000))})
    waiting = group.ticket()
    group._apply(group.machine.delete_group(waiting, "g", **group.clock))
    group.fail_over()
    assert group.answers[waiting] is ErrorCode.NOT_COORDINATOR


def test_a_deletion_that_the_log_refuses_half_way_is_told(group: Driven) -> None:
    group.commit(topics={"t": tuple(range(1_000))})
    waiting = group.ticket()
    group._apply(group.machine.delete_group(waiting, "g", **group.clock))
    group.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    group.wait(0)
    assert group.answers[waiting].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    group.refuses = None
    assert group.delete() is ErrorCode.NONE


def test_offsets_of_an_empty_group_expire_a_retention_after_it_became_empty_and_the_group_with_them(
    group: Driven,
) -> None:
    (leader,) = group.stable(1)
    group.commit(member_id=leader, generation_id=1)
    for _ in range(10):
        group.wait(SESSION_MS - 1)
        group.heartbeat(leader, 1)
    group.leave((leader, None))
    group.wait(RETENTION_MS - CHECK_MS)
    assert fetched(group) == {("t", 0): 1}
    group.wait(2 * CHECK_MS)
    assert group.listed() == {}
    group.fail_over()
    assert group.listed() == {}


def test_offsets_without_a_group_expire_a_retention_after_their_commit(group: Driven) -> None:
    group.commit(topics={"t": (0,)})
    group.wait(RETENTION_MS // 2)
    group.commit(topics={"t": (1,)})
    group.wait(RETENTION_MS // 2 + CHECK_MS)
    assert fetched(group) == {("t", 1): 1}


def test_members_keep_the_offsets_of_what_they_consume(group: Driven) -> None:
    group = Driven(offset_settings=OffsetSettings(retention_ms=1_000_000, check_interval_ms=100_000))
    (leader,) = group.stable(1, protocols=subscribed_to("used"), session_ms=1_800_000)
    group.commit(member_id=leader, generation_id=1, topics={"used": (0,), "old": (0,)})
    group.wait(1_200_000)
    assert fetched(group) == {("used", 0): 1}


def test_nothing_expires_while_a_group_rebalances(group: Driven) -> None:
    # KAFKA-13636: the members may be about to subscribe to what nobody consumes at the moment.
    group = Driven(offset_settings=OffsetSettings(retention_ms=1_000_000, check_interval_ms=100_000))
    (leader,) = group.stable(1, protocols=subscribed_to("used"), session_ms=1_800_000, rebalance_ms=1_800_000)
    group.commit(member_id=leader, generation_id=1, topics={"old": (0,)})
    group.join(session_ms=1_800_000)
    group.join(leader, protocols=subscribed_to("used"), session_ms=1_800_000, rebalance_ms=1_800_000)
    group.wait(1_500_000)
    assert group.state() == "PreparingRebalance"
    assert fetched(group) == {("old", 0): 1}


def test_an_empty_group_without_offsets_goes_at_the_next_check(group: Driven) -> None:
    (leader,) = group.stable(1)
    group.leave((leader, None))
    group.wait(CHECK_MS)
    assert group.listed() == {}


def test_who_was_told_to_come_back_keeps_an_empty_group(group: Driven) -> None:
    (leader,) = group.stable(1)
    group.leave((leader, None))
    told = group.joined(group.join(session_ms=1_800_000)).member_id
    group.wait(2 * CHECK_MS)
    assert group.is_parked(group.join(told))


def half_swept() -> tuple[Driven, int]:
    """A group of whose expired offsets the first piece has gone, and a partition of the rest."""
    group = Driven(offset_settings=OffsetSettings(retention_ms=1_000_000, check_interval_ms=5_000_000))
    group.commit(topics={"t": tuple(range(1_000))})
    group.batches.clear()
    later_ms = group.wall_ms + 2_000_000
    group._apply(group.machine.on_timer(ExpiryTimer(), now_ms=group.now_ms, wall_ms=later_ms))
    group._apply(group.machine.on_timer(SweepTimer(), **group.clock))
    left = fetched(group)
    assert 0 < len(left) < 1_000
    return group, max(partition for _, partition in left)


def test_expired_offsets_go_in_pieces_and_what_was_committed_in_between_stays() -> None:
    # KAFKA-13099: one batch for all of them could be larger than a batch may be.
    group, again = half_swept()
    group.commit(99, topics={"t": (again,)})
    group.wait(0)
    assert fetched(group) == {("t", again): 99}
    assert max(sum(len(each.key) for each in batch) for batch in group.batches) <= PIECE_BYTES + 100


def test_what_a_transaction_sends_between_two_pieces_of_expired_offsets_stays() -> None:
    group, again = half_swept()
    assert txn_commit(group, partition=again) == OK
    group.wait(0)
    assert fetched(group) == {("t", again): 1}
    group.machine.replay_marker(9, commit=True)
    assert fetched(group) == {("t", again): 5}


def test_a_sweep_that_the_log_refuses_is_made_good_by_the_next(group: Driven) -> None:
    group.commit()
    group.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    group.wait(RETENTION_MS + CHECK_MS)
    assert fetched(group) == {("t", 0): 1}
    group.refuses = None
    group.wait(CHECK_MS)
    assert fetched(group) == {}


def test_many_groups_are_swept_in_a_row(group: Driven) -> None:
    for number in range(700):
        group.commit(group=f"g{number}")
    group.wait(RETENTION_MS + CHECK_MS)
    assert group.listed() == {}


def test_offsets_of_deleted_topics_go_and_with_them_groups_of_which_nothing_is_left(group: Driven) -> None:
    (leader,) = group.stable(1)
    group.commit(member_id=leader, generation_id=1, topics={"t": (0, 1)})
    group.commit(group="h", topics={"t": (0,), "u": (0,)})
    group.commit(group="i", topics={"t": (1,)})
    group._apply(group.machine.on_partitions_deleted([("t", 0), ("t", 1)], **group.clock))
    group.wait(0)
    assert group.listed() == {"g": "Stable", "h": "Empty"}
    assert (fetched(group), fetched(group, "h")) == ({}, {("u", 0): 1})


def test_an_operator_is_told_of_groups_that_are_forgotten_and_of_no_others(group: Driven) -> None:
    (leader,) = group.stable(1)
    group.leave((leader, None))
    group.commit(group="h", topics={"t": (0,), "u": (0,)})
    group._apply(group.machine.on_partitions_deleted([("t", 0)], **group.clock))
    group.wait(0)
    assert group.listed() == {"h": "Empty"}
    assert [note for note in group.notes if FORGOTTEN in note] == [f"group g: {FORGOTTEN}"]
