import asyncio

import pytest

from zk_schema.ops import Create, Created, OutcomeUnknown, SessionLost, Stat, Znode
from zk_schema.pipeline import GetData, PipelinedSession, Ticket, Write
from zk_schema.port import DataChanged, Disconnected, Resync, ZooKeeperEvent

ZNODE = Znode(b"x", Stat(1, 1, 0, 0, 0, 0, 0, 0))


class Carried(PipelinedSession):
    """A session whose carrier only remembers what it was given."""

    def __init__(self, max_in_flight: int) -> None:
        self.sent: list[Ticket] = []
        self.heard: list[ZooKeeperEvent] = []
        super().__init__(self.sent.append, max_in_flight=max_in_flight)
        self.listen(self.heard.append)

    @property
    def paths(self) -> list[str]:
        return [
            ticket.request.operations[0].path if isinstance(ticket.request, Write) else ticket.request.path
            for ticket in self.sent
        ]

    def answer(self, position: int) -> None:
        ticket = self.sent[position]
        answer = ZNODE if isinstance(ticket.request, GetData) else (Created(self.paths[position]),)
        self._on_answer(ticket, ticket.generation, answer)


async def begun(*calls: "asyncio.Task[object]") -> None:
    """Let the calls reach the session."""
    await asyncio.wait(calls, timeout=0)


def get(session: Carried, path: str) -> "asyncio.Task[object]":
    return asyncio.ensure_future(session.get(path))


def create(session: Carried, path: str) -> "asyncio.Task[object]":
    return asyncio.ensure_future(session.write(Create(path)))


async def test_no_more_requests_are_under_way_than_the_window_allows() -> None:
    session = Carried(2)
    session._on_connected(7)
    calls = [get(session, f"/{number}") for number in range(5)]
    await begun(*calls)
    assert session.paths == ["/0", "/1"]
    session.answer(1)
    assert session.paths == ["/0", "/1", "/2"]
    session.answer(0)
    session.answer(2)
    assert session.paths == ["/0", "/1", "/2", "/3", "/4"]
    session.answer(3)
    session.answer(4)
    assert await asyncio.gather(*calls) == [ZNODE] * 5


async def test_reads_under_way_are_sent_again_before_what_waited_and_writes_are_not() -> None:
    session = Carried(3)
    session._on_connected(7)
    calls = [get(session, "/a"), create(session, "/b"), get(session, "/c"), create(session, "/d"), get(session, "/e")]
    await begun(*calls)
    session._on_disconnected()
    session._on_connected(7)
    assert session.paths == ["/a", "/b", "/c", "/a", "/c", "/d"]
    for position in (3, 4, 5, 6):
        session.answer(position)
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(result) for result in results] == [Znode, OutcomeUnknown, Znode, list, Znode]


async def test_an_answer_of_an_earlier_connection_is_dropped() -> None:
    session = Carried(3)
    session._on_connected(7)
    call = get(session, "/a")
    await begun(call)
    late, generation = session.sent[0], session.sent[0].generation
    session._on_disconnected()
    session._on_connected(7)
    session._on_answer(late, generation, Znode(b"old", ZNODE.stat))
    assert not call.done()
    session.answer(1)
    assert await call == ZNODE


async def test_an_event_of_an_earlier_connection_is_dropped() -> None:
    session = Carried(3)
    session._on_connected(7)
    generation = session._generation
    session._on_event(DataChanged("/a"), generation)
    session._on_disconnected()
    session._on_event(DataChanged("/b"), generation)
    session._on_event(DataChanged("/c"), session._generation)
    session._on_connected(7)
    session._on_event(DataChanged("/d"), generation)
    assert session.heard == [Resync(7, True), DataChanged("/a"), Disconnected(), Resync(7, False)]


async def test_without_a_session_nothing_is_asked() -> None:
    session = Carried(3)
    with pytest.raises(SessionLost):
        await session.get("/a")
    session._on_connected(7)
    session._on_expired()
    assert (session.session_id, session.previous_session_id) == (0, 7)
    with pytest.raises(SessionLost):
        await session.write(Create("/a"))
    session._on_connected(8)
    assert session.heard[-1] == Resync(8, True)
    assert session.previous_session_id == 7


async def test_no_znode_stands_at_what_is_no_path() -> None:
    session = Carried(3)
    session._on_connected(7)
    for path in ("", "a", "/a/", "//a", "/a/./b", "/\x00"):
        assert await session.get(path, watch=True) is None
        assert await session.exists(path) is None
        assert await session.children(path) is None
    assert session.sent == []
