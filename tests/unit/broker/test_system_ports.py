"""From the configuration to the machine's network and ZooKeeper session."""

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from barnabas.runtime.offload import SystemOffload
from barnabas.runtime.socket_network import SocketNetwork
from barnabas.runtime.tasks import Supervisor
from broker.config_keys.key import ConfigError
from broker.system_ports import DEFAULT_RECEIVE_BYTES, open_network
from broker.zookeeper_session import open_zookeeper
from tests.unit.broker.small_broker import make_config
from zk_schema.ops import ZooKeeperUnreachable
from zk_schema.session import KazooSession


@pytest.fixture
async def supervisor() -> AsyncIterator[Supervisor]:
    supervisor = Supervisor(lambda what, error: pytest.fail(f"{what}: {error!r}"))
    yield supervisor
    await supervisor.stop()


def network(supervisor: Supervisor, **keys: str) -> SocketNetwork:
    config = make_config({name.replace("_", "."): text for name, text in keys.items()})
    return open_network(config, SystemOffload(), supervisor)


async def test_what_is_not_set_is_kafkas_but_for_buffers(supervisor: Supervisor) -> None:
    opened = network(supervisor)
    options = opened._options
    assert (options.max_frame_bytes, options.idle_ms) == (104857600, 600_000)
    assert (options.send_buffer_bytes, options.receive_buffer_bytes) == (None, None)
    assert opened.budget.limit_bytes == DEFAULT_RECEIVE_BYTES
    assert opened._gate._limits.max_total == 2**31 - 1


@pytest.mark.parametrize(("text", "expected"), [("102400", 102400), ("5000", 5000), ("-1", -1)])
async def test_a_buffer_that_is_set_has_that_size(supervisor: Supervisor, text: str, expected: int) -> None:
    options = network(supervisor, socket_send_buffer_bytes=text, socket_receive_buffer_bytes=text)._options
    assert (options.send_buffer_bytes, options.receive_buffer_bytes) == (expected, expected)


@pytest.mark.parametrize(("text", "expected"), [("1000", 1000), ("-1", DEFAULT_RECEIVE_BYTES)])
async def test_memory_for_requests_is_bounded_in_any_case(supervisor: Supervisor, text: str, expected: int) -> None:
    keys = {"queued_max_request_bytes": text, "socket_request_max_bytes": "1000"}
    assert network(supervisor, **keys).budget.limit_bytes == expected


async def test_hosts_with_a_limit_of_their_own_are_found_by_address(supervisor: Supervisor) -> None:
    opened = network(supervisor, max_connections_per_ip="1", max_connections_per_ip_overrides="localhost:2,10.0.0.9:0")
    gate = opened._gate
    addresses = {str(entry[4][0]) for entry in socket.getaddrinfo("localhost", None)}
    for address in addresses:
        assert [gate.admit(address) for _ in range(3)] == [True, True, False]
    assert not gate.admit("10.0.0.9")
    assert [gate.admit("10.0.0.8") for _ in range(2)] == [True, False]


@pytest.mark.parametrize("host", ["no..host", "no host", "x" * 70])
async def test_a_host_that_cannot_be_found_is_named_with_its_key(supervisor: Supervisor, host: str) -> None:
    with pytest.raises(ConfigError, match=r"max\.connections\.per\.ip\.overrides"):
        network(supervisor, max_connections_per_ip_overrides=f"{host}:2")


@pytest.mark.parametrize("host", ["no..host", "no host"])
async def test_a_name_that_no_host_has_cannot_be_bound(supervisor: Supervisor, host: str) -> None:
    with pytest.raises(OSError, match=r"host|Name"):
        await network(supervisor).listen(host, 0)


async def test_a_zookeeper_that_does_not_answer_is_given_up_after_its_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    config = make_config({"zookeeper.connect": f"127.0.0.1:{port}", "zookeeper.connection.timeout.ms": "200"})
    async with asyncio.timeout(10):
        with pytest.raises(ZooKeeperUnreachable):
            await open_zookeeper(config)


@pytest.mark.parametrize("connect", ["", "host:port", "a:1,,b:1", "localhost:2181//x"])
async def test_a_zookeeper_connect_that_cannot_be_is_named_with_what_is_allowed(connect: str) -> None:
    with pytest.raises(ConfigError, match=r"^zookeeper\.connect is '.*'; allowed is host:port pairs") as refused:
        await open_zookeeper(make_config({"zookeeper.connect": connect}))
    assert refused.value.value == connect


async def test_the_session_is_asked_for_with_its_timeout() -> None:
    asked: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = int.from_bytes(await reader.readexactly(4))
        request = await reader.readexactly(size)
        if not asked.done():
            asked.set_result(request)
        writer.close()

    async with await asyncio.start_server(hear, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        keys = {"zookeeper.session.timeout.ms": "7123", "zookeeper.connection.timeout.ms": "300"}
        with pytest.raises(ZooKeeperUnreachable):
            await open_zookeeper(make_config({"zookeeper.connect": f"127.0.0.1:{port}"} | keys))
    # A ConnectRequest: version of the protocol, last zxid seen, timeout.
    assert int.from_bytes((await asked)[12:16]) == 7123


async def test_no_more_requests_go_to_zookeeper_at_once_than_were_told(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    class Session(KazooSession):
        async def open(self, *, timeout_ms: int) -> None:
            made.append(self._max_in_flight)

    monkeypatch.setattr("broker.zookeeper_session.KazooSession", Session)
    for given, expected in (({}, 10), ({"zookeeper.max.in.flight.requests": "3"}, 3)):
        await open_zookeeper(make_config({"zookeeper.connect": "127.0.0.1:1"} | given))
        assert made.pop() == expected
