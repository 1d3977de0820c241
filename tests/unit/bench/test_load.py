"""How a load is shared out, what it makes of answers, and the bare loop that it reads."""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import bare_sendfile, frames
from bench.load import Endpoint, Refused, answer_check, run, shared_out, shares
from tests.unit.bench.small_broker import fetched, produced


def test_connections_share_requests_out_as_runs_of_neighbours() -> None:
    requests = [bytes([number]) for number in range(10)]
    parts = shared_out(Endpoint("127.0.0.1", 1, 4, requests))
    assert [part.connections for part in parts] == [1, 1, 1, 1]
    assert b"".join(b"".join(part.requests) for part in parts) == bytes(range(10))
    assert len(shared_out(Endpoint("127.0.0.1", 1, 4, requests[:2]))) == 2


@pytest.mark.parametrize(
    ("answers", "counts"),
    [(24, [[4, 4], [4, 4], [4, 4]]), (7, [[1, 1], [1, 1], [2, 1]]), (None, [[None, None]] * 3)],
)
def test_answers_are_shared_out_before_anybody_is_faster(answers: int | None, counts: list[list[int | None]]) -> None:
    endpoints = [Endpoint("127.0.0.1", 1, 2, [b"first", b"second"]) for _ in range(3)]
    assert shares(endpoints, answers) == counts


def test_a_leader_of_more_partitions_gets_more() -> None:
    endpoints = [Endpoint("127.0.0.1", 1, 1, [b"x"] * partitions) for partitions in (2, 1)]
    assert shares(endpoints, 30) == [[20], [10]]


@contextlib.contextmanager
def server(*, connections: int, answer: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """Answers each byte that it hears; yields its port and what it heard."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def talk(peer: socket.socket) -> None:
            with peer, contextlib.suppress(ConnectionError):
                while data := peer.recv(1):
                    heard.append(data)
                    peer.sendall(struct.pack(">i", len(answer)) + answer)

        def accept() -> None:
            for _ in range(connections):
                threading.Thread(target=talk, args=(listening.accept()[0],), daemon=True).start()

        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        yield listening.getsockname()[1], heard
        accepting.join()


def test_each_request_is_sent_once() -> None:
    with server(connections=3, answer=b"x") as (port, heard):
        endpoint = Endpoint("127.0.0.1", port, 3, [bytes([number]) for number in range(7)])
        told = run([endpoint], window=2, check=lambda _: None, once=True)
    assert told["answers"] == 7
    assert sorted(heard) == [bytes([number]) for number in range(7)]


def test_every_partition_gets_the_same() -> None:
    with server(connections=2, answer=b"x") as (port, heard):
        endpoint = Endpoint("127.0.0.1", port, 2, [b"0", b"1", b"2"])
        run([endpoint], window=4, check=lambda _: None, answers=12)
    assert {each: heard.count(each) for each in heard} == {b"0": 4, b"1": 4, b"2": 4}


@pytest.mark.parametrize(("answer_bytes", "is_looked_at"), [(40, True), (1024, True), (1025, False), (300_000, False)])
def test_small_answers_are_looked_at_whole(answer_bytes: int, is_looked_at: bool) -> None:
    seen: list[bytes] = []
    answer = bytes(range(256)) * (answer_bytes // 256) + bytes(answer_bytes % 256)
    with server(connections=1, answer=answer) as (port, _):
        told = run([Endpoint("127.0.0.1", port, 1, [b"x"])], window=2, check=seen.append, answers=3)
    assert (told["answers"], told["answer_bytes"]) == (3, 3 * answer_bytes)
    assert seen == ([answer] * 3 if is_looked_at else [])


def test_an_answer_that_is_refused_ends_the_load() -> None:
    with (
        server(connections=1, answer=produced(6)) as (port, _),
        pytest.raises(Refused, match="error 6"),
    ):
        run([Endpoint("127.0.0.1", port, 1, [b"x"])], window=2, check=answer_check("produce", "topic"), answers=3)


def test_errors_and_fetches_without_records_are_refused() -> None:
    answer_check("produce", "topic")(produced(0))
    answer_check("fetch", "topic")(fetched(0, b"x"))
    with pytest.raises(Refused, match="error 19"):
        answer_check("produce", "topic")(produced(19))
    with pytest.raises(Refused, match="without records, error 1"):
        answer_check("fetch", "topic")(fetched(1, b""))
    with pytest.raises(Refused, match="without records, error 0"):
        answer_check("fetch", "topic")(fetched(0, b""))


def test_the_bare_loop_serves_the_place_that_is_asked_for(tmp_path: Path) -> None:
    mebibyte = bare_sendfile.ANSWER_BYTES
    files = [tmp_path / name for name in "ab"]
    for file in files:
        file.write_bytes(b"".join((file.name + str(part)).encode() * (mebibyte // 2) for part in range(3)))
    for buffer_bytes in (0, 102_400):
        with bare_sendfile.serving(files, send_buffer_bytes=buffer_bytes) as port:
            asked = [(0, 0), (1, mebibyte), (1, 2 * mebibyte + 5), (0, mebibyte)]
            assert [first_bytes(port, *place) for place in asked] == [b"a0", b"b1", b"b2", b"a1"]


def first_bytes(port: int, number: int, position: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), 10) as peer, peer.makefile("rb") as answers:
        peer.sendall(frames.fetch("none", [(number, position)], max_bytes=1))
        (size,) = struct.unpack(">i", answers.read(4))
        body = answers.read(size)
    assert len(body) == bare_sendfile.ANSWER_BYTES
    return body[:2]
