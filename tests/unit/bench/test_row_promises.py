"""What a row's name promises is what its brokers are told and how it is measured."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.side_by_side.__main__ import all_rows
from bench.side_by_side.row import Row
from tests.unit.bench.chosen_answers import run_on
from tests.unit.bench.small_broker import FETCH, PRODUCE, TOPIC, SmallBroker, small_broker

SESSION = "zookeeper.session.timeout.ms"


def rows_with(text: str) -> list[Row]:
    found = [row for row in all_rows() if text in row.name]
    assert found, f"no row has {text} in its name"
    return found


def test_no_name_occurs_twice() -> None:
    assert [name for name, count in Counter(row.name for row in all_rows()).items() if count > 1] == []


@pytest.mark.parametrize(("told", "brokers"), [("RF 3", 3), ("RF 1", 1)])
def test_there_are_as_many_brokers_as_replicas(told: str, brokers: int) -> None:
    assert {row.name: row.brokers for row in rows_with(told)} == {row.name: brokers for row in rows_with(told)}


def test_all_replicas_are_waited_for_where_there_are_three() -> None:
    assert {row.name for row in rows_with("acks=all")} == {row.name for row in rows_with("RF 3")}
    assert {row.name for row in rows_with("acks=1 ")} == {row.name for row in rows_with("RF 1")}


def test_full_validation_is_told_and_nothing_else_is_of_barnabas_only() -> None:
    full = (("barnabas.record.validation", "full"),)
    rows_with("full validation")
    wanted = {row.name: full if "full validation" in row.name else () for row in all_rows()}
    assert {row.name: row.own_properties for row in all_rows()} == wanted


def test_failovers_have_three_brokers_with_a_short_session_and_share_them_with_nobody() -> None:
    for row in rows_with("failover"):
        assert row.brokers == 3, row.name
        assert SESSION in dict(row.properties), row.name
        assert row.restarts, row.name
    assert [row.name for row in all_rows() if row.restarts] == [row.name for row in rows_with("failover")]


class Pinned:
    """A small broker that notes where it is pinned, and what it had heard by then. Its log is there already."""

    def __init__(self, broker: SmallBroker, directory: Path) -> None:
        self._broker = broker
        self.directory = directory
        log = directory / "broker-1/logs" / f"{TOPIC}-0" / "0.log"
        log.parent.mkdir(parents=True)
        log.write_bytes(bytes(1000))
        self.ports, self.bootstrap, self.topic = broker.ports, broker.bootstrap, broker.topic
        self.systems, self.note = broker.systems, broker.note
        self.pins: list[tuple[Sequence[int] | None, Counter[int]]] = []

    def heard(self) -> Counter[int]:
        return Counter({key: len(self._broker.asked(key)) for key in (PRODUCE, FETCH)})

    def pin(self, cpus: Sequence[int] | None) -> None:
        self.pins.append((cpus, self.heard()))


@pytest.fixture
def client_cpus(monkeypatch: pytest.MonkeyPatch) -> list[set[int]]:
    """To what clients were pinned."""
    told: list[set[int]] = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, cpus: told.append(set(cpus)))
    return told


@pytest.mark.parametrize("row", rows_with("pinned"), ids=lambda row: row.name)
def test_brokers_are_pinned_while_the_load_runs_and_its_client_beside_them(
    row: Row, client_cpus: list[set[int]], tmp_path: Path
) -> None:
    every = sorted(os.sched_getaffinity(0))
    with small_broker() as broker:
        pinned = Pinned(broker, tmp_path)
        row.measure(run_on(pinned, tmp_path))
        after = pinned.heard()
    (brokers, before), (unpinned, done) = pinned.pins
    assert (brokers, unpinned) == (every[:-1] or every, None)
    assert client_cpus == [{every[-1]}]
    # All that is measured: nothing of it came before or behind.
    kind = PRODUCE if row.name.startswith("produce") else FETCH
    assert before[kind] == 0
    assert (done - before).keys() == {kind}
    assert done == after


def test_nobody_is_pinned_where_the_name_says_nothing_of_it(client_cpus: list[set[int]], tmp_path: Path) -> None:
    (row,) = rows_with("produce, broker-bound, 100 B, 1 partition, acks=1 RF 1")[:1]
    with small_broker() as broker:
        pinned = Pinned(broker, tmp_path)
        row.measure(run_on(pinned, tmp_path))
    assert pinned.pins == []
    assert client_cpus == []
