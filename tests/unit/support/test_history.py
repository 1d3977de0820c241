"""The checker of histories finds each anomaly that is planted, and nothing in a history that is well."""

from collections.abc import Callable, Sequence
from random import Random

import pytest

from barnabas.protocol.ids import TopicPartition
from tests.support.history import History, Written, find_anomalies, read_value, value_of

PARTITION = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)
Records = dict[TopicPartition, list[tuple[int, bytes]]]


def a_good_run(random: Random, *, count: int = 60) -> tuple[History, Records]:
    """Two producers into two partitions; the last records of each are written and not acknowledged."""
    history = History()
    read: Records = {PARTITION: [], OTHER: []}
    for number in range(count):
        written = history.next_to_send(random.choice([PARTITION, OTHER]), random.choice(["p", "q"]))
        log = read[written.topic_partition]
        if number < count - 4:
            history.acknowledge(written, len(log))
        log.append((len(log), value_of(written, size_bytes=60)))
    return history, read


def test_a_value_tells_where_it_belongs() -> None:
    written = Written(OTHER, "p", 17)
    value = value_of(written, size_bytes=100)
    assert len(value) == 100
    assert read_value(value) == written


@pytest.mark.parametrize("place", [0, 3, 30, 99])
def test_a_changed_value_is_not_read(place: int) -> None:
    value = bytearray(value_of(Written(OTHER, "p", 17), size_bytes=100))
    value[place] ^= 1
    assert read_value(bytes(value)) is None


def test_nothing_is_found_where_all_is_well(seed: int) -> None:
    random = Random(seed)
    for _ in range(50):
        assert find_anomalies(*a_good_run(random)) == []


def test_a_record_that_was_given_up_may_be_there_or_not() -> None:
    history, read = History(), {PARTITION: []}  # type: tuple[History, Records]
    for offset in range(3):
        history.fail(history.next_to_send(PARTITION, "p"), "timed out")
        if offset:
            read[PARTITION].append((offset - 1, value_of(Written(PARTITION, "p", offset), size_bytes=50)))
    assert find_anomalies(history, read) == []


def lose_the_first(read: Records) -> None:
    read[PARTITION] = [(offset - 1, value) for offset, value in read[PARTITION][1:]]


def leave_a_gap(read: Records) -> None:
    read[PARTITION] = [(offset + (offset > 3), value) for offset, value in read[PARTITION]]


def repeat_an_offset(read: Records) -> None:
    read[PARTITION].insert(4, read[PARTITION][3])


def write_one_twice(read: Records) -> None:
    again = read[PARTITION][2][1]
    read[PARTITION].append((len(read[PARTITION]), again))


def swap_two_of_one_producer(read: Records) -> None:
    log = read[PARTITION]
    mine = [place for place, (_, value) in enumerate(log) if read_value(value).producer == "p"]  # type: ignore[union-attr]
    first, second = mine[:2]
    log[first], log[second] = (first, log[second][1]), (second, log[first][1])


def flip_a_bit(read: Records) -> None:
    offset, value = read[PARTITION][5]
    read[PARTITION][5] = (offset, value[:-20] + b"!" + value[-19:])


def put_it_into_another_partition(read: Records) -> None:
    read[PARTITION].append((len(read[PARTITION]), read[OTHER][0][1]))


def invent_a_record(read: Records) -> None:
    value = value_of(Written(PARTITION, "p", 10_000), size_bytes=50)
    read[PARTITION].append((len(read[PARTITION]), value))


def forget_a_partition(read: Records) -> None:
    del read[OTHER]


@pytest.mark.parametrize(
    ("plant", "found"),
    [
        (lose_the_first, "lost"),
        (leave_a_gap, "gap"),
        (repeat_an_offset, "repeat"),
        (write_one_twice, "twice"),
        (swap_two_of_one_producer, "order"),
        (flip_a_bit, "damage"),
        (put_it_into_another_partition, "never sent here"),
        (invent_a_record, "never sent here"),
        (forget_a_partition, "lost"),
    ],
)
def test_a_planted_anomaly_is_found(plant: Callable[[Records], None], found: str, seed: int) -> None:
    history, read = a_good_run(Random(seed))
    plant(read)
    assert _kinds(find_anomalies(history, read)) >= {found}


def test_two_records_with_one_offset_are_found() -> None:
    history = History()
    for _ in range(2):
        history.acknowledge(history.next_to_send(PARTITION, "p"), 0)
    read = {PARTITION: [(0, value_of(Written(PARTITION, "p", 0), size_bytes=50))]}
    assert _kinds(find_anomalies(history, read)) == {"one offset for several", "lost"}


def _kinds(anomalies: Sequence[str]) -> set[str]:
    return {anomaly.split(": ")[1] for anomaly in anomalies}
