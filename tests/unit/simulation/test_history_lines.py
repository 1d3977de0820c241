"""Histories as lines of JSON: what is written is read back, also after a client was killed in the middle of a line."""

from random import Random

import pytest

from barnabas.simulation.history import History, Outcome
from barnabas.simulation.history_lines import BadHistoryLine, HistoryWriter, read_history, write_history
from tests.unit.simulation.histories import OTHER, PARTITION, a_valid_history


def lines_of(history: History) -> list[str]:
    lines: list[str] = []
    write_history(history, lines.append)
    return lines


def test_a_history_is_read_back_as_it_was(seed: int) -> None:
    history = a_valid_history(Random(seed), steps=200)
    history.allow_deletion(OTHER, 7)
    history.produce("p", PARTITION, b"\xff\x00", 0, acks=1, idempotent=False)
    lines = lines_of(history)
    assert all(line.endswith("\n") and line.count("\n") == 1 for line in lines)
    assert read_history(lines) == history


def test_files_of_several_clients_make_one_history() -> None:
    one, two = History(), History()
    one.produce("p", PARTITION, b"a", 1).ok(0, 2)
    two.poll("c", PARTITION, 3, position=0, final=True).ok([(0, b"a")], 4, high_watermark=1, leader_epoch=0)
    both = read_history(lines_of(two), read_history(lines_of(one)))
    assert both.produces == one.produces
    assert both.polls == two.polls


def test_an_operation_whose_client_died_is_unknown() -> None:
    history, lines = History(), list[str]()
    writer = HistoryWriter(lines.append)
    operation = history.produce("p", PARTITION, b"a", 1)
    writer.invoke(operation)
    operation.ok(0, 2)
    writer.end(operation)
    read = read_history([lines[0], lines[1][:10]])
    assert [one.outcome for one in read.produces[PARTITION]] == [Outcome.UNKNOWN]
    assert read_history(lines) == history


@pytest.mark.parametrize(
    "lines",
    [
        ['{"type":"pro\n'],
        ['{"type":"pro', '{"type":"txn","name":"x","outcome":"ok"}\n'],
        ['{"type":"surprise","n":0}\n'],
        ['{"type":"ok","n":0,"at":1}\n'],
        ['{"type":"txn","name":"x","outcome":"perhaps"}\n'],
    ],
    ids=["whole line", "torn in the middle", "unknown type", "end without beginning", "unknown outcome"],
)
def test_a_line_that_makes_no_sense_is_refused(lines: list[str]) -> None:
    with pytest.raises(BadHistoryLine):
        read_history(lines)
