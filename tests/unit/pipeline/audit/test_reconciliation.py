"""Tiers of drawn records: what is lost, doubled, changed or made up is found, what is explained is not."""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipeline.audit.findings import (
    Finding,
    Kind,
    OffsetRange,
    compare_offset,
    describe,
    gather_ranges,
    without_compacted,
)
from barnabas.pipeline.audit.reconciliation import Tiers, Verdict, reconcile, suspicious
from barnabas.pipeline.audit.tallies import HOUR_MS, NOTHING, Cell, Tally, add_up, hour_of, hour_text

T0 = Cell("t", 0, 0)


def record(cell: Cell, offset: int, *, content: int | None = None, place: int | None = None) -> tuple[Cell, Tally]:
    content = hash((cell.topic, offset, "content")) % 2**64 if content is None else content
    place = hash((cell, offset)) % 2**64 if place is None else place
    return cell, Tally(1, content, place, offset, offset)


def sent(tallies: Mapping[Cell, Tally]) -> dict[Cell, Tally]:
    """As producers tell it."""
    return {cell: replace(tally, places=0) for cell, tally in tallies.items()}


def unbalanced(verdicts: Iterable[Verdict]) -> dict[Cell, list[str]]:
    return {each.cell: list(each.differences) for each in verdicts if not each.balances}


CELLS = st.builds(Cell, st.sampled_from(["t", "u"]), st.integers(0, 1), st.sampled_from([0, HOUR_MS]))
LOGS = st.dictionaries(st.integers(0, 200), CELLS, min_size=1, max_size=60)


def of_log(log: Mapping[int, Cell]) -> list[tuple[Cell, Tally]]:
    return [record(cell, offset) for offset, cell in log.items()]


@given(LOGS, st.data())
def test_equal_tiers_balance_however_they_were_counted(log: dict[int, Cell], data: st.DataObject) -> None:
    records = of_log(log)
    dead = data.draw(st.sets(st.sampled_from(sorted(log))))
    shuffled = data.draw(st.permutations(records))
    table = [each for each in shuffled if each[1].least_offset not in dead]
    tiers = Tiers(
        topic=add_up(records),
        table=add_up(table),
        dead_letters=add_up(each for each in shuffled if each[1].least_offset in dead),
        producers=sent(add_up(records)),
    )
    assert suspicious(tiers) == []
    assert unbalanced(reconcile(tiers)) == {}
    assert [each.cell for each in reconcile(tiers)] == sorted(set(log.values()))


@given(LOGS, st.data())
def test_one_planted_mistake_is_found_in_its_cell_alone(log: dict[int, Cell], data: st.DataObject) -> None:
    records = of_log(log)
    offset = data.draw(st.sampled_from(sorted(log)))
    at = list(log).index(offset)
    table = list(records)
    match data.draw(st.sampled_from(["loss", "duplicate", "content", "time"])):
        case "loss":
            del table[at]
        case "duplicate":
            table.append(table[at])
        case "content":
            table[at] = record(log[offset], offset, content=1)
        case "time":
            table[at] = record(log[offset], offset, place=1)
    tiers = Tiers(topic=add_up(records), table=add_up(table), producers=sent(add_up(records)))
    assert suspicious(tiers) == [log[offset]]
    assert list(unbalanced(reconcile(tiers))) == [log[offset]]


def test_a_loss_and_a_duplicate_of_equal_records_do_not_hide_each_other() -> None:
    one, two = record(T0, 5, content=9), record(T0, 6, content=9)
    tiers = Tiers(topic=add_up([one, two]), table=add_up([one, one]))
    assert unbalanced(reconcile(tiers)) == {
        T0: ["the topic has 2 records and the lake has as many, at other offsets or times (checksums differ)"]
    }


def test_what_was_found_offset_by_offset_names_the_difference() -> None:
    tiers = Tiers(topic=add_up(record(T0, at) for at in range(130)), table=add_up(record(T0, at) for at in range(100)))
    ranges = {T0: [OffsetRange(Kind.MISSING, 100, 129)]}
    assert unbalanced(reconcile(tiers, ranges=ranges)) == {T0: ["offsets 100 to 129 missing in the lake (30 records)"]}


def test_records_that_nobody_has_any_more_are_told_by_producers() -> None:
    written = add_up(record(T0, at) for at in range(10, 20))
    left = add_up(record(T0, at) for at in range(10, 19))
    tiers = Tiers(topic=left, table=left, producers=sent(written))
    assert unbalanced(reconcile(tiers)) == {
        T0: ["producers counted 10 records, there are 9, which they wrote at offsets 10 to 19"]
    }
    nobody_counted = Tiers(topic=left, table=left, producers={})
    assert unbalanced(reconcile(nobody_counted)) == {T0: ["producers counted 0 records, there are 9"]}
    assert unbalanced(reconcile(replace(nobody_counted, producers=None))) == {}


def test_producers_are_compared_with_what_came_later_and_what_retention_took() -> None:
    old, now, later = ([record(T0, at) for at in span] for span in (range(3), range(3, 7), range(7, 9)))
    tiers = Tiers(
        topic=add_up(now),
        table=add_up(now),
        expired=add_up(old),
        beyond=add_up(later),
        producers=sent(add_up(old + now + later)),
    )
    assert unbalanced(reconcile(tiers)) == {}
    assert list(unbalanced(reconcile(replace(tiers, expired={})))) == [T0]


def test_what_compaction_removed_since_is_borne_in_compacted_topics_alone() -> None:
    all_of_it = [record(T0, at) for at in range(6)]
    tiers = Tiers(topic=add_up(all_of_it[4:]), table=add_up(all_of_it), producers=sent(add_up(all_of_it)))
    found = gather_ranges(Finding(T0, at, Kind.EXTRA, 1) for at in range(4))
    ranges, explained = without_compacted(found, {"t"})
    (verdict,) = reconcile(tiers, compacted_topics={"t"}, ranges=ranges, explained=explained)
    assert verdict.balances
    assert verdict.notes == [
        "4 records of the lake have been compacted away in the topic",
        "producers counted 6; how many of them were compacted away nobody knows",
    ]
    ranges, explained = without_compacted(found, set())
    (verdict,) = reconcile(tiers, ranges=ranges, explained=explained)
    assert verdict.differences == [
        "offsets 0 to 3 in the lake and not in the topic (4 records)",
        "producers counted 6 records, there are 2, which they wrote at offsets 0 to 5",
    ]


def test_a_record_that_a_compacted_topic_has_and_the_lake_has_not_is_missing() -> None:
    tiers = Tiers(topic=add_up([record(T0, 8), record(T0, 9)]), table=add_up([record(T0, 1), record(T0, 9)]))
    found = gather_ranges([Finding(T0, 1, Kind.EXTRA, 1), Finding(T0, 8, Kind.MISSING, 0)])
    ranges, explained = without_compacted(found, {"t"})
    assert unbalanced(reconcile(tiers, compacted_topics={"t"}, ranges=ranges, explained=explained)) == {
        T0: ["offset 8 missing in the lake (1 record)"]
    }


@pytest.mark.parametrize(
    ("topic_records", "lake_records", "content", "place", "kind"),
    [
        (1, 1, True, True, None),
        (0, 0, True, True, None),
        (1, 0, False, False, Kind.MISSING),
        (0, 1, False, False, Kind.EXTRA),
        (1, 2, True, True, Kind.DUPLICATE),
        (0, 2, False, False, Kind.DUPLICATE),
        (1, 1, False, True, Kind.CHANGED),
        (1, 1, True, False, Kind.MOVED),
    ],
)
def test_an_offset_differs_by_how_often_it_is_there_and_then_by_what_it_holds(
    topic_records: int, lake_records: int, content: bool, place: bool, kind: Kind | None
) -> None:
    found = compare_offset(
        topic_records=topic_records, lake_records=lake_records, content_is_equal=content, place_is_equal=place
    )
    assert found is kind


@given(st.sets(st.integers(0, 40)))
def test_ranges_hold_the_offsets_that_were_found_and_no_others(offsets: set[int]) -> None:
    ranges = gather_ranges(Finding(T0, at, Kind.MISSING, 0) for at in offsets).get(T0, [])
    assert {at for each in ranges for at in range(each.first, each.last + 1)} == offsets
    assert all(one.last + 1 < two.first for one, two in itertools.pairwise(ranges))


def test_kinds_are_named_apart_and_copies_are_counted() -> None:
    found = [Finding(T0, 7, Kind.DUPLICATE, 3), Finding(T0, 8, Kind.DUPLICATE, 2), Finding(T0, 9, Kind.CHANGED, 1)]
    assert describe(gather_ranges(found)[T0]) == [
        "offsets 7 to 8 more than once in the lake (2 records, 3 rows too many)",
        "offset 9 with another key or value in the lake (1 record)",
    ]


def test_of_many_ranges_the_first_are_named() -> None:
    ranges = gather_ranges(Finding(T0, 2 * at, Kind.MISSING, 0) for at in range(25))[T0]
    (text,) = describe(ranges)
    assert "36, 38 and 5 ranges more missing in the lake (25 records)" in text


def test_sums_wrap_and_unknown_offsets_do_not_count() -> None:
    assert Tally(1, 2**64 - 1, 5, 7, 7) + Tally(2, 3, 2**64 - 5) == Tally(3, 2, 0, 7, 7)
    assert NOTHING + NOTHING == NOTHING


def test_hours_begin_at_whole_hours_before_1970_too() -> None:
    assert hour_of(-1) == -HOUR_MS
    assert hour_of(HOUR_MS) == HOUR_MS
    assert hour_text(1_700_000_000_000 // HOUR_MS * HOUR_MS) == "2023-11-14T22:00Z"
    assert hour_text(2**62) == f"{2**62} ms"
