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
        with pytest.raises(OffsetSyntax, match="is no duration"):
            parse_ago(text, now_ms=10_000_000)


@pytest.mark.parametrize(
    ("text", "back_ms"),
    [
        ("PT2H30M", 9_000_000),
        ("P1D", 86_400_000),
        ("P1DT12H", 129_600_000),
        ("pt0.25s", 250),
        ("PT90S", 90_000),
        ("PT0S", 0),
    ],
)
def test_durations_are_taken_as_kafkas_tool_takes_them(text: str, back_ms: int) -> None:
    assert parse_ago(text, now_ms=1_000_000_000) == 1_000_000_000 - back_ms


@pytest.mark.parametrize("text", ["P", "PT", "P1Y", "P1M", "P1H", "PT1D", "P1DT", "PT-1H", "P1D ", "PT1H1H"])
def test_other_iso_durations_are_refused(text: str) -> None:
    with pytest.raises(OffsetSyntax, match="is no duration"):
        parse_ago(text, now_ms=1_000_000_000)


@pytest.mark.parametrize(
    "text",
    [
        "t,0,5\nt,1,7\n",
        "\ufefft,0,5\r\n\r\nt,1,7",
        '"t",0,5\n"t",1,7\n',
        "g,t,0,5\nother,t,0,9\ng,t,1,7\n",
        '[{"topic": "t", "partition": 0, "target": 5, "committed": 1}, {"topic": "t", "partition": 1, "offset": 7}]',
        '[{"topic": "t", "partition": 0, "committed": 5}, {"topic": "t", "partition": 1, "committed": 7, "end": 9}]',
    ],
)
def test_files_tell_offsets(text: str) -> None:
    assert read_offsets(text, group="g") == {A: 5, B: 7}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("t,0,5\nt,1\n", "line 2: 't,1' is not topic,partition,offset"),
        ("t,0,5\n\nt,x,5", "line 3: partition='x' is no number"),
        ("t,0,-5", "line 1: offset='-5' is no number from 0 on"),
        ("t,0," + "9" * 30, "line 1: offset='9{30}' is no number"),
        ("t,0,5\nt,0,6", "line 2: t-0 stands here for the second time"),
        ("a,b,c,d,e", "line 1: 'a,b,c,d,e' is not topic,partition,offset"),
        ("", "the file holds no offsets of group g"),
        ("other,t,0,5", "the file holds no offsets of group g"),
        ("t,0,5\x00\n", "line 1: offset='5.*is no number|line 1: line contains NUL"),
        ('{"a": 1}', 'row 1: {"a": 1} has no topic'),
        ("[1]", "row 1: 1 has no topic"),
        ('[{"topic": "t", "partition": 0}]', "row 1: offset=None is no number"),
        ('[{"topic": "t", "partition": true, "offset": 1}]', "row 1: partition=True is no number"),
        ("[", "no JSON: "),
    ],
)
def test_other_files_are_refused_by_line_and_value(text: str, complaint: str) -> None:
    with pytest.raises(InvalidReset, match=complaint):
        read_offsets(text, group="g")
