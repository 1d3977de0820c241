"""A broker's place in the cluster: its ids, its registration, and that the registration outlives a session."""

import asyncio
import random

import pytest

from barnabas.protocol.ids import BrokerId
from barnabas.runtime.tasks import Supervisor
from broker.membership import Membership, MembershipRefused
from tests.support.clock import ManualClock
from tests.support.virtual_time import turns, virtual_time
from tests.unit.broker.small_broker import make_config
from zk_schema import paths
from zk_schema.cluster_id import create_path
from zk_schema.memory import MemorySession, MemoryZooKeeper
from zk_schema.ops import Create, Set
from zk_schema.payloads import BrokerRegistration, Endpoint

ME = BrokerId(1)
SESSION_MS = 6000


class Member:
    """A broker on its way into a cluster."""

    def __init__(self, server: MemoryZooKeeper | None = None, **keys: str) -> None:
        given = {name.replace("_", "."): text for name, text in keys.items()}
        self.config = make_config({"zookeeper.session.timeout.ms": str(SESSION_MS)} | given)
        self.server = server or MemoryZooKeeper()
        self.zk = MemorySession(self.server, session_timeout_ms=SESSION_MS)
        self.failed: list[str] = []
        self.clock = ManualClock()
        self.supervisor = Supervisor(lambda what, error: self.failed.append(f"{what}: {error}"))
        self.membership = Membership(self.zk, self.config, clock=self.clock, supervisor=self.supervisor)

    async def open(self) -> "Member":
        await self.zk.open()
        await self.membership.cluster_id(random.Random(1))
        return self

    async def join(self, **ports: int) -> None:
        await self.membership.join(ME, ports or {"PLAINTEXT": 4321}, "127.0.0.1:9")

    @property
    def epoch(self) -> int:
        return self.membership.broker_epoch

    def registration(self) -> BrokerRegistration | None:
        znode = self.server.tree.get(paths.broker(ME))
        return None if znode is None else BrokerRegistration.decode(znode.data)

    def owner(self) -> int | None:
        znode = self.server.tree.get(paths.broker(ME))
        return None if znode is None else znode.stat.ephemeral_owner

    def czxid(self) -> int | None:
        znode = self.server.tree.get(paths.broker(ME))
        return None if znode is None else znode.stat.czxid


async def another_session(server: MemoryZooKeeper, *, registers: bool = False) -> MemorySession:
    session = MemorySession(server, session_timeout_ms=SESSION_MS)
    await session.open()
    if registers:
        held = BrokerRegistration((Endpoint("PLAINTEXT", "elsewhere", 1, "PLAINTEXT"),), 0).encode()
        await session.write(Create(paths.broker(ME), held, ephemeral=True))
    return session


# Ids.


@virtual_time
async def test_the_first_broker_makes_the_clusters_id_and_the_others_find_it() -> None:
    first = Member()
    await first.zk.open()
    made = await first.membership.cluster_id(random.Random(1))
    second = Member(first.server)
    await second.zk.open()
    assert await second.membership.cluster_id(random.Random(2)) == made
    assert len(made) == 22
    for path in paths.PERSISTENT_PATHS:
        assert first.server.tree.get(path) is not None


@virtual_time
async def test_a_cluster_id_that_cannot_be_read_is_told() -> None:
    member = Member()
    await member.zk.open()
    await create_path(member.zk, paths.CLUSTER_ID, b"nonsense")
    with pytest.raises(MembershipRefused, match="/cluster/id"):
        await member.membership.cluster_id(random.Random(1))


@pytest.mark.parametrize(
    ("configured", "stored", "expected"), [("5", None, 5), ("5", 5, 5), ("-1", 7, 7), ("0", None, 0), ("0", 0, 0)]
)
def test_the_id_is_the_configured_one_or_the_stored_one(configured: str, stored: int | None, expected: int) -> None:
    @virtual_time
    async def run() -> None:
        member = await Member(broker_id=configured).open()
        assert await member.membership.broker_id(None if stored is None else BrokerId(stored)) == expected

    run()


@virtual_time
async def test_an_id_that_differs_from_the_stored_one_is_refused_with_both() -> None:
    member = await Member(broker_id="5").open()
    with pytest.raises(MembershipRefused, match=r"broker\.id=5.*says 6"):
        await member.membership.broker_id(BrokerId(6))
    with pytest.raises(MembershipRefused, match=r"broker\.id=5.*says 0"):
        await member.membership.broker_id(BrokerId(0))
    zero = await Member(broker_id="0").open()
    with pytest.raises(MembershipRefused, match=r"broker\.id=0.*says 6"):
        await zero.membership.broker_id(BrokerId(6))


@virtual_time
async def test_ids_that_are_made_are_above_the_reserved_ones_and_differ() -> None:
    member = await Member(reserved_broker_max_id="50").open()
    assert [await member.membership.broker_id(None) for _ in range(3)] == [51, 52, 53]


# Joining.


@virtual_time
async def test_a_registration_tells_where_the_broker_is_and_lives_as_long_as_the_session() -> None:
    member = await Member(
        listeners="A://127.0.0.1:0,B://0.0.0.0:7000",
        advertised_listeners="A://a.example:0,B://b.example:70",
        listener_security_protocol_map="A:PLAINTEXT,B:PLAINTEXT",
        inter_broker_listener_name="A",
        broker_rack="r1",
    ).open()
    assert member.epoch == -1
    await member.join(A=4321, B=7000)
    told = member.registration()
    assert told is not None
    assert [str(endpoint) for endpoint in told.endpoints] == ["A://a.example:4321", "B://b.example:70"]
    assert (told.rack, told.control_endpoint, told.timestamp_ms) == ("r1", "127.0.0.1:9", member.clock.wall_ms())
    assert member.owner() == member.zk.session_id
    assert member.epoch == member.czxid()
    await member.zk.close()
    assert member.registration() is None


@virtual_time
async def test_an_id_that_another_session_holds_is_waited_for_and_then_refused() -> None:
    member = await Member().open()
    await another_session(member.server, registers=True)
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(MembershipRefused, match=r"broker\.id=1.*elsewhere"):
        await member.join()
    waited_ms = (loop.time() - began) * 1000
    assert SESSION_MS <= waited_ms <= SESSION_MS + 3000, "longer than a killed broker's session lives"
    assert member.epoch == -1


@virtual_time
async def test_a_broker_that_was_killed_and_started_again_joins_when_its_old_session_ends() -> None:
    member = await Member().open()
    old = await another_session(member.server, registers=True)
    joining = asyncio.get_running_loop().create_task(member.join())
    await turns(50)
    assert not joining.done()
    member.server.expire(old)
    await joining
    assert member.owner() == member.zk.session_id


# Staying.


@virtual_time
async def test_after_an_expiry_the_broker_registers_again_with_a_later_epoch() -> None:
    member = await Member().open()
    await member.join()
    first, told = member.epoch, member.registration()
    for _ in range(3):
        member.server.expire(member.zk)
        assert member.registration() is None
        await turns(50)
        assert member.owner() == member.zk.session_id
        assert member.registration() == told
        assert member.epoch == member.czxid()
        assert member.epoch > first
        first = member.epoch
    assert member.failed == []


@virtual_time
async def test_a_connection_that_was_away_for_less_than_the_session_changes_nothing() -> None:
    member = await Member().open()
    await member.join()
    epoch = member.epoch
    member.server.disconnect(member.zk, hold=True)
    await asyncio.sleep(SESSION_MS / 1000 - 1)
    member.server.release(member.zk)
    await turns(50)
    assert (member.epoch, member.czxid()) == (epoch, epoch)


@virtual_time
async def test_sessions_that_end_while_it_registers_again_do_not_end_the_broker() -> None:
    member = await Member().open()
    await member.join()
    for count in range(1, 30):
        member.server.expire(member.zk)
        await turns(count)
        member.server.expire(member.zk)
        await turns(100)
        assert member.owner() == member.zk.session_id, f"expired again after {count} turns"
        assert member.epoch == member.czxid()
    assert member.failed == []


@virtual_time
async def test_connections_that_go_while_it_registers_again_leave_one_registration() -> None:
    member = await Member().open()
    await member.join()
    for count in range(1, 30):
        for applied in (False, True):
            member.server.expire(member.zk)
            await turns(count)
            member.server.disconnect(member.zk, apply_under_way=applied)
            await asyncio.sleep(1)
            assert member.owner() == member.zk.session_id, f"cut after {count} turns"
            assert member.epoch == member.czxid()
    assert member.failed == []


@virtual_time
async def test_a_broker_whose_id_was_taken_meanwhile_ends_with_its_reason() -> None:
    member = await Member().open()
    await member.join()
    member.server.disconnect(member.zk, hold=True)
    await asyncio.sleep(SESSION_MS / 1000 + 1)
    thief = await another_session(member.server, registers=True)
    member.server.release(member.zk)
    await asyncio.sleep(SESSION_MS / 1000 + 5)
    assert len(member.failed) == 1
    assert member.failed[0].startswith("registration in ZooKeeper: broker.id=1")
    assert member.owner() == thief.session_id


@virtual_time
async def test_a_broker_that_stops_registers_no_more() -> None:
    member = await Member().open()
    await member.join()
    member.membership.stop()
    member.server.expire(member.zk)
    await asyncio.sleep(1)
    assert member.registration() is None


@virtual_time
async def test_a_broker_that_stops_while_it_registers_again_gives_up() -> None:
    member = await Member().open()
    await member.join()
    member.server.expire(member.zk)
    while member.membership._renewing is None:
        await turns(1)
    member.membership.stop()
    await asyncio.sleep(1)
    assert member.failed == []
    assert member.registration() is None
    # Without a join there is nothing to stop.
    (await Member().open()).membership.stop()


@virtual_time
async def test_what_somebody_else_writes_into_the_registration_is_left_alone_until_the_session_ends() -> None:
    member = await Member().open()
    await member.join()
    epoch = member.epoch
    tool = await another_session(member.server)
    other = BrokerRegistration((Endpoint("PLAINTEXT", "odd", 1, "PLAINTEXT"),), 0)
    await tool.write(Set(paths.broker(ME), other.encode(), -1))
    await turns(50)
    assert (member.registration(), member.epoch) == (other, epoch)
    member.server.expire(member.zk)
    await turns(50)
    assert member.registration() != other
