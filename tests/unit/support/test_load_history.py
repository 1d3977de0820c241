"""A load's history finds each anomaly that is planted in a full read, and nothing in one that is well."""

from collections.abc import Callable
from random import Random

import pytest

from barnabas.protocol.ids import TopicPartition
from tests.support.load_history import LoadHistory

PARTITION = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)
Records = dict[TopicPartition, list[tuple[int, bytes]]]


def a_good_run(random: Random, *, count: int = 60) -> tuple[LoadHistory, Records]:
    """Two producers into two partitions; the last records are written and not acknowledged."""
    history = LoadHistory()
    read: Records = {PARTITION: [], OTHER: []}
    for number in range(count):
        where = (PARTITION, OTHER)[number % 2]
        sent = history.send(where, random.choice(["p", "q"]), size_bytes=60)
        if number < count - 4:
            history.acknowledge(sent, len(read[where]))
        read[where].append((len(read[where]), sent.value))
    return history, read


def test_nothing_is_found_where_all_is_well(seed: int) -> None:
    random = Random(seed)
    for _ in range(20):
        history, read = a_good_run(random)
        assert history.anomalies(read) == []
        assert (history.sent_count, history.acknowledged_count, history.acknowledged_end(OTHER)) == (60, 56, 28)


def test_what_was_given_up_may_be_there_or_not() -> None:
    history = LoadHistory()
    sent = [history.send(PARTITION, "p", size_bytes=50) for _ in range(3)]
    for one in sent:
        history.give_up(one, "timed out")
    assert history.anomalies({PARTITION: [(0, sent[1].value), (1, sent[2].value)]}) == []
    assert history.given_up == sent


def lose_the_first(read: Records) -> None:
    read[PARTITION] = [(offset - 1, value) for offset, value in read[PARTITION][1:]]


def lose_the_last_acknowledged(read: Records) -> None:
    del read[PARTITION][27:]


def leave_a_hole(read: Records) -> None:
    last, value = read[PARTITION][-1]
    read[PARTITION][-1] = (last + 1, value)


def write_one_twice(read: Records) -> None:
    read[PARTITION].append((len(read[PARTITION]), read[PARTITION][5][1]))


def exchange_two(read: Records) -> None:
    records = read[PARTITION]
    records[3], records[4] = (3, records[4][1]), (4, records[3][1])


def change_a_byte(read: Records) -> None:
    offset, value = read[PARTITION][7]
    read[PARTITION][7] = offset, value[:-1] + b"!"


def take_from_another(read: Records) -> None:
    read[PARTITION][-1] = (len(read[PARTITION]) - 1, read[OTHER][-1][1])


def read_only_one(read: Records) -> None:
    del read[PARTITION]


@pytest.mark.parametrize(
    ("plant", "found"),
    [
        (lose_the_first, "lost"),
        (lose_the_last_acknowledged, "unseen"),
        (leave_a_hole, "was due"),
        (write_one_twice, "duplicate"),
        (exchange_two, "inconsistent offsets"),
        (change_a_byte, "changed"),
        (take_from_another, "changed"),
        (read_only_one, "not read"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_planted_anomaly_is_found(seed: int, plant: Callable[[Records], None], found: str) -> None:
    history, read = a_good_run(Random(seed))
    plant(read)
    anomalies = history.anomalies(read)
    assert any(found in text for text in anomalies), anomalies
