"""Offsets of the source and of the target: nothing is left out, whatever is known."""

import random

from barnabas.pipeline.mirror.offset_map import MOST_SYNCS, Reached, Sync, Syncs, Translated, translate
from barnabas.pipeline.mirror.state_records import encode_value, read_syncs, syncs_record


def translated(offset: int, syncs: list[Sync], reached: Reached, **changes: int) -> Translated:
    known = {"partition": 0, "begin": 0, "log_start": 0, "log_end": 1000} | changes
    return translate(offset, syncs, reached, is_one_to_one=True, **known)  # type: ignore[arg-type]


def test_neighbours_become_one_sync() -> None:
    syncs = Syncs()
    for source, target, length in ((5, 100, 3), (8, 103, 2), (10, 106, 1), (12, 107, 1)):
        syncs.add(source, target, length)
    assert syncs.thinned() == [Sync(5, 100, 5), Sync(10, 106, 1), Sync(12, 107, 1)]


def test_an_offset_within_a_sync_is_exact() -> None:
    syncs = [Sync(5, 100, 5), Sync(20, 106, 2)]
    reached = Reached(22, {0: 108})
    assert translated(5, syncs, reached) == (100, True)
    assert translated(9, syncs, reached) == (104, True)
    assert translated(10, syncs, reached) == (105, True), "behind the last one"
    assert translated(15, syncs, reached) == (105, False), "in a gap: the next record is behind it"
    assert translated(21, syncs, reached) == (107, True)
    assert translated(22, syncs, reached) == (108, True)


def test_before_the_mirror_began_all_of_it_is_left() -> None:
    syncs = [Sync(5, 100, 5)]
    assert translated(2, syncs, Reached(10, {0: 105}), begin=5) == (100, False)
    assert translated(5, syncs, Reached(10, {0: 105}), begin=5) == (100, True)


def test_a_group_that_is_ahead_of_the_mirror_goes_to_its_end() -> None:
    assert translated(50, [Sync(5, 100, 5)], Reached(10, {0: 105})) == (105, False)


def test_what_is_forgotten_begins_at_the_start_of_the_log() -> None:
    assert translated(2, [Sync(5, 100, 5)], Reached(10, {0: 105}), log_start=40) == (40, False)
    assert translated(2, [], Reached(10, {0: 105}), log_start=40) == (40, False)


def test_where_nothing_ever_went_what_comes_stands_at_the_end() -> None:
    assert translated(2, [], Reached(10, {}), log_end=77) == (77, False)
    assert translated(10, [], Reached(10, {}), log_end=77) == (77, True)


def test_thinned_or_lost_syncs_leave_nothing_out(seed: int) -> None:
    """Each record is at its translated offset or behind it, whichever syncs are left; all of them make it exact."""
    draw = random.Random(seed)
    for _ in range(50):
        source = target = 0
        places: dict[int, int] = {}
        syncs = Syncs()
        for _ in range(draw.choice([5, 3 * MOST_SYNCS])):
            source += draw.choice([0, 0, 1, 5])
            target += draw.choice([0, 1, 2])
            length = draw.randint(1, 4)
            syncs.add(source, target, length)
            places |= {source + each: target + each for each in range(length)}
            source, target = source + length, target + length
        kept = syncs.thinned()
        assert 1 <= len(kept) <= MOST_SYNCS
        assert kept[0].source == min(places), "without the first one, all from the log's start on would come again"
        reached = Reached(source, {0: target})
        for offset in range(source + 3):
            found = translated(offset, kept, reached, log_end=target)
            left = [place for each, place in places.items() if each >= offset]
            assert all(found.offset <= place for place in left)
            if found.is_exact:
                assert found.offset > max((place for each, place in places.items() if each < offset), default=-1)


def test_syncs_come_back_as_they_were_written_and_only_for_their_log() -> None:
    raw = encode_value(syncs_record(3, {1: [Sync(1, 2, 3)], 7: [Sync(4, 5, 0)]}))
    assert read_syncs(raw, 3) == {1: [Sync(1, 2, 3)], 7: [Sync(4, 5, 0)]}
    assert read_syncs(raw, 2) == {}
    assert read_syncs(b"junk", 3) == {}
    assert read_syncs(None, 3) == {}
