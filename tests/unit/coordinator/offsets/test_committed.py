"""What is committed follows from the order of the log, whatever transactions are open."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.coordinator.group_records import OffsetAndMetadata, OffsetKey, encode_offset_value
from barnabas.coordinator.offsets.committed import AllOffsets
from barnabas.coordinator.outcome import ProducerStamp
from barnabas.coordinator.record_fields import NotDecodable

FIRST, SECOND = ProducerStamp(1, 0), ProducerStamp(2, 0)
COMMIT, ABORT = True, False
KEY = OffsetKey("g", "t", 0)
Step = tuple[OffsetKey, int | None, ProducerStamp | None] | tuple[ProducerStamp, bool]


def played(*steps: Step) -> AllOffsets:
    """Steps are records (key, offset or None for a tombstone, producer), and markers (producer, commit)."""
    offsets = AllOffsets()
    for step in steps:
        if isinstance(step[0], ProducerStamp):
            offsets.replay_marker(step[0].producer_id, commit=bool(step[1]))
        else:
            key, offset, producer = step  # type: ignore[misc]
            offsets.replay(key, None if offset is None else value_of(offset), producer)
    return offsets


def value_of(offset: int) -> bytes:
    return encode_offset_value(OffsetAndMetadata(offset, -1, "", 1_600_000_000_000))


def committed(offsets: AllOffsets, key: OffsetKey = KEY) -> int | None:
    group = offsets.of(key.group_id)
    found = None if group is None else group.get(key.topic, key.partition)
    return None if found is None else found.offset


def is_unstable(offsets: AllOffsets, key: OffsetKey = KEY) -> bool:
    group = offsets.of(key.group_id)
    return group is not None and group.is_unstable(key.topic, key.partition)


def test_the_last_commit_counts() -> None:
    assert committed(played((KEY, 5, None), (KEY, 3, None))) == 3


def test_a_tombstone_deletes_and_a_group_without_offsets_is_gone() -> None:
    other = OffsetKey("g", "t", 1)
    offsets = played((KEY, 5, None), (other, 6, None), (KEY, None, None))
    assert (committed(offsets), committed(offsets, other), len(offsets)) == (None, 6, 1)
    offsets.replay(other, None, None)
    assert (offsets.of("g"), offsets.group_ids(), len(offsets)) == (None, [], 0)


def test_nothing_is_kept_of_what_is_gone() -> None:
    offsets = played((KEY, 5, None), (OffsetKey("g", "u", 0), 6, FIRST), (KEY, None, None), (FIRST, COMMIT))
    group = offsets.of("g")
    assert group is not None
    assert [topic for topic, _ in group.topics()] == ["u"]
    assert offsets._groups_of_producer == {}


def test_a_tombstone_of_what_is_not_there_changes_nothing() -> None:
    offsets = played((KEY, 5, None), (OffsetKey("g", "t", 1), None, None), (OffsetKey("h", "t", 0), None, None))
    assert (committed(offsets), offsets.group_ids(), len(offsets)) == (5, ["g"], 1)


def test_an_offset_of_a_transaction_counts_once_it_commits() -> None:
    steps: list[Step] = [(KEY, 5, None), (KEY, 8, FIRST)]
    assert (committed(played(*steps)), is_unstable(played(*steps))) == (5, True)
    assert (committed(played(*steps, (FIRST, COMMIT))), is_unstable(played(*steps, (FIRST, COMMIT)))) == (8, False)
    assert (committed(played(*steps, (FIRST, ABORT))), is_unstable(played(*steps, (FIRST, ABORT)))) == (5, False)


def test_a_marker_ends_the_transaction_of_its_producer_alone() -> None:
    other = OffsetKey("h", "t", 0)
    offsets = played((KEY, 5, FIRST), (other, 6, SECOND), (FIRST, COMMIT))
    assert (committed(offsets), committed(offsets, other), is_unstable(offsets, other)) == (5, None, True)


def test_a_marker_ends_the_transaction_in_all_groups() -> None:
    other = OffsetKey("h", "t", 0)
    offsets = played((KEY, 5, FIRST), (other, 6, FIRST), (FIRST, COMMIT))
    assert (committed(offsets), committed(offsets, other)) == (5, 6)


def test_a_marker_of_who_sent_nothing_changes_nothing() -> None:
    offsets = played((KEY, 5, None), (SECOND, COMMIT), (SECOND, ABORT))
    assert committed(offsets) == 5


def test_the_next_transaction_begins_with_nothing() -> None:
    offsets = played((KEY, 5, FIRST), (FIRST, ABORT), (OffsetKey("g", "t", 1), 1, FIRST), (FIRST, COMMIT))
    assert committed(offsets) is None


def test_a_commit_overtakes_what_transactions_were_sent_before() -> None:
    offsets = played((KEY, 5, FIRST), (KEY, 9, None))
    assert is_unstable(offsets)
    offsets.replay_marker(1, commit=True)
    assert (committed(offsets), is_unstable(offsets)) == (9, False)


def test_a_transaction_overtakes_commits_before_its_records_only() -> None:
    assert committed(played((KEY, 9, None), (KEY, 5, FIRST), (FIRST, COMMIT))) == 5
    assert committed(played((KEY, 5, FIRST), (KEY, 9, None), (KEY, 6, FIRST), (FIRST, COMMIT))) == 6


def test_of_two_transactions_the_later_record_counts_and_not_the_later_marker() -> None:
    records: list[Step] = [(KEY, 5, FIRST), (KEY, 7, SECOND)]
    assert committed(played(*records, (SECOND, COMMIT), (FIRST, COMMIT))) == 7
    assert committed(played(*records, (FIRST, COMMIT), (SECOND, COMMIT))) == 7
    assert committed(played(*records, (FIRST, COMMIT), (SECOND, ABORT))) == 5
    assert committed(played(*records, (SECOND, ABORT), (FIRST, COMMIT))) == 5


def test_an_ended_transaction_does_not_bring_back_what_was_deleted_meanwhile() -> None:
    offsets = played((KEY, 4, None), (KEY, 5, FIRST), (KEY, None, None))
    assert not is_unstable(offsets)
    assert offsets.of("g") is None
    offsets.replay_marker(1, commit=True)
    assert committed(offsets) is None


def test_a_tombstone_within_a_transaction_takes_back_what_was_sent_to_it() -> None:
    offsets = played((KEY, 4, None), (KEY, 5, FIRST), (KEY, None, FIRST), (FIRST, COMMIT))
    assert committed(offsets) == 4
    assert played((KEY, 5, FIRST), (KEY, None, FIRST)).of("g") is None
    assert played((KEY, 5, FIRST), (OffsetKey("g", "t", 1), None, SECOND)).of("g") is not None


def test_an_aborted_group_is_gone_with_its_transaction() -> None:
    offsets = played((KEY, 5, FIRST))
    group = offsets.of("g")
    assert group is not None
    assert (group.is_empty, group.has_pending, len(group)) == (False, True, 0)
    offsets.replay_marker(1, commit=False)
    assert (offsets.of("g"), group.is_empty) == (None, True)


def test_a_record_that_cannot_be_read_changes_nothing() -> None:
    offsets = played((KEY, 5, None))
    for value in (b"", b"\0\3", b"\0\4" + bytes(30)):
        with pytest.raises(NotDecodable):
            offsets.replay(OffsetKey("new", "t", 0), value, None)
        with pytest.raises(NotDecodable):
            offsets.replay(KEY, value, FIRST)
    assert (committed(offsets), offsets.group_ids(), is_unstable(offsets)) == (5, ["g"], False)


class _Model:
    """The rule said plainly: each record has a position, and the committed offset is that of the highest one."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self.committed: dict[OffsetKey, tuple[int, int | None]] = {}
        pending: dict[int, dict[OffsetKey, tuple[int, int]]] = {}
        for position, step in enumerate(steps):
            if isinstance(step[0], ProducerStamp):
                ended = pending.pop(step[0].producer_id, {})
                for key, (at, offset) in ended.items() if step[1] else ():
                    if at > self.committed.get(key, (-1, None))[0]:
                        self.committed[key] = (at, offset)
                continue
            key, offset, producer = step  # type: ignore[misc]
            if producer is None:
                self.committed[key] = (position, offset)
                for sent in pending.values() if offset is None else ():
                    sent.pop(key, None)
            else:
                pending.setdefault(producer.producer_id, {})[key] = (position, offset)
        self.unstable = {key for sent in pending.values() for key in sent}


_KEYS = [OffsetKey(group, "t", partition) for group in ("g", "h") for partition in (0, 1)]
_PRODUCERS = [FIRST, SECOND, ProducerStamp(3, 0)]
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(_KEYS), st.integers(0, 99) | st.none(), st.none()),
        st.tuples(st.sampled_from(_KEYS), st.integers(0, 99), st.sampled_from(_PRODUCERS)),
        st.tuples(st.sampled_from(_PRODUCERS), st.booleans()),
    ),
    max_size=30,
)


@given(_STEPS)
def test_any_order_of_commits_tombstones_and_markers_gives_what_the_rule_says(steps: list[Step]) -> None:
    offsets, model = played(*steps), _Model(steps)
    for key in _KEYS:
        assert committed(offsets, key) == model.committed.get(key, (0, None))[1]
        assert is_unstable(offsets, key) == (key in model.unstable)
    known = [key for key, (_, offset) in model.committed.items() if offset is not None]
    assert len(offsets) == len(known)
    assert set(offsets.group_ids()) == {key.group_id for key in known} | {key.group_id for key in model.unstable}
