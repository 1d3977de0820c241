"""Plans of `barnabas groups reset`: values in, values out."""

import pytest

from barnabas.admin.offset_reset import Held, InvalidReset, Step, Target, decide_reset, parse_ago, read_offsets
from barnabas.admin.offsets import Anchor, Bound, OffsetSyntax
from barnabas.protocol.ids import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize(
    ("target", "offset"),
    [
        (Target(Bound(Anchor.START)), 10),
        (Target(Bound(Anchor.END)), 50),
        (Target(Bound(Anchor.ZERO, 30)), 30),
        (Target(Bound(Anchor.ZERO, 5)), 10),
        (Target(Bound(Anchor.ZERO, 99)), 50),
        (Target(Bound(Anchor.TIME, 1)), 42),
        (Target(shift=3), 23),
        (Target(shift=-20), 10),
        (Target(shift=1000), 50),
        (Target(offsets={A: 11}), 11),
    ],
)
def test_targets_are_places_within_what_a_partition_holds(target: Target, offset: int) -> None:
    assert target.resolve(A, Held(10, 50, 20, at_time=42)) == offset


def test_a_time_after_the_last_record_is_the_end() -> None:
    assert Target(Bound(Anchor.TIME, 1)).resolve(A, Held(10, 50, 20, at_time=-1)) == 50


def test_what_is_not_committed_cannot_be_shifted() -> None:
    with pytest.raises(InvalidReset, match="t-0: nothing is committed"):
        decide_reset(Target(shift=1), {A: Held(0, 5, None)})


def test_a_plan_names_each_partition_in_order() -> None:
    plan = decide_reset(Target(Bound(Anchor.END)), {B: Held(0, 5, 3), A: Held(0, 7, None)})
    assert plan == [Step(A, None, 7), Step(B, 3, 5)]


def test_durations_reach_back() -> None:
    assert parse_ago("2h30m", now_ms=10_000_000) == 1_000_000
    for text in ("-2h", "", "soon", "@5"):
        with pytest.raises(OffsetSyntax):
            parse_ago(text, now_ms=10_000_000)


@pytest.mark.parametrize(
    "text",
    [
        "t,0,5\nt,1,7\n",
        '[{"topic": "t", "partition": 0, "target": 5, "committed": 1}, {"topic": "t", "partition": 1, "offset": 7}]',
        '[{"topic": "t", "partition": 0, "committed": 5}, {"topic": "t", "partition": 1, "committed": 7, "end": 9}]',
    ],
)
def test_files_tell_offsets(text: str) -> None:
    assert read_offsets(text) == {A: 5, B: 7}


@pytest.mark.parametrize(
    "text", ["t,0", "t,x,5", '{"a": 1}', "[1]", '[{"topic": "t", "partition": 0}]', "[", "a,b,c,d"]
)
def test_other_files_are_refused(text: str) -> None:
    with pytest.raises(InvalidReset, match="not lines topic,partition,offset"):
        read_offsets(text)
