"""OffsetFetch: what is committed, what is not, and what may yet change."""

import pytest

from barnabas.coordinator.group_records import OffsetAndMetadata
from barnabas.coordinator.offsets.committed import CommittedOffsets
from barnabas.coordinator.offsets.fetching import fetch_offsets, refuse_fetch
from barnabas.protocol.compiler import encode
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse

NOTHING = (-1, -1, "", ErrorCode.NONE)
UNSTABLE = (-1, -1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT)


@pytest.fixture
def offsets() -> CommittedOffsets:
    found = CommittedOffsets("g")
    found.replay("a", 0, OffsetAndMetadata(5, 3, "note", 1))
    found.replay("a", 2, OffsetAndMetadata(6, -1, "", 1))
    found.replay("b", 1, OffsetAndMetadata(7, -1, "", 1))
    found.replay_pending("b", 1, OffsetAndMetadata(8, -1, "", 1), 1)
    found.replay_pending("c", 0, OffsetAndMetadata(9, -1, "", 1), 1)
    return found


def asked(response: OffsetFetchResponse) -> dict[tuple[str, int], tuple[int, int, str | None, ErrorCode]]:
    assert response.error_code == 0
    return {
        (topic.name, each.partition_index): (
            each.committed_offset,
            each.committed_leader_epoch,
            each.metadata,
            ErrorCode(each.error_code),
        )
        for topic in response.topics
        for each in topic.partitions
    }


def of(**topics: list[int]) -> list[OffsetFetchRequestTopic]:
    return [OffsetFetchRequestTopic(name, partitions) for name, partitions in topics.items()]


def test_what_is_not_committed_has_offset_minus_1(offsets: CommittedOffsets) -> None:
    request = OffsetFetchRequest("g", of(a=[0, 1], z=[0], c=[0]))
    assert asked(fetch_offsets(request, offsets)) == {
        ("a", 0): (5, 3, "note", ErrorCode.NONE),
        ("a", 1): NOTHING,
        ("z", 0): NOTHING,
        ("c", 0): NOTHING,
    }


def test_a_group_that_is_not_known_has_nothing_committed() -> None:
    assert asked(fetch_offsets(OffsetFetchRequest("x", of(a=[0, 1])), None)) == {("a", 0): NOTHING, ("a", 1): NOTHING}
    assert asked(fetch_offsets(OffsetFetchRequest("x", None), None)) == {}


def test_null_asks_for_all_that_is_committed(offsets: CommittedOffsets) -> None:
    found = asked(fetch_offsets(OffsetFetchRequest("g", None), offsets))
    assert {key: value[0] for key, value in found.items()} == {("a", 0): 5, ("a", 2): 6, ("b", 1): 7}


def test_no_topics_ask_for_nothing(offsets: CommittedOffsets) -> None:
    assert asked(fetch_offsets(OffsetFetchRequest("g", []), offsets)) == {}
    assert fetch_offsets(OffsetFetchRequest("g", of(a=[])), offsets).topics == []


def test_who_requires_stable_offsets_waits_for_open_transactions(offsets: CommittedOffsets) -> None:
    request = OffsetFetchRequest("g", of(a=[0], b=[1], c=[0, 1]), require_stable=True)
    found = asked(fetch_offsets(request, offsets))
    assert found == {
        ("a", 0): (5, 3, "note", ErrorCode.NONE),
        ("b", 1): UNSTABLE,
        ("c", 0): UNSTABLE,
        ("c", 1): NOTHING,
    }
    everything = asked(fetch_offsets(OffsetFetchRequest("g", None, require_stable=True), offsets))
    assert everything[("b", 1)] == UNSTABLE
    offsets.replay_marker(1, commit=True)
    assert asked(fetch_offsets(request, offsets))[("c", 0)] == (9, -1, "", ErrorCode.NONE)


def test_a_group_that_has_only_an_open_transaction_is_unstable_too() -> None:
    offsets = CommittedOffsets("g")
    offsets.replay_pending("a", 0, OffsetAndMetadata(8, -1, "", 1), 1)
    request = OffsetFetchRequest("g", of(a=[0, 1]), require_stable=True)
    assert asked(fetch_offsets(request, offsets)) == {("a", 0): UNSTABLE, ("a", 1): NOTHING}


def test_others_read_what_was_committed_before(offsets: CommittedOffsets) -> None:
    request = OffsetFetchRequest("g", of(b=[1]))
    assert asked(fetch_offsets(request, offsets)) == {("b", 1): (7, -1, "", ErrorCode.NONE)}


def test_a_partition_named_twice_is_answered_once(offsets: CommittedOffsets) -> None:
    request = OffsetFetchRequest("g", of(a=[0, 0]) + of(a=[2, 0]))
    (topic,) = fetch_offsets(request, offsets).topics
    assert [each.partition_index for each in topic.partitions] == [0, 2]


def test_a_refusal_stands_where_the_version_has_room_for_it() -> None:
    request = OffsetFetchRequest("g", of(a=[0], b=[]))
    error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    old = refuse_fetch(request, error, version=1)
    assert [(topic.name, [each.error_code for each in topic.partitions]) for topic in old.topics] == [("a", [14])]
    new = refuse_fetch(request, error, version=2)
    assert (new.error_code, new.topics) == (14, [])
    encode(old, 1)
    encode(new, 7)
