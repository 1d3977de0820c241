import asyncio
from collections.abc import AsyncIterator

import pytest

from barnabas.protocol.ids import BrokerId, ControllerEpoch
from controller.campaign import Campaign, Holder
from controller.state import Term
from tests.support.clock import ManualClock
from tests.unit.controller.cluster import until
from zk_schema import paths
from zk_schema.json_text import InvalidPayload
from zk_schema.memory import MemorySession, MemoryZooKeeper
from zk_schema.ops import Create, Delete, Set

ONE, TWO = BrokerId(1), BrokerId(2)


class Candidate:
    def __init__(self, zk: MemoryZooKeeper, broker: BrokerId) -> None:
        self.session = MemorySession(zk)
        self.campaign = Campaign(broker, self.session, ManualClock())


@pytest.fixture
def zk() -> MemoryZooKeeper:
    return MemoryZooKeeper()


@pytest.fixture
async def one(zk: MemoryZooKeeper) -> AsyncIterator[Candidate]:
    candidate = Candidate(zk, ONE)
    await candidate.session.open()
    yield candidate
    await candidate.session.close()


@pytest.fixture
async def two(zk: MemoryZooKeeper) -> AsyncIterator[Candidate]:
    candidate = Candidate(zk, TWO)
    await candidate.session.open()
    yield candidate
    await candidate.session.close()


def text(zk: MemoryZooKeeper, path: str) -> bytes | None:
    znode = zk.tree.get(path)
    return None if znode is None else znode.data


async def test_the_winner_raises_the_epoch_and_its_fence_is_the_version(zk: MemoryZooKeeper, one: Candidate) -> None:
    assert await one.campaign.stand() == Term(ONE, ControllerEpoch(1), 1)
    assert text(zk, paths.CONTROLLER_EPOCH) == b"1"
    assert await one.campaign.look() == Holder(ONE, is_us=True)


async def test_only_one_wins(one: Candidate, two: Candidate) -> None:
    assert await one.campaign.stand() is not None
    assert await two.campaign.stand() is None
    assert await two.campaign.look() == Holder(ONE, is_us=False)


async def test_the_fence_is_the_znodes_version_whatever_number_it_holds(one: Candidate) -> None:
    await one.session.write(Create(paths.CONTROLLER_EPOCH, b"40"))
    await one.session.write(Set(paths.CONTROLLER_EPOCH, b"41"))
    assert await one.campaign.stand() == Term(ONE, ControllerEpoch(42), 2)


async def test_without_a_readable_epoch_nobody_stands(zk: MemoryZooKeeper, one: Candidate) -> None:
    await one.session.write(Create(paths.CONTROLLER_EPOCH, b"many"))
    with pytest.raises(InvalidPayload):
        await one.campaign.stand()
    assert text(zk, paths.CONTROLLER) is None


@pytest.mark.parametrize("applied", [True, False])
async def test_an_election_of_unknown_outcome_is_looked_up(
    zk: MemoryZooKeeper, one: Candidate, *, applied: bool
) -> None:
    await one.session.write(Create(paths.CONTROLLER_EPOCH, b"0"))
    term = await stand_and_cut(zk, one, applied=applied)
    assert term == (Term(ONE, ControllerEpoch(1), 1) if applied else None)
    assert (text(zk, paths.CONTROLLER) is not None) == applied


async def stand_and_cut(zk: MemoryZooKeeper, candidate: Candidate, *, applied: bool) -> Term | None:
    """Cut the connection when the election is on its way to ZooKeeper."""
    is_away: list[bool] = []

    def hand_over(ticket: object) -> None:
        original(ticket)  # type: ignore[arg-type]
        if "Set(" in repr(ticket) and not is_away:
            is_away.append(True)
            zk.disconnect(candidate.session, apply_under_way=applied)

    original = candidate.session._send
    candidate.session._send = hand_over
    try:
        return await candidate.campaign.stand()
    finally:
        assert is_away


async def test_an_election_of_unknown_outcome_that_another_won_is_lost(
    zk: MemoryZooKeeper, one: Candidate, two: Candidate
) -> None:
    # Two wins with the epoch that one tried for, while one's connection is away.
    await one.session.write(Create(paths.CONTROLLER_EPOCH, b"0"))

    def hand_over(ticket: object) -> None:
        if "Set(" in repr(ticket):
            one.session._send = original
            zk.disconnect(one.session, hold=True, apply_under_way=False)
        else:
            original(ticket)  # type: ignore[arg-type]

    original = one.session._send
    one.session._send = hand_over
    standing = asyncio.create_task(one.campaign.stand())
    await until(lambda: not one.session.is_connected)
    assert await two.campaign.stand() == Term(TWO, ControllerEpoch(1), 1)
    zk.release(one.session)
    assert await standing is None


async def test_who_resigns_leaves_the_office_vacant(zk: MemoryZooKeeper, one: Candidate) -> None:
    term = await one.campaign.stand()
    assert term is not None
    await one.campaign.resign(term)
    assert text(zk, paths.CONTROLLER) is None
    assert await one.campaign.stand() == Term(ONE, ControllerEpoch(2), 2)


async def test_who_was_replaced_does_not_remove_its_successor(
    zk: MemoryZooKeeper, one: Candidate, two: Candidate
) -> None:
    term = await one.campaign.stand()
    assert term is not None
    await one.session.write(Delete(paths.CONTROLLER))
    assert await two.campaign.stand() is not None
    await one.campaign.resign(term)
    await one.campaign.vacate()
    assert await two.campaign.look() == Holder(TWO, is_us=True)


async def test_what_an_earlier_term_left_is_removed(zk: MemoryZooKeeper, one: Candidate) -> None:
    await one.campaign.stand()
    await one.session.write(Set(paths.CONTROLLER_EPOCH, b"9"))
    await one.campaign.vacate()
    assert text(zk, paths.CONTROLLER) is None
