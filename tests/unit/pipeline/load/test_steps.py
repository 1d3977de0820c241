"""What the driver decides, and what it refuses."""

import re

import pytest

from barnabas.pipeline.load.steps import (
    LoadRefused,
    Span,
    merge,
    must_load,
    require_checkpoint,
    require_few_dead_letters,
    require_no_overlap,
    require_same_ranges,
    watermark_of,
)
from barnabas.protocol.ids import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_batch_is_loaded_when_the_one_before_is_in_the_table() -> None:
    assert must_load("q", 0, None, "/t")
    assert must_load("q", 7, 6, "/t")
    assert not must_load("q", 6, 6, "/t")
    assert not must_load("q", 0, 6, "/t")
    for batch, last, has in ((1, None, "no batch"), (8, 6, "batch 6 as the last")):
        with pytest.raises(LoadRefused, match=f"at batch {batch}, and the table /t has {has} of it"):
            must_load("q", batch, last, "/t")


def test_a_query_keeps_its_checkpoint() -> None:
    require_checkpoint("q", last=None, known=None, found=None, where="/c")
    require_checkpoint("q", last=None, known=None, found="a", where="/c")
    require_checkpoint("q", last=3, known="a", found="a", where="/c")
    for found, told in ((None, "is not there"), ("b", re.escape("is another one (b, not a)"))):
        with pytest.raises(LoadRefused, match=f"has batches 0 to 3 of query q, and their checkpoint /c {told}"):
            require_checkpoint("q", last=3, known="a", found=found, where="/c")


def test_a_batch_that_is_planned_again_has_the_same_offsets_however_they_are_split() -> None:
    planned = [Span(A, 0, 5), Span(A, 5, 10), Span(B, 3, 3)]
    require_same_ranges("q", 1, planned=planned, committed=[Span(A, 0, 10)])
    for other in ([Span(A, 0, 11)], [Span(A, 0, 10), Span(B, 3, 4)], []):
        with pytest.raises(LoadRefused, match=r"t-0 0 to 10: the checkpoint belongs to another table"):
            require_same_ranges("q", 1, planned=planned, committed=other)


def test_spans_that_follow_each_other_are_one() -> None:
    assert merge([Span(B, 0, 1), Span(A, 5, 7), Span(A, 0, 5), Span(A, 8, 9)]) == [
        Span(A, 0, 7),
        Span(A, 8, 9),
        Span(B, 0, 1),
    ]


def test_what_another_query_has_loaded_is_not_loaded_again() -> None:
    others = {"first": [Span(A, 0, 100), Span(B, 50, 60)]}
    require_no_overlap("q", planned=[Span(A, 100, 200), Span(B, 0, 50), Span(B, 60, 61)], others=others)
    with pytest.raises(LoadRefused, match="to load t-1 59 to 70, and query first has put t-1 50 to 60 into the table"):
        require_no_overlap("q", planned=[Span(B, 59, 70)], others=others)


def dead(dead_letters: int, most: int | None, fraction: float) -> None:
    require_few_dead_letters(
        4,
        rows=100 - dead_letters,
        dead_letters=dead_letters,
        most=most,
        most_fraction=fraction,
        example="The first: x. ",
    )


def test_over_the_limit_of_dead_letters_nothing_is_committed() -> None:
    dead(0, 0, 0)
    dead(10, 10, 0.1)
    with pytest.raises(LoadRefused, match=r"11 of 100 records of batch 4 .*max_dead_letters = 10; .*The first: x"):
        dead(11, 10, 1)
    with pytest.raises(LoadRefused, match=r"max_dead_letter_fraction = 0.1; nothing of the batch was committed"):
        dead(11, None, 0.1)


def test_event_time_is_complete_up_to_the_slowest_partition() -> None:
    assert watermark_of({}) is None
    assert watermark_of({A: 10, B: 7}) == 7
