"""Negotiation, pipelining, deadlines and what a connection does with nonsense."""

import asyncio
from collections.abc import Callable, Iterable

import pytest

from barnabas.client.connection import Address, Connection, open_connection
from barnabas.client.errors import ConnectionFailed, ProtocolViolation, RequestTimedOut, UnsupportedByBroker
from barnabas.client.transport import connect_tcp
from barnabas.protocol.batch import Buffer
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages import create_acls, fetch, metadata
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.unit.client.small_cluster import Asked, Hangup, SmallCluster


async def connect(small: SmallCluster) -> Connection:
    return await open_connection(Address("127.0.0.1", small.ports[1]), connector=connect_tcp, timeout_ms=3000)


async def bare_server(answer: Callable[[bytes], bytes | None]) -> tuple[asyncio.Server, Address]:
    """A peer that answers each frame with raw bytes, or by ending the connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            except (asyncio.IncompleteReadError, ConnectionError):
                break
            reply = answer(frame)
            if reply is None:
                break
            writer.write(reply)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    return server, Address("127.0.0.1", server.sockets[0].getsockname()[1])


async def test_each_api_is_used_in_the_newest_version_of_both() -> None:
    async with SmallCluster(newest={ApiKey.METADATA: 5}) as small:
        connection = await connect(small)
        assert (connection.version_of(metadata.API), connection.version_of(fetch.API)) == (5, 12)
        assert connection.version_of(fetch.API, most=4) == 4
        await connection.request(metadata.API, MetadataRequest(None))
        assert small.asked[-1].header.api_version == 5
        assert small.asked[-1].header.client_id == "barnabas"
        with pytest.raises(UnsupportedByBroker, match="versions 0 to 5; 7 to 9 would do"):
            connection.version_of(metadata.API, least=7)
        with pytest.raises(UnsupportedByBroker, match="CREATE_ACLS"):
            connection.version_of(create_acls.API)
        connection.close()


@pytest.mark.parametrize("newest", [0, 1, 2, 3])
async def test_a_broker_of_any_age_is_asked_for_its_versions_again(newest: int) -> None:
    async with SmallCluster(newest={ApiKey.API_VERSIONS: newest}) as small:
        connection = await connect(small)
        assert [asked.header.api_version for asked in small.asked] == [newest]
        assert connection.version_of(metadata.API) == 9
        connection.close()


async def test_a_refusal_without_a_table_falls_back_to_version_0() -> None:
    def answer(frame: bytes) -> bytes:
        version, correlation_id = int.from_bytes(frame[2:4], "big"), frame[4:8]
        body = correlation_id + (b"\0\x23" + bytes(4) if version else b"\0\0" + bytes.fromhex("00000001000300000001"))
        return len(body).to_bytes(4, "big") + body

    server, address = await bare_server(answer)
    async with server:
        connection = await open_connection(address, connector=connect_tcp)
        assert connection.version_of(metadata.API) == 1
        connection.close()


async def test_requests_go_out_before_answers_are_there(small: SmallCluster) -> None:
    release = asyncio.Event()

    async def hold(asked: Asked) -> MetadataResponse | None:
        if len(small.asked) == 2:
            await release.wait()
        return None

    small.on_request = hold
    connection = await connect(small)
    requests = [asyncio.ensure_future(connection.request(metadata.API, MetadataRequest([]))) for _ in range(20)]
    await asyncio.sleep(0)
    release.set()
    answers = await asyncio.gather(*requests)
    assert all(isinstance(answer, MetadataResponse) for answer in answers)
    assert [asked.header.correlation_id for asked in small.asked] == list(range(21))
    connection.close()


async def test_a_cancelled_request_leaves_the_connection_to_the_others(small: SmallCluster) -> None:
    release = asyncio.Event()

    async def hold(asked: Asked) -> None:
        if asked.key is ApiKey.METADATA:
            await release.wait()

    small.on_request = hold
    connection = await connect(small)
    first = asyncio.ensure_future(connection.request(metadata.API, MetadataRequest([])))
    second = asyncio.ensure_future(connection.request(metadata.API, MetadataRequest([])))
    await asyncio.sleep(0)
    first.cancel()
    release.set()
    assert isinstance(await second, MetadataResponse)
    assert connection.is_open
    connection.close()


async def test_no_answer_in_time_ends_the_connection(small: SmallCluster) -> None:
    small.on_request = lambda asked: asyncio.sleep(60) if asked.key is ApiKey.METADATA else None
    connection = await connect(small)
    with pytest.raises(RequestTimedOut, match="no answer to METADATA"):
        await connection.request(metadata.API, MetadataRequest([]), timeout_ms=20)
    assert not connection.is_open
    with pytest.raises(ConnectionFailed, match="no answer to METADATA"):
        await connection.request(metadata.API, MetadataRequest([]))


async def never_on_metadata(asked: Asked) -> None:
    if asked.key is ApiKey.METADATA:
        await asyncio.Event().wait()


@pytest.mark.parametrize("patient_first", [True, False])
async def test_each_request_has_a_time_of_its_own(small: SmallCluster, patient_first: bool) -> None:
    small.on_request = never_on_metadata
    connection = await connect(small)
    times_ms = (60_000, 20) if patient_first else (20, 60_000)
    requests = [connection.request(metadata.API, MetadataRequest([]), timeout_ms=each) for each in times_ms]
    async with asyncio.timeout(10):
        outcomes = await asyncio.gather(*requests, return_exceptions=True)
    impatient = outcomes[patient_first]
    assert isinstance(impatient, RequestTimedOut)
    assert "in 20 ms" in str(impatient)
    assert "ended: no answer to METADATA in 20 ms" in str(outcomes[not patient_first])


async def test_an_answer_in_time_does_not_save_a_later_request_that_gets_none(small: SmallCluster) -> None:
    connection = await connect(small)
    await connection.request(metadata.API, MetadataRequest([]), timeout_ms=30)
    small.on_request = never_on_metadata
    async with asyncio.timeout(10):
        with pytest.raises(RequestTimedOut, match="in 40 ms"):
            await connection.request(metadata.API, MetadataRequest([]), timeout_ms=40)


async def test_a_connection_ends_in_time_also_where_the_caller_has_gone(small: SmallCluster) -> None:
    small.on_request = never_on_metadata
    connection = await connect(small)
    gone = asyncio.ensure_future(connection.request(metadata.API, MetadataRequest([]), timeout_ms=20))
    await asyncio.sleep(0)
    gone.cancel()
    waiting = asyncio.ensure_future(connection.request(metadata.API, MetadataRequest([]), timeout_ms=10_000))
    done, _ = await asyncio.wait([waiting], timeout=5)
    assert "no answer to METADATA in 20 ms" in str(done.pop().exception())
    assert not connection.is_open


class Stuffed:
    """A channel to a peer that takes nothing more."""

    is_writable = False
    closed = False

    def send(self, parts: Iterable[Buffer]) -> None:
        raise AssertionError("there is no room")

    async def drained(self) -> None:
        await asyncio.Event().wait()

    def close(self) -> None:
        self.closed = True


async def test_a_peer_that_takes_nothing_is_given_up_in_time(small: SmallCluster) -> None:
    connection = await connect(small)
    connection.close()
    stuffed, other = Stuffed(), Connection(connection.address, "test")
    other.attach(stuffed)
    with pytest.raises(RequestTimedOut, match="no room for API_VERSIONS in 20 ms"):
        await other.negotiate(20)
    assert stuffed.closed
    assert not other.is_open


async def test_nor_does_a_request_without_an_answer_wait_longer_for_it(small: SmallCluster) -> None:
    connection = await connect(small)
    connection._channel, channel = Stuffed(), connection._channel
    with pytest.raises(RequestTimedOut, match="no room for METADATA in 20 ms"):
        await connection.send_only(metadata.API, MetadataRequest([]), timeout_ms=20)
    assert connection._channel.closed
    assert not connection.is_open
    channel.close()


async def test_a_lost_connection_fails_what_waits_for_it(small: SmallCluster) -> None:
    def hang_up(asked: Asked) -> None:
        if asked.key is ApiKey.METADATA:
            raise Hangup

    small.on_request = hang_up
    connection = await connect(small)
    requests = [connection.request(metadata.API, MetadataRequest([])) for _ in range(3)]
    outcomes = await asyncio.gather(*requests, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ConnectionFailed] * 3
    assert not connection.is_open


async def test_nobody_listens() -> None:
    server, address = await bare_server(lambda _: None)
    server.close()
    with pytest.raises(ConnectionFailed, match=str(address.port)):
        await open_connection(address, connector=connect_tcp)


async def test_a_peer_that_hangs_up_at_once() -> None:
    server, address = await bare_server(lambda _: None)
    async with server:
        with pytest.raises(ConnectionFailed):
            await open_connection(address, connector=connect_tcp)


async def test_a_peer_that_says_nothing() -> None:
    server, address = await bare_server(lambda _: b"")
    async with server:
        with pytest.raises(ConnectionFailed, match="in 20 ms"):
            await open_connection(address, connector=connect_tcp, timeout_ms=20)


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(b"\x7f\xff\xff\xff", id="2 GB announced"),
        pytest.param(b"\xff\xff\xff\xff", id="a negative size"),
        pytest.param(b"\0\0\0\x02\0\0", id="a frame too short for a correlation id"),
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", id="another protocol"),
        pytest.param(b"\0\0\0\x06\0\0\0\x63\0\0", id="an answer to what was not asked"),
    ],
)
async def test_a_peer_that_does_not_speak_the_protocol(reply: bytes) -> None:
    server, address = await bare_server(lambda _: reply)
    async with server:
        with pytest.raises(ConnectionFailed):
            await open_connection(address, connector=connect_tcp, timeout_ms=2000)


async def test_an_answer_that_cannot_be_read() -> None:
    server, address = await bare_server(lambda frame: b"\0\0\0\x06" + frame[4:8] + b"\0\0")
    async with server:
        with pytest.raises(ProtocolViolation, match="API_VERSIONS"):
            await open_connection(address, connector=connect_tcp)
