"""A fetcher's connection: to where its leader is, opened anew when that is elsewhere, with each reason told once."""

import logging
from typing import Any

import pytest

from barnabas.client.connection import Address
from barnabas.client.errors import ConnectionFailed
from replication.fetcher_ports import FetchCount, FetcherPorts
from replication.leader_line import LeaderLine
from replication.quota import ReplicationQuota
from tests.support.clock import ManualClock
from tests.unit.replication.replica_world import OTHER

HERE, THERE = Address("here", 9092), Address("there", 9092)


class Wire:
    def __init__(self, address: Address) -> None:
        self.address = address
        self.is_open = True

    def close(self, reason: str) -> None:
        assert reason
        self.is_open = False


class World:
    """Broker 2 is at `address`, and connected to by `wires`."""

    def __init__(self) -> None:
        self.address: Address | None = HERE
        self.wires: list[Wire] = []
        self.line = LeaderLine(
            OTHER,
            "a fetcher",
            FetcherPorts(
                clock=ManualClock(),
                spawn=no_task,
                endpoint_of=lambda leader_id: self.address if leader_id == OTHER else None,
                connect=self.connect,
                count=FetchCount(),
                quota=ReplicationQuota(),
            ),
        )

    async def connect(self, address: Address, name: str) -> Any:
        assert name == "a fetcher"
        self.wires.append(Wire(address))
        return self.wires[-1]


def no_task(*_: object, **__: object) -> Any:
    raise AssertionError("nothing goes on beside it")


async def test_there_is_one_connection_and_it_is_to_where_the_leader_is() -> None:
    world = World()
    line = world.line
    assert line.current() is None
    assert await line.open() is line.current() is world.wires[0]
    world.address = THERE
    assert line.current() is None
    assert await line.open() is line.current()
    assert [(wire.address, wire.is_open) for wire in world.wires] == [(HERE, False), (THERE, True)]
    world.wires[1].is_open = False
    assert line.current() is None
    world.address = None
    with pytest.raises(ConnectionFailed, match="broker 2 is not known to live"):
        await line.open()


async def test_failures_are_counted_until_it_works_and_a_reason_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = World()
    line = world.line
    await line.open()
    caplog.clear()
    for reason in ("gone", "gone", "refused"):
        line.lose(ConnectionFailed(reason))
        assert line.current() is None
        await line.open()
    assert line.failures == 3
    line.works()
    line.works()
    assert line.failures == 0
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        "a fetcher: cannot fetch from broker 2: gone",
        "a fetcher: cannot fetch from broker 2: refused",
        "a fetcher: fetches from broker 2 again",
    ]
    line.lose(ConnectionFailed("refused"))
    assert caplog.records[-1].getMessage() == "a fetcher: cannot fetch from broker 2: refused", "it had worked again"
