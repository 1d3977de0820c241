"""What each key of replication does: from its text to what a leader is asked."""

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.runtime.network import Connection, FrameSink
from barnabas.runtime.offload import SystemOffload
from barnabas.runtime.socket_network import SocketNetwork
from barnabas.runtime.tasks import Supervisor
from broker.config_keys.key import ConfigError
from broker.fetching import fetcher_settings, peer_options
from broker.system_ports import open_network
from replication.log_moves import LogMoves
from tests.support.virtual_time import turns, virtual_time
from tests.unit.broker.small_broker import make_config
from tests.unit.replication.following import Following, open_following
from tests.unit.replication.replica_world import ME, ReplicaWorld, append_now
from tests.unit.runtime.test_socket_network import Sink

FEW = [TopicPartition("t", number) for number in range(6)]


async def following(**keys: str) -> Following:
    config = make_config({name.replace("_", "."): text for name, text in keys.items()})
    return await open_following(settings=fetcher_settings(config, ME))


async def after_two_seconds(**keys: str) -> Following:
    """Six partitions of four batches of 1 000 bytes, followed."""
    made = await following(**keys)
    for at in FEW:
        its = made.leader.add(at)
        for _ in range(4):
            its.write(b"v" * 900)
        await made.follow(at)
    await asyncio.sleep(2)
    return made


@virtual_time
async def test_a_leader_has_as_many_fetchers_as_told() -> None:
    made = await after_two_seconds(num_replica_fetchers="2")
    assert len(made.leader.connections) == 2
    await made.stop()


@virtual_time
async def test_a_leader_has_as_many_fetchers_as_it_is_told_later() -> None:
    made = await after_two_seconds(num_replica_fetchers="1")
    for count, connections in (("2", 2), ("4", 4), ("1", 1)):
        made.fetchers.change_count(int(count), made.world.replicas.partitions())
        for at in FEW:
            made.leader.logs[at].write(b"v" * 900)
        await asyncio.sleep(2)
        assert sum(each.is_open for each in made.leader.connections) == connections
        assert all(made.has_all(at) for at in FEW)
    await made.stop()


@virtual_time
async def test_a_fetch_asks_for_the_bytes_and_the_time_that_were_told() -> None:
    made = await after_two_seconds(
        replica_fetch_min_bytes="7",
        replica_fetch_max_bytes="2500",
        replica_fetch_response_max_bytes="5000",
        replica_fetch_wait_max_ms="200",
    )
    first, *_, last = made.leader.fetches()
    assert (first.min_bytes, first.max_bytes) == (7, 5000)
    assert {each.partition_max_bytes for topic in first.topics for each in topic.partitions} == {2500}
    assert last.max_wait_ms == 200
    assert all(made.has_all(at) for at in FEW)
    await made.stop()


@virtual_time
async def test_an_error_is_tried_again_after_the_backoff() -> None:
    asked = {}
    for backoff in ("100", "2000"):
        made = await following(replica_fetch_backoff_ms=backoff)
        made.leader.add(FEW[0])
        made.leader.errors[FEW[0]] = ErrorCode.NOT_LEADER_OR_FOLLOWER
        await made.follow(FEW[0])
        await asyncio.sleep(20)
        asked[backoff] = len(made.leader.asked)
        await made.stop()
    assert asked["100"] > 150
    assert asked["2000"] < 20


@virtual_time
async def test_a_leader_that_does_not_answer_is_left_after_the_timeout() -> None:
    made = await after_two_seconds(replica_socket_timeout_ms="1000")
    made.leader.is_hung = True
    await asyncio.sleep(1.6)
    assert not made.leader.connections[0].is_open
    await made.stop()


def test_a_fetch_must_not_wait_longer_than_its_answer_is_waited_for() -> None:
    with pytest.raises(ConfigError, match=r"replica\.socket\.timeout\.ms"):
        make_config({"replica.fetch.wait.max.ms": "2000", "replica.socket.timeout.ms": "1000"})
    with pytest.raises(ConfigError, match=r"replica\.lag\.time\.max\.ms"):
        make_config({"replica.fetch.wait.max.ms": "2000", "replica.lag.time.max.ms": "1000"})
    with pytest.raises(ConfigError, match=r"num\.replica\.fetchers"):
        make_config({"num.replica.fetchers": "0"})


@pytest.fixture
async def network() -> AsyncIterator[SocketNetwork]:
    supervisor = Supervisor(lambda what, error: pytest.fail(f"{what}: {error!r}"))
    offload = SystemOffload()
    made = open_network(make_config(), offload, supervisor)
    yield made
    made.close()
    await supervisor.stop()
    offload.close()


async def test_the_connection_to_a_leader_has_the_buffer_that_was_told(network: SocketNetwork) -> None:
    sinks: list[Sink] = []

    def accept(connection: Connection) -> FrameSink:
        sinks.append(Sink(connection))
        return sinks[-1]

    listener = await network.listen("127.0.0.1", 0)
    listener.start(accept)
    sizes = {}
    for text in (None, "20000"):
        config = make_config({} if text is None else {"replica.socket.receive.buffer.bytes": text})
        made = await network.connect("127.0.0.1", listener.port, accept, options=peer_options(config))
        sizes[text] = made._socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        assert made._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000
    assert sizes["20000"] == 40_000
    assert sizes[None] != 40_000


@virtual_time
async def test_as_many_replicas_move_at_a_time_as_told() -> None:
    for given, expected in (({}, 3), ({"num.replica.alter.log.dirs.threads": "1"}, 1)):
        config = make_config({"log.dirs": "/logs0,/logs1,/logs2"} | given)
        world = await ReplicaWorld(directories=3).open()
        moves = LogMoves(world.ports, world.offload, at_once=config.replica_moves_at_once)
        world.offload.hold("move")
        for at in FEW:
            append_now(await world.lead(at=at))
        for number, at in enumerate(FEW):
            destination = f"/logs{(number + 1) % 3}"
            assert moves.order(at, world.partition(at), destination, is_known=True) is ErrorCode.NONE
        await turns(50)
        assert moves.at_work == expected
        world.offload.release("move")
        await moves.stop()
    with pytest.raises(ConfigError, match=r"num\.replica\.alter\.log\.dirs\.threads"):
        make_config({"num.replica.alter.log.dirs.threads": "0"})
